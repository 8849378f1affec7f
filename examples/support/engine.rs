//! A stand-in for the decision engine: System One over HTTP/1.1 by hand, so that it can fail in every way.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::engine_behaviour::{Act, Behaviour, acts};
use super::wire::{self, Headers};
use super::{Failure, Result, eventually, servers};

/// The path that the stand-in serves unless told otherwise.
pub const SYSTEM_ONE: &str = "/v1/systemone";

/// One request to the engine as it arrived.
#[derive(Debug, Clone)]
pub struct EngineRequest {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The headers; values are raw bytes.
    pub headers: Headers,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// When it was there.
    pub at: Instant,
    /// The connection's ordinal, from 0.
    pub connection: usize,
}

impl EngineRequest {
    /// The raw value of a header, for example `authorization`.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        wire::header(&self.headers, name)
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The ids of the questions, in order.
    pub fn questions(&self) -> Vec<String> {
        let json = self.json();
        json["questions"].as_object().map(|questions| questions.keys().cloned().collect()).unwrap_or_default()
    }

    /// What the request says of the pair that a question is about: the JSON text of `state.asked.p<n>`.
    pub fn pair_text(&self, question: &str) -> String {
        self.json()["state"]["asked"][format!("p{}", question.trim_start_matches(['c', 'r', 'p']))].to_string()
    }

    /// What is wrong with it as a System One request.
    pub fn problem(&self) -> Option<String> {
        let json = self.json();
        let questions = json["questions"].as_object();
        if self.method != "POST" {
            Some(format!("method {}", self.method))
        } else if !json["state"].is_object() {
            Some("`state` is no object".to_owned())
        } else if !json["model"].is_string() {
            Some("`model` is no string".to_owned())
        } else if questions.is_none_or(serde_json::Map::is_empty) {
            Some("`questions` is no object with members".to_owned())
        } else {
            let other = questions.into_iter().flatten().find(|(_, question)| question["type"] != "noul");
            other.map(|(id, _)| format!("question {id} is not of type noul"))
        }
    }
}

/// A System One server on a free port of 127.0.0.1.
///
/// It answers 404 on another path, and 400 to a request that is not System One unless its behaviour is custom.
pub struct StubEngine {
    address: SocketAddr,
    record: Arc<Record>,
    listening: Mutex<Listening>,
}

struct Record {
    path: Mutex<String>,
    behaviour: Mutex<Behaviour>,
    requests: Mutex<Vec<EngineRequest>>,
    connections: Mutex<usize>,
}

/// The port, open or held shut.
enum Listening {
    Open(JoinHandle<()>),
    /// Bound and not listening: connections are refused and nobody else gets the port.
    Shut(TcpSocket),
    /// Between the two.
    Changing,
}

impl StubEngine {
    /// Starts it with a first behaviour.
    pub fn start(behaviour: Behaviour) -> Result<Self> {
        let _inside = servers().enter();
        let socket = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let record = Record {
            path: Mutex::new(SYSTEM_ONE.to_owned()),
            behaviour: Mutex::default(),
            requests: Mutex::default(),
            connections: Mutex::default(),
        };
        let engine = Self {
            address: socket.local_addr()?,
            record: Arc::new(record),
            listening: Mutex::new(Listening::Shut(socket)),
        };
        engine.behave(behaviour)?;
        Ok(engine)
    }

    /// Behaves differently from the next request on.
    pub fn behave(&self, behaviour: Behaviour) -> Result<()> {
        let refuse = matches!(behaviour, Behaviour::RefuseConnection);
        *locked(&self.record.behaviour) = behaviour;
        let _inside = servers().enter();
        let mut listening = locked(&self.listening);
        *listening = match std::mem::replace(&mut *listening, Listening::Changing) {
            Listening::Open(accepting) if refuse => {
                end(&accepting)?;
                Listening::Shut(bound(self.address)?)
            }
            Listening::Shut(socket) if !refuse => {
                let listener = socket.listen(1024)?;
                Listening::Open(servers().spawn(accept(listener, Arc::clone(&self.record))))
            }
            unchanged => unchanged,
        };
        Ok(())
    }

    /// Serves this path and no other.
    pub fn serve_path(&self, path: &str) {
        path.clone_into(&mut locked(&self.record.path));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to put into the filter's `endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}{}", self.address, locked(&self.record.path))
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<EngineRequest> {
        locked(&self.record.requests).clone()
    }

    /// Takes every request so far out of the record.
    pub fn take(&self) -> Vec<EngineRequest> {
        std::mem::take(&mut *locked(&self.record.requests))
    }

    /// The record once it holds `count` requests, within ten seconds.
    pub async fn wait_for(&self, count: usize) -> Result<Vec<EngineRequest>> {
        let enough = || Some(self.requests()).filter(|requests| requests.len() >= count);
        eventually(Duration::from_secs(10), &format!("{count} requests at the engine"), enough).await
    }

    /// How many connections have been opened.
    pub fn connections(&self) -> usize {
        *locked(&self.record.connections)
    }
}

impl Drop for StubEngine {
    fn drop(&mut self) {
        if let Listening::Open(accepting) = &*locked(&self.listening) {
            accepting.abort();
        }
    }
}

/// A socket that holds a port and refuses connections until it listens.
fn bound(address: SocketAddr) -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(|error| Failure::from(error).while_doing(format!("taking {address}")))?;
    Ok(socket)
}

/// Ends the accepting task, and returns only when its listener is closed.
fn end(accepting: &JoinHandle<()>) -> Result<()> {
    accepting.abort();
    let deadline = Instant::now() + Duration::from_secs(2);
    while !accepting.is_finished() {
        if Instant::now() > deadline {
            return Err(Failure::new("the stand-in engine does not stop listening"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Takes connections until it is dropped, and its connections with it.
async fn accept(listener: TcpListener, record: Arc<Record>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let record = Arc::clone(&record);
        let connection = {
            let mut opened = locked(&record.connections);
            *opened += 1;
            *opened - 1
        };
        // An error here is a connection that the peer broke.
        connections.spawn(async move { serve(stream, connection, &record).await.unwrap_or_default() });
    }
}

/// Answers one request after another until the connection ends.
async fn serve(stream: TcpStream, connection: usize, record: &Record) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(message) = wire::read_request(&mut stream).await? {
        if !message.complete {
            return Ok(());
        }
        let mut line = message.start_line.split(' ').map(str::to_owned);
        let request = EngineRequest {
            method: line.next().unwrap_or_default(),
            path: line.next().unwrap_or_default(),
            headers: message.headers,
            body: message.body,
            at: Instant::now(),
            connection,
        };
        locked(&record.requests).push(request.clone());
        let acts = reply_to(&request, record);
        if !carry_out(acts, stream.get_mut()).await? {
            return Ok(());
        }
    }
    Ok(())
}

fn reply_to(request: &EngineRequest, record: &Record) -> Vec<Act> {
    let behaviour = locked(&record.behaviour).clone();
    let refusal = |status, problem: &str| acts(&Behaviour::Reply(status, json!({"error": problem})), request);
    if request.path != *locked(&record.path) {
        return refusal(404, "no such path");
    }
    match request.problem().filter(|_| !matches!(behaviour, Behaviour::Custom(_))) {
        Some(problem) => refusal(400, &problem),
        None => acts(&behaviour, request),
    }
}

/// Whether the connection goes on afterwards.
async fn carry_out(acts: Vec<Act>, stream: &mut TcpStream) -> io::Result<bool> {
    for act in acts {
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).await?,
            Act::SendSpaces(mut count) => {
                while count > 0 {
                    let sent = stream.write(&[b' '; 1 << 16][..count.min(1 << 16)]).await?;
                    count -= sent;
                }
            }
            Act::Wait(pause) => tokio::time::sleep(pause).await,
            Act::Await(gate) => gate.opened().await,
            Act::Reset => {
                stream.set_zero_linger()?;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
