//! The HTTP side: `POST /v1/systemone` and `GET /v1/models`. It never writes what it was asked anywhere.

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::systemone::{self, MODEL};

/// The path that answers questions.
pub const PATH: &str = "/v1/systemone";
/// Longer bodies are refused, in bytes.
pub const BODY_LIMIT: usize = 1024 * 1024;
/// At or below this probability an answer counts as "not needed": what a filter removes by default.
const NOT_NEEDED: f64 = 0.3;
/// How long a request may take to arrive and be answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long requests may take to end once the server is to stop.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the engine has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were no System One.
    pub refused: u64,
    /// Questions in the answered requests.
    pub questions: u64,
    /// Answers that say "probably not needed": at most 0.3.
    pub not_needed: u64,
}

/// An engine that listens. Dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    engine: Arc<Engine>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Engine {
    key: Option<String>,
    counts: Mutex<Counts>,
}

/// Starts an engine that everybody may ask; port 0 takes any free one.
pub async fn start(address: SocketAddr) -> io::Result<Running> {
    start_with_key(address, None).await
}

/// Starts an engine that asks for `Authorization: Bearer <key>` if there is a key.
pub async fn start_with_key(address: SocketAddr, key: Option<String>) -> io::Result<Running> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let engine = Arc::new(Engine { key, counts: Mutex::default() });
    let (stop, stopped) = oneshot::channel();
    // A sender that is dropped ends the wait as well.
    let wait = async { stopped.await.unwrap_or_default() };
    let serving = axum::serve(listener, router(Arc::clone(&engine))).with_graceful_shutdown(wait);
    Ok(Running { address, engine, stop, serving: tokio::spawn(serving.into_future()) })
}

impl Running {
    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The root of its addresses, for example `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        *self.engine.counts()
    }

    /// Takes no more connections and lets requests end, two seconds at most.
    pub async fn stop(self) -> Counts {
        // Fails only where the server has ended by itself.
        let _ = self.stop.send(());
        let abort = self.serving.abort_handle();
        if timeout(FAREWELL, self.serving).await.is_err() {
            abort.abort();
        }
        *self.engine.counts()
    }
}

impl Engine {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, answers: &Map<String, Value>) {
        let not_needed = |answer: &&Value| answer["noul"].as_f64().is_some_and(|noul| noul <= NOT_NEEDED);
        let mut counts = self.counts();
        counts.answered += 1;
        counts.questions += answers.len() as u64;
        counts.not_needed += answers.values().filter(not_needed).count() as u64;
    }

    /// Why this request may not be answered, if so.
    fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        let key = self.key.as_ref()?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        match given {
            None => Some("Authorization: Bearer is required"),
            Some(given) if !same(given, key.as_bytes()) => Some("The key is not the right one"),
            Some(_) => None,
        }
    }
}

/// Compares without stopping at the first difference, so that time says nothing about the key but its length.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route(PATH, post(answer))
        .route("/v1/models", get(models))
        .fallback(async || error(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path"))
        .method_not_allowed_fallback(async || {
            error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "This path takes another method")
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn_with_state(Arc::clone(&engine), guard))
        .with_state(engine)
}

async fn guard(State(engine): State<Arc<Engine>>, request: Request, next: Next) -> Response {
    if let Some(refusal) = engine.refusal(request.headers()) {
        return error(StatusCode::UNAUTHORIZED, "authentication_error", refusal);
    }
    let late = |_| error(StatusCode::REQUEST_TIMEOUT, "timeout_error", "The request took too long to arrive");
    timeout(PATIENCE, next.run(request)).await.unwrap_or_else(late)
}

async fn answer(State(engine): State<Arc<Engine>>, body: Result<Bytes, BytesRejection>) -> Response {
    let read = match &body {
        Ok(body) => systemone::Request::read(body),
        Err(unread) => {
            engine.counts().refused += 1;
            return error(unread.status(), "invalid_request", "The body is longer than 1 MiB or did not arrive whole");
        }
    };
    match read {
        Ok(request) => {
            let answers = request.answers();
            engine.count(&answers);
            Json(request.reply(answers)).into_response()
        }
        Err(problems) => {
            engine.counts().refused += 1;
            let detail: Vec<Value> = problems.iter().map(systemone::Problem::to_json).collect();
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"detail": detail}))).into_response()
        }
    }
}

async fn models() -> Json<Value> {
    let model = |name: &str| {
        json!({
            "name": name, "description": "Rules over facts of a conversation; not a language model",
            "release_date": "2026-11-30",
        })
    };
    // The second is the name that clients of the protocol send by default.
    Json(json!({"models": [model(MODEL), model("jev-latest")]}))
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    (status, Json(json!({"detail": {"error_type": kind, "message": message}}))).into_response()
}
