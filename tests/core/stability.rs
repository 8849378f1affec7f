//! One conversation, sent again and again by a client that moves everything it may, through workers that forget at
//! random: what was removed stays removed, and all workers send the same bytes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::support::conversations::{self, Conversation};
use crate::support::exchange::{self, Shared};
use crate::support::invariants;
use context_compaction::exchange::Outcome;
use context_compaction::fault::Fault;
use context_compaction::policy::Policy;
use context_compaction::skip::Skip;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

/// Answers by nothing but the bytes of the request.
fn by_hash(request: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut hasher = DefaultHasher::new();
    request.hash(&mut hasher);
    let mut rng = StdRng::seed_from_u64(hasher.finish());
    let parsed: Value = serde_json::from_slice(request).expect("an engine request is JSON");
    Ok(exchange::answer(&parsed, &mut |_, _| match rng.random_range(0..3) {
        0 => (0.0, 0.0),
        1 => (1.0, 0.0),
        _ => (1.0, 1.0),
    }))
}

// ------------------------------------------------------------------------------------------------ a hostile client

/// Changes what a client may change between turns without changing the conversation. One that strips old reasoning does
/// so on every turn.
fn moved(body: &[u8], strip: bool, rng: &mut StdRng) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(body).expect("a rendered body is JSON");
    let salt = rng.random::<u32>();
    let wrap = rng.random_bool(0.5);
    if let Some(tools) = body["tools"].as_array_mut() {
        tools.reverse();
    }
    let Some(messages) = body["messages"].as_array_mut() else { return body.to_string().into_bytes() };
    let last_prompt = messages.iter().rposition(is_prompt).unwrap_or(0);
    let count = messages.len();
    for (index, message) in messages.iter_mut().enumerate() {
        let old = strip && index < last_prompt;
        rename_ids(message, salt);
        if wrap {
            wrap_text(message);
        }
        for block in message["content"].as_array_mut().into_iter().flatten() {
            if let Some(block) = block.as_object_mut() {
                block.remove("cache_control");
            }
        }
        if let Some(blocks) = message["content"].as_array_mut().filter(|_| old) {
            let has_more = blocks.iter().any(|b| b["type"] != "thinking");
            blocks.retain(|b| b["type"] != "thinking" || !has_more);
        }
        // The newest two of the user's messages, as clients of explicit caches do.
        if index + 3 >= count && message["role"] == "user" {
            if index + 1 == count {
                wrap_text(message);
            }
            if let Some(block) = message["content"].as_array_mut().and_then(|b| b.last_mut()).filter(|b| b.is_object())
            {
                block["cache_control"] = json!({"type": "ephemeral"});
            }
        }
    }
    body.to_string().into_bytes()
}

fn is_prompt(message: &Value) -> bool {
    let is_text = |content: &Value| {
        content.is_string() || content.as_array().is_some_and(|blocks| blocks.iter().any(|b| b["type"] == "text"))
    };
    message["role"] == "user" && is_text(&message["content"])
}

fn rename_ids(message: &mut Value, salt: u32) {
    let rename = |id: &mut Value| {
        if let Some(text) = id.as_str() {
            *id = json!(format!("{salt}-{text}"));
        }
    };
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        rename(&mut call["id"]);
    }
    if message["role"] == "tool" {
        rename(&mut message["tool_call_id"]);
    }
    for block in message["content"].as_array_mut().into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_use") => rename(&mut block["id"]),
            Some("tool_result") => rename(&mut block["tool_use_id"]),
            _ => {}
        }
    }
}

/// A text as the one block that means the same.
fn wrap_text(message: &mut Value) {
    let wrap = |content: &mut Value| {
        if let Some(text) = content.as_str().filter(|text| !text.is_empty()) {
            *content = json!([{"type": "text", "text": text}]);
        }
    };
    if message["role"] == "user" || message["role"] == "tool" {
        wrap(&mut message["content"]);
    }
    for block in message["content"].as_array_mut().into_iter().flatten() {
        if block["type"] == "tool_result" {
            wrap(&mut block["content"]);
        }
    }
}

/// What a client cannot move: the messages without ids, markers and reasoning, texts in one form.
fn canonical(body: &[u8]) -> Vec<Value> {
    let mut body: Value = serde_json::from_slice(body).expect("what leaves is JSON");
    let mut messages: Vec<Value> = body["messages"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for message in &mut messages {
        wrap_text(message);
        if let Some(message) = message.as_object_mut() {
            message.remove("tool_call_id");
        }
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            call.as_object_mut().map(|call| call.remove("id"));
        }
        if let Some(blocks) = message["content"].as_array_mut() {
            blocks.retain(|block| block["type"] != "thinking");
            for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
                for volatile in ["id", "tool_use_id", "cache_control"] {
                    block.remove(volatile);
                }
            }
        }
    }
    messages
}

/// Batches that are out of what left.
fn batches(ran: &exchange::Ran) -> usize {
    if ran.outcome == Outcome::Reduced { ran.report.batches } else { 0 }
}

#[test]
fn what_a_client_moves_between_turns_moves_no_removal() {
    let policy = exchange::early(json!({}));
    let (mut turns, mut changes, mut stripped) = (0, 0, 0);
    for (conversation, strip) in conversations::served(140).into_iter().flat_map(|c| [(c.clone(), false), (c, true)]) {
        let mut rng = StdRng::seed_from_u64(3);
        let warm = Shared::default();
        let mut before: Option<(Vec<Value>, usize)> = None;
        let mut reasoning = 0;
        for turn in conversation.turns() {
            let body = moved(&conversation.body(turn), strip, &mut rng);
            // Where old reasoning goes the client itself has changed the prefix, and more may leave behind that.
            let left = memchr::memmem::find_iter(&body, b"\"type\":\"thinking\"").count();
            let goes = left < std::mem::replace(&mut reasoning, left);
            stripped += usize::from(goes);
            let ran = run(&warm, 7, &policy, &conversation, &body);
            assert_eq!(invariants::complaints(&body, &ran.outgoing), Vec::<String>::new(), "{}", conversation.name);
            let sent = canonical(&ran.outgoing);
            let retry = run(&warm, 7, &policy, &conversation, &body);
            assert!(retry.outgoing == ran.outgoing, "{} at {turn}: a retry sends other bytes", conversation.name);
            assert_eq!(retry.asked.len(), 0, "{} at {turn}: a retry is asked again", conversation.name);
            if turns % 4 == 0 {
                // It asks again about boundaries whose evidence the client has moved since, and gets the same answers.
                let cold = run(&Shared::default(), 9, &policy, &conversation, &body);
                assert!(
                    cold.outgoing == ran.outgoing,
                    "{} at {turn}: a cold worker sends other bytes",
                    conversation.name
                );
            }
            if let Some((earlier, count)) = before.filter(|_| !goes) {
                let same = sent.len() >= earlier.len() && sent[..earlier.len()] == earlier[..];
                assert!(same || batches(&ran) > count, "{} at {turn}: changed without a batch", conversation.name);
                assert!(batches(&ran) >= count, "{} at {turn}: a batch came back", conversation.name);
                changes += usize::from(!same);
            }
            before = Some((sent, batches(&ran)));
            turns += 1;
        }
    }
    println!("{turns} turns, {changes} changes of the prefix, each by a batch; reasoning went {stripped} times");
    let enough = turns > 300 && changes > 25 && stripped > 3;
    assert!(!conversations::available() || enough, "{turns} turns, {changes} changes, {stripped} stripped");
}

fn run(shared: &Shared, seed: u64, policy: &Rc<Policy>, conversation: &Conversation, body: &[u8]) -> exchange::Ran {
    exchange::run_engine((shared, seed), policy, (conversation.path(), &[]), body, &mut by_hash)
}

#[test]
fn replicas_that_forget_at_random_send_the_same_bytes() {
    let policy = exchange::early(json!({}));
    let mut compared = 0;
    for conversation in conversations::served(140) {
        let mut rng = StdRng::seed_from_u64(11);
        let replicas = [(Shared::default(), 1), (Shared::default(), 2)];
        for turn in conversation.turns() {
            let body = conversation.body(turn);
            for (shared, _) in &replicas {
                shared.0.borrow_mut().retain(|_, _| rng.random_bool(0.7));
            }
            let sent: Vec<Vec<u8>> = replicas
                .iter()
                .map(|(shared, seed)| run(shared, *seed, &policy, &conversation, &body).outgoing)
                .collect();
            assert!(sent[0] == sent[1], "{} at {turn}", conversation.name);
            compared += 1;
        }
    }
    assert!(!conversations::available() || compared > 300, "{compared} turns compared");
}

// ---------------------------------------------------------------------------------------------- any conversation

/// What happens in one turn of a conversation: calls with the sizes of their results, what the model says and thinks
/// beside them, and whether the user speaks after it.
#[derive(Debug, Clone)]
struct Turn {
    results: Vec<usize>,
    says: bool,
    user: bool,
}

fn any_turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (prop::collection::vec(0usize..6000, 0..4), any::<bool>(), prop::bool::weighted(0.2));
    let turn = turn.prop_map(|(results, says, user)| Turn { says: says || results.is_empty(), user, results });
    prop::collection::vec(turn, 1..24)
}

/// The messages after each turn. `thinks` puts reasoning into every reply.
fn rendered(turns: &[Turn], anthropic: bool, thinks: bool) -> Vec<Vec<Value>> {
    let mut messages = vec![json!({"role": "user", "content": "Go."})];
    let mut requests = vec![messages.clone()];
    for (number, turn) in turns.iter().enumerate() {
        let calls =
            turn.results.iter().enumerate().map(|(n, size)| (format!("t{number}_{n}"), "some text ".repeat(size / 10)));
        let arguments = json!({"path": format!("src/f{number}.rs")});
        let mut answers = Vec::new();
        if anthropic {
            let mut blocks = Vec::new();
            blocks.extend(thinks.then(|| json!({"type": "thinking", "thinking": "Hm.", "signature": "x"})));
            blocks.extend(turn.says.then(|| json!({"type": "text", "text": "Let me see."})));
            for (id, text) in calls {
                blocks.push(json!({"type": "tool_use", "id": id, "name": "read", "input": arguments}));
                answers.push(json!({"type": "tool_result", "tool_use_id": id, "content": text}));
            }
            messages.push(json!({"role": "assistant", "content": blocks}));
            if turn.user || answers.is_empty() {
                answers.push(json!({"type": "text", "text": "Go on."}));
            }
            messages.push(json!({"role": "user", "content": answers}));
        } else {
            let mut reply = json!({"role": "assistant", "content": turn.says.then_some("Let me see.")});
            for (id, text) in calls {
                let function = json!({"name": "read", "arguments": arguments.to_string()});
                let call = json!({"id": id, "type": "function", "function": function});
                match reply["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => reply["tool_calls"] = json!([call]),
                }
                answers.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
            if turn.user || answers.is_empty() {
                answers.push(json!({"role": "user", "content": "Go on."}));
            }
            messages.push(reply);
            messages.extend(answers);
        }
        requests.push(messages.clone());
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn any_conversation_grows_by_what_is_new_but_where_a_batch_leaves(
        turns in any_turns(), anthropic: bool, thinks: bool, gate: bool, pairs in 1usize..4, recent in 0usize..8,
    ) {
        let policy = exchange::early(json!({
            "threshold_tokens": 1000, "cost_gate": gate, "epoch_pairs": pairs, "preserve_recent": recent,
            "floor_bytes": 500, "min_reduction": 0.05,
        }));
        let (path, model) = if anthropic { ("/v1/messages", "claude-sonnet-4-5") } else { ("/v1/chat/completions", "gpt-4o") };
        let warm = Shared::default();
        let mut before: Option<(Vec<Value>, usize)> = None;
        for messages in rendered(&turns, anthropic, thinks) {
            let body = json!({"model": model, "max_tokens": 9, "messages": messages}).to_string().into_bytes();
            let once = |shared: &Shared, seed| {
                exchange::run_engine((shared, seed), &policy, (path, &[]), &body, &mut by_hash)
            };
            let ran = once(&warm, 1);
            prop_assert_eq!(invariants::complaints(&body, &ran.outgoing), Vec::<String>::new());
            prop_assert!(ran.outcome != Outcome::Untouched(Skip::SelfCheck));
            prop_assert!(once(&warm, 1).outgoing == ran.outgoing, "sent again");
            prop_assert!(once(&Shared::default(), 2).outgoing == ran.outgoing, "by another replica");
            let sent: Value = serde_json::from_slice(&ran.outgoing).expect("JSON");
            let sent = sent["messages"].as_array().expect("messages").clone();
            if let Some((earlier, count)) = before {
                let same = sent.len() >= earlier.len() && sent[..earlier.len()] == earlier[..];
                prop_assert!(same == (batches(&ran) == count), "{} batches after {count}", batches(&ran));
                prop_assert!(batches(&ran) >= count);
            }
            before = Some((sent, batches(&ran)));
        }
    }
}

// ------------------------------------------------------------------------------------ who is left alone altogether

/// Turns of a conversation in which a file is read on each.
fn reads(number: usize, steps: usize) -> Vec<Vec<u8>> {
    let mut messages = vec![json!({"role": "user", "content": format!("Read all files of task {number}.")})];
    let mut bodies = Vec::new();
    for step in 0..steps {
        let function = json!({"name": "read", "arguments": json!({"path": format!("f{step}.rs")}).to_string()});
        let call = json!({"id": format!("c{step}"), "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("c{step}"), "content": format!("file {step} ").repeat(500)}),
        );
        bodies.push(json!({"model": "gpt-4o", "messages": messages}).to_string().into_bytes());
    }
    bodies
}

fn send(shared: &Shared, seed: u64, policy: &Rc<Policy>, body: &[u8]) -> Outcome {
    let request = ("/v1/chat/completions", &[][..]);
    exchange::run_engine((shared, seed), policy, request, body, &mut exchange::drop_all).outcome
}

#[test]
fn every_replica_leaves_the_same_share_of_conversations_alone() {
    let policy = exchange::early(json!({"holdout": 0.3}));
    let mut held = 0;
    for number in 0..200 {
        let body = reads(number, 16).pop().expect("turns");
        let outcomes = [1, 2].map(|seed| send(&Shared::default(), seed, &policy, &body));
        assert_eq!(outcomes[0], outcomes[1], "{number}");
        held += u32::from(outcomes[0] == Outcome::Untouched(Skip::Holdout));
        // On every turn alike.
        let earlier: Vec<Outcome> = reads(number, 16).iter().map(|b| send(&Shared::default(), 3, &policy, b)).collect();
        let alike = |outcome: &Outcome| match outcome {
            Outcome::Untouched(Skip::Holdout) => outcomes[0] == *outcome,
            Outcome::Reduced => outcomes[0] == Outcome::Reduced,
            Outcome::Untouched(_) => true,
        };
        assert!(number > 20 || earlier.iter().all(alike), "{number}: {earlier:?}");
    }
    assert!((40..=80).contains(&held), "{held} of 200 are held out at a share of 0.3");
}

#[test]
fn a_worker_that_knows_nothing_learns_a_very_long_conversation_in_parts() {
    let policy = exchange::early(json!({"epoch_pairs": 1}));
    let (cold, body) = (Shared::default(), reads(1, 90).pop().expect("turns"));
    assert_eq!(send(&cold, 1, &policy, &body), Outcome::Untouched(Skip::AskedInPart));
    assert_eq!(send(&cold, 1, &policy, &body), Outcome::Reduced);
    let keeps = exchange::early(json!({"epoch_pairs": 1, "on_engine_failure": "keep_decided"}));
    assert_eq!(send(&Shared::default(), 1, &keeps, &body), Outcome::Reduced, "what it knows by then");
}

#[test]
fn a_conversation_that_was_long_when_it_was_first_seen_may_be_left_alone() {
    let policy = exchange::early(json!({"new_conversations_only": true}));
    let turns = reads(1, 16);
    let first = turns
        .iter()
        .position(|body| send(&Shared::default(), 1, &policy, body) == Outcome::Reduced)
        .expect("the turn at which the first boundary is new");
    let seen_from_the_start = Shared::default();
    for (turn, body) in turns.iter().enumerate() {
        let outcome = send(&seen_from_the_start, 1, &policy, body);
        assert_eq!(outcome == Outcome::Reduced, turn >= first, "turn {turn}: {outcome}");
    }
    let seen_late = Shared::default();
    for body in &turns[first + 1..] {
        assert_eq!(send(&seen_late, 1, &policy, body), Outcome::Untouched(Skip::SeenTooLate));
    }
}

#[test]
fn no_more_than_the_share_and_the_number_of_batches_that_are_allowed_leave() {
    let last = reads(1, 16).pop().expect("turns");
    for (changes, batches, most) in [
        (json!({"max_prefix_changes": 1, "min_reduction": 0}), 1, 1.0),
        (json!({"max_prefix_changes": 2, "min_reduction": 0}), 2, 1.0),
        (json!({"max_removed_share": 0.6, "min_reduction": 0}), 9, 0.6),
        (json!({"max_removed_share": 0}), 0, 0.0),
    ] {
        let policy = exchange::early(changes.clone());
        let request = ("/v1/chat/completions", &[][..]);
        let ran = exchange::run_engine((&Shared::default(), 1), &policy, request, &last, &mut exchange::drop_all);
        assert!(self::batches(&ran) <= batches, "{changes}: {} batches", self::batches(&ran));
        let share = 1.0 - ran.outgoing.len() as f64 / last.len() as f64;
        assert!(share <= most && (most == 0.0 || share > 0.0), "{changes}: {share}");
    }
}

// -------------------------------------------------------------------------------------- a provider with a memory

/// A provider that binds each reasoning block to the history that it came from, as the newest models do, and refuses a
/// history in which one stands behind anything else.
#[derive(Default)]
struct Binding {
    /// Signature of a block, and the history that it was produced for.
    blocks: Vec<(String, Vec<Value>)>,
}

impl Binding {
    fn is_bound(model: &str) -> bool {
        context_compaction::dialect::reasoning_is_bound(model)
    }

    /// Takes a request; says what is wrong, or gives the reply's reasoning block if the model thinks.
    fn take(&mut self, body: &[u8]) -> Result<Option<Value>, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let messages = body["messages"].as_array().ok_or("no messages")?;
        let model = body["model"].as_str().unwrap_or_default();
        for (index, message) in messages.iter().enumerate().filter(|_| Self::is_bound(model)) {
            for block in message["content"].as_array().into_iter().flatten().filter(|b| b["type"] == "thinking") {
                let signature = block["signature"].as_str().unwrap_or_default();
                let known = self.blocks.iter().find(|(known, _)| known == signature).ok_or("unknown signature")?;
                let unbound = !signature.starts_with("bound");
                if !unbound && messages[..index] != known.1 {
                    return Err(format!("messages.{index}: Invalid `signature` in `thinking` block"));
                }
            }
        }
        let thinks = body["thinking"]["type"] == "enabled";
        let kind = if Self::is_bound(model) { "bound" } else { "free" };
        let signature = format!("{kind}-{}", self.blocks.len());
        self.blocks.push((signature.clone(), messages.clone()));
        Ok(thinks.then(|| json!({"type": "thinking", "thinking": "Hm.", "signature": signature})))
    }
}

/// An agent that reads file after file, with a model and settings that change on the way.
#[test]
fn a_provider_that_binds_reasoning_to_its_prefix_refuses_nothing() {
    let removing =
        [json!({}), json!({"on_engine_failure": "keep_decided"}), json!({"bound_models": "without_reasoning"})];
    let (mut requests, mut reduced, mut stood_down) = (0, 0, 0);
    for (seed, changes) in removing.into_iter().cycle().take(60).enumerate() {
        let on = exchange::early(changes.clone());
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let (mut provider, shared) = (Binding::default(), Shared::default());
        let mut messages = vec![json!({"role": "user", "content": "Read all files."})];
        let (mut model, mut thinks, mut enabled, mut failing) =
            ("claude-sonnet-4-5", rng.random_bool(0.5), true, false);
        for step in 0..40 {
            if rng.random_bool(0.1) {
                model = if model == "claude-sonnet-4-5" { "claude-opus-5-5" } else { "claude-sonnet-4-5" };
            }
            thinks ^= rng.random_bool(0.05);
            enabled ^= rng.random_bool(0.1);
            failing ^= rng.random_bool(0.3);
            let thinking =
                if thinks { json!({"type": "enabled", "budget_tokens": 1024}) } else { json!({"type": "disabled"}) };
            let body = json!({"model": model, "max_tokens": 10, "thinking": thinking, "messages": messages});
            let body = body.to_string().into_bytes();
            let mut engine = |request: &[u8]| if failing { Err(Fault::Timeout) } else { by_hash(request) };
            let mut sent = body.clone();
            if enabled {
                let ran = exchange::run_engine((&shared, 7), &on, ("/v1/messages", &[]), &body, &mut engine);
                reduced += usize::from(ran.outcome == Outcome::Reduced);
                stood_down += usize::from(ran.outcome == Outcome::Untouched(Skip::BoundModel));
                sent = ran.outgoing;
            }
            requests += 1;
            let thought = provider.take(&sent).unwrap_or_else(|e| panic!("{seed}, step {step}, {changes}: {e}"));
            let id = format!("t{step}");
            let call = json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": format!("f{step}.rs")}});
            let text = format!("file {step} ").repeat(400);
            messages
                .push(json!({"role": "assistant", "content": thought.into_iter().chain([call]).collect::<Vec<_>>()}));
            messages.push(
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}),
            );
        }
    }
    println!("{requests} requests, {reduced} reduced, {stood_down} left alone for their model");
    assert!(reduced > 200 && stood_down > 200, "{requests} requests, {reduced} reduced, {stood_down} stood down");
}
