//! The policies by name, and the configuration that each runs under.

use std::rc::Rc;

use clap::ValueEnum;
use context_compaction::policy::Policy;
use serde_json::{Map, Value, json};

use super::engines::Engine;
use crate::support::exchange::NoEnvironment;
use crate::support::{Failure, Result};

/// When pairs are judged, and when what was judged away leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The filter: judged once at boundaries, in batches that pay.
    Epochs,
    /// As providers clear by themselves: no engine; once the prompt has 100,000 tokens, all results but the newest three
    /// leave, each turn.
    Age,
    /// Every pair is asked about on every turn, and what the answers say leaves at once. What was out may come back.
    Anew,
    /// Every pair is judged once, as soon as it is old enough, and leaves at once and for good.
    Sticky,
}

impl Kind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epochs => "epochs",
            Self::Age => "age",
            Self::Anew => "anew",
            Self::Sticky => "sticky",
        }
    }
}

/// One policy under one configuration, with one engine.
#[derive(Debug)]
pub struct Arm<'a> {
    /// The policy.
    pub kind: Kind,
    /// Its configuration.
    pub settings: Rc<Policy>,
    /// Who is asked.
    pub engine: &'a Engine,
    /// Share of the engine's calls that fail, and what begins the hash that picks them.
    pub failing: (f64, u64),
}

impl<'a> Arm<'a> {
    /// The policy under the product's defaults with `changes`. All policies share what may leave at all: threshold,
    /// floor, newest messages, levels. `sticky` is the filter without spacing, minimum and gate.
    pub fn new(kind: Kind, engine: &'a Engine, changes: &Map<String, Value>, failing: (f64, u64)) -> Result<Self> {
        let mut whole = json!({
            "enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:8080", "model": "replay",
            // The recordings are longer than a request should be.
            "max_body_bytes": 100_000_000,
        });
        let Some(members) = whole.as_object_mut() else { return Err(Failure::new("a literal object is one")) };
        members.extend(changes.clone());
        if kind == Kind::Sticky {
            let at_once = json!({
                "epoch_pairs": 1, "epoch_tokens": 0, "min_reduction": 0, "cost_gate": false, "max_removed_share": 1,
                "max_prefix_changes": 1_000_000,
            });
            members.extend(at_once.as_object().cloned().unwrap_or_default());
            members.remove("target_ratio");
        }
        let refused = |problems: Vec<_>| {
            let listed: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::new(format!("configuration refused: {}", listed.join("; ")))
        };
        let settings = Policy::parse(whole.to_string().as_bytes(), &NoEnvironment).map_err(refused)?;
        Ok(Self { kind, settings: Rc::new(settings), engine, failing })
    }
}

/// `field=value` as a member of the configuration. A value that is not JSON is text.
pub fn setting(text: &str) -> std::result::Result<(String, Value), String> {
    let (field, value) = text.split_once('=').ok_or("expected field=value")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((field.to_owned(), value))
}
