//! What providers reported of prompts, in the data that all workers share: token counts under hashes, and what bytes come to
//! in tokens by model family. No text.
//!
//! A report is kept under a hash of the prompt that it is about (its text, the model, the length of system and tools) and of
//! the client's credentials. The next request of a conversation begins with that prompt, so it finds the report by its own
//! beginning. Images and reasoning are not in the hash.

use crate::{
    memory::{self, Store},
    models::Family,
};

/// Slots in the host's shared data.
const SLOTS: u128 = 1024;
/// Reports in one slot; the oldest goes first.
const REPORTS: usize = 8;
/// Bytes of one report.
const REPORT: usize = 16 + 3 * 8;

/// What a provider reported of one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Input tokens, cached ones included.
    pub tokens: u64,
    /// Payload bytes of the body that it is about, as it left.
    pub bytes: u64,
    /// When, in seconds of the host's clock.
    pub seconds: u64,
}

/// The report about the prompt `key`.
pub fn recall(store: &dyn Store, key: u128) -> Option<Report> {
    let (value, _) = store.get(&slot(key))?;
    let (reports, _) = value.as_chunks::<REPORT>();
    reports.iter().map(read).find(|(known, _)| *known == key).map(|(_, report)| report)
}

/// Keeps a report, in place of an earlier one about the same prompt.
pub fn keep(store: &dyn Store, key: u128, report: Report) {
    memory::change(store, &slot(key), |value| {
        let (reports, _) = value.as_chunks::<REPORT>();
        let others = reports.iter().filter(|bytes| read(bytes).0 != key);
        let mut value = written(key, report).to_vec();
        value.extend(others.take(REPORTS.saturating_sub(1)).flatten());
        value
    });
}

fn slot(key: u128) -> String {
    format!("context_compaction.reported.{}", key.checked_rem(SLOTS).unwrap_or_default())
}

fn written(key: u128, report: Report) -> [u8; REPORT] {
    let mut bytes = [0; REPORT];
    let fields = [report.tokens, report.bytes, report.seconds].map(u64::to_le_bytes);
    let all = key.to_le_bytes().into_iter().chain(fields.into_iter().flatten());
    bytes.iter_mut().zip(all).for_each(|(place, byte)| *place = byte);
    bytes
}

fn read(bytes: &[u8; REPORT]) -> (u128, Report) {
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    let mut next = || numbers.next().unwrap_or_default();
    let key = u128::from(next()) | u128::from(next()) << 64;
    (key, Report { tokens: next(), bytes: next(), seconds: next() })
}

/// What was added between two requests of one conversation must be this long to say anything, in bytes.
const LEAST_BYTES: u64 = 1_024;
/// A family's rate counts from so many tokens on.
const LEAST_TOKENS: u64 = 5_000;
/// Beyond so many tokens the older half is forgotten by half.
const MOST_TOKENS: u64 = 1_000_000;
/// Bytes per token, in thousandths, that a tokenizer can have: what is beyond was no plain text.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1_000..=8_000;

/// Payload bytes per token of a family, in thousandths, once enough was reported.
pub fn rate(store: &dyn Store, family: Family) -> Option<u64> {
    let (bytes, tokens) = sums(&store.get(&rate_key(family))?.0)?;
    if tokens < LEAST_TOKENS { None } else { bytes.saturating_mul(1_000).checked_div(tokens) }
}

/// Learns from two reports about one conversation, the second about a longer prompt. Says whether it did. Only what was
/// added counts: the provider's own instructions and the frames of messages are in both.
pub fn learn(store: &dyn Store, family: Family, before: Report, after: Report) -> bool {
    let (Some(bytes), Some(tokens)) = (after.bytes.checked_sub(before.bytes), after.tokens.checked_sub(before.tokens))
    else {
        return false;
    };
    let rate = bytes.saturating_mul(1_000).checked_div(tokens);
    if bytes < LEAST_BYTES || !rate.is_some_and(|rate| PLAUSIBLE.contains(&rate)) {
        return false;
    }
    memory::change(store, &rate_key(family), |value| {
        let (mut all_bytes, mut all_tokens) = sums(value).unwrap_or_default();
        if all_tokens > MOST_TOKENS {
            (all_bytes, all_tokens) = (all_bytes >> 1, all_tokens >> 1);
        }
        [all_bytes.saturating_add(bytes), all_tokens.saturating_add(tokens)].map(u64::to_le_bytes).concat()
    })
}

fn rate_key(family: Family) -> String {
    format!("context_compaction.rate.{}", family.name())
}

fn sums(value: &[u8]) -> Option<(u64, u64)> {
    let [bytes, tokens] = value.as_chunks::<8>().0 else { return None };
    Some((u64::from_le_bytes(*bytes), u64::from_le_bytes(*tokens)))
}
