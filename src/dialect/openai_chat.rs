//! OpenAI Chat Completions and its compatibles (`…/chat/completions`).

use super::total_len;
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Item, Prompt, Returned, Role, Transcript, has_any},
};

/// Members of parts, calls and messages with which a client places a provider's cache marker.
const MARKERS: &[&str] = &["cache_control", "prompt_cache_breakpoint"];
/// Reasoning under the names that compatibles use; some refuse a call whose reasoning is gone.
const REASONING: &[&str] = &["reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"];
/// Content blocks of other formats: the body is not what its path says.
const FOREIGN: &[&str] = &["tool_use", "tool_result"];

pub(super) fn prose_may_stay(model: &str) -> bool {
    let digit_behind =
        |prefix| model.strip_prefix(prefix).is_some_and(|rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()));
    digit_behind("gpt-") || digit_behind("o") || model.starts_with("chatgpt-") || model.starts_with("ft:gpt")
}

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [messages, model, tools, functions, system, contents, input] =
        doc.fields(&root, ["messages", "model", "tools", "functions", "system", "contents", "input"])?;
    let array = messages.filter(|m| doc.kind(m) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    if [system, contents, input].iter().any(Option::is_some) {
        return Err(Skip::DialectUnconfirmed);
    }
    let prompt = Prompt {
        model: model.and_then(|m| doc.string(&m)).map(String::from),
        fixed: total_len(doc, [&tools, &functions]),
        thinking: has_any(doc, &root, &["thinking", "reasoning", "reasoning_effort", "enable_thinking"]),
        ..Prompt::default()
    };
    let mut builder = Builder::new(doc, array, prompt);
    let mut calls_open = false;
    for entry in builder.entries() {
        calls_open = message(doc, &mut builder, entry, calls_open)?;
    }
    builder.finish()
}

/// Reads one message; says whether calls of this assistant message wait for the very next ones.
fn message(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span, calls_open: bool) -> Result<bool, Skip> {
    let [role, content, tool_calls, function_call, name, tool_call_id] =
        doc.fields(&entry, ["role", "content", "tool_calls", "function_call", "name", "tool_call_id"])?;
    let role = role.and_then(|r| doc.string(&r)).ok_or(Skip::UnknownShape)?;
    let (role, is_result) = match role.as_ref() {
        "system" | "developer" => (Role::System, false),
        "user" => (Role::User, false),
        "assistant" => (Role::Assistant, false),
        "tool" | "function" => (Role::Tool, true),
        _ => return Err(Skip::UnknownShape),
    };
    if calls_open && role == Role::Assistant {
        builder.misplaced();
    }
    let item = builder.element(role, entry.clone());
    if is_result {
        let flagged = doc.fields(&entry, ["is_error", "status"])?;
        let id = tool_call_id.or(name);
        let (lock, marked) = (error_flag(doc, &flagged), has_any(doc, &entry, MARKERS));
        builder.result(Returned { id, item, lock, marked }, content, &["text"], MARKERS)?;
        return Ok(false);
    }
    if let Some(content) = content {
        prose(doc, builder, &content)?;
    }
    if role != Role::Assistant {
        return Ok(false);
    }
    assistant(doc, builder, &entry, item, tool_calls, function_call)
}

fn assistant(
    doc: &Document<'_>,
    builder: &mut Builder<'_>,
    entry: &Span,
    item: Item,
    tool_calls: Option<Span>,
    function_call: Option<Span>,
) -> Result<bool, Skip> {
    let [annotations] = doc.fields(entry, ["annotations"])?;
    let annotated = annotations.is_some_and(|a| doc.elements(&a).next().is_some());
    let tied = annotated || has_any(doc, entry, &["refusal", "audio", "prefix", "name"]);
    // Presence counts, whatever the value: a provider that asks for the member asks for it as it was.
    let reasons = doc.members(entry).any(|m| doc.string(&m.key).is_some_and(|key| REASONING.contains(&key.as_ref())));
    let mut stays = false;
    builder.mark(|e| {
        e.opaque |= tied;
        e.reasoning |= reasons;
        stays = e.stays;
    });
    let calls: Vec<Span> = tool_calls.iter().flat_map(|calls| doc.elements(calls)).collect();
    let legacy = function_call.filter(|f| doc.kind(f) != Kind::Null);
    let marked = has_any(doc, entry, MARKERS);
    match (calls.is_empty(), legacy) {
        (true, None) => Ok(false),
        (false, None) => {
            let parent = leaving_member(doc, builder, entry, item, "tool_calls", stays);
            let at = builder.list(calls.clone(), parent);
            for (index, span) in calls.iter().enumerate() {
                let called = call(doc, span, at(index), marked)?;
                builder.call(called);
            }
            Ok(true)
        }
        (true, Some(function)) => {
            let [name, arguments] = doc.fields(&function, ["name", "arguments"])?;
            let item = leaving_member(doc, builder, entry, item, "function_call", stays).unwrap_or(item);
            builder.call(Called { id: name.clone(), name, arguments, item, lock: None, marked, signed: false });
            Ok(true)
        }
        (false, Some(_)) => Err(Skip::UnknownShape),
    }
}

/// What leaves when all calls of a message do: the member that holds them where the message says something, else the
/// message.
fn leaving_member(
    doc: &Document<'_>,
    builder: &mut Builder<'_>,
    entry: &Span,
    message: Item,
    name: &str,
    stays: bool,
) -> Option<Item> {
    if !stays {
        return Some(message);
    }
    let members: Vec<_> = doc.members(entry).collect();
    let index = members.iter().position(|m| doc.is(&m.key, name))?;
    let at = builder.list(members.iter().map(|m| m.whole()).collect(), None);
    Some(at(index))
}

fn call(doc: &Document<'_>, span: &Span, item: Item, marked: bool) -> Result<Called, Skip> {
    let [id, function, custom] = doc.fields(span, ["id", "function", "custom"])?;
    let body = function.or(custom).ok_or(Skip::UnknownShape)?;
    let [name, arguments, input] = doc.fields(&body, ["name", "arguments", "input"])?;
    // Gemini behind this format signs the first parallel call only: in `extra_content` or under a gateway's own name, or
    // glued to the id.
    let signed = has_other(doc, span, &["id", "type", "function", "custom", "index", "cache_control"])
        || has_other(doc, &body, &["name", "arguments", "input"])
        || id
            .as_ref()
            .is_some_and(|id| doc.inner(id).is_some_and(|raw| memchr::memmem::find(raw, b"__thought__").is_some()));
    let marked = marked || has_any(doc, span, MARKERS);
    Ok(Called { id, name, arguments: arguments.or(input), item, lock: None, marked, signed })
}

fn prose(doc: &Document<'_>, builder: &mut Builder<'_>, content: &Span) -> Result<(), Skip> {
    match doc.kind(content) {
        Kind::String => builder.prose(content.clone(), None),
        Kind::Array => {
            for part in doc.elements(content) {
                let [kind, text] = doc.fields(&part, ["type", "text"])?;
                let kind = kind.and_then(|k| doc.string(&k)).unwrap_or_default();
                if FOREIGN.contains(&kind.as_ref()) {
                    return Err(Skip::DialectUnconfirmed);
                }
                let reasons =
                    kind.contains("thinking") || kind.contains("reasoning") || has_any(doc, &part, &["signature"]);
                let marked = has_any(doc, &part, MARKERS);
                if marked {
                    builder.cached(false);
                }
                builder.mark(|e| e.reasoning |= reasons && e.role == Role::Assistant);
                match text.filter(|t| kind == "text" && doc.kind(t) == Kind::String) {
                    // A marked part stays, and alone a blank one is refused.
                    Some(literal) if marked && doc.is_blank(&literal) => builder.mark(|e| e.opaque = true),
                    Some(literal) => builder.prose(literal, None),
                    None => builder.mark(|e| e.stays = true),
                }
            }
        }
        Kind::Null => {}
        _ => return Err(Skip::UnknownShape),
    }
    Ok(())
}

/// Whether the object at `span` has a member besides `names`.
fn has_other(doc: &Document<'_>, span: &Span, names: &[&str]) -> bool {
    doc.members(span).any(|m| !doc.string(&m.key).is_some_and(|key| names.contains(&key.as_ref())))
}

/// `is_error: true` or `status: "error"`, as some agents flag a failed tool.
fn error_flag(doc: &Document<'_>, [is_error, status]: &[Option<Span>; 2]) -> Option<Skip> {
    let set = is_error.as_ref().is_some_and(|e| doc.slice(e) == b"true");
    (set || status.as_ref().is_some_and(|s| doc.is(s, "error"))).then_some(Skip::ErrorResult)
}
