//! A stand-in for an LLM provider: records every request to the byte and answers as told.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use super::gate::Gate;
use super::{Failure, Result, eventually, servers};

/// How a request said where its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By a content-length.
    ContentLength(u64),
    /// By `transfer-encoding: chunked`.
    Chunked,
    /// By neither: the end of an HTTP/2 stream, or no body at all.
    Unstated,
}

/// What became of a request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEnd {
    /// It is still coming.
    Arriving,
    /// It came whole.
    Complete,
    /// The connection or the stream broke first.
    Broken(String),
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct ProviderRequest {
    /// Its place in the order of arrival, from 0; never used twice.
    pub number: usize,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The headers; values are raw bytes.
    pub headers: HeaderMap,
    /// How the end of the body was announced.
    pub framing: Framing,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The trailers.
    pub trailers: HeaderMap,
    /// When the headers were there.
    pub headers_at: Instant,
    /// When the body ended; until then, when the headers were there.
    pub ended_at: Instant,
    /// Whether the body came whole.
    pub end: BodyEnd,
}

impl ProviderRequest {
    /// The raw value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(hyper::header::HeaderValue::as_bytes)
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// What the provider answers.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    delay: Duration,
    gate: Option<Gate>,
    body: AnswerBody,
}

#[derive(Debug, Clone)]
enum AnswerBody {
    Whole(Bytes),
    /// Pieces with the pause before each, and whether the stream breaks after the last.
    Pieces(Vec<(Duration, Bytes)>, bool),
    /// No answer: the connection (HTTP/2: the stream) breaks.
    Reset,
}

impl Answer {
    /// A JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// Any body.
    pub fn body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::new(status, AnswerBody::Whole(body.into())).header("content-type", content_type)
    }

    /// A stream of server-sent events, each line of `events` after a pause of `gap`.
    pub fn events(events: &[&str], gap: Duration) -> Self {
        let piece = |event: &&str| (gap, Bytes::from(format!("data: {event}\n\n")));
        Self::pieces(events.iter().map(piece).collect()).header("content-type", "text/event-stream")
    }

    /// Pieces of a body of unstated length, with the pause before each.
    pub fn pieces(pieces: Vec<(Duration, Bytes)>) -> Self {
        Self::new(200, AnswerBody::Pieces(pieces, false))
    }

    /// The pieces, and then a broken stream.
    pub fn broken_after(pieces: Vec<(Duration, Bytes)>) -> Self {
        Self::new(200, AnswerBody::Pieces(pieces, true))
    }

    /// No answer at all: the connection, or the HTTP/2 stream, breaks.
    pub fn reset() -> Self {
        Self::new(200, AnswerBody::Reset)
    }

    /// Waits before it answers.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Answers once the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn new(status: u16, body: AnswerBody) -> Self {
        Self { status, headers: Vec::new(), delay: Duration::ZERO, gate: None, body }
    }
}

/// The default answer: 200 and a short chat completion.
pub fn short_completion() -> Answer {
    let message = json!({"role": "assistant", "content": "ok"});
    Answer::json(
        200,
        &json!({
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
        }),
    )
}

/// Answers `status` to the first `times` requests and the default afterwards.
pub fn failing_first(times: usize, status: u16) -> impl Fn(&ProviderRequest) -> Answer + Send + Sync + 'static {
    move |request| {
        if request.number < times { Answer::json(status, &json!({"error": "try again"})) } else { short_completion() }
    }
}

type Responder = Arc<dyn Fn(&ProviderRequest) -> Answer + Send + Sync>;

/// A recording provider on a free port of 127.0.0.1; HTTP/1.1 and HTTP/2 without TLS on the same port.
pub struct Provider {
    address: SocketAddr,
    record: Arc<Record>,
    accepting: JoinHandle<()>,
}

struct Record {
    requests: Mutex<Vec<ProviderRequest>>,
    arrived: Mutex<usize>,
    connections: Mutex<Vec<Instant>>,
    responder: Mutex<Responder>,
}

impl Provider {
    /// Answers every request with [`short_completion`].
    pub fn start() -> Result<Self> {
        Self::answering(|_| short_completion())
    }

    /// Answers as `responder` says, which sees the request with its whole body.
    pub fn answering(responder: impl Fn(&ProviderRequest) -> Answer + Send + Sync + 'static) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let record = Arc::new(Record {
            requests: Mutex::default(),
            arrived: Mutex::default(),
            connections: Mutex::default(),
            responder: Mutex::new(Arc::new(responder)),
        });
        let _inside = servers().enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let accepting = servers().spawn(accept(listener, Arc::clone(&record)));
        Ok(Self { address, record, accepting })
    }

    /// Answers differently from now on.
    pub fn answer_with(&self, responder: impl Fn(&ProviderRequest) -> Answer + Send + Sync + 'static) {
        *locked(&self.record.responder) = Arc::new(responder);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in order of arrival, those whose body is still coming included.
    pub fn requests(&self) -> Vec<ProviderRequest> {
        locked(&self.record.requests).clone()
    }

    /// Takes every request so far out of the record.
    pub fn take(&self) -> Vec<ProviderRequest> {
        std::mem::take(&mut *locked(&self.record.requests))
    }

    /// The record once it holds `count` requests whose body has ended, within ten seconds.
    pub async fn wait_for(&self, count: usize) -> Result<Vec<ProviderRequest>> {
        let ended = || {
            let requests = self.requests();
            let ended = requests.iter().filter(|request| request.end != BodyEnd::Arriving).count();
            (ended >= count).then_some(requests)
        };
        eventually(Duration::from_secs(10), &format!("{count} requests at the provider"), ended).await
    }

    /// Takes the only request of the record; fails when there is none or more than one.
    pub async fn take_one(&self) -> Result<ProviderRequest> {
        self.wait_for(1).await?;
        let mut requests = self.take();
        match (requests.pop(), requests.len()) {
            (Some(request), 0) => Ok(request),
            (_, others) => Err(Failure::new(format!("{} requests arrived where one was expected", others + 1))),
        }
    }

    /// When each connection was opened.
    pub fn connections(&self) -> Vec<Instant> {
        locked(&self.record.connections).clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes connections until it is dropped, and its connections with it.
async fn accept(listener: tokio::net::TcpListener, record: Arc<Record>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        locked(&record.connections).push(Instant::now());
        let _ = stream.set_nodelay(true);
        let record = Arc::clone(&record);
        connections.spawn(async move {
            let service = service_fn(|request| serve(request, Arc::clone(&record)));
            // An error here is a connection that a peer, or an `Answer::reset`, broke.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve(
    request: Request<Incoming>,
    record: Arc<Record>,
) -> io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>> {
    let request = receive(request, &record).await;
    let responder = Arc::clone(&*locked(&record.responder));
    let answer = responder(&request);
    tokio::time::sleep(answer.delay).await;
    if let Some(gate) = &answer.gate {
        gate.opened().await;
    }
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let body = match answer.body {
        // Over HTTP/2 hyper would send a body even here, which is a protocol error.
        AnswerBody::Whole(bytes) => Full::new(if request.method == "HEAD" { Bytes::new() } else { bytes })
            .map_err(|never: Infallible| match never {})
            .boxed_unsync(),
        AnswerBody::Pieces(pieces, breaks) => StreamBody::new(paced(pieces, breaks)).boxed_unsync(),
        AnswerBody::Reset => return Err(broken()),
    };
    response.body(body).map_err(io::Error::other)
}

/// Records the request when its headers are there, and again when its body has ended.
async fn receive(request: Request<Incoming>, record: &Record) -> ProviderRequest {
    let (head, mut incoming) = request.into_parts();
    let now = Instant::now();
    let mut seen = ProviderRequest {
        number: next_number(record),
        method: head.method.to_string(),
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        version: head.version,
        framing: framing(&head.headers),
        headers: head.headers,
        body: Bytes::new(),
        trailers: HeaderMap::new(),
        headers_at: now,
        ended_at: now,
        end: BodyEnd::Arriving,
    };
    locked(&record.requests).push(seen.clone());
    let mut body = Vec::new();
    seen.end = loop {
        match incoming.frame().await {
            None => break BodyEnd::Complete,
            Some(Err(error)) => break BodyEnd::Broken(Failure::from(error).to_string()),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => seen.trailers = frame.into_trailers().unwrap_or_default(),
            },
        }
    };
    seen.body = body.into();
    seen.ended_at = Instant::now();
    if let Some(slot) = locked(&record.requests).iter_mut().find(|slot| slot.number == seen.number) {
        *slot = seen.clone();
    }
    seen
}

fn next_number(record: &Record) -> usize {
    let mut arrived = locked(&record.arrived);
    *arrived += 1;
    *arrived - 1
}

fn framing(headers: &HeaderMap) -> Framing {
    let length = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
    match length {
        Some(length) => Framing::ContentLength(length),
        None if headers.contains_key("transfer-encoding") => Framing::Chunked,
        None => Framing::Unstated,
    }
}

/// The pieces, each after its pause, and an error after the last if the stream breaks.
fn paced(pieces: Vec<(Duration, Bytes)>, breaks: bool) -> impl stream::Stream<Item = io::Result<Frame<Bytes>>> {
    stream::unfold((pieces.into_iter(), breaks), async |(mut pieces, breaks)| match pieces.next() {
        Some((pause, piece)) => {
            tokio::time::sleep(pause).await;
            Some((Ok(Frame::data(piece)), (pieces, breaks)))
        }
        None if breaks => {
            // An error right behind a piece would overtake it: hyper drops what it has not flushed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Err(broken()), (pieces, false)))
        }
        None => None,
    })
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the provider was told to break here")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
