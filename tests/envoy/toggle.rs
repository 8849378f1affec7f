//! `envoy/toggle`: the filter switched off, to measuring and on under load, with refused configurations in between; and the
//! engine moved by its endpoint alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    bodies,
    client::Client,
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::{Envoy, Process},
    envoy_config::{connection_manager, read_bootstrap, read_yaml},
    invariants,
    provider::{Answer, Provider, short_completion},
    scene::{CHAT, assert_reduced, conversation},
    shipped,
};
use serde_json::{Value, json};

/// Envoy with the shipped files, moved to this machine's free ports.
struct Switch {
    envoy: Envoy,
    provider: Provider,
    folder: tempfile::TempDir,
}

/// One of the shipped files, with its settings changed.
fn response(name: &str, engine: &StubEngine, change: impl FnOnce(&mut Value)) -> Value {
    let mut response = read_yaml(&format!("envoy/toggle/{name}.yaml")).expect("a shipped file");
    let filter = &mut response["resources"][0]["typed_config"]["config"];
    shipped::set_filter(filter, |settings| {
        for (name, value) in [
            ("threshold_tokens", json!(1000)),
            ("preserve_recent", json!(2)),
            ("cost_gate", json!(false)),
            ("timeout_ms", json!(30_000)),
            ("endpoint", json!(engine.endpoint())),
        ] {
            settings[name] = value;
        }
        change(settings);
    })
    .expect("make wasm");
    response
}

impl Switch {
    async fn start(first: &Value) -> Self {
        let provider = Provider::start().expect("a provider");
        let folder = tempfile::tempdir().expect("a folder");
        let file = Self::file(folder.path());
        std::fs::write(&file, first.to_string()).expect("writable");
        let mut bootstrap = read_bootstrap("envoy/toggle/envoy.yaml").expect("the shipped bootstrap");
        shipped::set_provider(&mut bootstrap, provider.address());
        let manager = connection_manager(&mut bootstrap);
        manager.as_object_mut().map(|manager| manager.remove("access_log"));
        manager["http_filters"][0]["config_discovery"]["config_source"]["path_config_source"]["path"] = json!(file);
        let envoy = Envoy::start_bootstrap(&bootstrap, &Process::default()).await.expect("Envoy starts");
        Self { envoy, provider, folder }
    }

    fn file(folder: &Path) -> std::path::PathBuf {
        folder.join("filter.json")
    }

    /// Says whether Envoy took it.
    async fn to(&self, response: &Value) -> bool {
        let file = Self::file(self.folder.path());
        self.envoy.replace_discovered(&file, response).await.expect("Envoy answers")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_switch_loses_no_request_under_load() {
    let engine = StubEngine::start(Behaviour::by_hash()).unwrap();
    let switch = Arc::new(Switch::start(&response("off", &engine, |_| {})).await);
    // A third of the answers stream for a while.
    switch.provider.answer_with(|request| match request.number % 3 {
        0 => Answer::events(&["one", "two", "three"], Duration::from_millis(5)),
        _ => short_completion(),
    });
    let (done, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    const CLIENTS: usize = 6;
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (switch, done, sent) = (Arc::clone(&switch), Arc::clone(&done), Arc::clone(&sent));
        load.spawn(async move {
            // One connection each, kept open.
            let client = Client::http1(&switch.envoy.url()).unwrap();
            let mut bodies = Vec::new();
            while !done.load(Ordering::Relaxed) {
                for body in bodies::growing("gpt-4o", 12, 3000) {
                    let response = client.post(CHAT, body.clone()).await.expect("an answer");
                    assert_eq!((response.status, response.complete), (200, true), "{}", switch.envoy.log());
                    bodies.push(body);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
            bodies
        });
    }
    let some_more = async || {
        let goal = sent.load(Ordering::Relaxed) + 60;
        while sent.load(Ordering::Relaxed) < goal {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let count = async |name: &str| switch.envoy.metric(&format!("context_compaction.{name}")).await.unwrap();
    some_more().await;
    assert_eq!(count("requests").await, 0, "off");
    assert!(switch.to(&response("measure", &engine, |_| {})).await);
    some_more().await;
    let measured = count("requests_measured").await;
    assert!(measured > 0 && count("requests_reduced").await == 0, "measuring");
    let bad = response("on", &engine, |settings| settings["timeout_ms"] = json!(0));
    assert!(!switch.to(&bad).await, "refused");
    some_more().await;
    assert!(count("requests_measured").await > measured, "the last good one is kept");
    assert!(switch.to(&response("on", &engine, |_| {})).await);
    some_more().await;
    let reduced = count("requests_reduced").await;
    assert!(reduced > 0, "on");
    assert!(!switch.to(&bad).await, "refused");
    some_more().await;
    assert!(count("requests_reduced").await > reduced, "the last good one is kept");
    assert!(switch.to(&response("off", &engine, |_| {})).await);
    // Requests that were held by the old configuration finish with it.
    some_more().await;
    let before = count("requests").await;
    some_more().await;
    assert_eq!(count("requests").await, before, "off again");
    done.store(true, Ordering::Relaxed);
    let mut bodies = Vec::new();
    while let Some(finished) = load.join_next().await {
        bodies.extend(finished.expect("a client"));
    }
    let arrived = switch.provider.take();
    assert_eq!(arrived.len(), bodies.len(), "each request arrived once");
    let mut changed = 0;
    for request in arrived {
        if bodies.iter().any(|body| request.body == *body) {
            continue;
        }
        let goal = request.json().unwrap()["messages"][0]["content"].to_string();
        let sound = bodies.iter().filter(|body| memchr::memmem::find(body, goal.as_bytes()).is_some());
        let sound = sound.filter(|body| invariants::complaints(body, &request.body).is_empty()).count();
        assert!(sound > 0, "a body that is no reduction of one that was sent");
        changed += 1;
    }
    assert_eq!(changed, count("requests_reduced").await);
    for closed in ["downstream_cx_destroy_local", "downstream_cx_destroy_active_rq", "downstream_rq_rx_reset"] {
        let count = switch.envoy.counter(&format!("http.llm_egress.{closed}")).await.unwrap();
        assert_eq!(count, 0, "{closed}: Envoy closed no connection, and no client gave one up");
    }
    assert!(switch.envoy.log().contains("timeout_ms: must not be 0"), "the log names the field");
}

#[tokio::test]
async fn the_endpoint_alone_moves_the_engine() {
    let [one, other] = [(); 2].map(|()| StubEngine::start(Behaviour::DropAll).unwrap());
    let all_old = |settings: &mut Value| {
        settings["preserve_recent"] = json!(0);
        settings["max_removed_share"] = json!(1);
    };
    let switch = Switch::start(&response("on", &one, all_old)).await;
    let client = Client::http1(&switch.envoy.url()).unwrap();
    for (engine, idle) in [(&one, &other), (&other, &one), (&one, &other)] {
        assert!(
            switch
                .to(&response("on", engine, |settings| {
                    all_old(settings);
                    settings["config_revision"] = json!(engine.endpoint());
                }))
                .await
        );
        engine.take();
        idle.take();
        let body = conversation(6, 3000);
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        assert_reduced(&body, &switch.provider.take_one().await.unwrap().body);
        assert_eq!((engine.take().len(), idle.take().len()), (1, 0));
    }
}
