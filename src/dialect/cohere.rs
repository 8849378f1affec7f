//! Cohere's chat, version 2 (`…/v2/chat`): a plan beside the calls, and answers that cite results by the id of their call.

use super::{
    chat_messages::{self, Flavour},
    total_len,
};
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Prompt, Transcript, has_any},
};
use std::collections::HashSet;

const FLAVOUR: Flavour = Flavour {
    reasoning: &[],
    tied: &[],
    prose: &["tool_plan"],
    markers: &[],
    plain_call: &["id", "type", "function"],
    not_text: &[],
    result_name: None,
    functions: false,
};

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [messages, model, tools, documents, system, contents, input] =
        doc.fields(&root, ["messages", "model", "tools", "documents", "system", "contents", "input"])?;
    let array = messages.filter(|m| doc.kind(m) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    if [system, contents, input].iter().any(Option::is_some) {
        return Err(Skip::DialectUnconfirmed);
    }
    let prompt = Prompt {
        model: model.and_then(|m| doc.string(&m)).map(String::from),
        fixed: total_len(doc, [&tools, &documents]),
        thinking: has_any(doc, &root, &["thinking"]),
        ..Prompt::default()
    };
    let cited = cited(doc, &array)?;
    let mut builder = Builder::new(doc, array, prompt);
    let sources = |id: &Span| doc.string(id).is_some_and(|id| cited.contains(id.as_ref()));
    chat_messages::read(doc, &mut builder, &FLAVOUR, &sources)?;
    builder.finish()
}

/// Calls whose result an answer cites: `call_1` for a source `call_1:0`. A result that has left is not cited any more, so
/// this takes nothing back.
fn cited(doc: &Document<'_>, messages: &Span) -> Result<HashSet<String>, Skip> {
    let mut cited = HashSet::new();
    for message in doc.elements(messages) {
        let [citations] = doc.fields(&message, ["citations"])?;
        for citation in citations.iter().flat_map(|citations| doc.elements(citations)) {
            let [sources] = doc.fields(&citation, ["sources"])?;
            for source in sources.iter().flat_map(|sources| doc.elements(sources)) {
                let [id] = doc.fields(&source, ["id"])?;
                let Some(id) = id.and_then(|id| doc.string(&id)) else { continue };
                cited.extend(id.rsplit_once(':').map(|(call, _)| call.to_owned()));
                cited.insert(id.into_owned());
            }
        }
    }
    Ok(cited)
}
