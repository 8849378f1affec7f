//! What a turn costs, told from nothing but the bodies that were sent: it shares no code with `src/ledger.rs`.
//!
//! A provider's cache holds the prompt of the turn before. What the body of this turn has in common with it, message by
//! message from the front, is read from there; the rest is written. Expiry of the cache is not modelled.
//!
//! Tokens are the filter's estimate over prose, arguments and results, and over system and tools. Reasoning is left out, as
//! clients send little of it again.

use std::collections::HashMap;

use clap::ValueEnum;
use context_compaction::models::{self, CachePrice, Model, Prices};
use context_compaction::tokens;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use crate::support::Result;

/// How the provider finds what it has cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// The longest common prefix of messages is read.
    Exact,
    /// Anthropic requests carry a cache marker, and after any change of the prefix only system and tools are read. Other
    /// dialects have no markers and keep the exact cache.
    Markers,
}

/// What tokens cost, in US dollars each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Input that is read from the cache.
    pub read: f64,
    /// Input that is written to it.
    pub write: f64,
    /// Output.
    pub output: f64,
}

impl Rates {
    /// The list prices of a model; none where it has no price.
    pub fn of(model: &str) -> Option<Self> {
        let Model { prices, cache: CachePrice { read, write, .. }, .. } = models::look_up(model);
        let Prices { input, output } = prices?;
        // Billionths of a dollar per million tokens, and thousandths of the input price.
        let per_token = |price: u64| price as f64 / 1e15;
        let share = |thousandths: u64| per_token(input) * thousandths as f64 / 1e3;
        Some(Self { read: share(read), write: share(write), output: per_token(output) })
    }
}

/// Something that is cached whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    hash: u128,
    tokens: u64,
}

/// A body, as far as the bill is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// System and tools.
    head: Vec<Piece>,
    messages: Vec<Piece>,
}

impl Prompt {
    /// Input tokens.
    pub fn tokens(&self) -> u64 {
        self.head.iter().chain(&self.messages).map(|piece| piece.tokens).sum()
    }
}

/// The members of a body that are billed; the others are settings.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, alias = "input")]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, alias = "instructions")]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// Reads bodies. It counts the tokens of each message once: most messages of a turn are those of the turn before.
#[derive(Debug, Default)]
pub struct Reader {
    known: HashMap<u128, u64>,
}

impl Reader {
    /// What is billed of a body.
    pub fn read(&mut self, body: &[u8]) -> Result<Prompt> {
        let body: Body<'_> = serde_json::from_slice(body)?;
        let mut pieces = |raw: &[&RawValue], count: fn(&Value) -> u64| -> Result<Vec<Piece>> {
            raw.iter().map(|raw| self.piece(raw.get(), count)).collect()
        };
        let system: Vec<&RawValue> = body.system.into_iter().collect();
        let tools: Vec<&RawValue> = body.tools.into_iter().collect();
        // Providers render the tools as JSON text.
        let mut head = pieces(&tools, |tools| tokens::estimate(tools.to_string().as_bytes()))?;
        head.extend(pieces(&system, text_tokens)?);
        Ok(Prompt { head, messages: pieces(&body.messages, message_tokens)? })
    }

    fn piece(&mut self, raw: &str, count: fn(&Value) -> u64) -> Result<Piece> {
        let hash = xxh3_128(raw.as_bytes());
        let tokens = match self.known.get(&hash) {
            Some(tokens) => *tokens,
            None => {
                let tokens = count(&serde_json::from_str(raw)?);
                self.known.insert(hash, tokens);
                tokens
            }
        };
        Ok(Piece { hash, tokens })
    }
}

/// Estimated tokens of the prose, arguments and results of one message.
pub fn message_tokens(message: &Value) -> u64 {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let listed: u64 = calls.map(|call| value_tokens(&call["function"]["arguments"])).sum();
    let blocks = message["content"].as_array().into_iter().flatten();
    let inside: u64 = blocks.map(|block| value_tokens(&block["input"]) + text_tokens(&block["content"])).sum();
    // Responses has calls and results as items of their own.
    let item = value_tokens(&message["arguments"]) + text_tokens(&message["output"]);
    listed + inside + item + text_tokens(&message["content"])
}

/// Tokens of a string, or of the texts in a list of blocks.
fn text_tokens(content: &Value) -> u64 {
    match content {
        Value::String(text) => tokens::estimate(text.as_bytes()),
        Value::Array(blocks) => blocks.iter().map(|block| text_tokens(&block["text"])).sum(),
        _ => 0,
    }
}

/// Tokens of arguments: a string of JSON, or an object.
fn value_tokens(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::String(text) => tokens::estimate(text.as_bytes()),
        other => tokens::estimate(other.to_string().as_bytes()),
    }
}

/// How one turn was billed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Paid {
    /// Input tokens that were read from the cache.
    pub read: u64,
    /// Input tokens that were written to it.
    pub written: u64,
    /// Something that was sent in the turn before did not come again at its place.
    pub changed: bool,
    /// US dollars, output included.
    pub cost: f64,
}

/// What one conversation is billed in one arm, and what the provider has cached of it.
#[derive(Debug)]
pub struct Account {
    rates: Rates,
    /// A change of the prefix loses the whole history.
    markers: bool,
    before: Option<Prompt>,
}

impl Account {
    /// An account for a conversation that has not begun.
    pub fn new(rates: Rates, markers: bool) -> Self {
        Self { rates, markers, before: None }
    }

    /// Bills one turn.
    pub fn pay(&mut self, prompt: &Prompt, output: u64) -> Paid {
        let (mut read, mut changed) = (0, false);
        if let Some(before) = &self.before {
            let same_head = before.head == prompt.head;
            let pairs = before.messages.iter().zip(&prompt.messages);
            let common = if same_head { pairs.take_while(|(a, b)| a == b).count() } else { 0 };
            changed = common < before.messages.len();
            let kept = if changed && self.markers { 0 } else { common };
            let pieces = if same_head { prompt.head.as_slice() } else { &[] };
            read = pieces.iter().chain(prompt.messages.iter().take(kept)).map(|piece| piece.tokens).sum();
        }
        let written = prompt.tokens() - read;
        let Rates { read: r, write: w, output: o } = self.rates;
        self.before = Some(prompt.clone());
        Paid { read, written, changed, cost: read as f64 * r + written as f64 * w + output as f64 * o }
    }
}
