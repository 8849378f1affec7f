//! Identifiers: the names by which later text refers back to a tool's output.

use std::hash::{DefaultHasher, Hasher};

/// A longer token is cut here: no name is that long, and it bounds the work.
const LONGEST: usize = 128;

/// Calls `found` with a hash of each identifier of a text: a token of at least four characters out of
/// `[A-Za-z0-9_./:@~+-]` that starts with a letter or one of `_~./@`, loses punctuation at its edges, and has an inner
/// structure that prose lacks: one of `_./:@`, a lower letter before an upper one, or a letter beside a digit.
pub(super) fn each(text: impl Iterator<Item = char>, mut found: impl FnMut(u64)) {
    let mut token: Vec<u8> = Vec::with_capacity(LONGEST);
    for c in text.chain([' ']) {
        if c.is_ascii_alphanumeric() || "_./:@~+-".contains(c) {
            if token.len() < LONGEST {
                token.push(c as u8);
            }
            continue;
        }
        if let Some(identifier) = identifier(&token) {
            // The same hash on every replica: DefaultHasher::new has fixed keys.
            let mut hasher = DefaultHasher::new();
            hasher.write(identifier);
            found(hasher.finish());
        }
        token.clear();
    }
}

fn identifier(token: &[u8]) -> Option<&[u8]> {
    let is_edge = |b: &u8| matches!(b, b'.' | b':' | b'-' | b'+' | b'/' | b'~' | b'@');
    let start = token.iter().position(|b| !is_edge(b))?;
    let end = token.iter().rposition(|b| !is_edge(b))?;
    let token = token.get(start..=end)?;
    let named = token.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    (token.len() >= 4 && named && has_structure(token)).then_some(token)
}

fn has_structure(token: &[u8]) -> bool {
    token.windows(2).any(|pair| match pair {
        [_, b'_' | b'.' | b'/' | b':' | b'@'] => true,
        [a, b] => {
            (a.is_ascii_lowercase() && b.is_ascii_uppercase())
                || (a.is_ascii_alphabetic() && b.is_ascii_digit())
                || (a.is_ascii_digit() && b.is_ascii_alphabetic())
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let mut found = Vec::new();
        each(text.chars(), |id| found.push(id));
        found.len()
    }

    #[test]
    fn names_are_found_and_prose_is_not() {
        assert_eq!(count("The quick brown fox, it jumped. Over-the-top!"), 0);
        assert_eq!(count("see src/json.rs:12, parseValue() and row_17; v2 is x1"), 3);
        assert_eq!(count("./build/out.txt"), 1);
        assert_eq!(count(&"a_".repeat(1000)), 1, "one long token is one name");
    }

    #[test]
    fn punctuation_at_the_edges_does_not_change_a_name() {
        let hash = |text: &str| {
            let mut all = Vec::new();
            each(text.chars(), |h| all.push(h));
            all
        };
        assert_eq!(hash("./src/lib.rs."), hash("(src/lib.rs)"));
        assert_ne!(hash("src/lib.rs"), hash("src/lib.rsx"));
    }
}
