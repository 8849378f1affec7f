//! Calls and results of a request body, found with an ordinary JSON parser, and what became of them.

use serde_json::Value;

/// A call with its result, as a person would list it.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The tool's name.
    pub tool: String,
    /// What the call works on: its most telling argument.
    pub target: String,
    /// The text of the result.
    pub result: String,
}

/// What became of a pair on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is still there.
    Kept,
    /// Its result is shorter.
    Truncated,
    /// It is gone.
    Dropped,
}

/// All answered calls of a body, in order.
pub fn list(body: &Value) -> Vec<Pair> {
    let mut open: Vec<(String, String, String)> = Vec::new();
    let mut pairs = Vec::new();
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or_default();
        if kind.ends_with("_output") {
            answer(&mut open, &mut pairs, &item["call_id"], &item["output"]);
        } else if kind == "function_call" || kind == "custom_tool_call" {
            let arguments = if item["arguments"].is_null() { &item["input"] } else { &item["arguments"] };
            open.push((item["call_id"].to_string(), text(&item["name"]), target(&text(arguments))));
        }
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let listed = message["tool_calls"].as_array().into_iter().flatten();
        for call in listed {
            let function = &call["function"];
            open.push((call["id"].to_string(), text(&function["name"]), target(&text(&function["arguments"]))));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_use" {
                open.push((block["id"].to_string(), text(&block["name"]), target(&block["input"].to_string())));
            }
            if block["type"] == "tool_result" {
                answer(&mut open, &mut pairs, &block["tool_use_id"], &block["content"]);
            }
        }
        if message["role"] == "tool" {
            answer(&mut open, &mut pairs, &message["tool_call_id"], &message["content"]);
        }
    }
    pairs
}

fn answer(open: &mut Vec<(String, String, String)>, pairs: &mut Vec<Pair>, id: &Value, content: &Value) {
    let id = id.to_string();
    if let Some(at) = open.iter().position(|(open, ..)| *open == id) {
        let (_, tool, target) = open.remove(at);
        pairs.push(Pair { tool, target, result: result_text(content) });
    }
}

/// What became of each pair of `before`, given the pairs that are left.
pub fn fates(before: &[Pair], after: &[Pair]) -> Vec<Fate> {
    let mut left = after.iter().peekable();
    let fate = |pair: &Pair| {
        let same = |l: &&Pair| l.tool == pair.tool && l.target == pair.target && pair.result.starts_with(&l.result);
        match left.next_if(same) {
            None => Fate::Dropped,
            Some(l) if l.result.len() < pair.result.len() => Fate::Truncated,
            Some(_) => Fate::Kept,
        }
    };
    before.iter().map(fate).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn result_text(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    }
}

fn target(arguments: &str) -> String {
    let parsed: Value = serde_json::from_str(arguments).unwrap_or_default();
    let named = ["file_path", "path", "command", "cmd", "pattern", "url"];
    let found = named.iter().find_map(|name| parsed[*name].as_str());
    let first = || parsed.as_object()?.values().find_map(Value::as_str);
    found.or_else(first).unwrap_or("-").lines().next().unwrap_or("-").to_owned()
}
