//! The facts about pairs that an engine is told: what came later, not what it means.

use super::{excerpt, identifiers};
use crate::{
    json::{Document, Kind, Span},
    transcript::{Pair, Role, Side, Transcript},
};
use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::HashMap,
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
    /// Tool and target as they may leave the machine, made when they are first asked for.
    label: OnceCell<String>,
    /// Hash of tool and arguments: equal for exact repeats.
    call: u64,
    bytes: usize,
    /// The client flagged an error.
    is_error: bool,
    /// The element that holds the call, and the one that holds its result.
    elements: (usize, usize),
}

/// One boundary: the end of what may be known there, in elements, and the pairs that are asked about.
pub type Boundary<'a> = (usize, &'a [usize]);

/// Facts about every pair of a conversation, and citations of the pairs that are asked about.
#[derive(Debug)]
pub struct Evidence {
    known: Vec<Known>,
    /// Calls on one target, or exact repeats of a call without one, in order.
    related: HashMap<u64, Vec<usize>>,
    cited: HashMap<usize, usize>,
}

impl Evidence {
    /// Gathers the facts for all boundaries at which something is asked, each pair at one of them. Of a result the rest
    /// behind `head_chars` characters is what a truncation would take. One pass over the payload.
    pub fn gather(doc: &Document<'_>, transcript: &Transcript, asked: &[Boundary<'_>], head_chars: usize) -> Self {
        let end = asked.iter().map(|(end, _)| *end).max().unwrap_or(0);
        let before = transcript.pairs.iter().take_while(|pair| pair.call.element < end);
        let known: Vec<Known> = before.map(|pair| know(doc, pair)).collect();
        let mut related: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, call) in known.iter().enumerate() {
            related.entry(call.relation()).or_default().push(index);
        }
        Self { known, related, cited: citations(doc, transcript, end, asked, head_chars) }
    }

    /// What is known before element `end`.
    pub(super) fn before(&self, end: usize) -> Before<'_> {
        let known = self.known.partition_point(|known| known.elements.0 < end);
        Before { all: self, end, known: self.known.get(..known).unwrap_or_default() }
    }
}

/// What is known at one boundary.
#[derive(Clone, Copy)]
pub(super) struct Before<'e> {
    all: &'e Evidence,
    end: usize,
    pub(super) known: &'e [Known],
}

impl Before<'_> {
    /// How many later entries of the assistant use a name that the rest of result `pair` introduced.
    pub(super) fn cited_after(&self, pair: usize) -> usize {
        self.all.cited.get(&pair).copied().unwrap_or(0)
    }

    /// `ok`, `error` where the client flagged one, `open` while the result is out; and the result's bytes.
    pub(super) fn result(&self, known: &Known) -> (&'static str, usize) {
        match known.is_error {
            _ if known.elements.1 >= self.end => ("open", 0),
            true => ("error", known.bytes),
            false => ("ok", known.bytes),
        }
    }

    /// Later calls on the same target, as `p<ordinal> <what>`: the newest four.
    pub(super) fn same_target_later(&self, pair: usize) -> Vec<String> {
        let Some(this) = self.known.get(pair) else { return Vec::new() };
        let related = self.all.related.get(&this.relation()).map(Vec::as_slice).unwrap_or_default();
        let related = related.get(..related.partition_point(|i| *i < self.known.len())).unwrap_or_default();
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
    /// Tool and target in at most 64 bytes, without secrets.
    pub(super) fn label(&self) -> &str {
        self.label.get_or_init(|| {
            let tool = excerpt::head(self.tool.chars(), 24);
            let target = excerpt::head(self.target.as_deref().unwrap_or("-").chars(), 40);
            format!("{tool} {target}")
        })
    }

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
    let result = pair.result.as_ref();
    Known {
        class: Class::of(&tool),
        target: target(&arguments),
        call: hash((&tool, &arguments)),
        bytes: result.map_or(0, |r| r.payload),
        label: OnceCell::new(),
        is_error: result.is_some_and(|r| r.is_error()),
        elements: (pair.call.element, result.map_or(usize::MAX, |r| r.element)),
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
pub(super) enum Piece {
    /// Prose or arguments of the assistant in this element.
    Said(usize),
    /// A text part of this pair's result.
    Result(usize),
}

fn citations(
    doc: &Document<'_>,
    transcript: &Transcript,
    end: usize,
    asked: &[Boundary<'_>],
    head_chars: usize,
) -> HashMap<usize, usize> {
    // Who is asked about, and the element from which on nothing counts for it.
    let asked: HashMap<usize, usize> =
        asked.iter().flat_map(|(end, pairs)| pairs.iter().map(|pair| (*pair, *end))).collect();
    // Who introduced a name: a pair that is asked about, or nobody that matters.
    let mut introduced: HashMap<u64, Option<usize>> = HashMap::new();
    // Per pair: how often cited, and by which element last, so that one entry counts once.
    let mut cited: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut head_left = head_chars;
    let mut current = usize::MAX;
    for (span, piece) in pieces(transcript, end) {
        match piece {
            Piece::Said(element) => identifiers::each(doc_chars(doc, &span), |id| {
                let owner = *introduced.entry(id).or_insert(None);
                if let Some(pair) = owner.filter(|pair| asked.get(pair).is_some_and(|end| element < *end)) {
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
                let owner = asked.contains_key(&pair).then_some(pair);
                let tail = doc.chars(&span).skip(head_left).map(|c| c.value);
                identifiers::each(tail, |id| _ = introduced.entry(id).or_insert(owner));
                head_left = head_left.saturating_sub(all);
            }
        }
    }
    cited.into_iter().map(|(pair, (count, _))| (pair, count)).collect()
}

/// The characters of a string, or of any other value as it stands.
pub(super) fn doc_chars<'a>(doc: &Document<'a>, span: &Span) -> Box<dyn Iterator<Item = char> + 'a> {
    match doc.kind(span) {
        Kind::String => Box::new(doc.chars(span).map(|c| c.value)),
        _ => Box::new(std::str::from_utf8(doc.slice(span)).unwrap_or_default().chars()),
    }
}

/// What the model said and what tools answered before element `end`, in order.
pub(super) fn pieces(transcript: &Transcript, end: usize) -> Vec<(Span, Piece)> {
    let is_model = |e: usize| transcript.elements.get(e).is_some_and(|e| e.role.side() == Side::Model);
    let said = transcript.prose.iter().filter(|p| p.element < end && is_model(p.element));
    let mut pieces: Vec<(Span, Piece)> = said.map(|p| (p.literal.clone(), Piece::Said(p.element))).collect();
    for (index, pair) in transcript.pairs.iter().enumerate().take_while(|(_, p)| p.call.element < end) {
        pieces.extend(pair.call.arguments.iter().map(|a| (a.clone(), Piece::Said(pair.call.element))));
        let texts = pair.result.iter().filter(|r| r.element < end).flat_map(|r| &r.texts);
        pieces.extend(texts.map(|t| (t.literal.clone(), Piece::Result(index))));
    }
    pieces.sort_by_key(|(span, _)| span.start);
    pieces
}

/// The literal of the user's last prose before element `end`, if there is one.
pub(super) fn goal(transcript: &Transcript, end: usize) -> Option<&Span> {
    let is_user = |e: usize| transcript.elements.get(e).is_some_and(|e| e.role == Role::User);
    transcript.prose.iter().rfind(|p| p.element < end && is_user(p.element)).map(|p| &p.literal)
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
        Evidence::gather(&doc, &transcript, &[(usize::MAX, asked)], 10)
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
        let evidence = evidence.before(usize::MAX);
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
        let evidence = evidence.before(usize::MAX);
        assert_eq!(evidence.cited_after(0), 1, "the head stays anyway, and the path was known before");
        assert_eq!(evidence.cited_after(3), 0);
    }

    #[test]
    fn at_each_boundary_only_what_stands_before_it_is_known() {
        let body = chat(&[
            ("read", r#"{"path":"a.rs"}"#, "0123456789 tail_name1"),
            ("grep", r#"{"pattern":"tail_name1"}"#, "0123456789 tail_name2"),
            ("read", r#"{"path":"a.rs"}"#, "none"),
            ("grep", r#"{"pattern":"tail_name1 tail_name2"}"#, "none"),
        ]);
        let doc = Document::parse(body.as_bytes()).unwrap();
        let transcript = (Dialect::of("/v1/chat/completions").unwrap().read)(&doc).unwrap();
        let asked: [Boundary<'_>; 2] = [(4, &[0]), (8, &[1])];
        let together = Evidence::gather(&doc, &transcript, &asked, 10);
        for (end, pairs) in asked {
            let alone = Evidence::gather(&doc, &transcript, &[(end, pairs)], 10);
            for pair in pairs {
                let facts = |evidence: &Evidence| {
                    let before = evidence.before(end);
                    let results: Vec<_> = before.known.iter().map(|known| before.result(known)).collect();
                    (before.cited_after(*pair), before.same_target_later(*pair), results)
                };
                assert_eq!(facts(&together), facts(&alone), "{end}");
            }
        }
        assert_eq!(together.before(4).cited_after(0), 1, "not the one behind its boundary");
        assert_eq!(together.before(4).result(&together.known[1]).0, "open");
    }
}
