//! The providers' own SDKs through the filter in a real Envoy, against a stand-in that refuses what a provider would:
//! `tests/clients`. `make tools` fetches the SDKs.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use crate::support::{
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::{Envoy, Process},
    envoy_config::{EnvoyConfig, connection_manager, read_bootstrap},
    exchange::configuration,
    paths::repository,
    shipped,
    wasm_filter::WasmFilter,
};
use serde_json::{Value, json};

/// The stand-in for the providers, in a process of its own.
struct StandIn {
    child: Child,
    address: SocketAddr,
}

impl StandIn {
    fn start() -> Self {
        let mut child = python().arg("stand_in.py").stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("the stand-in says its port");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Both fail only for a process that has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> Command {
    let mut command = Command::new("python3");
    command.current_dir(repository().join("tests/clients"));
    command.env("PYTHONPATH", repository().join(".tools/clients")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Whether the SDKs are there. Where `REQUIRE_TOOLS` is set they must be.
fn available() -> bool {
    let found = repository().join(".tools/clients/boto3").is_dir();
    let required = std::env::var_os("REQUIRE_TOOLS").is_some_and(|value| !value.is_empty());
    assert!(found || !required, "REQUIRE_TOOLS is set and .tools/clients is missing: run `make tools`");
    if !found {
        eprintln!("skipped: .tools/clients is missing, run `make tools`");
    }
    found
}

/// Runs these tests with their addresses in the environment, and shows what they said if one fails.
fn pytest(arguments: &[&str], addresses: &[(&str, String)]) {
    let mut command = python();
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).args(arguments);
    let output = command.envs(addresses.iter().map(|(name, url)| (name, url))).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("skipped"), "{said}");
}

/// Removes all that may leave, as soon as it may.
fn settings(engine: &StubEngine, hold: bool) -> Value {
    configuration(json!({
        "endpoint": engine.endpoint(), "threshold_tokens": 0, "floor_bytes": 0, "min_reduction": 0,
        "hold_headers": hold, "timeout_ms": 10_000,
    }))
}

async fn every_sdk_talks_through_the_filter(hold: bool) {
    if !available() {
        return;
    }
    let (provider, engine) = (StandIn::start(), StubEngine::start(Behaviour::DropAll).expect("engine"));
    let filter = WasmFilter::new().configuration(&settings(&engine, hold)).hold_flag(hold);
    let config = EnvoyConfig::new(provider.address).engine(engine.address()).filter(filter);
    let envoy = Envoy::start(&config).await.expect("Envoy");
    let tests = [
        "test_openai_chat.py",
        "test_openai_responses.py",
        "test_anthropic.py",
        "test_google_genai.py",
        "test_bedrock.py",
    ];
    pytest(&tests, &[("FILTER_URL", envoy.url()), ("STAND_IN_URL", format!("http://{}", provider.address))]);
    assert!(envoy.is_alive(), "{}", envoy.log());
}

#[tokio::test]
async fn every_sdk_talks_through_the_filter_with_held_headers() {
    every_sdk_talks_through_the_filter(true).await;
}

#[tokio::test]
async fn every_sdk_talks_through_the_filter_in_portable_mode() {
    every_sdk_talks_through_the_filter(false).await;
}

#[test]
fn the_stand_in_refuses_what_providers_refuse() {
    if available() {
        pytest(&["test_provider_rules.py", "test_stand_in.py"], &[]);
    }
}

/// `envoy/bedrock.yaml`: Envoy signs what the filter lets through.
#[tokio::test]
async fn envoy_signs_the_reduced_body() {
    if !available() {
        return;
    }
    let (provider, engine) = (StandIn::start(), StubEngine::start(Behaviour::DropAll).expect("engine"));
    let mut bootstrap = read_bootstrap("envoy/bedrock.yaml").expect("a shipped file");
    shipped::set_provider(&mut bootstrap, provider.address);
    let filter = &mut connection_manager(&mut bootstrap)["http_filters"][0]["typed_config"]["config"];
    shipped::set_filter(filter, |shipped| {
        assert_eq!(shipped["signed_after_filter"], true);
        let settings = settings(&engine, true);
        shipped.as_object_mut().expect("settings").extend(settings.as_object().expect("settings").clone());
    })
    .expect("make wasm");
    let keys = [("AWS_ACCESS_KEY_ID", "AKIAENVOY"), ("AWS_SECRET_ACCESS_KEY", "kept-by-envoy")];
    let process = Process {
        environment: keys.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..Process::default()
    };
    let envoy = Envoy::start_bootstrap(&bootstrap, &process).await.expect("Envoy starts");
    let addresses = [("SIGNING_URL", envoy.url()), ("STAND_IN_URL", format!("http://{}", provider.address))];
    pytest(&["test_bedrock_signed.py"], &addresses);
    assert!(envoy.is_alive(), "{}", envoy.log());
}
