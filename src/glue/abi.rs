//! Raw host calls. Each returns the host's status as a value: the SDK's own wrappers panic on a status they do not
//! expect, and on header bytes outside UTF-8, and a panic takes the worker's VM down.
//!
//! The one call that is not here is the HTTP callout: only the SDK's `dispatch_http_call` registers the token, and the
//! SDK panics on a reply to a token that it does not know.
#![allow(unsafe_code)]

use std::time::Duration;

/// A status other than 0 (OK), as the host gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) u32);

/// A buffer of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffer {
    RequestBody = 0,
    ResponseBody = 1,
    ReplyBody = 4,
    Configuration = 7,
}

/// A header map of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    Request = 0,
    Response = 2,
    Reply = 6,
}

/// How a metric adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

const REQUEST_STREAM: u32 = 0;

#[cfg_attr(target_arch = "wasm32", link(wasm_import_module = "env"))]
unsafe extern "C" {
    fn proxy_get_buffer_bytes(buffer: u32, start: usize, max: usize, data: *mut *mut u8, len: *mut usize) -> u32;
    fn proxy_set_buffer_bytes(buffer: u32, start: usize, len: usize, data: *const u8, data_len: usize) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_len: usize,
        value: *mut *mut u8,
        value_len: *mut usize,
    ) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, key: *const u8, key_len: usize) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_len: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, by: i64) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
    fn proxy_set_property(path: *const u8, path_len: usize, value: *const u8, value_len: usize) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_len: usize,
        value: *mut *mut u8,
        len: *mut usize,
        cas: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(key: *const u8, key_len: usize, value: *const u8, len: usize, cas: u32) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_len: usize,
        body: *const u8,
        body_len: usize,
        headers: *const u8,
        headers_len: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
}

fn done(status: u32) -> Result<(), Refused> {
    if status == 0 { Ok(()) } else { Err(Refused(status)) }
}

/// Takes over what the host wrote into memory that it asked this module to allocate.
fn taken(status: u32, data: *mut u8, len: usize) -> Result<Vec<u8>, Refused> {
    done(status)?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the host allocates through `proxy_on_memory_allocate`, which leaks a `Vec<u8>` of this capacity, and has
    // filled all of it.
    Ok(unsafe { Vec::from_raw_parts(data, len, len) })
}

/// Up to `max` bytes from the start of `buffer`.
pub(crate) fn buffer(buffer: Buffer, max: usize) -> Result<Vec<u8>, Refused> {
    let (mut data, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: both pointers are valid for writes during the call.
    let status = unsafe { proxy_get_buffer_bytes(buffer as u32, 0, max, &raw mut data, &raw mut len) };
    taken(status, data, len)
}

/// Puts `bytes` in place of the first `replaced` bytes of `buffer`.
pub(crate) fn replace_start(buffer: Buffer, replaced: usize, bytes: &[u8]) -> Result<(), Refused> {
    // SAFETY: `bytes` is valid for reads during the call.
    done(unsafe { proxy_set_buffer_bytes(buffer as u32, 0, replaced, bytes.as_ptr(), bytes.len()) })
}

/// The value of header `name`; an absent header is `Err` or empty, as the host likes.
pub(crate) fn header(map: Map, name: &str) -> Result<Vec<u8>, Refused> {
    let (mut data, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: `name` is valid for reads, both pointers for writes, during the call.
    let status =
        unsafe { proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), &raw mut data, &raw mut len) };
    taken(status, data, len)
}

/// Some hosts answer an absent header with an empty value.
pub(crate) fn present(value: Result<Vec<u8>, Refused>) -> Option<Vec<u8>> {
    value.ok().filter(|value| !value.is_empty())
}

/// Sets header `name`.
pub(crate) fn set_header(map: Map, name: &str, value: &str) -> Result<(), Refused> {
    // SAFETY: both strings are valid for reads during the call.
    done(unsafe { proxy_replace_header_map_value(map as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// Removes header `name`.
pub(crate) fn remove_header(map: Map, name: &str) -> Result<(), Refused> {
    // SAFETY: `name` is valid for reads during the call.
    done(unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) })
}

/// Lets the paused request of the current context go on; harmless when it is not paused.
pub(crate) fn continue_request() -> Result<(), Refused> {
    // SAFETY: no pointers.
    done(unsafe { proxy_continue_stream(REQUEST_STREAM) })
}

/// Defines a metric, or finds the one of this name.
pub(crate) fn define_metric(kind: MetricType, name: &str) -> Result<u32, Refused> {
    let mut id = 0;
    // SAFETY: `name` is valid for reads, `id` for writes, during the call.
    done(unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds to a counter, or to a gauge, from which a negative number takes away.
pub(crate) fn add_to_metric(id: u32, by: i64) -> Result<(), Refused> {
    // SAFETY: no pointers.
    done(unsafe { proxy_increment_metric(id, by) })
}

/// Records a value in a histogram, or sets a gauge.
pub(crate) fn record_metric(id: u32, value: u64) -> Result<(), Refused> {
    // SAFETY: no pointers.
    done(unsafe { proxy_record_metric(id, value) })
}

/// Sets a property of the current stream: filter state under `wasm.<name>`.
pub(crate) fn set_property(name: &str, value: &str) -> Result<(), Refused> {
    // SAFETY: both strings are valid for reads during the call.
    done(unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// The host's clock since the epoch.
pub(crate) fn now() -> Result<Duration, Refused> {
    let mut nanoseconds = 0;
    // SAFETY: the pointer is valid for writes during the call.
    done(unsafe { proxy_get_current_time_nanoseconds(&raw mut nanoseconds) })?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Answers the current request in place of its provider, with JSON.
pub(crate) fn answer(status: u16, details: &str, body: &str) -> Result<(), Refused> {
    const HEADERS: [(&str, &str); 1] = [("content-type", "application/json")];
    let headers = serialized(&HEADERS);
    // SAFETY: all of these are valid for reads during the call.
    done(unsafe {
        proxy_send_local_response(
            status.into(),
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            -1,
        )
    })
}

/// Headers as the host takes them: how many, the lengths of each, then each with a zero behind it.
fn serialized(headers: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = u32::try_from(headers.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    headers.iter().for_each(|(name, value)| bytes.extend([length(name), length(value)].concat()));
    let texts = headers.iter().flat_map(|(name, value)| [name, value]);
    texts.for_each(|text| bytes.extend(text.bytes().chain([0])));
    bytes
}

/// Makes `context` the one that the next calls are about; refused when it is gone.
pub(crate) fn set_effective_context(context: u32) -> Result<(), Refused> {
    // SAFETY: no pointers.
    done(unsafe { proxy_set_effective_context(context) })
}

/// Asks for a tick of the root context every `period`; zero ends it.
pub(crate) fn set_tick(period: Duration) -> Result<(), Refused> {
    // SAFETY: no pointers.
    done(unsafe { proxy_set_tick_period_milliseconds(u32::try_from(period.as_millis()).unwrap_or(u32::MAX)) })
}

/// The shared value of `key` and its version; an absent one is `Err`.
pub(crate) fn shared(key: &str) -> Result<(Vec<u8>, u32), Refused> {
    let (mut data, mut len, mut version) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: `key` is valid for reads, the pointers for writes, during the call.
    let status =
        unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), &raw mut data, &raw mut len, &raw mut version) };
    Ok((taken(status, data, len)?, version))
}

/// Sets the shared value of `key` if its version is still `version`; zero sets it whatever it is.
pub(crate) fn set_shared(key: &str, value: &[u8], version: u32) -> Result<(), Refused> {
    // SAFETY: `key` and `value` are valid for reads during the call.
    done(unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), version) })
}
