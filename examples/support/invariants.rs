//! What must hold of a reduced body, read with an ordinary JSON parser: it shares no code with the filter.

use serde_json::Value;

use super::{ranges, responses};

/// Everything that is wrong with `outgoing` as a reduction of `incoming`; nothing when all holds.
pub fn complaints(incoming: &[u8], outgoing: &[u8]) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Err(at) = ranges::removed(incoming, outgoing) {
        complaints.push(format!("byte {at} is not the incoming body minus ranges"));
    }
    let (before, after): (Value, Value) = match (serde_json::from_slice(incoming), serde_json::from_slice(outgoing)) {
        (Ok(before), Ok(after)) => (before, after),
        // Numbers beyond any double and half surrogate pairs are JSON that this parser does not read.
        (Err(_), _) => return complaints,
        (_, after) => {
            complaints.push(format!("does not parse: {after:?}"));
            return complaints;
        }
    };
    if without_messages(&before) != without_messages(&after) {
        complaints.push("a member beside the messages changed".to_owned());
    }
    let (was, is) = (messages(&before), messages(&after));
    if prose(was) != prose(is) {
        complaints.push("prose changed".to_owned());
    }
    if was.last() != is.last() {
        complaints.push("the last message changed".to_owned());
    }
    if first_speaker(was) != first_speaker(is) {
        complaints.push("another role speaks first".to_owned());
    }
    if unpaired(is) > unpaired(was) {
        complaints.push(format!("{} calls or results without their other half", unpaired(is)));
    }
    if empty(is) > empty(was) {
        complaints.push("a message or array was emptied".to_owned());
    }
    if before["input"].is_array() {
        complaints.extend(responses::complaints(&before, &after));
    }
    complaints
}

fn without_messages(body: &Value) -> Value {
    let mut rest = body.clone();
    rest.as_object_mut().map(|members| ["messages", "contents", "input"].map(|list| members.remove(list)));
    rest
}

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().or(body["contents"].as_array()).map_or(&[], Vec::as_slice)
}

/// The blocks of a message, under the name that its format has for them.
fn parts(message: &Value) -> impl Iterator<Item = &Value> {
    ["content", "parts"].into_iter().filter_map(|name| message[name].as_array()).flatten()
}

/// What stands under one of these names in a part.
fn under<'a>(part: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().map(|name| &part[*name]).find(|value| !value.is_null())
}

const CALLS: [&str; 3] = ["functionCall", "function_call", "toolUse"];
const RESULTS: [&str; 3] = ["functionResponse", "function_response", "toolResult"];

/// Role and text of everything that is neither call nor result, in order.
pub fn prose(messages: &[Value]) -> Vec<(String, String)> {
    let mut prose = Vec::new();
    for message in messages.iter().filter(|m| !matches!(m["role"].as_str(), Some("tool" | "function"))) {
        let role = message["role"].as_str().unwrap_or_default();
        let mut say = |text: &str| {
            if !text.trim().is_empty() {
                prose.push((role.to_owned(), text.to_owned()));
            }
        };
        if let Value::String(text) = &message["content"] {
            say(text);
        }
        parts(message).filter(|part| !is_tool(part)).for_each(|part| match part["text"].as_str() {
            Some(text) => say(text),
            None => say(&part.to_string()),
        });
    }
    prose
}

fn is_tool(part: &Value) -> bool {
    matches!(part["type"].as_str(), Some("tool_use" | "tool_result"))
        || under(part, &CALLS).or(under(part, &RESULTS)).is_some()
}

fn first_speaker(messages: &[Value]) -> Option<&str> {
    messages.iter().filter_map(|m| m["role"].as_str()).find(|role| !matches!(*role, "system" | "developer"))
}

/// Calls that the next messages do not answer, plus results that answer no call of the messages right before.
fn unpaired(messages: &[Value]) -> usize {
    let mut open: Vec<String> = Vec::new();
    let mut unpaired = 0;
    for message in messages {
        let (calls, results) = (calls(message), results(message));
        let answers = !results.is_empty();
        for id in results {
            match open.iter().position(|o| *o == id) {
                Some(at) => _ = open.swap_remove(at),
                None => unpaired += 1,
            }
        }
        if !answers || !calls.is_empty() {
            unpaired += open.len();
            open = calls;
        }
    }
    unpaired + open.len()
}

fn calls(message: &Value) -> Vec<String> {
    let listed = message["tool_calls"].as_array().into_iter().flatten().map(call_name);
    let blocks = parts(message).filter(|b| b["type"] == "tool_use").map(|b| b["id"].to_string());
    let named = parts(message).filter_map(|part| under(part, &CALLS)).map(name);
    let legacy = message["function_call"]["name"].as_str().map(str::to_owned);
    listed.chain(blocks).chain(named).chain(legacy).collect()
}

fn results(message: &Value) -> Vec<String> {
    let blocks = parts(message).filter(|b| b["type"] == "tool_result").map(|b| b["tool_use_id"].to_string());
    let named = parts(message).filter_map(|part| under(part, &RESULTS)).map(name);
    let mut ids: Vec<String> = blocks.chain(named).collect();
    match message["role"].as_str() {
        Some("tool") if message["parts"].is_null() => {
            let id = under(message, &["tool_call_id", "tool_name"]).unwrap_or(&message["tool_call_id"]);
            ids.push(id.to_string());
        }
        Some("function") => ids.extend(message["name"].as_str().map(str::to_owned)),
        _ => {}
    }
    ids
}

/// By what a call in `tool_calls` is known: its id, or where there is none its tool.
fn call_name(call: &Value) -> String {
    under(call, &["id"]).unwrap_or(&call["function"]["name"]).to_string()
}

/// By what a call or a result that is named by its member is known: its id, or where there is none its tool.
fn name(inside: &Value) -> String {
    under(inside, &["toolUseId", "id", "name"]).unwrap_or(inside).to_string()
}

/// Messages that say nothing and call nothing, and empty arrays anywhere in a message.
fn empty(messages: &[Value]) -> usize {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let silent = |m: &&Value| {
        nothing(&m["content"]) && nothing(&m["parts"]) && nothing(&m["tool_calls"]) && nothing(&m["function_call"])
    };
    let hollow = |m: &Value| parts(m).filter(|p| p["content"] == Value::Array(Vec::new())).count();
    let arrays =
        |m: &Value| ["content", "parts", "tool_calls"].iter().filter(|k| m[**k] == Value::Array(Vec::new())).count();
    messages.iter().filter(silent).count() + messages.iter().map(|m| hollow(m) + arrays(m)).sum::<usize>()
}
