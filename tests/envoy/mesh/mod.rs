//! The resources for Istio and Envoy Gateway: valid by the APIs' own schemas, without unknown fields; each overlay is what its
//! name says; and Envoy takes what the control planes make of them. `make tools` fetches the schemas and kubectl.
//!
//! Nothing here runs on a cluster.

mod proxies;
mod resources;
mod traffic;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::{
    envoy::{self, Process},
    paths::repository,
};
use context_compaction::policy::{Mode, Policy};
use proxies::{Delivery, bytes, configurations, istio, policy, proxy_of};
use resources::{VARIANTS, WAYS, available, documents, rendered};
use serde_json::{Value, json};

const FOLDERS: [&str; 3] = ["envoy/engine", "envoy/istio", "envoy/gateway"];

fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| repository().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What an overlay would be with one of the components added to it.
fn rendered_with(overlay: &str, component: &str) -> Vec<Value> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // Kustomize takes no absolute paths.
    let up = "../".repeat(folder.path().canonicalize().expect("a path").components().count() - 1);
    let path = |to: &str| format!("{up}{}", repository().join(to).strip_prefix("/").expect("absolute").display());
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [path(overlay)],
        "components": [path(component)],
    });
    fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).expect("writable");
    rendered(folder.path())
}

/// What the schemas say against these resources, one problem a line.
fn problems(resources: &[Value]) -> Vec<String> {
    let input: Vec<Value> = resources.iter().flat_map(labelled).collect();
    let mut command = Command::new("node");
    command.arg(repository().join("tests/kubernetes_schemas.mjs")).arg(repository().join(".tools/kubernetes"));
    let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node starts");
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(json!(input).to_string().as_bytes()).expect("node reads");
    drop(stdin);
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "the checker fails");
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    found.iter().map(|p| format!("{}: {}: {}", text(&p["label"]), text(&p["path"]), text(&p["problem"]))).collect()
}

/// A resource as the checker wants it, and the patch of a Deployment that a ConfigMap of a waypoint holds.
fn labelled(resource: &Value) -> Vec<Value> {
    let name = |field: &str| resource["metadata"][field].as_str().unwrap_or_default().to_owned();
    let label = format!("{} {}/{}", resource["kind"].as_str().unwrap_or_default(), name("namespace"), name("name"));
    let mut all = vec![json!({"label": label, "resource": resource})];
    if let Some(text) = resource["data"]["deployment"].as_str() {
        let mut patch: Value = serde_yaml_ng::from_str(text).expect("YAML");
        patch["apiVersion"] = json!("apps/v1");
        patch["kind"] = json!("Deployment");
        all.push(json!({"label": format!("{label} deployment"), "resource": patch, "partial": true}));
    }
    all
}

fn is_kustomization(document: &Value) -> bool {
    matches!(document["kind"].as_str(), Some("Kustomization" | "Component"))
}

#[test]
fn every_file_says_what_it_is_for_and_what_the_operator_changes() {
    assert!(files().len() > 30);
    for file in files() {
        let text = fs::read_to_string(&file).expect("readable");
        let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(comment.len() > 80 && comment.contains("What you change:"), "{}", file.display());
    }
}

#[test]
fn every_resource_is_valid_and_has_no_unknown_field() {
    if !available() {
        return;
    }
    let written: Vec<Value> =
        files().iter().flat_map(|file| documents(&fs::read_to_string(file).expect("readable"))).collect();
    let resources: Vec<Value> = written.into_iter().filter(|document| !is_kustomization(document)).collect();
    let kinds: BTreeSet<&str> = resources.iter().filter_map(|resource| resource["kind"].as_str()).collect();
    assert!(kinds.len() >= 20, "{kinds:?}");
    assert_eq!(problems(&resources), [""; 0]);
}

#[test]
fn every_rendered_kustomization_is_valid_and_has_no_unknown_field() {
    if !available() {
        return;
    }
    let mut resources = rendered(Path::new("envoy/engine"));
    for (way, _) in WAYS {
        for (variant, _) in VARIANTS {
            resources.extend(rendered(&Path::new(way).join(variant)));
        }
    }
    for (overlay, component) in COMPONENTS {
        resources.extend(rendered_with(overlay, component));
    }
    assert_eq!(problems(&resources), [""; 0]);
}

const COMPONENTS: [(&str, &str); 5] = [
    ("envoy/istio/egress-gateway/overlays/measure", "envoy/istio/module/http"),
    ("envoy/istio/egress-gateway/overlays/enable", "envoy/istio/module/file"),
    ("envoy/istio/sidecar/overlays/enable", "envoy/istio/module/http"),
    ("envoy/istio/waypoint/overlays/enable", "envoy/istio/module/http"),
    ("envoy/gateway/overlays/enable", "envoy/gateway/module-http"),
];

/// What the schemas say about a shipped file in which `to` stands in place of the first `from`.
fn problems_with(file: &str, from: &str, to: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join("envoy").join(file)).expect("readable");
    assert!(text.contains(from), "{file} no longer says {from}");
    problems(&documents(&text.replacen(from, to, 1)))
}

#[test]
fn a_misspelt_field_is_refused_with_its_path() {
    if !available() {
        return;
    }
    for (file, from, to, path) in [
        ("istio/egress-gateway/base/wasmplugin.yaml", "failStrategy:", "failureStrategy:", "/spec/failureStrategy"),
        (
            "istio/egress-gateway/base/wasmplugin.yaml",
            "valueFrom: HOST",
            "fromValue: HOST",
            "/spec/vmConfig/env/0/fromValue",
        ),
        ("istio/egress-gateway/gateway/proxy.yaml", "secretKeyRef:", "secretRef:", "/valueFrom/secretRef"),
        ("istio/egress-gateway/gateway/routing.yaml", "subset: openai", "subsets: openai", "/destination/subsets"),
        ("istio/egress-gateway/gateway/limits.yaml", "configPatches:", "patches:", "/spec/patches"),
        ("istio/hold/base/envoyfilter.yaml", "subFilter:", "subfilter:", "/filterChain/filter/subfilter"),
        ("istio/providers/openai.yaml", "targetPort: 443", "targetport: 443", "/spec/ports/0/targetport"),
        ("istio/waypoint/base/waypoint.yaml", "parametersRef:", "parameterRef:", "/spec/infrastructure/parameterRef"),
        ("istio/waypoint/base/waypoint.yaml", "              env:", "              envs:", "/containers/0/envs"),
        ("istio/sidecar/sidecar-scope.yaml", "workloadSelector:", "selector:", "/spec/selector"),
        ("engine/deployment.yaml", "readinessProbe:", "readyProbe:", "/containers/0/readyProbe"),
        ("engine/networkpolicy.yaml", "  egress: []", "  outgress: []", "/spec/outgress"),
        ("engine/networkpolicy.yaml", "policyTypes:", "policytypes:", "/spec/policytypes"),
        ("gateway/base/clienttrafficpolicy.yaml", "bufferLimit:", "bufferLimits:", "/spec/connection/bufferLimits"),
        ("gateway/base/extensionpolicy.yaml", "hostKeys:", "hostEnvKeys:", "/spec/wasm/0/env/hostEnvKeys"),
        ("gateway/base/extensionpolicy.yaml", "failOpen:", "failopen:", "/spec/wasm/0/failopen"),
        ("gateway/base/openai.yaml", "wellKnownCACertificates:", "wellKnownCa:", "/spec/validation/wellKnownCa"),
        ("gateway/base/envoyproxy.yaml", "accessLog:", "accessLogs:", "/spec/telemetry/accessLogs"),
    ] {
        let found = problems_with(file, from, to);
        assert!(found.iter().any(|p| p.contains(path) && p.contains("does not know")), "{file}: {to}: {found:?}");
    }
}

#[test]
fn a_wrong_value_a_missing_field_and_an_unknown_kind_are_refused() {
    if !available() {
        return;
    }
    for (file, from, to, expected) in [
        (
            "istio/egress-gateway/base/wasmplugin.yaml",
            "failStrategy: FAIL_OPEN",
            "failStrategy: OPEN",
            "/spec/failStrategy",
        ),
        ("istio/egress-gateway/base/wasmplugin.yaml", "sha256: \"0", "sha256: \"x", "/spec/sha256"),
        (
            "istio/egress-gateway/base/wasmplugin.yaml",
            "kind: WasmPlugin",
            "kind: WasmPlugins",
            "no schema for this kind",
        ),
        ("istio/waypoint/base/wasmplugin.yaml", ", name: waypoint", "", "required"),
        ("engine/deployment.yaml", "replicas: 1", "replicas: one", "/spec/replicas"),
        ("gateway/base/extensionpolicy.yaml", "type: Image", "type: Picture", "/spec/wasm/0/code/type"),
    ] {
        let found = problems_with(file, from, to);
        assert!(found.iter().any(|p| p.contains(expected)), "{file}: {to}: {found:?}");
    }
}

#[test]
fn every_variant_is_what_its_name_says_and_fails_open() {
    if !available() {
        return;
    }
    for (way, hold) in WAYS {
        let mut revisions = BTreeSet::new();
        for (variant, mode) in VARIANTS {
            let resources = rendered(&Path::new(way).join(variant));
            let texts: Vec<String> = resources.iter().flat_map(configurations).collect();
            let [text] = texts.as_slice() else { panic!("{way}/{variant}: {} configurations", texts.len()) };
            let policy: Policy = policy(text);
            assert_eq!((policy.mode, policy.hold_headers), (mode, hold), "{way}/{variant}");
            assert!(policy.decider.is_some_and(|decider| decider.api_key.is_some()), "{way}/{variant}");
            let configuration: Value = serde_json::from_str(text).expect("JSON");
            let revision = configuration["config_revision"].as_str().unwrap_or_default();
            assert!(revisions.insert(revision.to_owned()), "{way}: two variants of one config_revision");
            assert!(resources.iter().all(fails_open), "{way}/{variant}");
            resources.iter().for_each(assert_rules_that_no_schema_holds);
        }
    }
}

fn fails_open(resource: &Value) -> bool {
    let spec = &resource["spec"];
    let all = |list: &Value, holds: fn(&Value) -> bool| list.as_array().into_iter().flatten().all(holds);
    match resource["kind"].as_str() {
        Some("WasmPlugin") => spec["failStrategy"] == "FAIL_OPEN",
        Some("EnvoyExtensionPolicy") => all(&spec["wasm"], |wasm| wasm["failOpen"] == true),
        Some("EnvoyFilter") => all(&spec["configPatches"], |patch| {
            let value = &patch["patch"]["value"];
            (patch["applyTo"] != "EXTENSION_CONFIG" || value["typed_config"]["config"]["fail_open"] == true)
                && (value["config_discovery"].is_null() || value["config_discovery"]["default_config"].is_object())
        }),
        _ => true,
    }
}

/// What the API servers check by rules (CEL) that the packages leave out.
fn assert_rules_that_no_schema_holds(resource: &Value) {
    let spec = &resource["spec"];
    match resource["kind"].as_str() {
        Some("WasmPlugin") => {
            assert!(spec["selector"].is_null() || spec["targetRefs"].is_null(), "one of selector and targetRefs");
            for variable in spec["vmConfig"]["env"].as_array().into_iter().flatten() {
                assert!(variable["valueFrom"] != "HOST" || variable["value"].is_null(), "a value beside HOST");
            }
        }
        Some("EnvoyExtensionPolicy") => {
            let code = &spec["wasm"][0]["code"];
            assert_eq!(
                (code["type"] == "Image", code["type"] == "HTTP"),
                (code["image"].is_object(), code["http"].is_object())
            );
        }
        _ => {}
    }
}

/// What `make validate` says about a bootstrap: the filter's own rules about what surrounds it, then Envoy's.
fn validated(bootstrap: &Value) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bootstrap.yaml");
    fs::write(&file, bootstrap.to_string()).expect("writable");
    let output =
        Command::new(crate::validate::validator()).arg(&file).output().expect("cargo build --example validate");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn envoy_takes_what_the_control_planes_make_of_every_overlay() {
    if !available() {
        return;
    }
    for (way, _) in WAYS {
        for (variant, mode) in VARIANTS {
            let bootstrap = proxy_of(way, &rendered(&Path::new(way).join(variant)));
            let (ok, said) = validated(&bootstrap);
            assert!(ok && said.contains("only measures") == (mode == Mode::Measure), "{way}/{variant}: {said}");
        }
    }
}

#[tokio::test]
async fn envoy_takes_the_discovered_filter_as_it_is_written() {
    if !available() {
        return;
    }
    let resources = rendered(Path::new("envoy/istio/hold/overlays/enable"));
    let bootstrap = istio(&resources, &rendered(Path::new("envoy/engine")), Delivery::Discovered);
    let validation = envoy::validate_bootstrap(&bootstrap, &Process::default()).await.expect("Envoy runs");
    assert!(validation.ok, "{}", validation.output);
    let mut wrong = bootstrap;
    crate::support::envoy_config::connection_manager(&mut wrong)["http_filters"][0]["config_discovery"]["defaults"] =
        json!({});
    assert!(!envoy::validate_bootstrap(&wrong, &Process::default()).await.expect("Envoy runs").ok);
}

#[test]
fn a_limit_an_engine_or_a_flag_that_is_missing_is_noticed() {
    if !available() {
        return;
    }
    for (way, variant, from, to, expected) in [
        ("envoy/gateway", "overlays/enable", "4Mi", "512Ki", "max_body_bytes: is above"),
        (
            "envoy/gateway",
            "overlays/enable",
            "port_value: 8080",
            "port_value: 8081",
            "endpoint: cluster decision_engine",
        ),
        ("envoy/istio/egress-gateway", "overlays/enable", "4194304", "524288", "max_body_bytes: is above"),
        (
            "envoy/istio/hold",
            "overlays/enable",
            "allow_on_headers_stop_iteration\":true",
            "allow_on_headers_stop_iteration\":false",
            "hold_headers: needs",
        ),
        (
            "envoy/istio/hold",
            "overlays/enable",
            "\"per_connection_buffer_limit_bytes\"",
            "\"per_connection_buffer_limit\"",
            "Envoy refuses",
        ),
        ("envoy/istio/hold", "overlays/enable", "\"stream_idle_timeout\"", "\"stream_idle_timeouts\"", "Envoy refuses"),
        ("envoy/istio/sidecar", "overlays/enable", "outbound|8080", "outbound|80", "cluster: there is no cluster"),
        (
            "envoy/istio/waypoint",
            "overlays/measure",
            "\"valueFrom\":\"HOST\"",
            "\"valueFrom\":\"INLINE\"",
            "api_key_env: the variable",
        ),
    ] {
        let resources = json!(rendered(&Path::new(way).join(variant))).to_string();
        assert!(resources.contains(from), "{way} no longer says {from}");
        let changed: Vec<Value> = serde_json::from_str(&resources.replace(from, to)).expect("JSON");
        let (ok, said) = validated(&proxy_of(way, &changed));
        assert!(!ok && said.contains(expected), "{way}: {to}: {said}");
    }
}

#[test]
fn an_http2_stream_of_envoy_gateway_has_room_for_a_whole_body() {
    if !available() {
        return;
    }
    let resources = rendered(Path::new("envoy/gateway/overlays/enable"));
    let largest = resources.iter().flat_map(configurations).map(|text| policy(&text).max_body_bytes).max();
    let traffic = resources.iter().find(|r| r["kind"] == "ClientTrafficPolicy").expect("a ClientTrafficPolicy");
    let http2 = &traffic["spec"]["http2"];
    let stream = bytes(&http2["initialStreamWindowSize"]).expect("a size");
    assert!(stream >= largest.expect("a configuration") as u64);
    assert!(bytes(&http2["initialConnectionWindowSize"]).expect("a size") >= stream);
}

#[test]
fn every_folder_that_the_guide_applies_exists() {
    let guide = fs::read_to_string(repository().join("docs/mesh.md")).expect("docs/mesh.md");
    let applied: BTreeSet<&str> =
        guide.split("-k ").skip(1).filter_map(|rest| rest.split([' ', '\n', '`']).next()).collect();
    assert!(applied.len() > WAYS.len());
    for folder in applied {
        assert!(repository().join(folder).join("kustomization.yaml").is_file(), "{folder}");
    }
}
