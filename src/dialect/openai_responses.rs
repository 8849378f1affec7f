//! OpenAI Responses (`…/responses`): one item of `input` each for messages, reasoning, calls and outputs.

use super::{Bound, reasoning_is_bound, total_len};
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Parts, Prompt, Returned, Role, Transcript, has_any},
};

use std::collections::HashMap;

/// Members that put the history, or a part of it, on the provider's side.
const SERVER_STATE: &[&str] = &["previous_response_id", "conversation", "prompt"];
const MARKERS: &[&str] = &["prompt_cache_breakpoint", "cache_control"];
/// Types of text parts.
const TEXT: &[&str] = &["input_text", "output_text", "text"];

/// Client calls whose output is text: the type of the call, of its output, and the member with the arguments.
const CALLS: &[(&str, &str, &str)] = &[
    ("function_call", "function_call_output", "arguments"),
    ("custom_tool_call", "custom_tool_call_output", "input"),
    ("shell_call", "shell_call_output", "action"),
    ("apply_patch_call", "apply_patch_call_output", "operation"),
];

/// Newer models drop reasoning in silence that follows a changed prefix.
pub(super) fn bound(model: &str) -> Bound {
    if reasoning_is_bound(model) {
        return Bound::Always;
    }
    let version = model.rsplit('/').next().and_then(|name| name.strip_prefix("gpt-")).unwrap_or_default();
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|n| n.parse::<u32>().ok());
    let version = (next().unwrap_or(0), next().unwrap_or(0));
    if version >= (5, 6) { Bound::WithReasoning } else { Bound::Never }
}

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [input, model, instructions, tools, management, messages, contents] =
        doc.fields(&root, ["input", "model", "instructions", "tools", "context_management", "messages", "contents"])?;
    let input = input.ok_or(Skip::DialectUnconfirmed)?;
    if messages.is_some() || contents.is_some() {
        return Err(Skip::DialectUnconfirmed);
    }
    if has_any(doc, &root, SERVER_STATE) {
        return Err(Skip::ServerState);
    }
    match doc.kind(&input) {
        Kind::Array => {}
        Kind::String => return Err(Skip::NothingAgedOut), // one prompt
        _ => return Err(Skip::DialectUnconfirmed),
    }
    let prompt = Prompt {
        model: model.and_then(|m| doc.string(&m)).map(String::from),
        fixed: total_len(doc, [&instructions, &tools]),
        thinking: has_any(doc, &root, &["reasoning"]),
        provider_edits: management.is_some_and(|m| doc.kind(&m) != Kind::Null),
        ..Prompt::default()
    };
    let mut builder = Builder::new(doc, input, prompt);
    let mut called = HashMap::new();
    let mut compacts = false;
    for entry in builder.entries() {
        let [kind] = doc.fields(&entry, ["type"])?;
        compacts |= kind.is_some_and(|kind| doc.is(&kind, "compaction_trigger"));
        item(doc, &mut builder, &mut called, entry)?;
    }
    let mut transcript = builder.finish()?;
    transcript.prompt.provider_edits |= compacts;
    Ok(transcript)
}

/// The type of the newest call of each id.
type CalledTypes = HashMap<String, &'static str>;

fn item(doc: &Document<'_>, builder: &mut Builder<'_>, called: &mut CalledTypes, entry: Span) -> Result<(), Skip> {
    let [kind, role, content] = doc.fields(&entry, ["type", "role", "content"])?;
    let kind = kind.and_then(|k| doc.string(&k)).unwrap_or_default();
    if let Some((call_type, _, arguments)) = CALLS.iter().find(|(call, ..)| *call == kind) {
        let id = call(doc, builder, entry, arguments)?;
        called.extend(id.map(|id| (id, *call_type)));
        return Ok(());
    }
    if let Some((call_type, ..)) = CALLS.iter().find(|(_, output, _)| *output == kind) {
        let id = output(doc, builder, entry, &kind)?;
        // An output of another type answers nothing.
        let fits = id.and_then(|id| called.get(&id)).is_none_or(|called| called == call_type);
        return if fits { Ok(()) } else { Err(Skip::BrokenPairing) };
    }
    match kind.as_ref() {
        "" | "message" => message(doc, builder, entry, role, content),
        "reasoning" => {
            builder.element(Role::Assistant, entry);
            builder.mark(|e| e.reasoning = true);
            builder.rides();
            Ok(())
        }
        "compaction" => {
            builder.element(Role::Tool, entry);
            builder.mark(|e| {
                e.compaction = true;
                e.opaque = true;
            });
            Ok(())
        }
        "item_reference" => Err(Skip::ServerState),
        // Hosted tools with their results, tools that are declared on the way, approvals, whatever comes next: as they are.
        other => {
            builder.element(if other.ends_with("_call") { Role::Assistant } else { Role::Tool }, entry);
            builder.mark(|e| e.opaque = true);
            Ok(())
        }
    }
}

fn message(
    doc: &Document<'_>,
    builder: &mut Builder<'_>,
    entry: Span,
    role: Option<Span>,
    content: Option<Span>,
) -> Result<(), Skip> {
    let role = match role.and_then(|r| doc.string(&r)).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(Skip::UnknownShape),
    };
    builder.element(role, entry);
    let content = content.ok_or(Skip::UnknownShape)?;
    match doc.kind(&content) {
        Kind::String => builder.prose(content, None),
        Kind::Array => {
            for part in doc.elements(&content) {
                let [kind, text] = doc.fields(&part, ["type", "text"])?;
                let is_text = kind.is_some_and(|kind| TEXT.iter().any(|text| doc.is(&kind, text)));
                if has_any(doc, &part, MARKERS) {
                    builder.cached(false);
                }
                match text.filter(|t| is_text && doc.kind(t) == Kind::String) {
                    Some(literal) => builder.prose(literal, None),
                    None => builder.mark(|e| e.stays = true),
                }
            }
            // A message is an item of its own and stays, whatever is in it.
            builder.mark(|e| e.stays = true);
        }
        _ => return Err(Skip::UnknownShape),
    }
    Ok(())
}

/// Reads a call, and returns its id.
fn call(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span, arguments: &str) -> Result<Option<String>, Skip> {
    let [id, name, arguments, status] = doc.fields(&entry, ["call_id", "name", arguments, "status"])?;
    let item = builder.element(Role::Assistant, entry.clone());
    let unfinished = status.is_some_and(|status| !doc.is(&status, "completed") && doc.kind(&status) != Kind::Null);
    // Calls of a running program belong to items that stay.
    let owned = has_any(doc, &entry, &["caller"]);
    let lock = (unfinished || owned).then_some(Skip::UnsureGroup);
    let marked = has_any(doc, &entry, MARKERS);
    let text = id.as_ref().and_then(|id| doc.string(id)).map(String::from);
    builder.call(Called { id, name, arguments, item, lock, marked, signed: false });
    Ok(text)
}

/// Reads an output, and returns the id that it names.
fn output(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span, kind: &str) -> Result<Option<String>, Skip> {
    let [id, output, status] = doc.fields(&entry, ["call_id", "output", "status"])?;
    let item = builder.element(Role::Tool, entry.clone());
    let failed = status.is_some_and(|status| doc.is(&status, "failed") || doc.is(&status, "incomplete"));
    let lock = failed.then_some(Skip::ErrorResult);
    let text = id.as_ref().and_then(|id| doc.string(id)).map(String::from);
    let returned = Returned { id, name: None, item, lock, marked: has_any(doc, &entry, MARKERS) };
    if kind != "shell_call_output" {
        builder.result(returned, output, Parts::typed(TEXT, MARKERS))?;
        return Ok(text);
    }
    let mut texts = Vec::new();
    for part in output.iter().flat_map(|output| doc.elements(output)) {
        let [stdout, stderr] = doc.fields(&part, ["stdout", "stderr"])?;
        texts.extend([stdout, stderr].into_iter().flatten().filter(|text| doc.kind(text) == Kind::String));
    }
    builder.result_in(returned, texts);
    Ok(text)
}
