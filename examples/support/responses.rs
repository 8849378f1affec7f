//! What must hold of a reduced Responses body, read with an ordinary JSON parser.

use serde_json::Value;

/// The types of client calls, each with the type of its output.
const CALLS: [(&str, &str); 6] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
    ("local_shell_call", "local_shell_call_output"),
];

fn items(body: &Value) -> &[Value] {
    body["input"].as_array().map_or(&[], Vec::as_slice)
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

/// Everything that is wrong with the items of `after` that was not wrong with those of `before`.
pub fn complaints(before: &Value, after: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let stays = |item: &&Value| !CALLS.iter().any(|(call, output)| [*call, *output].contains(&kind(item)));
    let others = |body| items(body).iter().filter(stays).filter(|item| kind(item) != "reasoning").cloned();
    if !others(before).eq(others(after)) {
        complaints.push("an item that is neither call, output nor reasoning changed".to_owned());
    }
    if items(before).last() != items(after).last() {
        complaints.push("the last item changed".to_owned());
    }
    if unpaired(items(after)) > unpaired(items(before)) {
        complaints.push("a call or an output lost its other half".to_owned());
    }
    // Reasoning is followed by what followed it, and what followed it is preceded by it.
    let ties = |body| -> Vec<(Value, Value)> {
        let windows = items(body).windows(2);
        windows.filter(|w| kind(&w[0]) == "reasoning").map(|w| (w[0].clone(), w[1].clone())).collect()
    };
    let (was, is) = (ties(before), ties(after));
    if !is.iter().all(|tie| was.contains(tie)) {
        complaints.push("reasoning lost what it led to".to_owned());
    }
    let left: Vec<&Value> = items(after).iter().collect();
    let orphaned = |(reasoning, next): &&(Value, Value)| !left.contains(&reasoning) && left.contains(&next);
    if was.iter().any(|tie| orphaned(&tie)) {
        complaints.push("an item lost the reasoning that led to it".to_owned());
    }
    complaints
}

/// Calls without an output behind them, and outputs without a call of their type before them.
fn unpaired(items: &[Value]) -> usize {
    let mut open: Vec<(&str, &Value)> = Vec::new();
    let mut unpaired = 0;
    for item in items {
        if let Some((_, output)) = CALLS.iter().find(|(call, _)| *call == kind(item)) {
            open.push((output, &item["call_id"]));
        } else if CALLS.iter().any(|(_, output)| *output == kind(item)) {
            match open.iter().position(|(output, id)| *output == kind(item) && **id == item["call_id"]) {
                Some(at) => _ = open.remove(at),
                None => unpaired += 1,
            }
        }
    }
    unpaired + open.len()
}
