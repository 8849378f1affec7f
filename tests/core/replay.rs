//! What `examples/replay.rs` shows on the recorded conversations. Every turn is a pass over the whole body, so those with
//! 140 messages or more are left out: they would take minutes. `make replay` takes all of them.

use std::sync::OnceLock;
use std::thread;

use crate::parts::bill::Cache;
use crate::parts::engines::Engine;
use crate::parts::policies::{Arm, Kind};
use crate::parts::report::Total;
use crate::parts::run::{self, Row};
use crate::support::conversations::{self, Conversation};
use serde_json::{Map, Value, json};

/// Longer ones are left to the example.
const MESSAGES: usize = 140;
/// Threads that share the conversations.
const THREADS: usize = 2;
const ENGINES: [&str; 3] = ["drop-all", "random", "uncited"];

/// One conversation under every arm.
struct Replayed {
    /// The filter with each engine.
    gated: Vec<Row>,
    /// The same without the cost gate.
    ungated: Vec<Row>,
    /// Every pair asked about anew on every turn, with the random engine.
    anew: Row,
}

/// Every conversation, replayed once for all tests; none where they are not beside this repository.
fn replayed() -> &'static [Replayed] {
    static REPLAYED: OnceLock<Vec<Replayed>> = OnceLock::new();
    REPLAYED.get_or_init(|| {
        if !conversations::available() {
            eprintln!("skipped: the conversations are not beside this repository (../shared/data/conversations)");
            return Vec::new();
        }
        let mut all = conversations::load_all().expect("the conversations load");
        all.retain(|conversation| run::is_served(conversation) && conversation.messages.len() < MESSAGES);
        all.iter_mut().for_each(|conversation| _ = run::price(conversation));
        // The long ones first, dealt out in turn: the threads end at about the same time.
        all.sort_by_key(|conversation| std::cmp::Reverse(conversation.messages.len()));
        let dealt = |thread: usize| all.iter().skip(thread).step_by(THREADS).map(replay).collect::<Vec<_>>();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || dealt(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a replay ends")).collect()
        })
    })
}

fn replay(conversation: &Conversation) -> Replayed {
    let engines = ENGINES.map(|name| Engine::of(name, 7, 0.3).expect("a known engine"));
    let arm = |kind, engine, changes: &Value| {
        let changes: Map<String, Value> = changes.as_object().cloned().unwrap_or_default();
        Arm::new(kind, engine, &changes, (0.0, 7)).expect("a sound configuration")
    };
    let mut arms: Vec<Arm<'_>> = engines.iter().map(|engine| arm(Kind::Epochs, engine, &json!({}))).collect();
    arms.extend(engines.iter().map(|engine| arm(Kind::Epochs, engine, &json!({"cost_gate": false}))));
    arms.push(arm(Kind::Anew, &engines[1], &json!({})));
    let mut gated = run::replay(conversation, &arms, Cache::Exact, &mut || ()).expect("a replay");
    let anew = gated.pop().expect("a row for each arm");
    let ungated = gated.split_off(ENGINES.len());
    Replayed { gated, ungated, anew }
}

/// All conversations with one engine.
fn total(engine: usize, rows: fn(&Replayed) -> &[Row]) -> Total {
    let rows: Vec<Row> = replayed().iter().map(|replayed| rows(replayed)[engine].clone()).collect();
    Total::of(&rows)
}

#[test]
fn the_prefix_changes_exactly_when_a_batch_leaves() {
    let mut changes = 0;
    for row in replayed().iter().flat_map(|replayed| replayed.gated.iter().chain(&replayed.ungated)) {
        assert_eq!(Some(row.prefix_changes), row.batches, "{}", row.conversation);
        changes += row.prefix_changes;
    }
    assert!(replayed().is_empty() || changes > 20, "only {changes} batches left");
}

#[test]
fn removal_costs_less_than_doing_nothing_with_every_engine_that_removes() {
    for (index, engine) in ENGINES.iter().enumerate().filter(|_| !replayed().is_empty()) {
        let sum = total(index, |replayed| &replayed.gated).sum;
        println!("{engine}: {:+.1} % saved", 100.0 * sum.share());
        assert!(sum.cost_with < sum.cost_without, "{engine}: {} against {}", sum.cost_with, sum.cost_without);
        // The saving told in two parts is the difference of the two bills.
        assert!((sum.net() - (sum.cost_without - sum.cost_with)).abs() < 1e-6, "{engine}");
    }
}

#[test]
fn deciding_anew_on_every_turn_costs_far_more_than_doing_nothing() {
    if replayed().is_empty() {
        return;
    }
    let rows: Vec<Row> = replayed().iter().map(|replayed| replayed.anew.clone()).collect();
    let (anew, epochs) = (Total::of(&rows).sum, total(1, |replayed| &replayed.gated).sum);
    println!("anew {:+.1} %, epochs {:+.1} %", 100.0 * anew.share(), 100.0 * epochs.share());
    assert!(anew.share() < -0.5 && epochs.share() > 0.0, "anew {}, epochs {}", anew.share(), epochs.share());
}

#[test]
fn with_the_gate_fewer_conversations_lose_money() {
    // Over all engines: with a single one the gate may also hold a batch back that would have paid in the end.
    let losing = |rows: fn(&Replayed) -> &[Row]| (0..ENGINES.len()).map(|engine| total(engine, rows).losing).sum();
    let (with, without): (usize, usize) = (losing(|replayed| &replayed.gated), losing(|replayed| &replayed.ungated));
    println!("losing: {with} with the gate, {without} without");
    assert!(replayed().is_empty() || with < without, "{with} with the gate, {without} without");
}
