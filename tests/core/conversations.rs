//! Every recorded conversation of the dialects that this version reads, as bodies at several turns, with an engine that
//! answers at random: nothing may break, whatever it says.

use crate::support::conversations::{self, Conversation};
use crate::support::{exchange, invariants};
use context_compaction::exchange::Outcome;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

/// Six turns spread over a conversation, the last one among them.
fn some_turns(conversation: &Conversation) -> Vec<usize> {
    let turns = conversation.turns();
    (1..=6).filter_map(|sixth| turns.get((turns.len() * sixth / 6).checked_sub(1)?).copied()).collect()
}

#[test]
fn random_verdicts_break_nothing() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut reduced, mut bodies) = (0, 0);
    for conversation in conversations::served(usize::MAX) {
        for (index, turn) in some_turns(&conversation).into_iter().enumerate() {
            let removal = ["auto", "portable", "full"][index % 3];
            let settings = json!({
                "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "removal": removal, "epoch_pairs": 8,
                "truncate_head_chars": 100, "max_body_bytes": 50_000_000,
            });
            let policy = exchange::policy(&exchange::configuration(settings));
            let body = conversation.body(turn);
            let mut judge = |_: &str, _: &Value| (rng.random::<f64>(), rng.random::<f64>());
            let ran = exchange::run(&policy, conversation.path(), &[], &body, &mut judge);
            let complaints = invariants::complaints(&body, &ran.outgoing);
            assert!(complaints.is_empty(), "{} at {turn}, {removal}: {complaints:?}", conversation.name);
            let outcome = ran.outcome.to_string();
            assert!(!outcome.contains("self_check"), "{} at {turn}: {outcome}", conversation.name);
            reduced += usize::from(ran.outcome == Outcome::Reduced);
            bodies += 1;
        }
    }
    println!("{reduced} of {bodies} bodies reduced");
    assert!(bodies == 0 || reduced * 2 > bodies, "only {reduced} of {bodies} bodies were reduced");
}

#[test]
fn the_documented_configuration_takes_something_out_and_keeps_it_out() {
    let configuration = json!({"compactacao": {
        "enabled": true, "engine": "local", "endpoint": "http://127.0.0.1:8080", "model": "m",
        "api_key_env": "ATLASBERG_COMPACTACAO_API_KEY", "limiar_tokens": 40000, "piso_bytes": 2048,
        "preservar_recentes": 6, "limiar_decisao": 0.7, "truncar_cabeca_chars": 800, "timeout_ms": 1500,
        "min_reducao": 0.1, "consentimento_exportar_prompt": false
    }});
    let policy = exchange::policy(&configuration);
    let mut judge = |_: &str, _: &Value| (0.0, 0.0);
    let mut reduced = 0;
    for conversation in conversations::served(usize::MAX) {
        let turns = conversation.turns();
        let at = turns.partition_point(|turn| conversation.body(*turn).len() < 200_000);
        if at + 1 >= turns.len() {
            continue;
        }
        let (first, second) = (conversation.body(turns[at]), conversation.body(turns[at + 1]));
        let now = exchange::run(&policy, conversation.path(), &[], &first, &mut judge);
        if now.outcome != Outcome::Reduced {
            println!("{}: {}", conversation.name, now.report.line(Some(&now.outcome)));
            continue;
        }
        let next = exchange::run(&policy, conversation.path(), &[], &second, &mut judge);
        assert_eq!(next.outcome, Outcome::Reduced, "{}", conversation.name);
        let gone = removed_texts(&first, &now.outgoing);
        assert!(!gone.is_empty(), "{}", conversation.name);
        let back = gone.iter().filter(|text| memchr::memmem::find(&next.outgoing, text).is_some()).count();
        assert_eq!(back, 0, "{}: {back} of {} removed texts came back", conversation.name, gone.len());
        reduced += 1;
    }
    assert!(!conversations::available() || reduced >= 15, "only {reduced} conversations were reduced");
}

/// Removed pieces that are long enough to be unmistakable and stand only once in the body.
fn removed_texts<'a>(incoming: &'a [u8], outgoing: &[u8]) -> Vec<&'a [u8]> {
    let ranges = crate::support::ranges::removed(incoming, outgoing).expect("a reduction");
    let middles = ranges.into_iter().filter(|r| r.len() > 3000).map(|r| &incoming[r.start + 1000..r.start + 2000]);
    middles.filter(|text| memchr::memmem::find_iter(incoming, text).count() == 1).collect()
}
