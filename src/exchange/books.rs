//! What a request adds to the books: how its prompt divides, what leaves is worth, and what the model came back to.

use super::{Asking, Exchange};
use crate::{
    engine::{
        Class,
        recitation::{self, Recited},
    },
    epoch::{self, Fold},
    json::Document,
    ledger::{self, Entry, Money, Tariff},
    memory::{self, Store},
    metrics::Metric,
    policy::{Glob, Mode},
    transcript::{Transcript, Verdict},
};

/// Counts of one request, each made once in the life of its conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    /// Bytes.
    pub entry: Entry,
    /// The same as money.
    pub money: Money,
    /// The model has a price, so that the money is not just zero.
    pub priced: bool,
    /// The conversation is in the share that is left alone.
    pub held_out: bool,
    /// The conversation is new to the books.
    pub first: bool,
    /// Whether what was saved in the conversation fell below what it cost (1), or rose to it again (-1).
    pub losing: i64,
    /// Epochs whose answers are counted here.
    pub epochs: usize,
    /// Judged pairs by how sure the engine was that the result is needed, in tenths.
    pub needed: [u64; 10],
    /// Pairs that were to leave whole.
    pub judged_drop: u64,
    /// Pairs whose result was to be shortened.
    pub judged_truncate: u64,
    /// Judged pairs that the model came back to, like `needed`; those that stay among them.
    pub recited_needed: [u64; 10],
    /// Removed pairs that the model came back to.
    pub recited: u64,
    /// Those of them whose name stands nowhere else.
    pub lost: u64,
    /// Those of them from tools that give the same again.
    pub rerunnable: u64,
    /// What it costs if all of them are fetched again, in billionths of a US dollar.
    pub fetched_again: u64,
}

/// What is known of the request where it may be reduced.
type Judging<'a> = (&'a Document<'a>, &'a Asking, &'a Fold);

impl Exchange {
    /// Enters a request of a conversation that is left alone as a control.
    pub(super) fn enter_held_out(&mut self, transcript: &Transcript, tariff: &Tariff, store: &dyn Store) {
        self.enter(transcript, None, tariff, store);
        if let Some(books) = &mut self.report.books {
            books.held_out = true;
        }
    }

    /// Enters the request, once.
    pub(super) fn enter(
        &mut self,
        transcript: &Transcript,
        judging: Option<Judging<'_>>,
        tariff: &Tariff,
        store: &dyn Store,
    ) {
        let Some(record) = &mut self.record else { return };
        // Others may have entered requests while this one waited for the engine.
        memory::refresh(store, record);
        // What was measured was never sent, so that switching removal on begins anew.
        let known = if self.policy.mode == Mode::Measure { &mut record.measured } else { &mut record.enforced };
        let before = *known;
        let (floor, head) = (self.policy.floor_bytes, self.policy.truncate_head_chars);
        let gain = |pair, verdict| judging.map_or(0, |(doc, ..)| transcript.gain(doc, pair, verdict, head) as u64);
        let fold = judging.map(|(.., fold)| fold);
        let Some(entry) = ledger::enter(transcript, fold, floor, gain, tariff.markers, known) else { return };
        let money = tariff.money(&entry);
        known.net = known.net.saturating_add(money.net());
        let mut books = Books {
            entry,
            money,
            priced: tariff.prices.is_some(),
            first: before.requests == 0,
            losing: i64::from(known.net < 0).saturating_sub(i64::from(before.net < 0)),
            ..Books::default()
        };
        if let Some((doc, asking, fold)) = judging {
            books.count_epochs(asking, entry.first_new_epoch);
            known.epochs = u32::try_from(asking.answered()).unwrap_or(u32::MAX).max(known.epochs);
            for recited in recitations(doc, transcript, asking, fold, head) {
                books.count_recited(
                    doc,
                    transcript,
                    (asking, fold),
                    recited,
                    self.policy.deterministic_tools.as_deref(),
                );
                let Recited { pair, .. } = recited;
                if is_removed(fold, pair) {
                    let result = transcript.pairs.get(pair).and_then(|p| p.result.as_ref()).map_or(0, |r| r.payload);
                    let prompt = (transcript.payload() as u64).saturating_sub(entry.parts.removed);
                    books.fetched_again =
                        books.fetched_again.saturating_add(tariff.fetched_again(result as u64, prompt));
                }
            }
        }
        memory::keep(store, record);
        self.report.books = Some(books);
    }
}

fn is_removed(fold: &Fold, pair: usize) -> bool {
    fold.verdicts.get(pair).is_some_and(|verdict| *verdict != Verdict::Keep)
}

/// The judged pairs that the newest reply came back to. One that left is looked for behind the boundary where it left.
fn recitations(
    doc: &Document<'_>,
    transcript: &Transcript,
    asking: &Asking,
    fold: &Fold,
    head_chars: usize,
) -> Vec<Recited> {
    let Some((newest, _)) = epoch::newest_run(transcript) else { return Vec::new() };
    let answered = asking.epochs.iter().take(fold.batches.len());
    let since = |epoch: usize| asking.epochs.get(epoch).map_or(usize::MAX, |e| e.run.end);
    let verdict = |pair: usize| fold.verdicts.get(pair).copied().unwrap_or(Verdict::Keep);
    let left = fold.batches.iter().enumerate().flat_map(|(epoch, batch)| batch.iter().map(move |pair| (*pair, epoch)));
    let judged = answered.enumerate().flat_map(|(epoch, e)| e.eligible.iter().map(move |pair| (*pair, epoch)));
    let judged: Vec<recitation::Judged> = left
        .chain(judged.filter(|(pair, _)| !is_removed(fold, *pair)))
        .map(|(pair, epoch)| recitation::Judged { pair, verdict: verdict(pair), since: since(epoch) })
        .collect();
    recitation::recited(doc, transcript, &judged, newest, head_chars)
}

impl Books {
    /// What the request adds to each counter.
    pub fn counters(&self) -> Vec<(Metric, u64)> {
        let (entry, money) = (&self.entry, &self.money);
        let micro = |nano: u64| nano.checked_div(1_000).unwrap_or(0);
        let (parts, bill, net) = (entry.parts, money.bill, money.net());
        let sent = parts.prompt().saturating_sub(parts.removed);
        if self.held_out {
            return vec![
                (Metric::HoldoutConversations, self.first.into()),
                (Metric::HoldoutRequests, 1),
                (Metric::HoldoutBytes, sent),
                (Metric::HoldoutCost, micro(money.cost())),
            ];
        }
        let mut counters = vec![
            (Metric::Conversations, self.first.into()),
            (Metric::TreatedRequests, 1),
            (Metric::TreatedBytes, sent),
            (Metric::TreatedCost, micro(money.cost())),
            (Metric::Unpriced, (!self.priced).into()),
            (Metric::Epochs, self.epochs as u64),
            (Metric::Batches, entry.new_batches as u64),
            (Metric::JudgedDrop, self.judged_drop),
            (Metric::JudgedTruncate, self.judged_truncate),
            (Metric::Recited, self.recited),
            (Metric::RecitedLost, self.lost),
            (Metric::RecitedRerunnable, self.rerunnable),
            (Metric::RecitedCost, micro(self.fetched_again)),
            (Metric::NotRead, parts.removed),
            (Metric::Rewritten, entry.rewritten),
            (Metric::SavedCost, micro(money.saved())),
            (Metric::RewriteCost, micro(money.rewrite)),
            (Metric::NetGain, micro(u64::try_from(net).unwrap_or(0))),
            (Metric::NetLoss, micro(u64::try_from(net.saturating_neg()).unwrap_or(0))),
            (Metric::FixedBytes, parts.fixed),
            (Metric::ProseBytes, parts.prose),
            (Metric::ProtectedBytes, parts.protected),
            (Metric::SmallBytes, parts.small),
            (Metric::CandidateBytes, parts.candidates),
            (Metric::RemovedBytes, parts.removed),
            (Metric::NewBytes, parts.new),
            (Metric::OutputBytes, parts.output),
            (Metric::FixedCost, micro(bill.fixed)),
            (Metric::ProseCost, micro(bill.prose)),
            (Metric::ProtectedCost, micro(bill.protected)),
            (Metric::SmallCost, micro(bill.small)),
            (Metric::CandidateCost, micro(bill.candidates)),
            (Metric::RemovedCost, micro(bill.removed)),
            (Metric::WriteCost, micro(bill.new)),
            (Metric::OutputCost, micro(bill.output)),
        ];
        let by_tenth = |metric: fn(u8) -> Metric, counts: [u64; 10]| (0u8..).map(metric).zip(counts);
        counters.extend(by_tenth(Metric::Needed, self.needed));
        counters.extend(by_tenth(Metric::RecitedNeeded, self.recited_needed));
        counters
    }

    fn count_epochs(&mut self, asking: &Asking, first: usize) {
        let answered = asking.answered();
        self.epochs = answered.saturating_sub(first);
        let new = asking.answers.iter().take(answered).skip(first).flatten().flatten();
        for judged in new {
            add(&mut self.needed, judged.needed);
            match judged.verdict {
                Verdict::Keep => {}
                Verdict::Truncate => self.judged_truncate = self.judged_truncate.saturating_add(1),
                Verdict::Drop => self.judged_drop = self.judged_drop.saturating_add(1),
            }
        }
    }

    fn count_recited(
        &mut self,
        doc: &Document<'_>,
        transcript: &Transcript,
        (asking, fold): (&Asking, &Fold),
        Recited { pair, lost }: Recited,
        deterministic: Option<&[Glob]>,
    ) {
        add(&mut self.recited_needed, asking.needed(pair));
        if !is_removed(fold, pair) {
            return;
        }
        let name = transcript.pairs.get(pair).and_then(|p| doc.string(p.call.name.as_ref()?));
        let again = name.is_some_and(|name| match deterministic {
            Some(globs) => globs.iter().any(|glob| glob.matches(&name)),
            None => matches!(Class::of(&name), Class::Read | Class::Search),
        });
        self.recited = self.recited.saturating_add(1);
        self.lost = self.lost.saturating_add(lost.into());
        self.rerunnable = self.rerunnable.saturating_add(again.into());
    }
}

/// Counts one at `tenth`; an answer without a probability counts nowhere.
fn add(histogram: &mut [u64; 10], tenth: u8) {
    if let Some(count) = histogram.get_mut(usize::from(tenth)) {
        *count = count.saturating_add(1);
    }
}
