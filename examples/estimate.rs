//! Prints how far the filter's estimates of input are from what providers reported, on recorded conversations.
//!
//! `make estimate` needs recordings: a folder beside the repository, or `--dir folder`.

mod support;

use std::path::PathBuf;

use clap::Parser;
use support::{Failure, Result, conversations, estimates, paths};

/// Prints estimates against reports.
#[derive(Parser)]
struct Arguments {
    /// The folder with the recordings.
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn main() -> Result<()> {
    let folder = Arguments::parse().dir.unwrap_or_else(|| paths::shared("data/conversations"));
    let names = conversations::names_in(&folder)?;
    let bar = indicatif::ProgressBar::new(names.len() as u64);
    let mut all = Vec::new();
    for name in names {
        all.push(conversations::load_from(&folder, &name)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rows = estimates::rows(&all);
    if rows.is_empty() {
        return Err(Failure::new("none of the recordings carries usage in a format that is read here"));
    }
    let [constant, calibrated, last] = estimates::WAYS;
    println!(
        "| family | conversations | requests | bytes per token | {constant}: median, 90 % | {calibrated} | {last} |"
    );
    println!("|---|---|---|---|---|---|---|");
    let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
    for row in rows {
        let errors = row.errors.map(|errors| format!("{}, {}", percent(errors.median), percent(errors.ninety)));
        let rate = row.rate as f64 / 1e3;
        println!("| {} | {} | {} | {rate:.2} | {} |", row.family, row.conversations, row.requests, errors.join(" | "));
    }
    Ok(())
}
