//! What the stand-in engine does with a request: right answers, wrong answers, and none.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::engine::EngineRequest;
use super::gate::Gate;
use super::wire;

/// How long a connection stays open on which no answer comes; longer than any test waits.
const NEVER: Duration = Duration::from_secs(120);
/// Stands in everything that the engine sends, right or wrong: whoever repeats it repeats a stranger's text.
pub const CANARY: &str = "canary-7341";
const NEEDED: f64 = 0.98;
const NOT_NEEDED: f64 = 0.02;

/// A whole reply of a [`Behaviour::Custom`] engine.
#[derive(Debug, Clone)]
pub struct EngineReply {
    /// The status code.
    pub status: u16,
    /// The headers; `content-length` is added.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl EngineReply {
    /// A JSON reply.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::text(status, &body.to_string())
    }

    /// Any text under `application/json`.
    pub fn text(status: u16, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.as_bytes().to_vec() }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Stub\r\nx-engine: {CANARY}\r\n", self.status);
        if self.status != 204 {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        [self.head(), self.body.clone()].concat()
    }
}

/// A closure that answers for the engine.
pub type CustomEngine = Arc<dyn Fn(&EngineRequest) -> EngineReply + Send + Sync>;
/// A closure that says what the engine does.
pub type Chooser = Arc<dyn Fn(&EngineRequest) -> Behaviour + Send + Sync>;

/// What the engine does. The faults change the right answer of [`Behaviour::DropAll`], so that a filter that takes
/// them at their word removes something.
#[derive(Clone, Default)]
pub enum Behaviour {
    /// Neither the call nor the whole result is needed, for every pair.
    #[default]
    DropAll,
    /// Everything is needed.
    KeepAll,
    /// Every call is needed, no whole result is.
    KeepCallShortenResult,
    /// [`Behaviour::DropAll`] for a pair whose text in the request contains one of these, else everything is needed.
    DropIfContains(Vec<String>),
    /// Whatever the closure says.
    Custom(CustomEngine),
    /// For each request the behaviour that the closure names.
    Choose(Chooser),
    /// This status and this JSON.
    Reply(u16, Value),
    /// [`Behaviour::DropAll`] in chunks, with a trailer.
    InChunks,
    /// Another behaviour, this much later.
    Delay(Duration, Box<Behaviour>),
    /// Another behaviour, once the gate is open.
    Behind(Gate, Box<Behaviour>),
    /// Nothing listens on the port.
    RefuseConnection,
    /// This status, with the right answer in the body.
    Status(u16),
    /// The request is read and nothing is ever sent.
    NeverAnswer,
    /// 200 with an empty body.
    Empty200,
    /// 200 with a body that is not JSON.
    Garbage200,
    /// The right answer, cut in the middle, with a content-length that fits.
    TruncatedJson,
    /// The right answer for ids that were not asked.
    OtherIds,
    /// The right answer for every second question.
    HalfOfTheAnswers,
    /// The right answer and one more, for an id that was not asked.
    ExtraAnswer,
    /// NaN in place of a number.
    NotANumber,
    /// A probability of 1.5.
    OutOfRange,
    /// The probability as a string.
    NumberAsString,
    /// One id twice, with opposite answers.
    DuplicateKeys,
    /// The right answer as `text/plain`.
    WrongContentType,
    /// The status line at once, the other headers this much later.
    SlowHeaders(Duration),
    /// The head at once, then one byte of the body at a time with this pause before each.
    SlowDrip(Duration),
    /// The head and half of the body, then a reset of the connection.
    ResetMidBody,
    /// The connection is reset before anything is sent.
    ResetAtOnce,
    /// The right answer with this many MiB of padding in the same object.
    Oversized(usize),
    /// 307 to this location, with the right answer in the body.
    Redirect(String),
    /// Something other than HTTP.
    NotHttp,
}

impl Behaviour {
    /// Drops, shortens or keeps each pair by nothing but the bytes of the request.
    pub fn by_hash() -> Self {
        Self::custom(|request| {
            let answer = |question: String| {
                let mut hasher = DefaultHasher::new();
                (&request.body, &question).hash(&mut hasher);
                (question, json!({"type": "noul", "noul": (hasher.finish() % 10) as f64 / 10.0}))
            };
            let answers: Map<String, Value> = request.questions().into_iter().map(answer).collect();
            EngineReply::json(200, &json!({"model": "stub", "answers": answers}))
        })
    }

    /// A [`Behaviour::Custom`] engine.
    pub fn custom(answer: impl Fn(&EngineRequest) -> EngineReply + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(answer))
    }

    /// A [`Behaviour::Choose`] engine.
    pub fn choose(choice: impl Fn(&EngineRequest) -> Self + Send + Sync + 'static) -> Self {
        Self::Choose(Arc::new(choice))
    }

    /// Every way to fail, with a name; none of them may change a request. The slow ones take longer than `timeout`.
    pub fn faults(timeout: Duration) -> Vec<(&'static str, Self)> {
        let slow = timeout * 2;
        vec![
            ("refuse_connection", Self::RefuseConnection),
            ("status_204", Self::Status(204)),
            ("status_400", Self::Status(400)),
            ("status_401", Self::Status(401)),
            ("status_429", Self::Status(429)),
            ("status_500", Self::Status(500)),
            ("status_503", Self::Status(503)),
            ("never_answer", Self::NeverAnswer),
            ("delay", Self::Delay(slow, Box::new(Self::DropAll))),
            ("empty_200", Self::Empty200),
            ("garbage_200", Self::Garbage200),
            ("truncated_json", Self::TruncatedJson),
            ("other_ids", Self::OtherIds),
            ("half_of_the_answers", Self::HalfOfTheAnswers),
            ("extra_answer", Self::ExtraAnswer),
            ("not_a_number", Self::NotANumber),
            ("out_of_range", Self::OutOfRange),
            ("number_as_string", Self::NumberAsString),
            ("duplicate_keys", Self::DuplicateKeys),
            ("wrong_content_type", Self::WrongContentType),
            ("slow_headers", Self::SlowHeaders(slow)),
            ("slow_drip", Self::SlowDrip(slow / 10)),
            ("reset_mid_body", Self::ResetMidBody),
            ("reset_at_once", Self::ResetAtOnce),
            ("oversized_2_mib", Self::Oversized(2)),
            ("oversized_40_mib", Self::Oversized(40)),
            ("redirect", Self::Redirect("/v1/systemone".to_owned())),
            ("not_http", Self::NotHttp),
        ]
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::faults(Duration::ZERO).into_iter();
        let same = |other: &Self| std::mem::discriminant(other) == std::mem::discriminant(self);
        let name = named.into_iter().find(|(_, fault)| same(fault)).map(|(name, _)| name);
        f.write_str(name.unwrap_or("answers"))
    }
}

/// One thing that the engine does on the connection.
#[derive(Debug)]
pub(super) enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends this many spaces.
    SendSpaces(usize),
    /// Does nothing for a while.
    Wait(Duration),
    /// Goes on when the gate is open.
    Await(Gate),
    /// Resets the connection.
    Reset,
}

/// What `behaviour` does with a request, in order.
pub(super) fn acts(behaviour: &Behaviour, request: &EngineRequest) -> Vec<Act> {
    let answers = |value: &dyn Fn(&str) -> f64| right_answer(request, value);
    let drop_all = nothing_needed(request);
    let send = |reply: EngineReply| vec![Act::Send(reply.bytes())];
    match behaviour {
        Behaviour::DropAll | Behaviour::RefuseConnection => send(EngineReply::json(200, &drop_all)),
        Behaviour::KeepAll => send(EngineReply::json(200, &answers(&|_| NEEDED))),
        Behaviour::KeepCallShortenResult => {
            let value = |id: &str| if id.starts_with('c') { NEEDED } else { NOT_NEEDED };
            send(EngineReply::json(200, &answers(&value)))
        }
        Behaviour::DropIfContains(markers) => {
            let marked = |id: &str| markers.iter().any(|marker| request.pair_text(id).contains(marker));
            send(EngineReply::json(200, &answers(&|id| if marked(id) { NOT_NEEDED } else { NEEDED })))
        }
        Behaviour::Custom(answer) => send(answer(request)),
        Behaviour::Choose(choice) => acts(&choice(request), request),
        Behaviour::Reply(status, body) => send(EngineReply::json(*status, body)),
        Behaviour::InChunks => {
            let head = format!(
                "HTTP/1.1 200 Stub\r\nx-engine: {CANARY}\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
            );
            let body = wire::chunked(drop_all.to_string().as_bytes(), 100, &[("x-sum", CANARY)]);
            vec![Act::Send([head.into_bytes(), body].concat())]
        }
        Behaviour::Delay(pause, then) => {
            let mut late = vec![Act::Wait(*pause)];
            late.extend(acts(then, request));
            late
        }
        Behaviour::Behind(gate, then) => {
            let mut later = vec![Act::Await(gate.clone())];
            later.extend(acts(then, request));
            later
        }
        Behaviour::SlowHeaders(pause) => {
            let mut bytes = EngineReply::json(200, &drop_all).bytes();
            let rest = bytes.split_off(bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1));
            vec![Act::Send(bytes), Act::Wait(*pause), Act::Send(rest)]
        }
        Behaviour::SlowDrip(pause) => {
            let reply = EngineReply::json(200, &drop_all);
            let drips = reply.body.iter().flat_map(|byte| [Act::Wait(*pause), Act::Send(vec![*byte])]);
            [Act::Send(reply.head())].into_iter().chain(drips).collect()
        }
        Behaviour::ResetMidBody => {
            let mut bytes = EngineReply::json(200, &drop_all).bytes();
            bytes.truncate(bytes.len() - drop_all.to_string().len() / 2);
            // The pause lets the first half arrive before the reset discards what is not read yet.
            vec![Act::Send(bytes), Act::Wait(Duration::from_millis(50)), Act::Reset]
        }
        Behaviour::Oversized(mebibytes) => padded(&drop_all, mebibytes << 20),
        Behaviour::ResetAtOnce => vec![Act::Reset],
        Behaviour::NeverAnswer => vec![Act::Wait(NEVER), Act::Reset],
        Behaviour::NotHttp => vec![Act::Send(format!("SSH-2.0-{CANARY}\r\n\r\n").into_bytes()), Act::Reset],
        fault => send(wrong_reply(fault, drop_all)),
    }
}

/// The answer with a member of `padding` spaces at its end, which is never held in memory.
fn padded(answer: &Value, padding: usize) -> Vec<Act> {
    let mut start = answer.to_string();
    start.truncate(start.len() - 1);
    start.push_str(r#","padding":""#);
    let end = r#""}"#;
    let length = start.len() + padding + end.len();
    let head = format!("HTTP/1.1 200 Stub\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    vec![Act::Send((head + &start).into_bytes()), Act::SendSpaces(padding), Act::Send(end.as_bytes().to_vec())]
}

/// The faults that are whole replies.
fn wrong_reply(fault: &Behaviour, mut right: Value) -> EngineReply {
    let text = right.to_string();
    let as_text = |value: &str| text.replacen(&NOT_NEEDED.to_string(), value, 1);
    let mut reply = EngineReply::text(200, &text);
    match fault {
        Behaviour::Status(204) => return EngineReply { status: 204, headers: Vec::new(), body: Vec::new() },
        Behaviour::Status(status) => reply.status = *status,
        Behaviour::Empty200 => reply.body.clear(),
        Behaviour::Garbage200 => reply.body = format!("<html>{CANARY}</html>").into_bytes(),
        Behaviour::TruncatedJson => reply.body.truncate(text.len() / 2),
        Behaviour::NotANumber => reply.body = as_text("NaN").into_bytes(),
        Behaviour::OutOfRange => reply.body = as_text("1.5").into_bytes(),
        Behaviour::NumberAsString => reply.body = as_text("\"0.02\"").into_bytes(),
        Behaviour::DuplicateKeys => reply.body = first_answer_twice(&right).into_bytes(),
        Behaviour::WrongContentType => reply.headers = vec![("content-type".to_owned(), "text/plain".to_owned())],
        Behaviour::Redirect(location) => {
            reply.status = 307;
            reply.headers.push(("location".to_owned(), location.clone()));
        }
        changed_ids => {
            if let Some(answers) = right["answers"].as_object_mut() {
                change_ids(changed_ids, answers);
            }
            return EngineReply::json(200, &right);
        }
    }
    reply
}

fn change_ids(fault: &Behaviour, answers: &mut Map<String, Value>) {
    let asked = std::mem::take(answers).into_iter();
    *answers = match fault {
        Behaviour::OtherIds => asked.map(|(id, answer)| (format!("{id}999"), answer)).collect(),
        Behaviour::HalfOfTheAnswers => asked.step_by(2).collect(),
        Behaviour::ExtraAnswer => asked.chain([("r99999".to_owned(), answer(NOT_NEEDED))]).collect(),
        _ => asked.collect(),
    };
}

fn first_answer_twice(right: &Value) -> String {
    let first = right["answers"].as_object().and_then(|answers| answers.keys().next().cloned()).unwrap_or_default();
    let again = format!("\"answers\":{{\"{first}\":{},", answer(NEEDED));
    right.to_string().replacen("\"answers\":{", &again, 1)
}

/// The answer of [`Behaviour::DropAll`].
pub fn nothing_needed(request: &EngineRequest) -> Value {
    right_answer(request, &|_| NOT_NEEDED)
}

fn right_answer(request: &EngineRequest, value: &dyn Fn(&str) -> f64) -> Value {
    let answers: Map<String, Value> =
        request.questions().into_iter().map(|id| (id.clone(), answer(value(&id)))).collect();
    json!({"model": CANARY, "answers": answers, "usage": {"input_tokens": request.body.len() / 4, "output_tokens": 0}})
}

fn answer(noul: f64) -> Value {
    json!({"type": "noul", "noul": noul})
}
