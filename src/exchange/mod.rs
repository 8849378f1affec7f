//! One request's life: an event in, one step out. No I/O, no clock, no host.
//!
//! ```text
//! Start --Headers--> Buffering --Body--> Asking --last Reply--> Rereading --Body--> Done
//! ```
//! Any error on the way is `Done` with the reason, and the step is [`Step::Forward`]: the original bytes leave.

mod books;
mod gate;
mod outcome;
mod plan;
mod seen;

pub use books::Books;
pub use gate::{Headers, SWITCH, media_type};
pub use outcome::{Outcome, Report};
pub use seen::Told;

use crate::{
    cut::Reduced,
    dialect::{Dialect, Target},
    economy::Waits,
    engine::{Answer, Bars, Boundary, Evidence, systemone},
    epoch::{self, Epoch, Fold, Law, Terms},
    fault::Fault,
    json::Document,
    ledger::Tariff,
    memory::{self, Judged, Record, Store},
    policy::{Decider, Mode, OnEngineFailure, OutcomeCheck, Policy},
    realised,
    skip::Skip,
    transcript::{Levels, Transcript, Verdict, self_check},
};
use seen::Seen;
use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

/// Calls of one request that may wait for their reply at once.
pub const MAX_CALLS_IN_FLIGHT: usize = 4;

/// Boundaries that one request asks about at most: a worker that remembers nothing of a long conversation learns the rest
/// from its next requests. The longest conversation known has 37.
pub const MAX_BOUNDARIES: usize = 64;

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
    /// Names the first epoch that is asked about: the same on every attempt, and for all calls of one request.
    pub subject: u128,
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
    seed: u64,
    /// What is remembered of the conversation.
    record: Option<Record>,
    /// The prompt, once it was read.
    seen: Option<Seen>,
    /// A hash of the client's credentials: what is told of one client's prompts is not told to another.
    client: u64,
}

#[derive(Debug)]
enum State {
    Start,
    Buffering(Target),
    Asking(Asking),
    Rereading(Asking),
    Done(Outcome),
}

/// The boundaries of a conversation with what is remembered of each.
#[derive(Debug)]
pub struct Judgements {
    /// The boundaries.
    pub epochs: Vec<Epoch>,
    /// The answer to each, where one is remembered.
    pub answers: Vec<Option<Vec<Judged>>>,
}

impl Judgements {
    /// What a worker with this memory knows; nothing is remembered under a policy without an engine.
    pub fn recalled(
        (policy, seed): (&Policy, u64),
        doc: &Document<'_>,
        transcript: &Transcript,
        store: &dyn Store,
    ) -> Self {
        let rule = plan::rule(policy, transcript.prompt.model());
        let epochs = epoch::epochs(transcript, &rule);
        let fingerprint = policy.decider.as_ref().map(|decider| plan::fingerprint(policy, &rule, decider));
        let keys = epoch::keys(doc, transcript, &epochs, seed, &fingerprint.unwrap_or_default());
        let record = memory::recall(store, keys.first().copied().unwrap_or_default());
        Self { answers: recalled(&record, &epochs, &keys), epochs }
    }
}

/// The remembered answers to `epochs`.
fn recalled(record: &Record, epochs: &[Epoch], keys: &[u128]) -> Vec<Option<Vec<Judged>>> {
    let of = |(epoch, key): (&Epoch, &u128)| Some(record.answer(*key, epoch.eligible.len())?.to_vec());
    epochs.iter().zip(keys).map(of).collect()
}

/// What is kept while the engine thinks: offsets into the body, never the body.
#[derive(Debug)]
struct Asking {
    dialect: &'static Dialect,
    tariff: Tariff,
    transcript: Transcript,
    body_len: usize,
    epochs: Vec<Epoch>,
    /// Name in memory and answer of each epoch.
    keys: Vec<u128>,
    answers: Vec<Option<Vec<Judged>>>,
    /// The calls that are out or will be, each for one epoch.
    calls: Vec<(usize, systemone::Call)>,
    waiting: VecDeque<Question>,
    /// Verdicts of the calls of each epoch, by the place of their first pair.
    parts: BTreeMap<usize, BTreeMap<usize, Vec<Judged>>>,
    unanswered: usize,
}

/// What the dialect's law makes of verdicts on this body.
struct BodyLaw<'a> {
    doc: &'a Document<'a>,
    transcript: &'a Transcript,
    levels: Levels,
    head_chars: usize,
}

impl Law for BodyLaw<'_> {
    fn resolve(&self, group: usize, seen: usize, wanted: &[Verdict], left: &[Option<Verdict>]) -> Vec<Verdict> {
        self.transcript.resolve(self.doc, (group, seen), (wanted, left), self.levels, self.head_chars)
    }

    fn gain(&self, pair: usize, verdict: Verdict) -> u64 {
        self.transcript.gain(self.doc, pair, verdict, self.head_chars) as u64
    }
}

impl Exchange {
    /// A request that has not begun. `seed` makes the names in memory hard to guess; all workers share one.
    pub fn new(policy: Rc<Policy>, seed: u64) -> Self {
        Self { policy, state: State::Start, report: Report::default(), seed, record: None, seen: None, client: 0 }
    }

    /// What became of the request, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let State::Done(outcome) = &self.state { Some(outcome) } else { None }
    }

    /// Whether `reply` answers call `call`, as far as the exchange still waits for it.
    pub fn check_reply(&self, call: usize, reply: &[u8]) -> Result<(), Fault> {
        let State::Asking(asking) = &self.state else { return Ok(()) };
        asking.calls.get(call).map_or(Ok(()), |(_, asked)| systemone::answers(asked, reply).map(|_| ()))
    }

    /// What was counted on the way.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The host did not take the body of [`Step::Send`]: the original leaves after all.
    pub fn not_sent(&mut self) {
        self.seen.iter_mut().for_each(Seen::not_sent);
        self.state = State::Done(Outcome::Untouched(Skip::HostRefused));
    }

    /// The provider refused what was sent: the conversation is left alone from now on.
    pub fn refused_by_provider(&mut self, store: &dyn Store) {
        if let Some(record) = &mut self.record {
            record.off = true;
            memory::keep(store, record);
        }
    }

    /// Takes an event. Every error becomes an untouched request here, and nowhere else.
    pub fn on(&mut self, event: Event<'_>, store: &dyn Store) -> Step {
        let state = std::mem::replace(&mut self.state, State::Done(Outcome::Untouched(Skip::OutOfOrder)));
        let (state, step) = match self.advance(state, event, store) {
            Ok(next) => next,
            Err(skip) => (State::Done(Outcome::Untouched(skip)), Step::Forward),
        };
        self.state = state;
        step
    }

    fn advance(&mut self, state: State, event: Event<'_>, store: &dyn Store) -> Result<(State, Step), Skip> {
        match (state, event) {
            (State::Done(outcome), _) => Ok((State::Done(outcome), Step::Forward)),
            (_, Event::Refused(skip)) => Err(skip),
            (State::Start, Event::Headers { headers, end }) => {
                let target = gate::headers(&self.policy, headers, end)?;
                self.client = gate::client(headers);
                Ok((State::Buffering(target), Step::Hold))
            }
            (State::Buffering(target), Event::Body(body)) => self.question(&target, body, store),
            (State::Asking(asking), Event::Reply { call, reply }) => self.answer(asking, call, reply, store),
            (State::Rereading(asking), Event::Body(body)) => {
                let reduced = self.reduce(&asking, body, store)?;
                Ok((State::Done(Outcome::Reduced), Step::Send(reduced)))
            }
            _ => Err(Skip::OutOfOrder),
        }
    }

    /// Reads the body, recalls what was decided, and lists what is still to ask.
    fn question(&mut self, target: &Target, body: &[u8], store: &dyn Store) -> Result<(State, Step), Skip> {
        let policy = Rc::clone(&self.policy);
        let decider = policy.decider.as_ref().ok_or(Skip::OutOfOrder)?;
        let doc = Document::parse(body)?;
        let (dialect, transcript) = (target.dialect, target.read(&doc)?);
        let rule = plan::rule(&policy, transcript.prompt.model());
        let fingerprint = plan::fingerprint(&policy, &rule, decider);
        let route = plan::route(&fingerprint);
        let seed = self.seed ^ self.client;
        let seen = Seen::of((&policy, seed, route), dialect, &doc, &transcript, store);
        let tariff = self.seen.insert(seen).tariff();
        let compacted = transcript.elements.iter().any(|element| element.compaction);
        self.report.provider_compaction = transcript.prompt.provider_edits || compacted;
        gate::prompt(&policy, dialect, &transcript)?;
        let epochs = epoch::epochs(&transcript, &rule);
        self.count_pairs(&transcript, &epochs)?;
        let keys = epoch::keys(&doc, &transcript, &epochs, self.seed, &fingerprint);
        let key = keys.first().copied().unwrap_or_default();
        self.admit((&doc, &transcript), &epochs, key, &tariff, store)?;
        let record = self.record.as_ref().ok_or(Skip::OutOfOrder)?;
        let answers = recalled(record, &epochs, &keys);
        let missing = epochs.iter().zip(&answers).enumerate();
        let missing = missing.filter(|(_, (epoch, answer))| answer.is_none() && !epoch.eligible.is_empty());
        let (indices, asked): (Vec<usize>, Vec<Boundary<'_>>) =
            missing.map(|(index, (epoch, _))| (index, (epoch.run.end, epoch.eligible.as_slice()))).unzip();
        let subject = indices.first().and_then(|index| keys.get(*index)).copied().unwrap_or_default();
        let paused = !asked.is_empty() && store.pauses(subject);
        let asked = if paused { &[] } else { asked.get(..MAX_BOUNDARIES).unwrap_or(&asked) };
        let evidence = Evidence::gather(&doc, &transcript, asked, policy.truncate_head_chars);
        let mut calls = Vec::new();
        for (index, asked) in indices.into_iter().zip(asked) {
            self.report.asked = self.report.asked.saturating_add(asked.1.len());
            let of_epoch = systemone::calls(&doc, &transcript, &evidence, *asked, decider);
            calls.extend(of_epoch.into_iter().map(|call| (index, call)));
        }
        let (calls, waiting) = numbered(calls, subject);
        let unanswered = calls.len();
        let asking = Asking {
            dialect,
            tariff,
            body_len: body.len(),
            transcript,
            epochs,
            keys,
            answers,
            calls,
            waiting,
            parts: BTreeMap::new(),
            unanswered,
        };
        if paused {
            self.report.fault = Some(Fault::Paused);
            return self.without_verdict(asking, store);
        }
        if asking.unanswered > 0 {
            return Ok(send_next(asking, MAX_CALLS_IN_FLIGHT));
        }
        let reduced = self.reduce(&asking, body, store)?;
        Ok((State::Done(Outcome::Reduced), Step::Send(reduced)))
    }

    /// Whether this conversation is one to work on, as far as memory and its share in the holdout tell. `key` is its name.
    fn admit(
        &mut self,
        (doc, transcript): (&Document<'_>, &Transcript),
        epochs: &[Epoch],
        key: u128,
        tariff: &Tariff,
        store: &dyn Store,
    ) -> Result<(), Skip> {
        let record = self.record.insert(memory::recall(store, key));
        if record.off && self.policy.mode == Mode::Enforce {
            memory::keep(store, record); // so that it is not forgotten while it is used
            return Err(Skip::RefusedBefore);
        }
        if plan::is_held_out(&self.policy, doc, transcript, epochs) {
            self.enter_held_out(transcript, tariff, store);
            return Err(Skip::Holdout);
        }
        if self.policy.new_conversations_only && !record.admitted {
            let newest = epoch::newest_run(transcript).map(|(run, _)| run);
            if epochs.first().map(|epoch| &epoch.run) != newest.as_ref() {
                return Err(Skip::SeenTooLate);
            }
            record.admitted = true;
            memory::keep(store, record);
        }
        Ok(())
    }

    /// Counts why pairs are not asked about, and says why nothing is asked where that is so.
    fn count_pairs(&mut self, transcript: &Transcript, epochs: &[Epoch]) -> Result<(), Skip> {
        let mut judged = vec![false; transcript.pairs.len()];
        for pair in epochs.iter().flat_map(|epoch| &epoch.eligible) {
            judged.get_mut(*pair).into_iter().for_each(|judged| *judged = true);
        }
        for (index, _) in judged.iter().enumerate().filter(|(_, judged)| !**judged) {
            let standing = transcript.standing(index, self.policy.floor_bytes);
            self.report.skip_pair(standing.err().unwrap_or(Skip::Recent));
        }
        self.report.epochs = epochs.len();
        self.report.judged = judged.iter().filter(|judged| **judged).count();
        match (epochs.is_empty(), self.report.judged) {
            (true, _) => Err(Skip::NothingAgedOut),
            (false, 0) => Err(Skip::NothingEligible),
            _ => Ok(()),
        }
    }

    /// Takes one reply.
    fn answer(
        &mut self,
        mut asking: Asking,
        call: usize,
        reply: Result<&[u8], Fault>,
        store: &dyn Store,
    ) -> Result<(State, Step), Skip> {
        let decider = self.policy.decider.as_ref().ok_or(Skip::OutOfOrder)?;
        let (epoch, asked) = asking.calls.get(call).ok_or(Skip::OutOfOrder)?;
        let verdicts = match reply.and_then(|body| systemone::answers(asked, body)) {
            Ok(answers) => {
                self.report.degenerate |= systemone::is_degenerate(&answers);
                let judged =
                    |answer: &Answer| Judged { verdict: answer.verdict(bars(decider)), needed: answer.tenths() };
                answers.iter().map(judged).collect()
            }
            // The engine has answered: it will never judge these.
            Err(fault @ Fault::Unanswerable) => {
                self.report.fault = Some(fault);
                vec![Judged { verdict: Verdict::Keep, needed: 10 }; asked.pairs.len()]
            }
            Err(fault) => {
                self.report.fault = Some(fault);
                return self.without_verdict(asking, store);
            }
        };
        let (epoch, first) = (*epoch, asked.pairs.first().copied());
        if asking.take(epoch, first, verdicts) {
            self.file(&mut asking, epoch, store);
        }
        asking.unanswered = asking.unanswered.saturating_sub(1);
        if asking.unanswered > 0 {
            return Ok(send_next(asking, 1));
        }
        Ok((State::Rereading(asking), Step::Reread))
    }

    /// Remembers a whole answer. Where another worker was faster, its answer is the one to act on.
    fn file(&mut self, asking: &mut Asking, epoch: usize, store: &dyn Store) {
        let (key, answer) = (asking.keys.get(epoch), asking.answers.get_mut(epoch).and_then(Option::as_mut));
        if let (Some(record), Some(key), Some(answer)) = (&mut self.record, key, answer) {
            record.add(*key, answer.clone());
            memory::keep(store, record);
            if let Some(filed) = record.answer(*key, answer.len()) {
                *answer = filed.to_vec();
            }
        }
    }

    fn keeps_decided(&self) -> bool {
        self.policy.on_engine_failure == OnEngineFailure::KeepDecided
    }

    /// A verdict is missing: the original leaves, or what earlier boundaries decided stays decided.
    fn without_verdict(&mut self, asking: Asking, store: &dyn Store) -> Result<(State, Step), Skip> {
        match self.policy.on_engine_failure {
            OnEngineFailure::Original => {
                self.enter(&asking.transcript, None, &asking.tariff, store);
                self.note_entry();
                Err(Skip::EngineFailed)
            }
            OnEngineFailure::KeepDecided => Ok((State::Rereading(asking), Step::Reread)),
        }
    }

    /// Cuts what the fold and the law allow out of the body, and looks at the result once more.
    fn reduce(&mut self, asking: &Asking, body: &[u8], store: &dyn Store) -> Result<Reduced, Skip> {
        let Asking { dialect, transcript, tariff, .. } = asking;
        if body.len() != asking.body_len {
            return Err(Skip::BodyUnavailable);
        }
        let (doc, head) = (Document::parse(body)?, self.policy.truncate_head_chars);
        let levels = dialect.levels(self.policy.removal, transcript.prompt.model());
        let law = BodyLaw { doc: &doc, transcript, levels, head_chars: head };
        let answers = asking.whole_verdicts();
        let (terms, stopped) = self.terms(tariff, asking.epochs.len(), store);
        let mut fold = epoch::fold(transcript, &asking.epochs, &answers, &law, &terms);
        let spared = transcript.spare_marked(&doc, &mut fold.verdicts, levels, head);
        (0..spared).for_each(|_| self.report.skip_pair(Skip::CacheMarker));
        // A call that failed has ended the request before; what is still missing was not asked about.
        if fold.unanswered.is_some() && !self.keeps_decided() {
            self.enter(transcript, None, tariff, store);
            self.note_entry();
            return Err(Skip::AskedInPart);
        }
        self.report.folded(&doc, transcript, &fold, head);
        if fold.verdicts.iter().all(|v| *v == Verdict::Keep) {
            self.enter(transcript, Some((&doc, asking, &fold)), tariff, store);
            self.note_entry();
            return Err(match (fold.unanswered, fold.waits) {
                (Some(_), _) => Skip::EngineFailed,
                (None, Some(Waits::ForMinReduction)) => Skip::WaitsForMinReduction,
                (None, Some(Waits::ForGate)) => Skip::WaitsForGate,
                (None, Some(Waits::AtLimit)) if stopped => Skip::NotPaying,
                (None, Some(Waits::AtLimit)) => Skip::AtLimit,
                (None, _) if !fold.kept_by_law.is_empty() || spared > 0 => Skip::NothingEligible,
                (None, _) => Skip::KeptByEngine,
            });
        }
        let reduced = self.cut((&doc, body), asking, &fold, levels);
        // What did not leave after all is not counted as gone.
        self.enter(transcript, reduced.is_ok().then_some((&doc, asking, &fold)), tariff, store);
        self.note_entry();
        if let (Ok(_), Some(seen)) = (&reduced, &mut self.seen) {
            seen.reduced(&doc, transcript, &fold, head);
        }
        reduced
    }

    /// What a batch must reach, and whether there may be new ones at all on this route.
    fn terms(&self, tariff: &Tariff, epochs: usize, store: &dyn Store) -> (Terms, bool) {
        let mut terms = plan::terms(&self.policy, tariff);
        let stops = self.policy.outcome_check == OutcomeCheck::StopNew && self.policy.mode == Mode::Enforce;
        let route = self.seen.as_ref().filter(|_| stops).map(Seen::route);
        let stopped = route.is_some_and(|route| !realised::pays(store, route));
        // A conversation that this process has not counted may have lost something elsewhere, but at its first boundary.
        let counted = self.record.as_ref().filter(|record| record.enforced.requests > 0 || epochs == 1);
        if let (true, Some(record)) = (stopped, counted) {
            terms.max_batches = terms.max_batches.min(record.enforced.most_batches as usize);
        }
        (terms, stopped)
    }

    /// Keeps what the books say of the request, for when its provider reports.
    fn note_entry(&mut self) {
        if let (Some(seen), Some(books)) = (&mut self.seen, &self.report.books) {
            seen.entered(books.entry);
        }
    }

    /// The body without what `fold` takes out, read once more.
    fn cut(
        &mut self,
        (doc, body): (&Document<'_>, &[u8]),
        asking: &Asking,
        fold: &Fold,
        levels: Levels,
    ) -> Result<Reduced, Skip> {
        let Asking { dialect, transcript, .. } = asking;
        let cuts = transcript.cuts(doc, &fold.verdicts, self.policy.truncate_head_chars)?;
        let reduced = cuts.apply(body)?;
        let outgoing = reduced.to_vec(body);
        let after = Document::parse(&outgoing).map_err(|_| Skip::SelfCheck)?;
        let read = (dialect.read)(&after).map_err(|_| Skip::SelfCheck)?;
        self_check((doc, transcript), (&after, &read), &fold.verdicts, levels)?;
        if outgoing.len() != body.len().saturating_sub(cuts.removed()) {
            return Err(Skip::SelfCheck);
        }
        self.report.sizes = (body.len(), outgoing.len());
        Ok(reduced)
    }
}

impl Asking {
    /// Files the verdicts of one call of `epoch` that begins with pair `first`. Says whether its answer is whole now.
    fn take(&mut self, epoch: usize, first: Option<usize>, verdicts: Vec<Judged>) -> bool {
        let Some(Epoch { eligible, .. }) = self.epochs.get(epoch) else { return false };
        let start = first.and_then(|first| eligible.iter().position(|pair| *pair == first)).unwrap_or(0);
        let Some(answer) = self.answers.get_mut(epoch) else { return false };
        let answer = answer.get_or_insert_with(Vec::new);
        // Calls of one epoch are answered in any order: what is not here yet is marked by its place.
        self.parts.entry(epoch).or_default().insert(start, verdicts);
        let parts = self.parts.get(&epoch).into_iter().flat_map(|parts| parts.values().flatten().copied());
        *answer = parts.collect();
        answer.len() == eligible.len()
    }

    /// How many epochs are answered before the first that is not.
    fn answered(&self) -> usize {
        let is_whole = |(epoch, answer): &(&Epoch, &Option<Vec<Judged>>)| {
            epoch.eligible.is_empty() || answer.as_ref().is_some_and(|answer| answer.len() == epoch.eligible.len())
        };
        self.epochs.iter().zip(&self.answers).take_while(is_whole).count()
    }

    /// How sure the engine was that the result of `pair` is needed, in tenths.
    fn needed(&self, pair: usize) -> u8 {
        let of = |(epoch, answer): (&Epoch, &Option<Vec<Judged>>)| {
            let at = epoch.eligible.iter().position(|eligible| *eligible == pair)?;
            answer.as_ref()?.get(at).map(|judged| judged.needed)
        };
        self.epochs.iter().zip(&self.answers).find_map(of).unwrap_or(10)
    }

    /// The verdicts of the answers that are whole.
    fn whole_verdicts(&self) -> Vec<Option<Vec<Verdict>>> {
        let whole = |(epoch, answer): (&Epoch, &Option<Vec<Judged>>)| {
            let whole = answer.as_ref().filter(|answer| answer.len() == epoch.eligible.len())?;
            Some(whole.iter().map(|judged| judged.verdict).collect())
        };
        self.epochs.iter().zip(&self.answers).map(whole).collect()
    }
}

fn bars(decider: &Decider) -> Bars {
    Bars { call: decider.call_threshold.as_f64(), result: decider.decision_threshold.as_f64() }
}

/// Calls, each with the index of its epoch.
type Calls = Vec<(usize, systemone::Call)>;

/// Takes the bodies out of the calls: they go to the host, the rest stays for the replies.
fn numbered(mut calls: Calls, subject: u128) -> (Calls, VecDeque<Question>) {
    let numbered = calls.iter_mut().enumerate();
    let questions = numbered
        .map(|(call, (_, c))| Question { call, subject, max_reply: c.max_reply(), body: std::mem::take(&mut c.body) })
        .collect();
    (calls, questions)
}

fn send_next(mut asking: Asking, at_most: usize) -> (State, Step) {
    let next: Vec<Question> = asking.waiting.drain(..at_most.min(asking.waiting.len())).collect();
    let step = if next.is_empty() { Step::Wait } else { Step::Ask(next) };
    (State::Asking(asking), step)
}
