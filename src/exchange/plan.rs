//! From the operator's settings to the terms of the fold.

use crate::{
    economy::{self, Bar},
    epoch::{self, Epoch, Rule, Terms},
    json::Document,
    ledger::Tariff,
    models::Model,
    policy::{Decider, Policy},
    transcript::{Prompt, Transcript},
};
use xxhash_rust::xxh3::xxh3_64;

/// What closes a boundary.
pub(super) fn rule(policy: &Policy, model: &str) -> Rule {
    Rule {
        threshold_tokens: policy.threshold_for(model),
        bytes_per_token: policy.bytes_per_token.thousandths().into(),
        epoch_tokens: policy.epoch_tokens,
        epoch_pairs: policy.epoch_pairs,
        preserve_recent: policy.preserve_recent,
        // Who says that nothing is recent says so of the last group too.
        keep_last_group: policy.preserve_recent > 0,
        floor_bytes: policy.floor_bytes,
    }
}

/// What a batch must reach for this request.
pub(super) fn terms(policy: &Policy, tariff: &Tariff) -> Terms {
    Terms {
        bar: Bar {
            min_reduction: policy.min_reduction.thousandths().into(),
            target_ratio: policy.target_ratio.map_or(0, |ratio| ratio.thousandths().into()),
            horizon: policy.cost_gate.then(|| policy.gate_horizon.thousandths().into()),
        },
        read: tariff.cache.read,
        write: tariff.write,
        markers: tariff.markers,
        max_batches: policy.max_prefix_changes,
        max_removed: policy.max_removed_share.thousandths().into(),
    }
}

/// Every setting that shapes verdicts: answers under other settings are other answers.
pub(super) fn fingerprint(policy: &Policy, rule: &Rule, decider: &Decider) -> String {
    let Decider { engine, endpoint, model, export, decision_threshold, call_threshold, .. } = decider;
    let engine = (engine, &endpoint.authority, &endpoint.path, model, export, decision_threshold, call_threshold);
    format!("{engine:?} {rule:?} {}", policy.truncate_head_chars)
}

/// Whether the conversation is in the share that is left alone. The hash has no seed, so that all replicas agree.
pub(super) fn is_held_out(policy: &Policy, doc: &Document<'_>, transcript: &Transcript, epochs: &[Epoch]) -> bool {
    let share = u128::from(policy.holdout.thousandths());
    let first = epochs.get(..1).unwrap_or_default();
    share > 0
        && epoch::keys(doc, transcript, first, 0, "holdout")
            .first()
            .is_some_and(|key| key.checked_rem(1000).is_some_and(|part| part < share))
}

/// Under which name sums over a route are kept: its settings.
pub(super) fn route(fingerprint: &str) -> u64 {
    xxh3_64(fingerprint.as_bytes())
}

/// By what prices a request to `model` is counted. `rate` is what bytes come to, in thousandths, where providers have told.
pub(super) fn tariff(policy: &Policy, prompt: &Prompt, model: Model, rate: Option<u64>) -> Tariff {
    let Model { cache, prices, .. } = model;
    Tariff {
        bytes_per_token: rate.unwrap_or(policy.bytes_per_token.thousandths().into()),
        cache,
        write: economy::write_price(cache, prompt.one_hour_cache),
        prices,
        markers: prompt.cache_markers,
    }
}
