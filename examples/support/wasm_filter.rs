//! The wasm filter as Envoy's configuration names it.

use std::path::Path;

use serde_json::{Value, json};

use super::Result;
use super::paths;

/// The filter's name in every configuration written here.
pub const FILTER_NAME: &str = "context_compaction";
/// Where the bootstrap's directory holds the filter when it comes over ECDS.
pub(super) const DISCOVERED_FILTER: &str = "filter.json";

const WASM_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";

/// The wasm filter as an entry of `http_filters`.
#[derive(Debug, Clone)]
pub struct WasmFilter {
    configuration: Option<Value>,
    hold_flag: bool,
    failure_policy: Option<String>,
    vm_id: String,
    host_env_keys: Vec<String>,
    over_ecds: bool,
    traps: bool,
}

impl WasmFilter {
    /// Without configuration, with the hold flag, with `fail_open: true`.
    pub fn new() -> Self {
        Self {
            configuration: None,
            hold_flag: true,
            failure_policy: None,
            vm_id: FILTER_NAME.to_owned(),
            host_env_keys: Vec::new(),
            over_ecds: false,
            traps: false,
        }
    }

    /// The plugin configuration: this JSON as text in a `StringValue`.
    #[must_use]
    pub fn configuration(self, configuration: &Value) -> Self {
        self.configuration_text(&configuration.to_string())
    }

    /// The plugin configuration: this text in a `StringValue`, JSON or not.
    #[must_use]
    pub fn configuration_text(self, text: &str) -> Self {
        self.configuration_any(json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text}))
    }

    /// The plugin configuration: any protobuf `Any`, for example a `Struct`.
    #[must_use]
    pub fn configuration_any(mut self, any: Value) -> Self {
        self.configuration = Some(any);
        self
    }

    /// Whether `allow_on_headers_stop_iteration` stands beside the filter.
    #[must_use]
    pub fn hold_flag(mut self, set: bool) -> Self {
        self.hold_flag = set;
        self
    }

    /// A `failure_policy` such as `FAIL_CLOSED`, in place of the deprecated `fail_open: true`.
    ///
    /// Only `fail_open` lets the crashing request itself pass; Envoy refuses both together.
    #[must_use]
    pub fn failure_policy(mut self, policy: &str) -> Self {
        self.failure_policy = Some(policy.to_owned());
        self
    }

    /// The VM's id: equal ids with equal code share a VM, and shared data goes by this id alone.
    #[must_use]
    pub fn vm_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.vm_id);
        self
    }

    /// Variables of Envoy's own environment that the filter may read.
    #[must_use]
    pub fn host_env_keys(mut self, names: &[&str]) -> Self {
        self.host_env_keys = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// The build of the filter that traps where a request's header `x-trap` says: `headers`, `body` or `reply`.
    #[must_use]
    pub fn that_traps(mut self) -> Self {
        self.traps = true;
        self
    }

    /// Delivers the filter through discovery, so that `Envoy::replace_filter` can change it while requests run.
    #[must_use]
    pub fn over_ecds(mut self) -> Self {
        self.over_ecds = true;
        self
    }

    /// Whether the filter comes through discovery.
    pub(super) fn is_over_ecds(&self) -> bool {
        self.over_ecds
    }

    /// The typed configuration of the filter.
    fn typed_config(&self) -> Result<Value> {
        let wasm = if self.traps { paths::trapping_filter_wasm()? } else { paths::filter_wasm()? };
        let mut plugin = json!({
            "name": FILTER_NAME,
            "root_id": FILTER_NAME,
            "vm_config": {
                "vm_id": self.vm_id,
                "runtime": "envoy.wasm.runtime.v8",
                "code": {"local": {"filename": wasm}},
                "environment_variables": {"host_env_keys": self.host_env_keys},
            },
        });
        if self.hold_flag {
            plugin["allow_on_headers_stop_iteration"] = true.into();
        }
        match &self.failure_policy {
            Some(policy) => plugin["failure_policy"] = policy.as_str().into(),
            None => plugin["fail_open"] = true.into(),
        }
        if let Some(configuration) = &self.configuration {
            plugin["configuration"] = configuration.clone();
        }
        Ok(json!({"@type": WASM_TYPE, "config": plugin}))
    }

    /// The entry of `http_filters`.
    pub(super) fn http_filter(&self, directory: &Path) -> Result<Value> {
        if !self.over_ecds {
            return Ok(json!({"name": FILTER_NAME, "typed_config": self.typed_config()?}));
        }
        let path = directory.join(DISCOVERED_FILTER);
        let source = json!({"path_config_source": {"path": path}, "resource_api_version": "V3"});
        Ok(json!({"name": FILTER_NAME, "config_discovery": {"config_source": source, "type_urls": [WASM_TYPE]}}))
    }

    /// What the discovery file holds.
    pub(super) fn discovery_response(&self) -> Result<Value> {
        let resource = json!({
            "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
            "name": FILTER_NAME,
            "typed_config": self.typed_config()?,
        });
        Ok(json!({"resources": [resource]}))
    }
}
