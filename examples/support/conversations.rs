//! The recorded conversations, rendered as the requests that a client would have sent.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::paths::shared;
use super::{Failure, Result};

/// The shape of a conversation's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses; the messages are input items.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
}

/// One recorded conversation.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// Its name: the file's, without ending.
    pub name: String,
    /// Conversations of one family share their text.
    pub family: String,
    /// The shape of its messages.
    pub format: Format,
    /// The model that it was held with; `gpt-4o` where the log does not say.
    pub model: String,
    /// The system prompt; null where the log holds none.
    pub system: Value,
    /// The tools; null where the log holds none.
    pub tools: Value,
    /// The whole history, in the provider's own shape.
    pub messages: Vec<Value>,
    /// What the agent logged of each turn: time, and tokens as the provider reported them.
    pub logged_turns: Vec<Value>,
}

/// Whether the conversations stand beside the repository.
pub fn available() -> bool {
    shared("data/conversations").is_dir()
}

/// The names of all conversations, in order.
pub fn names() -> Result<Vec<String>> {
    names_in(&shared("data/conversations"))
}

/// The names of all conversations in a folder, in order.
pub fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::from(error).while_doing(folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".json").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Every conversation, in order of its name (22 MB of JSON).
pub fn load_all() -> Result<Vec<Conversation>> {
    names()?.iter().map(|name| load(name)).collect()
}

/// The conversations of the dialects that this version reads, with fewer messages than `longest`; none, and a word about
/// it, where they do not stand beside the repository.
pub fn served(longest: usize) -> Vec<Conversation> {
    if !available() {
        eprintln!("skipped: the conversations are not beside this repository (../shared/data/conversations)");
        return Vec::new();
    }
    let all = load_all().expect("the conversations load");
    all.into_iter().filter(|c| c.messages.len() < longest).collect()
}

/// The conversation of this name.
pub fn load(name: &str) -> Result<Conversation> {
    load_from(&shared("data/conversations"), name)
}

/// The conversation of this name in a folder.
pub fn load_from(folder: &Path, name: &str) -> Result<Conversation> {
    let path = folder.join(format!("{name}.json"));
    let doing = |failure: Failure| failure.while_doing(path.display());
    let bytes = std::fs::read(&path).map_err(|error| doing(error.into()))?;
    let file: Value = serde_json::from_slice(&bytes).map_err(|error| doing(error.into()))?;
    let format = match file["format"].as_str() {
        Some("openai-chat") => Format::OpenAiChat,
        Some("openai-responses") => Format::OpenAiResponses,
        Some("anthropic-messages") => Format::Anthropic,
        other => return Err(doing(Failure::new(format!("format {other:?}")))),
    };
    let text = |key: &str, default: &str| file[key].as_str().unwrap_or(default).to_owned();
    let list = |key: &str| file[key].as_array().cloned().unwrap_or_default();
    Ok(Conversation {
        name: name.to_owned(),
        family: text("family", name),
        format,
        model: text("model", "gpt-4o"),
        system: file["system"].clone(),
        tools: file["tools"].clone(),
        messages: list("messages"),
        logged_turns: list("turns"),
    })
}

impl Conversation {
    /// The path to which its client sent it.
    pub fn path(&self) -> &'static str {
        match self.format {
            Format::OpenAiChat => "/v1/chat/completions",
            Format::OpenAiResponses => "/v1/responses",
            Format::Anthropic => "/v1/messages",
        }
    }

    /// The request body over the first `count` messages: compact JSON, keys in the order of the log, no `\u` escape
    /// where UTF-8 will do. The body of a later turn begins with the messages of an earlier one, byte for byte.
    pub fn body(&self, count: usize) -> Vec<u8> {
        let messages = self.messages.iter().take(count).cloned().collect();
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        match self.format {
            Format::OpenAiChat => {
                body.insert("messages".to_owned(), Value::Array(messages));
                insert_known(&mut body, "tools", &self.tools);
            }
            Format::OpenAiResponses => {
                insert_known(&mut body, "instructions", &self.system);
                body.insert("input".to_owned(), Value::Array(messages));
                insert_known(&mut body, "tools", &self.tools);
            }
            Format::Anthropic => {
                body.insert("max_tokens".to_owned(), json!(4096));
                insert_known(&mut body, "system", &self.system);
                insert_known(&mut body, "tools", &self.tools);
                body.insert("messages".to_owned(), Value::Array(messages));
            }
        }
        Value::Object(body).to_string().into_bytes()
    }

    /// How many messages each request held: those before a run of the model's, and all if the client spoke last.
    pub fn turns(&self) -> Vec<usize> {
        let model: Vec<bool> = self.messages.iter().map(|message| self.is_models(message)).collect();
        let ends = |end: &usize| !model[end - 1] && model.get(*end).copied().unwrap_or(true);
        (1..=model.len()).filter(ends).collect()
    }

    /// What the model answered to the request over the first `count` messages.
    pub fn reply(&self, count: usize) -> &[Value] {
        let behind = self.messages.get(count..).unwrap_or_default();
        let length = behind.iter().take_while(|message| self.is_models(message)).count();
        behind.get(..length).unwrap_or_default()
    }

    /// Whether the model wrote this message.
    fn is_models(&self, message: &Value) -> bool {
        let kind = message["type"].as_str().unwrap_or_default();
        let item = self.format == Format::OpenAiResponses && (kind == "reasoning" || kind.ends_with("_call"));
        message["role"] == "assistant" || item
    }
}

fn insert_known(body: &mut Map<String, Value>, key: &str, value: &Value) {
    if !value.is_null() {
        body.insert(key.to_owned(), value.clone());
    }
}
