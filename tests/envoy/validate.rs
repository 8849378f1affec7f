//! `make validate` refuses, before deployment, what one file must say in two places.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example that `make test` builds before the tests.
pub(crate) fn validator() -> PathBuf {
    let tests = std::env::current_exe().expect("a test has a path");
    tests.parent().and_then(Path::parent).expect("target/debug").join("examples/validate")
}

/// What the validator says about `envoy/envoy.yaml` with `from` replaced by `to`.
fn validated(from: &str, to: &str) -> (bool, String) {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/envoy.yaml");
    let text = std::fs::read_to_string(shipped).expect("envoy/envoy.yaml");
    assert!(text.contains(from), "envoy.yaml no longer says {from}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("envoy.yaml");
    std::fs::write(&file, text.replace(from, to)).expect("writable");
    let output = Command::new(validator()).arg(&file).output().expect("cargo build --example validate");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_shipped_file_is_valid() {
    let (ok, said) = validated("max_retries: 0", "max_retries: 0");
    assert!(ok, "{said}");
}

#[test]
fn what_would_do_nothing_or_answer_413_is_refused_with_the_field() {
    let secret = "sk-live-0123456789abcdefghij";
    for (from, to, expected) in [
        ("allow_on_headers_stop_iteration: true\n", "\n", "hold_headers: needs allow_on_headers_stop_iteration"),
        ("\"hold_headers\": true", "\"max_body_bytes\": 8000000", "max_body_bytes: is above"),
        ("\"hold_headers\": true", "\"buffer_unknown_length\": true", "buffer_unknown_length: needs"),
        ("\"hold_headers\": true", "\"api_key_env\": \"MY_KEY\"", "api_key_env: the variable is not listed"),
        ("\"hold_headers\": true", &format!("\"api_key_env\": \"{secret}\""), "api_key_env: "),
        ("http://127.0.0.1:8080", "http://engine.svc:8080", "endpoint: cluster decision_engine follows addresses only"),
        ("\"hold_headers\": true", "\"cluster\": \"elsewhere\"", "cluster: there is no cluster elsewhere"),
        (
            "type.googleapis.com/google.protobuf.StringValue",
            "type.googleapis.com/google.protobuf.Struct",
            "StringValue",
        ),
        ("static_resources:", "other_resources:", "is no Envoy bootstrap"),
    ] {
        let (ok, said) = validated(from, to);
        assert!(!ok && said.contains(expected), "{to}: {said}");
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_file_that_leaves_the_filter_off_says_so() {
    let (ok, said) = validated("\"enabled\": true", "\"enabled\": false");
    assert!(ok && said.contains("the filter is off"), "{said}");
}

#[test]
fn resources_for_kubernetes_beside_a_bootstrap_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let shipped = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/envoy.yaml")).expect("envoy.yaml");
    std::fs::write(folder.path().join("service.yaml"), "apiVersion: v1\nkind: Service\n").expect("writable");
    let validated = || Command::new(validator()).arg(folder.path()).output().expect("the validator runs");
    assert!(!validated().status.success(), "nothing was checked");
    std::fs::write(folder.path().join("envoy.yaml"), shipped).expect("writable");
    let output = validated();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("no whole configuration of the filter"), "{said}");
}

#[test]
fn the_filters_configuration_in_resources_for_kubernetes_is_read_by_its_own_rules() {
    let plugin = |settings: &str| {
        format!(
            "apiVersion: v1\nkind: Service\n---\napiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nspec:\n  \
             pluginConfig: {{engine: local, endpoint: 'http://engine.svc:8080', model: m, {settings}}}\n"
        )
    };
    let held = "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nspec: {value: {'@type': a/envoy.extensions.filters.http.\
                wasm.v3.Wasm, config: {configuration: {value: '{\"engine\":\"local\",\"hold_headers\":true}'}}}}\n";
    for (text, expected) in [
        (plugin("measure: true"), None),
        (plugin("measure: true, hold_headers: true"), Some("WasmPlugin: hold_headers: needs")),
        (plugin("measure: true, treshold_tokens: 7"), Some("WasmPlugin: treshold_tokens: is not a known field")),
        (plugin("enabled: 'yes'"), Some("WasmPlugin: enabled: must be true or false")),
        (held.to_owned(), Some("EnvoyFilter: hold_headers: needs")),
        (held.replace("config: {", "config: {allow_on_headers_stop_iteration: true, "), None),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("all.yaml");
        std::fs::write(&file, &text).expect("writable");
        let output = Command::new(validator()).arg(&file).output().expect("the validator runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), expected.is_none(), "{text}: {said}");
        assert!(said.contains(expected.unwrap_or("ok")), "{text}: {said}");
    }
}
