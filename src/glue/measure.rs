//! Measuring: a stream copies its request while it passes, and the root runs the copy through a [`Driver`] afterwards.
//!
//! The root does it because a reply that comes after the end of a stream finds nobody there.

use super::{
    abi::{self, Buffer, Map},
    calls::Calls,
    meters::Meters,
};
use crate::{
    cut::Reduced,
    driver::{Driver, Host, Plugin},
    metrics::Metric,
    policy::Policy,
};
use proxy_wasm::{
    traits::{Context, HttpContext},
    types::Action,
};
use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

/// How often the root looks for copies.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// Bytes of all copies of one worker together; requests beyond are not measured.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of copies that one tick reads: reading a megabyte takes the worker a few milliseconds.
const MAX_BYTES_PER_TICK: usize = 2 * 1024 * 1024;

/// Copies that wait for the root, or for the engine.
#[derive(Default)]
pub(super) struct Backlog {
    /// Bytes of copies whose requests are still arriving.
    arriving: usize,
    waiting: VecDeque<Driver<Copy>>,
    running: Vec<Driver<Copy>>,
}

impl Backlog {
    fn bytes(&self) -> usize {
        let whole: usize = self.waiting.iter().chain(&self.running).map(|driver| driver.host().len()).sum();
        whole.saturating_add(self.arriving)
    }

    /// Takes note of `bytes` more of a request that arrives, if there is room for them.
    fn arrives(&mut self, bytes: usize) -> bool {
        let room = self.bytes().saturating_add(bytes) <= MAX_BYTES;
        self.arriving = self.arriving.saturating_add(if room { bytes } else { 0 });
        room
    }

    /// A copy of `bytes` is complete, or given up.
    fn arrived(&mut self, bytes: usize) {
        self.arriving = self.arriving.saturating_sub(bytes);
    }

    /// Reads copies and asks about them. Called in the root's own callback, so that replies come to the root.
    pub(super) fn on_tick(&mut self) {
        let mut read = 0usize;
        while read < MAX_BYTES_PER_TICK {
            let Some(mut driver) = self.waiting.pop_front() else { break };
            let len = driver.host().len();
            read = read.saturating_add(len);
            driver.on_request_body(len, true);
            if !driver.is_settled() {
                self.running.push(driver);
            }
        }
    }

    pub(super) fn on_engine_reply(&mut self, token: u32, headers: usize, body_len: usize) {
        if let Some(driver) = self.running.iter_mut().find(|driver| driver.awaits(token)) {
            driver.on_engine_reply(token, headers, body_len);
        }
        self.running.retain(|driver| !driver.is_settled());
    }
}

/// A stream that only looks.
pub(super) struct Observer {
    /// None once it was handed over.
    driver: Option<Driver<Copy>>,
    max_body: usize,
    backlog: Rc<RefCell<Backlog>>,
}

impl Observer {
    pub(super) fn new(policy: Rc<Policy>, meters: Rc<Meters>, seed: u64, backlog: Rc<RefCell<Backlog>>) -> Self {
        let copy = Copy { plugin: Calls(meters), body: RefCell::default(), line: RefCell::default() };
        let max_body = policy.max_body_bytes;
        Self { driver: Some(Driver::new(copy, policy, seed)), max_body, backlog }
    }

    fn hand_over(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        if let Ok(mut backlog) = self.backlog.try_borrow_mut() {
            backlog.arrived(driver.host().len());
            backlog.waiting.push_back(driver);
        }
    }

    /// Gives the copy back.
    fn give_up(&mut self) {
        let Some(driver) = &self.driver else { return };
        if let Ok(mut backlog) = self.backlog.try_borrow_mut() {
            backlog.arrived(driver.host().len());
        }
        driver.host().forget();
    }

    /// Copies what has arrived, if there is room.
    fn copy(&mut self, len: usize) {
        let room = self.backlog.try_borrow_mut().is_ok_and(|mut backlog| backlog.arrives(len));
        let Some(driver) = &self.driver else { return };
        if room {
            driver.host().append(abi::buffer(Buffer::RequestBody, len).unwrap_or_default());
        } else {
            driver.host().plugin().add(Metric::NotMeasured, 1);
            self.give_up();
            self.driver = None;
        }
    }

    /// The driver, as long as the request is worth a look.
    fn undecided(&mut self) -> Option<&mut Driver<Copy>> {
        self.driver.as_mut().filter(|driver| !driver.is_settled())
    }
}

impl Context for Observer {}

impl HttpContext for Observer {
    fn on_http_request_headers(&mut self, _: usize, end: bool) -> Action {
        self.driver.iter_mut().for_each(|driver| _ = driver.on_request_headers(end));
        Action::Continue
    }

    fn on_http_request_body(&mut self, len: usize, end: bool) -> Action {
        let max_body = self.max_body;
        if len > 0 && self.undecided().is_some() {
            self.copy(len);
        }
        let Some(driver) = self.undecided() else { return Action::Continue };
        let copied = driver.host().len();
        if copied > max_body {
            driver.on_request_body(copied, false);
            self.give_up();
        } else if end {
            self.hand_over();
        }
        Action::Continue
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        if self.undecided().is_some() {
            self.hand_over();
        }
        Action::Continue
    }

    fn on_log(&mut self) {
        self.driver.iter_mut().for_each(Driver::on_stream_end);
        self.give_up();
        // What a copy comes to is known later, and stands in the counters only.
        let line = self.driver.as_ref().map_or_else(|| "measuring".to_owned(), |driver| driver.host().line());
        if abi::set_property("context_compaction", &line).is_err() {
            log::debug!("the host took no access-log field");
        }
    }
}

/// A copied request. Whatever would change the request changes nothing, and works.
pub(super) struct Copy {
    plugin: Calls,
    body: RefCell<Vec<u8>>,
    line: RefCell<String>,
}

impl Copy {
    fn append(&self, bytes: Vec<u8>) {
        if let Ok(mut body) = self.body.try_borrow_mut() {
            body.extend(bytes);
        }
    }

    fn forget(&self) {
        self.body.take();
    }

    fn line(&self) -> String {
        self.line.try_borrow().map(|line| line.clone()).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.body.try_borrow().map_or(0, |body| body.len())
    }
}

impl Host for Copy {
    type Plugin = Calls;

    fn plugin(&self) -> &Calls {
        &self.plugin
    }

    /// Asked for in the callback of the request headers only.
    fn request_header(&self, name: &str) -> Option<Vec<u8>> {
        abi::present(abi::header(Map::Request, name))
    }

    fn set_request_header(&self, _: &str, _: &str) -> bool {
        true
    }

    fn remove_request_header(&self, _: &str) -> bool {
        true
    }

    fn request_body(&self, len: usize) -> Option<Vec<u8>> {
        let body = self.body.try_borrow().ok()?;
        (body.len() == len).then(|| body.clone())
    }

    fn replace_request_body(&self, _: &Reduced) -> bool {
        true
    }

    fn may_hold(&self) -> bool {
        true
    }

    fn resume_request(&self) -> bool {
        true
    }

    fn response_header(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn response_body(&self, _: usize) -> Option<Vec<u8>> {
        None
    }

    /// For the stream's end, if it has not been handed over by then.
    fn note(&self, line: &str) {
        if let Ok(mut noted) = self.line.try_borrow_mut() {
            line.clone_into(&mut noted);
        }
    }
}
