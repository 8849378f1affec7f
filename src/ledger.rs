//! What one request costs with the filter and without, as far as the request itself tells. Counts, never text.
//!
//! Without the filter everything up to the newest model run is read from the provider's cache, and the rest is new. With it
//! the removed bytes are not read; but where this request differs from the one before, everything behind the first
//! difference is written again.

use crate::{
    economy::Rate,
    epoch::{self, Fold},
    memory::Books,
    models::{CachePrice, Prices},
    skip::Skip,
    transcript::{Transcript, Verdict},
};
use std::ops::Range;

/// How a prompt divides, in payload bytes. All but the last two stood in the request before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// System instructions and tool definitions outside the conversation.
    pub fixed: u64,
    /// Prose.
    pub prose: u64,
    /// Calls and results that are never asked about: recent, open, errors, not text, and the like.
    pub protected: u64,
    /// Calls with results below `floor_bytes`.
    pub small: u64,
    /// Calls and results that were judged and stay.
    pub candidates: u64,
    /// What leaves.
    pub removed: u64,
    /// What was not in the request before: the newest reply of the model, and what the client adds.
    pub new: u64,
    /// The newest reply of the model, which was output when it was made.
    pub output: u64,
}

/// What one request adds to the books of its conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// How the prompt divides.
    pub parts: Parts,
    /// Bytes of what leaves that stood in the request before, outside the fixed part: they could be read from the cache.
    pub cached: u64,
    /// Bytes that are written to the cache again because something before them changed.
    pub rewritten: u64,
    /// Batches that left in this request for the first time.
    pub new_batches: usize,
    /// Epochs that are counted in this request for the first time: all from this one on.
    pub first_new_epoch: usize,
}

/// Prices by which an entry becomes money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tariff {
    /// Payload bytes per token, in thousandths.
    pub bytes_per_token: u64,
    /// Shares of the input price.
    pub cache: CachePrice,
    /// What a cache write costs this request, as a share of the input price.
    pub write: u64,
    /// Prices of the model, where they are known.
    pub prices: Option<Prices>,
    /// Explicit cache markers: a change loses the cache of the whole history.
    pub markers: bool,
}

/// Money, in billionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Money {
    /// The bill without the filter, split like the prompt.
    pub bill: Parts,
    /// Cache writes that the filter caused, less the reads that they replace.
    pub rewrite: u64,
}

impl Parts {
    /// All of the prompt, as the client sent it.
    pub fn prompt(&self) -> u64 {
        let parts = [self.fixed, self.prose, self.protected, self.small, self.candidates, self.removed, self.new];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl Money {
    /// What the request costs: the bill, less what was saved, and what the filter caused.
    pub fn cost(&self) -> u64 {
        let bill = self.bill.prompt().saturating_add(self.bill.output);
        bill.saturating_sub(self.saved()).saturating_add(self.rewrite)
    }

    /// Cache reads saved: what reading the removed bytes would have cost.
    pub fn saved(&self) -> u64 {
        self.bill.removed
    }

    /// Saved less caused.
    pub fn net(&self) -> i64 {
        i64::try_from(i128::from(self.saved()).saturating_sub(self.rewrite.into())).unwrap_or(i64::MIN)
    }
}

/// Enters one request, and moves `known` on to it; `None` when it was entered before. `fold` is what leaves this request;
/// none where the original does.
pub fn enter(
    transcript: &Transcript,
    fold: Option<&Fold>,
    floor_bytes: usize,
    gain: impl Fn(usize, Verdict) -> u64,
    markers: bool,
    known: &mut Books,
) -> Option<Entry> {
    let (newest, number) = epoch::newest_run(transcript)?;
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    // Others that begin alike share these books: what is not newer than the newest is left out rather than counted twice.
    if number <= known.requests {
        return None;
    }
    let totals = epoch::running_totals(transcript);
    let before = |element: usize| epoch::at(&totals, element);
    let parts = divide(transcript, fold, floor_bytes, &gain, newest.clone(), &totals);
    let gone_before = |limit: usize, pairs: &[usize]| -> u64 {
        let of = |pair: &usize| fold.and_then(|fold| fold.verdicts.get(*pair)).copied().unwrap_or(Verdict::Keep);
        let inside = |pair: &&usize| transcript.first_cut(**pair, Verdict::Truncate) < limit;
        pairs.iter().filter(inside).fold(0, |sum, pair| sum.saturating_add(gain(*pair, of(pair))))
    };
    let batches: Vec<&Vec<usize>> = fold.iter().flat_map(|f| &f.batches).filter(|b| !b.is_empty()).collect();
    let old = (known.batches as usize).min(batches.len());
    let (out_before, out_now) = batches.split_at_checked(old).unwrap_or_default();
    let first = |batches: &[&Vec<usize>]| {
        let start = |pair: &usize| {
            let verdict = fold.and_then(|fold| fold.verdicts.get(*pair)).copied().unwrap_or(Verdict::Keep);
            transcript.first_cut(*pair, verdict)
        };
        batches.iter().flat_map(|batch| batch.iter().map(start)).min()
    };
    // The first byte that differs from the request before: where a new batch begins, or where one came back.
    let came_back = (known.batches as usize > batches.len()).then_some(known.first_cut);
    let changed_at = match (first(out_now), came_back) {
        (Some(element), None) => {
            let earlier: Vec<usize> = out_before.iter().flat_map(|batch| batch.iter().copied()).collect();
            Some(before(element).saturating_sub(gone_before(element, &earlier)))
        }
        (_, came_back) => came_back,
    };
    let cached = before(newest.start).saturating_sub(parts.removed);
    let rewritten = changed_at.map(|at| if markers { cached } else { cached.saturating_sub(at) });
    let entry = Entry {
        parts,
        cached,
        rewritten: rewritten.unwrap_or(0),
        new_batches: out_now.len(),
        first_new_epoch: known.epochs as usize,
    };
    known.requests = number;
    known.batches = u32::try_from(batches.len()).unwrap_or(u32::MAX);
    known.most_batches = known.most_batches.max(known.batches);
    known.first_cut = first(&batches).map_or(0, before);
    Some(entry)
}

fn divide(
    transcript: &Transcript,
    fold: Option<&Fold>,
    floor_bytes: usize,
    gain: &impl Fn(usize, Verdict) -> u64,
    newest: Range<usize>,
    totals: &[u64],
) -> Parts {
    let cached = epoch::at(totals, newest.start);
    let all = epoch::at(totals, transcript.elements.len());
    let mut parts = Parts {
        fixed: transcript.prompt.fixed as u64,
        prose: cached,
        new: all.saturating_sub(cached),
        output: epoch::at(totals, newest.end).saturating_sub(cached),
        ..Parts::default()
    };
    for (index, pair) in transcript.pairs.iter().enumerate() {
        let stood = |element: usize, payload: usize| if element < newest.start { payload as u64 } else { 0 };
        let result = pair.result.as_ref().map_or(0, |r| stood(r.element, r.payload));
        let bytes = stood(pair.call.element, pair.call.payload).saturating_add(result);
        let verdict = fold.and_then(|fold| fold.verdicts.get(index)).copied().unwrap_or(Verdict::Keep);
        let removed = gain(index, verdict).min(bytes);
        let part = match transcript.standing(index, floor_bytes) {
            Err(Skip::SmallResult) => &mut parts.small,
            Ok(()) if fold.is_some_and(|fold| fold.judged.get(index) == Some(&true)) => &mut parts.candidates,
            _ => &mut parts.protected,
        };
        *part = part.saturating_add(bytes.saturating_sub(removed));
        parts.removed = parts.removed.saturating_add(removed);
        parts.prose = parts.prose.saturating_sub(bytes);
    }
    parts
}

impl Tariff {
    /// What an entry is worth; nothing where the model has no price.
    pub fn money(&self, entry: &Entry) -> Money {
        let Some(prices) = self.prices else { return Money::default() };
        let input = Rate { bytes_per_token: self.bytes_per_token, price: prices.input };
        let output = Rate { price: prices.output, ..input };
        let (read, parts) = (|bytes| input.cost(bytes, self.cache.read), entry.parts);
        Money {
            bill: Parts {
                fixed: read(parts.fixed),
                prose: read(parts.prose),
                protected: read(parts.protected),
                small: read(parts.small),
                candidates: read(parts.candidates),
                removed: read(parts.removed),
                new: input.cost(parts.new, self.write),
                output: output.cost(parts.output, 1000),
            },
            rewrite: input.cost(entry.rewritten, self.write.saturating_sub(self.cache.read)),
        }
    }

    /// What it costs at worst when a result that left must be fetched again: one more call with its result written, the
    /// prompt read once more, and 150 tokens of output.
    pub fn fetched_again(&self, result_bytes: u64, prompt_bytes: u64) -> u64 {
        let Some(prices) = self.prices else { return 0 };
        let input = Rate { bytes_per_token: self.bytes_per_token, price: prices.input };
        let call = prices.output.saturating_mul(150).checked_div(1_000_000).unwrap_or(0);
        input
            .cost(result_bytes, self.write)
            .saturating_add(input.cost(prompt_bytes, self.cache.read))
            .saturating_add(call)
    }
}
