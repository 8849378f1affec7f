//! What may leave, rule by rule, on small bodies; the rules are those of the providers' wire formats.

use crate::support::{cases, exchange, exchange::Ran, invariants};
use context_compaction::{exchange::Outcome, skip::Skip};
use serde_json::{Value, json};

const DROP: exchange::Needed = (0.0, 0.0);
const SHORTEN: exchange::Needed = (1.0, 0.0);

fn settings(changes: Value) -> Value {
    let mut base = exchange::configuration(json!({
        "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "truncate_head_chars": 10,
    }));
    base.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    base
}

fn run_with(changes: Value, path: &str, body: &Value, needed: exchange::Needed) -> Ran {
    let policy = exchange::policy(&settings(changes));
    let bytes = body.to_string().into_bytes();
    let ran = exchange::run(&policy, path, &[], &bytes, &mut |_: &str, _: &Value| needed);
    assert_eq!(invariants::complaints(&bytes, &ran.outgoing), Vec::<String>::new());
    ran
}

fn messages(ran: &Ran) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&ran.outgoing).expect("what leaves is JSON");
    body["messages"].as_array().cloned().unwrap_or_default()
}

// ---------------------------------------------------------------------------------------------- OpenAI Chat

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.rs\"}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": format!("{id} result, rather long")})
}

/// `Go.`, the messages in the middle, a final answer and a thank-you.
fn chat(model: &str, middle: &[Value]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "Go."})];
    messages.extend_from_slice(middle);
    messages.push(json!({"role": "assistant", "content": "Done."}));
    messages.push(json!({"role": "user", "content": "Thanks."}));
    json!({"model": model, "messages": messages})
}

fn run_chat(model: &str, middle: &[Value], needed: exchange::Needed) -> Ran {
    run_with(json!({}), "/v1/chat/completions", &chat(model, middle), needed)
}

fn assistant(content: Value, calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

#[test]
fn a_pure_group_leaves_with_its_messages() {
    for content in [Value::Null, json!(""), json!("  \n")] {
        let ran = run_chat("any", &[assistant(content, &[call("a")]), result("a")], DROP);
        assert_eq!(messages(&ran).len(), 3);
    }
}

#[test]
fn prose_keeps_its_message_where_the_provider_takes_it_and_its_call_elsewhere() {
    let middle = [assistant(json!("I look."), &[call("a")]), result("a")];
    let left = messages(&run_chat("gpt-4o", &middle, DROP));
    assert_eq!(left[1], json!({"role": "assistant", "content": "I look."}));
    let ran = run_chat("mistral-large", &middle, DROP);
    assert_eq!(messages(&ran)[2]["content"], "a result, ", "truncated instead");
    assert_eq!(ran.report.pairs_skipped[&Skip::TruncatedInstead], 1);
    let full = run_with(json!({"removal": "full"}), "/v1/chat/completions", &chat("mistral-large", &middle), DROP);
    assert_eq!(messages(&full).len(), 4);
    let portable = run_with(json!({"removal": "portable"}), "/v1/chat/completions", &chat("gpt-4o", &middle), DROP);
    assert_eq!(messages(&portable).len(), 5);
}

#[test]
fn results_may_come_in_another_order_than_their_calls() {
    let ran = run_chat("any", &[assistant(Value::Null, &[call("a"), call("b")]), result("b"), result("a")], DROP);
    assert_eq!(messages(&ran).len(), 3);
}

#[test]
fn a_user_message_behind_the_results_keeps_the_group_except_where_two_user_messages_may_meet() {
    let middle = [assistant(Value::Null, &[call("a")]), result("a"), json!({"role": "user", "content": "Stop."})];
    assert_eq!(run_chat("mistral-large", &middle, DROP).report.truncated, 1);
    assert_eq!(run_chat("gpt-4o", &middle, DROP).report.dropped, 1);
    let blank = [assistant(Value::Null, &[call("a")]), result("a"), json!({"role": "user", "content": ""})];
    assert_eq!(run_chat("mistral-large", &blank, DROP).report.truncated, 1, "a blank message is a message");
}

#[test]
fn broken_pairing_leaves_the_whole_request_alone() {
    let user = json!({"role": "user", "content": "Hm."});
    let two = assistant(Value::Null, &[call("a"), call("b")]);
    let bodies: [Vec<Value>; 6] = [
        vec![result("a")],
        vec![assistant(Value::Null, &[call("a")]), user.clone()],
        vec![two.clone(), result("a")],
        vec![two.clone(), result("a"), user.clone(), result("b")],
        vec![two, result("a"), result("b"), result("c")],
        vec![assistant(Value::Null, &[call("a")]), assistant(Value::Null, &[call("b")]), result("a"), result("b")],
    ];
    for middle in bodies {
        let ran = run_chat("gpt-4o", &middle, DROP);
        assert_eq!(ran.outcome, Outcome::Untouched(Skip::BrokenPairing), "{middle:?}");
    }
}

#[test]
fn calls_that_wait_at_the_end_break_nothing_and_stay() {
    let mut body = chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), result("a")]);
    let more = [assistant(Value::Null, &[call("b"), call("c")]), result("b")];
    body["messages"].as_array_mut().unwrap().extend(more);
    let ran = run_with(json!({}), "/v1/chat/completions", &body, DROP);
    assert_eq!((ran.report.dropped, ran.report.pairs_skipped[&Skip::Open]), (1, 2));
}

#[test]
fn some_members_hold_a_group_to_truncation() {
    for (member, value) in [
        ("reasoning_content", json!("Hm.")),
        ("reasoning_content", json!("")),
        ("reasoning_details", json!([])),
        ("refusal", json!("No.")),
        ("audio", json!({"id": "x"})),
        ("annotations", json!([{}])),
        ("name", json!("Ana")),
    ] {
        let mut carrier = assistant(Value::Null, &[call("a")]);
        carrier[member] = value;
        let ran = run_chat(
            "gpt-4o",
            &[carrier, result("a"), assistant(json!("So."), &[]), json!({"role":"user","content":"And?"})],
            DROP,
        );
        assert_eq!((ran.report.dropped, ran.report.truncated), (0, 1), "{member}");
    }
    for (member, value) in [("refusal", Value::Null), ("annotations", json!([])), ("unknown", json!(1))] {
        let mut carrier = assistant(Value::Null, &[call("a")]);
        carrier[member] = value;
        assert_eq!(run_chat("gpt-4o", &[carrier, result("a")], DROP).report.dropped, 1, "{member}");
    }
}

#[test]
fn a_signature_on_one_parallel_call_ties_the_group_together() {
    let mut signed = call("a");
    signed["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    let middle = [assistant(Value::Null, &[signed, call("b")]), result("a"), result("b")];
    let policy = exchange::policy(&settings(json!({})));
    let body = chat("gemini-3", &middle).to_string().into_bytes();
    let mut only_second = |name: &str, _: &Value| if name == "p2" { DROP } else { (1.0, 1.0) };
    let ran = exchange::run(&policy, "/v1/chat/completions", &[], &body, &mut only_second);
    assert_eq!((ran.report.dropped, ran.report.truncated), (0, 1));
    assert_eq!(run_chat("gemini-3", &middle, DROP).report.dropped, 2, "all of them may go");
}

#[test]
fn markers_errors_images_and_system_messages_keep_what_they_stand_on() {
    let mut marked = result("a");
    marked["content"] = json!([{"type": "text", "text": "long enough to cut", "cache_control": {"type": "ephemeral"}}]);
    let mut failed = result("a");
    failed["is_error"] = json!(true);
    let mut image = result("a");
    image["content"] = json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]);
    let mut empty = result("a");
    empty["content"] = Value::Null;
    for (answer, reason) in
        [(marked, Skip::CacheMarker), (failed, Skip::ErrorResult), (image, Skip::NotText), (empty, Skip::NotText)]
    {
        let ran = run_chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), answer], DROP);
        assert_eq!(ran.outcome, Outcome::Untouched(Skip::NothingEligible));
        assert_eq!(ran.report.pairs_skipped[&reason], 1, "{reason}");
    }
    let system = json!({"role": "developer", "content": "New rules."});
    for middle in [
        [system.clone(), assistant(Value::Null, &[call("a")]), result("a")],
        [assistant(Value::Null, &[call("a")]), result("a"), system],
    ] {
        assert_eq!(run_chat("gpt-4o", &middle, DROP).report.pairs_skipped[&Skip::SystemBeside], 1);
    }
}

#[test]
fn the_first_speaker_stays_the_first() {
    let mut body = chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), result("a")]);
    body["messages"].as_array_mut().unwrap().remove(0);
    assert_eq!(run_with(json!({}), "/v1/chat/completions", &body, DROP).report.truncated, 1);
}

#[test]
fn truncation_keeps_a_visible_head_and_takes_later_parts_away() {
    let mut parts = result("a");
    parts["content"] = json!([
        {"type": "text", "text": "\n \t"}, {"type": "text", "text": "0123456789"}, {"type": "text", "text": "gone"},
    ]);
    let left = messages(&run_chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), parts], SHORTEN));
    assert_eq!(left[2]["content"], json!([{"type": "text", "text": "\n \t"}, {"type": "text", "text": "0123456"}]));
    let mut blank_start = result("a");
    blank_start["content"] = json!(format!("{}x and more", " ".repeat(30)));
    let left = messages(&run_chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), blank_start], SHORTEN));
    assert_eq!(left[2]["content"], json!(format!("{}x", " ".repeat(30))));
    let ran = run_chat(
        "gpt-4o",
        &[assistant(Value::Null, &[call("a")]), json!({"role": "tool", "tool_call_id": "a", "content": "short"})],
        SHORTEN,
    );
    assert_eq!(ran.outcome, Outcome::Untouched(Skip::NothingEligible));
    assert_eq!(ran.report.pairs_skipped[&Skip::AlreadyShort], 1);
}

#[test]
fn the_newest_messages_stay_and_six_of_them_are_three_round_trips() {
    let rounds: Vec<Value> = (0..6)
        .flat_map(|n| {
            let ids = [format!("a{n}"), format!("b{n}")];
            [assistant(Value::Null, &[call(&ids[0]), call(&ids[1])]), result(&ids[0]), result(&ids[1])]
        })
        .collect();
    let ran = run_with(json!({"preserve_recent": 6}), "/v1/chat/completions", &chat("gpt-4o", &rounds), DROP);
    // At the last boundary, the final answer, six messages reach back over three groups.
    assert_eq!((ran.report.dropped, ran.report.pairs_skipped[&Skip::Recent]), (6, 6));
}

// ------------------------------------------------------------------------------------------------ Anthropic

fn use_block(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": "a.rs"}})
}

fn result_block(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": format!("{id} result, rather long")})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn turn(role: &str, blocks: &[Value]) -> Value {
    json!({"role": role, "content": blocks})
}

fn claude(model: &str, middle: &[Value]) -> Value {
    let mut body = chat(model, middle);
    body["max_tokens"] = json!(5);
    body
}

fn run_claude(model: &str, middle: &[Value]) -> Ran {
    run_with(json!({}), "/v1/messages", &claude(model, middle), DROP)
}

const SONNET: &str = "claude-sonnet-4-5";

#[test]
fn blocks_leave_and_emptied_messages_with_them() {
    let pure = [turn("assistant", &[use_block("a")]), turn("user", &[result_block("a")])];
    assert_eq!(messages(&run_claude(SONNET, &pure)).len(), 3);
    let blank = [turn("assistant", &[text("\n\n"), use_block("a")]), turn("user", &[result_block("a")])];
    assert_eq!(messages(&run_claude(SONNET, &blank)).len(), 3, "a blank block is refused when it stands alone");
    let split = [
        turn("assistant", &[use_block("a"), use_block("b")]),
        turn("user", &[result_block("a")]),
        turn("user", &[result_block("b")]),
    ];
    assert_eq!(messages(&run_claude(SONNET, &split)).len(), 3, "neighbours of one role are one turn");
}

#[test]
fn prose_beside_calls_and_results_stays_for_claude_and_holds_the_pair_elsewhere() {
    let middle =
        [turn("assistant", &[text("I look."), use_block("a")]), turn("user", &[result_block("a"), text("And hurry.")])];
    let left = messages(&run_claude(SONNET, &middle));
    assert_eq!(left[1], turn("assistant", &[text("I look.")]));
    assert_eq!(left[2], turn("user", &[text("And hurry.")]));
    assert_eq!(run_claude("kimi-k2", &middle).report.truncated, 1);
}

#[test]
fn prose_does_not_stay_where_it_would_join_a_turn_that_thinks() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let middle = [
        turn("assistant", &[text("I look."), use_block("a")]),
        turn("user", &[result_block("a")]),
        turn("assistant", &[thinking, use_block("b")]),
        turn("user", &[result_block("b")]),
    ];
    let ran = run_claude(SONNET, &middle);
    assert_eq!((ran.report.dropped, ran.report.truncated), (0, 2));
}

#[test]
fn nor_where_the_turn_between_them_may_leave_too() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let middle = [
        turn("assistant", &[text("I look."), use_block("a")]),
        turn("user", &[result_block("a")]),
        turn("assistant", &[use_block("b")]),
        turn("user", &[result_block("b")]),
        turn("assistant", &[thinking, text("So.")]),
        turn("user", &[text("And?")]),
    ];
    let ran = run_claude(SONNET, &middle);
    assert_eq!((ran.report.dropped, ran.report.truncated), (1, 1));
    assert_eq!(messages(&ran)[1]["content"][1]["type"], "tool_use", "the prose keeps its call");
}

#[test]
fn a_blank_block_with_a_marker_holds_its_group_to_truncation() {
    let blank = json!({"type": "text", "text": "\n\n", "cache_control": {"type": "ephemeral"}});
    for model in [SONNET, "kimi-k2"] {
        let middle = [turn("assistant", &[blank.clone(), use_block("a")]), turn("user", &[result_block("a")])];
        assert_eq!(run_claude(model, &middle).report.truncated, 1, "{model}");
        let middle = [turn("assistant", &[use_block("a")]), turn("user", &[result_block("a"), blank.clone()])];
        assert_eq!(run_claude(model, &middle).report.truncated, 1, "{model}");
    }
    let part = json!([{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(run_chat("gpt-4o", &[assistant(part, &[call("a")]), result("a")], DROP).report.truncated, 1);
}

#[test]
fn reasoning_inside_content_parts_is_reasoning() {
    let part = json!([{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]);
    let middle = [
        assistant(part, &[call("a")]),
        result("a"),
        assistant(json!("So."), &[]),
        json!({"role": "user", "content": "And?"}),
    ];
    assert_eq!(run_chat("gpt-4o", &middle, DROP).report.truncated, 1);
    let without = json!({"bound_models": "without_reasoning"});
    let ran = run_with(without, "/v1/chat/completions", &chat("claude-fable-5-1", &middle), DROP);
    assert_eq!(ran.outcome, Outcome::Untouched(Skip::BoundModel));
}

#[test]
fn even_a_blank_entry_between_results_breaks_their_pairing() {
    let two = assistant(Value::Null, &[call("a"), call("b")]);
    let middle = [two, result("a"), json!({"role": "user", "content": ""}), result("b")];
    assert_eq!(run_chat("gpt-4o", &middle, DROP).outcome, Outcome::Untouched(Skip::BrokenPairing));
}

#[test]
fn thinking_holds_its_group_to_truncation_and_the_running_loop_whole() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let middle = [turn("assistant", &[thinking, use_block("a")]), turn("user", &[result_block("a")])];
    let current = run_claude(SONNET, &middle);
    assert_eq!(current.report.truncated, 1, "a prompt stands behind it");
    let mut body = claude(SONNET, &middle);
    body["messages"].as_array_mut().unwrap().pop();
    let more = [turn("assistant", &[use_block("b")]), turn("user", &[result_block("b")])];
    let list = body["messages"].as_array_mut().unwrap();
    list.pop();
    list.extend(more);
    let running = run_with(json!({}), "/v1/messages", &body, DROP);
    assert_eq!((running.report.dropped, running.report.truncated), (0, 1), "the assistant's part stays whole");
}

#[test]
fn server_tools_and_unknown_blocks_hold_their_group_to_truncation() {
    for block in [
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        json!({"type": "mcp_tool_use", "id": "s", "name": "x", "input": {}}),
        json!({"type": "brand_new"}),
    ] {
        let middle = [turn("assistant", &[block, use_block("a")]), turn("user", &[result_block("a")])];
        let ran = run_claude(SONNET, &middle);
        assert_eq!((ran.report.dropped, ran.report.truncated), (0, 1));
    }
    let mut called = use_block("a");
    called["caller"] = json!({"type": "code_execution_20250825", "tool_id": "x"});
    let ran = run_claude(SONNET, &[turn("assistant", &[called]), turn("user", &[result_block("a")])]);
    assert_eq!(ran.report.pairs_skipped[&Skip::UnsureGroup], 1);
}

#[test]
fn results_behind_prose_and_results_of_nobody_leave_the_request_alone() {
    let middle = [turn("assistant", &[use_block("a")]), turn("user", &[text("Here:"), result_block("a")])];
    assert_eq!(run_claude(SONNET, &middle).outcome, Outcome::Untouched(Skip::BrokenPairing));
    let middle = [turn("assistant", &[use_block("a")]), turn("user", &[result_block("z")])];
    assert_eq!(run_claude(SONNET, &middle).outcome, Outcome::Untouched(Skip::BrokenPairing));
}

#[test]
fn what_the_provider_compacted_is_left_to_it() {
    let middle = [
        turn("assistant", &[use_block("a")]),
        turn("user", &[result_block("a")]),
        turn("assistant", &[json!({"type": "compaction", "content": "So far ..."}), use_block("b")]),
        turn("user", &[result_block("b")]),
        turn("assistant", &[use_block("c")]),
        turn("user", &[result_block("c")]),
    ];
    let ran = run_claude(SONNET, &middle);
    assert_eq!((ran.report.dropped, ran.report.judged), (1, 1), "only what stands behind its compaction");
}

#[test]
fn requests_that_must_arrive_exactly_as_sent_do() {
    let pure = [turn("assistant", &[use_block("a")]), turn("user", &[result_block("a")])];
    let with = |member: &str, value: Value| {
        let mut body = claude(SONNET, &pure);
        body[member] = value;
        run_with(json!({}), "/v1/messages", &body, DROP).outcome
    };
    let edits = |kind: &str| json!({"edits": [{"type": kind}]});
    let untouched = Outcome::Untouched(Skip::ProviderEdits);
    assert_eq!(with("context_management", edits("clear_tool_uses_20250919")), untouched);
    assert_eq!(with("context_management", edits("compact_20260112")), untouched);
    assert_eq!(with("context_management", json!({})), untouched, "an unknown shape is doubt");
    assert_eq!(with("context_management", edits("clear_thinking_20251015")), Outcome::Reduced);
    assert_eq!(with("fallback_credit_token", json!("x")), untouched);
}

#[test]
fn models_that_check_their_prefix_are_left_alone_unless_the_request_allows_it() {
    let pure = [turn("assistant", &[use_block("a")]), turn("user", &[result_block("a")])];
    let bound = Outcome::Untouched(Skip::BoundModel);
    assert_eq!(run_claude("claude-opus-5-5", &pure).outcome, bound);
    assert_eq!(run_claude("claude-opus-5-20260901", &pure).outcome, Outcome::Reduced);
    let mut allowed = claude("claude-fable-5-1", &pure);
    allowed["thinking"] = json!({"type": "enabled", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    assert_eq!(run_with(json!({}), "/v1/messages", &allowed, DROP).outcome, bound);
    let opted_in = json!({"allow_drop_block": true});
    assert_eq!(run_with(opted_in, "/v1/messages", &allowed, DROP).outcome, Outcome::Reduced);
    let without = json!({"bound_models": "without_reasoning"});
    let plain = claude("claude-opus-5-5", &pure);
    assert_eq!(run_with(without.clone(), "/v1/messages", &plain, DROP).outcome, Outcome::Reduced);
    assert_eq!(run_with(without, "/v1/messages", &allowed, DROP).outcome, bound);
}

#[test]
fn a_body_that_does_not_confirm_its_path_is_left_alone() {
    let body = claude(SONNET, &[turn("assistant", &[use_block("a")]), turn("user", &[result_block("a")])]);
    let ran = run_with(json!({}), "/v1/chat/completions", &body, DROP);
    assert_eq!(ran.outcome, Outcome::Untouched(Skip::DialectUnconfirmed));
    let body = chat("gpt-4o", &[assistant(Value::Null, &[call("a")]), result("a")]);
    let ran = run_with(json!({}), "/v1/messages", &body, DROP);
    assert_eq!(ran.outcome, Outcome::Untouched(Skip::DialectUnconfirmed));
    let mut both = chat("gpt-4o", &[]);
    both["contents"] = json!([]);
    let ran = run_with(json!({}), "/v1/chat/completions", &both, DROP);
    assert_eq!(ran.outcome, Outcome::Untouched(Skip::DialectUnconfirmed));
    let strange = json!({"model": "x", "messages": [{"role": "critic", "content": "x"}]});
    assert_eq!(run_with(json!({}), "/v1/messages", &strange, DROP).outcome, Outcome::Untouched(Skip::UnknownShape));
}

// ------------------------------------------------------------------------------------------------ law table

/// The level that taking out this call needs, told from the body alone, and the rule that allows it.
fn level_of(body: &Value, marker: &str) -> Option<(&'static str, &'static str)> {
    let messages = body["messages"].as_array()?;
    let carrier = messages.iter().find(|m| m["role"] == "assistant" && m.to_string().contains(marker))?;
    let calls = carrier["tool_calls"].as_array().map_or(0, Vec::len);
    let blocks = carrier["content"].as_array().into_iter().flatten();
    let calls = calls + blocks.clone().filter(|b| b["type"] == "tool_use").count();
    let said = carrier["content"].as_str().is_some_and(|t| !t.trim().is_empty())
        || blocks.clone().any(|b| b["type"] == "text");
    Some(match (said, calls) {
        (false, 1) => ("L2", "wire-formats 8.1, pure group"),
        (false, _) => ("L2/L3", "wire-formats 8.1, parallel group"),
        (true, _) => ("L4", "design 5, prose stays at bare gpt and claude models"),
    })
}

#[test]
fn every_pair_that_must_go_has_a_rule_that_lets_it() {
    if !cases::available() {
        eprintln!("skipped: the cases are not beside this repository (../shared/cases)");
        return;
    }
    for case in cases::load_all().expect("the cases load") {
        let format = case.expect["format"].as_str().unwrap_or_default();
        if !["openai_chat", "anthropic"].contains(&format) || case.outcome() != "prune" {
            continue;
        }
        let body: Value = serde_json::from_slice(&case.bodies[0]).expect("a case that is to be pruned parses");
        for pair in case.expect["pairs"].as_array().into_iter().flatten().filter(|p| p["rule"] == "must_go") {
            let marker = pair["call"].as_str().unwrap_or_default();
            let (level, rule) =
                level_of(&body, marker).unwrap_or_else(|| panic!("{}: no carrier of {marker}", case.slug));
            let model = body["model"].as_str().unwrap_or_default();
            println!("{:42} {marker:10} {level:6} {rule}", case.slug);
            let l4_allowed = model.starts_with("claude-") || model.starts_with("gpt-4");
            assert!(level != "L4" || l4_allowed, "{}: no rule lets {marker} leave {model}", case.slug);
        }
    }
}

#[test]
fn a_marker_on_one_pair_keeps_a_signed_group_whole() {
    let mut signed = call("a");
    signed["extra_content"] = json!({"google": {"thought_signature": "x"}});
    let marked = json!({"type": "text", "text": "b result, rather long", "cache_control": {"type": "ephemeral"}});
    let middle = [
        assistant(Value::Null, &[signed, call("b")]),
        json!({"role": "tool", "tool_call_id": "a", "content": result("a")}),
        json!({"role": "tool", "tool_call_id": "b", "content": [marked]}),
    ];
    let ran = run_chat("gpt-4o", &middle, DROP);
    let left = messages(&ran);
    assert_eq!(left[1]["tool_calls"].as_array().map(Vec::len), Some(2), "{left:?}");
    assert_eq!(left[3], middle[2], "what is marked stays as it is");
}

#[test]
fn a_marker_that_moves_changes_no_verdict_and_no_name() {
    let body = |marked: bool| {
        let mut middle = vec![];
        for n in 0..4 {
            middle.push(assistant(Value::Null, &[call(&format!("c{n}"))]));
            let mut text = json!({"type": "text", "text": format!("c{n} result, rather long")});
            if marked && n == 1 {
                text["cache_control"] = json!({"type": "ephemeral"});
            }
            let failed = if n == 1 { json!(true) } else { Value::Null };
            middle
                .push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": [text], "is_error": failed}));
        }
        chat("gpt-4o", &middle)
    };
    let [plain, marked] = [false, true].map(|marked| run_with(json!({}), "/v1/chat/completions", &body(marked), DROP));
    assert_eq!(plain.asked, marked.asked, "the same questions, about the same pairs");
}
