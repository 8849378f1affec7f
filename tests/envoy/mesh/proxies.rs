//! What the control planes make of the resources, as an Envoy bootstrap. Istio's and Envoy Gateway's sources say how; this
//! does the part that concerns the filter, so that Envoy itself can be asked whether it takes the result.

use std::path::Path;

use context_compaction::policy::Policy;
use serde_json::{Value, json};

use super::resources::rendered;
use crate::support::{
    envoy_config::{connection_manager, route},
    exchange::NoEnvironment,
};

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const ROUTER: &str = "envoy.filters.http.router";

/// The plugin configurations in a resource, as the texts that reach the module.
pub(crate) fn configurations(resource: &Value) -> Vec<String> {
    let spec = &resource["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match resource["kind"].as_str() {
        Some("WasmPlugin") => vec![istio_text(&spec["pluginConfig"])],
        // Raw JSON, as the API server keeps it.
        Some("EnvoyExtensionPolicy") => list(&spec["wasm"]).iter().map(|wasm| wasm["config"].to_string()).collect(),
        Some("EnvoyFilter") => list(&spec["configPatches"])
            .iter()
            .filter(|patch| patch["patch"]["value"]["typed_config"]["@type"] == WASM)
            .map(|patch| &patch["patch"]["value"]["typed_config"]["config"]["configuration"])
            .inspect(|any| assert_eq!(any["@type"], "type.googleapis.com/google.protobuf.StringValue"))
            .map(|any| any["value"].as_str().expect("JSON text").to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

/// What the module makes of it.
pub(crate) fn policy(text: &str) -> Policy {
    let parsed = Policy::parse(text.as_bytes(), &NoEnvironment);
    parsed.unwrap_or_else(|problems| panic!("{problems:?} in {text}"))
}

/// Istio keeps `pluginConfig` as a protobuf `Struct`, in which every number is a double, and writes it out as JSON text.
fn istio_text(config: &Value) -> String {
    fn through_struct(value: &mut Value) {
        match value {
            Value::Object(members) => members.values_mut().for_each(through_struct),
            Value::Array(items) => items.iter_mut().for_each(through_struct),
            Value::Number(number) => {
                let double = number.as_f64().expect("a double");
                *value = if double.fract() == 0.0 { json!(double as i64) } else { json!(double) };
            }
            _ => {}
        }
    }
    let mut config = config.clone();
    through_struct(&mut config);
    config.to_string()
}

/// How the filter of an EnvoyFilter gets to Envoy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Over ECDS, as it is written.
    Discovered,
    /// Written into the listener, so that Envoy loads it while it validates.
    Inline,
}

/// What istiod sends to a proxy to which all these resources apply. `services` are the engine's resources.
pub(crate) fn istio(resources: &[Value], services: &[Value], delivery: Delivery) -> Value {
    let mut bootstrap = skeleton();
    let mut extensions = Vec::new();
    for resource in resources {
        match resource["kind"].as_str() {
            Some("WasmPlugin") => insert_before_router(&mut bootstrap, wasm_plugin(resource)),
            Some("EnvoyFilter") => {
                for patch in resource["spec"]["configPatches"].as_array().expect("patches") {
                    apply(patch, &mut bootstrap, &mut extensions);
                }
            }
            _ => {}
        }
    }
    for service in services.iter().filter(|resource| resource["kind"] == "Service") {
        add_cluster(&mut bootstrap, istio_cluster(service));
    }
    match delivery {
        Delivery::Inline => inline(&mut bootstrap, &extensions),
        Delivery::Discovered => {
            let xds = json!({"envoy_grpc": {"cluster_name": "xds-grpc"}});
            bootstrap["dynamic_resources"] = json!({"ads_config": {
                "api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [xds],
            }});
            add_cluster(
                &mut bootstrap,
                json!({
                    "name": "xds-grpc", "type": "STATIC", "load_assignment": {"cluster_name": "xds-grpc"},
                    "http2_protocol_options": {},
                }),
            );
        }
    }
    bootstrap
}

/// What Envoy Gateway sends to the proxies of a gateway to which all these resources apply.
fn envoy_gateway(resources: &[Value]) -> Value {
    let mut bootstrap = skeleton();
    let listener = &mut bootstrap["static_resources"]["listeners"][0];
    listener["per_connection_buffer_limit_bytes"] = json!(32 << 10);
    connection_manager(&mut bootstrap)["http2_protocol_options"] =
        json!({"initial_stream_window_size": 64 << 10, "initial_connection_window_size": 1 << 20});
    for resource in resources {
        let spec = &resource["spec"];
        match resource["kind"].as_str() {
            Some("ClientTrafficPolicy") => client_traffic(spec, &mut bootstrap),
            Some("EnvoyProxy") => envoy_proxy(spec, &mut bootstrap),
            Some("EnvoyExtensionPolicy") => {
                for wasm in spec["wasm"].as_array().expect("wasm") {
                    let name = "envoy.filters.http.wasm/envoyextensionpolicy/llm/context-compaction/wasm/0";
                    insert_before_router(&mut bootstrap, gateway_wasm(name, wasm));
                    route(&mut bootstrap)["typed_per_filter_config"][name] =
                        json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}});
                }
            }
            _ => {}
        }
    }
    bootstrap
}

/// What the proxies of a way get.
pub(crate) fn proxy_of(way: &str, resources: &[Value]) -> Value {
    match way {
        "envoy/gateway" => envoy_gateway(resources),
        _ => istio(resources, &rendered(Path::new("envoy/engine")), Delivery::Inline),
    }
}

/// A listener with one route to a provider.
fn skeleton() -> Value {
    let any = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "llm",
        "route_config": {"virtual_hosts": [{
            "name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "provider"}}],
        }]},
        "http_filters": [{
            "name": ROUTER,
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let filter = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    json!({
        "node": {"id": "test", "cluster": "test"},
        "admin": {"address": any(0)},
        "static_resources": {
            "listeners": [{"name": "llm", "address": any(0), "filter_chains": [{"filters": [filter]}]}],
            "clusters": [{"name": "provider", "type": "STATIC", "load_assignment": {"cluster_name": "provider"}}],
        },
    })
}

fn add_cluster(bootstrap: &mut Value, cluster: Value) {
    bootstrap["static_resources"]["clusters"].as_array_mut().expect("clusters").push(cluster);
}

/// The cluster that istiod makes for a service.
fn istio_cluster(service: &Value) -> Value {
    let host = format!(
        "{}.{}.svc.cluster.local",
        service["metadata"]["name"].as_str().expect("a name"),
        service["metadata"]["namespace"].as_str().expect("a namespace")
    );
    let port = &service["spec"]["ports"][0]["port"];
    let name = format!("outbound|{port}||{host}");
    let endpoint = json!({"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}});
    let assignment = json!({"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]});
    json!({"name": name, "type": "STRICT_DNS", "load_assignment": assignment})
}

fn insert_before_router(bootstrap: &mut Value, filter: Value) {
    let filters = connection_manager(bootstrap)["http_filters"].as_array_mut().expect("http_filters");
    assert_eq!(filters.last().expect("a filter")["name"], ROUTER);
    filters.insert(filters.len() - 1, filter);
}

/// The validator puts the real path in.
fn local_module() -> Value {
    json!({"local": {"filename": "dist/context_compaction.wasm"}})
}

fn string_value(text: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text})
}

fn wasm_plugin(resource: &Value) -> Value {
    let spec = &resource["spec"];
    let name = format!("{}.{}", resource["metadata"]["namespace"], resource["metadata"]["name"]).replace('"', "");
    let variables = spec["vmConfig"]["env"].as_array().cloned().unwrap_or_default();
    let hosts: Vec<&Value> = variables.iter().filter(|v| v["valueFrom"] == "HOST").map(|v| &v["name"]).collect();
    let config = json!({
        "name": name,
        "root_id": spec["pluginName"],
        "configuration": string_value(&istio_text(&spec["pluginConfig"])),
        "failure_policy": spec["failStrategy"],
        "vm_config": {
            "runtime": "envoy.wasm.runtime.v8",
            "code": local_module(),
            "environment_variables": {"host_env_keys": hosts},
        },
    });
    json!({"name": name, "typed_config": {"@type": WASM, "config": config}})
}

fn gateway_wasm(name: &str, wasm: &Value) -> Value {
    let config = json!({
        "name": wasm["name"],
        "root_id": wasm["rootID"],
        "configuration": string_value(&wasm["config"].to_string()),
        "fail_open": wasm["failOpen"],
        "vm_config": {
            "vm_id": "envoyextensionpolicy/llm/context-compaction/wasm/0",
            "runtime": "envoy.wasm.runtime.v8",
            "code": local_module(),
            "environment_variables": {"host_env_keys": wasm["env"]["hostKeys"]},
        },
    });
    json!({"name": name, "disabled": true, "typed_config": {"@type": WASM, "config": config}})
}

/// One patch of an EnvoyFilter.
fn apply(patch: &Value, bootstrap: &mut Value, extensions: &mut Vec<Value>) {
    let value = patch["patch"]["value"].clone();
    match (patch["applyTo"].as_str(), patch["patch"]["operation"].as_str()) {
        (Some("LISTENER"), Some("MERGE")) => merge(&mut bootstrap["static_resources"]["listeners"][0], value),
        (Some("NETWORK_FILTER"), Some("MERGE")) => {
            let filters = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"];
            assert_eq!(filters[0]["name"], value["name"]);
            merge(&mut filters[0], value);
        }
        (Some("EXTENSION_CONFIG"), Some("ADD")) => extensions.push(value),
        (Some("HTTP_FILTER"), Some("INSERT_BEFORE")) => insert_before_router(bootstrap, value),
        other => panic!("a patch that this test does not know: {other:?}"),
    }
}

/// As messages of protobuf are merged: members one by one, lists joined, the rest replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

/// Puts what would be discovered where it is wanted, and a local file in place of the download, as Istio's agent does.
fn inline(bootstrap: &mut Value, extensions: &[Value]) {
    for filter in connection_manager(bootstrap)["http_filters"].as_array_mut().expect("http_filters") {
        if filter.get("config_discovery").is_none() {
            continue;
        }
        let extension = extensions.iter().find(|extension| extension["name"] == filter["name"]);
        let mut typed = extension.expect("an extension of the filter's name")["typed_config"].clone();
        let code = &mut typed["config"]["vm_config"]["code"];
        assert!(code["remote"]["http_uri"]["uri"].is_string() && code["remote"]["sha256"].is_string());
        *code = local_module();
        *filter = json!({"name": filter["name"], "typed_config": typed});
    }
}

fn client_traffic(spec: &Value, bootstrap: &mut Value) {
    let listener = &mut bootstrap["static_resources"]["listeners"][0];
    if let Some(limit) = bytes(&spec["connection"]["bufferLimit"]) {
        listener["per_connection_buffer_limit_bytes"] = json!(limit);
    }
    let manager = connection_manager(bootstrap);
    for (from, to) in [
        ("initialStreamWindowSize", "initial_stream_window_size"),
        ("initialConnectionWindowSize", "initial_connection_window_size"),
    ] {
        if let Some(size) = bytes(&spec["http2"][from]) {
            manager["http2_protocol_options"][to] = json!(size);
        }
    }
    if let Some(limit) = spec["timeout"]["http"]["streamIdleTimeout"].as_str() {
        manager["stream_idle_timeout"] = json!(limit);
    }
}

fn envoy_proxy(spec: &Value, bootstrap: &mut Value) {
    assert_eq!(spec["bootstrap"]["type"], "Merge");
    let text = spec["bootstrap"]["value"].as_str().expect("a bootstrap");
    merge(bootstrap, serde_yaml_ng::from_str(text).expect("YAML"));
    for setting in spec["telemetry"]["accessLog"]["settings"].as_array().into_iter().flatten() {
        let log = json!({
            "name": "envoy.access_loggers.stdout",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                "log_format": {"text_format_source": {"inline_string": setting["format"]["text"]}},
            },
        });
        merge(connection_manager(bootstrap), json!({"access_log": [log]}));
    }
}

/// A quantity of Kubernetes, in bytes.
pub(crate) fn bytes(quantity: &Value) -> Option<u64> {
    let text = quantity.as_str()?;
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    Some(number.parse::<u64>().expect("a whole number") << shift)
}
