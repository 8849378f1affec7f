//! A conversation without a format, written in each: `tests/fixtures/<dialect>/shape.json` says how, with `$text`, `$id`,
//! `$name`, `$arguments` (an object), `$arguments_text` (as text), and lists `$messages`, `$calls`, `$results`.

use std::fs;

use serde_json::{Map, Value, json};

use super::paths::repository;
use super::{Failure, Result};

/// One step of a conversation.
#[derive(Debug, Clone)]
pub enum Turn {
    /// The user says something.
    Prompt(String),
    /// The model says something.
    Reply(String),
    /// The model calls tools, and they answer. What it says beside the calls may be nothing.
    Tools(String, Vec<Tool>),
}

/// A call with its result.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The id of the call.
    pub id: String,
    /// Its arguments.
    pub arguments: Value,
    /// What came back.
    pub result: String,
}

/// How one format writes a conversation.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The dialect's name.
    pub dialect: String,
    templates: Value,
}

/// The shapes of all formats, in order of their names.
pub fn load_all() -> Result<Vec<Shape>> {
    let folder = repository().join("tests/fixtures");
    let mut shapes = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| Failure::from(error).while_doing(folder.display()))? {
        let path = entry?.path().join("shape.json");
        if let Ok(text) = fs::read_to_string(&path) {
            let templates =
                serde_json::from_str(&text).map_err(|error| Failure::from(error).while_doing(path.display()))?;
            let dialect = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
            shapes.push(Shape { dialect: dialect.to_string_lossy().into_owned(), templates });
        }
    }
    shapes.sort_by(|a, b| a.dialect.cmp(&b.dialect));
    Ok(shapes)
}

impl Shape {
    /// The path of its requests.
    pub fn path(&self) -> &str {
        self.templates["path"].as_str().unwrap_or_default()
    }

    /// The request of a conversation.
    pub fn body(&self, turns: &[Turn]) -> Value {
        let messages = turns.iter().flat_map(|turn| self.messages(turn)).collect();
        self.fill("body", &[("$messages", Value::Array(messages))])
    }

    fn messages(&self, turn: &Turn) -> Vec<Value> {
        match turn {
            Turn::Prompt(text) => vec![self.fill("prompt", &[("$text", json!(text))])],
            Turn::Reply(text) => vec![self.fill("reply", &[("$text", json!(text))])],
            Turn::Tools(text, tools) => {
                let calls = self.carried("calls", "$calls", text, tools.iter().map(|tool| self.tool("call", tool)));
                let results = tools.iter().map(|tool| self.tool("result", tool));
                calls.into_iter().chain(self.carried("results", "$results", "", results)).collect()
            }
        }
    }

    /// The items in a message of their own, where the format has one, with the text before them.
    fn carried(&self, name: &str, list: &str, text: &str, items: impl Iterator<Item = Value>) -> Vec<Value> {
        let items: Vec<Value> = items.collect();
        let with_text = format!("{name}_with_text");
        let name = if text.is_empty() { name } else { with_text.as_str() };
        if self.templates[name].is_null() {
            let says = (!text.is_empty()).then(|| self.fill("reply", &[("$text", json!(text))]));
            return says.into_iter().chain(items).collect();
        }
        vec![self.fill(name, &[("$text", json!(text)), (list, Value::Array(items))])]
    }

    fn tool(&self, name: &str, tool: &Tool) -> Value {
        self.fill(
            name,
            &[
                ("$id", json!(tool.id)),
                ("$name", json!("read_file")),
                ("$arguments", tool.arguments.clone()),
                ("$arguments_text", json!(tool.arguments.to_string())),
                ("$text", json!(tool.result)),
            ],
        )
    }

    fn fill(&self, name: &str, values: &[(&str, Value)]) -> Value {
        filled(&self.templates[name], values)
    }
}

fn filled(template: &Value, values: &[(&str, Value)]) -> Value {
    let value_of = |text: &str| values.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone());
    match template {
        Value::String(text) => value_of(text).unwrap_or_else(|| template.clone()),
        Value::Array(items) => {
            // A list in a list is poured into it.
            let poured = |item: &Value| match item.as_str().and_then(value_of) {
                Some(Value::Array(items)) => items,
                _ => vec![filled(item, values)],
            };
            items.iter().flat_map(poured).collect()
        }
        Value::Object(members) => {
            Value::Object(members.iter().map(|(k, v)| (k.clone(), filled(v, values))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
