//! One file per wire format, one row per format in [`DIALECTS`]. A dialect only reads; what may leave is decided for all
//! of them in [`crate::transcript`].

mod anthropic;
mod openai_chat;
mod openai_responses;
pub mod refusal;

use crate::{
    json::{Document, Span},
    models,
    policy::Removal,
    skip::Skip,
    transcript::{Levels, Transcript},
};

/// A provider's wire format.
#[derive(Debug)]
pub struct Dialect {
    /// The name in metrics and logs.
    pub name: &'static str,
    /// Whether requests to this path (no query) are in this format.
    pub serves: fn(path: &str) -> bool,
    /// Reads a body that must confirm the format.
    pub read: fn(&Document<'_>) -> Result<Transcript, Skip>,
    /// Whether this model's provider takes prose without the calls that stood beside it.
    pub prose_may_stay: fn(model: &str) -> bool,
    /// Whether its provider compacts a conversation where the request asks for it.
    pub provider_compacts: bool,
    /// Whether this model checks its reasoning against the exact prefix that produced it.
    pub bound: fn(model: &str) -> Bound,
}

/// Whether a model's reasoning is bound to its prefix: any removal before it breaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// It is not.
    Never,
    /// It is, and the provider loses or refuses it: with reasoning in the history nothing may leave.
    WithReasoning,
    /// It is, and a request without reasoning may be followed by one that has some and is refused.
    Always,
}

/// Every dialect the filter reads.
pub static DIALECTS: &[Dialect] = &[
    Dialect {
        name: "openai_chat",
        serves: |path| path.ends_with("/chat/completions"),
        read: openai_chat::read,
        prose_may_stay: openai_chat::prose_may_stay,
        provider_compacts: false,
        bound: claude_bound,
    },
    Dialect {
        name: "openai_responses",
        serves: |path| path.ends_with("/responses"),
        read: openai_responses::read,
        prose_may_stay: openai_chat::prose_may_stay,
        provider_compacts: true,
        bound: openai_responses::bound,
    },
    Dialect {
        name: "anthropic",
        serves: |path| path.ends_with("/v1/messages"),
        read: anthropic::read,
        prose_may_stay: anthropic::prose_may_stay,
        provider_compacts: true,
        bound: claude_bound,
    },
];

impl Dialect {
    /// The dialect of a request path; a query does not matter.
    pub fn of(path: &str) -> Option<&'static Self> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        DIALECTS.iter().find(|d| (d.serves)(path))
    }

    /// The levels of removal that are allowed for a request to `model`.
    pub fn levels(&self, removal: Removal, model: Option<&str>) -> Levels {
        let prose_stays = match removal {
            Removal::Auto => model.is_some_and(self.prose_may_stay),
            Removal::Portable => false,
            Removal::Full => true,
        };
        Levels { partial: true, prose_stays }
    }
}

/// Whether the model checks its reasoning blocks against the exact prefix that produced them, so that any removal before
/// one breaks it: Claude from version 5.1 on. A Claude name without a version counts as bound, since an alias may point
/// anywhere. Dates are no versions: `claude-opus-5-20260901` is 5.0.
pub fn reasoning_is_bound(model: &str) -> bool {
    let is_claude = model.to_ascii_lowercase().contains("claude");
    is_claude && models::claude_version(model).is_none_or(|version| version >= (5, 1))
}

fn claude_bound(model: &str) -> Bound {
    if reasoning_is_bound(model) { Bound::Always } else { Bound::Never }
}

/// Bytes of the values at `spans`, strings without their quotes.
fn total_len(doc: &Document<'_>, spans: [&Option<Span>; 2]) -> usize {
    let len = |span: &Span| doc.inner(span).map_or(span.len(), <[u8]>::len);
    spans.iter().filter_map(|s| s.as_ref()).map(len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_dialect_whatever_stands_before_it_or_in_its_query() {
        for (path, dialect) in [
            ("/v1/chat/completions", Some("openai_chat")),
            ("/openai/deployments/d/chat/completions?api-version=1", Some("openai_chat")),
            ("/anthropic/v1/messages?beta=true", Some("anthropic")),
            ("/v1/messages/count_tokens", None),
            ("/v1/messages/batches", None),
            ("/v1/embeddings?x=/v1/messages", None),
            ("/v1/responses?x", Some("openai_responses")),
            ("/backend-api/codex/responses", Some("openai_responses")),
            ("/v1/responses/compact", None),
            ("/v1/responses/resp_1", None),
        ] {
            assert_eq!(Dialect::of(path).map(|d| d.name), dialect, "{path}");
        }
    }

    #[test]
    fn bound_models_are_told_by_a_version_floor() {
        for bound in [
            "claude-fable-5-1",
            "claude-opus-5-5",
            "us.anthropic.claude-haiku-5-5-v1:0",
            "anthropic/claude-opus-5.5",
            "claude-sonnet-6",
            "claude-latest",
        ] {
            assert!(reasoning_is_bound(bound), "{bound}");
        }
        for free in [
            "claude-opus-5-20260901",
            "claude-opus-4-6",
            "claude-3-5-sonnet-20241022",
            "claude-sonnet-4@20250514",
            "anthropic/claude-opus-4.8",
            "gpt-5.6",
            "kimi-k2",
        ] {
            assert!(!reasoning_is_bound(free), "{free}");
        }
    }

    #[test]
    fn newer_models_on_responses_are_bound_where_there_is_reasoning() {
        let bound = |model| (Dialect::of("/v1/responses").unwrap().bound)(model);
        for model in ["gpt-5.6", "gpt-5.6-sol", "openai/gpt-6", "gpt-6.1-mini"] {
            assert_eq!(bound(model), Bound::WithReasoning, "{model}");
        }
        for model in ["gpt-5.5", "gpt-5", "gpt-4o", "o3", "gpt-oss-120b", "my-own", ""] {
            assert_eq!(bound(model), Bound::Never, "{model}");
        }
        assert_eq!(bound("claude-opus-5-5"), Bound::Always);
    }

    #[test]
    fn prose_stays_without_its_calls_only_where_the_provider_takes_it() {
        let full = |path: &str, model| Dialect::of(path).unwrap().levels(Removal::Auto, model).prose_stays;
        for (model, expected) in [
            (Some("gpt-4o"), true),
            (Some("o3-mini"), true),
            (Some("chatgpt-4o-latest"), true),
            (Some("ft:gpt-4o:acme"), true),
            (Some("gpt-oss-120b"), false),
            (Some("openai/gpt-4o"), false),
            (Some("mistral-large"), false),
            (Some("olmo"), false),
            (None, false),
        ] {
            assert_eq!(full("/v1/chat/completions", model), expected, "{model:?}");
        }
        assert!(full("/v1/messages", Some("claude-sonnet-4-5")));
        assert!(!full("/v1/messages", Some("kimi-k2")));
    }
}
