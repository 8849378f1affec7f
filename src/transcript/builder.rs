//! Puts together what a dialect reads, and finds the groups: the same laws for every dialect.

use super::{Call, Element, Group, Item, Limit, List, Pair, Prompt, Prose, Role, Text, ToolResult, Transcript};
use crate::{
    json::{Document, Kind, Span},
    skip::Skip,
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
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
    /// What leaves with the result.
    pub item: Item,
    /// Why the result must stay.
    pub lock: Option<Skip>,
    /// Whether a cache marker of the client stands on it in this request.
    pub marked: bool,
}

/// Collects elements in order; [`Builder::finish`] pairs them.
#[derive(Debug)]
pub struct Builder<'a> {
    doc: &'a Document<'a>,
    transcript: Transcript,
    calls: Vec<Call>,
    results: Vec<ToolResult>,
    /// A result stood behind prose in one client turn, or calls where no results can follow.
    misplaced: bool,
    /// An earlier element of the current run holds something besides calls and results, or no result.
    run_is_mixed: bool,
    /// The current element holds a result.
    answers: bool,
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
        }
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

    /// Adds a result to the current element. `content` is a string or an array of parts of one of the types `kinds`;
    /// anything else, and any part that carries one of `markers`, locks the pair.
    pub fn result(
        &mut self,
        returned: Returned,
        content: Option<Span>,
        kinds: &[&str],
        markers: &[&str],
    ) -> Result<(), Skip> {
        let (texts, not_text, inside) = self.texts(content, kinds, markers)?;
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
        let Returned { id, item, lock, marked } = returned;
        self.transcript.prompt.cache_markers |= marked;
        let payload = texts.iter().map(|t| self.piece(&t.literal)).sum();
        self.misplaced |= self.run_is_mixed || self.transcript.elements.last().is_some_and(|e| e.stays || e.opaque);
        let element = self.current();
        self.answers = true;
        self.results.push(ToolResult { element, texts, payload, id, item, lock, marked });
    }

    /// The text parts, why they must stay, and whether a marker stands on one.
    fn texts(
        &mut self,
        content: Option<Span>,
        kinds: &[&str],
        markers: &[&str],
    ) -> Result<(Vec<Text>, Option<Skip>, bool), Skip> {
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
            let [kind, text] = self.doc.fields(part, ["type", "text"])?;
            let is_text = kind.is_some_and(|kind| kinds.iter().any(|text| self.doc.is(&kind, text)));
            match text.filter(|t| is_text && self.doc.kind(t) == Kind::String) {
                Some(literal) => texts.push(Text { literal, item: Some(at(index)) }),
                None => lock = lock.or(Some(Skip::NotText)),
            }
            marked |= has_any(self.doc, part, markers);
        }
        Ok((texts, lock, marked))
    }

    /// Calls stand where the dialect allows no results behind them.
    pub fn misplaced(&mut self) {
        self.misplaced = true;
    }

    /// Finds the groups and pairs each call with its result inside its group.
    pub fn finish(mut self) -> Result<Transcript, Skip> {
        if self.misplaced {
            return Err(Skip::BrokenPairing);
        }
        let runs = self.runs();
        let first_prompt = self.transcript.elements.iter().position(|e| e.role == Role::User && e.stays);
        let ahead = next_fixed(&self.transcript.elements);
        self.transcript.messages = runs.len();
        let mut calls = std::mem::take(&mut self.calls).into_iter().peekable();
        let mut results = std::mem::take(&mut self.results).into_iter().peekable();
        for (number, run) in runs.iter().enumerate() {
            let called: Vec<Call> = std::iter::from_fn(|| calls.next_if(|c| c.element < run.end)).collect();
            if called.is_empty() {
                if results.next_if(|r| r.element < run.end).is_some() {
                    return Err(Skip::BrokenPairing); // a result whose call is not in the message before it
                }
                continue;
            }
            let answers = runs.get(number.saturating_add(1)).cloned().unwrap_or(run.end..run.end);
            let returned = std::iter::from_fn(|| results.next_if(|r| r.element < answers.end)).collect();
            // The run that answers, and something of the client behind it.
            let complete = runs.len() > number.saturating_add(3);
            let last = runs.len() <= number.saturating_add(2);
            let limit = self.limit(first_prompt, run, &(run.start..answers.end));
            let group = Group {
                pairs: self.pair(called, returned, last)?,
                limit,
                whole_only: false,
                next_fixed: ahead.get(answers.end).copied().flatten(),
                carriers: run.clone(),
                answers,
                complete,
            };
            self.close(group);
        }
        Ok(self.transcript)
    }

    /// The elements of each message.
    fn runs(&self) -> Vec<Range<usize>> {
        let mut start = 0usize;
        let messages = self.transcript.elements.chunk_by(|a, b| a.message == b.message);
        messages
            .map(|message| {
                let end = start.saturating_add(message.len());
                std::mem::replace(&mut start, end)..end
            })
            .collect()
    }

    /// Pairs the calls of one group with its results, by id inside the group: ids come up again in later turns.
    fn pair(&mut self, calls: Vec<Call>, results: Vec<ToolResult>, last: bool) -> Result<Range<usize>, Skip> {
        let group = self.transcript.groups.len();
        let first = self.transcript.pairs.len();
        let mut by_id: HashMap<String, Vec<ToolResult>> = HashMap::new();
        for result in results.into_iter().rev() {
            by_id.entry(id_text(self.doc, &result.id)?).or_default().push(result);
        }
        for call in calls {
            let waiting = by_id.get_mut(&id_text(self.doc, &call.id)?);
            let result = waiting.and_then(Vec::pop);
            // Only the open tail of a body may wait for results.
            if result.is_none() && !last {
                return Err(Skip::BrokenPairing);
            }
            self.transcript.pairs.push(Pair { call, result, group });
        }
        if by_id.values().any(|left| !left.is_empty()) {
            return Err(Skip::BrokenPairing);
        }
        Ok(first..self.transcript.pairs.len())
    }

    /// Sets what depends on the group's own pairs.
    fn close(&mut self, mut group: Group) {
        let pairs = self.transcript.pairs.get(group.pairs.clone()).unwrap_or_default();
        let carriers = self.transcript.elements.get(group.carriers.clone()).unwrap_or_default();
        group.whole_only = pairs.iter().any(|p| p.call.signed) || carriers.iter().any(|e| e.rides);
        let mut seen = HashSet::new();
        if pairs.iter().any(|p| !seen.insert(id_text(self.doc, &p.call.id))) {
            group.limit = Limit::Keep(Skip::UnsureGroup);
        }
        self.transcript.groups.push(group);
    }

    /// The most that the surroundings of the group at `span` allow, told from what stands before its end.
    fn limit(&self, first_prompt: Option<usize>, carriers: &Range<usize>, span: &Range<usize>) -> Limit {
        let inside = self.transcript.elements.get(span.clone()).unwrap_or_default();
        let before = span.start.checked_sub(1).and_then(|i| self.transcript.elements.get(i));
        let reasoning = inside.iter().any(|e| e.reasoning && !e.rides);
        let carriers = self.transcript.elements.get(carriers.clone()).unwrap_or_default();
        // Prose beside reasoning that would leave may be what it led to.
        let tied = carriers.iter().any(|e| e.rides) && carriers.iter().any(|e| e.stays);
        if inside.iter().chain(before).any(|e| e.role == Role::System) {
            return Limit::Keep(Skip::SystemBeside);
        }
        let opens_with_user = first_prompt.is_some_and(|at| at < span.start);
        let removable = opens_with_user && !reasoning && !tied && !inside.iter().any(|e| e.opaque);
        if removable { Limit::Drop } else { Limit::Truncate }
    }
}

/// For each element the first one from there on that prose left before it is sure to meet, counting that whatever may
/// leave does: groups of calls and results alone can be gone. With it, whether that one holds reasoning.
fn next_fixed(elements: &[Element]) -> Vec<Option<(usize, bool)>> {
    let mut next = None;
    let mut marks: Vec<Option<(usize, bool)>> = elements
        .iter()
        .enumerate()
        .rev()
        .map(|(index, e)| {
            if e.reasoning || e.stays || e.opaque {
                next = Some((index, e.reasoning));
            }
            next
        })
        .collect();
    marks.reverse();
    marks
}

fn id_text(doc: &Document<'_>, id: &Option<Span>) -> Result<String, Skip> {
    id.as_ref().and_then(|id| doc.string(id)).map(String::from).ok_or(Skip::BrokenPairing)
}

/// Whether the object at `span` has one of the members `names` with a value other than null.
pub(crate) fn has_any(doc: &Document<'_>, span: &Span, names: &[&str]) -> bool {
    doc.members(span).any(|m| {
        doc.kind(&m.value) != Kind::Null && doc.string(&m.key).is_some_and(|key| names.contains(&key.as_ref()))
    })
}
