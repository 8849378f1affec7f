//! Subtraction: the only way this crate makes an outgoing body.

use crate::{json::Span, skip::Skip};
use std::cmp::Reverse;

/// Sorted, disjoint, non-empty spans of one body of known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuts {
    spans: Vec<Span>,
    body_len: usize,
}

/// A body minus some spans. It holds the bytes up to the last cut; the rest of the body stays where it is.
///
/// There is no constructor but [`Cuts::apply`]: whatever a host sends in place of a body was subtracted from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reduced {
    prefix: Vec<u8>,
    replaces: usize,
    body_len: usize,
}

impl Reduced {
    /// The bytes that stand for the first [`Reduced::replaces`] bytes of the body.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How many bytes at the start of the body the prefix replaces.
    pub fn replaces(&self) -> usize {
        self.replaces
    }

    /// Length of the outgoing body in bytes.
    pub fn outgoing_len(&self) -> usize {
        self.prefix.len().saturating_add(self.body_len.saturating_sub(self.replaces))
    }

    /// The whole outgoing body, given the body that it was cut from.
    pub fn to_vec(&self, body: &[u8]) -> Vec<u8> {
        [self.prefix.as_slice(), body.get(self.replaces..).unwrap_or_default()].concat()
    }
}

impl Cuts {
    /// Sorts `spans`, drops empty ones and those inside another; fails on a partial overlap or one outside the body.
    pub fn new(mut spans: Vec<Span>, body_len: usize) -> Result<Self, Skip> {
        spans.retain(|s| s.start < s.end);
        spans.sort_by_key(|s| (s.start, Reverse(s.end)));
        spans.dedup_by(|inner, outer| inner.end <= outer.end);
        let disjoint = spans.windows(2).all(|w| matches!(w, [a, b] if a.end <= b.start));
        let inside = spans.last().is_none_or(|s| s.end <= body_len);
        if disjoint && inside { Ok(Self { spans, body_len }) } else { Err(Skip::SelfCheck) }
    }

    /// The spans that leave, in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many bytes leave.
    pub fn removed(&self) -> usize {
        self.spans.iter().map(ExactSizeIterator::len).sum()
    }

    /// Takes the spans out of `body`, which must be the body that they were made for, by its length at least.
    pub fn apply(&self, body: &[u8]) -> Result<Reduced, Skip> {
        if body.len() != self.body_len {
            return Err(Skip::SelfCheck);
        }
        let replaces = self.spans.last().map_or(0, |s| s.end);
        let mut prefix = Vec::with_capacity(replaces.saturating_sub(self.removed()));
        let mut at = 0;
        for span in &self.spans {
            prefix.extend_from_slice(body.get(at..span.start).ok_or(Skip::SelfCheck)?);
            at = span.end;
        }
        Ok(Reduced { prefix, replaces, body_len: self.body_len })
    }
}

/// The spans that take the items `gone` out of a comma-separated list together with one comma each; `None` when none
/// would stay: an emptied array or object is never left behind.
pub fn list_cuts(items: &[Span], gone: impl Fn(usize) -> bool) -> Option<Vec<Span>> {
    let mut cuts = Vec::new();
    let mut last_kept: Option<&Span> = None;
    let mut last_gone: Option<&Span> = None;
    for (index, item) in items.iter().enumerate() {
        if gone(index) {
            last_gone = Some(item);
            continue;
        }
        match (last_kept, last_gone.take()) {
            (Some(kept), Some(gone)) => cuts.push(kept.end..gone.end),
            (None, Some(_)) => cuts.push(items.first()?.start..item.start),
            (_, None) => {}
        }
        last_kept = Some(item);
    }
    if let Some(gone) = last_gone {
        cuts.push(last_kept?.end..gone.end);
    }
    last_kept.map(|_| cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    fn without(list: &str, gone: &[usize]) -> Option<String> {
        let doc = Document::parse(list.as_bytes()).unwrap();
        let items: Vec<Span> = match list.as_bytes()[0] {
            b'[' => doc.elements(&doc.root()).collect(),
            _ => doc.members(&doc.root()).map(|m| m.whole()).collect(),
        };
        let cuts = list_cuts(&items, |i| gone.contains(&i))?;
        let reduced = Cuts::new(cuts, list.len()).unwrap().apply(list.as_bytes()).unwrap();
        Some(String::from_utf8(reduced.to_vec(list.as_bytes())).unwrap())
    }

    #[test]
    fn items_leave_with_exactly_one_comma_each() {
        let list = "[ 1 ,\r\n 2,3 , 4 ]";
        for (gone, left) in [
            (&[0][..], Some("[ 2,3 , 4 ]")),
            (&[1], Some("[ 1,3 , 4 ]")),
            (&[3], Some("[ 1 ,\r\n 2,3 ]")),
            (&[0, 1], Some("[ 3 , 4 ]")),
            (&[1, 2], Some("[ 1 , 4 ]")),
            (&[0, 2], Some("[ 2 , 4 ]")),
            (&[0, 1, 3], Some("[ 3 ]")),
            (&[], Some(list)),
            (&[0, 1, 2, 3], None),
        ] {
            assert_eq!(without(list, gone).as_deref(), left, "{gone:?}");
        }
    }

    #[test]
    fn members_leave_with_their_key() {
        assert_eq!(without(r#"{"a" : 1, "b":[2], "c":3}"#, &[1]).as_deref(), Some(r#"{"a" : 1, "c":3}"#));
        assert_eq!(without(r#"{"a":1}"#, &[0]), None);
    }

    #[test]
    fn inner_spans_fold_into_outer_ones_and_overlaps_are_refused() {
        let cuts = Cuts::new(vec![4..6, 2..8, 8..9, 3..3], 10).unwrap();
        assert_eq!(cuts.spans(), [2..8, 8..9]);
        assert_eq!(cuts.removed(), 7);
        assert_eq!(Cuts::new(vec![2..5, 4..6], 10), Err(Skip::SelfCheck));
        assert_eq!(Cuts::new(vec![0..1, 2..11], 10), Err(Skip::SelfCheck));
    }

    #[test]
    fn a_reduced_body_replaces_only_the_bytes_up_to_the_last_cut() {
        let cuts = Cuts::new(vec![1..2, 4..6], 10).unwrap();
        let reduced = cuts.apply(b"0123456789").unwrap();
        assert_eq!((reduced.prefix(), reduced.replaces(), reduced.outgoing_len()), (&b"023"[..], 6, 7));
        assert_eq!(reduced.to_vec(b"0123456789"), b"0236789");
        assert_eq!(cuts.apply(b"012345678"), Err(Skip::SelfCheck), "another body");
    }
}
