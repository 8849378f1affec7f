//! The configuration's text: is it an object at all, and what type is each value?

use std::ops::RangeInclusive;

use serde::de::IgnoredAny;

use super::number::{Inexact, Milli, scaled};
use super::{Glob, Problem};
use crate::json::{Document, Kind, Span};

/// A value, or what is wrong with it, in words that follow the field's name.
pub(super) type Checked<T> = Result<T, String>;

/// The name of the whole text in problems.
const WHOLE: &str = "configuration";
/// Most patterns in one list.
const MAX_GLOBS: usize = 64;
/// Dearest price that is taken, in US$ per million tokens.
const MAX_DOLLARS: u64 = 1_000_000;

/// The configuration as an object; none where nothing but whitespace was given.
pub(super) fn document(json: &[u8]) -> Result<Option<Document<'_>>, Problem> {
    let refuse = |problem: &str| Err(Problem::new(WHOLE, problem));
    if is_protobuf(json) {
        return refuse(
            "arrived as serialized protobuf (a google.protobuf.Struct): give the JSON text in a \
             google.protobuf.StringValue",
        );
    }
    let Ok(text) = std::str::from_utf8(json) else {
        return refuse("is not UTF-8 text");
    };
    let valid = serde_json::from_str::<IgnoredAny>(text);
    let text = text.trim_ascii_start();
    match text.bytes().next() {
        None => Ok(None),
        Some(b'{') => match (valid, Document::parse(json)) {
            (Ok(_), Ok(document)) => Ok(Some(document)),
            (Err(error), _) => Err(invalid(json, &error)),
            (Ok(_), Err(_)) => refuse("is not valid JSON"),
        },
        // One whole string is an object that was quoted once too often, not a fragment.
        Some(b'"') if valid.is_err() => refuse("is a fragment: wrap it in { }"),
        Some(_) if text.starts_with('\u{feff}') => refuse("begins with a byte order mark: save the text without it"),
        Some(_) => refuse("must be a JSON object, such as { \"enabled\": false }"),
    }
}

/// A serialized Struct begins with 0x0a, which JSON may do too; but it always holds a field tag below 0x20 that no
/// JSON text can hold.
fn is_protobuf(json: &[u8]) -> bool {
    let tag = |byte: &u8| *byte < b' ' && !byte.is_ascii_whitespace();
    json.first().is_some_and(|first| tag(first) || (*first == b'\n' && json.iter().any(tag)))
}

/// Says where the text stops being JSON and, where it can be told, in which field's value.
fn invalid(json: &[u8], error: &serde_json::Error) -> Problem {
    let text = std::str::from_utf8(json).unwrap_or_default();
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len);
    let end = lines.fold(error.column(), usize::saturating_add);
    let (before, _) = text.split_at(text.floor_char_boundary(end));
    let place = format!("line {}, column {}", error.line(), error.column());
    let open = open_field(before);
    let value = open.map(|(_, value_at)| text.split_at(value_at).1.trim_start()).unwrap_or_default();
    match open {
        Some((field, _)) if is_no_number(value) => {
            Problem::new(field, format!("must be a value that JSON can hold; NaN and infinity are none ({place})"))
        }
        Some((field, _)) => Problem::new(field, format!("is not valid JSON in or after its value ({place})")),
        None => Problem::new(WHOLE, format!("is not valid JSON ({place})")),
    }
}

/// The known field whose value is unfinished at the end of `before`, and where that value begins.
fn open_field(before: &str) -> Option<(&'static str, usize)> {
    let (colon, head) = before.rmatch_indices(':').find_map(|(at, _)| {
        let head = before.get(..at)?.trim_end().strip_suffix('"')?;
        Some((at, head))
    })?;
    let (_, key) = head.rsplit_once('"')?;
    let field = super::fields::known_name(key)?;
    let (_, value) = before.split_at_checked(colon.saturating_add(1))?;
    // A comma says that the value was complete and the fault is in something else.
    (!value.contains(',')).then(|| (field, before.len().saturating_sub(value.len())))
}

fn is_no_number(value: &str) -> bool {
    let value = value.trim_start_matches(['-', '+', '.']).to_ascii_lowercase();
    value.starts_with("nan") || value.starts_with("inf")
}

/// One value, to be read as the type that its field has.
pub(super) struct Raw<'a> {
    pub(super) document: Document<'a>,
    pub(super) span: Span,
}

impl Raw<'_> {
    fn source(&self) -> &str {
        std::str::from_utf8(self.document.slice(&self.span)).unwrap_or_default()
    }

    /// "must be <type>", with a hint where the value only has quotes too many.
    fn must_be(&self, what: &str) -> String {
        let hint = if self.document.kind(&self.span) == Kind::String { ", without quotes" } else { "" };
        format!("must be {what}{hint}")
    }

    pub(super) fn text(&self) -> Checked<String> {
        match self.document.string(&self.span) {
            Some(text) => Ok(text.into_owned()),
            None if self.document.kind(&self.span) == Kind::String => Err("must be valid Unicode text".to_owned()),
            None => Err("must be text in double quotes".to_owned()),
        }
    }

    pub(super) fn flag(&self) -> Checked<bool> {
        match self.source() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.must_be("true or false")),
        }
    }

    fn number(&self) -> Option<&str> {
        Some(self.source()).filter(|text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
    }

    /// Whether this is a number equal to `wanted`.
    pub(super) fn is_number(&self, wanted: u64) -> bool {
        self.number().is_some_and(|text| scaled(text, 0) == Ok(wanted))
    }

    /// A whole number; 4e4 and 40000.0 are whole too, since template engines write them.
    pub(super) fn whole(&self, range: RangeInclusive<u64>) -> Checked<u64> {
        let value = match self.number().map(|text| scaled(text, 0)) {
            Some(Ok(value)) => Some(value),
            Some(Err(Inexact::Negative | Inexact::TooLarge)) => None,
            Some(Err(Inexact::TooFine)) | None => return Err(self.must_be("a whole number")),
        };
        value
            .filter(|value| range.contains(value))
            .ok_or_else(|| format!("must be between {} and {}", range.start(), range.end()))
    }

    pub(super) fn size(&self, range: RangeInclusive<u64>) -> Checked<usize> {
        // Every range ends below 2^32, which is what `usize` holds inside Envoy.
        self.whole(range).map(|value| usize::try_from(value).unwrap_or(usize::MAX))
    }

    /// A number with at most three decimals, between two whole numbers.
    pub(super) fn milli(&self, range: RangeInclusive<u32>) -> Checked<Milli> {
        let thousandths = match self.number().map(|text| scaled(text, 3)) {
            None => return Err(self.must_be("a number")),
            Some(Err(Inexact::TooFine)) => {
                return Err("must have at most three decimals: the filter counts in thousandths, so that no two \
                            builds round differently"
                    .to_owned());
            }
            Some(Err(Inexact::Negative | Inexact::TooLarge)) => None,
            Some(Ok(thousandths)) => u32::try_from(thousandths).ok().map(Milli::new),
        };
        let low = Milli::new(range.start().saturating_mul(1_000));
        let high = Milli::new(range.end().saturating_mul(1_000));
        thousandths
            .filter(|value| (low..=high).contains(value))
            .ok_or_else(|| format!("must be between {} and {}", range.start(), range.end()))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Checked<T> {
        let text = self.text().ok();
        let chosen = choices.iter().find(|(name, _)| text.as_deref() == Some(name));
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            format!("must be {} or {last}", others.join(", "))
        })
    }

    pub(super) fn globs(&self) -> Checked<Vec<Glob>> {
        let list = self.document.kind(&self.span) == Kind::Array;
        let items = self.document.elements(&self.span).take(MAX_GLOBS.saturating_add(1));
        let globs: Option<Vec<Glob>> =
            items.map(|item| self.document.string(&item).and_then(|text| Glob::new(&text))).collect();
        globs.filter(|globs| list && globs.len() <= MAX_GLOBS).ok_or_else(|| {
            format!("must be a list of at most {MAX_GLOBS} patterns, each text of 1 to {} characters", Glob::MAX_CHARS)
        })
    }

    /// The members of an object whose names are patterns.
    pub(super) fn named<T>(&self, mut read: impl FnMut(Glob, &Raw<'_>) -> Checked<T>) -> Checked<Vec<T>> {
        let refusal =
            || format!("must be an object of at most {MAX_GLOBS} members, each named by a pattern over models");
        let mut items = Vec::new();
        for member in self.document.members(&self.span) {
            let name = self.document.string(&member.key).and_then(|name| Glob::new(&name)).ok_or_else(refusal)?;
            let value = Raw { document: self.document, span: member.value };
            items.push(read(name, &value).map_err(|problem| format!("a member {problem}"))?);
        }
        let object = self.document.kind(&self.span) == Kind::Object && items.len() <= MAX_GLOBS;
        if object { Ok(items) } else { Err(refusal()) }
    }

    /// The members of an object that has no others.
    pub(super) fn members<const N: usize>(&self, names: [&str; N]) -> Checked<[Option<Raw<'_>>; N]> {
        let refusal = || format!("must be an object with members out of {}", names.join(", "));
        let known = |key: &Span| names.iter().any(|name| self.document.is(key, name));
        if self.document.kind(&self.span) != Kind::Object || !self.document.members(&self.span).all(|m| known(&m.key)) {
            return Err(refusal());
        }
        let found = self.document.fields(&self.span, names).map_err(|_| refusal())?;
        Ok(found.map(|span| span.map(|span| Raw { document: self.document, span })))
    }

    /// A price in US$, in billionths.
    pub(super) fn dollars(&self) -> Checked<u64> {
        let refusal = || format!("must hold numbers between 0 and {MAX_DOLLARS}");
        let nano = self.number().and_then(|text| scaled(text, 9).ok());
        nano.filter(|nano| *nano <= MAX_DOLLARS.saturating_mul(1_000_000_000)).ok_or_else(refusal)
    }

    /// Whether this is text or a number.
    pub(super) fn is_label(&self) -> bool {
        self.text().is_ok() || self.number().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &[u8]) -> String {
        document(json).map(|document| document.is_some()).unwrap_err().to_string()
    }

    #[test]
    fn nothing_but_whitespace_is_no_configuration() {
        for json in ["", " ", "\n\t \r\n"] {
            assert!(document(json.as_bytes()).unwrap().is_none(), "{json:?}");
        }
        assert!(document(b" \n{} ").unwrap().is_some());
    }

    #[test]
    fn a_struct_is_told_from_text_that_begins_with_a_newline() {
        // Struct { enabled: true }, and the same with a 123-byte entry, whose length byte is `{`.
        assert!(refusal(b"\n\x0d\n\x07enabled\x12\x02 \x01").contains("StringValue"));
        let long = [&b"\n{\n\x07enabled\x12p\x1an"[..], &[b'x'; 110]].concat();
        assert!(refusal(&long).contains("StringValue"));
        assert!(refusal(b"\x08\x01").contains("StringValue"));
        assert!(document(b"\n{}").unwrap().is_some());
        assert!(refusal(b"\n\"enabled\": true").contains("wrap it in { }"));
        assert!(!refusal(b"{\"model\": \"a\x07b\"}").contains("StringValue"));
    }

    #[test]
    fn invalid_text_is_placed_and_its_field_named_where_that_is_sure() {
        for (json, message) in [
            ("{\"threshold_tokens\":NaN}", "threshold_tokens: must be a value that JSON can hold"),
            ("{\n \"limiar_decisao\" : -Infinity}", "limiar_decisao: must be a value that JSON can hold"),
            ("{\"compactacao\":{\"model\":\"é\",\"min_reduction\":\n.nan}}", "min_reduction: must be a value that"),
            ("{\"model\":canary}", "model: is not valid JSON in or after its value (line 1, column 10)"),
            ("{\"model\":\"canary", "model: is not valid JSON in or after its value (line 1, column 16)"),
            ("{\"model\":\"m\",\"min_reducao\" : Infinity}", "min_reducao: must be a value that JSON can hold"),
            ("{\"model\":\"m\",\"canary\":NaN}", "configuration: is not valid JSON (line 1, column 23)"),
            ("{\"model\":\"canary\",}", "configuration: is not valid JSON (line 1, column 19)"),
            ("{\n\n  canary: 1}", "configuration: is not valid JSON (line 3, column 3)"),
            ("{", "configuration: is not valid JSON (line 1, column 1)"),
            ("{} canary", "configuration: is not valid JSON (line 1, column 4)"),
        ] {
            let found = refusal(json.as_bytes());
            assert!(found.starts_with(message), "{json}: {found}");
            assert!(!found.contains("canary"), "{json}: {found}");
        }
    }

    #[test]
    fn a_place_inside_a_wide_character_is_no_trap() {
        for cut in 0..30 {
            let text = "{\"model\": \"éééé\u{1}éé\u{10ffff}\", é".to_owned();
            let cut = text.floor_char_boundary(cut);
            let _ = document(text.split_at(cut).0.as_bytes());
        }
    }

    #[test]
    fn depth_is_no_trap() {
        let open = "[".repeat(1_000_000);
        let close = "]".repeat(1_000_000);
        assert!(document(format!("{{\"models_allowed\":{open}{close}}}").as_bytes()).unwrap().is_some());
        assert!(document(format!("{{\"models_allowed\":{open}").as_bytes()).is_err());
    }
}
