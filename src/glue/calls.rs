//! What the plugin offers to streams and to the root alike, as a [`Plugin`]: calls to the engine, shared data, metrics.

use super::{
    abi::{self, Buffer, Map},
    meters::Meters,
};
use crate::{
    driver::{Field, Plugin},
    memory::Store,
    metrics::Metric,
    policy::Decider,
};
use proxy_wasm::hostcalls;
use std::{rc::Rc, time::Duration};

/// The data that all workers share.
pub(super) struct Workers;

impl Store for Workers {
    fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
        abi::shared(key).ok().map(|(value, version)| (value, Some(version)))
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        abi::set_shared(key, value, version.unwrap_or(0)).is_ok()
    }
}

/// Removes a header of the current request that is meant for the filter alone.
pub(super) fn take_request_header(name: &str) {
    if abi::remove_header(Map::Request, name).is_err() {
        log::debug!("the host kept a request header");
    }
}

/// Sets a header of the current response.
pub(super) fn set_response_header(name: &str, value: &str) {
    if abi::set_header(Map::Response, name, value).is_err() {
        log::debug!("the host took no response header");
    }
}

/// Sets one of the filter's fields in the access log of the current stream.
pub(super) fn note(field: Field, line: &str) {
    if abi::set_property(field.name(), line).is_err() {
        log::debug!("the host took no access-log field");
    }
}

/// The plugin of the current callback.
pub(super) struct Calls(pub(super) Rc<Meters>);

impl Plugin for Calls {
    /// The reply goes to the context whose callback this is called in.
    fn dispatch(&self, decider: &Decider, body: &[u8], timeout: Duration) -> Option<u32> {
        let scheme = if decider.endpoint.tls { "https" } else { "http" };
        let mut headers = vec![
            (":method", "POST"),
            (":scheme", scheme),
            (":authority", decider.endpoint.authority.as_str()),
            (":path", decider.endpoint.path.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json"),
        ];
        let key = decider.api_key.as_ref().and_then(|key| key.value.as_ref());
        let bearer = key.map(|key| format!("Bearer {}", key.expose()));
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        hostcalls::dispatch_http_call(&decider.cluster, headers, Some(body), Vec::new(), timeout).ok()
    }

    fn reply_header(&self, name: &str) -> Option<Vec<u8>> {
        abi::present(abi::header(Map::Reply, name))
    }

    fn reply_body(&self, len: usize) -> Option<Vec<u8>> {
        abi::buffer(Buffer::ReplyBody, len).ok()
    }

    fn shared(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
        Workers.get(key)
    }

    fn set_shared(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        Workers.set(key, value, version)
    }

    fn now(&self) -> Duration {
        abi::now().unwrap_or_default()
    }

    fn add(&self, metric: Metric, by: u64) {
        self.0.add(metric, by);
    }

    fn shift(&self, metric: Metric, by: i64) {
        self.0.shift(metric, by);
    }

    fn record(&self, metric: Metric, value: u64) {
        self.0.record(metric, value);
    }

    fn engine_called(&self) {
        self.0.engine_called();
    }

    fn engine_answered(&self) {
        self.0.engine_answered();
    }
}
