//! Says what Envoy a test wants, and writes it down as an Envoy bootstrap.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::envoy::Process;
use super::paths;
use super::wasm_filter::{FILTER_NAME, WasmFilter};
use super::{Failure, Result};

/// The cluster that reaches the decision engine, unless the test gives a raw one.
pub const ENGINE_CLUSTER: &str = "decision_engine";
/// Where the bootstrap's directory holds the access log.
pub(super) const ACCESS_LOG: &str = "access.log";

/// A last change to the finished bootstrap.
type Patch = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// The Envoy that a test wants: one listener, one route to the provider, one cluster for the engine.
#[derive(Clone)]
pub struct EnvoyConfig {
    provider: SocketAddr,
    upstream_http2: bool,
    engine: Option<Value>,
    engine_limits: Option<(u32, u32)>,
    other_clusters: Vec<Value>,
    filter: Option<WasmFilter>,
    filters_before: Vec<Value>,
    filters_after: Vec<Value>,
    listener_buffer: Option<u32>,
    body_buffer: Option<u64>,
    trailers: bool,
    stream_idle: Option<Duration>,
    retry_policy: Option<Value>,
    runtime: Option<Value>,
    patches: Vec<Patch>,
    process: Process,
}

impl EnvoyConfig {
    /// Sends everything to `provider` over HTTP/1.1, without our filter.
    pub fn new(provider: SocketAddr) -> Self {
        Self {
            provider,
            upstream_http2: false,
            engine: None,
            engine_limits: None,
            other_clusters: Vec::new(),
            filter: None,
            filters_before: Vec::new(),
            filters_after: Vec::new(),
            listener_buffer: None,
            body_buffer: None,
            trailers: false,
            stream_idle: None,
            retry_policy: None,
            runtime: None,
            patches: Vec::new(),
            process: Process::default(),
        }
    }

    /// Puts our filter in front of the router.
    #[must_use]
    pub fn filter(mut self, filter: WasmFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// The decision engine's address, as a static cluster.
    #[must_use]
    pub fn engine(self, address: SocketAddr) -> Self {
        self.engine_cluster(static_cluster(ENGINE_CLUSTER, address))
    }

    /// The decision engine's cluster, written out.
    #[must_use]
    pub fn engine_cluster(mut self, cluster: Value) -> Self {
        self.engine = Some(cluster);
        self
    }

    /// Circuit breaker of the engine's cluster: calls that may wait for a connection, and calls at the same time.
    #[must_use]
    pub fn engine_limits(mut self, pending: u32, requests: u32) -> Self {
        self.engine_limits = Some((pending, requests));
        self
    }

    /// One more cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: Value) -> Self {
        self.other_clusters.push(cluster);
        self
    }

    /// Speaks HTTP/2 to the provider.
    #[must_use]
    pub fn upstream_http2(mut self) -> Self {
        self.upstream_http2 = true;
        self
    }

    /// An HTTP filter in front of ours; several keep their order.
    #[must_use]
    pub fn filter_before(mut self, filter: Value) -> Self {
        self.filters_before.push(filter);
        self
    }

    /// An HTTP filter between ours and the router; several keep their order.
    #[must_use]
    pub fn filter_after(mut self, filter: Value) -> Self {
        self.filters_after.push(filter);
        self
    }

    /// `per_connection_buffer_limit_bytes` of the listener (Envoy's default: 1 MiB).
    #[must_use]
    pub fn listener_buffer(mut self, bytes: u32) -> Self {
        self.listener_buffer = Some(bytes);
        self
    }

    /// `request_body_buffer_limit` of the virtual host.
    #[must_use]
    pub fn request_body_buffer_limit(mut self, bytes: u64) -> Self {
        self.body_buffer = Some(bytes);
        self
    }

    /// Lets HTTP/1.1 trailers pass, on both sides.
    #[must_use]
    pub fn trailers(mut self) -> Self {
        self.trailers = true;
        self
    }

    /// `stream_idle_timeout` (Envoy's default: five minutes).
    #[must_use]
    pub fn stream_idle_timeout(mut self, limit: Duration) -> Self {
        self.stream_idle = Some(limit);
        self
    }

    /// `retry_policy` of the route.
    #[must_use]
    pub fn retry_policy(mut self, policy: Value) -> Self {
        self.retry_policy = Some(policy);
        self
    }

    /// Runtime flags, for example `{"envoy.reloadable_features.x": false}`.
    #[must_use]
    pub fn runtime(mut self, flags: Value) -> Self {
        self.runtime = Some(flags);
        self
    }

    /// A variable in Envoy's environment, which is empty otherwise.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.process.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Number of worker threads (1 unless said).
    #[must_use]
    pub fn concurrency(mut self, workers: u32) -> Self {
        self.process.concurrency = workers;
        self
    }

    /// Envoy's log level, and the levels of components as in `wasm:debug,http:trace`.
    #[must_use]
    pub fn log_level(mut self, level: &str, components: &str) -> Self {
        level.clone_into(&mut self.process.log_level);
        components.clone_into(&mut self.process.component_levels);
        self
    }

    /// A last change to the finished bootstrap; [`connection_manager`] and [`route`] find the usual places.
    #[must_use]
    pub fn patch(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.patches.push(Arc::new(change));
        self
    }

    /// The process that this configuration wants.
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// The filter when it comes over ECDS.
    pub(super) fn discovered_filter(&self) -> Option<&WasmFilter> {
        self.filter.as_ref().filter(|filter| filter.is_over_ecds())
    }

    /// The whole bootstrap; files that Envoy writes or watches lie in `directory`.
    pub fn bootstrap(&self, directory: &Path) -> Result<Value> {
        let mut listener = json!({
            "name": "ingress",
            "address": socket_address(loopback_any_port()),
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": self.connection_manager(directory)?,
            }]}],
        });
        if let Some(bytes) = self.listener_buffer {
            listener["per_connection_buffer_limit_bytes"] = bytes.into();
        }
        let mut bootstrap = json!({
            "node": {"id": "test", "cluster": "test"},
            "admin": {"address": socket_address(loopback_any_port())},
            "static_resources": {"listeners": [listener], "clusters": self.clusters()},
        });
        if let Some(flags) = &self.runtime {
            bootstrap["layered_runtime"] = json!({"layers": [{"name": "test", "static_layer": flags}]});
        }
        for patch in &self.patches {
            patch(&mut bootstrap);
        }
        Ok(bootstrap)
    }

    fn connection_manager(&self, directory: &Path) -> Result<Value> {
        let mut filters = self.filters_before.clone();
        if let Some(filter) = &self.filter {
            filters.push(filter.http_filter(directory)?);
        }
        filters.extend(self.filters_after.iter().cloned());
        filters.push(json!({
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }));
        let kind = "http_connection_manager.v3.HttpConnectionManager";
        let mut manager = json!({
            "@type": format!("type.googleapis.com/envoy.extensions.filters.network.{kind}"),
            "stat_prefix": "ingress",
            "codec_type": "AUTO",
            "http_protocol_options": {"enable_trailers": self.trailers},
            "http_filters": filters,
            "route_config": {"name": "routes", "virtual_hosts": [self.virtual_host()]},
            "access_log": [access_log(&directory.join(ACCESS_LOG))],
        });
        if let Some(limit) = self.stream_idle {
            manager["stream_idle_timeout"] = seconds(limit);
        }
        Ok(manager)
    }

    fn virtual_host(&self) -> Value {
        let mut action = json!({"cluster": "provider", "timeout": "0s"});
        if let Some(policy) = &self.retry_policy {
            action["retry_policy"] = policy.clone();
        }
        let mut host = json!({
            "name": "all",
            "domains": ["*"],
            "routes": [{"name": "all", "match": {"prefix": "/"}, "route": action}],
        });
        if let Some(bytes) = self.body_buffer {
            host["request_body_buffer_limit"] = bytes.into();
        }
        host
    }

    fn clusters(&self) -> Vec<Value> {
        let http1 = json!({"http_protocol_options": {"enable_trailers": self.trailers}});
        let http2 = json!({"http2_protocol_options": {}});
        let mut provider = static_cluster("provider", self.provider);
        provider["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": if self.upstream_http2 { http2 } else { http1 },
            }
        });
        let mut clusters = vec![provider];
        if let Some(mut engine) = self.engine.clone() {
            if let Some((pending, requests)) = self.engine_limits {
                let limits = json!({"max_pending_requests": pending, "max_requests": requests});
                engine["circuit_breakers"] = json!({"thresholds": [limits]});
            }
            clusters.push(engine);
        }
        clusters.extend(self.other_clusters.iter().cloned());
        clusters
    }
}

/// The HTTP connection manager of a bootstrap's first listener.
pub fn connection_manager(bootstrap: &mut Value) -> &mut Value {
    &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

/// The first route of a bootstrap's first listener.
pub fn route(bootstrap: &mut Value) -> &mut Value {
    &mut connection_manager(bootstrap)["route_config"]["virtual_hosts"][0]["routes"][0]
}

/// A cluster with one fixed endpoint.
pub fn static_cluster(name: &str, address: SocketAddr) -> Value {
    let endpoint = json!({"endpoint": {"address": socket_address(address)}});
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "20s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    })
}

/// Reads a bootstrap of the repository, YAML or JSON, and lets its listeners and its admin take any free port.
pub fn read_bootstrap(path: &str) -> Result<Value> {
    let mut bootstrap = read_yaml(path)?;
    bootstrap["admin"]["address"] = socket_address(loopback_any_port());
    if let Some(listeners) = bootstrap["static_resources"]["listeners"].as_array_mut() {
        for listener in listeners {
            listener["address"] = socket_address(loopback_any_port());
        }
    }
    Ok(bootstrap)
}

/// Any YAML file of the repository.
pub fn read_yaml(path: &str) -> Result<Value> {
    let text = std::fs::read_to_string(paths::repository().join(path))?;
    serde_yaml_ng::from_str(&text).map_err(|error| Failure::from(error).while_doing(format!("reading {path}")))
}

/// Envoy's form of a duration.
pub fn seconds(duration: Duration) -> Value {
    format!("{}s", duration.as_secs_f64()).into()
}

/// Envoy's form of an address.
pub fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

fn loopback_any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn access_log(path: &Path) -> Value {
    json!({
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": {"json_format": {
                "method": "%REQ(:METHOD)%",
                "path": "%REQ(:PATH)%",
                "protocol": "%PROTOCOL%",
                "request_id": "%REQ(X-REQUEST-ID)%",
                "status": "%RESPONSE_CODE%",
                "details": "%RESPONSE_CODE_DETAILS%",
                "flags": "%RESPONSE_FLAGS%",
                "bytes_received": "%BYTES_RECEIVED%",
                "bytes_sent": "%BYTES_SENT%",
                "upstream_attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                "duration_ms": "%DURATION%",
                "filter_state": format!("%FILTER_STATE(wasm.{FILTER_NAME}:PLAIN)%"),
                "window": "%FILTER_STATE(wasm.context_window:PLAIN)%",
            }},
        },
    })
}
