//! Short pieces of text that may leave the machine: one line, bounded, without secrets.

use std::borrow::Cow;

const REDACTED: &str = "[redacted]";
/// Text read beyond a limit, so that a secret that crosses the limit is seen whole.
pub(super) const MARGIN: usize = 512;

/// The beginning of `text`: secrets out, control characters to spaces, at most `limit` bytes.
pub(super) fn head(text: impl Iterator<Item = char>, limit: usize) -> String {
    let mut text = text.fuse();
    let mut gathered = gather(&mut text, limit.saturating_add(MARGIN));
    if text.next().is_some() {
        // The window may cut through a secret, which would not look like one any more.
        gathered.truncate(gathered.rfind(|c| !is_token(c)).unwrap_or(0));
    }
    let mut cleaned = redact(&gathered);
    cleaned.truncate(cleaned.floor_char_boundary(limit));
    cleaned
}

/// The same for the end of a text, given the characters of a window; `cut` where the window does not hold all of it.
pub(super) fn tail(window: impl Iterator<Item = char>, cut: bool, limit: usize) -> String {
    let gathered = gather(window, usize::MAX);
    let start = if cut { gathered.find(|c| !is_token(c)).unwrap_or(gathered.len()) } else { 0 };
    let cleaned = redact(gathered.get(start..).unwrap_or_default());
    let start = cleaned.ceil_char_boundary(cleaned.len().saturating_sub(limit));
    cleaned.get(start..).unwrap_or_default().to_owned()
}

fn gather(text: impl Iterator<Item = char>, limit: usize) -> String {
    let mut out = String::new();
    for c in text {
        out.push(if c.is_control() && c != '\n' { ' ' } else { c });
        if out.len() >= limit {
            break;
        }
    }
    out
}

/// Takes keys, tokens, passwords, PEM blocks and authorization values out, line by line; the lines are joined by spaces.
fn redact(text: &str) -> String {
    let text = without_pem(text);
    let mut out = String::with_capacity(text.len());
    let mut hide_next = false;
    for line in text.lines() {
        if !out.is_empty() {
            out.push(' ');
        }
        if std::mem::take(&mut hide_next) {
            out.push_str(REDACTED);
            continue;
        }
        match find_ignoring_case(line, "authorization").and_then(|at| line.split_at_checked(at)) {
            Some((open, hidden)) => {
                redact_words(&redact_values(open), &mut out);
                out.push_str("authorization ");
                out.push_str(REDACTED);
                // A value that is written on a line of its own.
                let value = hidden.get("authorization".len()..).unwrap_or_default();
                hide_next = !value.contains(|c: char| c.is_ascii_alphanumeric());
            }
            None => redact_words(&redact_values(line), &mut out),
        }
    }
    out
}

/// Names whose values are secrets, and what they may be called besides.
const NAMES: [&str; 9] = ["password", "passwd", "pwd", "secret", "token", "api_key", "api-key", "apikey", "cookie"];

/// Values that are taken out of one line by themselves; of a line with more everything behind these goes.
const MAX_VALUES: usize = 8;

/// Takes out what stands behind a secret's name and a separator, behind `Bearer`, and between `://` and `@`.
fn redact_values(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    for found in 0.. {
        let Some((start, end)) = next_value(rest) else { break };
        out.push_str(rest.get(..start).unwrap_or_default());
        // Each look costs the rest of the line. A line of many secrets has nothing to say beyond them.
        if found == MAX_VALUES {
            out.push_str(REDACTED);
            return out;
        }
        out.push_str(REDACTED);
        rest = rest.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Where the first secret value of `text` begins and ends.
fn next_value(text: &str) -> Option<(usize, usize)> {
    let quotes = ['"', '\'', '\\', '`'];
    let behind = |name: &str, separators: &[char], required: bool| {
        let at = find_ignoring_case(text, name)?.saturating_add(name.len());
        let rest = text.get(at..)?;
        let rest_at_separator = rest.trim_start_matches(quotes).trim_start();
        let value = rest_at_separator.trim_start_matches(separators);
        if required && value.len() == rest_at_separator.len() {
            return None;
        }
        let value = value.trim_start().trim_start_matches(quotes);
        let start = text.len().saturating_sub(value.len());
        // `Bearer` and what it bears are one value.
        let scheme = if find_ignoring_case(value, "bearer ") == Some(0) { "bearer ".len() } else { 0 };
        let body = value.get(scheme..)?;
        let len = body.find(|c: char| c.is_whitespace() || quotes.contains(&c) || c == ',' || c == '&');
        let end = start.saturating_add(scheme).saturating_add(len.unwrap_or(body.len()));
        (start < end && !value.starts_with(REDACTED)).then_some((start, end))
    };
    let named = NAMES.iter().filter_map(|name| behind(name, &[':', '='], true));
    let bearer = behind("bearer ", &[], false);
    named.chain(bearer).chain(userinfo(text)).min()
}

/// The user and password of the first address in `text` that has them.
fn userinfo(text: &str) -> Option<(usize, usize)> {
    let mut from = 0usize;
    while let Some(found) = text.get(from..)?.find("://") {
        let start = from.checked_add(found)?.checked_add("://".len())?;
        let rest = text.get(start..)?;
        let authority = rest.find(|c: char| c == '/' || c.is_whitespace() || c == '"').unwrap_or(rest.len());
        match rest.get(..authority)?.rfind('@') {
            Some(at) if !rest.starts_with(REDACTED) => return Some((start, start.checked_add(at)?)),
            _ => from = start,
        }
    }
    None
}

fn redact_words(line: &str, out: &mut String) {
    for word in line.split_inclusive(|c: char| !is_token(c)) {
        let token = word.trim_end_matches(|c: char| !is_token(c));
        match secret_start(token) {
            Some(start) => {
                out.push_str(token.get(..start).unwrap_or_default());
                out.push_str(REDACTED);
                out.push_str(word.strip_prefix(token).unwrap_or_default());
            }
            None => out.push_str(word),
        }
    }
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

/// Beginnings of keys, with the length from which on they count, and whether they count in the middle of a word.
const PREFIXES: [(&str, usize, bool); 19] = [
    ("sk-", 16, false),
    ("sk_", 16, false),
    ("rk_", 16, false),
    ("hf_", 20, false),
    ("npm_", 20, false),
    ("ghp_", 20, true),
    ("gho_", 20, true),
    ("ghu_", 20, true),
    ("ghs_", 20, true),
    ("ghr_", 20, true),
    ("github_pat_", 20, true),
    ("glpat-", 16, true),
    ("xoxb-", 16, true),
    ("xoxp-", 16, true),
    ("xoxa-", 16, true),
    ("AKIA", 20, true),
    ("ASIA", 20, true),
    ("AIza", 30, true),
    ("eyJ", 30, true),
];

/// Where a secret begins in a token, if there is one; it counts to the token's end.
fn secret_start(token: &str) -> Option<usize> {
    let prefixed = PREFIXES.iter().filter_map(|(prefix, len, anywhere)| {
        let mut places = token.match_indices(prefix).map(|(at, _)| at);
        places.find(|at| {
            let before = at.checked_sub(1).and_then(|i| token.as_bytes().get(i));
            // Behind an escape such as \n or %20 a letter or two belong to the escape.
            let begins = *at <= 2 || before.is_some_and(|b| !b.is_ascii_alphanumeric());
            token.len().saturating_sub(*at) >= *len && (*anywhere || begins)
        })
    });
    let mut start = 0usize;
    let parts = token.split(['.', '/']).map(|part| {
        let at = start;
        start = start.saturating_add(part.len()).saturating_add(1);
        (at, part)
    });
    let random = parts.filter(|(_, part)| is_random(part)).map(|(at, _)| at);
    prefixed.chain(random).min()
}

/// A long run with digits and letters of both cases: a key or a digest.
fn is_random(part: &str) -> bool {
    let has = |test: fn(&u8) -> bool| part.as_bytes().iter().any(test);
    part.len() >= 40 && has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
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
    fn behind_many_secrets_nothing_of_a_line_is_left() {
        let cleaned = head("pwd=a1b2, ".repeat(60).chars(), 600);
        assert_eq!(cleaned.matches(REDACTED).count(), MAX_VALUES.saturating_add(1), "{cleaned}");
        assert!(!cleaned.contains("a1b2"), "{cleaned}");
    }

    #[test]
    fn pem_blocks_leave_whole_even_when_cut() {
        let pem = "a\n-----BEGIN KEY-----\nMIIE\nabcd\n-----END KEY-----\nb";
        assert_eq!(head(pem.chars(), 400), "a [redacted]KEY----- b");
        assert!(!head(pem.chars().take(30), 400).contains("MII"));
        assert!(!tail(pem.chars().skip(25), true, 400).contains("abcd"));
    }

    #[test]
    fn ordinary_text_comes_through_on_one_line_and_bounded() {
        let text = "fn main() {\n\tprintln!(\"é\");\n}\nsrc/engine/excerpt.rs:12: sk-short";
        assert_eq!(head(text.chars(), 400), text.replace(['\n', '\t'], " "));
        assert_eq!(head("ééé".chars(), 3), "é");
        assert_eq!(tail("ééé".chars(), false, 3), "é");
    }

    #[test]
    fn secrets_are_found_inside_addresses_behind_escapes_and_behind_their_names() {
        for (text, secret) in [
            (r"https://bucket.example.com/keys/AKIAIOSFODNN7EXAMPLE/list", "IOSFODNN7"),
            (r"https://api.example.com/v1/sk-live-0123456789abcdef/x", "0123456789"),
            (r"my-ghp_0123456789abcdefghij0123", "0123456789"),
            (r"q=%20AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
            (r#"{"command":"cd x\nAKIAIOSFODNN7EXAMPLE\tsk-live-0123456789abcdef"}"#, "IOSFODNN7"),
            (r#"{"command":"cd x\nAKIAIOSFODNN7EXAMPLE\tsk-live-0123456789abcdef"}"#, "0123456789"),
            ("DB_PASSWORD=hunter2secret x", "hunter2"),
            ("password: hunter2secret", "hunter2"),
            ("postgres://admin:hunter2secret@db/x", "hunter2"),
            ("\"Authorization\":\n  \"opaque-value\"", "opaque"),
            (r#"{"token":"Bearer opaque-value"}"#, "opaque"),
            ("x-api-key: 0123456789abcdef0123", "0123456789"),
            ("Cookie: session=abcdef", "abcdef"),
            ("curl -H 'Bearer opaque-value'", "opaque"),
            ("sig=aB3_dE6-gH9_jK2-mN5_pQ8-sT1_vW4-yZ7_bC0-eF3_hI6", "jK2-mN5"),
        ] {
            assert!(!head(text.chars(), 400).contains(secret), "{}", head(text.chars(), 400));
            assert!(!tail(text.chars(), false, 400).contains(secret), "{}", tail(text.chars(), false, 400));
        }
    }

    #[test]
    fn what_a_window_cuts_through_never_comes_into_view() {
        let key = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY0abcd";
        for filler in 300..1000 {
            let jwt = format!("eyJ{}", "a".repeat(filler));
            assert!(!head(format!("id={jwt} k={key} more").chars(), 400).contains("wJal"), "{filler}");
            let text = format!("{} {key} id={jwt} end", "x".repeat(500));
            let window: Vec<char> = text.chars().skip(text.len().saturating_sub(900)).collect();
            let shown = tail(window.into_iter(), true, 200);
            assert!(!shown.contains("EXAMPLEKEY") && shown.ends_with("end"), "{filler}: {shown}");
        }
    }
}
