//! Carries the steps of an [`Exchange`] out on a host. Every host operation is total: it says whether it worked.

use crate::{
    cut::Reduced,
    dialect::refusal,
    exchange::{self, Event, Exchange, Headers, Outcome, Question, Step},
    fault::Fault,
    memory::Store,
    metrics::Metric,
    pause::{self, Failure},
    policy::{Decider, Mode, OutcomeCheck, Policy, RequestHeader},
    skip::Skip,
    tokens,
    usage::{self, Usage},
    window::Snapshot,
};
use std::{rc::Rc, time::Duration};

/// The response header that says what became of the request.
pub const RECEIPT: &str = "x-context-compaction";
/// The response header that says how full the model's window is.
pub const WINDOW: &str = "x-context-window";

/// What a callback tells the host about the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Pass it on.
    Continue,
    /// Keep it back.
    Pause,
}

/// What a proxy offers to all requests of a plugin alike.
pub trait Plugin {
    /// Calls the engine; the token comes back with the reply.
    fn dispatch(&self, decider: &Decider, body: &[u8], timeout: Duration) -> Option<u32>;
    /// The raw value of a header of the reply that is being delivered.
    fn reply_header(&self, name: &str) -> Option<Vec<u8>>;
    /// The body of the reply that is being delivered.
    fn reply_body(&self, len: usize) -> Option<Vec<u8>>;
    /// A value of the data that all workers share, and the token of its version.
    fn shared(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)>;
    /// Sets a shared value unless its version has changed.
    fn set_shared(&self, key: &str, value: &[u8], version: Option<u32>) -> bool;
    /// The host's clock. It may be set back.
    fn now(&self) -> Duration;
    /// Adds to a counter.
    fn add(&self, metric: Metric, by: u64);
    /// Moves a gauge.
    fn shift(&self, metric: Metric, by: i64);
    /// Records a value in a histogram.
    fn record(&self, metric: Metric, value: u64);
    /// The engine is about to be called.
    fn engine_called(&self);
    /// The engine has answered.
    fn engine_answered(&self);
}

/// What the driver needs of a proxy, for one request.
pub trait Host {
    /// See [`Plugin`].
    type Plugin: Plugin;
    /// The plugin that the request belongs to.
    fn plugin(&self) -> &Self::Plugin;
    /// The raw value of a request header.
    fn request_header(&self, name: &str) -> Option<Vec<u8>>;
    /// Sets a request header.
    fn set_request_header(&self, name: &str, value: &str) -> bool;
    /// Removes a request header; fine if there is none.
    fn remove_request_header(&self, name: &str) -> bool;
    /// Removes a request header that is meant for this filter alone, even where the request is only looked at.
    fn take_request_header(&self, name: &str);
    /// Sets a response header, where this host may.
    fn set_response_header(&self, name: &str, value: &str);
    /// The buffered request body, which must be `len` bytes long.
    fn request_body(&self, len: usize) -> Option<Vec<u8>>;
    /// Puts a reduced body in place of the buffered one.
    fn replace_request_body(&self, body: &Reduced) -> bool;
    /// Whether this host can be trusted to deliver a body while its headers are held.
    fn may_hold(&self) -> bool;
    /// Lets a paused request go on.
    fn resume_request(&self) -> bool;
    /// The raw value of a response header.
    fn response_header(&self, name: &str) -> Option<Vec<u8>>;
    /// The part of the response body that is passing, `len` bytes of it at most.
    fn response_body(&self, len: usize) -> Option<Vec<u8>>;
    /// Sets one of the filter's fields in the access log.
    fn note(&self, field: Field, line: &str);
}

/// A field of the access log: `%FILTER_STATE(wasm.<name>:PLAIN)%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// What became of the request.
    Outcome,
    /// How full the model's window is.
    Window,
}

impl Field {
    /// Its name in the filter state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outcome => "context_compaction",
            Self::Window => "context_window",
        }
    }
}

struct RequestHeaders<'a, H>(&'a H);

impl<H: Host> Headers for RequestHeaders<'_, H> {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.request_header(name)
    }
}

/// The data that workers share, and who must not be asked.
struct Shared<'a, P>(&'a P, &'a Policy);

impl<P: Plugin> Store for Shared<'_, P> {
    fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
        self.0.shared(key)
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        self.0.set_shared(key, value, version)
    }

    fn pauses(&self, subject: u128) -> bool {
        let decider = self.1.decider.as_ref();
        decider.is_some_and(|decider| pause::is_on(self, pause::engine(decider), subject, self.0.now()))
    }
}

/// A call that waits for its reply.
#[derive(Debug)]
struct InFlight {
    token: u32,
    call: usize,
    subject: u128,
    max_reply: usize,
    sent: Duration,
    /// When the host gives up on it, at the earliest.
    expires: Duration,
}

/// What is looked for in the response while it passes.
#[derive(Debug)]
enum Response {
    /// Nothing.
    Passing,
    /// What an error is about that may be about a reduced request: so far this.
    Error(Vec<u8>),
    /// What the provider reports of the request.
    Usage(usage::Reader),
}

/// One request on one host.
#[derive(Debug)]
pub struct Driver<H> {
    host: H,
    policy: Rc<Policy>,
    /// `None` while the filter is off: then no callback does anything.
    exchange: Option<Exchange>,
    in_flight: Vec<InFlight>,
    deadline: Option<Duration>,
    /// When the callback that may send calls began.
    began: Duration,
    body_len: usize,
    has_length: bool,
    /// What content-length says.
    announced_len: Option<usize>,
    has_trailers: bool,
    /// The response has begun.
    answered: bool,
    response: Response,
    /// The client's or the proxy's name of the request, for warnings.
    request_id: String,
    /// The last callback told the host to keep the request back, so it must be resumed.
    paused: bool,
    settled: bool,
}

impl<H: Host> Driver<H> {
    /// A request that has not begun. `seed` is the one that all workers share.
    pub fn new(host: H, policy: Rc<Policy>, seed: u64) -> Self {
        let exchange = (policy.mode != Mode::Off).then(|| Exchange::new(Rc::clone(&policy), seed));
        Self {
            host,
            policy,
            exchange,
            in_flight: Vec::new(),
            deadline: None,
            began: Duration::ZERO,
            body_len: 0,
            has_length: false,
            announced_len: None,
            has_trailers: false,
            answered: false,
            response: Response::Passing,
            request_id: String::new(),
            paused: false,
            settled: false,
        }
    }

    fn plugin(&self) -> &H::Plugin {
        self.host.plugin()
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// What became of the request, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.exchange.as_ref().and_then(Exchange::outcome)
    }

    /// The request headers arrived; `end` when no body follows.
    pub fn on_request_headers(&mut self, end: bool) -> Flow {
        let Some(exchange) = &mut self.exchange else { return Flow::Continue };
        self.host.plugin().add(Metric::Requests, 1);
        let headers = Event::Headers { headers: &RequestHeaders(&self.host), end };
        let step = exchange.on(headers, &Shared(self.host.plugin(), &self.policy));
        // Changing a header makes Envoy choose the route anew: only where there is something to change.
        let trusted = self.policy.request_header == RequestHeader::Trusted;
        if trusted && self.host.request_header(exchange::SWITCH).is_some() {
            self.host.take_request_header(exchange::SWITCH);
        }
        if step != Step::Hold {
            return self.settle(Flow::Continue);
        }
        let id = self.host.request_header("x-request-id").and_then(|id| String::from_utf8(id).ok());
        self.request_id = id.unwrap_or_default().chars().filter(char::is_ascii_graphic).take(64).collect();
        let length = self.host.request_header("content-length");
        self.has_length = length.is_some();
        self.announced_len = length.and_then(|length| String::from_utf8(length).ok()?.trim().parse().ok());
        if self.policy.hold_headers {
            return if self.host.may_hold() { Flow::Pause } else { self.refuse(Skip::HoldUnsupported) };
        }
        // The headers leave now, before the length of the body is known.
        if self.has_length && !self.host.remove_request_header("content-length") {
            return self.refuse(Skip::HostRefused);
        }
        Flow::Continue
    }

    /// The held headers were let go because no body came: the request leaves as it is.
    pub fn on_hold_released(&mut self) -> Flow {
        if self.is_settled() { Flow::Continue } else { self.refuse(Skip::HoldUnsupported) }
    }

    /// More of the body arrived: `len` bytes are buffered.
    pub fn on_request_body(&mut self, len: usize, end: bool) -> Flow {
        if self.is_settled() {
            return Flow::Continue;
        }
        if !self.in_flight.is_empty() {
            return Flow::Pause;
        }
        self.body_len = len;
        if len > self.policy.max_body_bytes {
            return self.refuse(Skip::TooLarge);
        }
        if end { self.complete() } else { Flow::Pause }
    }

    /// Trailers arrived: the body is complete, and its callbacks never said so.
    pub fn on_request_trailers(&mut self) -> Flow {
        if self.is_settled() {
            return Flow::Continue;
        }
        self.has_trailers = true;
        if self.in_flight.is_empty() { self.complete() } else { Flow::Pause }
    }

    /// Whether a reply to the call `token` is waited for.
    pub fn awaits(&self, token: u32) -> bool {
        self.in_flight.iter().any(|call| call.token == token)
    }

    /// A reply of the engine arrived: with no headers the transport failed.
    pub fn on_engine_reply(&mut self, token: u32, headers: usize, body_len: usize) {
        let Some(at) = self.in_flight.iter().position(|c| c.token == token) else { return };
        let call = self.in_flight.swap_remove(at);
        self.began = self.plugin().now();
        let elapsed = self.began.saturating_sub(call.sent).as_millis();
        self.plugin().record(Metric::EngineMilliseconds, u64::try_from(elapsed).unwrap_or(u64::MAX));
        let reply = self.reply(&call, headers, body_len).and_then(|body| self.answering(call.call, body));
        let reply = reply.map_err(|failed| self.failed(call.subject, failed));
        if reply.is_ok() {
            self.answered_by_engine(call.subject);
        }
        let event = Event::Reply { call: call.call, reply: reply.as_deref().map_err(|fault| *fault) };
        let flow = self.feed(event);
        self.resume_unless(flow);
    }

    /// The response begins. Where the request is still undecided, another filter let it go or the host answers itself.
    pub fn on_response_headers(&mut self, end: bool) {
        self.answered = true;
        if self.policy.response_headers {
            self.tell_client();
        }
        if !self.exchange.as_ref().is_some_and(Exchange::wants_usage) {
            return; // It was never read.
        }
        let text = |name| self.host.response_header(name).and_then(|v| String::from_utf8(v).ok()).unwrap_or_default();
        let (status, encoding) = (text(":status"), text("content-encoding"));
        let status = status.parse().unwrap_or(0);
        if let Some(reader) = usage::Reader::new(status, &text("content-type"), &encoding).filter(|_| !end) {
            self.response = Response::Usage(reader);
        } else if self.policy.mode == Mode::Enforce
            && self.outcome() == Some(&Outcome::Reduced)
            && refusal::may_blame_history(status)
        {
            // What cannot be read may be about what left.
            if end || !matches!(encoding.as_str(), "" | "identity") {
                self.refused_by_provider();
            } else {
                self.response = Response::Error(Vec::new());
            }
        }
    }

    /// Sets the response headers of `response_headers`.
    pub fn tell_client(&self) {
        let Some(exchange) = &self.exchange else { return };
        let enforced = self.policy.mode == Mode::Enforce;
        self.host.set_response_header(RECEIPT, &exchange.report().receipt(exchange.outcome(), enforced));
        if let Some(window) = exchange.window() {
            self.host.set_response_header(WINDOW, &window.to_string());
        }
    }

    /// More of the response passes.
    pub fn on_response_body(&mut self, len: usize, end: bool) {
        match &mut self.response {
            Response::Passing => {}
            Response::Error(error) => {
                let room = refusal::READ.saturating_sub(error.len());
                error.extend(self.host.response_body(len.min(room)).unwrap_or_default());
                if refusal::blames_history(error) {
                    self.refused_by_provider();
                } else if end || error.len() >= refusal::READ {
                    self.response = Response::Passing;
                }
            }
            Response::Usage(reader) => {
                reader.feed(&self.host.response_body(len).unwrap_or_default());
                if end {
                    self.response_ended();
                }
            }
        }
    }

    /// Nothing more of the response comes.
    fn response_ended(&mut self) {
        if let Response::Usage(reader) = std::mem::replace(&mut self.response, Response::Passing)
            && let Some(usage) = reader.usage()
        {
            self.on_usage(usage);
        }
    }

    /// The provider has reported what the request came to.
    pub fn on_usage(&mut self, usage: Usage) {
        let Some(exchange) = &mut self.exchange else { return };
        let shared = Shared(self.host.plugin(), &self.policy);
        let told = exchange.reported(usage, self.host.plugin().now().as_secs(), &shared);
        told.counters.into_iter().for_each(|(metric, by)| self.plugin().add(metric, by));
        if let Some((family, rate)) = told.rate {
            self.plugin().record(Metric::BytesPerToken(family), rate);
        }
        if let Some(pays) = told.pays {
            self.plugin().shift(Metric::NotPaying, if pays { -1 } else { 1 });
            let (says, then) = match (pays, self.policy.outcome_check) {
                (true, _) => ("removals pay again", ""),
                (false, OutcomeCheck::StopNew) => ("removals cost more than they save", "; no new ones until they pay"),
                (false, _) => ("removals cost more than they save", ""),
            };
            log::warn!(
                "request {}: by what the provider reports of its cache, {says} on this route{then}",
                self.request_id
            );
        }
    }

    /// How full the model's window is, once the body was read.
    pub fn window(&self) -> Option<Snapshot> {
        self.exchange.as_ref().and_then(Exchange::window)
    }

    fn refused_by_provider(&mut self) {
        self.response = Response::Passing;
        self.plugin().add(Metric::ProviderRefused, 1);
        self.exchange
            .iter_mut()
            .for_each(|exchange| exchange.refused_by_provider(&Shared(self.host.plugin(), &self.policy)));
        log::warn!(
            "request {}: the provider refused a reduced body for its tools, reasoning or signatures; its conversation is \
             left alone from now on",
            self.request_id
        );
    }

    /// The stream is over. A request that is still undecided and unanswered was given up by its client.
    pub fn on_stream_end(&mut self) {
        self.response_ended();
        if !self.is_settled() {
            self.in_flight.clear();
            self.refuse(if self.answered { Skip::BodyUnavailable } else { Skip::ClientGone });
        }
    }

    /// Whether it is known what becomes of the request.
    pub fn is_settled(&self) -> bool {
        self.exchange.as_ref().is_none_or(|e| e.outcome().is_some())
    }

    fn complete(&mut self) -> Flow {
        self.began = self.plugin().now();
        // A body that is too short went on in part behind our back.
        let whole = self.announced_len.is_none_or(|len| len == self.body_len);
        let flow = if whole { self.feed_body() } else { self.refuse(Skip::BodyUnavailable) };
        self.paused = flow == Flow::Pause;
        flow
    }

    fn feed_body(&mut self) -> Flow {
        match self.host.request_body(self.body_len) {
            Some(body) => self.feed(Event::Body(&body)),
            None => self.refuse(Skip::BodyUnavailable),
        }
    }

    fn refuse(&mut self, skip: Skip) -> Flow {
        self.feed(Event::Refused(skip))
    }

    /// Hands an event to the exchange and carries its step out, until the host has to wait for something.
    fn feed(&mut self, event: Event<'_>) -> Flow {
        let Some(exchange) = &mut self.exchange else { return Flow::Continue };
        match exchange.on(event, &Shared(self.host.plugin(), &self.policy)) {
            Step::Forward => self.settle(Flow::Continue),
            Step::Hold | Step::Wait => Flow::Pause,
            Step::Ask(questions) => self.ask(questions),
            Step::Reread => self.feed_body(),
            Step::Send(body) => {
                if self.replace(&body) {
                    self.settle(Flow::Continue)
                } else {
                    self.not_replaced()
                }
            }
        }
    }

    fn ask(&mut self, questions: Vec<Question>) -> Flow {
        for question in questions {
            if let Err(fault) = self.send(&question) {
                return self.feed(Event::Reply { call: question.call, reply: Err(fault) });
            }
        }
        Flow::Pause
    }

    fn send(&mut self, question: &Question) -> Result<(), Fault> {
        let decider = self.policy.decider.as_ref().ok_or(Fault::NotDispatched)?;
        let sent = self.plugin().now();
        // Another request may have failed since this one's first calls went out.
        if Shared(self.host.plugin(), &self.policy).pauses(question.subject) {
            return Err(Fault::Paused);
        }
        self.plugin().engine_called();
        let deadline = *self.deadline.get_or_insert(sent.saturating_add(decider.timeout));
        // The host's clock may be set back.
        let left = deadline.saturating_sub(sent).min(decider.timeout);
        // Envoy takes a timeout of zero milliseconds as none at all.
        if left < Duration::from_millis(1) {
            return Err(Fault::Timeout);
        }
        let Some(token) = self.plugin().dispatch(decider, &question.body, left) else {
            return Err(self.failed(question.subject, (Fault::NotDispatched, Failure::Passing)));
        };
        self.count_call(&question.body);
        // Envoy's timer runs from the start of a round of its event loop: before this callback, and a bit more.
        let early = left.checked_div(10).unwrap_or_default();
        let expires = self.began.saturating_add(left).saturating_sub(early);
        let Question { call, subject, max_reply, .. } = *question;
        self.in_flight.push(InFlight { token, call, subject, max_reply, sent, expires });
        Ok(())
    }

    fn count_call(&self, body: &[u8]) {
        self.plugin().add(Metric::EngineCalls, 1);
        self.plugin().add(Metric::EngineBytes, count(body.len()));
        let tokens = tokens::estimate(body);
        self.plugin().add(Metric::EngineTokens, tokens);
        // Thousandths of a US$ per million tokens are billionths of a US$ per token.
        let cost = tokens.saturating_mul(self.policy.engine_price_per_mtok.thousandths().into());
        self.plugin().add(Metric::EngineCost, cost.div_ceil(1_000));
    }

    fn reply(&self, call: &InFlight, headers: usize, len: usize) -> Result<Vec<u8>, (Fault, Failure)> {
        let passing = |fault| (fault, Failure::Passing);
        if headers == 0 {
            return Err(passing(if self.began >= call.expires { Fault::Timeout } else { Fault::Reset }));
        }
        let text = |name| self.plugin().reply_header(name).and_then(|v| String::from_utf8(v).ok()).unwrap_or_default();
        match text(":status").parse() {
            Ok(200) => {}
            Ok(status) => return Err(self.failure_of(status)),
            Err(_) => return Err(passing(Fault::BadStatus)),
        }
        let media_type = exchange::media_type(&text("content-type"));
        if media_type != "application/json" && !media_type.ends_with("+json") {
            return Err(passing(Fault::MediaType));
        }
        if len > call.max_reply {
            return Err(passing(Fault::TooLarge));
        }
        self.plugin().reply_body(len).ok_or(passing(Fault::NotJson))
    }

    /// The body, if it answers: one that does not is a failure like any other.
    fn answering(&self, call: usize, body: Vec<u8>) -> Result<Vec<u8>, (Fault, Failure)> {
        let answers = self.exchange.as_ref().map_or(Ok(()), |exchange| exchange.check_reply(call, &body));
        answers.map(|()| body).map_err(|fault| (fault, Failure::Passing))
    }

    /// What a status other than 200 means. Envoy stamps every reply that it got: one without the stamp is its own.
    fn failure_of(&self, status: u16) -> (Fault, Failure) {
        let header = |name| self.plugin().reply_header(name);
        if header("x-envoy-upstream-service-time").is_none() {
            let overloaded = header("x-envoy-overloaded").is_some();
            let fault = if overloaded { Fault::NotDispatched } else { Fault::of_no_reply(status) };
            return (fault, Failure::Passing);
        }
        let seconds = header("retry-after").and_then(|v| String::from_utf8(v).ok()?.trim().parse().ok());
        let failure = match (Fault::of_status(status), seconds) {
            (Fault::Unauthorized | Fault::WrongEndpoint, _) => Failure::Lasting,
            (_, Some(seconds)) => Failure::Until(Duration::from_secs(seconds)),
            (_, None) => Failure::Passing,
        };
        (Fault::of_status(status), failure)
    }

    fn answered_by_engine(&self, subject: u128) {
        self.plugin().engine_answered();
        if let Some(decider) = &self.policy.decider {
            pause::answered(&Shared(self.host.plugin(), &self.policy), pause::engine(decider), subject);
        }
    }

    /// Remembers a failure. What will never be answered is an answer.
    fn failed(&self, subject: u128, (fault, failure): (Fault, Failure)) -> Fault {
        let Some(decider) = &self.policy.decider else { return fault };
        if fault == Fault::Unanswerable {
            self.answered_by_engine(subject);
            return fault;
        }
        let now = self.plugin().now();
        let paused =
            pause::failed(&Shared(self.host.plugin(), &self.policy), pause::engine(decider), subject, failure, now);
        if let Some(pause) = paused {
            let seconds = pause.as_secs();
            log::warn!(
                "request {}: the engine failed ({fault}); no calls for {seconds} s, requests pass without it",
                self.request_id
            );
        }
        fault
    }

    /// Replaces the body. The length goes first and comes back last, so that it can be missing but never wrong.
    fn replace(&self, body: &Reduced) -> bool {
        let held = self.policy.hold_headers && self.has_length;
        if held && !self.host.remove_request_header("content-length") {
            return false;
        }
        if !self.host.replace_request_body(body) {
            // Nothing changed: the old length is right again. Without it the body leaves chunked.
            if held {
                self.set_length(self.body_len);
            }
            return false;
        }
        // Trailers need chunks on HTTP/1.1; a length would drop them.
        if held && !self.has_trailers {
            self.set_length(body.outgoing_len());
        }
        true
    }

    fn set_length(&self, len: usize) {
        if !self.host.set_request_header("content-length", &len.to_string()) {
            self.plugin().add(Metric::LengthNotSet, 1);
        }
    }

    fn not_replaced(&mut self) -> Flow {
        self.exchange.iter_mut().for_each(Exchange::not_sent);
        self.settle(Flow::Continue)
    }

    fn resume_unless(&mut self, flow: Flow) {
        if flow == Flow::Continue && std::mem::take(&mut self.paused) && !self.host.resume_request() {
            log::error!("the host did not resume a request");
        }
    }

    /// Counts the outcome, once.
    fn settle(&mut self, flow: Flow) -> Flow {
        let Some(exchange) = &self.exchange else { return flow };
        let (Some(outcome), false) = (exchange.outcome(), self.settled) else { return flow };
        self.settled = true;
        self.in_flight.clear();
        let report = exchange.report();
        match outcome {
            Outcome::Reduced => {
                let enforced = self.policy.mode == Mode::Enforce;
                self.plugin().add(if enforced { Metric::Reduced } else { Metric::Measured }, 1);
                self.plugin().add(Metric::IncomingBytes, count(report.sizes.0));
                self.plugin().add(Metric::OutgoingBytes, count(report.sizes.1));
                self.plugin().add(Metric::RemovedTokens, report.removed_tokens);
                self.plugin().add(Metric::PairsDropped, count(report.dropped));
                self.plugin().add(Metric::PairsTruncated, count(report.truncated));
            }
            Outcome::Untouched(skip) => self.plugin().add(Metric::Skipped(*skip), 1),
        }
        if let Some(books) = &report.books {
            books.counters().into_iter().for_each(|(metric, by)| self.plugin().add(metric, by));
            if !books.held_out {
                self.plugin().shift(Metric::Losing, books.losing);
            }
        }
        self.plugin().add(Metric::PairsAsked, count(report.asked));
        for (skip, pairs) in &report.pairs_skipped {
            self.plugin().add(Metric::Skipped(*skip), *pairs);
        }
        if let Some(fault) = report.fault {
            self.plugin().add(Metric::Failed(fault), 1);
        }
        if report.provider_compaction {
            self.plugin().add(Metric::ProviderCompaction, 1);
        }
        if report.degenerate {
            self.plugin().add(Metric::EngineDegenerate, 1);
        }
        self.host.note(Field::Outcome, &report.line(Some(outcome)));
        if let Some(window) = exchange.window() {
            self.plugin().add(Metric::Window(window.severity()), 1);
            self.plugin().record(Metric::WindowPercent, window.ratio().checked_div(10).unwrap_or(0));
            self.host.note(Field::Window, &window.to_string());
        }
        flow
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
