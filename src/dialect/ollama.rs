//! Ollama's own chat (`…/api/chat`): arguments are objects, and a call need not have an id.

use super::{
    chat_messages::{self, Flavour},
    total_len,
};
use crate::{
    json::{Document, Kind},
    skip::Skip,
    transcript::{Builder, Prompt, Transcript, has_any},
};

const FLAVOUR: Flavour = Flavour {
    reasoning: &["thinking"],
    tied: &[],
    prose: &[],
    markers: &[],
    plain_call: &["id", "type", "function"],
    not_text: &["images"],
    result_name: Some("tool_name"),
    functions: false,
};

pub(super) fn read(doc: &Document<'_>) -> Result<Transcript, Skip> {
    let root = doc.root();
    let [messages, model, tools, system, contents, input] =
        doc.fields(&root, ["messages", "model", "tools", "system", "contents", "input"])?;
    let array = messages.filter(|m| doc.kind(m) == Kind::Array).ok_or(Skip::DialectUnconfirmed)?;
    if [system, contents, input].iter().any(Option::is_some) {
        return Err(Skip::DialectUnconfirmed);
    }
    let prompt = Prompt {
        model: model.and_then(|m| doc.string(&m)).map(String::from),
        fixed: total_len(doc, [&tools, &None]),
        thinking: has_any(doc, &root, &["think"]),
        ..Prompt::default()
    };
    let mut builder = Builder::new(doc, array, prompt);
    builder.ids_may_be_missing();
    chat_messages::read(doc, &mut builder, &FLAVOUR, &|_| false)?;
    builder.finish()
}
