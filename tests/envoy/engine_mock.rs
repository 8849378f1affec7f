//! Engines that others wrote, in the real Envoy: the conformance mock `jevcompat` with each of its faults, and
//! `sparrow-decider`, a small decision model. `make tools` fetches both.
//!
//! | section | test |
//! |---|---|
//! | `engine.md` 1.7: the mock and its faults; 1.4: which of them make a reply invalid | `each_fault_of_the_mock_…` |
//! | `engine.md` 1.1: bad requests answered with 400, a key that is missing; `envoy.md` 3: 4xx | `a_request_that_the_mock_refuses_…` |
//! | `engine.md` 1.7: "a real model answered" | `a_real_decision_model_answers` |

use std::{
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use crate::support::{
    eventually,
    paths::repository,
    scene::{Scene, assert_reduced, conversation, grown},
};
use serde_json::{Value, json};

/// What the filter makes of an engine with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// The reply counts: the fault is in something that the filter does not use.
    Use,
    /// The engine will never answer this: all of it stays, for good.
    Keep,
    /// `engine_failed.` and this.
    Failure(&'static str),
}
use Made::{Failure, Keep, Use};

/// The faults of `jevcompat mock`, how else the mock is started, and what becomes of the reply. The filter asks for the
/// model `jev-latest` with the key `right`.
const FAULTS: &[(&str, &[&str], Made)] = &[
    ("wrong-route", &[], Failure("wrong_endpoint")),
    ("xssi-200", &[], Failure("not_json")),
    ("plain-content-type", &[], Failure("media_type")),
    ("text-errors", &[], Use), // no error, no text; see REFUSED
    ("models-404", &[], Use),  // never asked for
    ("auth-rejects-header", &[], Failure("unauthorized")),
    ("auth-x-api-key", &["--key", "right"], Failure("unauthorized")),
    ("auth-plain", &["--key", "right"], Use), // only without a key; see REFUSED
    ("auth-invalid-403-text", &["--key", "other"], Failure("unauthorized")),
    ("reject-array-state", &[], Use),                      // `state` is an object
    ("reject-jev-latest", &[], Failure("wrong_endpoint")), // 404, which a wrong path gives as well
    ("first-question-only", &[], Failure("missing_answer")),
    ("strict-ids", &[], Use),   // `c1` is strict enough
    ("nfd-keys", &[], Use),     // only of choices
    ("forbid-extra", &[], Use), // nothing beside state, model and questions is sent
    ("string-only-text", &[], Use),
    ("noul-two-sided", &[], Use),          // no criteria are sent
    ("noul-needs-instructions", &[], Use), // they are always sent
    ("no-null-description", &[], Use),
    ("cap-64", &[], Use), // options of a choice, not questions
    ("cap-5-levels", &[], Use),
    ("accept-map-score", &[], Use),
    ("no-usage", &[], Use), // not read
    ("float-usage", &[], Use),
    ("extra-answer", &[], Failure("extra_answer")),
    ("boolean-type", &[], Failure("answer_type")),
    ("nan", &[], Failure("not_json")), // beside the answers, but then the reply is no JSON
    ("unprefixed-extra", &[], Use),
    ("noul-range", &[], Failure("out_of_range")),
    ("choice-no-confidence", &[], Use), // only `noul` is asked for
    ("choice-key-case", &[], Use),
    ("choice-sum", &[], Use),
    ("choice-second", &[], Use),
    ("score-no-legend", &[], Use),
    ("legend-1-based", &[], Use),
    ("score-keys-1-based", &[], Use),
    ("score-sum", &[], Use),
    ("score-argmax", &[], Use),
    ("confidence-over", &[], Use), // `confidence` is not read
    ("confidence-margin", &[], Use),
    ("500-on-unknown-type", &[], Use),
    ("accept-boolean", &[], Use),
    ("validation-400", &[], Use), // the request is valid
    ("error-flat", &[], Use),     // see REFUSED
    ("id-leaks", &[], Use),       // other numbers, all of them probabilities
    ("batch-leaks", &[], Use),
    ("order-leaks", &[], Use),
];

/// Faults that show only when the mock refuses a request. The filter asks for the model `nobody` without a key.
const REFUSED: &[(&str, &[&str], Made)] = &[
    ("text-errors", &[], Keep),
    ("error-flat", &[], Keep),
    ("auth-plain", &["--key", "right"], Failure("unauthorized")),
];

/// An engine in Python, as a child process that ends with this value, or with this process however that ends.
struct PythonEngine(Child);

impl PythonEngine {
    /// Starts it, and returns once it listens on `address`.
    async fn start(main: &str, arguments: &[&str], address: SocketAddr) -> Self {
        let program = format!(
            "import os, sys, threading\n\
             threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()\n\
             from {main} import main\n\
             main(sys.argv[1:])"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &program]).args(arguments).args(["--port", &address.port().to_string()]);
        command.env("PYTHONPATH", repository().join(".tools")).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut engine = Self(command.spawn().expect("python3 starts"));
        let listens = || {
            if matches!(engine.0.try_wait(), Ok(None)) {
                return TcpStream::connect(address).ok();
            }
            let mut said = String::new();
            let _ = engine.0.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            panic!("{main} {arguments:?} ended: {said}");
        };
        eventually(Duration::from_secs(60), "the engine's port", listens).await.expect("the engine listens");
        engine
    }
}

impl Drop for PythonEngine {
    fn drop(&mut self) {
        // Both fail only for a process that has already been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the tools are there. Where `REQUIRE_TOOLS` is set they must be.
fn available(tool: &str) -> bool {
    let found = repository().join(".tools").join(tool).is_dir();
    let required = std::env::var_os("REQUIRE_TOOLS").is_some_and(|value| !value.is_empty());
    assert!(found || !required, "REQUIRE_TOOLS is set and .tools/{tool} is missing: run `make tools`");
    if !found {
        eprintln!("skipped: .tools/{tool} is missing, run `make tools`");
    }
    found
}

/// A free port outside the range from which the kernel gives ports away: it stays free while one engine ends and the
/// next one starts.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).expect("below 10,000");
    let candidates = (0..100).map(|_| 20_000 + first + NEXT.fetch_add(1, Ordering::Relaxed));
    let mut addresses = candidates.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

/// An Envoy whose engine is whatever listens on `address`, and takes every probability for "not needed".
async fn scene(address: SocketAddr, model: &str, key: &str) -> Scene {
    let settings = |s: &mut Value| {
        s["endpoint"] = json!(format!("http://{address}"));
        s["model"] = json!(model);
        s["api_key_env"] = json!("KEY");
        s["decision_threshold"] = json!(0);
        s["timeout_ms"] = json!(60_000);
    };
    Scene::start(true, settings, |e| e.engine(address).environment("KEY", key)).await
}

/// Sends one request and expects that the engine's reply is used, or fails for this one reason.
async fn assert_made(scene: &Scene, made: Made, name: &str) {
    let body = conversation(2, 3000);
    let before = scene.counts().await;
    let arrived = scene.send(&body).await;
    let grown = grown(&before, &scene.counts().await);
    assert_eq!(grown.get("engine_calls"), Some(&1), "{name}: {grown:?}");
    let failures: Vec<_> = grown.iter().filter(|(counter, _)| counter.starts_with("engine_failed.")).collect();
    match made {
        Use => {
            assert!(failures.is_empty() && grown.get("requests_reduced") == Some(&1), "{name}: {grown:?}");
            assert_reduced(&body, &arrived.body);
        }
        Keep => {
            assert_eq!(failures, [(&"engine_failed.unanswerable".to_owned(), &1)], "{name}");
            assert_eq!(grown.get("request_skipped.kept_by_engine"), Some(&1), "{name}: {grown:?}");
            assert!(arrived.body == body, "{name}: the body changed");
        }
        Failure(reason) => {
            assert_eq!(failures, [(&format!("engine_failed.{reason}"), &1)], "{name}");
            assert_eq!(grown.get("request_skipped.engine_failed"), Some(&1), "{name}: {grown:?}");
            assert!(arrived.body == body, "{name}: the body changed");
        }
    }
}

async fn mock(fault: Option<&str>, more: &[&str], address: SocketAddr) -> PythonEngine {
    let fault = fault.map(|fault| ["--fault", fault]);
    let arguments: Vec<&str> =
        ["mock"].into_iter().chain(fault.into_iter().flatten()).chain(more.iter().copied()).collect();
    PythonEngine::start("jevcompat.cli", &arguments, address).await
}

#[test]
fn the_table_names_every_fault_of_the_mock() {
    if !available("jevcompat") {
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-m", "jevcompat.cli", "mock", "--list-faults"]);
    let output = command.env("PYTHONPATH", repository().join(".tools")).output().expect("python3 starts");
    let listed = String::from_utf8(output.stdout).expect("text");
    let listed: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, FAULTS.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_fault_of_the_mock_is_used_or_fails_open_as_the_table_says() {
    if !available("jevcompat") {
        return;
    }
    let address = free_address();
    // An Envoy for each: after a wrong key or path it would not call for minutes.
    let scene = async || scene(address, "jev-latest", "right").await;
    for key in ["right", "other"] {
        let _mock = mock(None, &["--key", key], address).await;
        let made = if key == "right" { Use } else { Failure("unauthorized") };
        assert_made(&scene().await, made, "without a fault").await;
    }
    let working = scene().await;
    for (fault, more, made) in FAULTS {
        let _mock = mock(Some(fault), more, address).await;
        match made {
            Failure("unauthorized" | "wrong_endpoint") => assert_made(&scene().await, *made, fault).await,
            _ => assert_made(&working, *made, fault).await,
        }
    }
    assert_made(&working, Failure("reset"), "without the mock").await;
}

#[tokio::test]
async fn a_request_that_the_mock_refuses_leaves_as_it_came() {
    if !available("jevcompat") {
        return;
    }
    let address = free_address();
    for (fault, more, made) in REFUSED {
        let _mock = mock(Some(fault), more, address).await;
        assert_made(&scene(address, "nobody", "").await, *made, fault).await;
    }
}

#[tokio::test]
async fn a_real_decision_model_answers() {
    if !available("sparrow_decider") {
        return;
    }
    let address = free_address();
    let scene = scene(address, "sparrow", "").await;
    let _sparrow = PythonEngine::start("sparrow_decider.cli", &["serve"], address).await;
    assert_made(&scene, Use, "sparrow").await;
}
