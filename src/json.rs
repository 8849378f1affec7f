//! Byte spans of JSON values: validate a body once, then walk it. No value tree, no recursion.

use crate::skip::Skip;
use serde::de::IgnoredAny;
use std::{borrow::Cow, ops::Range};

/// A half-open byte range of a body.
pub type Span = Range<usize>;

/// What a value is, told by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{...}`
    Object,
    /// `[...]`
    Array,
    /// `"..."`
    String,
    /// `null`
    Null,
    /// A number, `true` or `false`.
    Other,
}

/// A body known to be one complete JSON value in UTF-8.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a>(&'a [u8]);

/// One member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key, quotes included.
    pub key: Span,
    /// The value.
    pub value: Span,
}

impl Member {
    /// From the first byte of the key to the last byte of the value.
    pub fn whole(&self) -> Span {
        self.key.start..self.value.end
    }
}

impl<'a> Document<'a> {
    /// Checks that `bytes` are one JSON value in UTF-8, however deep; linear time, depth bits of memory.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Skip> {
        // serde_json ignores values without recursion, and does not check the UTF-8 of strings it ignores.
        std::str::from_utf8(bytes).map_err(|_| Skip::NotJson)?;
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|_| Skip::NotJson)?;
        Ok(Self(bytes))
    }

    /// The whole body.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The top-level value.
    pub fn root(&self) -> Span {
        let start = skip_space(self.0, 0);
        start..skip_value(self.0, start).unwrap_or(self.0.len())
    }

    /// The bytes of `span`; empty when it lies outside the body.
    pub fn slice(&self, span: &Span) -> &'a [u8] {
        self.0.get(span.clone()).unwrap_or_default()
    }

    /// What stands at `span`.
    pub fn kind(&self, span: &Span) -> Kind {
        match self.0.get(span.start) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'n') => Kind::Null,
            _ => Kind::Other,
        }
    }

    /// The items of the array at `of`; none when it is no array.
    pub fn elements(&self, of: &Span) -> Elements<'a> {
        Elements(Walk::new(self.0, of, b'['))
    }

    /// The members of the object at `of`; none when it is no object.
    pub fn members(&self, of: &Span) -> Members<'a> {
        Members(Walk::new(self.0, of, b'{'))
    }

    /// The values of the members called `names`, found in one walk. One of them twice is [`Skip::DuplicateKey`]:
    /// readers disagree on which one counts.
    pub fn fields<const N: usize>(&self, of: &Span, names: [&str; N]) -> Result<[Option<Span>; N], Skip> {
        let mut found = [const { None }; N];
        for member in self.members(of) {
            let Some(key) = self.string(&member.key) else { continue };
            for (name, slot) in names.iter().zip(found.iter_mut()) {
                if *name == key && slot.replace(member.value.clone()).is_some() {
                    return Err(Skip::DuplicateKey);
                }
            }
        }
        Ok(found)
    }

    /// The text of the string at `span`; `None` for other values and for strings with a lone surrogate.
    pub fn string(&self, span: &Span) -> Option<Cow<'a, str>> {
        let raw = self.inner(span)?;
        if memchr::memchr(b'\\', raw).is_none() {
            return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice(self.slice(span)).ok().map(Cow::Owned)
    }

    /// The raw bytes between the quotes of the string at `span`.
    pub fn inner(&self, span: &Span) -> Option<&'a [u8]> {
        self.slice(span).strip_prefix(b"\"")?.strip_suffix(b"\"")
    }

    /// Whether the string at `span` is exactly `text`.
    pub fn is(&self, span: &Span, text: &str) -> bool {
        self.string(span).is_some_and(|s| s == text)
    }

    /// The decoded characters of the string at `span`; nothing for other values.
    pub fn chars(&self, span: &Span) -> Chars<'a> {
        let string = self.kind(span) == Kind::String;
        Chars {
            bytes: self.0,
            at: span.start.saturating_add(1),
            end: if string { span.end.saturating_sub(1) } else { 0 },
        }
    }

    /// The decoded characters among the last `raw_bytes` bytes of the string at `span`. A `\u` escape that the window
    /// cuts through comes out as its digits.
    pub fn last_chars(&self, span: &Span, raw_bytes: usize) -> Chars<'a> {
        let mut chars = self.chars(span);
        chars.at = chars.at.max(chars.end.saturating_sub(raw_bytes));
        let inside = |at: usize| {
            at > span.start.saturating_add(1)
                && (matches!(self.0.get(at), Some(0x80..0xC0)) || self.0.get(at.saturating_sub(1)) == Some(&b'\\'))
        };
        while chars.at < chars.end && inside(chars.at) {
            chars.at = chars.at.saturating_add(1);
        }
        chars
    }

    /// Whether the string at `span` holds nothing but white space.
    pub fn is_blank(&self, span: &Span) -> bool {
        self.chars(span).all(|c| c.value.is_whitespace())
    }
}

/// Iterator of [`Document::elements`].
#[derive(Debug)]
pub struct Elements<'a>(Walk<'a>);

impl Iterator for Elements<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let start = self.0.next_item()?;
        self.0.finish(start..skip_value(self.0.bytes, start)?)
    }
}

/// Iterator of [`Document::members`].
#[derive(Debug)]
pub struct Members<'a>(Walk<'a>);

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let bytes = self.0.bytes;
        let key = self.0.next_item()?;
        let key = key..skip_string(bytes, key)?;
        let colon = skip_space(bytes, key.end);
        let value = skip_space(bytes, colon.saturating_add(1));
        let value = self.0.finish(value..skip_value(bytes, value)?)?;
        Some(Member { key, value })
    }
}

/// A position in a comma-separated list.
#[derive(Debug)]
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], of: &Span, open: u8) -> Self {
        let is_list = bytes.get(of.start) == Some(&open);
        Self { bytes, at: of.start.saturating_add(1), end: if is_list { of.end } else { 0 } }
    }

    fn next_item(&mut self) -> Option<usize> {
        let at = skip_space(self.bytes, self.at);
        (at < self.end && !matches!(self.bytes.get(at), Some(b']' | b'}'))).then_some(at)
    }

    fn finish(&mut self, item: Span) -> Option<Span> {
        let after = skip_space(self.bytes, item.end);
        self.at = if self.bytes.get(after) == Some(&b',') { after.saturating_add(1) } else { after };
        Some(item)
    }
}

/// One decoded character of a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Char {
    /// The character; U+FFFD stands for a lone surrogate.
    pub value: char,
    /// Offset in the body just behind its last raw byte.
    pub end: usize,
}

/// Iterator of [`Document::chars`]: an escape, a surrogate pair or a UTF-8 sequence is one character.
#[derive(Debug)]
pub struct Chars<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl Iterator for Chars<'_> {
    type Item = Char;

    fn next(&mut self) -> Option<Char> {
        if self.at >= self.end {
            return None;
        }
        let (value, len) = match *self.bytes.get(self.at)? {
            b'\\' => self.escape()?,
            first @ 0..0x80 => (char::from(first), 1),
            first => {
                let len = if first < 0xE0 {
                    2
                } else if first < 0xF0 {
                    3
                } else {
                    4
                };
                let raw = self.bytes.get(self.at..self.at.checked_add(len)?)?;
                (std::str::from_utf8(raw).ok()?.chars().next()?, len)
            }
        };
        self.at = self.at.checked_add(len)?;
        Some(Char { value, end: self.at })
    }
}

impl Chars<'_> {
    fn escape(&self) -> Option<(char, usize)> {
        let value = match *self.bytes.get(self.at.checked_add(1)?)? {
            b'u' => return self.unicode_escape(),
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            other => char::from(other),
        };
        Some((value, 2))
    }

    fn unicode_escape(&self) -> Option<(char, usize)> {
        let unit = self.code_unit(self.at)?;
        if let Some(value) = char::from_u32(unit) {
            return Some((value, 6));
        }
        let next = self.at.checked_add(6)?;
        let low = self.code_unit(next).filter(|low| unit < 0xDC00 && (0xDC00..0xE000).contains(low));
        let pair = low.and_then(|low| {
            let high = unit.checked_sub(0xD800)?.checked_mul(0x400)?;
            char::from_u32(0x10000_u32.checked_add(high)?.checked_add(low.checked_sub(0xDC00)?)?)
        });
        Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |c| (c, 12)))
    }

    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at = at.saturating_add(1);
    }
    at
}

/// The offset behind the string that starts at `start`. A quote ends it when an even number of backslashes stands
/// before it; every backslash is counted for one quote only, so this is linear on any input.
fn skip_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start.checked_add(1)?;
    loop {
        let quote = at.checked_add(memchr::memchr(b'"', bytes.get(at..)?)?)?;
        let before = bytes.get(at..quote)?;
        let slashes = before.iter().rev().take_while(|b| **b == b'\\').count();
        at = quote.checked_add(1)?;
        if slashes.is_multiple_of(2) {
            return Some(at);
        }
    }
}

/// The offset behind the value that starts at `start`, in a document known to be valid.
fn skip_value(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = start;
    loop {
        at = match bytes.get(at)? {
            b'"' => skip_string(bytes, at)?,
            b'{' | b'[' => {
                depth = depth.checked_add(1)?;
                at.checked_add(1)?
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at.checked_add(1)?
            }
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => at.checked_add(1)?,
            _ => {
                let rest = bytes.get(at..)?;
                let len = rest.iter().position(|b| matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'));
                at.checked_add(len.unwrap_or(rest.len()))?
            }
        };
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(text: &str) -> Document<'_> {
        Document::parse(text.as_bytes()).unwrap()
    }

    fn texts<'a>(doc: &Document<'a>, spans: impl Iterator<Item = Span>) -> Vec<&'a str> {
        spans.map(|s| std::str::from_utf8(doc.slice(&s)).unwrap()).collect()
    }

    #[test]
    fn refuses_what_is_not_one_json_value_in_utf8() {
        for bad in ["", "  ", "{", "{}x", "[1,]", "{\"a\":NaN}", "\u{feff}{}", "[\"\n\"]", "nul"] {
            assert_eq!(Document::parse(bad.as_bytes()).unwrap_err(), Skip::NotJson, "{bad:?}");
        }
        assert_eq!(Document::parse(b"[\"\xff\"]").unwrap_err(), Skip::NotJson);
    }

    #[test]
    fn walks_elements_and_members_with_any_spacing() {
        let d = doc(" [ 1 ,\r\n\"a\\\\\" , {\"k\" : [\"]\"]} , true ] ");
        assert_eq!(texts(&d, d.elements(&d.root())), ["1", "\"a\\\\\"", "{\"k\" : [\"]\"]}", "true"]);
        let d = doc("{\"a\\\"\" : -1.50e2 , \"b\":{ \"c\":null }}");
        assert_eq!(texts(&d, d.members(&d.root()).map(|m| m.whole())), ["\"a\\\"\" : -1.50e2", "\"b\":{ \"c\":null }"]);
        assert_eq!(d.elements(&d.root()).count(), 0, "an object has no elements");
        assert_eq!(doc("[]").elements(&(0..2)).count(), 0);
        assert_eq!(doc("{ }").members(&(0..3)).count(), 0);
    }

    #[test]
    fn finds_fields_by_their_decoded_name_and_refuses_doubles() {
        let d = doc(r#"{"\u006dodel":1,"x":2,"y":3,"y":4}"#);
        let [model, absent] = d.fields(&d.root(), ["model", "absent"]).unwrap();
        assert_eq!((d.slice(&model.unwrap()), absent), (&b"1"[..], None));
        assert_eq!(d.fields(&d.root(), ["y"]).unwrap_err(), Skip::DuplicateKey);
    }

    #[test]
    fn decodes_escapes_surrogates_and_raw_utf8_to_single_characters() {
        let d = doc(r#""a\n\"\\é😀\ud83d\ude00\ud800x\u00e9""#);
        let chars: Vec<Char> = d.chars(&d.root()).collect();
        let values: String = chars.iter().map(|c| c.value).collect();
        assert_eq!(values, "a\n\"\\é😀😀\u{fffd}xé");
        let ends: Vec<usize> = chars.iter().map(|c| c.end).collect();
        assert_eq!(ends, [2, 4, 6, 8, 10, 14, 26, 32, 33, 39]);
        assert_eq!(d.string(&d.root()), None, "a lone surrogate is no text");
    }

    #[test]
    fn the_last_characters_start_behind_any_sequence_that_the_window_cuts() {
        let d = doc(r#""abc\\\né!\u00e9""#);
        let last = |n| d.last_chars(&d.root(), n).map(|c| c.value).collect::<String>();
        assert_eq!(last(100), "abc\\\né!é");
        assert_eq!((last(7), last(8)), ("!é".to_owned(), "!é".to_owned()), "not half of a character");
        assert_eq!((last(9), last(10)), ("é!é".to_owned(), "é!é".to_owned()), "not half of an escape");
        assert_eq!(last(4), "00e9", "the digits of an escape that is cut through");
    }

    #[test]
    fn blank_means_white_space_in_any_spelling() {
        for (text, blank) in [(r#""""#, true), (r#"" \n\t\u0020""#, true), (r#"" . ""#, false)] {
            let d = doc(text);
            assert_eq!(d.is_blank(&d.root()), blank, "{text}");
        }
    }

    #[test]
    fn nesting_of_any_depth_neither_recurses_nor_fails() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let d = doc(&deep);
        assert_eq!(d.root(), 0..400_000);
        assert_eq!(d.elements(&d.root()).next(), Some(1..399_999));
    }
}
