//! The facts about pairs that an engine is told: what came later, not what it means.

use super::identifiers;
use crate::{
    json::{Document, Kind, Span},
    transcript::{Pair, Role, Side, Transcript},
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

/// Argument names under which tools take the thing they work on.
const TARGETS: [&str; 9] =
    ["file_path", "path", "filename", "file", "target_file", "notebook_path", "url", "command", "cmd"];

/// What kind of tool a name suggests. A guess for the engine's eyes; nothing is allowed or refused by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Shows a file or page.
    Read,
    /// Lists or finds.
    Search,
    /// Changes a file.
    Edit,
    /// Runs a command.
    Shell,
    /// Anything else: agents, questions to people, browsers.
    Other,
}

impl Class {
    /// A name with words of two classes counts as the one that does more: `search_replace` edits. The names of the
    /// classes themselves, which are sent where no text may be, are of their class.
    pub fn of(tool: &str) -> Self {
        let words = words(tool);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        if has(&["edit", "write", "patch", "replace", "create", "insert", "delete", "update"]) {
            Self::Edit
        } else if has(&["shell", "bash", "exec", "execute", "command", "terminal", "run"]) {
            Self::Shell
        } else if has(&["search", "grep", "glob", "find", "list", "ls"]) {
            Self::Search
        } else if has(&["read", "view", "cat", "open", "fetch", "get"]) {
            Self::Read
        } else {
            Self::Other
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Edit => "edit",
            Self::Shell => "shell",
            Self::Other => "other",
        }
    }
}

/// The words of `WebFetch`, `read_file` and `mcp__files__list`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words
}

/// What is known of every call without reading results.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) tool: String,
    pub(super) class: Class,
    /// What the call works on, when its arguments name it.
    pub(super) target: Option<String>,
    /// Hash of tool and arguments: equal for exact repeats.
    call: u64,
    pub(super) bytes: usize,
    /// `ok`, `error` where the client flagged one, `open` while the result is out.
    pub(super) status: &'static str,
}

/// Facts about every pair of a conversation, and citations of the pairs that are asked about.
#[derive(Debug)]
pub struct Evidence {
    pub(super) known: Vec<Known>,
    /// Calls on one target, or exact repeats of a call without one, in order.
    related: HashMap<u64, Vec<usize>>,
    cited: HashMap<usize, usize>,
}

impl Evidence {
    /// Gathers the facts. `asked` are indices of pairs; the rest of their results behind `head_chars` characters is what
    /// a truncation would take. One pass over the payload.
    pub fn gather(doc: &Document<'_>, transcript: &Transcript, asked: &[usize], head_chars: usize) -> Self {
        let known: Vec<Known> = transcript.pairs.iter().map(|pair| know(doc, pair)).collect();
        let mut related: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, call) in known.iter().enumerate() {
            related.entry(call.relation()).or_default().push(index);
        }
        Self { known, related, cited: citations(doc, transcript, asked, head_chars) }
    }

    /// How many later entries of the assistant use a name that the rest of result `pair` introduced.
    pub(super) fn cited_after(&self, pair: usize) -> usize {
        self.cited.get(&pair).copied().unwrap_or(0)
    }

    /// Later calls on the same target, as `p<ordinal> <what>`: the newest four.
    pub(super) fn same_target_later(&self, pair: usize) -> Vec<String> {
        let Some(this) = self.known.get(pair) else { return Vec::new() };
        let related = self.related.get(&this.relation()).map(Vec::as_slice).unwrap_or_default();
        let newest = related.iter().rev().take(4).take_while(|i| **i > pair);
        let mut lines: Vec<String> = newest
            .filter_map(|i| Some((i, self.known.get(*i)?)))
            .map(|(i, k)| {
                let what = match (this.class, k.class) {
                    _ if k.call == this.call => "repeat",
                    // Other arguments read another part of it, and this part may stand nowhere else.
                    (Class::Read, Class::Read) => "page",
                    (_, later) => later.name(),
                };
                format!("p{} {what}", i.saturating_add(1))
            })
            .collect();
        lines.reverse();
        lines
    }
}

impl Known {
    /// Equal for calls that work on the same thing.
    fn relation(&self) -> u64 {
        self.target.as_ref().map_or(self.call, hash)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn know(doc: &Document<'_>, pair: &Pair) -> Known {
    let tool = pair.call.name.as_ref().and_then(|n| doc.string(n)).unwrap_or_default().into_owned();
    let arguments = arguments(doc, pair);
    let status = pair.result.as_ref().map_or("open", |r| if r.is_error() { "error" } else { "ok" });
    Known {
        class: Class::of(&tool),
        target: target(&arguments),
        call: hash((&tool, &arguments)),
        bytes: pair.result.as_ref().map_or(0, |r| r.payload),
        status,
        tool,
    }
}

/// The arguments as JSON text: some formats write them as an object, some as a string that holds one.
pub(super) fn arguments<'a>(doc: &Document<'a>, pair: &Pair) -> Cow<'a, str> {
    let Some(span) = &pair.call.arguments else { return Cow::Borrowed("") };
    match doc.string(span) {
        Some(text) => text,
        None => String::from_utf8_lossy(doc.slice(span)),
    }
}

fn target(arguments: &str) -> Option<String> {
    let doc = Document::parse(arguments.as_bytes()).ok()?;
    let found = doc.fields(&doc.root(), TARGETS).ok()?;
    let span = found.into_iter().flatten().find(|s| doc.kind(s) == Kind::String)?;
    doc.string(&span).map(Cow::into_owned)
}

/// One piece of payload, in the order of the body.
enum Piece {
    /// Prose or arguments of the assistant in this element.
    Said(usize),
    /// A text part of this pair's result.
    Result(usize),
}

fn citations(doc: &Document<'_>, transcript: &Transcript, asked: &[usize], head_chars: usize) -> HashMap<usize, usize> {
    let asked: HashSet<usize> = asked.iter().copied().collect();
    // Who introduced a name: a pair that is asked about, or nobody that matters.
    let mut introduced: HashMap<u64, Option<usize>> = HashMap::new();
    // Per pair: how often cited, and by which element last, so that one entry counts once.
    let mut cited: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut head_left = head_chars;
    let mut current = usize::MAX;
    for (span, piece) in pieces(transcript) {
        match piece {
            Piece::Said(element) => identifiers::each(doc_chars(doc, &span), |id| {
                if let Some(pair) = *introduced.entry(id).or_insert(None) {
                    let (count, last) = cited.entry(pair).or_insert((0, usize::MAX));
                    if *last != element {
                        (*count, *last) = (count.saturating_add(1), element);
                    }
                }
            }),
            Piece::Result(pair) => {
                if current != pair {
                    (current, head_left) = (pair, head_chars);
                }
                let all = doc.chars(&span).count();
                let head = doc.chars(&span).take(head_left).map(|c| c.value);
                identifiers::each(head, |id| _ = introduced.entry(id).or_insert(None));
                let owner = asked.contains(&pair).then_some(pair);
                let tail = doc.chars(&span).skip(head_left).map(|c| c.value);
                identifiers::each(tail, |id| _ = introduced.entry(id).or_insert(owner));
                head_left = head_left.saturating_sub(all);
            }
        }
    }
    cited.into_iter().map(|(pair, (count, _))| (pair, count)).collect()
}

fn doc_chars<'a>(doc: &Document<'a>, span: &Span) -> Box<dyn Iterator<Item = char> + 'a> {
    match doc.kind(span) {
        Kind::String => Box::new(doc.chars(span).map(|c| c.value)),
        _ => Box::new(std::str::from_utf8(doc.slice(span)).unwrap_or_default().chars()),
    }
}

fn pieces(transcript: &Transcript) -> Vec<(Span, Piece)> {
    let is_model = |e: usize| transcript.elements.get(e).is_some_and(|e| e.role.side() == Side::Model);
    let said = transcript.prose.iter().filter(|p| is_model(p.element));
    let mut pieces: Vec<(Span, Piece)> = said.map(|p| (p.literal.clone(), Piece::Said(p.element))).collect();
    for (index, pair) in transcript.pairs.iter().enumerate() {
        pieces.extend(pair.call.arguments.iter().map(|a| (a.clone(), Piece::Said(pair.call.element))));
        let texts = pair.result.iter().flat_map(|r| &r.texts);
        pieces.extend(texts.map(|t| (t.literal.clone(), Piece::Result(index))));
    }
    pieces.sort_by_key(|(span, _)| span.start);
    pieces
}

/// The literal of the newest prose of the user, if there is one.
pub(super) fn goal(transcript: &Transcript) -> Option<&Span> {
    let is_user = |e: usize| transcript.elements.get(e).is_some_and(|e| e.role == Role::User);
    transcript.prose.iter().rfind(|p| is_user(p.element)).map(|p| &p.literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    fn chat(calls: &[(&str, &str, &str)]) -> String {
        let mut messages = vec![r#"{"role":"user","content":"Go."}"#.to_owned()];
        for (n, (tool, arguments, result)) in calls.iter().enumerate() {
            let arguments = serde_json::to_string(arguments).unwrap();
            let result = serde_json::to_string(result).unwrap();
            messages.push(format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"{n}","function":{{"name":"{tool}","arguments":{arguments}}}}}]}}"#
            ));
            messages.push(format!(r#"{{"role":"tool","tool_call_id":"{n}","content":{result}}}"#));
        }
        format!(r#"{{"messages":[{}]}}"#, messages.join(","))
    }

    fn gathered(body: &str, asked: &[usize]) -> Evidence {
        let doc = Document::parse(body.as_bytes()).unwrap();
        let transcript = (Dialect::of("/v1/chat/completions").unwrap().read)(&doc).unwrap();
        Evidence::gather(&doc, &transcript, asked, 10)
    }

    #[test]
    fn later_calls_on_the_same_target_are_told_apart() {
        let body = chat(&[
            ("read_file", r#"{"path":"a.rs","offset":1}"#, "x"),
            ("read_file", r#"{"path":"a.rs","offset":200}"#, "x"),
            ("read_file", r#"{"path":"b.rs"}"#, "x"),
            ("read_file", r#"{"path":"a.rs","offset":1}"#, "x"),
            ("str_replace_edit", r#"{"path":"a.rs"}"#, "x"),
            ("target_info", "{}", "x"),
            ("target_info", "{}", "x"),
        ]);
        let evidence = gathered(&body, &[]);
        assert_eq!(evidence.same_target_later(0), ["p2 page", "p4 repeat", "p5 edit"]);
        assert_eq!(evidence.same_target_later(2), Vec::<String>::new());
        assert_eq!(evidence.same_target_later(5), ["p7 repeat"], "no target: only exact repeats");
        assert_eq!(evidence.known.iter().map(|k| k.class.name()).nth(5), Some("other"), "target does not get anything");
    }

    #[test]
    fn only_names_that_the_rest_of_a_result_introduced_count_as_citations() {
        let body = chat(&[
            ("read", r#"{"path":"src/known.rs"}"#, "head_name0 and then tail_name1 and src/known.rs"),
            ("grep", r#"{"pattern":"tail_name1 tail_name1"}"#, "none"),
            ("grep", r#"{"pattern":"head_name0"}"#, "none"),
            ("read", r#"{"path":"src/known.rs"}"#, "tail_name1 once more, later"),
        ]);
        let evidence = gathered(&body, &[0, 3]);
        assert_eq!(evidence.cited_after(0), 1, "the head stays anyway, and the path was known before");
        assert_eq!(evidence.cited_after(3), 0);
    }
}
