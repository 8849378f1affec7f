//! The filter's core without a proxy: one body in, what leaves out, with a judge in place of an engine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use context_compaction::exchange::{Event, Exchange, Headers, Outcome, Question, Report, Step, Told};
use context_compaction::fault::Fault;
use context_compaction::memory::Store;
use context_compaction::policy::{Environment, Policy};
use context_compaction::usage::Usage;
use context_compaction::window::Snapshot;
use serde_json::{Map, Value, json};

/// Probabilities that a call, and its whole result, are still needed.
pub type Needed = (f64, f64);

/// Answers for one pair: its name (`p7`) and what the request says about it.
pub type Judge<'a> = dyn FnMut(&str, &Value) -> Needed + 'a;

/// Answers a request, or fails.
pub type Engine<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, Fault> + 'a;

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

/// A complete configuration under which pairs are judged as soon as they may be and leave at once, with `changes`
/// applied.
pub fn configuration(changes: Value) -> Value {
    let mut whole = json!({
        "enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:1", "model": "stub",
        "epoch_pairs": 1, "cost_gate": false, "max_removed_share": 1,
    });
    if let (Some(whole), Value::Object(changes)) = (whole.as_object_mut(), changes) {
        whole.extend(changes);
    }
    whole
}

/// The product's defaults with `changes`, but for a threshold that most conversations reach early, and without a gate.
pub fn early(changes: Value) -> Rc<Policy> {
    let mut settings = json!({
        "enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:1", "model": "stub",
        "threshold_tokens": 8000, "cost_gate": false, "max_body_bytes": 50_000_000,
    });
    if let (Some(settings), Value::Object(changes)) = (settings.as_object_mut(), changes) {
        settings.extend(changes);
    }
    policy(&settings)
}

/// An engine for which nothing is needed.
pub fn drop_all(request: &[u8]) -> Result<Vec<u8>, Fault> {
    Ok(answer(&parsed(request), &mut |_, _| (0.0, 0.0)))
}

/// What became of a body.
#[derive(Debug)]
pub struct Ran {
    /// How it left.
    pub outcome: Outcome,
    /// What was counted.
    pub report: Report,
    /// How full the window is, where the body was read.
    pub window: Option<Snapshot>,
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

/// Shared data of a host, in memory.
#[derive(Debug, Default)]
pub struct Shared(pub RefCell<HashMap<String, Vec<u8>>>);

impl Store for Shared {
    fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
        self.0.borrow().get(key).map(|value| (value.clone(), None))
    }

    fn set(&self, key: &str, value: &[u8], _: Option<u32>) -> bool {
        self.0.borrow_mut().insert(key.to_owned(), value.to_vec());
        true
    }
}

/// Sends `body` through the exchange on a worker that remembers nothing; `extra` headers replace the usual ones.
pub fn run(policy: &Rc<Policy>, path: &str, extra: &[(&str, &str)], body: &[u8], judge: &mut Judge<'_>) -> Ran {
    run_with(&Shared::default(), policy, (path, extra), body, judge)
}

/// The same on a worker with this memory.
pub fn run_with(
    shared: &Shared,
    policy: &Rc<Policy>,
    (path, extra): (&str, &[(&str, &str)]),
    body: &[u8],
    judge: &mut Judge<'_>,
) -> Ran {
    run_engine((shared, 7), policy, (path, extra), body, &mut |request| Ok(answer(&parsed(request), judge)))
}

/// The same with an engine that gets the bytes of each request as soon as it is out, and may fail, on a worker of a process
/// with this seed. Replies arrive in another order than the requests went out.
pub fn run_engine(
    (shared, seed): (&Shared, u64),
    policy: &Rc<Policy>,
    (path, extra): (&str, &[(&str, &str)]),
    body: &[u8],
    engine: &mut Engine<'_>,
) -> Ran {
    drive((shared, seed), policy, (path, extra), body, engine).1
}

/// The same, and then the provider reports what `usage` says of it at that second of the host's clock.
pub fn run_reported(
    shared: &Shared,
    policy: &Rc<Policy>,
    path: &str,
    body: &[u8],
    engine: &mut Engine<'_>,
    usage: impl FnOnce(&Ran) -> (Usage, u64),
) -> (Ran, Told) {
    let (mut exchange, ran) = drive((shared, 7), policy, (path, &[]), body, engine);
    let (usage, seconds) = usage(&ran);
    let told = exchange.reported(usage, seconds, shared);
    (ran, told)
}

fn drive(
    (shared, seed): (&Shared, u64),
    policy: &Rc<Policy>,
    (path, extra): (&str, &[(&str, &str)]),
    body: &[u8],
    engine: &mut Engine<'_>,
) -> (Exchange, Ran) {
    let mut exchange = Exchange::new(Rc::clone(policy), seed);
    let headers = Sent { path, length: body.len(), extra };
    let mut asked = Vec::new();
    let mut replies: Vec<(usize, Result<Vec<u8>, Fault>)> = Vec::new();
    let mut step = exchange.on(Event::Headers { headers: &headers, end: false }, shared);
    let outgoing = loop {
        step = match step {
            Step::Forward => break body.to_vec(),
            Step::Send(reduced) => break reduced.to_vec(body),
            Step::Hold | Step::Reread => exchange.on(Event::Body(body), shared),
            Step::Ask(questions) => {
                for Question { call, body, .. } in questions {
                    replies.push((call, engine(&body)));
                    asked.push(parsed(&body));
                }
                Step::Wait
            }
            Step::Wait => {
                let (call, reply) = replies.pop().expect("an exchange that waits has a call out");
                let reply = reply.as_deref().map_err(|fault| *fault);
                exchange.on(Event::Reply { call, reply }, shared)
            }
        };
    };
    let outcome = *exchange.outcome().expect("a request that left has an outcome");
    let ran = Ran { outcome, report: exchange.report().clone(), window: exchange.window(), outgoing, asked };
    (exchange, ran)
}

fn parsed(request: &[u8]) -> Value {
    serde_json::from_slice(request).expect("an engine request is JSON")
}

/// The engine's reply to `request`, with what `judge` says of each pair.
pub fn answer(request: &Value, judge: &mut Judge<'_>) -> Vec<u8> {
    let mut answers = Map::new();
    for (name, about) in request["state"]["asked"].as_object().into_iter().flatten() {
        let (call, result) = judge(name, about);
        let ordinal = name.trim_start_matches('p');
        answers.insert(format!("c{ordinal}"), json!({"type": "noul", "noul": call}));
        answers.insert(format!("r{ordinal}"), json!({"type": "noul", "noul": result}));
    }
    json!({"model": "stub", "answers": answers, "usage": {"input_tokens": 1, "output_tokens": 0}})
        .to_string()
        .into_bytes()
}
