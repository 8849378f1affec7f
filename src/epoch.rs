//! When pairs are judged, and when what was judged leaves: a fold over the conversation's own prefix.
//!
//! A *boundary* is the end of a closed model run at which enough has aged out. The pairs that are eligible there form an
//! *epoch*, judged once with the prefix as evidence. A batch of judged pairs leaves at the boundary where it passes, all
//! or none, and on every later turn. No clock, no memory and no later text changes any of this, so every worker and
//! every replica sends the same bytes for the same prefix.

use crate::{
    economy::{self, Bar, Batch, Waits},
    json::{Document, Span},
    transcript::{Side, Transcript, Verdict},
};
use std::{
    collections::{BTreeMap, VecDeque},
    iter::Peekable,
    ops::Range,
    slice::Iter,
};
use xxhash_rust::xxh3::Xxh3;

/// Pairs asked about at one boundary: four requests of fourteen. The others are asked at the next one.
pub const MAX_PAIRS: usize = 56;

/// What closes a boundary and who is eligible there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The prompt must reach this many tokens before the first boundary.
    pub threshold_tokens: u64,
    /// Payload bytes per token, in thousandths; a constant, never a live calibration.
    pub bytes_per_token: u64,
    /// New payload since the last boundary, in tokens.
    pub epoch_tokens: u64,
    /// Newly aged-out pairs since the last boundary; zero counts as one.
    pub epoch_pairs: usize,
    /// Newest messages that stay.
    pub preserve_recent: usize,
    /// The last group of the prefix stays, however old.
    pub keep_last_group: bool,
    /// Smaller results are never asked about, in bytes.
    pub floor_bytes: usize,
}

/// The pairs of one boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Elements of the model run that closes it. The evidence is everything before its end.
    pub run: Range<usize>,
    /// Closed model runs up to here: requests so far.
    pub requests: usize,
    /// Indices of the eligible pairs; none at a boundary where only waiting pairs get their chance.
    pub eligible: Vec<usize>,
}

/// The closed model runs: behind each of them stands something of the client.
fn closed_runs(transcript: &Transcript) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = None;
    for (index, element) in transcript.elements.iter().enumerate() {
        match (element.role.side(), start) {
            (Side::Model, None) => start = Some(index),
            (Side::Client, Some(from)) => {
                runs.push(from..index);
                start = None;
            }
            _ => {}
        }
    }
    runs
}

/// The model run that the client has answered last, and how many there are: the request behind it is that one's number.
pub fn newest_run(transcript: &Transcript) -> Option<(Range<usize>, usize)> {
    let runs = closed_runs(transcript);
    let count = runs.len();
    runs.into_iter().next_back().map(|run| (run, count))
}

/// Payload before each element, and before the end.
pub fn running_totals(transcript: &Transcript) -> Vec<u64> {
    let mut total = 0u64;
    let sizes = transcript.elements.iter().map(|e| e.payload as u64);
    std::iter::once(0)
        .chain(sizes.map(|size| {
            total = total.saturating_add(size);
            total
        }))
        .collect()
}

/// Payload before `element`.
pub fn at(totals: &[u64], element: usize) -> u64 {
    totals.get(element).or(totals.last()).copied().unwrap_or(0)
}

/// The boundaries of a conversation and who is eligible at each.
pub fn epochs(transcript: &Transcript, rule: &Rule) -> Vec<Epoch> {
    let totals = running_totals(transcript);
    let fixed = transcript.prompt.fixed as u64;
    let tokens = |bytes: u64| bytes.saturating_mul(1000).checked_div(rule.bytes_per_token).unwrap_or(u64::MAX);
    let mut epochs = Vec::new();
    let mut walk = Walk {
        transcript,
        rule,
        aged: 0,
        waiting: VecDeque::new(),
        barrier: None,
        last_calls: None,
        seen: 0,
        groups: 0,
    };
    let (mut aged_at_last, mut last) = (0usize, None);
    for (index, run) in closed_runs(transcript).into_iter().enumerate() {
        walk.advance(&run);
        let total = at(&totals, run.end);
        let enough = walk.aged.saturating_sub(aged_at_last) >= rule.epoch_pairs.max(1);
        let spaced = match last {
            None => tokens(fixed.saturating_add(total)) >= rule.threshold_tokens,
            Some(last) => tokens(total.saturating_sub(last)) >= rule.epoch_tokens,
        };
        if enough && spaced {
            (aged_at_last, last) = (walk.aged, Some(total));
            epochs.push(Epoch { eligible: walk.eligible(), requests: index.saturating_add(1), run });
        }
    }
    epochs
}

/// What is known of the prefix while boundaries are looked for.
struct Walk<'t> {
    transcript: &'t Transcript,
    rule: &'t Rule,
    /// How many pairs have aged out; pairs age in order.
    aged: usize,
    /// Pairs that aged out and may be asked about.
    waiting: VecDeque<usize>,
    /// The provider's last compaction item.
    barrier: Option<usize>,
    /// Start of the last model run with calls.
    last_calls: Option<usize>,
    /// Elements looked at so far.
    seen: usize,
    /// Groups looked at so far.
    groups: usize,
}

impl Walk<'_> {
    fn advance(&mut self, run: &Range<usize>) {
        let new = self.transcript.elements.get(self.seen..run.end).unwrap_or_default();
        if let Some(at) = new.iter().rposition(|e| e.compaction) {
            self.barrier = Some(self.seen.saturating_add(at));
        }
        self.seen = run.end;
        let newest = self.transcript.elements.get(run.start).map_or(0, |e| e.message);
        while let Some(pair) = self.transcript.pairs.get(self.aged) {
            let Some(result) = &pair.result else { break };
            let message = self.transcript.elements.get(result.element).map_or(usize::MAX, |e| e.message);
            // What the client put right behind the run is part of every later request too.
            let known = run.end.saturating_add(1);
            let complete = self.transcript.groups.get(pair.group).is_some_and(|g| g.complete && g.is_over(known));
            if !complete || result.element >= run.start || message.saturating_add(self.rule.preserve_recent) > newest {
                break;
            }
            if self.transcript.standing(self.aged, self.rule.floor_bytes).is_ok() {
                self.waiting.push_back(self.aged);
            }
            self.aged = self.aged.saturating_add(1);
        }
        while let Some(group) = self.transcript.groups.get(self.groups).filter(|g| g.carriers.start <= run.start) {
            self.last_calls = Some(group.carriers.start);
            self.groups = self.groups.saturating_add(1);
        }
    }

    /// Takes the oldest waiting pairs that stand behind the barrier and before the last calls.
    fn eligible(&mut self) -> Vec<usize> {
        let call = |pair: &usize| self.transcript.pairs.get(*pair).map_or(0, |p| p.call.element);
        let last_calls = if self.rule.keep_last_group { self.last_calls } else { Some(self.seen) };
        let barrier = self.barrier;
        let mut eligible = Vec::new();
        let mut left = VecDeque::new();
        for pair in self.waiting.drain(..) {
            let element = call(&pair);
            if barrier.is_some_and(|at| element <= at) {
                continue; // The provider ignores what stands before its compaction item.
            }
            if eligible.len() < MAX_PAIRS && last_calls.is_some_and(|at| element < at) {
                eligible.push(pair);
            } else {
                left.push_back(pair);
            }
        }
        self.waiting = left;
        eligible
    }
}

/// The name under which the answer to each epoch is remembered: a hash of everything that was evidence.
/// `settings` are those that shape verdicts: other settings, other names.
pub fn keys(doc: &Document<'_>, transcript: &Transcript, epochs: &[Epoch], seed: u64, settings: &str) -> Vec<u128> {
    let mut prefix = Prefix::new(doc, transcript, seed);
    prefix.hash.update(settings.as_bytes());
    let mut results = transcript.pairs.iter().filter_map(|pair| pair.result.as_ref()).peekable();
    let mut keys = Vec::with_capacity(epochs.len());
    for epoch in epochs {
        prefix.read_to(epoch.run.end);
        while let Some(result) = results.next_if(|result| result.element < epoch.run.end) {
            prefix.hash.update(&[u8::from(result.is_error())]);
        }
        epoch.eligible.iter().for_each(|pair| prefix.hash.update(&pair.to_le_bytes()));
        keys.push(prefix.hash.digest128());
    }
    keys
}

/// The name of the whole prompt, and that of the prompt of the request before: what stands before the newest closed model run.
pub fn prompt_keys(doc: &Document<'_>, transcript: &Transcript, seed: u64) -> (u128, Option<u128>) {
    let mut prefix = Prefix::new(doc, transcript, seed);
    prefix.hash.update(transcript.prompt.model().as_bytes());
    prefix.hash.update(&transcript.prompt.fixed.to_le_bytes());
    let before = newest_run(transcript).map(|(run, _)| {
        prefix.read_to(run.start);
        prefix.hash.digest128()
    });
    prefix.read_to(transcript.elements.len());
    (prefix.hash.digest128(), before)
}

/// Hashes the elements of a conversation in order.
struct Prefix<'a> {
    doc: &'a Document<'a>,
    transcript: &'a Transcript,
    hash: Xxh3,
    pieces: Peekable<Iter<'a, (usize, Span)>>,
    element: usize,
}

impl<'a> Prefix<'a> {
    fn new(doc: &'a Document<'a>, transcript: &'a Transcript, seed: u64) -> Self {
        let pieces = transcript.pieces.iter().peekable();
        Self { doc, transcript, hash: Xxh3::with_seed(seed), pieces, element: 0 }
    }

    /// Goes on up to `end`, an index of elements.
    fn read_to(&mut self, end: usize) {
        while self.element < end {
            let side = self.transcript.elements.get(self.element).map_or(0, |e| u8::from(e.role.side() == Side::Model));
            self.hash.update(&[0xFF, side]);
            while let Some((_, span)) = self.pieces.next_if(|(owner, _)| *owner == self.element) {
                update(&mut self.hash, self.doc, span);
            }
            self.element = self.element.saturating_add(1);
        }
    }
}

/// Length first: two pieces must not run into one.
fn update(hash: &mut Xxh3, doc: &Document<'_>, span: &Span) {
    hash.update(&span.len().to_le_bytes());
    hash.update(doc.slice(span));
}

/// What the fold needs to know of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What a batch must reach.
    pub bar: Bar,
    /// Price of a cache read, thousandths of fresh input.
    pub read: u64,
    /// Price of a cache write.
    pub write: u64,
    /// Explicit cache markers: a cut far back loses the cache of the whole history.
    pub markers: bool,
    /// Batches of one conversation at most.
    pub max_batches: usize,
    /// Share of the original that may leave at most, in thousandths.
    pub max_removed: u64,
}

/// What the dialect's law makes of verdicts.
pub trait Law {
    /// What may be done with a group's pairs on the evidence of the first `seen` elements, given the verdicts under which
    /// some of them have left already.
    fn resolve(&self, group: usize, seen: usize, wanted: &[Verdict], left: &[Option<Verdict>]) -> Vec<Verdict>;
    /// Payload bytes that leave with a pair under a resolved verdict.
    fn gain(&self, pair: usize, verdict: Verdict) -> u64;
}

/// What leaves this body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fold {
    /// Resolved verdicts of all pairs; `Keep` for what stays or waits.
    pub verdicts: Vec<Verdict>,
    /// Whether each pair was judged.
    pub judged: Vec<bool>,
    /// Pairs that were judged away and may not leave this body at all.
    pub kept_by_law: Vec<usize>,
    /// Pairs that were to leave whole and left shortened.
    pub only_shortened: Vec<usize>,
    /// Pairs of each batch, by epoch.
    pub batches: Vec<Vec<usize>>,
    /// The first epoch without an answer.
    pub unanswered: Option<usize>,
    /// What the judged pairs of the last boundary wait for.
    pub waits: Option<Waits>,
    /// Payload bytes that wait.
    pub waiting_bytes: u64,
}

/// Folds the answers to `epochs` into what leaves. It stops at the first epoch without one: skipping it would make the
/// result depend on who failed when.
pub fn fold(
    transcript: &Transcript,
    epochs: &[Epoch],
    answers: &[Option<Vec<Verdict>>],
    law: &impl Law,
    terms: &Terms,
) -> Fold {
    let mut state = Folding::new(transcript);
    for (index, epoch) in epochs.iter().enumerate() {
        if !epoch.eligible.is_empty() {
            match answers.get(index).and_then(Option::as_ref) {
                Some(answer) => state.judge(law, epoch, answer),
                None => {
                    state.fold.unanswered = Some(index);
                    break;
                }
            }
        }
        state.test(epoch, terms);
    }
    state.finish()
}

struct Folding<'t> {
    transcript: &'t Transcript,
    totals: Vec<u64>,
    wanted: Vec<Verdict>,
    /// Verdicts under which pairs have left.
    left: Vec<Option<Verdict>>,
    /// Judged pairs that have not left, with what would leave and where their first byte stands.
    pending: BTreeMap<usize, (Verdict, u64, usize)>,
    pending_bytes: u64,
    /// Elements where a pending pair begins, with how many do.
    starts: BTreeMap<usize, usize>,
    /// Bytes that have left, before each element.
    gone: Vec<u64>,
    gone_total: u64,
    fold: Fold,
}

impl<'t> Folding<'t> {
    fn new(transcript: &'t Transcript) -> Self {
        let pairs = transcript.pairs.len();
        Self {
            transcript,
            totals: running_totals(transcript),
            wanted: vec![Verdict::Keep; pairs],
            left: vec![None; pairs],
            pending: BTreeMap::new(),
            pending_bytes: 0,
            starts: BTreeMap::new(),
            gone: vec![0; transcript.elements.len().saturating_add(1)],
            gone_total: 0,
            fold: Fold { judged: vec![false; pairs], ..Fold::default() },
        }
    }

    fn judge(&mut self, law: &impl Law, epoch: &Epoch, answer: &[Verdict]) {
        let mut groups = Vec::new();
        for (pair, verdict) in epoch.eligible.iter().zip(answer) {
            if let Some(wanted) = self.wanted.get_mut(*pair) {
                *wanted = *verdict;
            }
            if let Some(judged) = self.fold.judged.get_mut(*pair) {
                *judged = true;
            }
            groups.extend(self.transcript.pairs.get(*pair).map(|p| p.group));
        }
        groups.dedup();
        for group in groups {
            self.settle_group(law, group, epoch.run.end);
        }
    }

    /// Works out anew what would leave of a group, now that more of it is judged.
    fn settle_group(&mut self, law: &impl Law, group: usize, seen: usize) {
        let Some(range) = self.transcript.groups.get(group).map(|g| g.pairs.clone()) else { return };
        let wanted = self.wanted.get(range.clone()).unwrap_or_default();
        let resolved = law.resolve(group, seen, wanted, self.left.get(range.clone()).unwrap_or_default());
        for (pair, verdict) in range.zip(resolved) {
            self.forget(pair);
            let gain = law.gain(pair, verdict);
            if gain > 0 && self.left.get(pair) == Some(&None) {
                let start = self.transcript.first_cut(pair, verdict);
                self.pending.insert(pair, (verdict, gain, start));
                self.pending_bytes = self.pending_bytes.saturating_add(gain);
                let count = self.starts.entry(start).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    fn forget(&mut self, pair: usize) {
        let Some((_, gain, start)) = self.pending.remove(&pair) else { return };
        self.pending_bytes = self.pending_bytes.saturating_sub(gain);
        if let Some(count) = self.starts.get_mut(&start) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.starts.remove(&start);
            }
        }
    }

    /// Sends all that is pending, or none of it.
    fn test(&mut self, epoch: &Epoch, terms: &Terms) {
        let fixed = self.transcript.prompt.fixed as u64;
        let original = fixed.saturating_add(at(&self.totals, epoch.run.end));
        let first = if terms.markers { Some(0) } else { self.starts.keys().next().copied() }.unwrap_or(0);
        let cached = at(&self.totals, epoch.run.start).saturating_sub(at(&self.totals, first));
        let gone_behind = self.gone_total.saturating_sub(at(&self.gone, first));
        let batch = Batch {
            removed: self.pending_bytes,
            rewritten: cached.saturating_sub(gone_behind),
            sent: original.saturating_sub(self.gone_total),
            original,
            requests: epoch.requests as u64,
        };
        let share = self.gone_total.saturating_add(self.pending_bytes).saturating_mul(1000);
        let full = self.sent_batches() >= terms.max_batches || share > original.saturating_mul(terms.max_removed);
        let passes =
            if full { Err(Waits::AtLimit) } else { economy::passes(batch, terms.bar, terms.read, terms.write) };
        self.fold.waits = passes.err().filter(|_| self.pending_bytes > 0);
        let pairs = if passes.is_ok() { self.send() } else { Vec::new() };
        self.fold.batches.push(pairs);
    }

    fn sent_batches(&self) -> usize {
        self.fold.batches.iter().filter(|batch| !batch.is_empty()).count()
    }

    fn send(&mut self) -> Vec<usize> {
        let batch = std::mem::take(&mut self.pending);
        let mut gone_at: BTreeMap<usize, u64> = BTreeMap::new();
        for (pair, (verdict, gain, _)) in &batch {
            if let Some(left) = self.left.get_mut(*pair) {
                *left = Some(*verdict);
            }
            let at = gone_at.entry(self.transcript.first_cut(*pair, Verdict::Truncate)).or_default();
            *at = at.saturating_add(*gain);
        }
        let mut added = 0u64;
        for (element, gone) in self.gone.iter_mut().enumerate() {
            *gone = gone.saturating_add(added);
            added = added.saturating_add(gone_at.get(&element).copied().unwrap_or(0));
        }
        self.gone_total = self.gone_total.saturating_add(self.pending_bytes);
        self.pending_bytes = 0;
        self.starts.clear();
        batch.into_keys().collect()
    }

    fn finish(mut self) -> Fold {
        self.fold.waiting_bytes = self.pending_bytes;
        for (pair, (wanted, left)) in self.wanted.iter().zip(&self.left).enumerate() {
            match (wanted, left) {
                (Verdict::Drop, Some(Verdict::Truncate)) => self.fold.only_shortened.push(pair),
                (Verdict::Drop | Verdict::Truncate, None) if !self.pending.contains_key(&pair) => {
                    self.fold.kept_by_law.push(pair);
                }
                _ => {}
            }
        }
        self.fold.verdicts = self.left.iter().map(|left| left.unwrap_or(Verdict::Keep)).collect();
        self.fold
    }
}
