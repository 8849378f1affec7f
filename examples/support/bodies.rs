//! Request bodies: those recorded from real clients, and made ones of any size.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use context_compaction::{dialect::Target, json::Document};

use super::paths::shared;
use super::{Failure, Result};

/// A request body that a real client sent.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedBody {
    /// Its file below the data folder.
    pub file: String,
    /// The wire format, for example `gemini-contents`.
    pub format: String,
    /// Whether the recording is exact to the byte.
    pub exact_bytes: bool,
    /// The model, where the record says.
    pub model: Option<String>,
    /// Where it was sent, where the record says.
    pub uri: Option<String>,
    /// What is peculiar about it.
    pub tags: Vec<String>,
    /// The body.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// Whether the recorded bodies stand beside the repository.
pub fn available() -> bool {
    shared("data/bodies/index.json").is_file()
}

/// Every recorded body, in the order of the index.
pub fn load_all() -> Result<Vec<RecordedBody>> {
    let read = |file: &str| {
        let path = shared("data").join(file);
        std::fs::read(&path).map_err(|error| Failure::from(error).while_doing(path.display()))
    };
    let mut bodies: Vec<RecordedBody> = serde_json::from_slice(&read("bodies/index.json")?)?;
    for body in &mut bodies {
        body.bytes = read(&body.file)?;
    }
    Ok(bodies)
}

/// What the client asks: other words each time, so that no body is the same conversation as one made before.
fn goal() -> Value {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    json!({"role": "user", "content": format!("Look at every file of task {number:06} and tell me what is wrong.")})
}

/// A Chat Completions body in which the model makes `pairs` calls at once, each with a result of about `result_bytes`,
/// reads them and goes on: one boundary, at which all of them are eligible. Each body is a conversation of its own.
///
/// The text of call and result `n` (from 1) holds `c-<n>.` and `r-<n>.`, so that a test can see which of them left.
pub fn chat(model: &str, pairs: usize, result_bytes: usize) -> Vec<u8> {
    chat_in_groups(model, &[pairs], result_bytes)
}

/// The same with several groups of parallel calls, each of this many: a boundary behind each but the last reply.
pub fn chat_in_groups(model: &str, groups: &[usize], result_bytes: usize) -> Vec<u8> {
    let call = |n: usize| {
        let arguments = json!({"path": format!("src/c-{n}.rs")}).to_string();
        let function = json!({"name": "read_file", "arguments": arguments});
        json!({"id": format!("call_{n}"), "type": "function", "function": function})
    };
    let result =
        |n: usize| json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": text(n, result_bytes)});
    let mut messages = vec![goal()];
    let mut first = 1;
    for pairs in groups {
        let group = first..first + pairs;
        let calls: Vec<Value> = group.clone().map(call).collect();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
        messages.extend(group.clone().map(result));
        first = group.end;
    }
    close(&mut messages);
    json!({"model": model, "messages": messages}).to_string().into_bytes()
}

/// The requests of one conversation, turn by turn: in each the model reads one file more, of about `result_bytes`, and now
/// and then names something that only an earlier one held.
pub fn growing(model: &str, turns: usize, result_bytes: usize) -> Vec<Vec<u8>> {
    let mut messages = vec![goal()];
    let mut bodies = Vec::new();
    for n in 1..=turns {
        bodies.push(json!({"model": model, "messages": messages}).to_string().into_bytes());
        let named = format!("value_{}_{}", n / 2, 3 + n % 5);
        let arguments = json!({"path": format!("src/c-{n}.rs"), "find": named}).to_string();
        let function = json!({"name": "read_file", "arguments": arguments});
        let call = json!({"id": format!("call_{n}"), "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": text(n, result_bytes)}));
    }
    bodies
}

/// [`chat`] as an Anthropic Messages body.
pub fn anthropic(model: &str, pairs: usize, result_bytes: usize) -> Vec<u8> {
    let call = |n: usize| {
        let input = json!({"path": format!("src/c-{n}.rs")});
        json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "read_file", "input": input})
    };
    let result = |n: usize| json!({"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": text(n, result_bytes)});
    let (calls, results): (Vec<Value>, Vec<Value>) = (1..=pairs).map(|n| (call(n), result(n))).unzip();
    let mut messages = vec![goal()];
    messages.push(json!({"role": "assistant", "content": calls}));
    messages.push(json!({"role": "user", "content": results}));
    close(&mut messages);
    json!({"model": model, "max_tokens": 1024, "messages": messages}).to_string().into_bytes()
}

/// Bytes of any length that are no JSON and not the same everywhere.
pub fn noise(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

fn close(messages: &mut Vec<Value>) {
    messages.push(json!({"role": "assistant", "content": "I have read them all."}));
    messages.push(json!({"role": "user", "content": "Good. And now the tests, please."}));
}

/// Some `bytes` of lines that differ from one result to the next.
fn text(n: usize, bytes: usize) -> String {
    let mut text = format!("r-{n}.\n");
    let mut line = 0;
    while text.len() < bytes {
        line += 1;
        text.push_str(&format!("{line}: let value_{n}_{line} = compute({});\n", n * line));
    }
    text.truncate(bytes.max(format!("r-{n}.\n").len()));
    text
}

/// Where a body of each format is sent. Chat Completions stand first: bodies without ids of calls aside, those of Ollama and
/// Cohere look the same.
const PATHS: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/gemini-2.5-pro:generateContent",
    "/model/amazon.nova-pro-v1%3A0/converse",
    "/api/chat",
    "/v2/chat",
];

/// The path of the provider's API that a body is written for: the first under which most pairs are read.
pub fn path_of(body: &[u8]) -> Result<&'static str> {
    let doc = Document::parse(body).map_err(|_| Failure::new("the body is not one JSON value in UTF-8"))?;
    let mut best = None;
    for path in PATHS {
        let pairs = Target::of(path).and_then(|target| Some(target.read(&doc).ok()?.pairs.len()));
        if let Some(pairs) = pairs.filter(|pairs| best.is_none_or(|(most, _)| *pairs > most)) {
            best = Some((pairs, path));
        }
    }
    best.map(|(_, path)| path)
        .ok_or_else(|| Failure::new("the body is no request of a format that is read here, with sound pairs"))
}

/// The conversation of the demo: a scripted agent's, 63 pairs.
pub fn demo() -> Vec<u8> {
    let path = super::paths::repository().join("examples/conversation.json");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
