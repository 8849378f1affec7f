//! The last look at a reduced body before it may leave, by reading it again in its own dialect.

use super::{Element, Levels, Role, Side, Transcript, Verdict};
use crate::{json::Document, skip::Skip};

/// Compares what a dialect reads in the body with what it reads in the reduced body.
///
/// Holds: the pairs that stay are the same calls in the same order with a result that is the same or its beginning;
/// every byte of prose is still there; what must be followed by what it led to still is; no array was emptied; the first role and the last entry are the same; and,
/// where prose may not stay without its calls, no two entries of one role meet that did not meet before.
pub fn self_check(
    before: (&Document<'_>, &Transcript),
    after: (&Document<'_>, &Transcript),
    resolved: &[Verdict],
    levels: Levels,
) -> Result<(), Skip> {
    let holds = same_pairs(before, after, resolved)
        && same_prose(before, after)
        && same_ends(before, after)
        && same_ties(before, after)
        && empty_lists(after.1) <= empty_lists(before.1)
        && (levels.prose_stays || meetings(after.1) <= meetings(before.1));
    if holds { Ok(()) } else { Err(Skip::SelfCheck) }
}

fn same_pairs(before: (&Document<'_>, &Transcript), after: (&Document<'_>, &Transcript), resolved: &[Verdict]) -> bool {
    let stays = |(_, verdict): &(_, &Verdict)| **verdict != Verdict::Drop;
    let kept: Vec<_> = before.1.pairs.iter().zip(resolved).filter(stays).collect();
    kept.len() == after.1.pairs.len()
        && kept.iter().zip(&after.1.pairs).all(|((old, verdict), new)| {
            let same = |a: &Option<_>, b: &Option<_>| match (a, b) {
                (Some(a), Some(b)) => before.0.slice(a) == after.0.slice(b),
                (a, b) => a.is_none() && b.is_none(),
            };
            let call = same(&old.call.id, &new.call.id) && same(&old.call.arguments, &new.call.arguments);
            let result = match (&old.result, &new.result) {
                (Some(old), Some(new)) => {
                    let texts = |doc: &Document<'_>, texts: &[super::Text]| -> Vec<u8> {
                        texts.iter().filter_map(|t| doc.inner(&t.literal)).collect::<Vec<_>>().concat()
                    };
                    let (full, left) = (texts(before.0, &old.texts), texts(after.0, &new.texts));
                    same(&old.id, &new.id)
                        && if **verdict == Verdict::Truncate { full.starts_with(&left) } else { full == left }
                }
                (old, new) => old.is_none() && new.is_none(),
            };
            call && result
        })
}

fn same_prose(before: (&Document<'_>, &Transcript), after: (&Document<'_>, &Transcript)) -> bool {
    let old = before.1.prose.iter().map(|p| before.0.slice(&p.literal));
    old.eq(after.1.prose.iter().map(|p| after.0.slice(&p.literal)))
}

fn same_ends(before: (&Document<'_>, &Transcript), after: (&Document<'_>, &Transcript)) -> bool {
    let first = |t: &Transcript| t.elements.iter().map(|e| e.role).find(|r| *r != Role::System);
    let last = |doc: &Document<'_>, t: &Transcript| t.elements.last().map(|e| doc.slice(&e.span).to_vec());
    first(before.1) == first(after.1) && last(before.0, before.1) == last(after.0, after.1)
}

/// Elements that leave with their group only: each that is left has the neighbour that it had.
fn same_ties(before: (&Document<'_>, &Transcript), after: (&Document<'_>, &Transcript)) -> bool {
    let mut old = ties(before);
    ties(after).all(|tie| old.any(|known| known == tie))
}

fn ties<'a>(
    (doc, transcript): (&'a Document<'a>, &'a Transcript),
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
    let slice = |element: &Element| doc.slice(&element.span);
    let elements = &transcript.elements;
    let next = elements.iter().skip(1).map(Some).chain([None]);
    elements.iter().zip(next).filter(|(e, _)| e.rides).map(move |(e, next)| (slice(e), next.map(slice)))
}

fn empty_lists(transcript: &Transcript) -> usize {
    transcript.lists.iter().filter(|l| l.items.is_empty()).count()
}

/// How often two neighbours are both the user's or both the assistant's.
fn meetings(transcript: &Transcript) -> usize {
    let meet = |a: &Element, b: &Element| a.role == b.role && (a.role == Role::User || a.role.side() == Side::Model);
    transcript.elements.windows(2).filter(|w| matches!(w, [a, b] if meet(a, b))).count()
}
