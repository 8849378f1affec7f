//! What tests and examples need around the filter: a real Envoy, a stand-in for the provider and for the decision
//! engine, clients, and the recorded data.
//!
//! Tests include it with `#[path = "../../examples/support/mod.rs"] mod support;`, examples with `mod support;`.
//! Everything listens on 127.0.0.1 and every wait is bounded. The stand-ins run on a runtime of their own, so they
//! answer while a test blocks its thread, and may be shared by several tests. A closure that answers must not block.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test and example includes this module and uses its own part of it"
)]

pub mod bodies;
pub mod cases;
pub mod client;
pub mod conversations;
pub mod engine;
pub mod engine_behaviour;
pub mod envoy;
pub mod envoy_config;
pub mod estimates;
pub mod exchange;
pub mod gate;
pub mod invariants;
pub mod pairs;
pub mod paths;
pub mod provider;
pub mod provider_rules;
pub mod ranges;
pub mod responses;
pub mod scene;
pub mod shapes;
pub mod shipped;
pub mod tokens;
pub mod wasm_filter;
pub mod wire;

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// The result of whatever can go wrong around the filter.
pub type Result<T> = std::result::Result<T, Failure>;

/// What went wrong, in words for the reader of a test's output.
pub struct Failure(String);

impl Failure {
    /// A failure that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Puts `doing` in front, for example "starting Envoy".
    #[must_use]
    pub fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self(format!("{doing}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The plain text: a failed `expect` prints this, and log lines should stay readable.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

/// Asks `probe` every few milliseconds until it gives a value; fails with `what` after `limit`.
pub async fn eventually<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return Ok(value);
        }
        if Instant::now() > deadline {
            return Err(Failure::new(format!("after {limit:?} still waiting for {what}")));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The runtime on which the stand-in servers live, apart from any test's own.
fn servers() -> &'static Runtime {
    static SERVERS: OnceLock<Runtime> = OnceLock::new();
    SERVERS.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(4)
            .thread_name("stand-in")
            .enable_all()
            .build()
            .expect("the runtime of the stand-in servers starts")
    })
}
