//! Counting, fitting and printing.

use context_compaction::tokens::{CLASSES, HEAVIEST, START, class, estimate};
use indicatif::ProgressBar;

use super::Corpus;

/// Bytes of one chunk: one row of the least-squares problem.
pub const CHUNK: usize = 4096;
/// Weights of the estimate: one for every class after every class.
pub const WEIGHTS: usize = CLASSES * CLASSES;
/// What a transition weighs that the texts do not show: four bytes a token.
pub const PRIOR: f64 = 0.25;
/// How strongly weights are held to [`PRIOR`], against squared relative errors.
pub const PULL: f64 = 0.0003;
/// Weights are stored in this fraction of a token.
pub const UNITS_PER_TOKEN: f64 = 1024.0;

/// A class of text, cut into chunks and counted.
pub struct Measured {
    pub name: String,
    pub fit: Vec<Chunk>,
    pub check: Vec<Chunk>,
}

pub struct Chunk {
    /// o200k tokens, counted by tiktoken.
    pub tokens: f64,
    /// o200k tokens, by the weights that are in `src/tokens.rs` now.
    pub shipped: f64,
    /// How often each transition occurs.
    pub seen: Vec<f64>,
}

pub fn measure(corpus: Corpus) -> Vec<Measured> {
    let bar = ProgressBar::new(corpus.len() as u64);
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let mut measured = Vec::new();
    for (name, mut texts) in corpus {
        bar.set_message(name.clone());
        let mut halves = [Vec::new(), Vec::new()];
        let mut sizes = [0, 0];
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        for text in &texts {
            let half = usize::from(sizes[1] < sizes[0]);
            for piece in chunks(text) {
                sizes[half] += piece.len();
                halves[half].push(count(piece, tokenizer));
            }
        }
        let [fit, check] = halves;
        measured.push(Measured { name, fit, check });
        bar.inc(1);
    }
    bar.finish_and_clear();
    measured
}

pub fn chunks(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

pub fn count(text: &str, tokenizer: &tiktoken_rs::CoreBPE) -> Chunk {
    let mut seen = vec![0.0; WEIGHTS];
    let mut last = START;
    for class in text.bytes().map(class) {
        seen[usize::from(last) * CLASSES + usize::from(class)] += 1.0;
        last = class;
    }
    let tokens = tokenizer.encode_ordinary(text).len() as f64;
    Chunk { tokens, shipped: estimate(text.as_bytes()) as f64, seen }
}

/// Least squares as its normal equations: minimise w'Gw - 2 w'r.
pub struct Problem {
    pub gram: Vec<f64>,
    pub right: Vec<f64>,
}

impl Problem {
    fn zero() -> Self {
        Self { gram: vec![0.0; WEIGHTS * WEIGHTS], right: vec![0.0; WEIGHTS] }
    }

    /// One class: the squared relative error of each chunk, by its share of the tokens, and that of the whole.
    pub fn of(chunks: &[Chunk]) -> Self {
        let mut problem = Self::zero();
        let total = total(chunks, |chunk| chunk.tokens);
        let mut whole = vec![0.0; WEIGHTS];
        for chunk in chunks {
            problem.add_row(&chunk.seen, chunk.tokens, chunk.tokens / total);
            whole.iter_mut().zip(&chunk.seen).for_each(|(sum, seen)| *sum += seen);
        }
        if total > 0.0 {
            problem.add_row(&whole, total, 1.0);
        }
        problem
    }

    /// Asks for `seen . w = tokens`, relative to `tokens`.
    fn add_row(&mut self, seen: &[f64], tokens: f64, importance: f64) {
        let row: Vec<(usize, f64)> =
            seen.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(at, n)| (at, n / tokens)).collect();
        for &(at, value) in &row {
            self.right[at] += importance * value;
            for &(other, factor) in &row {
                self.gram[at * WEIGHTS + other] += importance * value * factor;
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.gram.iter_mut().zip(&other.gram).for_each(|(sum, value)| *sum += value);
        self.right.iter_mut().zip(&other.right).for_each(|(sum, value)| *sum += value);
    }
}

/// The weights, in 1/1024ths of a token, that fit all problems but the one at `left_out`: coordinate descent with
/// every weight between 0 and [`HEAVIEST`].
pub fn solve(problems: &[Problem], left_out: Option<usize>, start: &[u16]) -> Vec<u16> {
    let mut sum = Problem::zero();
    for (at, problem) in problems.iter().enumerate() {
        if Some(at) != left_out {
            sum.add(problem);
        }
    }
    for at in 0..WEIGHTS {
        sum.gram[at * WEIGHTS + at] += PULL;
        sum.right[at] += PULL * PRIOR;
    }
    let mut weights: Vec<f64> = start.iter().map(|weight| f64::from(*weight) / UNITS_PER_TOKEN).collect();
    for _round in 0..5000 {
        let mut largest_step: f64 = 0.0;
        for at in 0..WEIGHTS {
            let row = &sum.gram[at * WEIGHTS..(at + 1) * WEIGHTS];
            let slope = sum.right[at] - row.iter().zip(&weights).map(|(gram, weight)| gram * weight).sum::<f64>();
            let better = (weights[at] + slope / row[at]).clamp(0.0, HEAVIEST as f64);
            largest_step = largest_step.max((better - weights[at]).abs());
            weights[at] = better;
        }
        if largest_step < 1e-6 {
            break;
        }
    }
    weights.into_iter().map(|weight| (weight * UNITS_PER_TOKEN).round() as u16).collect()
}

pub fn total(chunks: &[Chunk], figure: impl Fn(&Chunk) -> f64) -> f64 {
    chunks.iter().map(figure).sum()
}

pub fn predict(chunk: &Chunk, weights: &[u16]) -> f64 {
    chunk.seen.iter().zip(weights).map(|(seen, weight)| seen * f64::from(*weight)).sum::<f64>() / UNITS_PER_TOKEN
}

/// Error of the sum over all chunks, in per cent.
pub fn error(chunks: &[Chunk], estimate: impl Fn(&Chunk) -> f64) -> f64 {
    100.0 * (total(chunks, estimate) / total(chunks, |chunk| chunk.tokens) - 1.0)
}

/// The error, whatever its sign, that 95 % of the chunks stay below, in per cent.
pub fn error_p95(chunks: &[Chunk], weights: &[u16]) -> Option<f64> {
    let mut errors: Vec<f64> =
        chunks.iter().map(|chunk| 100.0 * (predict(chunk, weights) / chunk.tokens - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() * 95 / 100).copied()
}

pub fn print_errors(trained: &[Measured], unseen: &[Measured], problems: &[Problem], weights: &[u16]) {
    println!("Error of the sum over a class in %. fit: on the half that is fitted; check, p95 (of single chunks) and");
    println!("shipped (the weights that are in src/tokens.rs now): on the other half; left out: on the other half,");
    println!("fitted without this class.");
    println!("class              kB  B/token    fit  check    p95  left out  shipped");
    let bar = ProgressBar::new(problems.len() as u64);
    for (at, class) in trained.iter().enumerate() {
        let without = solve(problems, Some(at), weights);
        let fit = error(&class.fit, |chunk| predict(chunk, weights));
        let left_out = error(&class.check, |chunk| predict(chunk, &without));
        bar.suspend(|| print_row(class, weights, fit, left_out));
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("never fitted:");
    for class in unseen {
        print_row(class, weights, f64::NAN, f64::NAN);
    }
}

pub fn print_row(class: &Measured, weights: &[u16], fit: f64, left_out: f64) {
    let bytes: f64 = class.fit.iter().chain(&class.check).flat_map(|chunk| &chunk.seen).sum();
    let tokens: f64 = class.fit.iter().chain(&class.check).map(|chunk| chunk.tokens).sum();
    let check = error(&class.check, |chunk| predict(chunk, weights));
    let shipped = error(&class.check, |chunk| chunk.shipped);
    let [fit, check, left_out, shipped] = [fit, check, left_out, shipped]
        .map(|error| if error.is_nan() { "-".to_owned() } else { format!("{error:+.1}") });
    let p95 = error_p95(&class.check, weights).map_or("-".to_owned(), |error| format!("{error:.1}"));
    let (kilobytes, density) = (bytes / 1000.0, bytes / tokens);
    println!(
        "{:14} {kilobytes:>6.0} {density:>8.2} {fit:>6} {check:>6} {p95:>6} {left_out:>9} {shipped:>8}",
        class.name
    );
}

pub fn print_weights(weights: &[u16]) {
    println!("\nstatic WEIGHTS: [u16; CLASSES * CLASSES] = [");
    for row in weights.chunks(CLASSES) {
        let row: Vec<String> = row.iter().map(|weight| format!("{weight:>4}")).collect();
        println!("    {},", row.join(", "));
    }
    println!("];");
}
