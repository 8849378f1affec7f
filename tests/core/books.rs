//! The filter's own books against what was really sent: bodies compared with the bodies before them.

use std::rc::Rc;

use crate::support::conversations::{self, Conversation};
use crate::support::exchange::{self, Ran, Shared};
use crate::support::invariants;
use context_compaction::dialect::Dialect;
use context_compaction::exchange::{Books, Outcome};
use context_compaction::fault::Fault;
use context_compaction::json::Document;
use context_compaction::policy::Policy;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;

/// An element of a body: its payload in bytes, and its bytes.
type Element = (u64, Vec<u8>);

fn elements(path: &str, body: &[u8]) -> Vec<Element> {
    let doc = Document::parse(body).expect("JSON");
    let transcript = (Dialect::of(path).expect("served").read)(&doc).expect("sound");
    transcript.elements.iter().map(|e| (e.payload as u64, doc.slice(&e.span).to_vec())).collect()
}

/// Payload bytes that the provider finds in its cache, and those that are new.
fn cached_and_new(now: &[Element], before: Option<&Vec<Element>>) -> (u64, u64) {
    let same = before.map_or(0, |before| now.iter().zip(before).take_while(|(a, b)| a == b).count());
    let sum = |part: &[Element]| part.iter().map(|(payload, _)| payload).sum::<u64>();
    (sum(&now[..same]), sum(&now[same..]))
}

/// Replays a conversation and returns what each turn's books say, and what a comparison of the bodies does: bytes read
/// and written without the filter, and with it.
fn replay(conversation: &Conversation, policy: &Rc<Policy>, engine: &mut exchange::Engine<'_>) -> Vec<(Ran, [u64; 4])> {
    let shared = Shared::default();
    let mut before = None;
    let mut turns = Vec::new();
    for turn in conversation.turns() {
        let body = conversation.body(turn);
        let ran = exchange::run_engine((&shared, 7), policy, (conversation.path(), &[]), &body, engine);
        assert_eq!(invariants::complaints(&body, &ran.outgoing), Vec::<String>::new(), "{}", conversation.name);
        let now = (elements(conversation.path(), &body), elements(conversation.path(), &ran.outgoing));
        let earlier = before.as_ref();
        let (read, write) = cached_and_new(&now.0, earlier.map(|(original, _)| original));
        let (read_with, write_with) = cached_and_new(&now.1, earlier.map(|(_, sent)| sent));
        turns.push((ran, [read, write, read_with, write_with]));
        before = Some(now);
    }
    turns
}

/// What reads and writes cost, in thousandths of a byte of fresh input, at the prices of the entry.
fn price([read, write]: [u64; 2], (r, w): (u64, u64)) -> i128 {
    i128::from(read) * i128::from(r) + i128::from(write) * i128::from(w)
}

#[test]
fn what_is_booked_is_what_the_bodies_differ_by() {
    let policy = exchange::early(json!({}));
    let (mut entries, mut rewrites) = (0, 0);
    for conversation in conversations::served(140) {
        for (turn, (ran, [read, write, read_with, write_with])) in
            replay(&conversation, &policy, &mut exchange::drop_all).into_iter().enumerate()
        {
            let Some(Books { entry, .. }) = &ran.report.books else { continue };
            for prices in [(100, 1250), (500, 1000), (20, 1000)] {
                let really = price([read, write], prices) - price([read_with, write_with], prices);
                let booked = i128::from(entry.parts.removed) * i128::from(prices.0)
                    - i128::from(entry.rewritten) * i128::from(prices.1 - prices.0);
                assert_eq!(booked, really, "{} at turn {turn}: {entry:?}", conversation.name);
            }
            let parts = &entry.parts;
            let cached = parts.prose + parts.protected + parts.small + parts.candidates + parts.removed;
            assert_eq!((cached, parts.new), (read, write), "{} at turn {turn}: {parts:?}", conversation.name);
            entries += 1;
            rewrites += u32::from(entry.rewritten > 0);
        }
    }
    println!("{entries} entries, {rewrites} with a rewrite");
    assert!(!conversations::available() || (entries > 200 && rewrites > 20), "{entries} entries, {rewrites} rewrites");
}

#[test]
fn a_retry_and_a_second_look_are_booked_once() {
    let Some(conversation) = conversations::served(140).into_iter().max_by_key(|c| c.messages.len()) else { return };
    let policy = exchange::early(json!({}));
    let shared = Shared::default();
    let (mut epochs, mut judged) = (0, 0);
    for turn in conversation.turns() {
        let body = conversation.body(turn);
        let request = (conversation.path(), &[][..]);
        let ran = exchange::run_engine((&shared, 7), &policy, request, &body, &mut exchange::drop_all);
        let retry = exchange::run_engine((&shared, 7), &policy, request, &body, &mut exchange::drop_all);
        assert_eq!(retry.report.books, None);
        if let Some(books) = ran.report.books {
            epochs += books.epochs;
            judged += books.needed.iter().sum::<u64>();
            assert_eq!(books.needed[0], books.judged_drop, "drop-all says so of each");
        }
    }
    let body = conversation.body(conversation.messages.len());
    let cold = exchange::run(&policy, conversation.path(), &[], &body, &mut |_, _| (0.0, 0.0));
    let books = cold.report.books.expect("a long conversation has books");
    assert_eq!((books.epochs, books.needed.iter().sum::<u64>()), (epochs, judged), "each epoch once");
}

/// Net effect in thousandths of a byte of fresh input, as a share of the cost of doing nothing.
fn net(turns: &[(Ran, [u64; 4])], prices: (u64, u64)) -> f64 {
    let (mut without, mut with) = (0, 0);
    for (_, [read, write, read_with, write_with]) in turns {
        without += price([*read, *write], prices);
        with += price([*read_with, *write_with], prices);
    }
    with as f64 / without as f64 - 1.0
}

#[test]
fn an_engine_that_fails_often_costs_less_where_decisions_are_kept() {
    let (mut original, mut kept, mut perfect, mut count) = (0.0, 0.0, 0.0, 0);
    let mut failures = 0;
    for conversation in conversations::served(100) {
        let mut run = |on_failure: &str, share: f64| {
            let mut rng = StdRng::seed_from_u64(5);
            let policy = exchange::early(json!({"on_engine_failure": on_failure}));
            let turns = replay(&conversation, &policy, &mut |request| {
                if rng.random_bool(share) { Err(Fault::Timeout) } else { exchange::drop_all(request) }
            });
            failures += turns.iter().filter(|(ran, _)| ran.report.fault.is_some()).count();
            net(&turns, (100, 1250))
        };
        original += run("original", 0.2);
        kept += run("keep_decided", 0.2);
        perfect += run("original", 0.0);
        count += 1;
    }
    println!(
        "{count} conversations: {perfect:.2} without failures, {kept:.2} kept, {original:.2} original (sums of shares)"
    );
    if conversations::available() {
        assert!(failures > 20, "{failures} failures");
        assert!(perfect < kept && kept < original, "{perfect} {kept} {original}");
    }
}

#[test]
fn a_failure_after_a_removal_is_booked_as_the_rewrite_that_it_is() {
    let policy = exchange::early(json!({}));
    let mut returned = 0;
    for conversation in conversations::served(100) {
        let mut rng = StdRng::seed_from_u64(9);
        let mut engine =
            |request: &[u8]| if rng.random_bool(0.3) { Err(Fault::Timeout) } else { exchange::drop_all(request) };
        let turns = replay(&conversation, &policy, &mut engine);
        for pair in turns.windows(2) {
            let [(before, _), (now, [read, write, read_with, write_with])] = pair else { continue };
            let Some(Books { entry, .. }) = &now.report.books else { continue };
            let came_back = before.outcome == Outcome::Reduced && now.outcome != Outcome::Reduced;
            let prices = (100, 1250);
            let really = price([*read, *write], prices) - price([*read_with, *write_with], prices);
            let booked = i128::from(entry.parts.removed) * i128::from(prices.0)
                - i128::from(entry.rewritten) * i128::from(prices.1 - prices.0);
            assert_eq!(booked, really, "{}: {entry:?}", conversation.name);
            returned += u32::from(came_back);
        }
    }
    assert!(!conversations::available() || returned > 10, "{returned} returns to the original");
}
