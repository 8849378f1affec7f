//! Exact token counts of request bodies, for people to read.

use serde_json::Value;
use tiktoken_rs::CoreBPE;

/// tiktoken-rs panics on a run of about a million spaces; no piece is longer than this.
const PIECE: usize = 100_000;

/// Counts o200k tokens.
pub struct Counter(&'static CoreBPE);

impl Counter {
    /// Loads the vocabulary.
    pub fn new() -> Self {
        Self(tiktoken_rs::o200k_base_singleton())
    }

    /// Tokens of a text; text that looks like a special token counts as text.
    pub fn text(&self, text: &str) -> usize {
        let mut rest = text;
        let mut count = 0;
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(rest.floor_char_boundary(PIECE));
            count += self.0.encode_ordinary(piece).len();
            rest = left;
        }
        count
    }

    /// Tokens of every string in a value, and of the members of objects: what a model reads of a request, nearly.
    pub fn value(&self, value: &Value) -> usize {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().map(|item| self.value(item)).sum(),
            Value::Object(members) => members.values().map(|member| self.value(member)).sum(),
            _ => 0,
        }
    }
}
