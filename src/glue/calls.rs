//! What streams and the root have in common: calls to the engine, their replies, and shared data.

use super::abi::{self, Buffer, Map};
use crate::policy::Decider;
use proxy_wasm::hostcalls;
use std::time::Duration;

/// Calls the engine. The reply goes to the context whose callback this is called in.
pub(super) fn dispatch(decider: &Decider, body: &[u8], timeout: Duration) -> Option<u32> {
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

pub(super) fn reply_header(name: &str) -> Option<Vec<u8>> {
    abi::present(abi::header(Map::Reply, name))
}

pub(super) fn reply_body(len: usize) -> Option<Vec<u8>> {
    abi::buffer(Buffer::ReplyBody, len).ok()
}

pub(super) fn shared(key: &str) -> Option<(Vec<u8>, Option<u32>)> {
    abi::shared(key).ok().map(|(value, version)| (value, Some(version)))
}

pub(super) fn set_shared(key: &str, value: &[u8], version: Option<u32>) -> bool {
    abi::set_shared(key, value, version.unwrap_or(0)).is_ok()
}
