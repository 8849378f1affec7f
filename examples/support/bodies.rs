//! Request bodies: those recorded from real clients, and made ones of any size.

use serde::Deserialize;
use serde_json::{Value, json};

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

/// A Chat Completions body with `pairs` calls, one per message, each with a result of about `result_bytes`.
///
/// The text of call and result `n` (from 1) holds `c-<n>.` and `r-<n>.`, so that a test can see which of them left.
pub fn chat(model: &str, pairs: usize, result_bytes: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "user", "content": "Look at every file and tell me what is wrong."})];
    for n in 1..=pairs {
        let arguments = json!({"path": format!("src/c-{n}.rs")}).to_string();
        let function = json!({"name": "read_file", "arguments": arguments});
        let call = json!({"id": format!("call_{n}"), "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": text(n, result_bytes)}));
    }
    close(&mut messages);
    json!({"model": model, "messages": messages}).to_string().into_bytes()
}

/// [`chat`] as an Anthropic Messages body.
pub fn anthropic(model: &str, pairs: usize, result_bytes: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "user", "content": "Look at every file and tell me what is wrong."})];
    for n in 1..=pairs {
        let (id, input) = (format!("toolu_{n}"), json!({"path": format!("src/c-{n}.rs")}));
        let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": input});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": text(n, result_bytes)});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
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
