//! The script: what the user asks, what the agent says and which tools it calls. Results are not part of it.

use super::conversation::Step::{self, Answer, Calls, System, User};
use super::tools::{
    Action::{self, Edit, List, Read, Run, Search},
    Place::{After, Before, InsteadOf},
};

const CHECK: &str = "cargo check --lib";
const TEST: &str = "cargo test --lib";
const CLIPPY: &str = "cargo clippy --lib";

/// All steps, in order. The last one is a question of the user that nobody has answered yet.
pub fn steps() -> Vec<Step> {
    let parts = [explain_reading(), explain_removal(), explain_decisions(), change(), repair(), report(), document()];
    parts.into_iter().flatten().collect()
}

fn whole(path: &'static str) -> Action {
    Read { path, page: None, guess: false }
}

fn page(path: &'static str, offset: usize, limit: usize) -> Action {
    Read { path, page: Some((offset, limit)), guess: false }
}

fn guess(path: &'static str) -> Action {
    Read { path, page: None, guess: true }
}

fn search(pattern: &'static str, path: &'static str) -> Action {
    Search { pattern, path }
}

fn run(command: &'static str) -> Action {
    Run { command, succeeds: true }
}

fn run_failing(command: &'static str) -> Action {
    Run { command, succeeds: false }
}

fn silently(actions: Vec<Action>) -> Step {
    Calls("", actions)
}

fn explain_reading() -> Vec<Step> {
    vec![
        System(
            "You are a coding agent in a Rust repository. Look before you answer, change as little as possible, and run \
             the checks after every change. Name files and functions when you explain something.",
        ),
        User(
            "I am new to this code. How does a tool call get out of a request here? Please follow one Chat Completions \
             body from the moment it is parsed to the bytes that are sent on, and tell me what makes sure that nothing \
             else in it changes.",
        ),
        Calls("I will get an overview first.", vec![List("."), whole("src/lib.rs")]),
        Calls(
            "The crate documentation names a type for the outgoing body. Let me see who makes one.",
            vec![search("Reduced", "src"), whole("src/cut.rs")],
        ),
        Calls(
            "So `Cuts::apply` is the only constructor, and `list_cuts` takes care of the commas. Next: who computes the \
             spans.",
            vec![guess("src/transcript.rs")],
        ),
        Calls("It is a folder.", vec![List("src/transcript"), page("src/transcript/mod.rs", 1, 130)]),
        silently(vec![page("src/transcript/mod.rs", 131, 130), whole("src/transcript/removal.rs")]),
        Calls(
            "Now the side that reads: the dialect, and the builder that it fills.",
            vec![whole("src/dialect/openai_chat.rs"), page("src/transcript/builder.rs", 1, 170)],
        ),
        silently(vec![page("src/transcript/builder.rs", 171, 170)]),
        Calls(
            "Everything rests on byte spans, so I want to know how they are found.",
            vec![page("src/json.rs", 1, 200)],
        ),
        silently(vec![page("src/json.rs", 201, 200)]),
    ]
}

fn explain_removal() -> Vec<Step> {
    vec![
        Calls(
            "The reader never builds a tree of values. What looks at the result before it leaves?",
            vec![search("self_check", "src"), whole("src/transcript/check.rs")],
        ),
        silently(vec![page("src/exchange/mod.rs", 1, 140)]),
        silently(vec![page("src/exchange/mod.rs", 141, 150)]),
        Calls(
            "`Exchange::on` turns every error into the original bytes. The reasons have a file of their own.",
            vec![whole("src/skip.rs"), search("Err(Skip::", "src/exchange")],
        ),
    ]
}

fn explain_decisions() -> Vec<Step> {
    vec![
        Calls(
            "What remains is how a verdict comes about.",
            vec![whole("src/engine/mod.rs"), page("src/engine/evidence.rs", 1, 130)],
        ),
        silently(vec![page("src/engine/evidence.rs", 131, 120), search("Verdict::", "src")]),
        silently(vec![page("src/engine/systemone.rs", 100, 160)]),
        Answer(
            "In short:\n\n\
             1. The dialect reads the body into a `Transcript`: elements, calls and results, all of them byte spans of \
             the body. No value is copied out and written back.\n\
             2. `standing` decides which pairs may be asked about: complete, old enough, large enough, plain text.\n\
             3. The engine answers two questions per pair, and both answers together give a `Verdict`.\n\
             4. `resolve` lowers each verdict to what the dialect allows there, and `cuts` turns what is left into \
             spans. `truncation` handles the milder case, a result that keeps its head.\n\
             5. `Cuts::apply` copies what lies between the spans. It can leave bytes out and nothing else, and since \
             `Reduced` has no other constructor, whatever leaves was subtracted from what came.\n\
             6. The reduced body is read again by the same dialect and compared: pairs, prose, first role and last \
             message.\n\n\
             Any doubt on the way is a `Skip`, and a `Skip` sends the original bytes.",
        ),
    ]
}

fn change() -> Vec<Step> {
    vec![
        User(
            "Thanks, that helps. While debugging I keep computing by hand how much of a body stays. Please give `Cuts` a \
             method `kept()` that says how many bytes remain, with a unit test.",
        ),
        Calls(
            "I will look at the file again before I touch it, and at who uses its neighbours.",
            vec![page("src/cut.rs", 1, 110), search("removed()", "src"), search("outgoing_len", "src")],
        ),
        Calls(
            "I will put it at the top of the impl block.",
            vec![Edit {
                path: "src/cut.rs",
                place: After("impl Cuts {"),
                text: "    /// How many bytes stay.\n    pub fn kept(&self) -> usize {\n        \
                   let removed = self.removed() as u64;\n        self.body_len - removed\n    }\n\n",
            }],
        ),
        silently(vec![Edit {
            path: "src/cut.rs",
            place: Before("#[test]"),
            text: "    #[test]\n    fn what_leaves_and_what_stays_add_up_to_the_body() {\n        \
                   let cuts = Cuts::new(vec![1..2, 4..6], 10).unwrap();\n        \
                   assert_eq!((cuts.removed(), cuts.kept()), (3, 7));\n        \
                   assert_eq!(cuts.apply(b\"0123456789\").unwrap().outgoing_len(), cuts.kept());\n    }\n\n",
        }]),
        silently(vec![run_failing(CHECK)]),
    ]
}

fn repair() -> Vec<Step> {
    vec![
        Calls("The conversion to `u64` was needless: both numbers are `usize`.", vec![page("src/cut.rs", 45, 50)]),
        silently(vec![Edit {
            path: "src/cut.rs",
            place: InsteadOf("        let removed = self.removed() as u64;\n        self.body_len - removed\n"),
            text: "        self.body_len - self.removed()\n",
        }]),
        silently(vec![run(CHECK)]),
        silently(vec![run(TEST)]),
        Calls("All tests pass. The lints too?", vec![run_failing(CLIPPY)]),
        Calls(
            "Plain subtraction is refused in this crate. I will read what exactly is denied and how others subtract.",
            vec![whole("src/lib.rs"), search("saturating_sub", "src")],
        ),
        silently(vec![Edit {
            path: "src/cut.rs",
            place: InsteadOf("        self.body_len - self.removed()\n"),
            text: "        self.body_len.saturating_sub(self.removed())\n",
        }]),
        silently(vec![run(CHECK), run(CLIPPY)]),
        silently(vec![run(TEST)]),
        Answer(
            "`Cuts::kept()` is there. My first version did not compile (`u64` against `usize`), my second broke the lint \
             `clippy::arithmetic_side_effects`; the method now uses `saturating_sub` as its neighbours do. The new test \
             `what_leaves_and_what_stays_add_up_to_the_body` checks it against `removed` and `outgoing_len`. Check, \
             clippy and all unit tests pass.",
        ),
    ]
}

fn report() -> Vec<Step> {
    vec![
        User(
            "Good. Now document it: a sentence in the module documentation of src/cut.rs. Before that, find out whether \
             an operator can already see this number somewhere, so that we do not promise something twice.",
        ),
        Calls(
            "Sizes are reported per request, so I begin with the outcome and the metrics.",
            vec![whole("src/exchange/outcome.rs"), whole("src/metrics.rs")],
        ),
        silently(vec![page("src/driver.rs", 1, 175)]),
        silently(vec![page("src/driver.rs", 176, 175), search("sizes", "src")]),
        Calls(
            "The access log line comes out of `Report::line`. Where does the host take it?",
            vec![whole("src/glue/stream.rs"), search("FILTER_STATE", "envoy")],
        ),
        silently(vec![whole("envoy/envoy.yaml")]),
        Calls(
            "And which limits a request meets before that:",
            vec![page("src/policy/mod.rs", 1, 160), whole("src/exchange/gate.rs")],
        ),
        silently(vec![page("tests/core/properties.rs", 255, 100), search("bytes_out", "src")]),
    ]
}

fn document() -> Vec<Step> {
    vec![
        Calls(
            "`bytes_in` and `bytes_out` of the log line are the sizes of both bodies, so the number is visible for \
             requests that were reduced. I will say so, after a last look at the module and its caller.",
            vec![page("src/cut.rs", 1, 110), whole("src/transcript/removal.rs")],
        ),
        silently(vec![Edit {
            path: "src/cut.rs",
            place: After("//! Subtraction"),
            text: "//!\n//! [`Cuts::removed`] and [`Cuts::kept`] add up to the length of the body. Operators see the sizes of both \
                   bodies\n//! in the access log once a request was reduced.\n",
        }]),
        silently(vec![run(CHECK), run("rustfmt --edition 2024 --check src/cut.rs"), run("cargo doc --lib --no-deps")]),
        silently(vec![page("src/exchange/mod.rs", 141, 150), search("kept()", "src")]),
        silently(vec![run(TEST)]),
        Answer(
            "Done. The module documentation of `src/cut.rs` now says that `removed` and `kept` add up to the length of the \
             body. An operator sees both sizes as `bytes_in` and `bytes_out` in the access log, for reduced requests \
             only; there is no metric that repeats it, so nothing is promised twice. Check, formatting, documentation \
             and unit tests pass.",
        ),
        User(
            "One last question before I merge: can a request ever leave here with a tool call whose result was removed, \
             or the other way round? Point me to the lines that decide it.",
        ),
    ]
}
