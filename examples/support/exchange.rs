//! The filter's core without a proxy: one body in, what leaves out, with a judge in place of an engine.

use std::rc::Rc;

use context_compaction::exchange::{Event, Exchange, Headers, Outcome, Question, Report, Step};
use context_compaction::policy::{Environment, Policy};
use serde_json::{Map, Value, json};

/// Probabilities that a call, and its whole result, are still needed.
pub type Needed = (f64, f64);

/// Answers for one pair: its name (`p7`) and what the request says about it.
pub type Judge<'a> = dyn FnMut(&str, &Value) -> Needed + 'a;

/// An environment without variables.
pub struct NoEnvironment;

impl Environment for NoEnvironment {
    fn var(&self, _: &str) -> Option<String> {
        None
    }
}

/// The policy of this configuration; panics with every problem if it is refused.
pub fn policy(configuration: &Value) -> Rc<Policy> {
    let parsed = Policy::parse(configuration.to_string().as_bytes(), &NoEnvironment);
    Rc::new(parsed.unwrap_or_else(|problems| panic!("configuration refused: {problems:?}")))
}

/// A complete configuration with `changes` applied.
pub fn configuration(changes: Value) -> Value {
    let mut whole = json!({"enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:1", "model": "stub"});
    if let (Some(whole), Value::Object(changes)) = (whole.as_object_mut(), changes) {
        whole.extend(changes);
    }
    whole
}

/// What became of a body.
#[derive(Debug)]
pub struct Ran {
    /// How it left.
    pub outcome: Outcome,
    /// What was counted.
    pub report: Report,
    /// The bytes that leave.
    pub outgoing: Vec<u8>,
    /// The engine requests, parsed.
    pub asked: Vec<Value>,
}

struct Sent<'a> {
    path: &'a str,
    length: usize,
    extra: &'a [(&'a str, &'a str)],
}

impl Headers for Sent<'_> {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        if let Some((_, value)) = self.extra.iter().find(|(key, _)| *key == name) {
            return Some(value.as_bytes().to_vec());
        }
        match name {
            ":method" => Some(b"POST".to_vec()),
            ":path" => Some(self.path.as_bytes().to_vec()),
            "content-type" => Some(b"application/json".to_vec()),
            "content-length" => Some(self.length.to_string().into_bytes()),
            _ => None,
        }
    }
}

/// Sends `body` through the exchange; `extra` headers replace the usual ones.
pub fn run(policy: &Rc<Policy>, path: &str, extra: &[(&str, &str)], body: &[u8], judge: &mut Judge<'_>) -> Ran {
    let mut exchange = Exchange::new(Rc::clone(policy));
    let headers = Sent { path, length: body.len(), extra };
    let mut asked = Vec::new();
    let mut waiting: Vec<Question> = Vec::new();
    let mut step = exchange.on(Event::Headers { headers: &headers, end: false });
    let outgoing = loop {
        step = match step {
            Step::Forward => break body.to_vec(),
            Step::Send(reduced) => break reduced.to_vec(body),
            Step::Hold | Step::Reread => exchange.on(Event::Body(body)),
            Step::Ask(questions) => {
                waiting.extend(questions);
                Step::Wait
            }
            Step::Wait => {
                let question = waiting.pop().expect("an exchange that waits has a call out");
                let request: Value = serde_json::from_slice(&question.body).expect("an engine request is JSON");
                let reply = answer(&request, judge);
                asked.push(request);
                exchange.on(Event::Reply { call: question.call, reply: Ok(reply.to_string().as_bytes()) })
            }
        };
    };
    let outcome = *exchange.outcome().expect("a request that left has an outcome");
    Ran { outcome, report: exchange.report().clone(), outgoing, asked }
}

fn answer(request: &Value, judge: &mut Judge<'_>) -> Value {
    let mut answers = Map::new();
    for (name, about) in request["state"]["asked"].as_object().into_iter().flatten() {
        let (call, result) = judge(name, about);
        let ordinal = name.trim_start_matches('p');
        answers.insert(format!("c{ordinal}"), json!({"type": "noul", "noul": call}));
        answers.insert(format!("r{ordinal}"), json!({"type": "noul", "noul": result}));
    }
    json!({"model": "stub", "answers": answers, "usage": {"input_tokens": 1, "output_tokens": 0}})
}
