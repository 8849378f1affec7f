//! What a request's state says about a pair, read into facts for the rules. What is missing or odd counts as needed.

use serde_json::{Map, Value};

use super::rules::{Facts, Later, Outcome, Tool};

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Whether the call is still needed.
    Call,
    /// Whether the text of the result is.
    Result,
}

/// The pair that a question names and what it asks about it, read from its text: servers are not to look at ids.
pub fn subject(instructions: &Value) -> Option<(String, About)> {
    let text = instructions.as_str().map_or_else(|| instructions.to_string(), str::to_owned);
    let words = || text.split(|c: char| !c.is_alphanumeric());
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let pair = words().find(|word| word.strip_prefix('p').is_some_and(is_number))?;
    let about = match (words().any(|word| word == "call"), words().any(|word| word == "output")) {
        (true, false) => About::Call,
        (false, true) => About::Result,
        _ => return None,
    };
    Some((pair.to_owned(), about))
}

/// The pairs in a state that the filter wrote.
pub fn pairs(state: &Value) -> Option<&Map<String, Value>> {
    state.get("asked").filter(|_| state["v"] == "cc/1")?.as_object()
}

/// The facts of one pair.
pub fn of(pair: &Value) -> Facts {
    let tool = Tool::of(text(pair, "tool"));
    Facts {
        tool,
        outcome: outcome(pair, tool),
        later: later(pair, tool),
        age: pair["age_pairs"].as_u64().unwrap_or(0),
        cited: pair["cited_after"].as_u64().unwrap_or(u64::MAX),
    }
}

fn text<'a>(pair: &'a Value, field: &str) -> &'a str {
    pair[field].as_str().unwrap_or_default()
}

fn outcome(pair: &Value, tool: Tool) -> Outcome {
    let (head, tail) = (text(pair, "head"), text(pair, "tail"));
    match text(pair, "status") {
        "error" => Outcome::Failed,
        "ok" if reads_like_a_failure(tool, head, tail) => Outcome::Failed,
        "ok" => Outcome::Fine,
        _ => Outcome::Open,
    }
}

/// Few clients flag a command that failed. Files and search results may speak of failures without being one.
fn reads_like_a_failure(tool: Tool, head: &str, tail: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["error", "fatal:", "traceback (most recent call last)", "<tool_use_error>"];
    const ANYWHERE: [&str; 7] = [
        "error:",
        "error[",
        "FAILED",
        "panicked at",
        "Traceback (most recent call last)",
        "command not found",
        "No such file or directory",
    ];
    if tool != Tool::Shell {
        let start = head.trim_start().to_ascii_lowercase();
        return BEGINNINGS.iter().any(|beginning| start.starts_with(beginning));
    }
    let exit_code = exit_code(head).or_else(|| exit_code(tail));
    exit_code.map_or_else(|| ANYWHERE.iter().any(|sign| head.contains(sign) || tail.contains(sign)), |code| code != 0)
}

/// The number in `Exit code 1`, `"exit_code":1` or `Process exited with code 1`.
fn exit_code(text: &str) -> Option<u32> {
    let text = text.to_ascii_lowercase();
    let signs = ["exit code", "exit_code", "exit status", "exited with code"];
    let (_, after) = signs.iter().find_map(|sign| text.split_once(sign))?;
    let after = after.trim_start_matches([' ', ':', '"', '=']);
    let digits = after.find(|c: char| !c.is_ascii_digit()).and_then(|end| after.get(..end)).unwrap_or(after);
    digits.parse().ok()
}

/// Lines are `p13 edit`: a later pair with the same target, and what it did to it.
fn later(pair: &Value, tool: Tool) -> Later {
    let lines = pair["same_target_later"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |line: &Value| match line.as_str().and_then(|line| line.rsplit(' ').next()) {
        Some("repeat") => Later::Repeated,
        // The target of a command is the command itself.
        Some("shell") if tool == Tool::Shell => Later::Repeated,
        // Another search in the same folder looks for something else, and supersedes nothing.
        Some("read" | "edit") if matches!(tool, Tool::Read | Tool::Search | Tool::Edit) => Later::Superseded,
        _ => Later::Nothing,
    };
    lines.iter().map(line).max().unwrap_or(Later::Nothing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pair(changes: Value) -> Facts {
        let mut pair = json!({
            "age_pairs": 5, "bytes": 4000, "cited_after": 0, "head": "fn main()", "input": "{}",
            "same_target_later": [], "status": "ok", "tail": "}", "tool": "Bash",
        });
        pair.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        of(&pair)
    }

    #[test]
    fn questions_name_their_pair_and_what_they_ask() {
        let subject = |text: &str| subject(&json!(text));
        assert_eq!(subject("`p7`: that this call happened"), Some(("p7".to_owned(), About::Call)));
        assert_eq!(subject("the exact text of this output of p12"), Some(("p12".to_owned(), About::Result)));
        for other in ["", "p", "`px`: this call", "top1 call", "p7", "p7: this call and its output", "`P7`: call"] {
            assert_eq!(subject(other), None, "{other}");
        }
    }

    #[test]
    fn names_say_what_a_tool_does() {
        let rows = [
            (Tool::Read, "read Read read_file ReadFile WebFetch view mcp__files__get_page"),
            (Tool::Search, "search Grep LS list_dir codebase_search WebSearch"),
            (Tool::Shell, "shell Bash local_shell exec_command runInTerminal"),
            (Tool::Edit, "edit Write MultiEdit apply_patch search_replace str_replace_based_edit_tool"),
            (Tool::Other, "other Task location openapi_targets 🙂"),
        ];
        for (expected, names) in rows {
            for name in names.split(' ') {
                assert_eq!(Tool::of(name), expected, "{name}");
            }
        }
        assert_eq!(Tool::of(""), Tool::Other);
    }

    #[test]
    fn failures_are_flagged_or_read_like_one() {
        let outcome = |changes: Value| pair(changes).outcome;
        assert_eq!(outcome(json!({"status": "error"})), Outcome::Failed);
        assert_eq!(outcome(json!({"head": "Exit code 101\nrunning 3 tests"})), Outcome::Failed);
        assert_eq!(outcome(json!({"head": "{\"exit_code\":0} error: was the old text"})), Outcome::Fine);
        assert_eq!(outcome(json!({"tail": "Process exited with code 2"})), Outcome::Failed);
        assert_eq!(outcome(json!({"tail": "test result: FAILED. 1 passed"})), Outcome::Failed);
        assert_eq!(outcome(json!({"tool": "Read", "head": "Error: file not found"})), Outcome::Failed);
        assert_eq!(outcome(json!({"tool": "Grep", "head": "a.rs:1: // error: no"})), Outcome::Fine);
        assert_eq!(outcome(json!({"status": "open"})), Outcome::Open);
        assert_eq!(outcome(json!({"status": 7})), Outcome::Open);
    }

    #[test]
    fn what_came_later_depends_on_the_tool() {
        let later = |tool: &str, lines: Value| pair(json!({"tool": tool, "same_target_later": lines})).later;
        assert_eq!(later("Read", json!([])), Later::Nothing);
        assert_eq!(later("Read", json!(["p9 edit", "p10 search"])), Later::Superseded);
        assert_eq!(later("Read", json!(["p9 repeat", "p10 edit"])), Later::Repeated);
        assert_eq!(later("Grep", json!(["p9 search"])), Later::Nothing);
        assert_eq!(later("Bash", json!(["p9 shell"])), Later::Repeated);
        assert_eq!(later("Task", json!(["p9 edit", 4, null, "", "repeat me"])), Later::Nothing);
    }

    #[test]
    fn what_is_missing_counts_as_needed() {
        for nothing in [json!(null), json!([]), json!("text"), json!({}), json!({"tool": 1, "age_pairs": -1.5})] {
            let facts = of(&nothing);
            assert_eq!(
                (facts.outcome, facts.later, facts.age, facts.cited),
                (Outcome::Open, Later::Nothing, 0, u64::MAX)
            );
        }
    }
}
