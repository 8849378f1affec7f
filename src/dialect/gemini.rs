//! Gemini (`…:generateContent`, `…:streamGenerateContent`), on its own API and on Vertex. Members are spelt in camel case or
//! with underscores.

use super::total_len;
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Item, Prompt, Returned, Role, Transcript, has_any},
};

/// Members that put a part of the history on the provider's side.
const SERVER_STATE: &[&str] = &["cachedContent", "cached_content", "previousInteractionId", "previous_interaction_id"];
/// What the model signs its reasoning with.
const SIGNATURE: &[&str] = &["thoughtSignature", "thought_signature"];

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [contents, messages, input, tools] = doc.fields(&root, ["contents", "messages", "input", "tools"])?;
    let system = one_of(doc, &root, ["systemInstruction", "system_instruction"])?;
    let array = contents.filter(|c| doc.kind(c) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    if messages.or(input).is_some() {
        return Err(Skip::DialectUnconfirmed);
    }
    if has_any(doc, &root, SERVER_STATE) {
        return Err(Skip::ServerState);
    }
    let prompt = Prompt { fixed: total_len(doc, [&system, &tools]), ..Prompt::default() };
    let mut builder = Builder::new(doc, array, prompt);
    builder.ids_may_be_missing();
    builder.keeps_current_turn();
    for entry in builder.entries() {
        content(doc, &mut builder, entry)?;
    }
    builder.finish()
}

/// The value of a member with two spellings; both at once are two of one.
fn one_of(doc: &Document<'_>, span: &Span, names: [&str; 2]) -> Result<Option<Span>, Skip> {
    match doc.fields(span, names)? {
        [Some(_), Some(_)] => Err(Skip::DuplicateKey),
        [camel, snake] => Ok(camel.or(snake)),
    }
}

fn content(doc: &Document<'_>, builder: &mut Builder<'_>, entry: Span) -> Result<(), Skip> {
    let [role, parts] = doc.fields(&entry, ["role", "parts"])?;
    let role = match role.as_ref().and_then(|role| doc.string(role)).as_deref() {
        Some("model") => Role::Assistant,
        Some("function" | "tool") => Role::Tool,
        Some("user") => Role::User,
        None if role.is_none() => Role::User,
        _ => return Err(Skip::UnknownShape),
    };
    let item = builder.element(role, entry);
    let parts: Vec<Span> = parts.iter().flat_map(|parts| doc.elements(parts)).collect();
    let at = builder.list(parts.clone(), Some(item));
    for (index, span) in parts.iter().enumerate() {
        part(doc, builder, role, span, at(index))?;
    }
    Ok(())
}

fn part(doc: &Document<'_>, builder: &mut Builder<'_>, role: Role, span: &Span, item: Item) -> Result<(), Skip> {
    let [text, thought] = doc.fields(span, ["text", "thought"])?;
    let call = one_of(doc, span, ["functionCall", "function_call"])?;
    let response = one_of(doc, span, ["functionResponse", "function_response"])?;
    let signed = has_any(doc, span, SIGNATURE);
    match (call, response, text.filter(|t| doc.kind(t) == Kind::String)) {
        (Some(call), None, None) if role == Role::Assistant => {
            let [id, name, arguments] = doc.fields(&call, ["id", "name", "args"])?;
            builder.call(Called { id, name, arguments, item, lock: None, marked: false, signed });
        }
        (None, Some(response), None) if role != Role::Assistant => result(doc, builder, &response, item)?,
        (Some(_), ..) | (_, Some(_), _) => return Err(Skip::BrokenPairing),
        (None, None, Some(text)) => {
            let thinks = signed || thought.is_some_and(|thought| doc.slice(&thought) == b"true");
            builder.mark(|e| e.reasoning |= thinks && role == Role::Assistant);
            // What is signed is reasoning even where it is blank.
            builder.prose(text, (!thinks).then_some(item));
        }
        // Files of the user stand by themselves; code and its outcome, tools that the provider runs, and whatever comes next
        // stay where they are.
        (None, None, None) if role == Role::User => builder.mark(|e| e.stays = true),
        (None, None, None) => builder.mark(|e| e.opaque = true),
    }
    Ok(())
}

fn result(doc: &Document<'_>, builder: &mut Builder<'_>, span: &Span, item: Item) -> Result<(), Skip> {
    let [id, name, response, parts, scheduling] =
        doc.fields(span, ["id", "name", "response", "parts", "scheduling"])?;
    let goes_on = one_of(doc, span, ["willContinue", "will_continue"])?;
    let (texts, plain) = match &response {
        Some(response) => texts(doc, response)?,
        None => (Vec::new(), false),
    };
    let failed = response.is_some_and(|response| has_any(doc, &response, &["error"]));
    let several = scheduling.or(goes_on).is_some_and(|value| !matches!(doc.slice(&value), b"null" | b"false"));
    let has_files = parts.is_some_and(|parts| doc.elements(&parts).next().is_some());
    let lock = if several {
        Some(Skip::UnsureGroup)
    } else if failed {
        Some(Skip::ErrorResult)
    } else {
        (has_files || !plain).then_some(Skip::NotText)
    };
    builder.result_in(Returned { id, name, item, lock, marked: false }, texts);
    Ok(())
}

/// The text of a response, which stays an object: its string members, and the text parts of a list that holds nothing else
/// (`{"content": [{"type": "text", "text": "…"}]}`). Whether there is nothing but text, numbers and truth values.
fn texts(doc: &Document<'_>, response: &Span) -> Result<(Vec<Span>, bool), Skip> {
    let (mut texts, mut plain) = (Vec::new(), doc.kind(response) == Kind::Object);
    for member in doc.members(response) {
        match doc.kind(&member.value) {
            Kind::String => texts.push(member.value),
            Kind::Null | Kind::Other => {}
            Kind::Object => plain = false,
            Kind::Array => {
                for part in doc.elements(&member.value) {
                    let [kind, text] = doc.fields(&part, ["type", "text"])?;
                    let typed = kind.is_none_or(|kind| doc.is(&kind, "text"));
                    match text.filter(|text| typed && doc.kind(text) == Kind::String) {
                        Some(text) => texts.push(text),
                        None => plain = false,
                    }
                }
            }
        }
    }
    Ok((texts, plain))
}
