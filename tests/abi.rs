//! Every raw host call with every status that a host may return: a value each time, never a panic. The host here is a set
//! of native functions under the names that the module imports.

#[path = "../src/glue/abi.rs"]
#[allow(dead_code, unreachable_pub, reason = "the glue uses what the test does not")]
mod abi;

use abi::{Buffer, Map, MetricType, Refused};
use std::cell::Cell;
use std::sync::Mutex;

thread_local! {
    static STATUS: Cell<u32> = const { Cell::new(0) };
    /// What a read returns: nothing, or these bytes in memory that the module owns from then on.
    static ANSWER: Cell<Option<&'static [u8]>> = const { Cell::new(None) };
}

fn status() -> u32 {
    STATUS.get()
}

/// Hands the answer over as Envoy does: in memory allocated for the module, whatever the status.
///
/// # Safety
/// Both pointers must be valid for writes.
unsafe fn give(data: *mut *mut u8, len: *mut usize) -> u32 {
    if let Some(bytes) = ANSWER.get() {
        let owned = bytes.to_vec().into_boxed_slice();
        let size = owned.len();
        // SAFETY: the caller promises valid pointers.
        unsafe {
            *len = size;
            *data = Box::into_raw(owned).cast::<u8>();
        }
    }
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn proxy_get_buffer_bytes(_: u32, _: usize, _: usize, data: *mut *mut u8, len: *mut usize) -> u32 {
    unsafe { give(data, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn proxy_get_header_map_value(
    _: u32,
    _: *const u8,
    _: usize,
    data: *mut *mut u8,
    len: *mut usize,
) -> u32 {
    unsafe { give(data, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn proxy_get_shared_data(
    _: *const u8,
    _: usize,
    data: *mut *mut u8,
    len: *mut usize,
    _: *mut u32,
) -> u32 {
    unsafe { give(data, len) }
}

/// The headers of the last answer, as they were handed over.
static HEADERS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[unsafe(no_mangle)]
unsafe extern "C" fn proxy_send_local_response(
    _: u32,
    _: *const u8,
    _: usize,
    _: *const u8,
    _: usize,
    headers: *const u8,
    headers_len: usize,
    _: i32,
) -> u32 {
    // SAFETY: the caller promises that all of them can be read.
    *HEADERS.lock().unwrap() = unsafe { std::slice::from_raw_parts(headers, headers_len) }.to_vec();
    status()
}

macro_rules! answers_with_the_status {
    ($($name:ident($($argument:ty),*);)+) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> u32 {
            status()
        })+
    };
}

answers_with_the_status! {
    proxy_set_buffer_bytes(u32, usize, usize, *const u8, usize);
    proxy_replace_header_map_value(u32, *const u8, usize, *const u8, usize);
    proxy_remove_header_map_value(u32, *const u8, usize);
    proxy_continue_stream(u32);
    proxy_define_metric(u32, *const u8, usize, *mut u32);
    proxy_increment_metric(u32, i64);
    proxy_record_metric(u32, u64);
    proxy_set_property(*const u8, usize, *const u8, usize);
    proxy_get_current_time_nanoseconds(*mut u64);
    proxy_set_effective_context(u32);
    proxy_set_shared_data(*const u8, usize, *const u8, usize, u32);
    proxy_set_tick_period_milliseconds(u32);
}

/// The outcome of every call of the module, by name.
fn every_call() -> Vec<(&'static str, Result<(), Refused>)> {
    vec![
        ("buffer", abi::buffer(Buffer::RequestBody, usize::MAX).map(drop)),
        ("replace_start", abi::replace_start(Buffer::RequestBody, usize::MAX, b"{}")),
        ("header", abi::header(Map::Request, "content-type").map(drop)),
        ("set_header", abi::set_header(Map::Request, "content-length", "1")),
        ("remove_header", abi::remove_header(Map::Reply, "content-length")),
        ("continue_request", abi::continue_request()),
        ("define_metric", abi::define_metric(MetricType::Counter, "a.b").map(drop)),
        ("add_to_metric", abi::add_to_metric(1, i64::MIN)),
        ("record_metric", abi::record_metric(1, u64::MAX)),
        ("set_property", abi::set_property("a", "b")),
        ("now", abi::now().map(drop)),
        ("answer", abi::answer(200, "details", "{}")),
        ("shared", abi::shared("key").map(drop)),
        ("set_shared", abi::set_shared("key", b"value", 1)),
        ("set_effective_context", abi::set_effective_context(7)),
        ("set_tick", abi::set_tick(std::time::Duration::MAX)),
    ]
}

#[test]
fn every_status_comes_back_as_a_value() {
    for status in (0..=16).chain([255, u32::MAX]) {
        STATUS.set(status);
        for answer in [None, Some(&b""[..]), Some(b"bytes \xff"), Some(&[0; 100_000])] {
            ANSWER.set(answer);
            for (name, result) in every_call() {
                let expected = if status == 0 { Ok(()) } else { Err(Refused(status)) };
                assert_eq!(result, expected, "{name} with status {status}");
            }
        }
    }
}

#[test]
fn headers_of_an_answer_are_laid_out_as_the_host_reads_them() {
    STATUS.set(0);
    abi::answer(200, "", "{}").unwrap();
    let expected = [&b"\x01\0\0\0\x0c\0\0\0\x10\0\0\0"[..], b"content-type\0application/json\0"].concat();
    assert_eq!(*HEADERS.lock().unwrap(), expected);
}

#[test]
fn bytes_are_taken_over_as_they_are() {
    STATUS.set(0);
    ANSWER.set(Some(b"caf\xe9"));
    assert_eq!(abi::header(Map::Request, "x-bad"), Ok(b"caf\xe9".to_vec()), "bytes outside UTF-8 are bytes");
    ANSWER.set(None);
    assert_eq!(abi::buffer(Buffer::ReplyBody, 10), Ok(Vec::new()), "the host wrote nothing");
}
