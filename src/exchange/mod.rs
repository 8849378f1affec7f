//! One request's life: an event in, one step out. No I/O, no clock, no host.
//!
//! ```text
//! Start --Headers--> Buffering --Body--> Asking --last Reply--> Rereading --Body--> Done
//! ```
//! Any error on the way is `Done` with the reason, and the step is [`Step::Forward`]: the original bytes leave.

mod gate;
mod outcome;

pub use gate::{Headers, media_type};
pub use outcome::{Outcome, Report};

use crate::{
    cut::Reduced,
    dialect::Dialect,
    engine::{Answer, Bars, systemone},
    fault::Fault,
    json::Document,
    policy::{Decider, Policy},
    skip::Skip,
    transcript::{Levels, Transcript, Verdict, self_check},
};
use std::{collections::VecDeque, rc::Rc};

/// Calls of one request that may wait for their reply at once.
pub const MAX_CALLS_IN_FLIGHT: usize = 4;

/// Something that happened to the request.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// The request headers arrived; `end` when no body follows.
    Headers {
        /// Looks single headers up.
        headers: &'a dyn Headers,
        /// The headers are all there is.
        end: bool,
    },
    /// The body is complete; also the answer to [`Step::Reread`].
    Body(&'a [u8]),
    /// The engine's reply to one call, or how it failed.
    Reply {
        /// Number of the call, as in [`Question`].
        call: usize,
        /// The reply's body.
        reply: Result<&'a [u8], Fault>,
    },
    /// The host could not do what the last step asked for.
    Refused(Skip),
}

/// What the host must do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Let the request go with its original bytes. Always safe.
    Forward,
    /// Keep the body back until it is complete.
    Hold,
    /// Send these calls and wait.
    Ask(Vec<Question>),
    /// Keep waiting.
    Wait,
    /// Give the body again: it was not kept.
    Reread,
    /// Put this in place of the body and let the request go.
    Send(Reduced),
}

/// One call to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its number within the request.
    pub call: usize,
    /// The body to post.
    pub body: Vec<u8>,
    /// The longest reply worth reading, in bytes.
    pub max_reply: usize,
}

/// One request on its way through the filter.
#[derive(Debug)]
pub struct Exchange {
    policy: Rc<Policy>,
    state: State,
    report: Report,
}

#[derive(Debug)]
enum State {
    Start,
    Buffering { dialect: &'static Dialect },
    Asking(Asking),
    Rereading(Asking),
    Done(Outcome),
}

/// What is kept while the engine thinks: offsets into the body, never the body.
#[derive(Debug)]
struct Asking {
    dialect: &'static Dialect,
    transcript: Transcript,
    levels: Levels,
    body_len: usize,
    calls: Vec<systemone::Call>,
    waiting: VecDeque<Question>,
    verdicts: Vec<Verdict>,
    unanswered: usize,
}

impl Exchange {
    /// A request that has not begun.
    pub fn new(policy: Rc<Policy>) -> Self {
        Self { policy, state: State::Start, report: Report::default() }
    }

    /// What became of the request, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let State::Done(outcome) = &self.state { Some(outcome) } else { None }
    }

    /// What was counted on the way.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The host did not take the body of [`Step::Send`]: the original leaves after all.
    pub fn not_sent(&mut self) {
        self.state = State::Done(Outcome::Untouched(Skip::HostRefused));
    }

    /// Takes an event. Every error becomes an untouched request here, and nowhere else.
    pub fn on(&mut self, event: Event<'_>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Done(Outcome::Untouched(Skip::OutOfOrder)));
        let (state, step) = match self.advance(state, event) {
            Ok(next) => next,
            Err(skip) => (State::Done(Outcome::Untouched(skip)), Step::Forward),
        };
        self.state = state;
        step
    }

    fn advance(&mut self, state: State, event: Event<'_>) -> Result<(State, Step), Skip> {
        match (state, event) {
            (State::Done(outcome), _) => Ok((State::Done(outcome), Step::Forward)),
            (_, Event::Refused(skip)) => Err(skip),
            (State::Start, Event::Headers { headers, end }) => {
                let dialect = gate::headers(&self.policy, headers, end)?;
                Ok((State::Buffering { dialect }, Step::Hold))
            }
            (State::Buffering { dialect }, Event::Body(body)) => self.question(dialect, body),
            (State::Asking(asking), Event::Reply { call, reply }) => self.answer(asking, call, reply),
            (State::Rereading(asking), Event::Body(body)) => {
                let reduced = self.reduce(&asking, body)?;
                Ok((State::Done(Outcome::Reduced), Step::Send(reduced)))
            }
            _ => Err(Skip::OutOfOrder),
        }
    }

    /// Reads the body and lists what to ask.
    fn question(&mut self, dialect: &'static Dialect, body: &[u8]) -> Result<(State, Step), Skip> {
        let policy = Rc::clone(&self.policy);
        let decider = policy.decider.as_ref().ok_or(Skip::OutOfOrder)?;
        let doc = Document::parse(body)?;
        let transcript = (dialect.read)(&doc)?;
        gate::prompt(&policy, &transcript)?;
        let asked = self.eligible(&transcript);
        if asked.is_empty() {
            return Err(Skip::NothingEligible);
        }
        self.report.asked = asked.len();
        let calls = systemone::calls(&doc, &transcript, &asked, decider, policy.truncate_head_chars);
        let (calls, waiting) = numbered(calls);
        let asking = Asking {
            dialect,
            levels: dialect.levels(policy.removal, transcript.prompt.model.as_deref()),
            body_len: body.len(),
            verdicts: vec![Verdict::Keep; transcript.pairs.len()],
            unanswered: calls.len(),
            transcript,
            calls,
            waiting,
        };
        Ok(send_next(asking, MAX_CALLS_IN_FLIGHT))
    }

    /// The pairs that may be asked about; the reason of every other pair is counted.
    fn eligible(&mut self, transcript: &Transcript) -> Vec<usize> {
        let Policy { preserve_recent, floor_bytes, .. } = *self.policy;
        let mut asked = Vec::new();
        for index in 0..transcript.pairs.len() {
            match transcript.standing(index, preserve_recent, floor_bytes) {
                Ok(()) => asked.push(index),
                Err(skip) => self.report.skip_pair(skip),
            }
        }
        asked
    }

    /// Takes one reply. Without every verdict nothing is removed.
    fn answer(&mut self, mut asking: Asking, call: usize, reply: Result<&[u8], Fault>) -> Result<(State, Step), Skip> {
        let decider = self.policy.decider.as_ref().ok_or(Skip::OutOfOrder)?;
        let asked = asking.calls.get(call).ok_or(Skip::OutOfOrder)?;
        let answers = reply.and_then(|body| systemone::answers(asked, body)).map_err(|fault| {
            self.report.fault = Some(fault);
            Skip::EngineFailed
        })?;
        self.report.degenerate |= systemone::is_degenerate(&answers);
        let bars = bars(decider);
        for (pair, answer) in asked.pairs.iter().zip(&answers) {
            if let Some(verdict) = asking.verdicts.get_mut(*pair) {
                *verdict = Answer::verdict(*answer, bars);
            }
        }
        asking.unanswered = asking.unanswered.saturating_sub(1);
        if asking.unanswered > 0 {
            return Ok(send_next(asking, 1));
        }
        if asking.verdicts.iter().all(|v| *v == Verdict::Keep) {
            return Err(Skip::KeptByEngine);
        }
        Ok((State::Rereading(asking), Step::Reread))
    }

    /// Cuts what the verdicts and the law allow out of the body, and looks at the result once more.
    fn reduce(&mut self, asking: &Asking, body: &[u8]) -> Result<Reduced, Skip> {
        let Asking { dialect, transcript, levels, .. } = asking;
        if body.len() != asking.body_len {
            return Err(Skip::BodyUnavailable);
        }
        let head = self.policy.truncate_head_chars;
        let doc = Document::parse(body)?;
        let resolved = transcript.resolve(&doc, &asking.verdicts, *levels, head);
        let gain = self.report.resolved(&doc, transcript, (&asking.verdicts, &resolved), head);
        if gain == 0 {
            return Err(Skip::KeptByEngine);
        }
        let bar = usize::try_from(self.policy.min_reduction.thousandths()).unwrap_or(usize::MAX);
        if gain.saturating_mul(1000) < transcript.payload().saturating_mul(bar) {
            return Err(Skip::BelowMinReduction);
        }
        let cuts = transcript.cuts(&doc, &resolved, head)?;
        let reduced = cuts.apply(body)?;
        let outgoing = reduced.to_vec(body);
        let after = Document::parse(&outgoing).map_err(|_| Skip::SelfCheck)?;
        let read = (dialect.read)(&after).map_err(|_| Skip::SelfCheck)?;
        self_check((&doc, transcript), (&after, &read), &resolved, *levels)?;
        if outgoing.len() != body.len().saturating_sub(cuts.removed()) {
            return Err(Skip::SelfCheck);
        }
        self.report.sizes = (body.len(), outgoing.len());
        Ok(reduced)
    }
}

fn bars(decider: &Decider) -> Bars {
    Bars { call: decider.call_threshold.as_f64(), result: decider.decision_threshold.as_f64() }
}

/// Takes the bodies out of the calls: they go to the host, the rest stays for the replies.
fn numbered(mut calls: Vec<systemone::Call>) -> (Vec<systemone::Call>, VecDeque<Question>) {
    let numbered = calls.iter_mut().enumerate();
    let questions = numbered
        .map(|(call, c)| Question { call, max_reply: c.max_reply(), body: std::mem::take(&mut c.body) })
        .collect();
    (calls, questions)
}

fn send_next(mut asking: Asking, at_most: usize) -> (State, Step) {
    let next: Vec<Question> = asking.waiting.drain(..at_most.min(asking.waiting.len())).collect();
    let step = if next.is_empty() { Step::Wait } else { Step::Ask(next) };
    (State::Asking(asking), step)
}
