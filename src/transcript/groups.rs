//! Groups of calls and results, told from the order of the elements: the same laws for every dialect.

use super::{Builder, Call, Element, Group, Limit, Pair, Role, ToolResult, Transcript};
use crate::{
    json::{Document, Span},
    skip::Skip,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
};

impl Builder<'_> {
    /// Finds the groups and pairs each call with its result inside its group.
    pub fn finish(mut self) -> Result<Transcript, Skip> {
        if self.misplaced {
            return Err(Skip::BrokenPairing);
        }
        let runs = self.runs();
        let first_prompt = self.transcript.elements.iter().position(|e| e.role == Role::User && e.stays);
        let ahead = next_fixed(&self.transcript.elements);
        let prompts = self.prompts();
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
                over_at: self.over_at(&prompts, answers.end),
                carriers: run.clone(),
                answers,
                complete,
            };
            self.close(group);
        }
        Ok(self.transcript)
    }

    /// How many elements tell that the turn of a group that ends at `end` is over.
    fn over_at(&self, prompts: &BTreeSet<usize>, end: usize) -> usize {
        let next = prompts.range(end..).next().map_or(usize::MAX, |prompt| prompt.saturating_add(1));
        if self.keeps_current_turn { next } else { 0 }
    }

    /// Elements in which the user says something and no tool answers.
    fn prompts(&self) -> BTreeSet<usize> {
        let answers: HashSet<usize> = self.results.iter().map(|result| result.element).collect();
        let elements = self.transcript.elements.iter().enumerate();
        let prompts = elements.filter(|(index, e)| e.role == Role::User && e.stays && !answers.contains(index));
        prompts.map(|(index, _)| index).collect()
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
        let by = self.pairing(&calls, &results);
        let mut waiting: HashMap<String, Vec<ToolResult>> = HashMap::new();
        for result in results.into_iter().rev() {
            waiting.entry(by.key(self.doc, &result.id, &result.name)?).or_default().push(result);
        }
        for call in calls {
            let result = waiting.get_mut(&by.key(self.doc, &call.id, &call.name)?).and_then(Vec::pop);
            // Only the open tail of a body may wait for results.
            if result.is_none() && !last {
                return Err(Skip::BrokenPairing);
            }
            self.transcript.pairs.push(Pair { call, result, group });
        }
        if waiting.values().any(|left| !left.is_empty()) {
            return Err(Skip::BrokenPairing);
        }
        Ok(first..self.transcript.pairs.len())
    }

    /// What the calls and results of one group pair by.
    fn pairing(&self, calls: &[Call], results: &[ToolResult]) -> Pairing {
        let ids = calls.iter().map(|c| &c.id).chain(results.iter().map(|r| &r.id));
        if !self.ids_may_be_missing || ids.into_iter().all(Option::is_some) {
            return Pairing::Id;
        }
        let names = calls.iter().map(|c| &c.name).chain(results.iter().map(|r| &r.name));
        if names.into_iter().all(Option::is_some) { Pairing::Name } else { Pairing::Order }
    }

    /// Sets what depends on the group's own pairs.
    fn close(&mut self, mut group: Group) {
        let pairs = self.transcript.pairs.get(group.pairs.clone()).unwrap_or_default();
        let carriers = self.transcript.elements.get(group.carriers.clone()).unwrap_or_default();
        group.whole_only = pairs.iter().any(|p| p.call.signed) || carriers.iter().any(|e| e.rides);
        let mut seen = HashSet::new();
        let ids = pairs.iter().filter_map(|p| self.doc.string(p.call.id.as_ref()?));
        if ids.into_iter().any(|id| !seen.insert(id)) {
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

/// What calls and results of one group are told apart by; those that are not pair in order.
#[derive(Debug, Clone, Copy)]
enum Pairing {
    Id,
    Name,
    Order,
}

impl Pairing {
    fn key(self, doc: &Document<'_>, id: &Option<Span>, name: &Option<Span>) -> Result<String, Skip> {
        let text = match self {
            Self::Id => id,
            Self::Name => name,
            Self::Order => return Ok(String::new()),
        };
        text.as_ref().and_then(|text| doc.string(text)).map(String::from).ok_or(Skip::BrokenPairing)
    }
}
