//! Measuring: a stream copies its request while it passes, and the root runs the copy through a [`Driver`] afterwards.
//!
//! The root does it because a reply that comes after the end of a stream finds nobody there.

use super::{
    abi::{self, Buffer, Map},
    analyst::{self, Analyst},
    calls::{self, Calls},
    stream::Shared,
};
use crate::{
    cut::Reduced,
    driver::{Driver, Field, Host, Plugin, RECEIPT},
    hold::Watch,
    metrics::Metric,
    policy::Policy,
    usage::{Reader, Usage},
};
use proxy_wasm::{
    traits::{Context, HttpContext},
    types::Action,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

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
    /// What became of them is known; their responses are on the way.
    settled: Vec<Driver<Copy>>,
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
            self.running.push(driver);
        }
        self.settle();
    }

    pub(super) fn on_engine_reply(&mut self, token: u32, headers: usize, body_len: usize) {
        if let Some(driver) = self.running.iter_mut().find(|driver| driver.awaits(token)) {
            driver.on_engine_reply(token, headers, body_len);
        }
        self.settle();
    }

    /// Lets go of the bodies that are no longer needed, and of the copies whose streams are over.
    fn settle(&mut self) {
        for mut driver in self.running.extract_if(.., |driver| driver.is_settled()) {
            driver.host().forget();
            match driver.host().ended.take() {
                Some(Some(usage)) => driver.on_usage(usage),
                Some(None) => {}
                None => self.settled.push(driver),
            }
        }
    }

    /// The copy of this stream, if what became of it is known.
    fn settled(&self, stream: u32) -> Option<&Driver<Copy>> {
        self.settled.iter().find(|driver| driver.host().stream == stream)
    }

    /// The stream is over, and its provider has reported this.
    fn ended(&mut self, stream: u32, usage: Option<Usage>) {
        if let Some(at) = self.settled.iter().position(|driver| driver.host().stream == stream) {
            let mut driver = self.settled.swap_remove(at);
            usage.into_iter().for_each(|usage| driver.on_usage(usage));
        } else if let Some(driver) = self.waiting.iter().chain(&self.running).find(|d| d.host().stream == stream) {
            driver.host().ended.set(Some(usage));
        }
    }
}

/// A stream that only looks.
pub(super) struct Observer {
    stream: u32,
    /// None once it was handed over.
    driver: Option<Driver<Copy>>,
    /// Reads what the provider reports of a request that was handed over.
    reader: Option<Reader>,
    /// The request asks for an analysis: the one kind that is held.
    analyst: Option<Analyst>,
    policy: Rc<Policy>,
    seed: u64,
    calls: Calls,
    watch: Rc<RefCell<Watch>>,
    backlog: Rc<RefCell<Backlog>>,
}

impl Observer {
    pub(super) fn new(
        stream: u32,
        policy: Rc<Policy>,
        (meters, watch, seed): Shared,
        backlog: Rc<RefCell<Backlog>>,
    ) -> Self {
        let copy = Copy {
            stream,
            plugin: Calls(Rc::clone(&meters)),
            body: RefCell::default(),
            line: RefCell::default(),
            ended: Cell::default(),
        };
        let driver = Some(Driver::new(copy, Rc::clone(&policy), seed));
        Self { stream, policy, seed, calls: Calls(meters), watch, driver, analyst: None, reader: None, backlog }
    }

    /// Sets the response headers of `response_headers`: what is known by now.
    fn tell_client(&self) {
        let Ok(backlog) = self.backlog.try_borrow() else { return };
        match self.driver.as_ref().or_else(|| backlog.settled(self.stream)) {
            Some(driver) => driver.tell_client(),
            None => calls::set_response_header(RECEIPT, "outcome=measuring"),
        }
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
        if analyst::wanted(&self.policy) {
            if let Ok(mut watch) = self.watch.try_borrow_mut() {
                watch.began(self.stream, self.calls.now());
            }
            self.analyst = Some(Analyst::begin(&self.policy, self.seed, end));
            self.driver = None;
            return Action::Pause;
        }
        self.driver.iter_mut().for_each(|driver| _ = driver.on_request_headers(end));
        Action::Continue
    }

    fn on_http_request_body(&mut self, len: usize, end: bool) -> Action {
        if let Some(analyst) = &mut self.analyst {
            self.watch.try_borrow_mut().into_iter().for_each(|mut watch| _ = watch.body_arrived(self.stream));
            return analyst.on_body(&self.calls, len, end);
        }
        let max_body = self.policy.max_body_bytes;
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
        if let Some(analyst) = &mut self.analyst {
            return analyst.on_end(&self.calls);
        }
        if self.undecided().is_some() {
            self.hand_over();
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, end: bool) -> Action {
        if self.policy.response_headers && self.analyst.is_none() {
            self.tell_client();
        }
        if self.driver.is_none() && self.analyst.is_none() && !end {
            let header = |name| abi::present(abi::header(Map::Response, name)).and_then(|v| String::from_utf8(v).ok());
            let text = |name| header(name).unwrap_or_default();
            let status = text(":status").parse().unwrap_or(0);
            self.reader = Reader::new(status, &text("content-type"), &text("content-encoding"));
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, len: usize, _: bool) -> Action {
        if let Some(reader) = &mut self.reader {
            reader.feed(&abi::buffer(Buffer::ResponseBody, len).unwrap_or_default());
        }
        Action::Continue
    }

    fn on_log(&mut self) {
        if self.analyst.is_some() {
            self.watch.try_borrow_mut().into_iter().for_each(|mut watch| watch.ended(self.stream));
            return;
        }
        self.driver.iter_mut().for_each(Driver::on_stream_end);
        self.give_up();
        // What a copy comes to is known later, and stands in the counters only.
        let line = self.driver.as_ref().map_or_else(|| "measuring".to_owned(), |driver| driver.host().line());
        calls::note(Field::Outcome, &line);
        if self.driver.is_some() {
            return;
        }
        if let Ok(mut backlog) = self.backlog.try_borrow_mut() {
            if let Some(window) = backlog.settled(self.stream).and_then(Driver::window) {
                calls::note(Field::Window, &window.to_string());
            }
            backlog.ended(self.stream, self.reader.as_ref().and_then(Reader::usage));
        }
    }
}

/// A copied request. Whatever would change the request changes nothing, and works.
pub(super) struct Copy {
    /// Where it comes from.
    stream: u32,
    plugin: Calls,
    body: RefCell<Vec<u8>>,
    line: RefCell<String>,
    /// The stream is over before what became of the copy is known, and its provider has reported this.
    ended: Cell<Option<Option<Usage>>>,
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

    /// In the stream's own callback, like all that concerns headers.
    fn take_request_header(&self, name: &str) {
        calls::take_request_header(name);
    }

    fn set_response_header(&self, name: &str, value: &str) {
        calls::set_response_header(name, value);
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
    fn note(&self, field: Field, line: &str) {
        if let (Field::Outcome, Ok(mut noted)) = (field, self.line.try_borrow_mut()) {
            line.clone_into(&mut noted);
        }
    }
}
