//! The protocol System One without a network: a request's body in, the reply or the list of its problems out.

use std::collections::BTreeMap;

use context_compaction::tokens;
use serde_json::{Map, Value, json};

use super::facts::{self, About};
use super::rules::{self, Judgement};

/// The name that replies give. Requests may name any model: there is only one.
pub const MODEL: &str = "context-compaction-rules-1";

/// What the rules know nothing about is a coin toss; a filter keeps on doubt.
const PRIOR: f64 = 0.5;
const MAX_OPTIONS: usize = 255;
const MAX_LEVELS: usize = 10;
/// Problems that one reply lists.
const MAX_PROBLEMS: usize = 20;

/// A request that can be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    state: Value,
    questions: BTreeMap<String, Question>,
    input_tokens: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Question {
    /// How likely is this true? Holds the instructions.
    Noul(Value),
    /// Which of these options?
    Choice(Vec<String>),
    /// Which of these levels?
    Score(Vec<Value>),
}

/// The judgement of every pair by its name.
type Pairs = BTreeMap<String, Judgement>;

/// What is wrong with a request, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    at: Vec<String>,
    message: &'static str,
    kind: &'static str,
}

impl Problem {
    fn new(at: &[&str], message: &'static str, kind: &'static str) -> Self {
        Self { at: at.iter().map(|part| (*part).to_owned()).collect(), message, kind }
    }

    /// The problem as an entry of `detail`. It repeats names of the request, never values.
    pub fn to_json(&self) -> Value {
        let at: Vec<&str> = std::iter::once("body").chain(self.at.iter().map(String::as_str)).collect();
        json!({"loc": at, "msg": self.message, "type": self.kind})
    }
}

impl Request {
    /// Reads a body; at most twenty problems come back, and at least one.
    pub fn read(body: &[u8]) -> Result<Self, Vec<Problem>> {
        let invalid = |_| vec![Problem::new(&[], "Input should be valid JSON of moderate depth", "json_invalid")];
        let mut whole: Map<String, Value> = match serde_json::from_slice(body).map_err(invalid)? {
            Value::Object(whole) => whole,
            _ => return Err(vec![Problem::new(&[], "Input should be an object", "dict_type")]),
        };
        let mut problems = Vec::new();
        for field in ["state", "model", "questions"].iter().filter(|field| !whole.contains_key(**field)) {
            problems.push(Problem::new(&[field], "Field required", "missing"));
        }
        if whole.get("state").is_some_and(|state| !is_text(state)) {
            problems.push(Problem::new(&["state"], "Input should be a string, object or array", "union_type"));
        }
        if whole.get("model").is_some_and(|model| !model.is_string()) {
            problems.push(Problem::new(&["model"], "Input should be a string", "string_type"));
        }
        let questions = whole.get("questions").map(|asked| questions(asked, &mut problems)).unwrap_or_default();
        problems.truncate(MAX_PROBLEMS);
        let state = whole.remove("state").unwrap_or_default();
        let request = Self { state, questions, input_tokens: tokens::estimate(body) };
        if problems.is_empty() { Ok(request) } else { Err(problems) }
    }

    /// How many questions it asks.
    pub fn questions(&self) -> usize {
        self.questions.len()
    }

    /// One answer for every question. An answer depends on the state and the question's text, on nothing else.
    pub fn answers(&self) -> Map<String, Value> {
        let judged = |(name, pair): (&String, &Value)| (name.clone(), rules::judge(&facts::of(pair)));
        // Once per pair, however many questions name it.
        let pairs: Pairs = facts::pairs(&self.state).into_iter().flatten().map(judged).collect();
        let answer = |(id, question): (&String, &Question)| (id.clone(), answer(&pairs, question));
        self.questions.iter().map(answer).collect()
    }

    /// The reply that carries these answers.
    pub fn reply(&self, answers: Map<String, Value>) -> Value {
        let usage = json!({"input_tokens": self.input_tokens, "output_tokens": self.questions()});
        json!({"model": MODEL, "answers": answers, "usage": usage})
    }
}

/// Instructions, descriptions and states may be structured.
fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_object() || value.is_array()
}

fn questions(asked: &Value, problems: &mut Vec<Problem>) -> BTreeMap<String, Question> {
    let Some(asked) = asked.as_object() else {
        problems.push(Problem::new(&["questions"], "Input should be an object", "dict_type"));
        return BTreeMap::new();
    };
    if asked.is_empty() {
        problems.push(Problem::new(&["questions"], "There should be at least one question", "too_short"));
    }
    let mut read = BTreeMap::new();
    for (id, asked) in asked {
        match question(id, asked) {
            Ok(question) => _ = read.insert(id.clone(), question),
            Err(problem) => problems.push(problem),
        }
    }
    read
}

fn question(id: &str, asked: &Value) -> Result<Question, Problem> {
    let wrong = |field: &[&str], message, kind| Problem::new(&[&["questions", id], field].concat(), message, kind);
    let fields = asked.as_object().ok_or_else(|| wrong(&[], "Input should be an object", "model_type"))?;
    let kind = fields.get("type").ok_or_else(|| wrong(&["type"], "Field required", "missing"))?;
    let instructions = fields.get("instructions").cloned().unwrap_or_default();
    if !instructions.is_null() && !is_text(&instructions) {
        return Err(wrong(&["instructions"], "Input should be a string, object or array", "string_type"));
    }
    let criteria = fields.get("criteria").unwrap_or(&Value::Null);
    let read = match kind.as_str() {
        Some("noul") => noul_criteria(criteria).map(|()| Question::Noul(instructions)),
        Some("choice") => options(criteria).map(Question::Choice),
        Some("score") => levels(criteria).map(Question::Score),
        _ => return Err(wrong(&["type"], "Input should be 'noul', 'choice' or 'score'", "union_tag_invalid")),
    };
    read.map_err(|message| wrong(&["criteria"], message, "value_error"))
}

fn noul_criteria(criteria: &Value) -> Result<(), &'static str> {
    let known = |(side, text): (&String, &Value)| {
        matches!(side.as_str(), "true" | "false") && (text.is_null() || is_text(text))
    };
    let fits = criteria.is_null() || criteria.as_object().is_some_and(|sides| sides.iter().all(known));
    if fits { Ok(()) } else { Err("Input should be an object with texts for 'true' and 'false'") }
}

fn options(criteria: &Value) -> Result<Vec<String>, &'static str> {
    let options = criteria.as_object().ok_or("Input should be an object of options")?;
    if !(1..=MAX_OPTIONS).contains(&options.len()) {
        return Err("There should be 1 to 255 options");
    }
    if options.values().any(|description| !description.is_null() && !is_text(description)) {
        return Err("A description should be a string, object, array or null");
    }
    Ok(options.keys().cloned().collect())
}

fn levels(criteria: &Value) -> Result<Vec<Value>, &'static str> {
    let levels = criteria.as_array().ok_or("Input should be a list of levels")?;
    if !(1..=MAX_LEVELS).contains(&levels.len()) {
        return Err("There should be 1 to 10 levels");
    }
    if levels.iter().all(is_text) { Ok(levels.clone()) } else { Err("A level should be a string, object or array") }
}

fn answer(pairs: &Pairs, question: &Question) -> Value {
    match question {
        Question::Noul(instructions) => json!({"type": "noul", "noul": noul(pairs, instructions)}),
        Question::Choice(options) => {
            let share = 1.0 / options.len() as f64;
            let probabilities: Map<String, Value> = options.iter().map(|name| (name.clone(), json!(share))).collect();
            let confidence = confidence_of_a_draw(options.len());
            json!({"type": "choice", "choice": options.first(), "probabilities": probabilities, "confidence": confidence})
        }
        Question::Score(levels) => {
            let share = 1.0 / levels.len() as f64;
            let numbered = || levels.iter().enumerate().map(|(number, level)| (number.to_string(), level));
            let legend: Map<String, Value> = numbered().map(|(number, level)| (number, level.clone())).collect();
            let probabilities: Map<String, Value> = numbered().map(|(number, _)| (number, json!(share))).collect();
            let score = (levels.len() - 1) as f64 / 2.0;
            let confidence = confidence_of_a_draw(levels.len());
            json!({
                "type": "score", "score": score, "legend": legend, "probabilities": probabilities,
                "confidence": confidence,
            })
        }
    }
}

fn noul(pairs: &Pairs, instructions: &Value) -> f64 {
    let judged = facts::subject(instructions).and_then(|(pair, about)| {
        let judgement = pairs.get(&pair)?;
        Some(match about {
            About::Call => judgement.call,
            About::Result => judgement.result,
        })
    });
    judged.unwrap_or(PRIOR)
}

/// All are equally likely, which is certain only where there is nothing to choose.
fn confidence_of_a_draw(among: usize) -> f64 {
    if among == 1 { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "(p[0-9]{1,2} )?(repeat|edit|read|ok|error|Bash|exit code [0-9é]*|noul|cc/1)".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// A request of the filter in which the pair, one of its facts, the question or its criteria is something else.
    fn odd_request(place: usize, odd: &Value) -> Value {
        let mut request = json!({
            "model": "m",
            "questions": {
                "c": {"type": "noul", "instructions": "`p1`: this call"},
                "r": {"type": "noul", "instructions": "`p1`: this output", "criteria": null},
            },
            "state": {"v": "cc/1", "asked": {"p1": {
                "age_pairs": 5, "cited_after": 0, "head": "", "same_target_later": ["p2 edit"], "status": "ok",
                "tail": "", "tool": "Bash",
            }}},
        });
        let facts = ["age_pairs", "cited_after", "head", "same_target_later", "status", "tail", "tool"];
        match place {
            0 => request["state"]["asked"]["p1"] = odd.clone(),
            1 => request["questions"]["r"] = odd.clone(),
            2 => request["questions"]["r"]["criteria"] = odd.clone(),
            3 => request["questions"]["r"] = json!({"type": "choice", "criteria": odd}),
            4 => request["questions"]["r"] = json!({"type": "score", "criteria": odd}),
            _ => request["state"]["asked"]["p1"][facts[place % facts.len()]] = odd.clone(),
        }
        request
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn anything_is_answered_or_has_a_problem(
            bytes in prop::collection::vec(any::<u8>(), 0..200), place in 0_usize..12, json in any_json(),
        ) {
            let requests = [bytes, json.to_string().into_bytes(), odd_request(place, &json).to_string().into_bytes()];
            for body in requests {
                match Request::read(&body) {
                    Err(problems) => prop_assert!((1..=MAX_PROBLEMS).contains(&problems.len())),
                    Ok(request) => {
                        let answers = request.answers();
                        prop_assert_eq!(answers.len(), request.questions());
                        let nouls = answers.values().filter_map(|answer| answer["noul"].as_f64());
                        prop_assert!(nouls.into_iter().all(|noul| (0.0..=1.0).contains(&noul)));
                    }
                }
            }
        }
    }
}
