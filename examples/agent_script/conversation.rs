//! Plays a script and writes down the messages that a client of Chat Completions would hold afterwards.

use serde_json::{Value, json};

use super::tools::{Action, Done};
use super::workspace::Workspace;
use crate::support::{Failure, Result};

/// One entry of a script.
pub enum Step {
    /// Instructions that come before everything.
    System(&'static str),
    /// The user writes.
    User(&'static str),
    /// The assistant answers, and the user's turn comes.
    Answer(&'static str),
    /// The assistant calls tools, all at once; what it says beside them may be empty.
    Calls(&'static str, Vec<Action>),
}

/// A conversation under way.
pub struct Conversation<'a> {
    workspace: &'a Workspace,
    messages: Vec<Value>,
    calls: usize,
}

impl<'a> Conversation<'a> {
    /// An empty conversation of an agent that works in `workspace`.
    pub fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, messages: Vec::new(), calls: 0 }
    }

    /// Plays all steps; stops at the first that cannot be carried out, and names it.
    pub fn play(&mut self, steps: &[Step]) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            let number = index + 1;
            eprintln!("step {number} of {}", steps.len());
            self.play_one(step).map_err(|failure| failure.while_doing(format!("step {number} of story.rs")))?;
        }
        Ok(())
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// All messages so far.
    pub fn into_messages(self) -> Vec<Value> {
        self.messages
    }

    fn play_one(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::System(text) => self.messages.push(json!({"role": "system", "content": text})),
            Step::User(text) => self.messages.push(json!({"role": "user", "content": text})),
            Step::Answer(text) => self.messages.push(json!({"role": "assistant", "content": text})),
            Step::Calls(text, actions) => self.call(text, actions)?,
        }
        Ok(())
    }

    fn call(&mut self, text: &str, actions: &[Action]) -> Result<()> {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for action in actions {
            eprintln!("    {action}");
            let done = action.carry_out(self.workspace).map_err(|failure| failure.while_doing(action))?;
            self.refuse_private(&done).map_err(|failure| failure.while_doing(action))?;
            self.calls += 1;
            let id = format!("call_{:03}", self.calls);
            let function = json!({"name": done.tool, "arguments": done.arguments.to_string()});
            calls.push(json!({"id": id, "type": "function", "function": function}));
            results.push(json!({"role": "tool", "tool_call_id": id, "content": done.result}));
        }
        let content = if text.is_empty() { Value::Null } else { json!(text) };
        self.messages.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
        self.messages.append(&mut results);
        Ok(())
    }

    fn refuse_private(&self, done: &Done) -> Result<()> {
        match self.workspace.private_path_in(&done.result) {
            Some(path) => Err(Failure::new(format!("the result would show {path}, a path of this machine"))),
            None => Ok(()),
        }
    }
}
