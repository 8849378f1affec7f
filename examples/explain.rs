//! Says, pair by pair, what the filter would make of a request body, without a proxy and without sending anything.
//!
//! ```sh
//! cargo run --example explain -- body.json
//! cargo run --example explain -- body.json --config filter.json --engine http://127.0.0.1:8080 --out reduced.json --json
//! ```
//! Without an engine everything that may leave does: that is the most that any engine could take. `--config` is the
//! filter's configuration; `--set FIELD=VALUE` changes it. No text of the body is printed but tool names.

#[path = "replay/mod.rs"]
mod parts;
mod support;

use std::fmt::{self, Write as _};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use context_compaction::{
    analysis::{self, Analysis, Class},
    dialect::{Dialect, Target},
    exchange::Outcome,
    json::Document,
    policy::Policy,
    transcript::{Transcript, Verdict},
};
use parts::engines::Engine;
use parts::policies::setting;
use serde::Serialize;
use serde_json::{Map, Value, json};
use support::{
    Failure, Result, bodies,
    exchange::{self, NoEnvironment, Shared},
    pairs::{self, Fate},
};

/// Says what the filter would make of a request body.
#[derive(Parser)]
struct Arguments {
    /// The request body.
    body: PathBuf,
    /// The path it is sent to; told from the body where it is missing.
    #[arg(long)]
    path: Option<String>,
    /// The filter's configuration (JSON).
    #[arg(long)]
    config: Option<PathBuf>,
    /// A setting in place of the configuration's; may stand more than once.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// Who decides: drop-all, keep-all, or a System One server at http://HOST:PORT.
    #[arg(long, default_value = "drop-all")]
    engine: String,
    /// Write what would leave to this file.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One call with its result.
#[derive(Debug, Serialize)]
struct Line {
    /// Its place in the conversation, from 1.
    pair: usize,
    tool: String,
    /// Of arguments and result.
    bytes: usize,
    /// Messages that stand behind its result.
    age: usize,
    /// The most that may be done with it: drop, shorten or keep.
    allowed: &'static str,
    /// What is said of it: drop, truncate, keep, unasked, or why it is not asked about.
    class: String,
    /// Bytes of arguments and result that would leave.
    leaves: u64,
}

/// What became of the body.
#[derive(Debug, Serialize)]
struct Outcomes {
    success: bool,
    tokens_reduced: u64,
    /// Outgoing / incoming, in bytes.
    ratio: f64,
    strategy: &'static str,
    error: Option<String>,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Explanation {
    analysis: Analysis,
    pairs: Vec<Line>,
    result: Outcomes,
}

fn main() -> ExitCode {
    match explain(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}

fn explain(arguments: &Arguments) -> Result<()> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| Failure::new(error.to_string()).while_doing(path.display()))
    };
    let body = read(&arguments.body)?;
    let path = match &arguments.path {
        Some(path) => path.as_str(),
        None => bodies::path_of(&body)?,
    };
    let configuration = arguments.config.as_ref().map(|path| {
        read(path).and_then(|json| {
            serde_json::from_slice(&json)
                .map_err(|error| Failure::from(error).while_doing(format!("{} as JSON", path.display())))
        })
    });
    let policy = policy(configuration.transpose()?, &arguments.set)?;
    let engine = Engine::of(&arguments.engine, 7, 0.5)?;
    let shared = Shared::default();
    let name = arguments.body.display().to_string();
    let answer = &mut |question: &[u8]| engine.answer(&name, question);
    let ran = exchange::run_engine((&shared, 7), &policy, (path, &[]), &body, answer);
    let target = pairs::target(path)?;
    let analysis = analysis::analyse((&policy, 7), &target, &body, &shared)
        .map_err(|skip| Failure::new(format!("the filter leaves this body alone: {skip}")))?;
    let error = match ran.outcome {
        Outcome::Reduced => None,
        Outcome::Untouched(skip) => {
            let fault = ran.report.fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
            Some(format!("{skip}{fault}"))
        }
    };
    let result = Outcomes {
        success: error.is_none(),
        tokens_reduced: ran.report.removed_tokens,
        ratio: (ran.outgoing.len() as f64 / body.len().max(1) as f64 * 1e3).round() / 1e3,
        strategy: "selective",
        error,
    };
    let pairs = lines(&policy, &target, (&body, &ran.outgoing), &shared)?;
    if let Some(out) = &arguments.out {
        std::fs::write(out, &ran.outgoing).map_err(|e| Failure::new(e.to_string()).while_doing(out.display()))?;
    }
    let explanation = Explanation { analysis, pairs, result };
    let text = if arguments.json { serde_json::to_string_pretty(&explanation)? } else { shown(&explanation)? };
    // Whoever reads only the beginning closes the pipe.
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The configuration; without one the defaults, turned on, for an engine that is never called by its address.
fn policy(config: Option<Map<String, Value>>, changes: &[(String, Value)]) -> Result<std::rc::Rc<Policy>> {
    let mut settings = config.unwrap_or_default();
    for (name, value) in [
        ("enabled", json!(true)),
        ("engine", json!("local")),
        ("endpoint", json!("http://127.0.0.1:8080")),
        ("model", json!("explain")),
        ("max_body_bytes", json!(1_000_000_000)),
    ] {
        settings.entry(name).or_insert(value);
    }
    settings.extend(changes.iter().cloned());
    let parsed = Policy::parse(Value::Object(settings).to_string().as_bytes(), &NoEnvironment);
    parsed
        .map(std::rc::Rc::new)
        .map_err(|problems| Failure::new(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}

fn lines(policy: &Policy, target: &Target, (body, outgoing): (&[u8], &[u8]), shared: &Shared) -> Result<Vec<Line>> {
    let unreadable = |skip| Failure::new(format!("the filter leaves this body alone: {skip}"));
    let doc = Document::parse(body).map_err(unreadable)?;
    let transcript = target.read(&doc).map_err(unreadable)?;
    let classes = analysis::classes((policy, 7), &doc, &transcript, shared);
    let fates = pairs::fates(&pairs::list(target, body)?, &pairs::list(target, outgoing)?);
    let allowed = allowed(policy, target.dialect, &doc, &transcript);
    let mut lines = Vec::new();
    for (index, class) in classes.iter().enumerate() {
        let pair = &transcript.pairs[index];
        let verdict = match fates.get(index) {
            Some(Fate::Dropped) => Verdict::Drop,
            Some(Fate::Truncated) => Verdict::Truncate,
            _ => Verdict::Keep,
        };
        let message = |element: usize| transcript.elements.get(element).map_or(0, |element| element.message);
        let stands = pair.result.as_ref().map_or(pair.call.element, |result| result.element);
        lines.push(Line {
            pair: index + 1,
            tool: pair.call.name.as_ref().and_then(|name| doc.string(name)).unwrap_or_default().into_owned(),
            bytes: analysis::payload_of(&transcript, index),
            age: transcript.messages.saturating_sub(message(stands) + 1),
            allowed: if matches!(class, Class::Standing(_)) { "keep" } else { allowed[index] },
            class: class.name(),
            leaves: transcript.gain(&doc, index, verdict, policy.truncate_head_chars) as u64,
        });
    }
    Ok(lines)
}

/// What the provider's format lets leave at most, if everything were judged away.
fn allowed(policy: &Policy, dialect: &Dialect, doc: &Document<'_>, transcript: &Transcript) -> Vec<&'static str> {
    let levels = dialect.levels(policy.removal, transcript.prompt.model());
    let mut allowed = vec!["keep"; transcript.pairs.len()];
    for (index, group) in transcript.groups.iter().enumerate() {
        let all = (vec![Verdict::Drop; group.pairs.len()], vec![None; group.pairs.len()]);
        let seen = (index, transcript.elements.len());
        let resolved = transcript.resolve(doc, seen, (&all.0, &all.1), levels, policy.truncate_head_chars);
        for (pair, verdict) in group.pairs.clone().zip(resolved) {
            allowed[pair] = match verdict {
                Verdict::Drop => "drop",
                Verdict::Truncate => "shorten",
                Verdict::Keep => "keep",
            };
        }
    }
    allowed
}

fn shown(explanation: &Explanation) -> std::result::Result<String, fmt::Error> {
    let mut text = String::new();
    let Explanation { analysis, pairs, result } = explanation;
    writeln!(
        text,
        "{:>5}  {:<24} {:>9} {:>5}  {:<8} {:<18} {:>9}",
        "pair", "tool", "bytes", "age", "allowed", "says", "leaves"
    )?;
    for Line { pair, tool, bytes, age, allowed, class, leaves } in pairs {
        let tool: String = tool.chars().filter(|c| !c.is_control()).take(24).collect();
        writeln!(text, "{pair:>5}  {tool:<24} {bytes:>9} {age:>5}  {allowed:<8} {class:<18} {leaves:>9}")?;
    }
    writeln!(
        text,
        "\n{} messages, {} tokens of {} ({}, {}); reachable ratio {}, suggested {}",
        analysis.messages,
        analysis.total_tokens,
        analysis.context_limit,
        analysis.utilisation,
        analysis.severity,
        analysis.reachable_ratio,
        analysis.suggested_ratio
    )?;
    match &result.error {
        None => write!(text, "reduced: {} tokens less, {} of the bytes are left", result.tokens_reduced, result.ratio)?,
        Some(error) => write!(text, "untouched: {error}")?,
    }
    Ok(text)
}
