//! OpenAI Chat Completions and its compatibles (`…/chat/completions`).

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
    // Under the names that compatibles use; some refuse a call whose reasoning is gone.
    reasoning: &["reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"],
    tied: &["refusal", "audio", "prefix", "name", "annotations"],
    prose: &[],
    markers: &["cache_control", "prompt_cache_breakpoint"],
    plain_call: &["id", "type", "function", "custom", "index", "cache_control"],
    not_text: &[],
    result_name: None,
    functions: true,
};

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
    chat_messages::read(doc, &mut builder, &FLAVOUR, &|_| false)?;
    builder.finish()
}
