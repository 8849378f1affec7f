//! One request of the host as a [`Driver`].

use super::{
    abi::{self, Buffer, Map},
    analyst::{self, Analyst},
    calls::{self, Calls},
    meters::Meters,
};
use crate::{
    cut::Reduced,
    driver::{Driver, Field, Flow, Host, Plugin},
    hold::{Hold, Watch},
    policy::Policy,
};
use proxy_wasm::{
    traits::{Context, HttpContext},
    types::Action,
};
use std::{cell::RefCell, rc::Rc};

pub(super) struct Stream {
    context: u32,
    policy: Rc<Policy>,
    seed: u64,
    watch: Rc<RefCell<Watch>>,
    driver: Driver<Request>,
    /// The request asks for an analysis, and is nothing to the driver.
    analyst: Option<Analyst>,
}

/// What the streams of one plugin share: metrics, the watch over held requests, the seed of names in memory.
pub(super) type Shared = (Rc<Meters>, Rc<RefCell<Watch>>, u64);

impl Stream {
    pub(super) fn new(context: u32, policy: Rc<Policy>, (meters, watch, seed): Shared) -> Self {
        let request = Request { plugin: Calls(meters), watch: Rc::clone(&watch) };
        let driver = Driver::new(request, Rc::clone(&policy), seed);
        Self { context, policy, seed, watch, driver, analyst: None }
    }

    /// The headers are held from now on.
    fn held(&self) {
        if let Ok(mut watch) = self.watch.try_borrow_mut() {
            watch.began(self.context, self.driver.host().plugin().now());
        }
    }

    fn was_released(&self) -> bool {
        self.watch.try_borrow_mut().is_ok_and(|mut watch| watch.body_arrived(self.context) == Hold::Released)
    }
}

fn action(flow: Flow) -> Action {
    match flow {
        Flow::Continue => Action::Continue,
        Flow::Pause => Action::Pause,
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_len: usize, _: usize) {
        trap_on_command("reply");
        self.driver.on_engine_reply(token, headers, body_len);
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end: bool) -> Action {
        trap_on_command("headers");
        if analyst::wanted(&self.policy) {
            self.held();
            self.analyst = Some(Analyst::begin(&self.policy, self.seed, end));
            return Action::Pause;
        }
        let flow = self.driver.on_request_headers(end);
        if flow == Flow::Pause {
            self.held();
        }
        action(flow)
    }

    fn on_http_request_body(&mut self, len: usize, end: bool) -> Action {
        trap_on_command("body");
        let released = self.was_released();
        if let Some(analyst) = &mut self.analyst {
            return analyst.on_body(self.driver.host().plugin(), len, end);
        }
        action(if released { self.driver.on_hold_released() } else { self.driver.on_request_body(len, end) })
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        let released = self.was_released();
        if let Some(analyst) = &mut self.analyst {
            return analyst.on_end(self.driver.host().plugin());
        }
        action(if released { self.driver.on_hold_released() } else { self.driver.on_request_trailers() })
    }

    fn on_http_response_headers(&mut self, _: usize, end: bool) -> Action {
        if self.analyst.is_some() {
            return Action::Continue;
        }
        self.driver.on_response_headers(end);
        Action::Continue
    }

    fn on_http_response_body(&mut self, len: usize, end: bool) -> Action {
        self.driver.on_response_body(len, end);
        Action::Continue
    }

    fn on_log(&mut self) {
        if self.was_released() {
            self.driver.on_hold_released();
        }
        if let Ok(mut watch) = self.watch.try_borrow_mut() {
            watch.ended(self.context);
        }
        if self.analyst.is_none() {
            self.driver.on_stream_end();
        }
    }
}

/// Shows what a trap does to a worker. No module that is shipped has it.
#[cfg(feature = "trap")]
fn trap_on_command(here: &str) {
    if abi::header(Map::Request, "x-trap").is_ok_and(|place| place == here.as_bytes()) {
        core::arch::wasm32::unreachable()
    }
}

#[cfg(not(feature = "trap"))]
fn trap_on_command(_: &str) {}

/// The request of the current context.
struct Request {
    plugin: Calls,
    watch: Rc<RefCell<Watch>>,
}

impl Host for Request {
    type Plugin = Calls;

    fn plugin(&self) -> &Calls {
        &self.plugin
    }

    fn request_header(&self, name: &str) -> Option<Vec<u8>> {
        abi::present(abi::header(Map::Request, name))
    }

    fn set_request_header(&self, name: &str, value: &str) -> bool {
        abi::set_header(Map::Request, name, value).is_ok()
    }

    fn remove_request_header(&self, name: &str) -> bool {
        abi::remove_header(Map::Request, name).is_ok()
    }

    fn request_body(&self, len: usize) -> Option<Vec<u8>> {
        // One byte more than expected shows a body that grew behind our back.
        abi::buffer(Buffer::RequestBody, len.saturating_add(1)).ok().filter(|body| body.len() == len)
    }

    fn replace_request_body(&self, body: &Reduced) -> bool {
        abi::replace_start(Buffer::RequestBody, body.replaces(), body.prefix()).is_ok()
    }

    fn may_hold(&self) -> bool {
        self.watch.try_borrow_mut().is_ok_and(|mut watch| watch.may_hold(self.plugin.now()))
    }

    fn resume_request(&self) -> bool {
        abi::continue_request().is_ok()
    }

    fn response_header(&self, name: &str) -> Option<Vec<u8>> {
        abi::present(abi::header(Map::Response, name))
    }

    fn response_body(&self, len: usize) -> Option<Vec<u8>> {
        abi::buffer(Buffer::ResponseBody, len).ok()
    }

    fn take_request_header(&self, name: &str) {
        calls::take_request_header(name);
    }

    fn set_response_header(&self, name: &str, value: &str) {
        calls::set_response_header(name, value);
    }

    fn note(&self, field: Field, line: &str) {
        calls::note(field, line);
    }
}
