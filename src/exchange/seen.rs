//! How large the prompt is, how full its model's window, and what its provider says about it afterwards.

use super::{Exchange, plan};
use crate::{
    dialect::Dialect,
    epoch::{self, Fold},
    json::Document,
    ledger::{Entry, Tariff},
    memory::Store,
    metrics::Metric,
    models::Family,
    policy::{Mode, OutcomeCheck, Policy},
    realised::{self, Observation},
    reported::{self, Report},
    transcript::{Transcript, Verdict},
    usage::Usage,
    window::Snapshot,
};

/// A prompt that was read.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its name, as a hash.
    key: u128,
    /// What the provider said of the request before.
    before: Option<Report>,
    family: Family,
    /// The most that its model takes, in tokens.
    limit: u64,
    /// By what prices it is counted.
    tariff: Tariff,
    /// Payload bytes as it came, and as it leaves.
    incoming: u64,
    outgoing: u64,
    fixed: u64,
    provider_compacts: bool,
    /// Where sums over the route are kept.
    route: u64,
    /// What the books say of it, if it was entered.
    entry: Option<Entry>,
}

/// What a provider's report adds to the metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Counts.
    pub counters: Vec<(Metric, u64)>,
    /// Payload bytes per token, in thousandths, as known now.
    pub rate: Option<(Family, u64)>,
    /// Whether removals pay on this route, where that has changed.
    pub pays: Option<bool>,
}

impl Seen {
    pub(super) fn of(
        (policy, seed, route): (&Policy, u64, u64),
        dialect: &Dialect,
        doc: &Document<'_>,
        transcript: &Transcript,
        store: &dyn Store,
    ) -> Self {
        let prompt = &transcript.prompt;
        let (key, before) = epoch::prompt_keys(doc, transcript, seed);
        let family = Family::of(prompt.model());
        let model = policy.model(prompt.model());
        let payload = transcript.payload() as u64;
        Self {
            key,
            before: before.and_then(|key| reported::recall(store, key)),
            family,
            limit: model.limit,
            tariff: plan::tariff(policy, prompt, model, reported::rate(store, family)),
            incoming: payload,
            outgoing: payload,
            fixed: prompt.fixed as u64,
            provider_compacts: dialect.provider_compacts,
            route,
            entry: None,
        }
    }

    /// By what prices it is counted.
    pub(super) fn tariff(&self) -> Tariff {
        self.tariff
    }

    /// What `fold` takes out leaves.
    pub(super) fn reduced(&mut self, doc: &Document<'_>, transcript: &Transcript, fold: &Fold, head_chars: usize) {
        let pairs = fold.verdicts.iter().enumerate().filter(|(_, verdict)| **verdict != Verdict::Keep);
        let gone = pairs.fold(0, |sum: u64, (pair, verdict)| {
            sum.saturating_add(transcript.gain(doc, pair, *verdict, head_chars) as u64)
        });
        self.outgoing = self.incoming.saturating_sub(gone);
    }

    /// The original leaves after all.
    pub(super) fn not_sent(&mut self) {
        self.outgoing = self.incoming;
        self.entry = None;
    }

    /// What the books say of it.
    pub(super) fn entered(&mut self, entry: Entry) {
        self.entry = Some(entry);
    }

    /// Where sums over the route are kept.
    pub(super) fn route(&self) -> u64 {
        self.route
    }

    fn tokens(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1_000).checked_div(self.tariff.bytes_per_token).unwrap_or(0)
    }

    fn window(&self, policy: &Policy) -> Snapshot {
        // A measured request leaves as it came.
        let outgoing = if policy.mode == Mode::Enforce { self.outgoing } else { self.incoming };
        let since = |before: Report| {
            let (more, less) = (outgoing.saturating_sub(before.bytes), before.bytes.saturating_sub(outgoing));
            let signed = |bytes| i64::try_from(self.tokens(bytes)).unwrap_or(i64::MAX);
            (before.tokens, signed(more).saturating_sub(signed(less)))
        };
        Snapshot {
            estimated: self.tokens(outgoing),
            original: self.tokens(self.incoming),
            limit: self.limit,
            reported: self.before.map(since),
            means: policy.means(self.provider_compacts),
        }
    }

    /// Whether what leaves begins as the request before did, and nothing left it in between.
    fn prefix_is_unchanged(&self) -> bool {
        self.entry.map_or(self.outgoing == self.incoming, |entry| entry.rewritten == 0)
    }

    /// What is to be compared, where there is something to compare. `never_reduced` says that nothing of the conversation has
    /// left before: a request that the books do not have tells nothing else.
    fn observation(&self, usage: Usage, seconds: u64, never_reduced: bool) -> Option<Observation> {
        let before = self.before.filter(|b| seconds.saturating_sub(b.seconds) <= realised::FRESH_SECONDS)?;
        let (read_price, write_price) = (self.tariff.cache.read, self.tariff.write);
        let untouched = Observation {
            readable: before.tokens,
            read: usage.cached?,
            removed: 0,
            changed: false,
            read_price,
            write_price,
        };
        let Some(entry) = self.entry else {
            return (never_reduced && self.outgoing == self.incoming).then_some(untouched);
        };
        let share = |tokens: u64, bytes: u64, of: u64| {
            let tokens = u128::from(tokens).saturating_mul(bytes.into()).checked_div(of.into());
            tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0)
        };
        let left = entry.cached.saturating_add(self.fixed).min(before.bytes);
        Some(Observation {
            readable: if entry.rewritten > 0 { share(before.tokens, left, before.bytes) } else { before.tokens },
            removed: share(usage.input, entry.parts.removed, self.outgoing),
            changed: entry.rewritten > 0,
            ..untouched
        })
    }
}

impl Exchange {
    /// How full the window is, once the body was read.
    pub fn window(&self) -> Option<Snapshot> {
        self.seen.as_ref().map(|seen| seen.window(&self.policy))
    }

    /// Whether a report of the provider would be of use.
    pub fn wants_usage(&self) -> bool {
        self.seen.is_some()
    }

    /// Takes what the provider reports of the request, `seconds` on the host's clock.
    pub fn reported(&mut self, usage: Usage, seconds: u64, store: &dyn Store) -> Told {
        let Some(seen) = &self.seen else { return Told::default() };
        let outgoing = if self.policy.mode == Mode::Enforce { seen.outgoing } else { seen.incoming };
        let report = Report { tokens: usage.input, bytes: outgoing, seconds };
        let mut told = Told {
            counters: vec![
                (Metric::UsageResponses, 1),
                (Metric::UsageInput, usage.input),
                (Metric::UsageCached, usage.cached.unwrap_or(0)),
                (Metric::UsageWritten, usage.written.unwrap_or(0)),
                (Metric::UsageEstimated, seen.tokens(outgoing)),
            ],
            ..Told::default()
        };
        let before = seen.before.filter(|_| self.policy.mode == Mode::Measure || seen.prefix_is_unchanged());
        if before.is_some_and(|before| reported::learn(store, seen.family, before, report)) {
            told.rate = reported::rate(store, seen.family).map(|rate| (seen.family, rate));
        }
        reported::keep(store, seen.key, report);
        let checked = self.policy.mode == Mode::Enforce && self.policy.outcome_check != OutcomeCheck::Off;
        let known = self.record.as_ref();
        let never_reduced = known.is_none_or(|record| !record.off && record.enforced.most_batches == 0);
        if let Some(observation) = seen.observation(usage, seconds, never_reduced).filter(|_| checked) {
            let (pays, news) = realised::observe(store, seen.route, &observation);
            told.pays = news.then_some(pays);
            if observation.removed > 0 {
                let rewritten = seen.entry.map_or(0, |entry| entry.rewritten);
                let readable = observation.readable.saturating_sub(seen.tokens(rewritten));
                told.counters.push((Metric::ReadPredicted, readable));
                told.counters.push((Metric::ReadReported, observation.read));
            }
        }
        told
    }
}
