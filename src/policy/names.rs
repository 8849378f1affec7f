//! Names that are no fields: what to say about them, and whether they may be repeated in a message.

use super::{fields, secret};

/// Fields of later versions.
const LATER: &[&str] = &["include_tools", "exclude_tools", "protect_arguments", "sticky_tools"];

/// Names from other systems, and ours.
const FOREIGN: &[(&str, &str)] = &[
    ("maxContextLength", "threshold_tokens"),
    ("preserveLastN", "preserve_recent"),
    ("compressionRatio", "min_reduction or target_ratio"),
    ("compressionStrategy", "strategy"),
    ("autoContextCompression", "enabled"),
    ("compactionThreshold", "threshold_tokens"),
    ("providerCompactionEnabled", "provider_compaction"),
];

/// Names under which people give a key.
const KEYS: &[&str] = &["api_key", "key", "token", "secret", "password", "authorization", "bearer_token", "api_token"];

/// Longest name that is repeated in a message, in bytes.
const MAX_SHOWN: usize = 64;

/// The name, where it is a plain identifier and no key.
pub(super) fn shown(name: &str) -> &str {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let inner = |byte: u8| first(byte) || byte.is_ascii_digit() || byte == b'.' || byte == b'-';
    let identifier = name.len() <= MAX_SHOWN && name.bytes().next().is_some_and(first) && name.bytes().all(inner);
    if identifier && !secret::is_secret_name(name) { name } else { "a field name that is not an identifier" }
}

/// Why a name is refused, and what to write instead.
pub(super) fn refusal(name: &str) -> String {
    let plain = plain(name);
    let is = |known: &&str| self::plain(known) == plain;
    if LATER.iter().any(is) {
        return "is not available in this version".to_owned();
    }
    if let Some((_, ours)) = FOREIGN.iter().find(|(foreign, _)| is(foreign)) {
        return format!("is another system's name; here it is {ours}");
    }
    if KEYS.iter().any(is) {
        return "is not accepted: a key does not belong here; put the NAME of an environment variable in api_key_env"
            .to_owned();
    }
    match nearest(&plain) {
        Some(ours) => format!("is not a known field; did you mean {ours}?"),
        None => "is not a known field".to_owned(),
    }
}

/// A name without what naming conventions differ in.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The field whose name is at most two edits away (one for short names).
fn nearest(plain_name: &str) -> Option<&'static str> {
    // Longer names are near to nothing, and comparing them costs.
    if plain_name.len() > MAX_SHOWN {
        return None;
    }
    let edits = if plain_name.len() < 5 { 1 } else { 2 };
    let known = fields::FIELDS.iter().flat_map(|field| [Some(field.name), field.alias]).flatten();
    known
        .map(|known| (distance(plain_name, &plain(known)), known))
        .filter(|(distance, _)| *distance <= edits)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Levenshtein's distance, in bytes.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (1..=to.len()).collect();
    for (at, byte) in from.bytes().enumerate() {
        let mut diagonal = at;
        let mut left = at.saturating_add(1);
        for (cell, other) in row.iter_mut().zip(to.bytes()) {
            let cheapest = diagonal.min(left).min(*cell);
            let here = if byte == other { diagonal } else { cheapest.saturating_add(1) };
            diagonal = *cell;
            left = here;
            *cell = here;
        }
    }
    row.last().copied().unwrap_or(from.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        for (from, to, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("model", "modell", 1),
            ("modle", "model", 2),
            ("abc", "abc", 0),
            ("flaw", "lawn", 2),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
            assert_eq!(distance(to, from), edits, "{to} {from}");
        }
    }

    #[test]
    fn close_names_are_suggested_and_far_ones_are_not() {
        for (name, wanted) in [
            ("thresholdTokens", Some("threshold_tokens")),
            ("treshold_tokens", Some("threshold_tokens")),
            ("limiar_token", Some("limiar_tokens")),
            ("modle", Some("model")),
            ("preserve-recent", Some("preserve_recent")),
            ("foo", None),
            ("mod", None),
            ("temperature", None),
        ] {
            assert_eq!(nearest(&plain(name)), wanted, "{name}");
        }
    }

    #[test]
    fn only_plain_identifiers_are_shown() {
        for name in ["a", "_a", "a.b-c_1", "maxContextLength", "api_key", &"x".repeat(64)] {
            assert_eq!(shown(name), name);
        }
        for name in [
            "",
            "1a",
            "a b",
            "é",
            "a\"b",
            &"x".repeat(65),
            "sk-canary",
            "AKIAIOSFODNN7EXAMPLE",
            "Zx81Kq20Lm39Pw47Rt56Yu65",
        ] {
            assert_eq!(shown(name), "a field name that is not an identifier", "{name}");
        }
    }

    #[test]
    fn no_name_is_both_a_field_and_something_else() {
        let others = LATER.iter().chain(KEYS).copied().chain(FOREIGN.iter().map(|(foreign, _)| *foreign));
        for other in others {
            assert!(fields::known_name(other).is_none(), "{other}");
        }
        let all: Vec<&str> =
            fields::FIELDS.iter().flat_map(|field| [Some(field.name), field.alias]).flatten().collect();
        for (at, name) in all.iter().enumerate() {
            assert!(!all[..at].contains(name), "{name} stands twice in the table");
        }
    }
}
