//! Amazon Bedrock Converse (`/model/…/converse`, `/model/…/converse-stream`). Blocks are named by their only member, and
//! messages alternate, so that they leave whole or not at all.

use super::total_len;
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Item, Parts, Prompt, Returned, Role, Transcript, has_any},
};

/// A block of its own that marks where the provider's cache ends.
const MARKER: &str = "cachePoint";
/// Blocks of the user that stand by themselves.
const FILES: &[&str] = &["image", "document", "video", "audio", "searchResult"];

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [messages, system, tools, more, contents, input] =
        doc.fields(&root, ["messages", "system", "toolConfig", "additionalModelRequestFields", "contents", "input"])?;
    let array = messages.filter(|m| doc.kind(m) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    if contents.or(input).is_some() {
        return Err(Skip::DialectUnconfirmed);
    }
    let prompt = Prompt {
        fixed: total_len(doc, [&system, &tools]),
        thinking: more.is_some_and(|more| has_any(doc, &more, &["thinking", "reasoning_config", "reasoningConfig"])),
        ..Prompt::default()
    };
    let mut builder = Builder::new(doc, array, prompt);
    let tools = match &tools {
        Some(tools) => doc.fields(tools, ["tools"])?,
        None => [None],
    };
    for around in system.iter().chain(tools.iter().flatten()).flat_map(|list| doc.elements(list)) {
        marker(doc, &mut builder, &around)?;
    }
    for entry in builder.entries() {
        message(doc, &mut builder, entry)?;
    }
    builder.finish()
}

/// Notes a cache marker at `span`, and says whether it is one.
fn marker(doc: &Document<'_>, builder: &mut Builder<'_>, span: &Span) -> Result<bool, Skip> {
    let [Some(point)] = doc.fields(span, [MARKER])? else { return Ok(false) };
    let [ttl] = doc.fields(&point, ["ttl"])?;
    builder.cached(ttl.is_some_and(|ttl| doc.is(&ttl, "1h")));
    Ok(true)
}

fn message(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span) -> Result<(), Skip> {
    let [role, content] = doc.fields(&entry, ["role", "content"])?;
    let role = match role.and_then(|role| doc.string(&role)).as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(Skip::UnknownShape),
    };
    let content = content.filter(|content| doc.kind(content) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    let item = builder.element(role, entry);
    let blocks: Vec<Span> = doc.elements(&content).collect();
    // Where a marker stands the message stays in this request: without its neighbours it may be one that is refused.
    let mut marked = false;
    for span in &blocks {
        marked |= marker(doc, builder, span)?;
    }
    let at = builder.list(blocks.clone(), Some(item));
    for (index, span) in blocks.iter().enumerate() {
        block(doc, builder, (role, marked), span, at(index))?;
    }
    Ok(())
}

fn block(
    doc: &Document<'_>,
    builder: &mut Builder<'_>,
    (role, marked): (Role, bool),
    span: &Span,
    item: Item,
) -> Result<(), Skip> {
    let mut members = doc.members(span);
    // Blocks with a `type` are those of Anthropic's own format.
    let (Some(member), None) = (members.next(), members.next()) else { return Err(Skip::DialectUnconfirmed) };
    match (doc.string(&member.key).ok_or(Skip::UnknownShape)?.as_ref(), role) {
        ("text", _) if doc.kind(&member.value) == Kind::String => {
            builder.prose(member.value, (!marked).then_some(item));
        }
        ("toolUse", Role::Assistant) => {
            let [id, name, input, kind] = doc.fields(&member.value, ["toolUseId", "name", "input", "type"])?;
            if kind.is_some() {
                builder.mark(|e| e.opaque = true); // a tool that the provider runs
            } else {
                builder.call(Called { id, name, arguments: input, item, lock: None, marked, signed: false });
            }
        }
        ("toolResult", Role::User) => result(doc, builder, &member.value, (item, marked))?,
        ("toolUse" | "toolResult", _) => {
            let [kind] = doc.fields(&member.value, ["type"])?;
            kind.ok_or(Skip::BrokenPairing)?; // what the provider's own tools return stands beside their calls
            builder.mark(|e| e.opaque = true);
        }
        ("reasoningContent", Role::Assistant) => builder.mark(|e| e.reasoning = true),
        (MARKER, _) => {}
        (name, Role::User) if FILES.contains(&name) => builder.mark(|e| e.stays = true),
        // Tools that are declared on the way, guarded content, citations, and whatever comes next.
        _ => builder.mark(|e| e.opaque = true),
    }
    Ok(())
}

fn result(
    doc: &Document<'_>,
    builder: &mut Builder<'_>,
    span: &Span,
    (item, marked): (Item, bool),
) -> Result<(), Skip> {
    let [id, content, status] = doc.fields(span, ["toolUseId", "content", "status"])?;
    let lock = status.is_some_and(|status| doc.is(&status, "error")).then_some(Skip::ErrorResult);
    builder.result(Returned { id, name: None, item, lock, marked }, content, Parts::bare())
}
