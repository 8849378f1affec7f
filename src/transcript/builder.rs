//! Puts together what a dialect reads; the groups are found in [`super::groups`].

use super::{Call, Element, Item, List, Prompt, Prose, Role, Text, ToolResult, Transcript};
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
};

/// A call as a dialect reads it.
#[derive(Debug)]
pub struct Called {
    /// The id that its result names.
    pub id: Option<Span>,
    /// The literal of the tool's name.
    pub name: Option<Span>,
    /// The arguments.
    pub arguments: Option<Span>,
    /// What leaves with the call.
    pub item: Item,
    /// Why the call must stay.
    pub lock: Option<Skip>,
    /// Whether a cache marker of the client stands on it in this request.
    pub marked: bool,
    /// Whether it carries the signature of its parallel siblings.
    pub signed: bool,
}

/// A result as a dialect reads it.
#[derive(Debug)]
pub struct Returned {
    /// The id of the call that it answers.
    pub id: Option<Span>,
    /// The literal of the tool's name, where that tells what it answers if ids are missing.
    pub name: Option<Span>,
    /// What leaves with the result.
    pub item: Item,
    /// Why the result must stay.
    pub lock: Option<Skip>,
    /// Whether a cache marker of the client stands on it in this request.
    pub marked: bool,
}

/// How the parts of a result are read.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// Types of parts that are text; none where a part is named by its only member.
    kinds: &'a [&'a str],
    /// Members of a part that are a cache marker of the client.
    markers: &'a [&'a str],
}

impl<'a> Parts<'a> {
    /// Parts like `{"type": "text", "text": "…"}`.
    pub fn typed(kinds: &'a [&'a str], markers: &'a [&'a str]) -> Self {
        Self { kinds, markers }
    }

    /// Parts like `{"text": "…"}`.
    pub fn bare() -> Self {
        Self { kinds: &[], markers: &[] }
    }

    /// The literal of a part that is text.
    fn text(&self, doc: &Document<'_>, part: &Span) -> Result<Option<Span>, Skip> {
        let [kind, text] = doc.fields(part, ["type", "text"])?;
        let is_text = match kind {
            Some(kind) => self.kinds.iter().any(|text| doc.is(&kind, text)),
            None => self.kinds.is_empty() && !has_other(doc, part, &["text"]),
        };
        Ok(text.filter(|text| is_text && doc.kind(text) == Kind::String))
    }
}

/// Collects elements in order; [`Builder::finish`] pairs them.
#[derive(Debug)]
pub struct Builder<'a> {
    pub(super) doc: &'a Document<'a>,
    pub(super) transcript: Transcript,
    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<ToolResult>,
    /// A result stood behind prose in one client turn, or calls where no results can follow.
    pub(super) misplaced: bool,
    /// An earlier element of the current run holds something besides calls and results, or no result.
    run_is_mixed: bool,
    /// The current element holds a result.
    answers: bool,
    /// Calls and results without ids pair by name and order.
    pub(super) ids_may_be_missing: bool,
    /// The provider checks the turn that is not over.
    pub(super) keeps_current_turn: bool,
}

impl<'a> Builder<'a> {
    /// Starts with the conversation array at `array`.
    pub fn new(doc: &'a Document<'a>, array: Span, prompt: Prompt) -> Self {
        let items = doc.elements(&array).collect();
        let transcript = Transcript {
            prompt,
            array,
            elements: Vec::new(),
            prose: Vec::new(),
            pieces: Vec::new(),
            pairs: Vec::new(),
            groups: Vec::new(),
            messages: 0,
            lists: vec![List { items, parent: None }],
        };
        Self {
            doc,
            transcript,
            calls: Vec::new(),
            results: Vec::new(),
            misplaced: false,
            run_is_mixed: false,
            answers: false,
            ids_may_be_missing: false,
            keeps_current_turn: false,
        }
    }

    /// Where one id is missing in a group, its calls and results pair by the tool's name and by order.
    pub fn ids_may_be_missing(&mut self) {
        self.ids_may_be_missing = true;
    }

    /// What stands behind the last prompt of the user counts as recent.
    pub fn keeps_current_turn(&mut self) {
        self.keeps_current_turn = true;
    }

    /// The entries of the conversation array.
    pub fn entries(&self) -> Vec<Span> {
        self.transcript.lists.first().map(|l| l.items.clone()).unwrap_or_default()
    }

    /// Begins the element at `span` and returns it as an item of the array.
    pub fn element(&mut self, role: Role, span: Span) -> Item {
        let index = self.transcript.elements.len();
        let (message, run_is_mixed) = match self.transcript.elements.last() {
            None => (0, false),
            Some(e) if e.role.side() == role.side() => {
                (e.message, self.run_is_mixed || e.stays || e.opaque || !self.answers)
            }
            Some(e) => (e.message.saturating_add(1), false),
        };
        self.run_is_mixed = run_is_mixed;
        self.answers = false;
        self.transcript.elements.push(Element {
            span,
            role,
            payload: 0,
            message,
            stays: false,
            opaque: false,
            reasoning: false,
            compaction: false,
            rides: false,
            fillers: Vec::new(),
        });
        Item { list: 0, index }
    }

    /// Registers a list inside the current element; `parent` leaves when all of `items` do.
    pub fn list(&mut self, items: Vec<Span>, parent: Option<Item>) -> impl Fn(usize) -> Item + use<> {
        let list = self.transcript.lists.len();
        self.transcript.lists.push(List { items, parent });
        move |index| Item { list, index }
    }

    /// A cache marker of the client stands somewhere; `one_hour` if it asks for an hour.
    pub fn cached(&mut self, one_hour: bool) {
        self.transcript.prompt.cache_markers = true;
        self.transcript.prompt.one_hour_cache |= one_hour;
    }

    /// Changes the current element.
    pub fn mark(&mut self, change: impl FnOnce(&mut Element)) {
        if let Some(element) = self.transcript.elements.last_mut() {
            change(element);
        }
    }

    /// Adds payload to the current element: the inside of a string, the whole of anything else. Returns its length.
    fn piece(&mut self, span: &Span) -> usize {
        let piece = match self.doc.inner(span) {
            Some(_) => span.start.saturating_add(1)..span.end.saturating_sub(1),
            None => span.clone(),
        };
        let len = piece.len();
        self.mark(|e| e.payload = e.payload.saturating_add(len));
        self.transcript.pieces.push((self.current(), piece));
        len
    }

    /// Adds prose to the current element. Blank prose in a block of its own (`item`) is filler.
    pub fn prose(&mut self, literal: Span, item: Option<Item>) {
        self.piece(&literal);
        let blank = self.doc.is_blank(&literal);
        self.mark(|e| {
            e.stays |= !blank;
            e.fillers.extend(item.filter(|_| blank));
        });
        if !blank {
            self.transcript.prose.push(Prose { element: self.current(), literal });
        }
    }

    /// Index of the current element.
    fn current(&self) -> usize {
        self.transcript.elements.len().saturating_sub(1)
    }

    /// Adds a call to the current element.
    pub fn call(&mut self, called: Called) {
        let Called { id, name, arguments, item, lock, marked, signed } = called;
        self.transcript.pieces.extend(name.clone().map(|name| (self.current(), name)));
        self.transcript.prompt.cache_markers |= marked;
        let payload = arguments.as_ref().map_or(0, |a| self.piece(a));
        self.calls.push(Call { element: self.current(), name, arguments, payload, id, item, lock, marked, signed });
    }

    /// The current element, an item of the array, leaves with all calls of its group: reasoning that must be followed by
    /// what it led to.
    pub fn rides(&mut self) {
        self.mark(|e| e.rides = true);
    }

    /// Adds a result to the current element. `content` is a string or an array of parts; one that is not text locks the
    /// pair, one with a marker marks it.
    pub fn result(&mut self, returned: Returned, content: Option<Span>, parts: Parts<'_>) -> Result<(), Skip> {
        let (texts, not_text, inside) = self.texts(content, parts)?;
        let (lock, marked) = (returned.lock.or(not_text), returned.marked || inside);
        self.result_of(Returned { lock, marked, ..returned }, texts);
        Ok(())
    }

    /// Adds a result whose text stands in these literals, none of which may leave whole.
    pub fn result_in(&mut self, returned: Returned, literals: Vec<Span>) {
        let lock = returned.lock.or(literals.is_empty().then_some(Skip::NotText));
        let texts = literals.into_iter().map(|literal| Text { literal, item: None }).collect();
        self.result_of(Returned { lock, ..returned }, texts);
    }

    fn result_of(&mut self, returned: Returned, texts: Vec<Text>) {
        let Returned { id, name, item, lock, marked } = returned;
        self.transcript.prompt.cache_markers |= marked;
        let payload = texts.iter().map(|t| self.piece(&t.literal)).sum();
        self.misplaced |= self.run_is_mixed || self.transcript.elements.last().is_some_and(|e| e.stays || e.opaque);
        let element = self.current();
        self.answers = true;
        self.results.push(ToolResult { element, texts, payload, id, name, item, lock, marked });
    }

    /// The text parts, why they must stay, and whether a marker stands on one.
    fn texts(&mut self, content: Option<Span>, reading: Parts<'_>) -> Result<(Vec<Text>, Option<Skip>, bool), Skip> {
        let Some(content) = content else { return Ok((Vec::new(), Some(Skip::NotText), false)) };
        match self.doc.kind(&content) {
            Kind::String => return Ok((vec![Text { literal: content, item: None }], None, false)),
            Kind::Array => {}
            _ => return Ok((Vec::new(), Some(Skip::NotText), false)),
        }
        let parts: Vec<Span> = self.doc.elements(&content).collect();
        let at = self.list(parts.clone(), None);
        let mut lock = parts.is_empty().then_some(Skip::NotText);
        let (mut texts, mut marked) = (Vec::new(), false);
        for (index, part) in parts.iter().enumerate() {
            match reading.text(self.doc, part)? {
                Some(literal) => texts.push(Text { literal, item: Some(at(index)) }),
                None => lock = lock.or(Some(Skip::NotText)),
            }
            marked |= has_any(self.doc, part, reading.markers);
        }
        Ok((texts, lock, marked))
    }

    /// Calls stand where the dialect allows no results behind them.
    pub fn misplaced(&mut self) {
        self.misplaced = true;
    }
}

/// Whether the object at `span` has a member besides `names`.
pub(crate) fn has_other(doc: &Document<'_>, span: &Span, names: &[&str]) -> bool {
    doc.members(span).any(|m| !doc.string(&m.key).is_some_and(|key| names.contains(&key.as_ref())))
}

/// Whether the object at `span` has one of the members `names` with a value other than null.
pub(crate) fn has_any(doc: &Document<'_>, span: &Span, names: &[&str]) -> bool {
    doc.members(span).any(|m| {
        doc.kind(&m.value) != Kind::Null && doc.string(&m.key).is_some_and(|key| names.contains(&key.as_ref()))
    })
}
