//! One file per wire format, one row per format in [`DIALECTS`]. A dialect only reads; what may leave is decided for all
//! of them in [`crate::transcript`].

mod anthropic;
mod bedrock;
mod chat_messages;
mod cohere;
pub mod compatibles;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
pub mod refusal;
mod target;

use crate::{
    json::{Document, Span},
    models,
    policy::Removal,
    skip::Skip,
    transcript::{Levels, Transcript},
};

pub use target::Target;

/// A provider's wire format.
#[derive(Debug)]
pub struct Dialect {
    /// The name in metrics and logs.
    pub name: &'static str,
    /// Whether requests to this path (no query) are in this format.
    pub serves: fn(path: &str) -> bool,
    /// Reads a body that must confirm the format.
    pub read: fn(&Document<'_>) -> Result<Transcript, Skip>,
    /// How much may leave a conversation with this model.
    pub levels_of: fn(model: &str) -> Levels,
    /// How much may leave where the operator says that the provider takes everything that the format allows.
    pub most: Levels,
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

/// Nothing but whole groups, and no prose without its calls.
const WHOLE_GROUPS: Levels = Levels { partial: false, prose_stays: false };
/// Single calls of a group, and no prose without its calls.
const SINGLE_CALLS: Levels = Levels { partial: true, prose_stays: false };
/// Calls may leave their prose.
const ALL: Levels = Levels { partial: true, prose_stays: true };

/// Every dialect the filter reads.
pub static DIALECTS: &[Dialect] = &[
    Dialect {
        name: "openai_chat",
        serves: |path| path.ends_with("/chat/completions"),
        read: openai_chat::read,
        levels_of: compatibles::levels,
        most: ALL,
        provider_compacts: false,
        bound: claude_bound,
    },
    Dialect {
        name: "openai_responses",
        serves: |path| path.ends_with("/responses"),
        read: openai_responses::read,
        levels_of: compatibles::levels,
        most: ALL,
        provider_compacts: true,
        bound: openai_responses::bound,
    },
    Dialect {
        name: "anthropic",
        serves: anthropic::serves,
        read: anthropic::read,
        levels_of: anthropic::levels,
        most: ALL,
        provider_compacts: true,
        bound: claude_bound,
    },
    Dialect {
        name: "gemini",
        serves: |path| path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent"),
        read: gemini::read,
        levels_of: |_| WHOLE_GROUPS,
        most: WHOLE_GROUPS,
        provider_compacts: false,
        bound: |_| Bound::Never,
    },
    Dialect {
        name: "bedrock",
        serves: |path| path.ends_with("/converse") || path.ends_with("/converse-stream"),
        read: bedrock::read,
        levels_of: |_| WHOLE_GROUPS,
        most: WHOLE_GROUPS,
        provider_compacts: false,
        bound: claude_bound,
    },
    Dialect {
        name: "ollama",
        serves: |path| path.ends_with("/api/chat"),
        read: ollama::read,
        levels_of: |_| SINGLE_CALLS,
        most: ALL,
        provider_compacts: false,
        bound: claude_bound,
    },
    Dialect {
        name: "cohere",
        serves: |path| path.ends_with("/v2/chat"),
        read: cohere::read,
        levels_of: |_| SINGLE_CALLS,
        most: SINGLE_CALLS,
        provider_compacts: false,
        bound: |_| Bound::Never,
    },
];

impl Dialect {
    /// The dialect of a request path; a query does not matter.
    pub fn of(path: &str) -> Option<&'static Self> {
        let path = target::without_query(path);
        DIALECTS.iter().find(|d| (d.serves)(path))
    }

    /// The levels of removal that are allowed for a request to `model`.
    pub fn levels(&self, removal: Removal, model: &str) -> Levels {
        match removal {
            Removal::Auto => (self.levels_of)(model),
            Removal::Portable => Levels { prose_stays: false, ..(self.levels_of)(model) },
            Removal::Full => self.most,
        }
    }
}

/// Whether the model checks its reasoning blocks against the exact prefix that produced them, so that any removal before
/// one breaks it: Claude from version 5.1 on. A Claude name without a version counts as bound, since an alias may point
/// anywhere, and so does a profile or deployment of one's own on Bedrock. Dates are no versions: `claude-opus-5-20260901` is
/// 5.0.
pub fn reasoning_is_bound(model: &str) -> bool {
    let is_claude = model.to_ascii_lowercase().contains("claude");
    let says_no_model = model.starts_with("arn:") && !NAMING.iter().any(|kind| model.contains(kind));
    says_no_model || (is_claude && models::claude_version(model).is_none_or(|version| version >= (5, 1)))
}

/// Resources of Bedrock whose name holds the model's.
const NAMING: [&str; 2] = [":foundation-model/", ":inference-profile/"];

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
            ("/v1beta/models/gemini-2.5-pro:generateContent?key=x", Some("gemini")),
            ("/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent?alt=sse", Some("gemini")),
            ("/v1beta/models/gemini-2.5-pro:countTokens", None),
            (
                "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
                Some("anthropic"),
            ),
            ("/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", None),
            ("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream", Some("anthropic")),
            ("/model/amazon.nova-pro-v1%3A0/converse-stream", Some("bedrock")),
            ("/api/chat", Some("ollama")),
            ("/api/generate", None),
            ("/v2/chat", Some("cohere")),
            ("/v1/chat", None),
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
            "arn:aws:bedrock:r:1:application-inference-profile/x",
            "arn:aws:bedrock:r:1:inference-profile/us.anthropic.claude-opus-5-5-v1:0",
        ] {
            assert!(reasoning_is_bound(bound), "{bound}");
        }
        for free in [
            "claude-opus-5-20260901",
            "us.anthropic.claude-opus-5-20260901-v1:0",
            "anthropic.claude-opus-5-v1:0",
            "anthropic.claude-v2:1",
            "claude-opus-4-6",
            "claude-3-5-sonnet-20241022",
            "claude-sonnet-4@20250514",
            "anthropic/claude-opus-4.8",
            "gpt-5.6",
            "kimi-k2",
            "arn:aws:bedrock:r::foundation-model/anthropic.claude-3-haiku-20240307-v1:0",
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
        let stays = |path, removal, model| Dialect::of(path).unwrap().levels(removal, model).prose_stays;
        let chat = "/v1/chat/completions";
        assert!(stays(chat, Removal::Auto, "gpt-4o") && !stays(chat, Removal::Auto, "qwen3"));
        assert!(stays("/v1/messages", Removal::Auto, "claude-sonnet-4-5"));
        assert!(!stays("/v1/messages", Removal::Auto, "kimi-k2"));
        assert!(!stays(chat, Removal::Portable, "gpt-4o") && stays(chat, Removal::Full, "qwen3"));
        for path in
            ["/v1beta/models/gemini-3-pro:generateContent", "/model/amazon.nova-pro-v1%3A0/converse", "/v2/chat"]
        {
            assert!(!stays(path, Removal::Full, "any"), "{path}: the format itself does not take it");
        }
    }
}
