//! The rules: what is known of a tool call and its result in, how likely each is still needed out.
//!
//! Percent that the exact text of a result is still needed; the first line that fits counts:
//!
//! | the pair                                                    | %          | and citations |
//! | ----------------------------------------------------------- | ---------- | ------------- |
//! | has no result yet                                           | 95         |               |
//! | failed, and nobody has come back to it                      | 95         |               |
//! | failed, and was tried again, or its target was changed      | 5          |               |
//! | was called again with the same arguments                    | 5          |               |
//! | its target was read or changed since                        | 10         | +             |
//! | read of a file: under 8 pairs old, under 32, older          | 60, 40, 20 | +             |
//! | search, command or edit: under 8 pairs old, under 32, older | 50, 20, 10 | +             |
//! | any other tool: under 8 pairs old, under 32, older          | 70, 50, 25 | +             |
//!
//! A citation is a later entry of the assistant that uses a name from the result: the first adds 25, the second 25
//! more, up to 95. A call has a higher bar, since without it nothing shows that the work was done: 95, except that the
//! call of a read or search that was never cited, or was repeated, has 5 more than its result.
//!
//! The percentages follow how often results of the recorded conversations were cited again later. Never cited so far:
//! 8 % where the target was read or changed since, 16 % of commands from 8 pairs on, 43 % of reads between 8 and 32
//! pairs old, 16 % of older ones. Cited once 52 %, more often 72 %. Of everything at most 30 % here: 12 %.

/// What a tool does, as far as its name says: as the filter sees it.
pub use context_compaction::engine::Class as Tool;

/// How the call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is no result yet.
    Open,
    /// The client says so, or the result reads like it.
    Failed,
    /// Anything else.
    Fine,
}

/// What came after the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Later {
    /// Nothing on the same target.
    Nothing,
    /// The target was read again or changed.
    Superseded,
    /// The same call.
    Repeated,
}

/// What is known of one pair of call and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What the tool does.
    pub tool: Tool,
    /// How the call went.
    pub outcome: Outcome,
    /// What came after it.
    pub later: Later,
    /// How many pairs came after it.
    pub age: u64,
    /// How many later entries of the assistant use a name from the result.
    pub cited: u64,
}

/// How likely the two halves of a pair are still needed, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// To know that the call happened, and with which arguments.
    pub call: f64,
    /// To have the exact text of the result.
    pub result: f64,
}

/// As sure as the rules ever are.
const NEEDED: u8 = 95;
const STANDS_ELSEWHERE: u8 = 5;
const OUT_OF_DATE: u8 = 10;
const CITED: [u8; 3] = [0, 25, 50];
const CALL_ABOVE_RESULT: u8 = 5;

/// Judges one pair.
pub fn judge(facts: &Facts) -> Judgement {
    let result = result(facts);
    let looked_only = matches!(facts.tool, Tool::Read | Tool::Search);
    let unused = facts.cited == 0 || facts.later == Later::Repeated;
    let call = if looked_only && unused { result + CALL_ABOVE_RESULT } else { NEEDED };
    Judgement { call: probability(call), result: probability(result) }
}

fn result(facts: &Facts) -> u8 {
    match (facts.outcome, facts.later) {
        (Outcome::Open, _) | (Outcome::Failed, Later::Nothing) => NEEDED,
        (Outcome::Failed, _) | (Outcome::Fine, Later::Repeated) => STANDS_ELSEWHERE,
        (Outcome::Fine, Later::Superseded) => OUT_OF_DATE + citations(facts.cited),
        (Outcome::Fine, Later::Nothing) => by_age(facts.tool, facts.age) + citations(facts.cited),
    }
}

fn by_age(tool: Tool, age: u64) -> u8 {
    let [young, older, old] = match tool {
        Tool::Read => [60, 40, 20],
        Tool::Search | Tool::Shell | Tool::Edit => [50, 20, 10],
        Tool::Other => [70, 50, 25],
    };
    match age {
        0..8 => young,
        8..32 => older,
        32.. => old,
    }
}

fn citations(cited: u64) -> u8 {
    let [none, once, more] = CITED;
    match cited {
        0 => none,
        1 => once,
        2.. => more,
    }
}

fn probability(percent: u8) -> f64 {
    f64::from(percent.min(NEEDED)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read that nothing has happened to yet.
    const READ: Facts = Facts { tool: Tool::Read, outcome: Outcome::Fine, later: Later::Nothing, age: 4, cited: 0 };
    /// What a filter with default thresholds takes for "not needed".
    const BAR: f64 = 0.3;

    fn every_pair() -> impl Iterator<Item = Facts> {
        use {Later::*, Outcome::*, Tool::*};
        let tools = [Read, Search, Shell, Edit, Other].into_iter();
        let pairs = tools.flat_map(|tool| [Open, Failed, Fine].map(|outcome| Facts { tool, outcome, ..READ }));
        let pairs = pairs.flat_map(|facts| [Nothing, Superseded, Repeated].map(|later| Facts { later, ..facts }));
        let pairs = pairs.flat_map(|facts| [0, 7, 8, 31, 32, u64::MAX].map(|age| Facts { age, ..facts }));
        pairs.flat_map(|facts| [0, 1, 2, u64::MAX].map(|cited| Facts { cited, ..facts }))
    }

    fn percent(facts: Facts) -> (i64, i64) {
        let Judgement { call, result } = judge(&facts);
        ((call * 100.0).round() as i64, (result * 100.0).round() as i64)
    }

    #[test]
    fn the_table_says_what_the_documentation_says() {
        let shell = Facts { tool: Tool::Shell, ..READ };
        let rows = [
            ("a young read", READ, (65, 60)),
            ("an older read", Facts { age: 8, ..READ }, (45, 40)),
            ("an old read", Facts { age: 32, ..READ }, (25, 20)),
            ("an old read, cited", Facts { age: 32, cited: 1, ..READ }, (95, 45)),
            ("a read, file changed later", Facts { later: Later::Superseded, ..READ }, (15, 10)),
            ("the same, cited once", Facts { later: Later::Superseded, cited: 1, ..READ }, (95, 35)),
            ("the same, cited often", Facts { later: Later::Superseded, cited: 9, ..READ }, (95, 60)),
            ("a repeated read, cited", Facts { later: Later::Repeated, cited: 9, ..READ }, (10, 5)),
            ("an older search", Facts { tool: Tool::Search, age: 8, ..READ }, (25, 20)),
            ("an older command", Facts { age: 8, ..shell }, (95, 20)),
            ("a repeated command", Facts { later: Later::Repeated, ..shell }, (95, 5)),
            ("an open failure", Facts { outcome: Outcome::Failed, age: 99, ..shell }, (95, 95)),
            ("a failure, tried again", Facts { outcome: Outcome::Failed, later: Later::Repeated, ..shell }, (95, 5)),
            ("no result yet", Facts { outcome: Outcome::Open, ..READ }, (95, 95)),
            ("an old edit", Facts { tool: Tool::Edit, age: 32, ..READ }, (95, 10)),
            ("an agent's old report", Facts { tool: Tool::Other, age: 32, ..READ }, (95, 25)),
        ];
        for (what, facts, expected) in rows {
            assert_eq!(percent(facts), expected, "{what}");
        }
    }

    #[test]
    fn a_call_never_goes_without_its_result() {
        for facts in every_pair() {
            let Judgement { call, result } = judge(&facts);
            assert!((0.0..=1.0).contains(&call) && (0.0..=1.0).contains(&result), "{facts:?}");
            assert!(call > BAR || result <= BAR, "{facts:?}");
        }
    }

    #[test]
    fn calls_that_did_something_stay() {
        let did = |facts: &Facts| !matches!(facts.tool, Tool::Read | Tool::Search);
        assert!(every_pair().filter(did).all(|facts| judge(&facts).call > 0.8));
    }

    #[test]
    fn more_citations_never_make_a_pair_less_needed_and_more_age_never_more() {
        for facts in every_pair() {
            let (now, cited) = (judge(&facts), judge(&Facts { cited: facts.cited.saturating_add(1), ..facts }));
            let aged = judge(&Facts { age: facts.age.saturating_add(1), ..facts });
            assert!(cited.result >= now.result && cited.call >= now.call, "{facts:?}");
            assert!(aged.result <= now.result && aged.call <= now.call, "{facts:?}");
        }
    }
}
