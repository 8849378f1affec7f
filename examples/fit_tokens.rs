//! Fits the weights of `src/tokens.rs` to tiktoken's o200k_base, and measures them.
//!
//! ```sh
//! registry=$(echo ~/.cargo/registry/src/*)
//! cargo run --release --example fit_tokens -- \
//!     --source "$registry"/serde_core-1.0.229 --source "$registry"/clap_builder-4.6.7 \
//!     --source "$registry"/hyper-1.12.0 --source "$registry"/regex-syntax-0.8.12 \
//!     --source "$registry"/tokio-1.54.1 --source /usr/lib/python3.11 --source /usr/lib/node_modules/npm \
//!     --unseen perl=/usr/share/perl5 --unseen config=/etc --unseen dpkg=/var/lib/dpkg/info
//! ```
//!
//! The error table and the weights, as the Rust static, go to stdout; progress and what is missing go to stderr.
//! Every class of text weighs the same in the fit, whatever its size. Half of a class is fitted, the other half is
//! checked; a file, a program's translations or a family of conversations is never in both. The generated classes come
//! from a fixed seed. Languages are paragraphs and translations, not word lists: text drawn from lists of common words
//! has a quarter fewer tokens than real text. The paragraphs are few, so all of them are fitted; `tests/core/tokens.rs` has
//! others.

mod token_fit;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use token_fit::corpus::{add_conversations, add_source, texts_under};
use token_fit::fit::{PRIOR, Problem, UNITS_PER_TOKEN, WEIGHTS, measure, print_errors, print_weights, solve};
use token_fit::generated::add_generated;
use token_fit::languages::{LANGUAGES, OTHER_LANGUAGES, add_paragraphs, add_translations};
use token_fit::{Corpus, Failure};

/// Fit the token weights and print their errors.
#[derive(Parser)]
struct Args {
    /// Directory of source files; each file extension becomes a class. May be repeated.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/src"))]
    source: Vec<PathBuf>,
    /// Directory of recorded conversations.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/conversations"))]
    conversations: PathBuf,
    /// Directory of gettext translations.
    #[arg(long, value_name = "DIR", default_value = "/usr/share/locale")]
    locale: PathBuf,
    /// Text files that are measured but never fitted, as NAME=FILE or NAME=DIR. May be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = named_path)]
    unseen: Vec<(String, PathBuf)>,
}

fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fit_tokens: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let mut trained = Corpus::new();
    add_source(&mut trained, &args.source)?;
    add_conversations(&mut trained, &args.conversations)?;
    add_generated(&mut trained);
    add_paragraphs(&mut trained);
    add_translations(&mut trained, &args.locale, &LANGUAGES)?;
    let mut unseen = Corpus::new();
    add_translations(&mut unseen, &args.locale, &OTHER_LANGUAGES)?;
    for (name, path) in &args.unseen {
        unseen.entry(name.clone()).or_default().extend(texts_under(path)?.into_iter().map(|(_, text)| text));
    }

    let trained = measure(trained);
    let mut unseen = measure(unseen);
    for class in &mut unseen {
        class.check.append(&mut class.fit);
    }
    let problems: Vec<Problem> = trained.iter().map(|class| Problem::of(&class.fit)).collect();
    let weights = solve(&problems, None, &[(PRIOR * UNITS_PER_TOKEN) as u16; WEIGHTS]);
    print_errors(&trained, &unseen, &problems, &weights);
    print_weights(&weights);
    Ok(())
}
