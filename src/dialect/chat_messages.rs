//! What the formats share whose assistant messages hold `tool_calls`: Chat Completions, Ollama, Cohere. What sets them
//! apart is data, in [`Flavour`].

use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
    transcript::{Builder, Called, Item, Parts, Returned, Role, has_any, has_other},
};

/// Content blocks of other formats: the body is not what its path says.
const FOREIGN: &[&str] = &["tool_use", "tool_result"];

/// What sets a format apart.
#[derive(Debug)]
pub(super) struct Flavour {
    /// Members of assistant messages with reasoning: their presence counts, whatever the value, since a provider that asks
    /// for the member asks for it as it was.
    pub(super) reasoning: &'static [&'static str],
    /// Members of assistant messages that must leave whole or not at all; null and an empty list say nothing.
    pub(super) tied: &'static [&'static str],
    /// Members of assistant messages with prose, besides `content`.
    pub(super) prose: &'static [&'static str],
    /// Members of parts, calls and messages with which a client places a provider's cache marker.
    pub(super) markers: &'static [&'static str],
    /// Members of a call that say nothing about its siblings; anything else may be their signature.
    pub(super) plain_call: &'static [&'static str],
    /// Members of results that hold something besides text.
    pub(super) not_text: &'static [&'static str],
    /// The member of a result that names its tool, where ids may be missing.
    pub(super) result_name: Option<&'static str>,
    /// Whether `function_call` and the role `function` are known.
    pub(super) functions: bool,
}

/// Whether the call of an id must not leave.
type Sources<'a> = dyn Fn(&Span) -> bool + 'a;

/// Reads all messages.
pub(super) fn read<'d>(
    doc: &Document<'d>,
    builder: &mut Builder<'d>,
    flavour: &Flavour,
    sources: &Sources<'_>,
) -> Result<(), Skip> {
    let mut reader = Reader { doc, builder, flavour, sources };
    let mut calls_open = false;
    for entry in reader.builder.entries() {
        calls_open = reader.message(entry, calls_open)?;
    }
    Ok(())
}

struct Reader<'r, 'd> {
    doc: &'r Document<'d>,
    builder: &'r mut Builder<'d>,
    flavour: &'r Flavour,
    sources: &'r Sources<'r>,
}

impl Reader<'_, '_> {
    /// Reads one message; says whether calls of this assistant message wait for the very next ones.
    fn message(&mut self, entry: Span, calls_open: bool) -> Result<bool, Skip> {
        let Self { doc, flavour, .. } = self;
        let [role, content, name, id] = doc.fields(&entry, ["role", "content", "name", "tool_call_id"])?;
        let role = match role.and_then(|r| doc.string(&r)).ok_or(Skip::UnknownShape)?.as_ref() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            "function" if flavour.functions => Role::Tool,
            _ => return Err(Skip::UnknownShape),
        };
        if calls_open && role == Role::Assistant {
            self.builder.misplaced();
        }
        let item = self.builder.element(role, entry.clone());
        if role == Role::Tool {
            self.result(&entry, item, content, id, name)?;
            return Ok(false);
        }
        if let Some(content) = content {
            self.prose(&content)?;
        }
        if role == Role::Assistant { self.assistant(&entry, item) } else { Ok(false) }
    }

    fn result(
        &mut self,
        entry: &Span,
        item: Item,
        content: Option<Span>,
        id: Option<Span>,
        name: Option<Span>,
    ) -> Result<(), Skip> {
        let Self { doc, flavour, .. } = self;
        let flagged = doc.fields(entry, ["is_error", "status"])?;
        let (id, name) = match flavour.result_name {
            Some(member) => (id, doc.fields(entry, [member])?.into_iter().flatten().next().or(name)),
            None => (id.or(name), None),
        };
        let other = has_any(doc, entry, flavour.not_text).then_some(Skip::NotText);
        let (lock, marked) = (error_flag(doc, &flagged).or(other), has_any(doc, entry, flavour.markers));
        let returned = Returned { id, name, item, lock, marked };
        self.builder.result(returned, content, Parts::typed(&["text"], flavour.markers))
    }

    fn assistant(&mut self, entry: &Span, item: Item) -> Result<bool, Skip> {
        let Self { doc, flavour, .. } = self;
        let [tool_calls, function_call] = doc.fields(entry, ["tool_calls", "function_call"])?;
        let (mut tied, mut reasons) = (false, false);
        for member in doc.members(entry) {
            let name = doc.string(&member.key).unwrap_or_default();
            let is_in = |names: &[&str]| names.contains(&name.as_ref());
            tied |= is_in(flavour.tied) && !matches!(doc.slice(&member.value), b"null" | b"[]");
            reasons |= is_in(flavour.reasoning);
            if is_in(flavour.prose) && doc.kind(&member.value) == Kind::String {
                self.builder.prose(member.value, None);
            }
        }
        let mut stays = false;
        self.builder.mark(|e| {
            e.opaque |= tied;
            e.reasoning |= reasons;
            stays = e.stays;
        });
        let calls: Vec<Span> = tool_calls.iter().flat_map(|calls| doc.elements(calls)).collect();
        let legacy = function_call.filter(|f| flavour.functions && doc.kind(f) != Kind::Null);
        match (calls.is_empty(), legacy) {
            (true, None) => Ok(false),
            (false, None) => {
                let marked = has_any(doc, entry, flavour.markers);
                let parent = self.leaving_member(entry, item, "tool_calls", stays);
                let at = self.builder.list(calls.clone(), parent);
                for (index, span) in calls.iter().enumerate() {
                    self.call(span, at(index), marked)?;
                }
                Ok(true)
            }
            (true, Some(function)) => {
                let [name, arguments] = self.doc.fields(&function, ["name", "arguments"])?;
                let marked = has_any(self.doc, entry, flavour.markers);
                let item = self.leaving_member(entry, item, "function_call", stays).unwrap_or(item);
                self.builder.call(Called {
                    id: name.clone(),
                    name,
                    arguments,
                    item,
                    lock: None,
                    marked,
                    signed: false,
                });
                Ok(true)
            }
            (false, Some(_)) => Err(Skip::UnknownShape),
        }
    }

    /// What leaves when all calls of a message do: the member that holds them where the message says something, else the
    /// message.
    fn leaving_member(&mut self, entry: &Span, message: Item, name: &str, stays: bool) -> Option<Item> {
        if !stays {
            return Some(message);
        }
        let members: Vec<_> = self.doc.members(entry).collect();
        let index = members.iter().position(|m| self.doc.is(&m.key, name))?;
        let at = self.builder.list(members.iter().map(|m| m.whole()).collect(), None);
        Some(at(index))
    }

    fn call(&mut self, span: &Span, item: Item, marked: bool) -> Result<(), Skip> {
        let Self { doc, flavour, .. } = self;
        let [id, function, custom] = doc.fields(span, ["id", "function", "custom"])?;
        let body = function.or(custom).ok_or(Skip::UnknownShape)?;
        let [name, arguments, input] = doc.fields(&body, ["name", "arguments", "input"])?;
        // Gemini behind Chat Completions signs the first parallel call only: in `extra_content` or under a gateway's own
        // name, or glued to the id.
        let glued = |id: &Span| doc.inner(id).is_some_and(|raw| memchr::memmem::find(raw, b"__thought__").is_some());
        let signed = has_other(doc, span, flavour.plain_call)
            || has_other(doc, &body, &["name", "arguments", "input", "index"])
            || id.as_ref().is_some_and(glued);
        let marked = marked || has_any(doc, span, flavour.markers);
        let is_source = id.as_ref().is_some_and(self.sources);
        self.builder.mark(|e| e.opaque |= is_source);
        self.builder.call(Called { id, name, arguments: arguments.or(input), item, lock: None, marked, signed });
        Ok(())
    }

    fn prose(&mut self, content: &Span) -> Result<(), Skip> {
        let Self { doc, flavour, .. } = self;
        match doc.kind(content) {
            Kind::String => self.builder.prose(content.clone(), None),
            Kind::Array => {
                for part in doc.elements(content) {
                    let [kind, text] = doc.fields(&part, ["type", "text"])?;
                    let kind = kind.and_then(|k| doc.string(&k)).unwrap_or_default();
                    if FOREIGN.contains(&kind.as_ref()) {
                        return Err(Skip::DialectUnconfirmed);
                    }
                    let reasons =
                        kind.contains("thinking") || kind.contains("reasoning") || has_any(doc, &part, &["signature"]);
                    let marked = has_any(doc, &part, flavour.markers);
                    if marked {
                        self.builder.cached(false);
                    }
                    self.builder.mark(|e| e.reasoning |= reasons && e.role == Role::Assistant);
                    match text.filter(|t| kind == "text" && doc.kind(t) == Kind::String) {
                        // A marked part stays, and alone a blank one is refused.
                        Some(literal) if marked && doc.is_blank(&literal) => self.builder.mark(|e| e.opaque = true),
                        Some(literal) => self.builder.prose(literal, None),
                        None => self.builder.mark(|e| e.stays = true),
                    }
                }
            }
            Kind::Null => {}
            _ => return Err(Skip::UnknownShape),
        }
        Ok(())
    }
}

/// `is_error: true` or `status: "error"`, as some agents flag a failed tool.
fn error_flag(doc: &Document<'_>, [is_error, status]: &[Option<Span>; 2]) -> Option<Skip> {
    let set = is_error.as_ref().is_some_and(|e| doc.slice(e) == b"true");
    (set || status.as_ref().is_some_and(|s| doc.is(s, "error"))).then_some(Skip::ErrorResult)
}
