//! Every metric, as a constant. A name may be added, never changed: dashboards and alerts hold on to it.

use crate::{
    fault::Fault,
    models::Family,
    skip::{Scope, Skip},
    window::Severity,
};

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $variant:ident = $kind:ident $name:literal,)+) => {
        /// One metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Metric {
            $($(#[doc = $doc])+ $variant,)+
            /// Requests, or pairs, left alone for one reason.
            Skipped(Skip),
            /// Engine calls that failed in one way.
            Failed(Fault),
            /// Judged pairs whose result the engine held needed with a probability of this many tenths, 0 to 9.
            Needed(u8),
            /// Those of them that the model came back to.
            RecitedNeeded(u8),
            /// Requests that were read, by how full the window is.
            Window(Severity),
            /// Payload bytes per token of a model family, in thousandths, by what providers reported.
            BytesPerToken(Family),
        }

        impl Metric {
            const PLAIN: &[Self] = &[$(Self::$variant,)+];

            /// The name in Envoy's statistics, behind `wasmcustom.`; Prometheus writes `_` for each dot.
            pub fn name(self) -> String {
                match self {
                    $(Self::$variant => concat!("context_compaction.", $name).to_owned(),)+
                    Self::Skipped(skip) => match skip.scope() {
                        Scope::Request => format!("context_compaction.request_skipped.{skip}"),
                        Scope::Pair => format!("context_compaction.pair_skipped.{skip}"),
                    },
                    Self::Failed(fault) => format!("context_compaction.engine_failed.{fault}"),
                    Self::Needed(tenth) => format!("context_compaction.pairs_judged_needed.{tenth}"),
                    Self::RecitedNeeded(tenth) => format!("context_compaction.pairs_recited_needed.{tenth}"),
                    Self::Window(severity) => format!("context_compaction.window.{}", severity.name()),
                    Self::BytesPerToken(family) => {
                        format!("context_compaction.bytes_per_token_thousandths.{}", family.name())
                    }
                }
            }

            /// How it adds up.
            pub fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)+
                    Self::Skipped(_) | Self::Failed(_) | Self::Needed(_) | Self::RecitedNeeded(_) | Self::Window(_) => {
                        Kind::Counter
                    }
                    Self::BytesPerToken(_) => Kind::Gauge,
                }
            }
        }
    };
}

metrics! {
    /// Requests that reached the filter while it was on.
    Requests = Counter "requests",
    /// Requests that left smaller than they came.
    Reduced = Counter "requests_reduced",
    /// Requests that would have left smaller, had the filter not only measured.
    Measured = Counter "requests_measured",
    /// Requests that were not measured because too many were waiting already.
    NotMeasured = Counter "requests_not_measured",
    /// 1 while the filter removes, 0 while it does not.
    Enforcing = Gauge "enforcing",
    /// 1 while the filter measures only.
    Measuring = Gauge "measuring",
    /// Bytes of the bodies that were reduced, as they came.
    IncomingBytes = Counter "reduced_incoming_bytes",
    /// Bytes of the same bodies as they left.
    OutgoingBytes = Counter "reduced_outgoing_bytes",
    /// Estimated tokens that left with calls and results.
    RemovedTokens = Counter "removed_tokens_estimated",
    /// Pairs that the engine was asked about.
    PairsAsked = Counter "pairs_asked",
    /// Pairs that left whole.
    PairsDropped = Counter "pairs_dropped",
    /// Results that were shortened.
    PairsTruncated = Counter "pairs_truncated",
    /// Calls made to the engine.
    EngineCalls = Counter "engine_calls",
    /// Bytes sent to the engine.
    EngineBytes = Counter "engine_request_bytes",
    /// Replies that answered eight or more pairs all alike.
    EngineDegenerate = Counter "engine_degenerate_replies",
    /// Milliseconds from a call to its reply.
    EngineMilliseconds = Histogram "engine_reply_ms",
    /// Estimated tokens sent to the engine.
    EngineTokens = Counter "engine_request_tokens",
    /// What they cost, in millionths of a US dollar.
    EngineCost = Counter "engine_cost_microdollars",
    /// 1 from the first call until the engine has answered once: nothing is removed before.
    EngineSilent = Gauge "engine_never_answered",
    /// Reduced requests that the provider refused for their tools, reasoning or signatures: please report them.
    ProviderRefused = Counter "provider_refused",
    /// Conversations in the books.
    Conversations = Counter "conversations",
    /// Conversations that have cost more than they saved, as of their newest request.
    Losing = Gauge "conversations_losing",
    /// Epochs that were judged.
    Epochs = Counter "epochs_judged",
    /// Batches that left.
    Batches = Counter "batches",
    /// Pairs that were judged and are to leave whole, now or later.
    JudgedDrop = Counter "pairs_judged_drop",
    /// Pairs whose result was judged and is to be shortened.
    JudgedTruncate = Counter "pairs_judged_truncate",
    /// Removed pairs that the model came back to: it used a name that only they had introduced.
    Recited = Counter "pairs_recited",
    /// Those of them whose name stands nowhere else.
    RecitedLost = Counter "pairs_recited_lost",
    /// Those of them from tools that give the same again (`deterministic_tools`).
    RecitedRerunnable = Counter "pairs_recited_rerunnable",
    /// What it costs if every one of them is fetched again, in millionths of a US dollar.
    RecitedCost = Counter "pairs_recited_cost_microdollars",
    /// Payload bytes that were not read from the provider's cache because they left.
    NotRead = Counter "cache_bytes_not_read",
    /// Payload bytes that were written to the provider's cache again because something before them left.
    Rewritten = Counter "cache_bytes_rewritten",
    /// Requests for a model without a known price: they count as bytes and not as money.
    Unpriced = Counter "requests_unpriced",
    /// Cache reads saved, in millionths of a US dollar.
    SavedCost = Counter "saved_microdollars",
    /// Cache writes caused, less the reads that they replace, in millionths of a US dollar.
    RewriteCost = Counter "rewrite_microdollars",
    /// Sum over requests that saved more than they cost, in millionths of a US dollar. Net is this less `net_loss`.
    NetGain = Counter "net_gain_microdollars",
    /// Sum over requests that cost more than they saved.
    NetLoss = Counter "net_loss_microdollars",
    /// Requests in the books whose conversation is worked on. Compare per request with those of the holdout.
    TreatedRequests = Counter "treated_requests",
    /// Payload bytes of their prompts as they left.
    TreatedBytes = Counter "treated_prompt_bytes",
    /// What they cost, output included, in millionths of a US dollar.
    TreatedCost = Counter "treated_cost_microdollars",
    /// Conversations that `holdout` leaves alone.
    HoldoutConversations = Counter "holdout_conversations",
    /// Their requests, from the first boundary on.
    HoldoutRequests = Counter "holdout_requests",
    /// Payload bytes of their prompts.
    HoldoutBytes = Counter "holdout_prompt_bytes",
    /// What they cost, output included, in millionths of a US dollar.
    HoldoutCost = Counter "holdout_cost_microdollars",
    /// How prompts divide: system instructions and tools, in payload bytes.
    FixedBytes = Counter "prompt_fixed_bytes",
    /// Prose.
    ProseBytes = Counter "prompt_prose_bytes",
    /// Calls and results that are never asked about.
    ProtectedBytes = Counter "prompt_protected_bytes",
    /// Calls with results below `floor_bytes`.
    SmallBytes = Counter "prompt_small_bytes",
    /// Judged calls and results that stay.
    CandidateBytes = Counter "prompt_candidate_bytes",
    /// What leaves.
    RemovedBytes = Counter "prompt_removed_bytes",
    /// What the request before did not have.
    NewBytes = Counter "prompt_new_bytes",
    /// The model's newest replies.
    OutputBytes = Counter "output_bytes",
    /// What the same parts cost without the filter, in millionths of a US dollar.
    FixedCost = Counter "bill_fixed_microdollars",
    /// Prose.
    ProseCost = Counter "bill_prose_microdollars",
    /// Calls and results that are never asked about.
    ProtectedCost = Counter "bill_protected_microdollars",
    /// Calls with small results.
    SmallCost = Counter "bill_small_microdollars",
    /// Judged calls and results that stay.
    CandidateCost = Counter "bill_candidate_microdollars",
    /// What leaves.
    RemovedCost = Counter "bill_removed_microdollars",
    /// Cache writes of what is new.
    WriteCost = Counter "bill_cache_write_microdollars",
    /// Output.
    OutputCost = Counter "bill_output_microdollars",
    /// How full models' windows are, in per cent of their limits.
    WindowPercent = Histogram "window_used_percent",
    /// Responses whose provider reported the input of a request that was read.
    UsageResponses = Counter "usage_responses",
    /// Input tokens that they reported, cached ones included.
    UsageInput = Counter "usage_input_tokens",
    /// Those of them that were read from the provider's cache.
    UsageCached = Counter "usage_cached_tokens",
    /// Those of them that were written to it.
    UsageWritten = Counter "usage_cache_write_tokens",
    /// What the filter had estimated for the same requests.
    UsageEstimated = Counter "usage_input_tokens_estimated",
    /// Cached tokens that were to be expected after removals.
    ReadPredicted = Counter "cache_read_tokens_predicted",
    /// Cached tokens that providers reported for the same requests.
    ReadReported = Counter "cache_read_tokens_reported",
    /// Routes on which removals cost more than they save, by what their providers report.
    NotPaying = Gauge "removal_not_paying",
    /// Requests that ask their provider to clear or compact, or carry what it made of their history.
    ProviderCompaction = Counter "requests_with_provider_compaction",
    /// Requests that were answered with an analysis.
    Analyzed = Counter "requests_analyzed",
    /// The reduced body is in place but the host did not take its content-length; it leaves chunked.
    LengthNotSet = Counter "content_length_not_set",
}

impl Metric {
    /// Every metric, in a fixed order.
    pub fn all() -> impl Iterator<Item = Self> {
        let skips = Skip::ALL.iter().map(|s| Self::Skipped(*s));
        let faults = Fault::ALL.iter().map(|f| Self::Failed(*f));
        let needed = (0..10).map(Self::Needed).chain((0..10).map(Self::RecitedNeeded));
        let windows = Severity::ALL.iter().map(|(severity, _)| Self::Window(*severity));
        let rates = Family::all().map(Self::BytesPerToken);
        Self::PLAIN.iter().copied().chain(skips).chain(faults).chain(needed).chain(windows).chain(rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_unique_and_survives_prometheus() {
        let names: Vec<String> = Metric::all().map(Metric::name).collect();
        let flat: HashSet<String> = names.iter().map(|n| n.replace('.', "_")).collect();
        assert_eq!(flat.len(), names.len());
        assert!(
            names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b)))
        );
    }
}
