//! Laws that hold for any JSON, any conversation and any verdict.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::support::{exchange, invariants, provider_rules::broken};
use context_compaction::exchange::Outcome;
use context_compaction::json::{Document, Kind, Span};
use context_compaction::skip::Skip;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A counterexample belongs into a test of its own, with a name; not into a file of seeds.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

// ------------------------------------------------------------------------------------------------ any JSON

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\\\\"{}\\[\\],: a]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn written(value: &Value, pretty: bool) -> String {
    if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
}

fn rebuilt(doc: &Document<'_>, span: &Span) -> Value {
    match doc.kind(span) {
        Kind::Array => doc.elements(span).map(|s| rebuilt(doc, &s)).collect(),
        Kind::Object => {
            let members = doc.members(span).map(|m| {
                let key: String = serde_json::from_slice(doc.slice(&m.key)).unwrap();
                (key, rebuilt(doc, &m.value))
            });
            Value::Object(members.collect())
        }
        _ => serde_json::from_slice(doc.slice(span)).unwrap(),
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn spans_cover_exactly_the_values_that_a_parser_finds(value in any_json(), pretty: bool) {
        let text = written(&value, pretty);
        let doc = Document::parse(text.as_bytes()).unwrap();
        // Not the value itself: a parser may round the last digit of a number.
        prop_assert_eq!(rebuilt(&doc, &doc.root()), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn decoded_characters_are_those_of_a_parser(text: String, escaped: bool) {
        let literal = if escaped {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            format!("\"{units}\"")
        } else {
            Value::from(text.as_str()).to_string()
        };
        let doc = Document::parse(literal.as_bytes()).unwrap();
        prop_assert_eq!(doc.chars(&doc.root()).map(|c| c.value).collect::<String>(), text.as_str());
        let last = doc.chars(&doc.root()).last().map_or(1, |c| c.end);
        prop_assert_eq!(last, literal.len() - 1);
    }

    #[test]
    fn bytes_that_are_no_json_are_refused_and_never_panic(bytes: Vec<u8>) {
        let valid = serde_json::from_slice::<Value>(&bytes).is_ok();
        if let Ok(doc) = Document::parse(&bytes) {
            rebuilt_or_nothing(&doc);
        } else {
            prop_assert!(!valid);
        }
    }
}

fn rebuilt_or_nothing(doc: &Document<'_>) {
    for span in doc.elements(&doc.root()) {
        doc.chars(&span).for_each(drop);
    }
}

// ------------------------------------------------------------------------------------------ any conversation

/// One step of an agent: prose, reasoning, calls, and how the results came back.
#[derive(Debug, Clone)]
struct Round {
    prose: Option<String>,
    reasoning: bool,
    calls: Vec<Tool>,
    reversed: bool,
    said_beside: Option<String>,
    final_words: Option<String>,
    next_prompt: Option<String>,
}

#[derive(Debug, Clone)]
struct Tool {
    content: Content,
    error: bool,
    marker: bool,
}

#[derive(Debug, Clone)]
enum Content {
    Text(String),
    Parts(Vec<String>),
    Image(String),
    Nothing,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z/_.\n\"\\\\]{0,60}",
        1 => any::<String>(),
        1 => "[ \n\t]{0,4}",
        1 => Just("😀é\u{0} long ".repeat(20)),
    ]
}

fn tool() -> impl Strategy<Value = Tool> {
    let content = prop_oneof![
        5 => text().prop_map(Content::Text),
        3 => prop::collection::vec(text(), 1..4).prop_map(Content::Parts),
        1 => text().prop_map(Content::Image),
        1 => Just(Content::Nothing),
    ];
    (content, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(|(content, error, marker)| Tool {
        content,
        error,
        marker,
    })
}

fn round() -> impl Strategy<Value = Round> {
    let maybe = || prop::option::weighted(0.3, text());
    (maybe(), prop::bool::weighted(0.15), prop::collection::vec(tool(), 0..4), any::<bool>(), maybe(), maybe(), maybe())
        .prop_map(|(prose, reasoning, calls, reversed, said_beside, final_words, next_prompt)| Round {
            prose,
            reasoning,
            calls,
            reversed,
            said_beside,
            final_words,
            next_prompt,
        })
}

fn content(tool: &Tool) -> Value {
    let part = |text: &String| {
        let mut part = json!({"type": "text", "text": text});
        if tool.marker {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
        part
    };
    match &tool.content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.iter().map(part).collect(),
        Content::Image(text) => json!([{"type": "image", "source": {"data": "AAAA"}}, part(text)]),
        Content::Nothing => Value::Null,
    }
}

/// Ids come up again in every round, as some clients do it.
fn id(index: usize, unique: bool, round: usize) -> String {
    if unique { format!("call_{round}_{index}") } else { format!("call_{index}") }
}

fn chat(rounds: &[Round], unique: bool) -> Value {
    let mut messages =
        vec![json!({"role": "system", "content": "Be brief."}), json!({"role": "user", "content": "Go."})];
    for (number, round) in rounds.iter().enumerate() {
        let mut calls: Vec<Value> = Vec::new();
        let mut results: Vec<Value> = Vec::new();
        for (index, tool) in round.calls.iter().enumerate() {
            let id = id(index, unique, number);
            calls.push(json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a/b.rs\"}"}}));
            let mut result = json!({"role": "tool", "tool_call_id": id, "content": content(tool)});
            if tool.error {
                result["is_error"] = json!(true);
            }
            results.push(result);
        }
        if round.reversed {
            results.reverse();
        }
        if !calls.is_empty() {
            let mut message = json!({"role": "assistant", "content": round.prose, "tool_calls": calls});
            if round.reasoning {
                message["reasoning_content"] = json!("Hm.");
            }
            messages.push(message);
            messages.append(&mut results);
            messages.extend(round.said_beside.iter().map(|said| json!({"role": "user", "content": said})));
        }
        if let Some(words) = round.final_words.as_ref().or(round.next_prompt.as_ref()) {
            messages.push(json!({"role": "assistant", "content": format!("So: {words}")}));
        }
        messages.extend(
            round.next_prompt.iter().map(|prompt| json!({"role": "user", "content": format!("And {prompt}?")})),
        );
    }
    json!({"model": "gpt-4o", "messages": messages, "tools": []})
}

fn anthropic(rounds: &[Round], unique: bool) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "Go."})];
    for (number, round) in rounds.iter().enumerate() {
        let mut said: Vec<Value> = Vec::new();
        let mut came: Vec<Value> = Vec::new();
        if round.reasoning {
            said.push(json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}));
        }
        said.extend(round.prose.iter().map(|text| json!({"type": "text", "text": text})));
        for (index, tool) in round.calls.iter().enumerate() {
            let id = id(index, unique, number);
            said.push(json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": "a/b.rs"}}));
            let mut result =
                json!({"type": "tool_result", "tool_use_id": id, "content": content(tool), "is_error": tool.error});
            if tool.marker {
                result["cache_control"] = json!({"type": "ephemeral"});
            }
            came.push(result);
        }
        if round.reversed {
            came.reverse();
        }
        if round.calls.is_empty() {
            said = vec![json!({"type": "text", "text": "Nothing to call."})];
            came.push(json!({"type": "text", "text": "Then go on."}));
        }
        came.extend(round.said_beside.iter().map(|text| json!({"type": "text", "text": text})));
        messages.push(json!({"role": "assistant", "content": said}));
        messages.push(json!({"role": "user", "content": came}));
        if let Some(prompt) = &round.next_prompt {
            messages.push(json!({"role": "assistant", "content": "Done."}));
            messages.push(json!({"role": "user", "content": [{"type": "text", "text": format!("And {prompt}?")}]}));
        }
    }
    json!({"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": messages})
}

/// A judge whose answers depend on the pair and a seed only.
fn seeded(seed: u64) -> impl FnMut(&str, &Value) -> exchange::Needed {
    move |name, _| {
        let mut hasher = DefaultHasher::new();
        (name, seed).hash(&mut hasher);
        let bits = hasher.finish();
        ((bits % 3) as f64 / 2.0, (bits / 3 % 3) as f64 / 2.0)
    }
}

fn settings(removal: &str, head: u16, recent: u8) -> Value {
    exchange::configuration(json!({
        "threshold_tokens": 0, "floor_bytes": 0, "min_reduction": 0, "removal": removal, "preserve_recent": recent,
        "truncate_head_chars": head,
    }))
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn a_reduced_conversation_is_the_same_conversation_without_some_calls(
        rounds in prop::collection::vec(round(), 1..8),
        unique: bool,
        pretty: bool,
        is_chat: bool,
        removal in prop::sample::select(vec!["auto", "portable", "full"]),
        head in 0u16..40,
        recent in 0u8..4,
        seed: u64,
    ) {
        let (path, value) = if is_chat {
            ("/v1/chat/completions", chat(&rounds, unique))
        } else {
            ("/v1/messages", anthropic(&rounds, unique))
        };
        let body = written(&value, pretty).into_bytes();
        let policy = exchange::policy(&settings(removal, head, recent));
        let ran = exchange::run(&policy, path, &[], &body, &mut seeded(seed));
        let complaints = invariants::complaints(&body, &ran.outgoing);
        prop_assert!(complaints.is_empty(), "{:?} {:?}", complaints, ran.outcome);
        prop_assert_ne!(ran.outcome, Outcome::Untouched(Skip::SelfCheck));
        if ran.outgoing != body && broken(path, &body).is_empty() {
            prop_assert_eq!(broken(path, &ran.outgoing), Vec::<String>::new());
        }
        let again = exchange::run(&policy, path, &[], &body, &mut seeded(seed));
        prop_assert_eq!(&again.outgoing, &ran.outgoing, "the same body and the same verdicts");
        if let Outcome::Untouched(_) = ran.outcome {
            prop_assert_eq!(&ran.outgoing, &body);
        }
    }

    #[test]
    fn a_damaged_body_leaves_untouched_or_whole(
        rounds in prop::collection::vec(round(), 1..4),
        is_chat: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        seed: u64,
    ) {
        let (path, value) = if is_chat {
            ("/v1/chat/completions", chat(&rounds, true))
        } else {
            ("/v1/messages", anthropic(&rounds, true))
        };
        let mut body = value.to_string().into_bytes();
        for (index, byte) in damage {
            let at = index.index(body.len());
            body[at] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        let policy = exchange::policy(&settings("full", 5, 0));
        let ran = exchange::run(&policy, path, &[], &body, &mut seeded(seed));
        if ran.outgoing != body {
            prop_assert!(crate::support::ranges::removed(&body, &ran.outgoing).is_ok());
            prop_assert!(serde_json::from_slice::<Value>(&ran.outgoing).is_ok());
        }
    }
}
