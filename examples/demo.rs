//! Sends one conversation through a real Envoy with the filter in it, and shows what happened to it on the way.
//!
//! Everything runs on this machine and ends by itself: the reference engine, a stand-in for the provider that records
//! what arrives, and Envoy with `envoy/envoy.yaml`, all on free ports.

mod reference;
mod support;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use context_compaction::dialect::Target;
use serde_json::{Value, json};
use support::{
    Failure, Result, bodies,
    client::Client,
    envoy::{Envoy, Process},
    envoy_config::{self, read_bootstrap},
    invariants, pairs,
    pairs::{Fate, Pair},
    paths,
    provider::Provider,
    ranges, shipped,
    tokens::Counter,
};

/// Shows on one conversation what the filter takes out of a request, and what it leaves.
#[derive(Parser)]
struct Arguments {
    /// A request body of your own, as JSON, in any of the formats that the filter reads.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The path it is sent to; unless said it is told by the body. Where the path names the model, its name decides too.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// `threshold_tokens` in place of the default 40000: a body of less than 120 kB needs a lower one.
    #[arg(long, value_name = "TOKENS")]
    threshold: Option<u64>,
    /// Keep what was sent and what arrived in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

const OWN_CONVERSATION: &str = "examples/conversation.json";

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("\n{problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let file = arguments.body.clone().unwrap_or_else(|| paths::repository().join(OWN_CONVERSATION));
    let body = std::fs::read(&file).map_err(|error| Failure::from(error).while_doing(file.display()))?;
    let path = match &arguments.path {
        Some(path) => path.as_str(),
        None => bodies::path_of(&body)?,
    };
    let parsed: Value = serde_json::from_slice(&body)?;

    step("Starting the reference engine, a recording provider and Envoy (it compiles the module: a few seconds)");
    let provider = Provider::start()?;
    let engine = reference::server::start(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let engine_port = engine.port();
    let folder = tempfile::tempdir()?;
    let notes = Notes(folder.path().join("notes.log"));
    let changes = (engine_port, arguments.threshold, body.len());
    let bootstrap = bootstrap(provider.address(), changes, &notes)?;
    let envoy = Envoy::start_bootstrap(&bootstrap, &Process::default()).await?;
    let counter = Counter::new();
    row("conversation", format!("{}, {path}", file.strip_prefix(paths::repository()).unwrap_or(&file).display()));
    row("engine", format!("http://127.0.0.1:{engine_port}/v1/systemone (System One, rules without a model)"));

    step("Sending it");
    let client = Client::http1(&envoy.url())?;
    let arrived = send(&client, &provider, path, &body).await?;
    let asked = envoy.metric("context_compaction.pairs_asked").await?;
    let calls = envoy.metric("context_compaction.engine_calls").await?;
    let exported = envoy.metric("context_compaction.engine_request_bytes").await?;
    row("asked", format!("about {asked} pairs in {calls} calls to the engine, {exported} bytes"));
    show_fates(&pairs::target(path)?, (&body, &arrived))?;
    show_sizes(&counter, &parsed, (&body, &arrived))?;
    show_proof(&body, &arrived)?;
    let note = notes.line(1).await?;
    row("access log", note.clone());

    step("Stopping the engine and sending it again");
    engine.stop().await;
    let again = send(&client, &provider, path, &body).await?;
    let note = notes.line(2).await?;
    if again != arrived {
        return Err(Failure::new(format!("the same request left with other bytes, this must not happen: {note}")));
    }
    row("arrived", format!("the same {} bytes: what was decided is remembered", again.len()));
    row("access log", note);

    step("Starting Envoy anew, still without an engine, and sending it again");
    drop(envoy);
    let envoy = Envoy::start_bootstrap(&bootstrap, &Process::default()).await?;
    let client = Client::http1(&envoy.url())?;
    let again = send(&client, &provider, path, &body).await?;
    if again != body {
        return Err(Failure::new("without an engine the body changed: this must not happen"));
    }
    row("arrived", format!("the original, all {} bytes, status 200", again.len()));
    row("access log", notes.line(3).await?);
    keep(arguments, &body, &arrived)?;
    if arrived == body {
        println!(
            "\nNothing left this conversation. The access log line above says why; the README explains each reason."
        );
    }
    Ok(())
}

/// `envoy/envoy.yaml` with its provider and engine moved to this machine's free ports.
fn bootstrap(
    provider: SocketAddr,
    (engine_port, threshold, body_len): (u16, Option<u64>, usize),
    notes: &Notes,
) -> Result<Value> {
    let mut bootstrap = read_bootstrap("envoy/envoy.yaml")?;
    shipped::set_provider(&mut bootstrap, provider);
    let manager = envoy_config::connection_manager(&mut bootstrap);
    manager["access_log"] = json!([{
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": notes.0,
            "log_format": {"text_format_source": {"inline_string": "%FILTER_STATE(wasm.context_compaction:PLAIN)%\n"}},
        },
    }]);
    let filter = &mut manager["http_filters"][0]["typed_config"]["config"];
    shipped::set_filter(filter, |settings| {
        settings["endpoint"] = json!(format!("http://127.0.0.1:{engine_port}"));
        if let Some(threshold) = threshold {
            settings["threshold_tokens"] = json!(threshold);
        }
        if body_len > 1_000_000 {
            settings["max_body_bytes"] = json!(body_len);
        }
    })?;
    Ok(bootstrap)
}

async fn send(client: &Client, provider: &Provider, path: &str, body: &[u8]) -> Result<Vec<u8>> {
    let response = client.post(path, body.to_vec()).await?;
    if response.status != 200 {
        return Err(Failure::new(format!("status {}: {}", response.status, response.text())));
    }
    Ok(provider.take_one().await?.body.to_vec())
}

fn show_fates(target: &Target, (sent, arrived): (&[u8], &[u8])) -> Result<()> {
    let listed = pairs::list(target, sent)?;
    let fates = pairs::fates(&listed, &pairs::list(target, arrived)?);
    let count = |fate: Fate| fates.iter().filter(|f| **f == fate).count();
    let (dropped, truncated) = (count(Fate::Dropped), count(Fate::Truncated));
    row("outcome", format!("{dropped} pairs dropped, {truncated} results shortened, {} kept", count(Fate::Kept)));
    let mut gone: Vec<(&Pair, Fate)> = listed.iter().zip(fates).filter(|(_, fate)| *fate != Fate::Kept).collect();
    gone.sort_by_key(|(pair, _)| std::cmp::Reverse(pair.result_bytes()));
    for (pair, fate) in gone.iter().take(8) {
        let verb = if *fate == Fate::Dropped { "dropped  " } else { "shortened" };
        let target: String = pair.target.chars().take(48).collect();
        println!("                {verb} {:>8} bytes  {} {target}", pair.result_bytes(), pair.tool);
    }
    if gone.len() > 8 {
        println!("                ... and {} smaller ones", gone.len() - 8);
    }
    Ok(())
}

fn show_sizes(counter: &Counter, before: &Value, (sent, arrived): (&[u8], &[u8])) -> Result<()> {
    let after: Value = serde_json::from_slice(arrived)?;
    let percent = |before: usize, after: usize| 100.0 * (after as f64 / before.max(1) as f64 - 1.0);
    let (tokens, left) = (counter.value(before), counter.value(&after));
    row("bytes", format!("{} -> {} ({:+.1} %)", sent.len(), arrived.len(), percent(sent.len(), arrived.len())));
    row("tokens", format!("{tokens} -> {left} ({:+.1} %), counted with o200k", percent(tokens, left)));
    Ok(())
}

fn show_proof(sent: &[u8], arrived: &[u8]) -> Result<()> {
    let removed = ranges::removed(sent, arrived)
        .map_err(|at| Failure::new(format!("byte {at} of what arrived is not left over from what was sent")))?;
    let complaints = invariants::complaints(sent, arrived);
    if !complaints.is_empty() {
        return Err(Failure::new(complaints.join("; ")));
    }
    row("proof", format!("what arrived is what was sent minus {} byte ranges", removed.len()));
    row("", "every byte of prose is there, and every call has its result".to_owned());
    Ok(())
}

/// The filter's field of the access log, a line per request.
struct Notes(PathBuf);

impl Notes {
    /// The line of request `number`, from 1.
    async fn line(&self, number: usize) -> Result<String> {
        let read = || std::fs::read_to_string(&self.0).ok()?.lines().nth(number.checked_sub(1)?).map(str::to_owned);
        support::eventually(Duration::from_secs(5), "the access log", read).await
    }
}

fn keep(arguments: &Arguments, sent: &[u8], arrived: &[u8]) -> Result<()> {
    let Some(folder) = &arguments.keep else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("sent.json"), sent)?;
    std::fs::write(folder.join("arrived.json"), arrived)?;
    row(
        "kept",
        format!("{0}/sent.json and {0}/arrived.json: `cargo run --example verify` compares them", folder.display()),
    );
    Ok(())
}

fn step(text: &str) {
    println!("\n{text}");
}

fn row(name: &str, text: String) {
    println!("  {name:<12}  {text}");
}
