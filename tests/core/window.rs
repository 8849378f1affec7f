//! How full the window is, what the provider says of it, and what is learned from that, turn by turn.

use crate::support::bodies;
use crate::support::exchange::{self, Shared};
use context_compaction::exchange::{Outcome, Told};
use context_compaction::fault::Fault;
use context_compaction::metrics::Metric;
use context_compaction::models::Family;
use context_compaction::policy::Policy;
use context_compaction::skip::Skip;
use context_compaction::usage::Usage;
use context_compaction::window::Severity;
use serde_json::json;
use std::rc::Rc;

const PATH: &str = "/v1/chat/completions";

const fn usage(input: u64, cached: u64) -> Usage {
    Usage { input, cached: Some(cached), written: None }
}

fn counted(told: &Told, metric: Metric) -> u64 {
    told.counters.iter().filter(|(counted, _)| *counted == metric).map(|(_, by)| by).sum()
}

fn policy(changes: serde_json::Value) -> Rc<Policy> {
    let mut all = json!({"response_headers": true});
    all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    exchange::early(all)
}

#[test]
fn the_providers_word_about_the_last_turn_counts_from_the_next_one_on() {
    let (shared, policy) = (Shared::default(), policy(json!({"threshold_tokens": 1_000_000})));
    let turns = bodies::growing("gpt-4o", 12, 4_000);
    for (number, body) in turns.iter().enumerate() {
        let tokens = 5_000 * (number as u64 + 1);
        let (ran, told) = exchange::run_reported(&shared, &policy, PATH, body, &mut exchange::drop_all, |_| {
            (usage(tokens, 0), number as u64)
        });
        let window = ran.window.expect("the body was read");
        assert_eq!(ran.outcome, Outcome::Untouched(Skip::BelowThreshold));
        let reported = window.reported.map(|(tokens, _)| tokens);
        assert_eq!(reported, (number > 0).then_some(tokens - 5_000), "turn {number}");
        assert_eq!((window.limit, window.estimated == window.original), (128_000, true));
        let since = window.reported.map_or(0, |(_, since)| since);
        assert!(number == 0 || (500..6_000).contains(&since), "what the turn added is estimated: {since}");
        assert_eq!(counted(&told, Metric::UsageInput), tokens);
        assert_eq!(window.severity(), Severity::of(window.used(), 128_000));
    }
    // Another conversation does not find them.
    let other =
        exchange::run_with(&shared, &policy, (PATH, &[]), &bodies::chat("gpt-4o", 9, 4_000), &mut |_, _| (1.0, 1.0));
    assert_eq!(other.window.expect("read").reported, None);
    let model = bodies::growing("gpt-4o-mini", 12, 4_000).remove(5);
    let other = exchange::run_with(&shared, &policy, (PATH, &[]), &model, &mut |_, _| (1.0, 1.0));
    assert_eq!(other.window.expect("read").reported, None, "nor does the same text to another model");
}

#[test]
fn a_familys_bytes_per_token_are_learned_from_what_turns_add_and_never_move_a_boundary() {
    let (shared, policy) = (Shared::default(), policy(json!({"threshold_tokens": 8_000})));
    let turns = bodies::growing("gpt-4o", 24, 4_000);
    let mut rates = Vec::new();
    let mut outgoing = Vec::new();
    for (number, body) in turns.iter().enumerate() {
        // The provider has 2,000 tokens of its own, and makes one of every four bytes.
        let (ran, told) = exchange::run_reported(&shared, &policy, PATH, body, &mut exchange::drop_all, |ran| {
            let bytes = ran.window.expect("read").estimated;
            (usage(2_000 + ran.outgoing.len() as u64 / 4, bytes.min(1)), number as u64)
        });
        rates.extend(told.rate.filter(|(family, _)| *family == Family::OpenAi).map(|(_, rate)| rate));
        outgoing.push(ran.outgoing);
    }
    let last = *rates.last().expect("something was learned");
    assert!((3_600..=4_100).contains(&last), "payload is a little less than the body: {last}");
    let fresh = Shared::default();
    for (body, expected) in turns.iter().zip(&outgoing) {
        let engine = &mut exchange::drop_all;
        let ran = exchange::run_engine((&fresh, 7), &policy, (PATH, &[]), body, engine);
        assert_eq!(&ran.outgoing, expected, "a worker that has learned nothing sends the same");
    }
    let known = exchange::run_with(&shared, &policy, (PATH, &[]), &turns[3], &mut |_, _| (1.0, 1.0)).window.unwrap();
    let unknown = exchange::run_with(&fresh, &policy, (PATH, &[]), &turns[3], &mut |_, _| (1.0, 1.0)).window.unwrap();
    assert!(known.estimated < unknown.estimated, "{known:?} {unknown:?}");
}

#[test]
fn a_reduced_request_shows_both_sizes() {
    let policy = policy(json!({}));
    let body = bodies::demo();
    let ran = exchange::run_engine((&Shared::default(), 7), &policy, (PATH, &[]), &body, &mut exchange::drop_all);
    let window = ran.window.expect("read");
    assert_eq!(ran.outcome, Outcome::Reduced);
    let bytes = |tokens: u64| tokens * 3;
    let gone = body.len() - ran.outgoing.len();
    assert!(bytes(window.original - window.estimated) <= gone as u64 && window.estimated * 10 < window.original * 9);
}

/// A conversation under a provider that reads the longest prefix it has seen, or nothing once anything was removed.
fn under(policy: &Rc<Policy>, breaks: bool) -> (Vec<Option<bool>>, Vec<Outcome>) {
    let shared = Shared::default();
    let (mut pays, mut outcomes) = (Vec::new(), Vec::new());
    for conversation in 0..6 {
        let mut before: Vec<u8> = Vec::new();
        for (number, body) in bodies::growing("claude-sonnet-4-5", 40, 3_000 + conversation).iter().enumerate() {
            let seen = std::mem::take(&mut before);
            let (ran, told) = exchange::run_reported(&shared, policy, PATH, body, &mut exchange::drop_all, |ran| {
                let common = seen.iter().zip(&ran.outgoing).take_while(|(a, b)| a == b).count() as u64;
                let removed = ran.outgoing.len() < body.len();
                let cached = if breaks && removed { 0 } else { common / 4 };
                (usage(ran.outgoing.len() as u64 / 4, cached), number as u64)
            });
            pays.push(told.pays);
            outcomes.push(ran.outcome);
            before = ran.outgoing;
        }
    }
    (pays, outcomes)
}

#[test]
fn where_removals_break_the_providers_cache_it_is_said_and_on_demand_no_new_ones_leave() {
    for check in ["alert", "stop_new", "off"] {
        let policy = policy(json!({"outcome_check": check}));
        let (pays, outcomes) = under(&policy, false);
        assert!(pays.iter().all(Option::is_none), "{check}: a cache that keeps up");
        assert!(!outcomes.contains(&Outcome::Untouched(Skip::NotPaying)));
        let (pays, outcomes) = under(&policy, true);
        let stopped = outcomes.iter().filter(|outcome| **outcome == Outcome::Untouched(Skip::NotPaying)).count();
        match check {
            "off" => assert!(pays.iter().all(Option::is_none) && stopped == 0),
            "alert" => assert!(pays.contains(&Some(false)) && stopped == 0),
            _ => {
                let at = pays.iter().position(|pays| *pays == Some(false)).expect("it is noticed");
                assert!(stopped > 0, "new conversations stay whole");
                let same = at / 40;
                let later = outcomes.get(at + 1..(same + 1) * 40).unwrap_or_default();
                assert!(later.iter().all(|o| *o == Outcome::Reduced), "what was removed stays removed: {later:?}");
            }
        }
    }
}

#[test]
fn what_was_removed_stays_removed_where_no_more_may_leave_also_after_a_failure_of_the_engine() {
    let policy = policy(json!({"outcome_check": "stop_new"}));
    let shared = Shared::default();
    let turns = bodies::growing("claude-sonnet-4-5", 60, 3_000);
    let mut reduced = 0;
    for (number, body) in turns.iter().enumerate() {
        let mut fails = |_: &[u8]| Err(Fault::Reset);
        let engine: &mut exchange::Engine<'_> = if number == 56 { &mut fails } else { &mut exchange::drop_all };
        let (ran, told) = exchange::run_reported(&shared, &policy, PATH, body, engine, |ran| {
            let all = ran.outgoing.len() as u64 / 4;
            // It caches until something is removed.
            (usage(all, if ran.outcome == Outcome::Reduced { 0 } else { all }), number as u64)
        });
        reduced += usize::from(ran.outcome == Outcome::Reduced);
        assert!(number < 40 || number == 56 || ran.outcome == Outcome::Reduced, "{number}: {:?} {told:?}", ran.outcome);
    }
    assert!(reduced > 40, "{reduced}");
}

#[test]
fn a_share_of_the_window_is_a_threshold() {
    let body = bodies::demo();
    for (limit, outcome) in [(100_000, Outcome::Reduced), (200_000, Outcome::Untouched(Skip::BelowThreshold))] {
        let settings = json!({"enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:1", "model": "stub",
            "cost_gate": false, "threshold_ratio": 0.5, "models": {"gpt-4o": limit}});
        let policy = exchange::policy(&settings);
        let ran = exchange::run_engine((&Shared::default(), 7), &policy, (PATH, &[]), &body, &mut exchange::drop_all);
        assert_eq!(ran.outcome, outcome, "{limit}");
    }
}
