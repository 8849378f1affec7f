//! The analysis of a conversation: numbers that add up, and no text.

use crate::support::bodies;
use crate::support::exchange::{self, Shared};
use context_compaction::analysis::{self, Analysis};
use context_compaction::dialect::Target;
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";

fn analysed(shared: &Shared, changes: Value, body: &[u8]) -> Analysis {
    let policy = exchange::early(changes);
    let target = Target::of(PATH).expect("a known path");
    analysis::analyse((&policy, 7), &target, body, shared).expect("a sound body")
}

#[test]
fn its_numbers_add_up() {
    let body = bodies::demo();
    let analysis = analysed(&Shared::default(), json!({}), &body);
    let messages: u64 = analysis.per_message.iter().map(|message| message.tokens).sum();
    assert!(messages <= analysis.total_tokens && analysis.total_tokens <= body.len() as u64 / 3);
    assert_eq!(analysis.messages, analysis.per_message.len());
    assert_eq!(analysis.average_tokens_per_message, analysis.total_tokens / analysis.messages as u64);
    assert_eq!((analysis.pairs, analysis.pairs_by_class.values().sum::<usize>()), (63, 63));
    assert!(
        analysis.compaction_needed && analysis.pairs_by_class["unasked"] > 0 && analysis.pairs_by_class["recent"] > 0
    );
    assert_eq!((analysis.context_limit, analysis.severity), (128_000, "normal"));
    assert!((0.6..0.7).contains(&analysis.utilisation) && analysis.suggested_ratio > 0.999);
    assert!(analysis.reachable_ratio < 0.8, "{}", analysis.reachable_ratio);
    let small = analysed(&Shared::default(), json!({"models": {"gpt-4o": 60_000}}), &body);
    assert_eq!((small.severity, small.recommended_action), ("critical", "new_conversation"));
    assert!((0.4..0.7).contains(&small.suggested_ratio), "{}", small.suggested_ratio);
}

#[test]
fn remembered_verdicts_are_shown_and_nothing_is_asked() {
    let (shared, body) = (Shared::default(), bodies::demo());
    let before = analysed(&shared, json!({}), &body).pairs_by_class;
    let mut answered = 0usize;
    let policy = exchange::early(json!({}));
    exchange::run_with(&shared, &policy, (PATH, &[]), &body, &mut |_, _| {
        answered += 1;
        if answered.is_multiple_of(2) { (0.0, 0.0) } else { (1.0, 1.0) }
    });
    let after = analysed(&shared, json!({}), &body).pairs_by_class;
    assert_eq!(
        (after["drop"], after["keep"], after["drop"] + after["keep"]),
        (answered / 2, answered.div_ceil(2), before["unasked"])
    );
    assert!(!after.contains_key("unasked"));
}

#[test]
fn no_text_of_the_conversation_is_in_it_and_what_cannot_be_read_says_why() {
    let policy = exchange::early(json!({"max_body_bytes": 1_000}));
    let body = json!({"model": "canary-1", "messages": [
        {"role": "system", "content": "canary-2"}, {"role": "user", "content": "canary-3"},
        {"role": "assistant", "content": "canary-4", "tool_calls": [
            {"id": "canary-5", "type": "function", "function": {"name": "canary-6", "arguments": "canary-7"}}]},
        {"role": "tool", "tool_call_id": "canary-5", "content": "canary-8"}]});
    let answer = |path, body: Option<&[u8]>| analysis::answer((&policy, 7), path, body, &Shared::default());
    let (status, json) = answer(PATH, Some(body.to_string().as_bytes()));
    assert_eq!(status, 200);
    assert!(!json.contains("canary"), "{json}");
    let roles: Value = serde_json::from_str(&json).expect("JSON");
    let roles: Vec<&str> =
        roles["per_message"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(answer(PATH, Some(b"{canary")), (422, r#"{"error":"not_json"}"#.to_owned()));
    assert_eq!(answer("/other", Some(b"{}")), (404, r#"{"error":"other_path"}"#.to_owned()));
    assert_eq!(answer(PATH, None), (413, r#"{"error":"too_large"}"#.to_owned()));
}
