//! Recorded requests of five formats with an engine that drops everything, as they were and with the conversation going on:
//! each leaves untouched or as its provider takes it. What became of each is a golden file; `UPDATE_GOLDEN=1` writes it anew.

use crate::support::exchange::{self, Ran};
use crate::support::paths::{repository, shared};
use crate::support::provider_rules::broken;
use crate::support::shapes::{self, Shape, Turn};
use crate::support::{invariants, ranges};
use context_compaction::{dialect::Dialect, exchange::Outcome};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write, fs};

/// The path of a recorded address.
fn path_of(address: &str) -> &str {
    let behind = address.split_once("://").map_or(address, |(_, rest)| rest);
    behind.find('/').map_or("/", |at| &behind[at..])
}

/// The conversation after another answer and another two prompts, in the format's own shape.
fn continued(shape: &Shape, body: &[u8]) -> Option<Vec<u8>> {
    let mut whole: Value = serde_json::from_slice(body).ok()?;
    let says = |reply: &str, prompt: &str| [Turn::Reply(reply.to_owned()), Turn::Prompt(prompt.to_owned())];
    let more = shape.body(&[says("I see.", "And then?"), says("That is all.", "Thank you.")].concat());
    for list in ["messages", "contents", "input"] {
        if let (Some(history), Some(more)) = (whole.get_mut(list).and_then(Value::as_array_mut), more[list].as_array())
        {
            let ends_with_reply =
                history.last().is_some_and(|last| matches!(last["role"].as_str(), Some("assistant" | "model")));
            let more = more.iter().filter(|message| message["role"] != "system").skip(usize::from(ends_with_reply));
            history.extend(more.cloned());
            return Some(whole.to_string().into_bytes());
        }
    }
    None
}

fn outcome(ran: &Ran) -> String {
    match ran.outcome {
        Outcome::Reduced => format!("-{} ~{}", ran.report.dropped, ran.report.truncated),
        Outcome::Untouched(skip) => skip.to_string(),
    }
}

#[test]
fn recorded_requests_leave_untouched_or_as_their_provider_takes_them() {
    let Ok(index) = fs::read_to_string(shared("data/bodies/index.json")) else {
        eprintln!("skipped: the recorded bodies are not beside this repository (../shared/data/bodies)");
        return;
    };
    let index: Vec<Value> = serde_json::from_str(&index).expect("the index is JSON");
    let shapes: BTreeMap<String, Shape> =
        shapes::load_all().expect("the shapes load").into_iter().map(|shape| (shape.dialect.clone(), shape)).collect();
    let policy = exchange::policy(&exchange::configuration(json!({
        "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "truncate_head_chars": 10,
    })));
    let mut rows = Vec::new();
    let mut sums: BTreeMap<(String, &str), [usize; 4]> = BTreeMap::new();
    for entry in &index {
        let (file, format) = (entry["file"].as_str().expect("a file"), entry["format"].as_str().expect("a format"));
        let path = path_of(entry["uri"].as_str().expect("an address"));
        let recorded = fs::read(shared("data").join(file)).expect("a body");
        let shape = Dialect::of(path).and_then(|dialect| shapes.get(dialect.name));
        let more = shape.and_then(|shape| continued(shape, &recorded));
        let mut run = |body: &[u8], when: &'static str| {
            let ran = exchange::run_engine(
                (&exchange::Shared::default(), 7),
                &policy,
                (path, &[]),
                body,
                &mut exchange::drop_all,
            );
            let what = format!("{file} ({when})");
            assert!(ranges::removed(body, &ran.outgoing).is_ok(), "{what}");
            assert_eq!(invariants::complaints(body, &ran.outgoing), Vec::<String>::new(), "{what}");
            if broken(path, body).is_empty() {
                assert_eq!(broken(path, &ran.outgoing), Vec::<String>::new(), "{what}");
            }
            let sum = sums.entry((format.to_owned(), when)).or_default();
            let reduced = ran.outcome == Outcome::Reduced;
            let counts = [1, usize::from(reduced), ran.report.dropped, ran.report.truncated];
            let counted = if reduced { counts } else { [1, 0, 0, 0] };
            sum.iter_mut().zip(counted).for_each(|(sum, count)| *sum += count);
            outcome(&ran)
        };
        let now = run(&recorded, "as recorded");
        let later = more.map_or_else(|| "-".to_owned(), |body| run(&body, "going on"));
        rows.push(format!("{:<102} {now:<20} {later}", file.trim_start_matches("bodies/")));
    }
    rows.sort();
    let mut table = String::new();
    for ((format, when), [bodies, reduced, dropped, truncated]) in &sums {
        writeln!(table, "{format:<20} {when:<12} {bodies:>3} bodies: {reduced:>2} reduced, {dropped:>2} pairs dropped, {truncated:>2} results shortened").expect("text");
    }
    let table = format!("{table}\n{}\n", rows.join("\n"));
    let golden = repository().join("tests/fixtures/recorded-bodies.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &table).expect("writable");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let changed: Vec<&str> = table.lines().filter(|line| !expected.lines().any(|known| known == *line)).collect();
    assert!(table == expected, "not as in {}:\n{}", golden.display(), changed.join("\n"));
}
