//! What a request must be before it is touched: by its headers, then by what its body says about itself.

use crate::{
    dialect::{Bound, Dialect, Target},
    policy::{BoundModels, Engine, Policy, ProviderCompaction, RequestHeader},
    skip::Skip,
    transcript::Transcript,
};
use xxhash_rust::xxh3::Xxh3;

/// Looks request headers up, one at a time: each look is a host call.
pub trait Headers {
    /// The raw value of `name`, lower case; `None` when it is absent or the host does not give it.
    fn get(&self, name: &str) -> Option<Vec<u8>>;
}

/// With `off` a trusted client switches the filter off for one request.
pub const SWITCH: &str = "x-context-compaction";

/// Headers with which a client seals the body it sends.
const SEALS: [&str; 6] =
    ["x-amz-content-sha256", "content-md5", "digest", "content-digest", "repr-digest", "signature-input"];

/// Headers with which clients say who they are.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// A hash of the client's credentials.
pub(super) fn client(headers: &dyn Headers) -> u64 {
    let mut hash = Xxh3::new();
    CREDENTIALS.iter().filter_map(|name| headers.get(name)).for_each(|value| hash.update(&value));
    hash.digest()
}

/// Whether the body is worth holding back, cheapest question first.
pub(super) fn headers(policy: &Policy, headers: &dyn Headers, end: bool) -> Result<Target, Skip> {
    let text = |name| headers.get(name).map(|v| String::from_utf8_lossy(&v).into_owned()).unwrap_or_default();
    if end || text(":method") != "POST" {
        return Err(Skip::NoBody);
    }
    let target = Target::of(&text(":path")).ok_or(Skip::OtherPath)?;
    if policy.request_header == RequestHeader::Trusted && text(SWITCH).trim().eq_ignore_ascii_case("off") {
        return Err(Skip::SwitchedOff);
    }
    if media_type(&text("content-type")) != "application/json" {
        return Err(Skip::NotJsonType);
    }
    let encoding = text("content-encoding");
    if !matches!(encoding.trim().to_ascii_lowercase().as_str(), "" | "identity") {
        return Err(Skip::Encoded);
    }
    match text("content-length").trim().parse::<usize>() {
        Ok(length) if length > policy.max_body_bytes => return Err(Skip::TooLarge),
        // The payload is part of the body, so a body this short cannot reach the threshold.
        Ok(length) if length < policy.least_body() => return Err(Skip::BelowThreshold),
        Err(_) if !policy.buffer_unknown_length => return Err(Skip::UnknownLength),
        _ => {}
    }
    if !policy.signed_after_filter && is_signed(headers, &text("authorization")) {
        return Err(Skip::Signed);
    }
    match &policy.decider {
        Some(decider) if decider.engine == Engine::Remote => {
            let key = decider.api_key.as_ref();
            if key.is_some_and(|key| key.value.is_none()) { Err(Skip::NoApiKey) } else { Ok(target) }
        }
        _ => Ok(target),
    }
}

/// The media type of a content-type header in lower case, without its parameters.
pub fn media_type(content_type: &str) -> String {
    let media_type = content_type.split_once(';').map_or(content_type, |(media_type, _)| media_type);
    media_type.trim().to_ascii_lowercase()
}

fn is_signed(headers: &dyn Headers, authorization: &str) -> bool {
    // A header that stands twice arrives joined.
    authorization.split(',').any(|value| value.trim_start().starts_with("AWS4-"))
        || SEALS.iter().any(|name| headers.get(name).is_some())
}

/// Whether the request as a whole may be touched.
pub(super) fn prompt(policy: &Policy, dialect: &Dialect, transcript: &Transcript) -> Result<(), Skip> {
    let prompt = &transcript.prompt;
    let model = prompt.model();
    if !policy.admits_model(model) {
        return Err(Skip::ModelExcluded);
    }
    if transcript.payload() < policy.bytes_of(policy.threshold_for(model)) {
        return Err(Skip::BelowThreshold);
    }
    if prompt.exact_body || (prompt.provider_edits && policy.provider_compaction == ProviderCompaction::Respect) {
        return Err(Skip::ProviderEdits);
    }
    let holds_none = !transcript.has_reasoning();
    let free = match (dialect.bound)(model) {
        Bound::Never => true,
        Bound::WithReasoning => holds_none,
        Bound::Always => {
            let waived = prompt.drop_block && policy.allow_drop_block;
            waived || (policy.bound_models == BoundModels::WithoutReasoning && !prompt.thinking && holds_none)
        }
    };
    if !free {
        return Err(Skip::BoundModel);
    }
    Ok(())
}
