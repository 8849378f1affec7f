//! Short pieces of text that may leave the machine: one line, bounded, without secrets.

use std::borrow::Cow;

const REDACTED: &str = "[redacted]";
/// Text read beyond a limit, so that a secret that crosses the limit is seen whole.
pub(super) const MARGIN: usize = 512;

/// The beginning of `text`: secrets out, control characters to spaces, at most `limit` bytes.
pub(super) fn head(text: impl Iterator<Item = char>, limit: usize) -> String {
    let mut cleaned = redact(&gather(text, limit.saturating_add(MARGIN)));
    cleaned.truncate(cleaned.floor_char_boundary(limit));
    cleaned
}

/// The same for the end of `text`.
pub(super) fn tail(text: impl Iterator<Item = char>, limit: usize) -> String {
    let cleaned = redact(&gather(text, usize::MAX));
    let start = cleaned.ceil_char_boundary(cleaned.len().saturating_sub(limit));
    cleaned.get(start..).unwrap_or_default().to_owned()
}

fn gather(text: impl Iterator<Item = char>, limit: usize) -> String {
    let mut out = String::new();
    for c in text {
        if out.len() >= limit {
            break;
        }
        out.push(if c.is_control() && c != '\n' { ' ' } else { c });
    }
    out
}

/// Takes keys, tokens, PEM blocks and authorization values out, line by line; the lines are joined by spaces.
fn redact(text: &str) -> String {
    let text = without_pem(text);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if !out.is_empty() {
            out.push(' ');
        }
        let authorization = find_ignoring_case(line, "authorization").and_then(|at| line.split_at_checked(at));
        let (open, hidden) = authorization.unwrap_or((line, ""));
        for word in open.split_inclusive(|c: char| !is_token(c)) {
            let token = word.trim_end_matches(|c: char| !is_token(c));
            if is_secret(token) {
                out.push_str(REDACTED);
                out.push_str(word.strip_prefix(token).unwrap_or_default());
            } else {
                out.push_str(word);
            }
        }
        if !hidden.is_empty() {
            out.push_str("authorization ");
            out.push_str(REDACTED);
        }
    }
    out
}

fn find_ignoring_case(line: &str, word: &str) -> Option<usize> {
    line.as_bytes().windows(word.len()).position(|w| w.eq_ignore_ascii_case(word.as_bytes()))
}

/// A block whose beginning or end lies outside the excerpt counts as far as it is seen.
fn without_pem(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    if !text.contains(BEGIN) && !text.contains(END) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    if let Some(end) = rest.find(END).filter(|end| rest.find(BEGIN).is_none_or(|begin| begin > *end)) {
        out.push_str(REDACTED);
        rest = rest.get(end.saturating_add(END.len())..).unwrap_or_default();
    }
    while let Some((open, block)) = rest.split_once(BEGIN) {
        out.push_str(open);
        out.push_str(REDACTED);
        rest = block.split_once(END).map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '.')
}

fn is_secret(token: &str) -> bool {
    let token = token.trim_matches(['.', '-', '_', '/', '+']);
    const PREFIXES: &[(&str, usize)] = &[
        ("sk-", 16),
        ("sk_", 16),
        ("rk_", 16),
        ("ghp_", 20),
        ("gho_", 20),
        ("ghu_", 20),
        ("ghs_", 20),
        ("ghr_", 20),
        ("github_pat_", 20),
        ("glpat-", 16),
        ("xoxb-", 16),
        ("xoxp-", 16),
        ("xoxa-", 16),
        ("AKIA", 20),
        ("ASIA", 20),
        ("AIza", 30),
        ("hf_", 20),
        ("eyJ", 30),
    ];
    PREFIXES.iter().any(|(prefix, len)| token.len() >= *len && token.starts_with(prefix)) || is_random(token)
}

/// A long run without the punctuation of paths and names, with digits and letters of both cases: a key or a digest.
fn is_random(token: &str) -> bool {
    let has = |test: fn(&u8) -> bool| token.as_bytes().iter().any(test);
    token.len() >= 40
        && !has(|b| matches!(b, b'_' | b'-' | b'.'))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(secret: &str, len: usize) -> &str {
        secret.get(..len).unwrap()
    }

    #[test]
    fn secrets_never_survive_an_excerpt() {
        for secret in [
            "sk-live-0123456789abcdef",
            "ghp_0123456789abcdefghij0123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY0abcd",
        ] {
            for text in
                [format!("key={secret}."), format!("a \"{secret}\" b"), format!("Authorization: Bearer {secret}")]
            {
                let cut = head(text.chars(), 400);
                assert!(!cut.contains(start(secret, 12)), "{cut}");
                assert!(cut.contains(REDACTED));
            }
            // The limit falls inside the secret.
            let cut = head(format!("{} {secret}", "x".repeat(30)).chars(), 40);
            assert!(!cut.contains(start(secret, 6)), "{cut}");
        }
    }

    #[test]
    fn pem_blocks_leave_whole_even_when_cut() {
        let pem = "a\n-----BEGIN KEY-----\nMIIE\nabcd\n-----END KEY-----\nb";
        assert_eq!(head(pem.chars(), 400), "a [redacted]KEY----- b");
        assert!(!head(pem.chars().take(30), 400).contains("MII"));
        assert!(!tail(pem.chars().skip(25), 400).contains("abcd"));
    }

    #[test]
    fn ordinary_text_comes_through_on_one_line_and_bounded() {
        let text = "fn main() {\n\tprintln!(\"é\");\n}\nsrc/engine/excerpt.rs:12: sk-short";
        assert_eq!(head(text.chars(), 400), text.replace(['\n', '\t'], " "));
        assert_eq!(head("ééé".chars(), 3), "é");
        assert_eq!(tail("ééé".chars(), 3), "é");
    }
}
