//! Proves that one body is another minus byte ranges, and lists the ranges.
//!
//! `cargo run --example verify -- INCOMING OUTGOING`: exit code 0 with the ranges, or 1 with the first byte that cannot
//! be explained by leaving bytes out.

mod support;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use support::{invariants, ranges};

/// Proves that OUTGOING is INCOMING minus byte ranges.
#[derive(Parser)]
struct Arguments {
    /// The body as it was sent to the filter.
    incoming: PathBuf,
    /// The body as it left.
    outgoing: PathBuf,
    /// Print the removed bytes of each range, cut to one line.
    #[arg(long)]
    show_text: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let (incoming, outgoing) = match (read(&arguments.incoming), read(&arguments.outgoing)) {
        (Ok(incoming), Ok(outgoing)) => (incoming, outgoing),
        (Err(problem), _) | (_, Err(problem)) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    let ranges = match ranges::removed(&incoming, &outgoing) {
        Ok(ranges) => ranges,
        Err(at) => {
            println!("not a reduction: byte {at} of the outgoing body is not left over from the incoming one");
            return ExitCode::FAILURE;
        }
    };
    for range in &ranges {
        let text = String::from_utf8_lossy(&incoming[range.clone()]);
        let shown: String = if arguments.show_text { text.escape_debug().take(80).collect() } else { String::new() };
        println!("{:>10}..{:<10} {:>8} bytes  {shown}", range.start, range.end, range.len());
    }
    let removed: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    println!("{} bytes - {removed} bytes in {} ranges = {} bytes", incoming.len(), ranges.len(), outgoing.len());
    let complaints = invariants::complaints(&incoming, &outgoing);
    for complaint in &complaints {
        println!("but: {complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
