//! A provider, an engine and an Envoy with the filter between them: the scene of most Envoy tests.

use serde_json::{Value, json};

use super::bodies;
use super::client::Client;
use super::engine::StubEngine;
use super::engine_behaviour::Behaviour;
use super::envoy::Envoy;
use super::envoy_config::EnvoyConfig;
use super::exchange::configuration;
use super::invariants;
use super::provider::{Provider, ProviderRequest};
use super::wasm_filter::WasmFilter;

/// The path of the conversations here.
pub const CHAT: &str = "/v1/chat/completions";

/// A conversation of `pairs` reads of about `bytes` bytes each.
pub fn conversation(pairs: usize, bytes: usize) -> Vec<u8> {
    bodies::chat("gpt-4o", pairs, bytes)
}

/// Settings under which everything may leave.
pub fn eager(engine: &StubEngine, hold: bool) -> Value {
    configuration(json!({
        "endpoint": engine.endpoint(), "threshold_tokens": 0, "preserve_recent": 0, "hold_headers": hold,
    }))
}

/// Everything that a request meets.
pub struct Scene {
    /// Records what arrives.
    pub provider: Provider,
    /// Says by default that nothing is needed.
    pub engine: StubEngine,
    /// With the filter.
    pub envoy: Envoy,
}

impl Scene {
    /// Starts all three. `settings` changes the filter's configuration, `envoy` the proxy's. Variables KEY and SWITCH
    /// reach the filter.
    pub async fn start(
        hold: bool,
        settings: impl FnOnce(&mut Value),
        envoy: impl FnOnce(EnvoyConfig) -> EnvoyConfig,
    ) -> Self {
        let provider = Provider::start().expect("a provider");
        let engine = StubEngine::start(Behaviour::DropAll).expect("an engine");
        let mut configuration = eager(&engine, hold);
        settings(&mut configuration);
        let filter = WasmFilter::new().configuration(&configuration).hold_flag(hold).host_env_keys(&["KEY", "SWITCH"]);
        let config = EnvoyConfig::new(provider.address()).engine(engine.address()).filter(filter);
        let envoy = Envoy::start(&envoy(config)).await.expect("Envoy starts");
        Self { provider, engine, envoy }
    }

    /// Posts a conversation over HTTP/1.1, expects 200, and returns what arrived.
    pub async fn send(&self, body: &[u8]) -> ProviderRequest {
        let client = Client::http1(&self.envoy.url()).expect("a client");
        let response = client.post(CHAT, body.to_vec()).await.expect("a response");
        assert_eq!(response.status, 200, "{}", self.envoy.log());
        self.provider.take_one().await.expect("the provider got the request")
    }

    /// The filter's field of the newest access-log entry, once `entries` are there.
    pub async fn note(&self, entries: usize) -> String {
        let log = self.envoy.wait_for_access_log(entries).await.expect("an access log");
        log.last().map(|entry| entry["filter_state"].to_string()).unwrap_or_default()
    }

    /// The value of the filter's counter `name`.
    pub async fn count(&self, name: &str) -> u64 {
        self.envoy.metric(&format!("context_compaction.{name}")).await.unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// Panics unless `left` is a sound reduction of `body`.
pub fn assert_reduced(body: &[u8], left: &[u8]) {
    assert!(left.len() < body.len(), "nothing left the body");
    assert_eq!(invariants::complaints(body, left), Vec::<String>::new());
}
