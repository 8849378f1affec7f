//! The configurations in `envoy/`, moved to this machine's free ports.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::envoy_config::static_cluster;
use super::{Result, paths};

/// Puts the provider that listens at `address` in place of the real one.
pub fn set_provider(bootstrap: &mut Value, address: SocketAddr) {
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
    for cluster in clusters.into_iter().flatten().filter(|cluster| cluster["name"] == "llm_provider") {
        *cluster = static_cluster("llm_provider", address);
    }
}

/// Points the plugin configuration of a filter at the built module, and changes its settings.
pub fn set_filter(filter: &mut Value, change: impl FnOnce(&mut Value)) -> Result<()> {
    filter["vm_config"]["code"]["local"]["filename"] = json!(paths::filter_wasm()?);
    let mut settings: Value = serde_json::from_str(filter["configuration"]["value"].as_str().unwrap_or_default())?;
    change(&mut settings);
    filter["configuration"]["value"] = json!(settings.to_string());
    Ok(())
}
