//! The configurations of `examples/configs`: each loads without a warning, measures until it is told otherwise, and works on
//! a conversation.

use crate::support::bodies;
use crate::support::exchange::{self, NoEnvironment, Shared};
use crate::support::paths::repository;
use context_compaction::exchange::Outcome;
use context_compaction::policy::{Mode, Policy};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CHAT: &str = "/v1/chat/completions";

fn presets() -> BTreeMap<String, Value> {
    let folder = repository().join("examples/configs");
    let mut presets = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("examples/configs") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        presets.insert(name, serde_json::from_str(&text).expect("JSON"));
    }
    presets
}

fn loaded(settings: &Value) -> Policy {
    Policy::parse(settings.to_string().as_bytes(), &NoEnvironment).expect("a preset loads")
}

#[test]
fn each_loads_without_a_warning_and_measures() {
    let presets = presets();
    let names: Vec<&str> = presets.keys().map(String::as_str).collect();
    assert_eq!(names, ["chatbot", "coding-agent", "long-writing", "technical"]);
    let documentation = std::fs::read_to_string(repository().join("docs/context-window.md")).expect("the document");
    for (name, settings) in presets {
        let policy = loaded(&settings);
        assert_eq!((policy.mode, policy.warnings()), (Mode::Measure, Vec::new()), "{name}");
        assert!(documentation.contains(&format!("examples/configs/{name}.json")), "{name} is documented");
    }
}

#[test]
fn each_removes_what_is_old_from_a_long_conversation_and_spares_what_it_says_is_recent() {
    let turns = bodies::growing("gpt-4o", 90, 6_000);
    let body = turns.last().expect("ninety turns");
    for (name, mut settings) in presets() {
        let recent = settings["preserve_recent"].as_u64().expect("each names it") as usize;
        settings["enabled"] = json!(true);
        settings["cost_gate"] = json!(false);
        let policy = exchange::policy(&settings);
        let ran = exchange::run_engine((&Shared::default(), 7), &policy, (CHAT, &[]), body, &mut exchange::drop_all);
        assert_eq!(ran.outcome, Outcome::Reduced, "{name}");
        let newest = |body: &[u8]| {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            let messages = body["messages"].as_array().expect("messages").clone();
            messages[messages.len() - recent..].to_vec()
        };
        assert_eq!(newest(body), newest(&ran.outgoing), "{name}");
    }
}
