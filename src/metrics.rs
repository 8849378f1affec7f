//! Every metric, as a constant. A name may be added, never changed: dashboards and alerts hold on to it.

use crate::{
    fault::Fault,
    skip::{Scope, Skip},
};

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
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
                }
            }

            /// Whether it only grows or is a distribution.
            pub fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)+
                    Self::Skipped(_) | Self::Failed(_) => Kind::Counter,
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
    /// The reduced body is in place but the host did not take its content-length; it leaves chunked.
    LengthNotSet = Counter "content_length_not_set",
}

impl Metric {
    /// Every metric, in a fixed order.
    pub fn all() -> impl Iterator<Item = Self> {
        let skips = Skip::ALL.iter().map(|s| Self::Skipped(*s));
        let faults = Fault::ALL.iter().map(|f| Self::Failed(*f));
        Self::PLAIN.iter().copied().chain(skips).chain(faults)
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
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.')));
    }
}
