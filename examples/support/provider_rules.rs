//! The providers' rules as the client tests know them: a program of its own that shares nothing with the filter.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::paths::repository;
use super::{Failure, Result};

/// The rules that a request breaks, each with what its provider would say; none where it is accepted. Each thread has a
/// program of its own.
pub fn broken(path: &str, body: &[u8]) -> Vec<String> {
    thread_local! {
        static RULES: RefCell<ProviderRules> = RefCell::new(ProviderRules::start().expect("the rules start"));
    }
    RULES.with_borrow_mut(|rules| rules.broken(path, body).expect("the rules answer"))
}

/// `tests/clients/provider_rules`, waiting for requests.
#[derive(Debug)]
struct ProviderRules {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ProviderRules {
    fn start() -> Result<Self> {
        let mut child = Command::new("python3")
            .args(["-m", "provider_rules"])
            .current_dir(repository().join("tests/clients"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::from(error).while_doing("running python3"))?;
        let gone = || Failure::new("python3 has no pipes");
        let asks = child.stdin.take().ok_or_else(gone)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(gone)?);
        Ok(Self { child, asks, answers })
    }

    fn broken(&mut self, path: &str, body: &[u8]) -> Result<Vec<String>> {
        let request = json!({"path": path, "body": String::from_utf8_lossy(body)});
        writeln!(self.asks, "{request}")?;
        self.asks.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| Failure::from(error).while_doing(format!("reading {line:?}")))?;
        let rules = answer.as_array().ok_or_else(|| Failure::new("the answer is no list"))?;
        Ok(rules.iter().filter_map(|rule| rule.as_str().map(str::to_owned)).collect())
    }
}

impl Drop for ProviderRules {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("the providers' rules did not stop: {error}");
        }
    }
}
