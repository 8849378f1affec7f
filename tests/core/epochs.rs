//! Boundaries, eligible pairs and batches against the executable specification, on every recorded conversation of the
//! dialects that this version reads.

use std::path::PathBuf;
use std::process::Command;

use crate::support::conversations::{self, Conversation};
use crate::support::{exchange, paths};
use context_compaction::dialect::Dialect;
use context_compaction::economy::Bar;
use context_compaction::epoch::{self, Law, Rule, Terms};
use context_compaction::json::Document;
use context_compaction::transcript::{Transcript, Verdict};
use serde_json::{Value, json};

/// The law of the specification: reasoning in the carriers holds a pair to truncation.
struct ModelLaw<'a> {
    transcript: &'a Transcript,
    cuts: Vec<u64>,
}

impl<'a> ModelLaw<'a> {
    fn new(doc: &Document<'_>, transcript: &'a Transcript) -> Self {
        let gain = |pair| transcript.gain(doc, pair, Verdict::Truncate, 800) as u64;
        Self { transcript, cuts: (0..transcript.pairs.len()).map(gain).collect() }
    }

    fn is_whole(&self, group: usize) -> bool {
        let carriers = self.transcript.groups[group].carriers.clone();
        !self.transcript.elements[carriers].iter().any(|e| e.reasoning)
    }
}

impl Law for ModelLaw<'_> {
    fn resolve(&self, group: usize, _: usize, wanted: &[Verdict], left: &[Option<Verdict>]) -> Vec<Verdict> {
        let first = self.transcript.groups[group].pairs.start;
        let each = wanted.iter().zip(left).enumerate();
        each.map(|(index, (wanted, left))| match (left, wanted) {
            (Some(left), _) => *left,
            (None, Verdict::Drop) if !self.is_whole(group) => Verdict::Truncate,
            (None, Verdict::Truncate) if self.cuts[first + index] == 0 => Verdict::Keep,
            (None, wanted) => *wanted,
        })
        .collect()
    }

    fn gain(&self, pair: usize, verdict: Verdict) -> u64 {
        let pair_of = &self.transcript.pairs[pair];
        match verdict {
            Verdict::Keep => 0,
            Verdict::Truncate => self.cuts[pair],
            Verdict::Drop => (pair_of.call.payload + pair_of.result.as_ref().map_or(0, |r| r.payload)) as u64,
        }
    }
}

fn verdict(name: &Value) -> Verdict {
    match name.as_str() {
        Some("drop") => Verdict::Drop,
        Some("truncate") => Verdict::Truncate,
        _ => Verdict::Keep,
    }
}

fn numbers(list: &Value) -> Vec<usize> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|n| n as usize).collect()
}

/// Decides as the specification did, with its verdicts, and compares every boundary.
fn compare(conversation: &Conversation, expected: &Value) {
    let number = |name: &str| expected["configuration"][name].as_u64().expect("a whole number");
    let turn = expected["turn"].as_u64().expect("a turn") as usize;
    let body = conversation.body(turn);
    let doc = Document::parse(&body).expect("a rendered body is JSON");
    let mut transcript = (Dialect::of(conversation.path()).expect("served").read)(&doc).expect("a sound conversation");
    transcript.prompt.fixed = expected["fixed"].as_u64().expect("fixed bytes") as usize;
    let rule = Rule {
        threshold_tokens: number("threshold_tokens"),
        bytes_per_token: number("bytes_per_token"),
        epoch_tokens: number("epoch_tokens"),
        epoch_pairs: number("epoch_pairs") as usize,
        preserve_recent: number("preserve_recent") as usize,
        keep_last_group: true,
        floor_bytes: number("floor_bytes") as usize,
    };
    let gated = expected["configuration"]["cost_gate"] == true;
    let terms = Terms {
        bar: Bar {
            min_reduction: number("min_reduction"),
            target_ratio: number("target_ratio"),
            horizon: gated.then(|| number("kappa")),
        },
        read: number("read"),
        write: number("write"),
        markers: expected["markers"] == true,
        max_batches: usize::MAX,
        max_removed: 1000,
    };
    let epochs = epoch::epochs(&transcript, &rule);
    let context = format!("{} at {turn}, {}", conversation.name, expected["configuration"]);
    let boundaries = expected["boundaries"].as_array().expect("boundaries");
    let ours: Vec<_> = epochs.iter().map(|e| (e.run.end, e.requests, e.eligible.clone())).collect();
    let theirs: Vec<_> = boundaries
        .iter()
        .map(|b| {
            (b["end"].as_u64().unwrap() as usize, b["replies"].as_u64().unwrap() as usize, numbers(&b["eligible"]))
        })
        .collect();
    assert_eq!(ours, theirs, "{context}");
    let answers: Vec<_> = boundaries
        .iter()
        .map(|b| Some(b["verdicts"].as_array().into_iter().flatten().map(verdict).collect()))
        .collect();
    let fold = epoch::fold(&transcript, &epochs, &answers, &ModelLaw::new(&doc, &transcript), &terms);
    let applied: Vec<Vec<usize>> = boundaries.iter().map(|b| numbers(&b["applied"])).collect();
    assert_eq!(fold.batches, applied, "{context}");
    let removed: Vec<usize> =
        fold.verdicts.iter().enumerate().filter(|(_, v)| **v != Verdict::Keep).map(|(i, _)| i).collect();
    assert_eq!(removed, numbers(&expected["removed"]), "{context}");
}

#[test]
fn every_boundary_and_batch_is_the_specifications() {
    let script = paths::repository().join("tests/epochs_model_dump.py");
    let mut compared = 0;
    for conversation in conversations::served(usize::MAX) {
        let file: PathBuf = paths::shared(&format!("data/conversations/{}.json", conversation.name));
        let output = Command::new("python3")
            .arg("-B")
            .arg(&script)
            .arg(paths::shared("docs"))
            .arg(file)
            .output()
            .expect("python3 runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            compare(&conversation, &serde_json::from_str(line).expect("a JSON line"));
            compared += 1;
        }
    }
    println!("{compared} decisions compared");
    assert!(!conversations::available() || compared > 500, "only {compared} decisions were compared");
}

#[test]
fn a_remembered_epoch_is_not_asked_again() {
    let Some(conversation) = conversations::served(usize::MAX).into_iter().find(|c| c.name.starts_with("cc-ctxe"))
    else {
        return;
    };
    let policy = exchange::policy(&exchange::configuration(json!({"max_body_bytes": 50_000_000})));
    let shared = exchange::Shared::default();
    let body = conversation.body(conversation.messages.len());
    let mut judge = |_: &str, _: &Value| (0.0, 0.0);
    let first = exchange::run_with(&shared, &policy, (conversation.path(), &[]), &body, &mut judge);
    assert!(!first.asked.is_empty());
    let again = exchange::run_with(&shared, &policy, (conversation.path(), &[]), &body, &mut judge);
    assert_eq!(again.asked.len(), 0, "{:?}", again.asked);
    assert!(again.outgoing == first.outgoing);
    for value in shared.0.borrow_mut().values_mut() {
        value.reverse();
    }
    let foreign = exchange::run_with(&shared, &policy, (conversation.path(), &[]), &body, &mut judge);
    assert_eq!(foreign.asked.len(), first.asked.len(), "foreign values cost calls");
    assert!(foreign.outgoing == first.outgoing, "and nothing else");
}
