//! From verdicts to cuts: what a dialect's law lets leave, and which bytes that is.

use super::{Element, Group, Item, Limit, Pair, ToolResult, Transcript};
use crate::{
    cut::{self, Cuts},
    json::{Document, Span},
    skip::Skip,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// What is to become of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// Its call stays, and the first characters of its result.
    Truncate,
    /// Call and result leave.
    Drop,
}

/// Which removals beyond truncation (L1) and whole groups of pure carriers (L2) are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// L3: some calls of a parallel group leave, the others stay.
    pub partial: bool,
    /// L4: calls leave and the prose beside them stays.
    pub prose_stays: bool,
}

impl Transcript {
    /// The verdicts that the law allows for the pairs of `group`: each falls to the next milder one where it does not.
    /// `left` holds the verdicts under which pairs have left on earlier turns; those stand. `seen` elements are the
    /// evidence, so that later ones do not change the answer.
    pub fn resolve(
        &self,
        doc: &Document<'_>,
        (group, seen): (usize, usize),
        (wanted, left): (&[Verdict], &[Option<Verdict>]),
        levels: Levels,
        head_chars: usize,
    ) -> Vec<Verdict> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let combined: Vec<Verdict> = wanted.iter().zip(left).map(|(wanted, left)| left.unwrap_or(*wanted)).collect();
        let may_drop = self.may_drop(group, seen, &combined, levels);
        let pairs = self.pairs.get(group.pairs.clone()).unwrap_or_default();
        let each = pairs.iter().zip(wanted).zip(left);
        each.map(|((pair, wanted), left)| {
            left.unwrap_or_else(|| allowed(doc, pair, group, *wanted, may_drop, head_chars))
        })
        .collect()
    }

    /// Lets the pairs stay that carry a cache marker in this request, and whatever may not leave without them; `verdicts`
    /// are those of all pairs. Returns how many are spared for their marker.
    pub fn spare_marked(&self, doc: &Document<'_>, verdicts: &mut [Verdict], levels: Levels, head: usize) -> usize {
        let mut spared = 0usize;
        for group in &self.groups {
            let pairs = self.pairs.get(group.pairs.clone()).unwrap_or_default();
            let Some(verdicts) = verdicts.get_mut(group.pairs.clone()) else { continue };
            let marked = |pair: &Pair| pair.call.marked || pair.result.as_ref().is_some_and(|r| r.marked);
            let before = spared;
            for (_, verdict) in pairs.iter().zip(verdicts.iter_mut()).filter(|(p, v)| marked(p) && **v != Verdict::Keep)
            {
                *verdict = Verdict::Keep;
                spared = spared.saturating_add(1);
            }
            if spared > before {
                let may_drop = self.may_drop(group, self.elements.len(), verdicts, levels);
                for (pair, verdict) in pairs.iter().zip(verdicts) {
                    *verdict = allowed(doc, pair, group, *verdict, may_drop, head);
                }
            }
        }
        spared
    }

    /// Whether the calls that `wanted` drops may leave this group.
    fn may_drop(&self, group: &Group, seen: usize, wanted: &[Verdict], levels: Levels) -> bool {
        let some_stay = wanted.iter().any(|v| *v != Verdict::Drop);
        if group.limit != Limit::Drop || (some_stay && (group.whole_only || !levels.partial)) {
            return false;
        }
        !self.leaves_prose(group, wanted, some_stay) || (levels.prose_stays && !self.meets_reasoning(group, seen))
    }

    /// Whether prose left in `group` could meet reasoning, as far as the first `seen` elements tell. Where they do not,
    /// a conversation with reasoning will go on having it; in one without, the client would have to turn it on, which
    /// ends the provider's cache by itself.
    fn meets_reasoning(&self, group: &Group, seen: usize) -> bool {
        match group.next_fixed {
            Some((at, reasoning)) if at < seen => reasoning,
            next => {
                next.is_some_and(|(_, reasoning)| reasoning) || self.elements.iter().take(seen).any(|e| e.reasoning)
            }
        }
    }

    /// Whether prose, or a message of its own, would stay where all calls, or all results, beside it leave.
    fn leaves_prose(&self, group: &Group, wanted: &[Verdict], some_stay: bool) -> bool {
        // Per carrier: does any of its own calls or results stay?
        let mut keeps: BTreeMap<usize, bool> = BTreeMap::new();
        for (pair, verdict) in self.pairs.get(group.pairs.clone()).unwrap_or_default().iter().zip(wanted) {
            for element in [Some(pair.call.element), pair.result.as_ref().map(|r| r.element)].into_iter().flatten() {
                *keeps.entry(element).or_default() |= *verdict != Verdict::Drop;
            }
        }
        let stays = |element: usize| self.elements.get(element).is_some_and(|e| e.stays);
        let rides = |element: usize| self.elements.get(element).is_some_and(|e| e.rides);
        if some_stay {
            return keeps.iter().any(|(element, kept)| !kept && stays(*element));
        }
        let mut elements = group.carriers.start..group.answers.end;
        elements.any(|element| stays(element) || !(keeps.contains_key(&element) || rides(element)))
    }

    /// The element in which the first byte of pair `index` leaves under a resolved verdict.
    pub fn first_cut(&self, index: usize, verdict: Verdict) -> usize {
        let Some(pair) = self.pairs.get(index) else { return 0 };
        let result = pair.result.as_ref().map_or(pair.call.element, |r| r.element);
        if verdict == Verdict::Drop { pair.call.element } else { result }
    }

    /// Payload bytes that leave with pair `index` under a resolved verdict.
    pub fn gain(&self, doc: &Document<'_>, index: usize, verdict: Verdict, head_chars: usize) -> usize {
        let spans = self.removed_payload(doc, index, verdict, head_chars);
        spans.iter().map(ExactSizeIterator::len).sum()
    }

    /// The payload spans that leave with pair `index` under a resolved verdict: arguments and text, without quotes.
    pub fn removed_payload(&self, doc: &Document<'_>, index: usize, verdict: Verdict, head_chars: usize) -> Vec<Span> {
        let Some(Pair { call, result: Some(result), .. }) = self.pairs.get(index) else { return Vec::new() };
        match verdict {
            Verdict::Keep => Vec::new(),
            Verdict::Truncate => truncation(doc, result, head_chars).into_iter().map(|(_, tail)| tail).collect(),
            Verdict::Drop => {
                let texts = result.texts.iter().map(|t| inner(&t.literal));
                call.arguments.iter().map(|a| within(doc, a)).chain(texts).collect()
            }
        }
    }

    /// The bytes that leave under resolved verdicts.
    pub fn cuts(&self, doc: &Document<'_>, resolved: &[Verdict], head_chars: usize) -> Result<Cuts, Skip> {
        let mut spans = Vec::new();
        let mut gone: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut drop = |item: Item| gone.entry(item.list).or_default().insert(item.index);
        for (pair, verdict) in self.pairs.iter().zip(resolved) {
            let Some(result) = &pair.result else { continue };
            match verdict {
                Verdict::Keep => {}
                Verdict::Drop => {
                    drop(pair.call.item);
                    drop(result.item);
                }
                Verdict::Truncate => {
                    for (item, tail) in truncation(doc, result, head_chars) {
                        match item {
                            Some(item) => _ = drop(item),
                            None => spans.push(tail),
                        }
                    }
                }
            }
        }
        for item in self.fillers_without_calls(resolved).into_iter().chain(self.riders(resolved)) {
            drop(item);
        }
        // Lists of children stand behind those of their parents, so one pass from the back settles emptied ones.
        while let Some((list, indices)) = gone.pop_last() {
            let list = self.lists.get(list).ok_or(Skip::SelfCheck)?;
            match cut::list_cuts(&list.items, |i| indices.contains(&i)) {
                Some(cuts) => spans.extend(cuts),
                None => {
                    let parent = list.parent.ok_or(Skip::SelfCheck)?;
                    gone.entry(parent.list).or_default().insert(parent.index);
                }
            }
        }
        let inside = spans.iter().all(|s| self.array.start < s.start && s.end < self.array.end);
        if inside { Cuts::new(spans, doc.bytes().len()) } else { Err(Skip::SelfCheck) }
    }

    /// Elements that leave with the groups that leave whole.
    fn riders(&self, resolved: &[Verdict]) -> Vec<Item> {
        let gone = |group: &&Group| {
            resolved.get(group.pairs.clone()).is_some_and(|verdicts| verdicts.iter().all(|v| *v == Verdict::Drop))
        };
        let rides = |index: &usize| self.elements.get(*index).is_some_and(|e| e.rides);
        let carriers = self.groups.iter().filter(gone).flat_map(|group| group.carriers.clone());
        carriers.filter(rides).map(|index| Item { list: 0, index }).collect()
    }

    /// Blank text blocks of carriers that lose all their calls and hold nothing else.
    fn fillers_without_calls(&self, resolved: &[Verdict]) -> Vec<Item> {
        let mut stays: BTreeSet<usize> = BTreeSet::new();
        let mut loses: BTreeSet<usize> = BTreeSet::new();
        for (pair, verdict) in self.pairs.iter().zip(resolved) {
            let set = if *verdict == Verdict::Drop { &mut loses } else { &mut stays };
            set.insert(pair.call.element);
            set.extend(pair.result.as_ref().map(|r| r.element));
        }
        let bare = |e: &&Element| !e.stays && !e.opaque && !e.reasoning;
        let emptied = loses.difference(&stays).filter_map(|i| self.elements.get(*i)).filter(bare);
        emptied.flat_map(|e| e.fillers.iter().copied()).collect()
    }
}

fn allowed(doc: &Document<'_>, pair: &Pair, group: &Group, wanted: Verdict, may_drop: bool, head: usize) -> Verdict {
    let Some(result) = &pair.result else { return Verdict::Keep };
    let locked = pair.call.lock.is_some() || result.lock.is_some();
    if locked || !group.complete || matches!(group.limit, Limit::Keep(_)) {
        return Verdict::Keep;
    }
    match wanted {
        Verdict::Drop if may_drop => Verdict::Drop,
        Verdict::Drop | Verdict::Truncate if !truncation(doc, result, head).is_empty() => Verdict::Truncate,
        _ => Verdict::Keep,
    }
}

/// What a truncation to `head` characters takes away: the tail inside one part, and later parts as items. The head is
/// lengthened to the first character that is not white space, since providers refuse blank results.
fn truncation(doc: &Document<'_>, result: &ToolResult, head: usize) -> Vec<(Option<Item>, Span)> {
    let mut cuts = Vec::new();
    let mut left = head;
    let mut visible = false;
    for text in &result.texts {
        let whole = inner(&text.literal);
        if visible && left == 0 {
            if !whole.is_empty() {
                cuts.push((text.item, whole));
            }
            continue;
        }
        let mut cut = None;
        for char in doc.chars(&text.literal) {
            if visible && left == 0 {
                break;
            }
            left = left.saturating_sub(1);
            visible |= !char.value.is_whitespace();
            cut = Some(char.end);
        }
        if let Some(tail) = cut.map(|at| at..whole.end).filter(|tail| tail.start < tail.end) {
            cuts.push((None, tail));
        }
    }
    cuts
}

fn inner(literal: &Span) -> Range<usize> {
    literal.start.saturating_add(1)..literal.end.saturating_sub(1)
}

fn within(doc: &Document<'_>, arguments: &Span) -> Span {
    if doc.inner(arguments).is_some() { inner(arguments) } else { arguments.clone() }
}
