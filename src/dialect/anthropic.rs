//! Anthropic Messages (`…/v1/messages`), its compatibles, and the same body on other hosts: `:rawPredict` on Vertex,
//! `/invoke` on Bedrock.

use super::{compatibles, total_len};
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Item, Levels, Parts, Prompt, Returned, Role, Transcript},
};

/// The member with which a client places a cache marker on a block.
const MARKERS: &[&str] = &["cache_control"];

/// Anthropic's own path, and the paths of hosts that name the model there.
pub(super) fn serves(path: &str) -> bool {
    let on_vertex = path.contains("/publishers/anthropic/models/")
        && (path.ends_with(":rawPredict") || path.ends_with(":streamRawPredict"));
    let on_bedrock =
        path.contains("/model/") && (path.ends_with("/invoke") || path.ends_with("/invoke-with-response-stream"));
    path.ends_with("/v1/messages") || on_vertex || on_bedrock
}

/// Claude takes prose without its calls; whoever else speaks this format is known from the other ones.
pub(super) fn levels(model: &str) -> Levels {
    let prose_stays = model.starts_with("claude-");
    Levels { prose_stays, ..compatibles::levels(model) }
}

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [messages, model, system, tools, contents, input] =
        doc.fields(&root, ["messages", "model", "system", "tools", "contents", "input"])?;
    let [thinking, management, credit, version] =
        doc.fields(&root, ["thinking", "context_management", "fallback_credit_token", "anthropic_version"])?;
    let array = messages.filter(|m| doc.kind(m) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    // Where the path names the model, other families come the same way; this version is in Claude's bodies only.
    if contents.or(input).is_some() || (model.is_none() && version.is_none()) {
        return Err(Skip::DialectUnconfirmed);
    }
    let (thinking, drop_block) = match thinking {
        Some(thinking) => thinking_settings(doc, &thinking)?,
        None => (false, false),
    };
    let prompt = Prompt {
        model: model.and_then(|m| doc.string(&m)).map(String::from),
        fixed: total_len(doc, [&system, &tools]),
        thinking,
        drop_block,
        cache_markers: false,
        one_hour_cache: false,
        provider_edits: management.is_some_and(|m| clears_or_compacts(doc, &m)),
        exact_body: credit.is_some(),
    };
    let mut builder = Builder::new(doc, array, prompt);
    let around = system.iter().chain(&tools).filter(|s| doc.kind(s) == Kind::Array).flat_map(|s| doc.elements(s));
    for marked in std::iter::once(root).chain(around) {
        marker(doc, &mut builder, &marked);
    }
    for entry in builder.entries() {
        message(doc, &mut builder, entry)?;
    }
    builder.finish()
}

/// Notes the cache marker of the object at `span`, and says whether it has one.
fn marker(doc: &Document<'_>, builder: &mut Builder<'_>, span: &Span) -> bool {
    let marker = doc.members(span).find(|m| MARKERS.iter().any(|name| doc.is(&m.key, name)));
    let Some(marker) = marker.filter(|m| doc.kind(&m.value) != Kind::Null) else { return false };
    let ttl = doc.members(&marker.value).find(|m| doc.is(&m.key, "ttl"));
    builder.cached(ttl.is_some_and(|ttl| doc.is(&ttl.value, "1h")));
    true
}

/// Whether thinking is on, and whether the client lets the provider drop blocks whose prefix changed.
fn thinking_settings(doc: &Document<'_>, thinking: &Span) -> Result<(bool, bool), Skip> {
    let [kind, binding] = doc.fields(thinking, ["type", "block_binding"])?;
    let off = kind.is_some_and(|k| doc.is(&k, "disabled")) || doc.kind(thinking) == Kind::Null;
    let behavior = match binding {
        Some(binding) => doc.fields(&binding, ["prefix_mismatch_behavior"])?,
        None => [None],
    };
    Ok((!off, behavior.iter().flatten().any(|b| doc.is(b, "drop_block"))))
}

/// Clearing thinking alone moves nothing that this filter touches; everything else edits the same history.
fn clears_or_compacts(doc: &Document<'_>, management: &Span) -> bool {
    let Ok([Some(edits)]) = doc.fields(management, ["edits"]) else { return true };
    doc.elements(&edits).any(|edit| {
        let kind = doc.fields(&edit, ["type"]).ok().and_then(|[kind]| doc.string(&kind?));
        !kind.is_some_and(|kind| kind.starts_with("clear_thinking"))
    })
}

fn message(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span) -> Result<(), Skip> {
    let [role, content, tool_calls] = doc.fields(&entry, ["role", "content", "tool_calls"])?;
    if tool_calls.is_some() {
        return Err(Skip::DialectUnconfirmed);
    }
    let role = match role.and_then(|r| doc.string(&r)).ok_or(Skip::UnknownShape)?.as_ref() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" | "function" | "developer" => return Err(Skip::DialectUnconfirmed),
        _ => return Err(Skip::UnknownShape),
    };
    let item = builder.element(role, entry);
    let content = content.ok_or(Skip::UnknownShape)?;
    match doc.kind(&content) {
        Kind::String => builder.prose(content, None),
        Kind::Array => {
            let blocks: Vec<Span> = doc.elements(&content).collect();
            let at = builder.list(blocks.clone(), Some(item));
            for (index, span) in blocks.iter().enumerate() {
                block(doc, builder, role, span, at(index))?;
            }
        }
        _ => return Err(Skip::UnknownShape),
    }
    Ok(())
}

fn block(doc: &Document<'_>, builder: &mut Builder<'_>, role: Role, span: &Span, item: Item) -> Result<(), Skip> {
    let [kind, text] = doc.fields(span, ["type", "text"])?;
    let kind = kind.and_then(|k| doc.string(&k)).ok_or(Skip::UnknownShape)?;
    let marked = marker(doc, builder, span);
    match (kind.as_ref(), role) {
        ("text", _) => match text.filter(|t| doc.kind(t) == Kind::String) {
            // A marked block stays, and alone a blank one is refused.
            Some(literal) if marked && doc.is_blank(&literal) => builder.mark(|e| e.opaque = true),
            Some(literal) => builder.prose(literal, Some(item)),
            None => return Err(Skip::UnknownShape),
        },
        ("thinking" | "redacted_thinking", Role::Assistant) => builder.mark(|e| e.reasoning = true),
        ("tool_use", Role::Assistant) => {
            let [id, name, input, caller] = doc.fields(span, ["id", "name", "input", "caller"])?;
            // A call made by code that the provider runs feeds a paused container.
            let direct = match caller {
                Some(caller) => doc.fields(&caller, ["type"])?.iter().flatten().any(|t| doc.is(t, "direct")),
                None => true,
            };
            let lock = (!direct).then_some(Skip::UnsureGroup);
            builder.call(Called { id, name, arguments: input, item, lock, marked, signed: false });
        }
        ("tool_result", Role::User) => {
            let [id, content, is_error] = doc.fields(span, ["tool_use_id", "content", "is_error"])?;
            let failed = is_error.is_some_and(|e| doc.slice(&e) == b"true").then_some(Skip::ErrorResult);
            let returned = Returned { id, name: None, item, lock: failed, marked };
            builder.result(returned, content, Parts::typed(&["text"], MARKERS))?;
        }
        ("tool_use" | "tool_result", _) => return Err(Skip::BrokenPairing),
        ("image" | "document" | "search_result", Role::User) => builder.mark(|e| e.stays = true),
        ("compaction", _) => builder.mark(|e| {
            e.compaction = true;
            e.opaque = true;
        }),
        // Server tools with their results, container files, and whatever comes next: whole, where it is.
        _ => builder.mark(|e| e.opaque = true),
    }
    Ok(())
}
