//! One conversation in every format: the same pairs leave wherever the rules of both allow it, and no provider refuses what
//! is left. A dialect takes part by its `tests/fixtures/<dialect>/shape.json`.

use crate::support::exchange::{self, Needed, Ran};
use crate::support::invariants;
use crate::support::provider_rules::broken;
use crate::support::shapes::{self, Shape, Tool, Turn};
use context_compaction::{dialect::Dialect, exchange::Outcome, policy::Removal, skip::Skip};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How the tools of one group are judged, from the first on.
type Judged = Vec<Needed>;

const DROP: Needed = (0.0, 0.0);
const SHORTEN: Needed = (1.0, 0.0);
const KEEP: Needed = (1.0, 1.0);

fn words() -> impl Strategy<Value = String> {
    "[a-z]{3,8}( [a-z]{1,8}){2,12}"
}

fn verdict() -> impl Strategy<Value = Needed> {
    prop_oneof![4 => Just(DROP), 1 => Just(SHORTEN), 2 => Just(KEEP)]
}

/// What happens between two prompts: groups of tools, then a reply.
fn exchange_of_turns(
    said: impl Strategy<Value = String>,
    verdicts: impl Strategy<Value = Judged>,
) -> impl Strategy<Value = Vec<(String, Judged, Vec<String>)>> {
    let group = (said, verdicts).prop_flat_map(|(said, judged)| {
        let results = prop::collection::vec(words(), judged.len());
        (Just(said), Just(judged), results)
    });
    prop::collection::vec(group, 0..4)
}

/// The turns of a conversation, with the verdict of each tool by the ordinal of its call.
fn conversation(turns: &[Vec<(String, Judged, Vec<String>)>]) -> (Vec<Turn>, BTreeMap<String, Needed>) {
    let (mut all, mut verdicts) = (vec![Turn::Prompt("Please begin.".to_owned())], BTreeMap::new());
    for groups in turns {
        for (said, judged, results) in groups {
            let tools = judged.iter().zip(results).map(|(needed, text)| {
                let number = verdicts.len() + 1;
                verdicts.insert(format!("p{number}"), *needed);
                Tool {
                    id: format!("tool{number:05}"),
                    arguments: json!({"path": format!("file-{number}")}),
                    result: format!("result {number}. {text}"),
                }
            });
            all.push(Turn::Tools(said.clone(), tools.collect()));
        }
        all.push(Turn::Reply("That is done.".to_owned()));
        all.push(Turn::Prompt("Please go on.".to_owned()));
    }
    all.push(Turn::Reply("That was all.".to_owned()));
    all.push(Turn::Prompt("Thank you.".to_owned()));
    (all, verdicts)
}

fn run(shape: &Shape, body: &[u8], verdicts: &BTreeMap<String, Needed>, removal: &str) -> Ran {
    let policy = exchange::policy(&exchange::configuration(json!({
        "threshold_tokens": 0, "floor_bytes": 0, "min_reduction": 0, "preserve_recent": 0, "truncate_head_chars": 12,
        "removal": removal,
    })));
    exchange::run(&policy, shape.path(), &[], body, &mut |pair, _| verdicts.get(pair).copied().unwrap_or(KEEP))
}

/// The numbers of the tools whose result has gone.
fn gone(ran: &Ran, tools: usize) -> Vec<usize> {
    let outgoing = String::from_utf8_lossy(&ran.outgoing);
    (1..=tools).filter(|number| !outgoing.contains(&format!("result {number}."))).collect()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn whole_groups_leave_alike_in_every_format(
        turns in prop::collection::vec(
            exchange_of_turns(Just(String::new()), (verdict(), 1usize..4).prop_map(|(v, n)| vec![v; n])), 1..4)
    ) {
        let (turns, verdicts) = conversation(&turns);
        let mut expected = None;
        for shape in shapes::load_all().expect("the shapes load") {
            let body = shape.body(&turns).to_string().into_bytes();
            let gone = gone(&run(&shape, &body, &verdicts, "auto"), verdicts.len());
            let (first, by) = expected.get_or_insert((gone.clone(), shape.dialect.clone()));
            prop_assert_eq!(&gone, &*first, "{} and {}", shape.dialect, by);
        }
    }

    #[test]
    fn formats_of_one_law_lose_the_same_pairs(
        turns in prop::collection::vec(
            exchange_of_turns(prop_oneof![Just(String::new()), words()], prop::collection::vec(verdict(), 1..4)), 1..4)
    ) {
        let (turns, verdicts) = conversation(&turns);
        let mut by_law: BTreeMap<(bool, bool), (Vec<usize>, String)> = BTreeMap::new();
        for shape in shapes::load_all().expect("the shapes load") {
            let body = shape.body(&turns);
            let model = body["model"].as_str().unwrap_or_default().to_owned();
            let ran = run(&shape, body.to_string().as_bytes(), &verdicts, "auto");
            let dialect = Dialect::of(shape.path()).expect("served");
            let levels = dialect.levels(Removal::Auto, &model);
            let gone = gone(&ran, verdicts.len());
            let (first, by) = by_law.entry((levels.partial, levels.prose_stays)).or_insert((gone.clone(), shape.dialect.clone()));
            prop_assert_eq!(&gone, &*first, "{} and {}", shape.dialect, by);
        }
    }

    #[test]
    fn no_provider_refuses_what_is_left_of_a_conversation_that_it_took(
        turns in prop::collection::vec(
            exchange_of_turns(prop_oneof![2 => Just(String::new()), 1 => words()], prop::collection::vec(verdict(), 1..4)),
            1..4),
        removal in prop::sample::select(vec!["auto", "portable"]),
        cut in 0usize..6,
    ) {
        let (mut turns, verdicts) = conversation(&turns);
        turns.truncate(turns.len() - cut.min(turns.len() - 1));
        for shape in shapes::load_all().expect("the shapes load") {
            let body = shape.body(&turns).to_string().into_bytes();
            let ran = run(&shape, &body, &verdicts, removal);
            prop_assert_ne!(ran.outcome, Outcome::Untouched(Skip::SelfCheck), "{}", shape.dialect);
            prop_assert_eq!(invariants::complaints(&body, &ran.outgoing), Vec::<String>::new(), "{}", shape.dialect);
            let taken = broken(shape.path(), &body).is_empty();
            prop_assert!(taken || matches!(turns.last(), Some(Turn::Reply(_))), "{} {:?}", shape.dialect, broken(shape.path(), &body));
            if taken {
                let complaints = broken(shape.path(), &ran.outgoing);
                prop_assert!(complaints.is_empty(), "{}: {:?}", shape.dialect, complaints);
            }
        }
    }
}

#[test]
fn every_shape_is_a_conversation_that_its_provider_takes_and_that_gets_smaller() {
    let tools = |from: usize| {
        let tool = |number: usize| Tool {
            id: format!("tool{number:05}"),
            arguments: json!({"path": "a"}),
            result: format!("result {number}. {}", "word ".repeat(20)),
        };
        Turn::Tools(String::new(), vec![tool(from), tool(from + 1)])
    };
    let words = |text: &str| [Turn::Reply(text.to_owned()), Turn::Prompt("Go on.".to_owned())];
    let prompt = [Turn::Prompt("Go.".to_owned())];
    let with = [&prompt[..], &[tools(1)], &words("Done."), &[tools(3)], &words("Yes."), &words("Bye.")].concat();
    let without = [&prompt[..], &words("Done."), &words("Yes."), &words("Bye.")].concat();
    for shape in shapes::load_all().expect("the shapes load") {
        let body = shape.body(&with).to_string().into_bytes();
        assert_eq!(broken(shape.path(), &body), Vec::<String>::new(), "{}", shape.dialect);
        let ran = run(&shape, &body, &(1..=4).map(|number| (format!("p{number}"), DROP)).collect(), "auto");
        assert_eq!(ran.outcome, Outcome::Reduced, "{}", shape.dialect);
        assert_eq!(gone(&ran, 4), [1, 2, 3, 4], "{}", shape.dialect);
        let left: Value = serde_json::from_slice(&ran.outgoing).expect("JSON");
        assert_eq!(left, shape.body(&without), "{}", shape.dialect);
    }
}
