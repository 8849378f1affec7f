//! Every reason for leaving a request, or a pair inside it, alone.
//!
//! One variant is one counter and one row of the README's table; [`Skip::ALL`] is the list that all three share.

use std::fmt;

/// What a reason is about: the whole request, or one call/result pair inside a request that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The request leaves with its original bytes.
    Request,
    /// The pair stays; other pairs of the same request may still leave.
    Pair,
}

macro_rules! skips {
    ($($(#[doc = $doc:literal])+ $variant:ident = $scope:ident $name:literal,)+) => {
        /// Why a request or a pair was left alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Skip {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Skip {
            /// Every reason, in the order of the README's table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in metrics, access log and README.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Whether the reason concerns the request or one pair.
            pub fn scope(self) -> Scope {
                match self { $(Self::$variant => Scope::$scope,)+ }
            }
        }
    };
}

skips! {
    /// The method is not POST, or the request has no body.
    NoBody = Request "no_body",
    /// No dialect is served under this path.
    OtherPath = Request "other_path",
    /// The content type is not `application/json`.
    NotJsonType = Request "not_json_type",
    /// A content-encoding other than identity: the filter sees compressed bytes.
    Encoded = Request "encoded",
    /// The client signed the body (SigV4, Digest, Content-MD5); any edit would break its signature.
    Signed = Request "signed",
    /// The client said `x-context-compaction: off`, and `request_header` trusts it.
    SwitchedOff = Request "switched_off",
    /// No content-length and `buffer_unknown_length` is off.
    UnknownLength = Request "unknown_length",
    /// The body is, or grew, larger than `max_body_bytes`.
    TooLarge = Request "too_large",
    /// The prompt is below `threshold_tokens` and `threshold_ratio`.
    BelowThreshold = Request "below_threshold",
    /// The model is excluded by `models_allowed` or `models_denied`.
    ModelExcluded = Request "model_excluded",
    /// The API key's variable is missing or empty and the engine is remote.
    NoApiKey = Request "no_api_key",
    /// The host did not give the body, or sent it on or answered before it was decided.
    BodyUnavailable = Request "body_unavailable",
    /// The body is not one complete JSON value in UTF-8.
    NotJson = Request "not_json",
    /// A key that the filter reads stands twice in one object.
    DuplicateKey = Request "duplicate_key",
    /// The body does not confirm the dialect that its path names.
    DialectUnconfirmed = Request "dialect_unconfirmed",
    /// A message with a role, or of a shape, that the dialect does not define.
    UnknownShape = Request "unknown_shape",
    /// A call without result before the end, or a result without call: never repaired.
    BrokenPairing = Request "broken_pairing",
    /// The model checks its reasoning against the exact prefix that produced it.
    BoundModel = Request "bound_model",
    /// The request asks the provider to compact, or carries a token bound to its exact body.
    ProviderEdits = Request "provider_edits",
    /// The request continues a history that the provider keeps.
    ServerState = Request "server_state",
    /// No pair is old enough yet, or too few are for the next boundary.
    NothingAgedOut = Request "nothing_aged_out",
    /// No pair that is old enough is large enough and plain enough to be asked about.
    NothingEligible = Request "nothing_eligible",
    /// The engine answered: everything is still needed.
    KeptByEngine = Request "kept_by_engine",
    /// What would leave is less than `min_reduction` of the prompt, so it waits for more.
    WaitsForMinReduction = Request "waits_for_min_reduction",
    /// What would leave does not yet earn back the rewrite of the provider's cache.
    WaitsForGate = Request "waits_for_gate",
    /// What was judged away would exceed `max_removed_share`, or `max_prefix_changes` batches are out.
    AtLimit = Request "at_limit",
    /// By what the provider reports removals cost more than they save on this route, and `outcome_check` lets no more leave.
    NotPaying = Request "not_paying",
    /// A worker that remembers nothing asks about this many boundaries at once only; the next request goes on.
    AskedInPart = Request "asked_in_part",
    /// The engine failed, was late or could not be called; its own counters say how.
    EngineFailed = Request "engine_failed",
    /// The conversation is in the share that `holdout` leaves alone.
    Holdout = Request "holdout",
    /// `new_conversations_only` is on and the conversation was long already when it was first seen.
    SeenTooLate = Request "seen_too_late",
    /// The provider refused an earlier reduced request of this conversation for its tools, reasoning or signatures.
    RefusedBefore = Request "refused_before",
    /// The client left while the request waited for the engine.
    ClientGone = Request "client_gone",
    /// The reduced body failed its own check; a defect of the filter, please report it.
    SelfCheck = Request "self_check",
    /// The host refused a step (body no longer there, header not settable).
    HostRefused = Request "host_refused",
    /// The host did not deliver the body while the headers were held.
    HoldUnsupported = Request "hold_unsupported",
    /// An event arrived that this state does not expect.
    OutOfOrder = Request "out_of_order",

    /// The result is smaller than `floor_bytes`.
    SmallResult = Pair "small_result",
    /// Among the newest `preserve_recent` messages at the last boundary, or behind it.
    Recent = Pair "recent",
    /// No later reply of the model is complete: the result may not have been read.
    Open = Pair "open",
    /// The result is not plain text (images, documents, references, nothing).
    NotText = Pair "not_text",
    /// The result is flagged as an error: cheap, and it steers the model.
    ErrorResult = Pair "error_result",
    /// The call or the result carries a cache marker that the client set.
    CacheMarker = Pair "cache_marker",
    /// An id stands twice in the group, or a call in it is not an ordinary client call.
    UnsureGroup = Pair "unsure_group",
    /// A system message stands beside the group.
    SystemBeside = Pair "system_beside",
    /// Judged for removal, but this carrier or provider allows truncation at most.
    TruncatedInstead = Pair "truncated_instead",
    /// Judged for truncation, but nothing would leave.
    AlreadyShort = Pair "already_short",
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_within_their_scope_and_fit_a_metric_name() {
        let mut seen = HashSet::new();
        for skip in Skip::ALL {
            assert!(seen.insert(skip.name()), "{skip} stands twice");
            assert!(skip.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{skip}");
        }
    }
}
