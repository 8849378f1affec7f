//! Replays recorded conversations turn by turn through the filter's own code, against any engine, and counts what is saved.
//!
//! ```sh
//! cargo run --example replay -- --engine uncited
//! cargo run --example replay -- --engine http://127.0.0.1:8080 --policy epochs --set epoch_pairs=8
//! ```
//!
//! What a turn costs is told from the bodies alone: what one has in common with the one before is read from the provider's
//! cache, the rest is written, at the list prices of the model. Beside the filter's own policy stand three others, which
//! take out what the same law allows at other times: `age`, `anew` and `sticky`. With a random engine a pair has a
//! probability of its own and every boundary adds noise of 0.06, so that `anew`, which asks on every turn, rolls again on
//! every turn.

#[path = "replay/mod.rs"]
mod parts;
mod support;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use indicatif::ProgressBar;
use parts::bill::Cache;
use parts::engines::Engine;
use parts::policies::{Arm, Kind, setting};
use parts::report::Report;
use parts::run;
use serde_json::{Map, Value};
use support::conversations::{Conversation, load_from, names_in};
use support::{Failure, Result};

/// Replay recorded conversations and count what removal saves.
#[derive(Parser)]
struct Args {
    /// Who decides: keep-all, drop-all, random, uncited, or http://host:port[/path] of a System One server.
    #[arg(long, default_value = "uncited")]
    engine: String,
    /// When pairs are judged and leave. May be repeated; all of them if missing.
    #[arg(long, value_enum)]
    policy: Vec<Kind>,
    /// Folder of recorded conversations.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/conversations"))]
    dir: PathBuf,
    /// Only the conversation of this name. May be repeated.
    #[arg(long, value_name = "NAME")]
    conversation: Vec<String>,
    /// A field of the filter's configuration in place of its default. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// How the provider finds what it has cached.
    #[arg(long, value_enum, default_value = "exact")]
    cache: Cache,
    /// Begins every hash that stands for chance.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Share of the pairs that the random engine lets go.
    #[arg(long, default_value_t = 0.3, value_parser = share)]
    share: f64,
    /// Share of the engine's calls that fail. What happens then is `on_engine_failure`.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    fail: f64,
    /// What the engine costs, in US$ per million tokens of its requests.
    #[arg(long, value_name = "US$", default_value_t = 0.0)]
    engine_price: f64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A number from 0 to 1.
fn share(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

fn main() -> ExitCode {
    match replay(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("replay: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn replay(args: &Args) -> Result<()> {
    if !args.dir.is_dir() {
        eprintln!("no conversations: {} is missing; name a folder with --dir", args.dir.display());
        return Ok(());
    }
    let (mut served, not_served): (Vec<_>, Vec<_>) = load(args)?.into_iter().partition(run::is_served);
    let priced_as = served.iter_mut().filter_map(run::price).collect();
    let engine = Engine::of(&args.engine, args.seed, args.share)?;
    let changes: Map<String, Value> = args.set.iter().cloned().collect();
    let kinds = if args.policy.is_empty() { Kind::value_variants() } else { &args.policy };
    let arm = |kind: &Kind| Arm::new(*kind, &engine, &changes, (args.fail, args.seed));
    let arms = kinds.iter().map(arm).collect::<Result<Vec<_>>>()?;
    let mut policies: Vec<(&str, Vec<run::Row>)> = kinds.iter().map(|kind| (kind.name(), Vec::new())).collect();
    // It draws on a terminal only.
    let bar = ProgressBar::new(served.iter().map(|conversation| conversation.turns().len() as u64).sum());
    for conversation in &served {
        let rows = run::replay(conversation, &arms, args.cache, &mut || bar.inc(1))?;
        policies.iter_mut().zip(rows).for_each(|((_, all), row)| all.push(row));
    }
    bar.finish_and_clear();
    let calls = |of: fn(&run::Row) -> u64| policies.iter().flat_map(|(_, rows)| rows).map(of).sum::<u64>();
    if calls(|row| row.engine_calls) > 0 && calls(|row| row.engine_calls) == calls(|row| row.engine_failures) {
        return Err(Failure::new(format!("{} answered none of its calls: nothing was decided", args.engine)));
    }
    let report = Report {
        engine: args.engine.clone(),
        cache: args.cache.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
        engine_price: args.engine_price,
        priced_as,
        not_served: not_served.into_iter().map(|conversation| conversation.name).collect(),
        policies,
    };
    if args.json {
        println!("{:#}", report.json());
    } else {
        report.print();
    }
    Ok(())
}

fn load(args: &Args) -> Result<Vec<Conversation>> {
    let mut names = names_in(&args.dir)?;
    if let Some(unknown) = args.conversation.iter().find(|name| !names.contains(name)) {
        return Err(Failure::new(format!("{} holds no conversation {unknown}", args.dir.display())));
    }
    names.retain(|name| args.conversation.is_empty() || args.conversation.contains(name));
    names.iter().map(|name| load_from(&args.dir, name)).collect()
}
