//! Calls and results of a request body, as the filter reads them, and what became of them.

use serde_json::Value;

use context_compaction::{
    dialect::Target,
    json::{Document, Span},
    skip::Skip,
};

use super::{Failure, Result};

/// A call with its result, as a person would list it.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The tool's name.
    pub tool: String,
    /// What the call works on: its most telling argument.
    pub target: String,
    /// The text of the result, where it has come back.
    pub result: Option<String>,
}

impl Pair {
    /// Bytes of the result's text.
    pub fn result_bytes(&self) -> usize {
        self.result.as_ref().map_or(0, String::len)
    }

    fn is_left_of(&self, whole: &Self) -> bool {
        let text = |pair: &Self| pair.result.clone().unwrap_or_default();
        self.tool == whole.tool && self.target == whole.target && text(whole).starts_with(&text(self))
    }
}

/// What became of a pair on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is still there.
    Kept,
    /// Its result is shorter.
    Truncated,
    /// It is gone.
    Dropped,
}

/// Where a request to `path` goes.
pub fn target(path: &str) -> Result<Target> {
    Target::of(path).ok_or_else(|| Failure::new(format!("no format is read under {path}")))
}

/// All calls of a body, in order.
pub fn list(target: &Target, body: &[u8]) -> Result<Vec<Pair>> {
    let unreadable = |skip: Skip| Failure::new(format!("the filter does not read this body: {skip}"));
    let doc = Document::parse(body).map_err(unreadable)?;
    let transcript = target.read(&doc).map_err(unreadable)?;
    let text = |span: &Span| doc.string(span).unwrap_or_default().into_owned();
    let pairs = transcript.pairs.iter().map(|pair| Pair {
        tool: pair.call.name.as_ref().map(text).unwrap_or_default(),
        target: pair.call.arguments.as_ref().map(|span| work(&doc, span)).unwrap_or_default(),
        result: pair.result.as_ref().map(|result| result.texts.iter().map(|part| text(&part.literal)).collect()),
    });
    Ok(pairs.collect())
}

/// What became of each pair of `before`, given the pairs that are left.
pub fn fates(before: &[Pair], after: &[Pair]) -> Vec<Fate> {
    let mut left = after.iter().peekable();
    let fate = |pair: &Pair| match left.next_if(|left| left.is_left_of(pair)) {
        None => Fate::Dropped,
        Some(left) if left.result_bytes() < pair.result_bytes() => Fate::Truncated,
        Some(_) => Fate::Kept,
    };
    before.iter().map(fate).collect()
}

/// What a call with these arguments works on. They are an object, or a string that should hold one.
fn work(doc: &Document<'_>, arguments: &Span) -> String {
    let parsed: Value = match doc.string(arguments) {
        Some(text) => serde_json::from_str(&text),
        None => serde_json::from_slice(doc.slice(arguments)),
    }
    .unwrap_or_default();
    let named = ["file_path", "path", "command", "cmd", "pattern", "url"];
    let found = named.iter().find_map(|name| parsed[*name].as_str());
    let first = || parsed.as_object()?.values().find_map(Value::as_str);
    found.or_else(first).unwrap_or("-").lines().next().unwrap_or("-").to_owned()
}
