//! Requests that ask for an analysis: held, read, and answered here. They never reach a provider.

use super::{
    abi::{self, Buffer, Map},
    calls::{Calls, Workers},
};
use crate::{analysis, driver::Plugin, exchange::Headers, metrics::Metric, policy::Policy};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// The request headers of the current stream.
struct Current;

impl Headers for Current {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        abi::present(abi::header(Map::Request, name))
    }
}

/// Whether the current request asks for an analysis, and may.
pub(super) fn wanted(policy: &Policy) -> bool {
    analysis::wanted(policy, &Current)
}

/// One such request.
pub(super) struct Analyst {
    policy: Rc<Policy>,
    seed: u64,
    path: String,
    /// Bytes of the body that are buffered.
    len: usize,
    answered: bool,
}

impl Analyst {
    /// Takes the current request over; it is held from now on. A request without a body has nothing to analyse.
    pub(super) fn begin(policy: &Rc<Policy>, seed: u64, end: bool) -> Self {
        let path = Current.get(":path").map(|path| String::from_utf8_lossy(&path).into_owned()).unwrap_or_default();
        let mut analyst = Self { policy: Rc::clone(policy), seed, path, len: 0, answered: false };
        if end {
            analyst.answer(Some(&[]));
        }
        analyst
    }

    /// `len` bytes of the body are buffered.
    pub(super) fn on_body(&mut self, calls: &Calls, len: usize, end: bool) -> Action {
        if self.answered {
            return Action::Pause;
        }
        self.len = len;
        if len > self.policy.max_body_bytes {
            self.answer(None);
        } else if end {
            return self.on_end(calls);
        }
        Action::Pause
    }

    /// The body is complete, with or without trailers.
    pub(super) fn on_end(&mut self, calls: &Calls) -> Action {
        if !self.answered {
            calls.add(Metric::Analyzed, 1);
            self.answer(Some(&abi::buffer(Buffer::RequestBody, self.len).unwrap_or_default()));
        }
        Action::Pause
    }

    fn answer(&mut self, body: Option<&[u8]>) {
        let (status, json) = analysis::answer((&self.policy, self.seed), &self.path, body, &Workers);
        self.answered = true;
        if abi::answer(status, "context_compaction_analysis", &json).is_err() {
            log::error!("the host took no answer: a request for an analysis stays without one");
        }
    }
}

/// Answers the current request, which was held for an analysis and whose body never came.
pub(super) fn refuse() {
    let error = "{\"error\":\"hold_unsupported: set allow_on_headers_stop_iteration beside the configuration\"}";
    if abi::answer(501, "context_compaction_analysis", error).is_err() {
        log::error!("the host took no answer: a request for an analysis stays without one");
    }
}
