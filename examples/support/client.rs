//! Clients: reqwest for what is ordinary, hyper for HTTP/2 trailers, a bare socket for what no client library sends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::HeaderMap;
use hyper::body::Frame;
use hyper::header::{HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::gate::Gate;
use super::wire::{self, Headers};
use super::{Failure, Result};

/// How long a request may take when the test says nothing.
pub const LIMIT: Duration = Duration::from_secs(30);
/// The headers of an ordinary request.
pub const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

/// The version in which a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS and without upgrade.
    Http2,
}

/// A response, whole or up to where it broke.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers; values are raw bytes.
    pub headers: Headers,
    /// The body, or what came of it.
    pub body: Bytes,
    /// Whether the body came whole.
    pub complete: bool,
    /// How long after the start of the request the headers were there.
    pub headers_after: Duration,
    /// How long after the start of the request each piece of the body came, and its length.
    pub pieces: Vec<(Duration, usize)>,
    /// Interim responses, for example 100 (bare socket only).
    pub interim: Vec<u16>,
}

impl Response {
    /// The raw value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        wire::header(&self.headers, name)
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// An ordinary client of one server, with connections that it keeps.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

impl Client {
    /// A client of the server at `base`, for example `http://127.0.0.1:8080`.
    pub fn new(base: &str, protocol: Protocol) -> Result<Self> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .timeout(LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        let builder = match protocol {
            Protocol::Http1 => builder.http1_only(),
            Protocol::Http2 => builder.http2_prior_knowledge(),
        };
        Ok(Self { http: builder.build()?, base: base.to_owned() })
    }

    /// A client over HTTP/1.1.
    pub fn http1(base: &str) -> Result<Self> {
        Self::new(base, Protocol::Http1)
    }

    /// A client over HTTP/2.
    pub fn http2(base: &str) -> Result<Self> {
        Self::new(base, Protocol::Http2)
    }

    /// POST of a JSON body with a content-length.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        self.send("POST", path, JSON, body).await
    }

    /// Any request with a body of known length.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response> {
        self.send_bytes(method, path, headers, body).await
    }

    /// [`Client::send`] with header values of any bytes; a name may stand more than once.
    pub async fn send_bytes<V: AsRef<[u8]>>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, V)],
        body: impl Into<Bytes>,
    ) -> Result<Response> {
        self.exchange(method, path, header_map(headers)?, reqwest::Body::from(body.into())).await
    }

    /// POST of a body that comes in `pieces` and says no length: chunked over HTTP/1.1.
    pub async fn post_pieces(&self, path: &str, headers: &[(&str, &str)], pieces: Vec<Bytes>) -> Result<Response> {
        let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
        self.exchange("POST", path, header_map(headers)?, reqwest::Body::wrap_stream(pieces)).await
    }

    async fn exchange(&self, method: &str, path: &str, headers: HeaderMap, body: reqwest::Body) -> Result<Response> {
        let started = Instant::now();
        let request = self.http.request(method.parse()?, format!("{}{path}", self.base));
        let mut response = request.headers(headers).body(body).send().await?;
        let mut seen = Response {
            status: response.status().as_u16(),
            headers: raw_headers(response.headers()),
            headers_after: started.elapsed(),
            ..Response::default()
        };
        let mut body = Vec::new();
        seen.complete = loop {
            match response.chunk().await {
                Ok(Some(piece)) => {
                    seen.pieces.push((started.elapsed(), piece.len()));
                    body.extend_from_slice(&piece);
                }
                Ok(None) => break true,
                Err(error) if error.is_timeout() => return Err(error.into()),
                Err(_) => break false,
            }
        };
        seen.body = body.into();
        Ok(seen)
    }
}

/// POST over a fresh HTTP/2 connection: the pieces of the body, then the trailers.
pub async fn post_http2_with_trailers(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    pieces: Vec<Bytes>,
    trailers: &[(&str, &str)],
) -> Result<Response> {
    let frames = pieces.into_iter().map(Frame::data).chain([Frame::trailers(header_map(trailers)?)]);
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, std::io::Error>)));
    let mut request = hyper::Request::builder().method("POST").uri(format!("http://{address}{path}")).body(body)?;
    *request.headers_mut() = header_map(headers)?;
    tokio::time::timeout(LIMIT, async {
        let started = Instant::now();
        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await?;
        let driving = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let headers_after = started.elapsed();
        let body = body.collect().await;
        driving.abort();
        Ok(Response {
            status: head.status.as_u16(),
            headers: raw_headers(&head.headers),
            headers_after,
            complete: body.is_ok(),
            body: body.map(|body| body.to_bytes()).unwrap_or_default(),
            ..Response::default()
        })
    })
    .await?
}

/// One thing that the bare socket does; see [`wire::request_head`] and [`wire::chunked`] for bytes to send.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends these bytes at once.
    Send(Vec<u8>),
    /// Sends these bytes one by one, each in a segment of its own.
    Drip(Vec<u8>),
    /// Does nothing for a while.
    Wait(Duration),
    /// Goes on when the gate is open.
    Await(Gate),
    /// Goes on when `100 Continue` has come.
    AwaitContinue,
}

/// Writes what it is told to a fresh connection, and meanwhile reads one final response.
pub async fn raw(address: SocketAddr, steps: Vec<Step>) -> Result<Response> {
    raw_within(LIMIT, address, steps).await
}

/// [`raw`] with a limit of its own, for requests that are expected to hang.
pub async fn raw_within(limit: Duration, address: SocketAddr, steps: Vec<Step>) -> Result<Response> {
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let continued = Notify::new();
        let mut reading = std::pin::pin!(read_final(BufReader::new(read), &continued));
        let mut writing = std::pin::pin!(write_steps(write, steps, &continued));
        tokio::select! {
            biased;
            response = &mut reading => response,
            // A server may answer and close before it has read everything; the answer is what counts.
            // The writing half lives on until the answer is there, else Envoy sees a client that left.
            _write = &mut writing => reading.await,
        }
    };
    let timed = tokio::time::timeout(limit, exchange).await;
    timed.map_err(|_| Failure::new(format!("no whole response within {limit:?}")))?
}

/// Does the steps on a fresh connection and then leaves without waiting for an answer.
pub async fn raw_and_leave(address: SocketAddr, steps: Vec<Step>) -> Result<()> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (_read, write) = stream.into_split();
    let never = Notify::new();
    tokio::time::timeout(LIMIT, write_steps(write, steps, &never)).await??;
    Ok(())
}

/// Writes the steps and gives the writing half back: dropping it would close that side.
async fn write_steps(
    mut stream: tokio::net::tcp::OwnedWriteHalf,
    steps: Vec<Step>,
    continued: &Notify,
) -> Result<tokio::net::tcp::OwnedWriteHalf> {
    for step in steps {
        match step {
            Step::Send(bytes) => stream.write_all(&bytes).await?,
            Step::Drip(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await?;
                    tokio::task::yield_now().await;
                }
            }
            Step::Wait(pause) => tokio::time::sleep(pause).await,
            Step::Await(gate) => gate.opened().await,
            Step::AwaitContinue => continued.notified().await,
        }
    }
    Ok(stream)
}

async fn read_final(mut stream: BufReader<tokio::net::tcp::OwnedReadHalf>, continued: &Notify) -> Result<Response> {
    let started = Instant::now();
    let mut interim = Vec::new();
    loop {
        let message = wire::read_response(&mut stream).await?;
        let message = message.ok_or_else(|| Failure::new("the connection closed without a response"))?;
        let status = message.status();
        if (100..200).contains(&status) {
            interim.push(status);
            continued.notify_one();
            continue;
        }
        return Ok(Response {
            status,
            headers: message.headers,
            pieces: vec![(started.elapsed(), message.body.len())],
            headers_after: started.elapsed(),
            body: message.body.into(),
            complete: message.complete,
            interim,
        });
    }
}

fn header_map<V: AsRef<[u8]>>(headers: &[(&str, V)]) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_bytes(value.as_ref())?);
    }
    Ok(map)
}

fn raw_headers(headers: &HeaderMap) -> Headers {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}
