//! Who is asked: a server that speaks System One, or one of four judges that need no model.

use std::hash::{DefaultHasher, Hash, Hasher};

use context_compaction::fault::Fault;
use context_compaction::tokens;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::support::client::Client;
use crate::support::exchange::{self, Needed};
use crate::support::{Failure, Result};

/// At or below this probability a pair leaves, under the default `decision_threshold`.
const BAR: f64 = 0.3;
/// How much a model's answers to one question scatter.
const NOISE: f64 = 0.06;
/// The path of an engine's address that names none.
const SYSTEM_ONE: &str = "/v1/systemone";

/// A decision engine.
#[derive(Debug)]
pub enum Engine {
    /// Everything is still needed.
    KeepAll,
    /// Nothing is.
    DropAll,
    /// A share of the pairs is not, by chance. Each pair has a probability of its own, and each boundary at which it is
    /// asked about adds noise of 0.06, as a model's answers have: who asks once does not notice, who asks anew on every
    /// turn changes his mind. All of it is a hash of the seed, the conversation, the pair and the boundary, so that
    /// replays agree.
    Random {
        /// Begins the hash.
        seed: u64,
        /// The share that leaves.
        share: f64,
    },
    /// What the conversation has not come back to so far is not needed.
    Uncited,
    /// A server.
    Server(Box<Server>),
}

/// A System One server and the way to it. Each call may take 30 seconds: replays measure money, not time.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    client: Client,
    path: String,
}

impl Engine {
    /// The engine of this name, or at this address.
    pub fn of(name: &str, seed: u64, share: f64) -> Result<Self> {
        match name {
            "keep-all" => Ok(Self::KeepAll),
            "drop-all" => Ok(Self::DropAll),
            "random" => Ok(Self::Random { seed, share }),
            "uncited" => Ok(Self::Uncited),
            address => match address.strip_prefix("http://") {
                Some(rest) => Ok(Self::Server(Box::new(Server::at(rest)?))),
                None => Err(Failure::new(format!(
                    "{name} is no engine: give keep-all, drop-all, random, uncited or http://host:port[/path]"
                ))),
            },
        }
    }

    /// The reply to one call, or how it failed.
    pub fn answer(&self, conversation: &str, question: &[u8]) -> std::result::Result<Vec<u8>, Fault> {
        if let Self::Server(server) = self {
            return server.answer(question);
        }
        let request: Value = serde_json::from_slice(question).map_err(|_| Fault::Unanswerable)?;
        let mut judge = |name: &str, about: &Value| self.needed(conversation, name, about);
        Ok(exchange::answer(&request, &mut judge))
    }

    fn needed(&self, conversation: &str, name: &str, about: &Value) -> Needed {
        let needed = match self {
            Self::KeepAll | Self::Server(_) => 1.0,
            Self::DropAll => 0.0,
            Self::Uncited => f64::from(about["cited_after"] != 0),
            Self::Random { seed, share } => {
                let ordinal: u64 = name.trim_start_matches('p').parse().unwrap_or(0);
                // Calls so far: no two boundaries have the same.
                let boundary = ordinal + about["age_pairs"].as_u64().unwrap_or(0);
                let own = unit(hash((seed, conversation, ordinal)));
                let own =
                    if own < *share { BAR * own / share } else { BAR + (1.0 - BAR) * (own - share) / (1.0 - share) };
                (own + NOISE * normal(hash((seed, conversation, ordinal, boundary)))).clamp(0.0, 1.0)
            }
        };
        (needed, needed)
    }
}

impl Server {
    fn at(address: &str) -> Result<Self> {
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let path = if path.is_empty() { SYSTEM_ONE.to_owned() } else { format!("/{path}") };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, client: Client::http1(&format!("http://{authority}"))?, path })
    }

    fn answer(&self, question: &[u8]) -> std::result::Result<Vec<u8>, Fault> {
        let reply = self.runtime.block_on(self.client.post(&self.path, question.to_vec()));
        match reply {
            Err(_) => Err(Fault::Reset),
            Ok(reply) if !reply.complete => Err(Fault::Reset),
            Ok(reply) if reply.status == 200 => Ok(reply.body.to_vec()),
            Ok(reply) => Err(Fault::of_status(reply.status)),
        }
    }
}

/// One arm's line to the engine, which may fail, and what went over it.
#[derive(Debug)]
pub struct Line<'a> {
    engine: &'a Engine,
    conversation: &'a str,
    /// Share of the calls that fail, and what begins the hash that picks them.
    failing: (f64, u64),
    /// Calls.
    pub calls: u64,
    /// Calls that failed, for whatever reason.
    pub failed: u64,
    /// Bytes of the calls.
    pub bytes: u64,
    /// Their estimated tokens.
    pub tokens: u64,
}

impl<'a> Line<'a> {
    /// A line on which a share of the calls fails by chance.
    pub fn new(engine: &'a Engine, conversation: &'a str, failing: (f64, u64)) -> Self {
        Self { engine, conversation, failing, calls: 0, failed: 0, bytes: 0, tokens: 0 }
    }

    /// Asks.
    pub fn ask(&mut self, question: &[u8]) -> std::result::Result<Vec<u8>, Fault> {
        self.calls += 1;
        self.bytes += question.len() as u64;
        self.tokens += tokens::estimate(question);
        let (share, seed) = self.failing;
        // The number of the call is in the hash, so that asking again helps.
        let fails = unit(hash((seed, self.conversation, "fails", self.calls))) < share;
        let answer = if fails { Err(Fault::Timeout) } else { self.engine.answer(self.conversation, question) };
        self.failed += u64::from(answer.is_err());
        answer
    }
}

/// The default hasher has fixed keys: the same hash in every process.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// From 0 up to, but not, 1.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// Nearly normal, mean 0 and deviation 1: four uniform numbers added.
fn normal(hash: u64) -> f64 {
    let parts = [hash, hash >> 16, hash >> 32, hash >> 48].map(|part| (part & 0xFFFF) as f64 / 65536.0);
    (parts.iter().sum::<f64>() - 2.0) * 3f64.sqrt()
}
