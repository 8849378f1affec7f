//! The files for Kubernetes, and what kustomize makes of them.

use std::{path::Path, process::Command};

use context_compaction::policy::Mode;
use serde::Deserialize;
use serde_json::Value;

use crate::support::paths::repository;

/// Every folder with overlays, and whether its filter holds headers.
pub(crate) const WAYS: [(&str, bool); 5] = [
    ("envoy/istio/egress-gateway", false),
    ("envoy/istio/hold", true),
    ("envoy/istio/sidecar", false),
    ("envoy/istio/waypoint", false),
    ("envoy/gateway", false),
];

/// Every variant of a way, and what it claims.
pub(crate) const VARIANTS: [(&str, Mode); 3] =
    [("base", Mode::Off), ("overlays/measure", Mode::Measure), ("overlays/enable", Mode::Enforce)];

/// Whether the schemas and kubectl are there. Where `REQUIRE_TOOLS` is set they must be.
pub(crate) fn available() -> bool {
    let found = repository().join(".tools/kubernetes").is_dir();
    let required = std::env::var_os("REQUIRE_TOOLS").is_some_and(|value| !value.is_empty());
    assert!(found || !required, "REQUIRE_TOOLS is set and .tools/kubernetes is missing: run `make tools`");
    if !found {
        eprintln!("skipped: .tools/kubernetes is missing, run `make tools` where npm is");
    }
    found
}

/// The documents of a YAML file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(text).map(|d| Value::deserialize(d).expect("YAML")).collect()
}

/// What `kubectl apply -k` would send.
pub(crate) fn rendered(folder: &Path) -> Vec<Value> {
    let mut command = Command::new(repository().join(".tools/kubernetes/kubectl/kubectl"));
    let output = command.arg("kustomize").arg(folder).current_dir(repository()).output().expect("kubectl starts");
    assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).expect("text"))
}
