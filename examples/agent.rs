//! Makes the conversation that ships with this project: a scripted agent works on a copy of this repository.
//!
//! ```text
//! cargo run --example agent -- --out examples/conversation.json --target-dir target/agent
//! ```
//! What the agent says and which tools it calls is written down in `agent_script/story.rs`. Every result is real: files
//! are read and edited and commands run in a copy of the repository, so another run gives other results where the
//! sources have changed.

mod agent_script;
mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_script::{conversation::Conversation, story, tools, workspace::Workspace};
use clap::Parser;
use serde_json::{Value, json};
use support::{Failure, Result, pairs, paths, tokens::Counter};

/// Plays the scripted agent and writes its conversation as one OpenAI Chat Completions request body.
#[derive(Parser)]
struct Arguments {
    /// Where the request body goes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Target folder of the agent's own cargo commands, not the repository's; naming one saves building every dependency
    /// again the next time.
    #[arg(long, value_name = "FOLDER")]
    target_dir: Option<PathBuf>,
}

const MODEL: &str = "gpt-4o";
/// The demo is to show a long conversation: o200k tokens.
const FEWEST_TOKENS: usize = 60_000;
/// Bytes of one result.
const LARGEST_RESULT: usize = 30_000;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("\n{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let workspace = Workspace::copy_of(paths::repository(), arguments.target_dir.as_deref())?;
    eprintln!("building the copy and its dependencies: minutes in a new target folder, seconds in a used one");
    workspace.build()?;
    let mut conversation = Conversation::new(&workspace);
    conversation.play(&story::steps())?;
    let calls = conversation.calls();
    let body = json!({"model": MODEL, "messages": conversation.into_messages(), "tools": tools::declarations()});
    check(&body, calls)?;
    write(&arguments.out, &body)
}

/// Holds the conversation against what the demo needs of it, and says how large it is.
fn check(body: &Value, calls: usize) -> Result<()> {
    let mut answered = pairs::list(&pairs::target("/v1/chat/completions")?, body.to_string().as_bytes())?;
    answered.retain(|pair| pair.result.is_some());
    if answered.len() != calls {
        return Err(Failure::new(format!("{calls} calls, of which {} are answered", answered.len())));
    }
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    if last.is_none_or(|message| message["role"] != "user") {
        return Err(Failure::new("the last message is not a user prompt"));
    }
    let largest = answered.iter().max_by_key(|pair| pair.result_bytes());
    let (largest, whose) = largest.map_or((0, "-"), |pair| (pair.result_bytes(), &pair.target));
    if largest > LARGEST_RESULT {
        return Err(Failure::new(format!("the result for {whose} has {largest} bytes, more than {LARGEST_RESULT}")));
    }
    let tokens = Counter::new().value(body);
    if tokens <= FEWEST_TOKENS {
        return Err(Failure::new(format!("{tokens} tokens are too few: let the story read more")));
    }
    let results: usize = answered.iter().map(|pair| pair.result_bytes()).sum();
    eprintln!("{tokens} o200k tokens, {calls} pairs, {results} bytes of results, the largest {largest} bytes");
    Ok(())
}

fn write(file: &Path, body: &Value) -> Result<()> {
    let text = body.to_string();
    std::fs::write(file, &text).map_err(|error| Failure::from(error).while_doing(file.display()))?;
    eprintln!("{}: {} bytes", file.display(), text.len());
    Ok(())
}
