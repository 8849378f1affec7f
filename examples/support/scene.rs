//! A provider, an engine and an Envoy with the filter between them: the scene of most Envoy tests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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

/// How the names of gauges, of the books, and of what is told about windows begin.
const BOOKS: [&str; 27] = [
    "enforcing",
    "measuring",
    "engine_never_answered",
    "conversations",
    "epochs_judged",
    "batches",
    "pairs_judged",
    "pairs_recited",
    "cache_bytes",
    "requests_unpriced",
    "saved",
    "rewrite",
    "net_gain",
    "net_loss",
    "prompt_",
    "output_bytes",
    "treated",
    "holdout",
    "bill_",
    "engine_request_tokens",
    "engine_cost",
    "requests_not_measured",
    "window",
    "usage_",
    "bytes_per_token",
    "cache_read_tokens",
    "removal_not_paying",
];

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

    /// The filter's counters that are not zero, without gauges and without the books: `tests/envoy/books.rs` has those.
    pub async fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = self.all_counts().await;
        counts.retain(|name, value| *value > 0 && !BOOKS.iter().any(|book| name.starts_with(book)));
        counts
    }

    /// All of the filter's counters and gauges.
    pub async fn all_counts(&self) -> BTreeMap<String, u64> {
        let stats = self.envoy.stats().await.expect("Envoy's statistics");
        let own = |(name, value): (String, u64)| {
            Some((name.strip_prefix("wasmcustom.context_compaction.")?.to_owned(), value))
        };
        stats.into_iter().filter_map(own).collect()
    }

    /// How many replies of the engine Envoy has had.
    pub async fn engine_replies(&self) -> u64 {
        self.envoy.counter("cluster.decision_engine.upstream_rq_completed").await.expect("Envoy's statistics")
    }

    /// Waits until Envoy has had `count` replies of the engine, at most thirty seconds.
    pub async fn until_engine_replied(&self, count: u64) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.engine_replies().await < count {
            assert!(Instant::now() < deadline, "Envoy waits for {count} replies of the engine");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The value of the filter's counter `name`.
    pub async fn count(&self, name: &str) -> u64 {
        self.envoy.metric(&format!("context_compaction.{name}")).await.unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// How much each counter has grown, without those that have not.
pub fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let growth = |(name, value): (&String, &u64)| {
        let growth = value - before.get(name).copied().unwrap_or(0);
        (growth > 0).then(|| (name.clone(), growth))
    };
    after.iter().filter_map(growth).collect()
}

/// Panics unless `left` is a sound reduction of `body`.
pub fn assert_reduced(body: &[u8], left: &[u8]) {
    assert!(left.len() < body.len(), "nothing left the body");
    assert_eq!(invariants::complaints(body, left), Vec::<String>::new());
}
