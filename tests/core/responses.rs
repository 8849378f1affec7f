//! What may leave a Responses request, rule by rule, on small bodies.

use crate::support::{exchange, exchange::Ran, invariants};
use context_compaction::{exchange::Outcome, skip::Skip};
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";
const DROP: exchange::Needed = (0.0, 0.0);
const SHORTEN: exchange::Needed = (1.0, 0.0);

fn prompt(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn says(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "AAAA"})
}

fn call(n: u32) -> Value {
    json!({"type": "function_call", "call_id": format!("c{n}"), "name": "read", "arguments": format!("{{\"path\":\"call-{n}\"}}")})
}

fn output(n: u32) -> Value {
    json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": format!("result-{n} {}", "x".repeat(200))})
}

/// A request whose history goes on after `items`, so that their group is complete.
fn body(model: &str, items: &[Value]) -> Value {
    let mut input = vec![prompt("Go.")];
    input.extend(items.iter().cloned());
    input.extend([says("Done."), prompt("More."), says("Yes."), prompt("Thanks.")]);
    json!({"model": model, "instructions": "Be brief.", "input": input, "store": false})
}

fn run(settings: Value, body: &Value, judge: &mut exchange::Judge<'_>) -> Ran {
    let mut all = json!({
        "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "truncate_head_chars": 10,
    });
    all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let policy = exchange::policy(&exchange::configuration(all));
    let bytes = body.to_string().into_bytes();
    let ran = exchange::run(&policy, PATH, &[], &bytes, judge);
    assert_eq!(invariants::complaints(&bytes, &ran.outgoing), Vec::<String>::new());
    ran
}

fn all(body: &Value, needed: exchange::Needed) -> Ran {
    run(json!({}), body, &mut |_, _| needed)
}

/// The types of what is left between the first prompt and "Done.", outputs with their length.
fn left(ran: &Ran) -> Vec<String> {
    let body: Value = serde_json::from_slice(&ran.outgoing).expect("what leaves is JSON");
    let items = body["input"].as_array().expect("input");
    items[1..items.len() - 4]
        .iter()
        .map(|item| match item["output"].as_str() {
            Some(output) => format!("{} {}", item["type"].as_str().unwrap(), output.len()),
            None => item["type"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[test]
fn a_call_leaves_with_its_output_and_with_the_reasoning_before_it() {
    let one = body("gpt-5.5", &[reasoning("rs"), call(1), output(1)]);
    assert_eq!(left(&all(&one, DROP)), Vec::<String>::new());
    assert_eq!(left(&all(&one, SHORTEN)), ["reasoning", "function_call", "function_call_output 10"]);
    let two =
        body("gpt-5.5", &[reasoning("a"), reasoning("b"), call(1), output(1), reasoning("c"), call(2), output(2)]);
    assert_eq!(left(&all(&two, DROP)), Vec::<String>::new());
    let only = run(json!({}), &two, &mut |name, _| if name == "p1" { DROP } else { (1.0, 1.0) });
    assert_eq!(left(&only), ["reasoning", "function_call", "function_call_output 209"]);
}

#[test]
fn of_parallel_calls_behind_reasoning_all_leave_or_none() {
    let parallel = [reasoning("rs"), call(1), call(2), output(1), output(2)];
    let ran = run(json!({}), &body("gpt-5.5", &parallel), &mut |name, _| if name == "p1" { DROP } else { (1.0, 1.0) });
    let expected =
        ["reasoning", "function_call", "function_call", "function_call_output 10", "function_call_output 209"];
    assert_eq!(left(&ran), expected);
    assert_eq!(left(&all(&body("gpt-5.5", &parallel), DROP)), Vec::<String>::new());
    let without = body("gpt-5.5", &parallel[1..]);
    let ran = run(json!({}), &without, &mut |name, _| if name == "p1" { DROP } else { (1.0, 1.0) });
    assert_eq!(left(&ran), ["function_call", "function_call_output 209"], "without reasoning one may go");
}

#[test]
fn prose_that_reasoning_led_to_keeps_the_group_and_prose_alone_stays_where_the_provider_takes_it() {
    let tied = body("gpt-5.5", &[reasoning("rs"), says("Let me see."), call(1), output(1)]);
    assert_eq!(left(&all(&tied, DROP)), ["reasoning", "message", "function_call", "function_call_output 10"]);
    let free = [says("Let me see."), call(1), output(1)];
    assert_eq!(left(&all(&body("gpt-5.5", &free), DROP)), ["message"]);
    let portable = run(json!({"removal": "portable"}), &body("gpt-5.5", &free), &mut |_, _| DROP);
    assert_eq!(left(&portable), ["message", "function_call", "function_call_output 10"]);
    assert_eq!(left(&all(&body("deepseek-v4", &free), DROP)), ["message", "function_call", "function_call_output 10"]);
}

#[test]
fn newer_models_with_reasoning_stand_down_and_without_it_do_not() {
    let with = body("gpt-5.6-sol", &[reasoning("rs"), call(1), output(1)]);
    assert_eq!(all(&with, DROP).outcome, Outcome::Untouched(Skip::BoundModel));
    let waived = run(json!({"bound_models": "without_reasoning", "allow_drop_block": true}), &with, &mut |_, _| DROP);
    assert_eq!(waived.outcome, Outcome::Untouched(Skip::BoundModel));
    assert_eq!(left(&all(&body("gpt-5.6-sol", &[call(1), output(1)]), DROP)), Vec::<String>::new());
}

#[test]
fn a_history_on_the_providers_side_stands_down() {
    for (name, value) in [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!({"id": "c"})),
        ("prompt", json!({"id": "p"})),
    ] {
        let mut body = body("gpt-5.5", &[call(1), output(1)]);
        body[name] = value;
        assert_eq!(all(&body, DROP).outcome, Outcome::Untouched(Skip::ServerState), "{name}");
        body[name] = Value::Null;
        assert_eq!(all(&body, DROP).outcome, Outcome::Reduced, "{name}: null says nothing");
    }
    let reference = body("gpt-5.5", &[json!({"type": "item_reference", "id": "msg_1"}), call(1), output(1)]);
    assert_eq!(all(&reference, DROP).outcome, Outcome::Untouched(Skip::ServerState));
    let text = json!({"model": "gpt-5.5", "input": "Hello"});
    assert_eq!(all(&text, DROP).outcome, Outcome::Untouched(Skip::NothingAgedOut));
}

#[test]
fn broken_pairing_stands_down() {
    for items in [vec![call(1)], vec![output(1)], vec![call(1), output(2)], vec![call(1), prompt("?"), output(1)]] {
        assert_eq!(all(&body("gpt-5.5", &items), DROP).outcome, Outcome::Untouched(Skip::BrokenPairing), "{items:?}");
    }
}

#[test]
fn custom_shell_and_patch_calls_leave_like_functions_and_shells_are_shortened_stream_by_stream() {
    let custom = [
        json!({"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "ls"}),
        json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "x".repeat(100)}),
    ];
    let patch = [
        json!({"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}, "status": "completed"}),
        json!({"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "x".repeat(100)}),
    ];
    let shell = [
        json!({"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"}),
        json!({"type": "shell_call_output", "call_id": "c1", "output": [
            {"stdout": "o".repeat(7), "stderr": "e".repeat(50), "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "p".repeat(50), "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
    ];
    for items in [&custom, &patch, &shell] {
        assert_eq!(left(&all(&body("gpt-5.5", items), DROP)), Vec::<String>::new(), "{items:?}");
    }
    let ran = all(&body("gpt-5.5", &shell), SHORTEN);
    let sent: Value = serde_json::from_slice(&ran.outgoing).unwrap();
    let streams: Vec<&str> = ["/0/stdout", "/0/stderr", "/1/stdout"]
        .map(|at| sent["input"][2]["output"].pointer(at).unwrap().as_str().unwrap())
        .to_vec();
    assert_eq!(streams, ["ooooooo", "eee", ""]);
    let mut failed = patch.clone();
    failed[1]["status"] = json!("failed");
    assert_eq!(all(&body("gpt-5.5", &failed), DROP).outcome, Outcome::Untouched(Skip::NothingEligible));
}

#[test]
fn text_parts_of_an_output_leave_and_images_keep_it_whole() {
    let parts = |parts: Value| [call(1), json!({"type": "function_call_output", "call_id": "c1", "output": parts})];
    let texts = parts(json!([{"type": "input_text", "text": "0123456789"}, {"type": "input_text", "text": "more"}]));
    let ran = all(&body("gpt-5.5", &texts), SHORTEN);
    let sent: Value = serde_json::from_slice(&ran.outgoing).unwrap();
    assert_eq!(sent["input"][2]["output"], json!([{"type": "input_text", "text": "0123456789"}]));
    let image = parts(json!([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:,x"}]));
    assert_eq!(all(&body("gpt-5.5", &image), DROP).outcome, Outcome::Untouched(Skip::NothingEligible));
}

#[test]
fn hosted_and_unknown_items_stay_where_they_are_and_keep_their_group() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let beside = body("gpt-5.5", &[search.clone(), call(1), output(1)]);
    assert_eq!(left(&all(&beside, DROP)), ["web_search_call", "function_call", "function_call_output 10"]);
    let apart = body("gpt-5.5", &[search, says("Found."), prompt("Go on."), call(1), output(1)]);
    assert_eq!(left(&all(&apart, DROP)), ["web_search_call", "message", "message"]);
    let owned = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "caller": {"type": "program"}});
    assert_eq!(all(&body("gpt-5.5", &[owned, output(1)]), DROP).outcome, Outcome::Untouched(Skip::NothingEligible));
    let unfinished =
        json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "status": "incomplete"});
    assert_eq!(
        all(&body("gpt-5.5", &[unfinished, output(1)]), DROP).outcome,
        Outcome::Untouched(Skip::NothingEligible)
    );
}

#[test]
fn only_what_stands_behind_a_compaction_item_leaves_and_requests_that_ask_for_one_stand_down() {
    let compaction = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "AAAA"});
    let items = [call(1), output(1), compaction, says("On."), prompt("Go on."), call(2), output(2)];
    let ran = all(&body("gpt-5.5", &items), DROP);
    let kept = left(&ran);
    assert!(
        kept.contains(&"function_call_output 209".to_owned()) && !kept.contains(&"function_call_output 10".to_owned()),
        "{kept:?}"
    );
    assert!(ran.report.provider_compaction && !String::from_utf8_lossy(&ran.outgoing).contains("result-2"));
    let mut asks = body("gpt-5.5", &[call(1), output(1)]);
    asks["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
    assert_eq!(all(&asks, DROP).outcome, Outcome::Untouched(Skip::ProviderEdits));
    let ignored = run(json!({"provider_compaction": "ignore"}), &asks, &mut |_, _| DROP);
    assert_eq!(ignored.outcome, Outcome::Reduced);
}

#[test]
fn a_body_of_another_format_is_not_read() {
    for body in
        [json!({"model": "m", "messages": []}), json!({"model": "m", "input": [], "messages": []}), json!({"input": 7})]
    {
        assert_eq!(all(&body, DROP).outcome, Outcome::Untouched(Skip::DialectUnconfirmed), "{body}");
    }
    let odd = json!({"model": "m", "input": [{"type": "message", "role": "robot", "content": "x"}]});
    assert_eq!(all(&odd, DROP).outcome, Outcome::Untouched(Skip::UnknownShape));
}
