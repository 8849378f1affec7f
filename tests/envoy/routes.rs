//! `envoy/routes`: the filter on some routes only, in the real Envoy, with the shipped files.

use crate::support::{
    client::Client,
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::{Envoy, Process},
    envoy_config::{connection_manager, read_bootstrap},
    provider::Provider,
    scene::{CHAT, assert_reduced, conversation},
    shipped,
};
use serde_json::{Value, json};

struct Stage {
    envoy: Envoy,
    provider: Provider,
    _engine: StubEngine,
}

/// The shipped file with free ports, an engine for which nothing is needed, and `change`.
async fn stage(file: &str, change: impl FnOnce(&mut Value)) -> Stage {
    let (provider, engine) = (Provider::start().unwrap(), StubEngine::start(Behaviour::DropAll).unwrap());
    let mut bootstrap = read_bootstrap(file).expect("a shipped file");
    shipped::set_provider(&mut bootstrap, provider.address());
    let filter = &mut connection_manager(&mut bootstrap)["http_filters"][0]["typed_config"]["config"];
    shipped::set_filter(filter, |settings| {
        for (name, value) in [
            ("threshold_tokens", json!(0)),
            ("preserve_recent", json!(0)),
            ("max_removed_share", json!(1)),
            ("timeout_ms", json!(30_000)),
            ("endpoint", json!(engine.endpoint())),
        ] {
            settings[name] = value;
        }
    })
    .expect("make wasm");
    change(&mut bootstrap);
    let envoy = Envoy::start_bootstrap(&bootstrap, &Process::default()).await.expect("Envoy starts");
    Stage { envoy, provider, _engine: engine }
}

impl Stage {
    /// Sends a conversation with these headers, and says whether it arrived smaller.
    async fn reduces(&self, headers: &[(&str, &str)]) -> bool {
        let client = Client::http1(&self.envoy.url()).unwrap();
        let body = conversation(6, 3000);
        let headers: Vec<_> = [("content-type", "application/json")].iter().chain(headers).copied().collect();
        assert_eq!(client.send("POST", CHAT, &headers, body.clone()).await.unwrap().status, 200);
        let arrived = self.provider.take_one().await.unwrap();
        if arrived.body == body {
            assert_eq!(arrived.header("content-length"), Some(body.len().to_string().as_bytes()));
            return false;
        }
        assert_reduced(&body, &arrived.body);
        true
    }
}

/// The share of requests that `by_fraction` takes.
fn fraction(percent: u64) -> impl FnOnce(&mut Value) {
    move |bootstrap| {
        let routes = &mut connection_manager(bootstrap)["route_config"]["virtual_hosts"][0]["routes"];
        let route = routes.as_array_mut().unwrap().iter_mut().find(|route| route["name"] == "by_fraction").unwrap();
        route["match"]["runtime_fraction"]["default_value"]["numerator"] = json!(percent);
    }
}

#[tokio::test]
async fn off_but_for_a_header_or_a_fraction() {
    let nobody = stage("envoy/routes/opt-in.yaml", fraction(0)).await;
    assert!(!nobody.reduces(&[]).await);
    assert!(!nobody.reduces(&[("x-team", "others")]).await);
    assert!(nobody.reduces(&[("x-team", "agents")]).await);
    assert_eq!(nobody.envoy.metric("context_compaction.requests").await.unwrap(), 1, "the others never met the filter");
    let everybody = stage("envoy/routes/opt-in.yaml", fraction(100)).await;
    assert!(everybody.reduces(&[]).await);
}

#[tokio::test]
async fn on_but_for_one_route() {
    let stage = stage("envoy/routes/opt-out.yaml", |_| {}).await;
    assert!(stage.reduces(&[]).await);
    assert!(!stage.reduces(&[("x-team", "legal")]).await);
}
