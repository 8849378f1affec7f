//! What a trap of the module does to requests and their neighbours under each failure policy, and how the filter comes
//! back. The module must never trap; this is for the day it does, and holds the table of `docs/failure-modes.md`.

use std::time::Duration;

use crate::support::{
    client::{Client, Response},
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::Envoy,
    envoy_config::EnvoyConfig,
    paths,
    provider::{Answer, Provider},
    scene::{CHAT, assert_reduced, conversation, eager},
    wasm_filter::WasmFilter,
};
use serde_json::{Value, json};

struct Stage {
    provider: Provider,
    engine: StubEngine,
    envoy: Envoy,
    client: Client,
    settings: Value,
}

fn trapping(settings: &Value) -> WasmFilter {
    WasmFilter::new().configuration(settings).that_traps()
}

async fn stage(change: impl FnOnce(WasmFilter) -> WasmFilter) -> Stage {
    let provider = Provider::start().expect("a provider");
    let engine = StubEngine::start(Behaviour::DropAll).expect("an engine");
    let settings = eager(&engine, true);
    let config = EnvoyConfig::new(provider.address()).engine(engine.address()).filter(change(trapping(&settings)));
    let envoy = Envoy::start(&config.stream_idle_timeout(Duration::from_secs(2))).await.expect("Envoy starts");
    let client = Client::http1(&envoy.url()).expect("a client");
    Stage { provider, engine, envoy, client, settings }
}

impl Stage {
    async fn send(&self, body: &[u8], trap: &str) -> Response {
        let headers = [("content-type", "application/json"), ("x-trap", trap)];
        self.client.send("POST", CHAT, &headers, body.to_vec()).await.expect("a response")
    }

    /// Sends a body that must be served with 200 and says whether it was reduced.
    async fn serves(&self, body: &[u8]) -> bool {
        assert_eq!(self.send(body, "nowhere").await.status, 200);
        self.provider.take_one().await.expect("the provider got it").body != body
    }
}

#[tokio::test]
async fn with_fail_open_the_trapping_request_and_all_later_ones_pass_unfiltered() {
    for place in ["headers", "body"] {
        let stage = stage(|f| f).await;
        let body = conversation(4, 3000);
        assert!(stage.serves(&body).await, "the filter works before");
        assert_eq!(stage.send(&body, place).await.status, 200, "{place}");
        assert_eq!(stage.provider.take_one().await.unwrap().body, body, "{place}: the original left");
        assert!(!stage.serves(&body).await, "{place}: the filter is gone");
        assert!(stage.envoy.log().contains("unreachable"), "the log says critical: {}", stage.envoy.log());
    }
}

#[tokio::test]
async fn with_failure_policy_fail_open_the_trapping_request_alone_is_lost() {
    let stage = stage(|f| f.failure_policy("FAIL_OPEN")).await;
    let body = conversation(4, 3000);
    assert_eq!(stage.send(&body, "body").await.status, 503);
    assert!(!stage.serves(&body).await);
}

#[tokio::test]
async fn with_fail_closed_every_later_request_is_lost() {
    let stage = stage(|f| f.failure_policy("FAIL_CLOSED")).await;
    let body = conversation(4, 3000);
    assert_eq!(stage.send(&body, "headers").await.status, 503);
    assert_eq!(stage.send(&body, "nowhere").await.status, 503);
    let log = stage.envoy.wait_for_access_log(2).await.unwrap();
    assert!(log.iter().all(|entry| entry["details"].to_string().contains("wasm_fail_stream")), "{log:?}");
}

#[tokio::test]
async fn with_fail_reload_a_new_vm_comes_after_a_pause() {
    let stage = stage(|f| f.failure_policy("FAIL_RELOAD")).await;
    let body = conversation(4, 3000);
    assert_eq!(stage.send(&body, "headers").await.status, 503);
    // Envoy answers 503 until its backoff of a second or so is over.
    let mut tries = 0;
    while stage.send(&body, "nowhere").await.status == 503 {
        tries += 1;
        assert!(tries < 200, "no new VM came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.provider.take();
    assert!(stage.serves(&body).await, "filtered again");
}

#[tokio::test]
async fn a_trap_inside_a_reply_leaves_its_request_to_the_idle_timeout() {
    let stage = stage(|f| f).await;
    let body = conversation(4, 3000);
    let response = stage.send(&body, "reply").await;
    assert!(matches!(response.status, 408 | 503 | 504), "ended by stream_idle_timeout: {}", response.status);
    assert!(stage.provider.requests().is_empty());
    assert!(!stage.serves(&body).await, "later requests pass unfiltered");
}

#[tokio::test]
async fn a_streaming_neighbour_survives_under_fail_open() {
    let stage = stage(|f| f).await;
    let pieces = (0..6).map(|n| (Duration::from_millis(150), format!("data: {n}\n\n").into())).collect();
    stage.provider.answer_with(move |request| {
        let streams = request.header("x-stream").is_some();
        let streaming: Vec<_> = Vec::clone(&pieces);
        if streams { Answer::pieces(streaming) } else { Answer::json(200, &json!({})) }
    });
    let body = conversation(4, 3000);
    let headers = [("content-type", "application/json"), ("x-stream", "1")];
    let neighbour = stage.client.send("POST", CHAT, &headers, body.clone());
    let trap = async {
        stage.provider.wait_for(1).await.expect("the neighbour is on its way");
        stage.send(&body, "headers").await
    };
    let (neighbour, trapped) = tokio::join!(neighbour, trap);
    assert_eq!(trapped.status, 200);
    let neighbour = neighbour.expect("a response");
    assert!(neighbour.complete && neighbour.text().ends_with("data: 5\n\n"), "cut: {}", neighbour.text());
}

#[tokio::test]
async fn changing_config_revision_brings_the_filter_back() {
    let stage = stage(WasmFilter::over_ecds).await;
    let body = conversation(4, 3000);
    assert!(stage.serves(&body).await);
    assert_eq!(stage.send(&body, "headers").await.status, 200);
    stage.provider.take();
    assert!(!stage.serves(&body).await, "dead");
    let mut revised = stage.settings.clone();
    revised["config_revision"] = json!("2");
    assert!(stage.envoy.replace_filter(&trapping(&revised).over_ecds()).await.expect("Envoy answers"));
    let body = conversation(4, 3000);
    assert_eq!(stage.send(&body, "nowhere").await.status, 200);
    assert_reduced(&body, &stage.provider.take_one().await.unwrap().body);
    assert!(stage.engine.requests().len() >= 2);
}

#[tokio::test]
async fn a_shipped_module_knows_no_trap() {
    let module = std::fs::read(paths::filter_wasm().expect("make wasm")).expect("readable");
    assert!(memchr::memmem::find(&module, b"x-trap").is_none());
}

#[test]
fn every_shipped_configuration_fails_open() {
    for entry in std::fs::read_dir(paths::repository().join("envoy")).expect("envoy/") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let filters = text.matches("filters.http.wasm.v3.Wasm").count();
            assert_eq!(text.matches("fail_open: true").count(), filters, "{}", path.display());
        }
    }
}
