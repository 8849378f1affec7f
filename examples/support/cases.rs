//! The written cases: a request body, what the engine says, and what must hold of the body that leaves.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::engine_behaviour::Behaviour;
use super::paths::shared;
use super::{Failure, Result};

/// The listener's buffer limit under which the cases run.
pub const LISTENER_BUFFER: u32 = 32 << 20;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name, for example `01-openai-parallel-batch`.
    pub slug: String,
    /// What must hold: `expect.json`.
    pub expect: Value,
    /// The bodies to send, in order: more than one where later turns of the conversation count.
    pub bodies: Vec<Vec<u8>>,
}

/// Whether the cases stand beside the repository.
pub fn available() -> bool {
    shared("cases/check.py").is_file()
}

/// Every case, in order of its name.
pub fn load_all() -> Result<Vec<Case>> {
    let folder = shared("cases");
    let entries = std::fs::read_dir(&folder).map_err(|error| Failure::from(error).while_doing(folder.display()))?;
    let mut slugs = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        slugs.extend(name.strip_suffix(".expect.json").map(str::to_owned));
    }
    slugs.sort();
    slugs.iter().map(|slug| load(slug)).collect()
}

/// The case of this name.
pub fn load(slug: &str) -> Result<Case> {
    let read = |file: &str| {
        let path = shared("cases").join(file);
        std::fs::read(&path).map_err(|error| Failure::from(error).while_doing(path.display()))
    };
    let expect: Value = serde_json::from_slice(&read(&format!("{slug}.expect.json"))?)?;
    let files = expect["request"]["bodies"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let bodies = files.map(read).collect::<Result<_>>()?;
    Ok(Case { slug: slug.to_owned(), bodies, expect })
}

impl Case {
    /// The path of the request.
    pub fn path(&self) -> &str {
        self.expect["request"]["path"].as_str().unwrap_or("/")
    }

    /// The headers of the request.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let headers = self.expect["request"]["headers"].as_object().into_iter().flatten();
        headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
    }

    /// `prune`, `passthrough` or `prune_or_passthrough`.
    pub fn outcome(&self) -> &str {
        self.expect["outcome"].as_str().unwrap_or_default()
    }

    /// The content-encodings with which the body has to be sent; `check` cannot look into such bodies.
    pub fn encodings(&self) -> Vec<&str> {
        self.expect["transport"]["encode_body"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The settings in the filter's own names, for an engine that listens at `endpoint`.
    pub fn configuration(&self, endpoint: &str) -> Value {
        let setting = |name: &str, default: Value| self.expect["settings"].get(name).cloned().unwrap_or(default);
        json!({
            "enabled": true,
            "engine": "local",
            "endpoint": endpoint,
            "model": "stub",
            "threshold_tokens": setting("token_threshold", json!(0)),
            "floor_bytes": setting("floor_bytes", json!(0)),
            "preserve_recent": setting("preserve_recent", json!(0)),
            "min_reduction": setting("min_reduction", json!(0)),
            "truncate_head_chars": setting("head_chars", json!(800)),
            "decision_threshold": 0.7,
            "epoch_tokens": 0,
            "epoch_pairs": 1,
            "cost_gate": false,
            "max_body_bytes": 16_777_216,
        })
    }

    /// The engines to run the case with, by name: one, or each of the ways to fail that the case lists.
    pub fn engines(&self) -> Result<Vec<(String, Behaviour)>> {
        let engine = &self.expect["engine"];
        if let Some(markers) = engine["drop_if_call_contains"].as_array() {
            let markers = markers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            return Ok(vec![("drop_if_call_contains".to_owned(), Behaviour::DropIfContains(markers))]);
        }
        let listed = engine.as_array().cloned().unwrap_or_else(|| vec![engine.clone()]);
        listed.iter().map(|name| named_engine(name.as_str().unwrap_or_default())).collect()
    }

    /// Asks `check.py` whether these bodies may leave; the error is what it complains about.
    pub fn check(&self, outgoing: &[impl AsRef<[u8]>]) -> Result<()> {
        let directory = tempfile::tempdir()?;
        let mut files: Vec<PathBuf> = Vec::new();
        for (turn, body) in outgoing.iter().enumerate() {
            let file = directory.path().join(format!("{turn}.json"));
            std::fs::write(&file, body)?;
            files.push(file);
        }
        let mut command = Command::new("python3");
        command.arg(shared("cases/check.py")).arg(&self.slug).args(&files).stdin(Stdio::null());
        let output = command.output().map_err(|error| Failure::from(error).while_doing("running python3"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!("{}: {said}{complained}", self.slug)))
    }
}

fn named_engine(name: &str) -> Result<(String, Behaviour)> {
    let behaviour = match name {
        "drop_all" => Behaviour::DropAll,
        "keep_all" => Behaviour::KeepAll,
        "keep_call_shorten_result" => Behaviour::KeepCallShortenResult,
        "refuse_connection" => Behaviour::RefuseConnection,
        "status_500" => Behaviour::Status(500),
        "never_answer" => Behaviour::NeverAnswer,
        "empty_200" => Behaviour::Empty200,
        "garbage_200" => Behaviour::Garbage200,
        "answers_for_other_ids" => Behaviour::OtherIds,
        "half_of_the_answers" => Behaviour::HalfOfTheAnswers,
        unknown => return Err(Failure::new(format!("a case names the engine {unknown:?}, which is not known here"))),
    };
    Ok((name.to_owned(), behaviour))
}
