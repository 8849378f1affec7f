//! Which judged results the model came back to: it used a name that only they had introduced. Names leave no trace here
//! but a hash.
//!
//! Every request holds one reply of the model that the request before did not. Looking at that one only, each pair is
//! found once in the life of a conversation, without any memory.

use super::{
    evidence::{Piece, doc_chars, pieces},
    identifiers,
};
use crate::{
    json::{Document, Span},
    transcript::{Pair, Side, Transcript, Verdict},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// A judged pair, and the element behind which the model answered without what leaves of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Index of the pair.
    pub pair: usize,
    /// What leaves of it; of a pair that stays, what a truncation would take is looked at.
    pub verdict: Verdict,
    /// End of the boundary at which it left or was judged.
    pub since: usize,
}

/// A judged pair that the newest reply came back to, for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recited {
    /// Index of the pair.
    pub pair: usize,
    /// The name stands nowhere else in what the model got to see.
    pub lost: bool,
}

/// The pairs of `judged` that the model run `newest` came back to.
pub fn recited(
    doc: &Document<'_>,
    transcript: &Transcript,
    judged: &[Judged],
    newest: Range<usize>,
    head_chars: usize,
) -> Vec<Recited> {
    let judged: HashMap<usize, Judged> =
        judged.iter().filter(|j| j.since <= newest.start).map(|j| (j.pair, *j)).collect();
    let all = pieces(transcript, newest.end).into_iter().map(|(span, piece)| (span, Some(piece)));
    let (mut older, said): (Vec<_>, Vec<_>) =
        all.partition(|(_, piece)| !matches!(piece, Some(Piece::Said(e)) if newest.contains(e)));
    // What the user and the system say: nobody's, and always there.
    let is_model = |e: usize| transcript.elements.get(e).is_some_and(|e| e.role.side() == Side::Model);
    let heard = transcript.prose.iter().filter(|p| p.element < newest.start && !is_model(p.element));
    older.extend(heard.map(|p| (p.literal.clone(), None)));
    older.sort_by_key(|(span, _)| span.start);
    let mut names: HashSet<u64> = HashSet::new();
    for (span, _) in &said {
        identifiers::each(doc_chars(doc, span), |id| _ = names.insert(id));
    }
    // Most replies name nothing that only a judged result held: one look at those is all they cost.
    let suspects = judged.keys().any(|pair| {
        let texts = texts(transcript, *pair);
        texts.iter().any(|text| {
            let mut found = false;
            identifiers::each(doc_chars(doc, text), |id| found |= names.contains(&id));
            found
        })
    });
    if names.is_empty() || !suspects {
        Vec::new()
    } else {
        search(doc, transcript, &judged, (&older, &names), head_chars)
    }
}

fn texts(transcript: &Transcript, pair: usize) -> Vec<Span> {
    let Some(pair) = transcript.pairs.get(pair) else { return Vec::new() };
    let results = pair.result.iter().flat_map(|r| r.texts.iter().map(|t| t.literal.clone()));
    results.collect()
}

/// Who introduced a name, and what became of it.
#[derive(Default)]
struct Name {
    owner: Option<usize>,
    /// It stands in something that the model got to see.
    survives: bool,
}

fn search(
    doc: &Document<'_>,
    transcript: &Transcript,
    judged: &HashMap<usize, Judged>,
    (older, names): (&[(Span, Option<Piece>)], &HashSet<u64>),
    head_chars: usize,
) -> Vec<Recited> {
    let mut known: HashMap<u64, Name> = HashMap::new();
    // Pairs that an earlier reply came back to.
    let mut counted: HashSet<usize> = HashSet::new();
    let arguments = |(index, pair): (usize, &Pair)| Some((pair.call.arguments.as_ref()?.start, index));
    let arguments: HashMap<usize, usize> = transcript.pairs.iter().enumerate().filter_map(arguments).collect();
    let (mut current, mut head_left) = (usize::MAX, head_chars);
    for (span, piece) in older {
        match piece {
            None => identifiers::each(doc_chars(doc, span), |id| known.entry(id).or_default().survives = true),
            Some(Piece::Said(element)) => {
                let call = arguments.get(&span.start).and_then(|pair| judged.get(pair));
                let stays = call.is_none_or(|call| call.verdict != Verdict::Drop);
                identifiers::each(doc_chars(doc, span), |id| {
                    let name = known.entry(id).or_default();
                    name.survives |= stays;
                    let since = |owner: &usize| judged.get(owner).is_some_and(|j| *element >= j.since);
                    counted.extend(name.owner.filter(since));
                });
            }
            Some(Piece::Result(pair)) => {
                if current != *pair {
                    (current, head_left) = (*pair, head_chars);
                }
                let verdict = judged.get(pair).map(|j| j.verdict);
                let head = if verdict == Some(Verdict::Drop) { 0 } else { head_left };
                let all = doc.chars(span).count();
                identifiers::each(doc.chars(span).take(head).map(|c| c.value), |id| {
                    known.entry(id).or_default().survives = true;
                });
                let stays = matches!(verdict, None | Some(Verdict::Keep));
                identifiers::each(doc.chars(span).skip(head).map(|c| c.value), |id| {
                    let owner = verdict.map(|_| *pair);
                    let name = known.entry(id).or_insert(Name { owner, survives: false });
                    name.survives |= stays;
                });
                head_left = head_left.saturating_sub(all);
            }
        }
    }
    let mut found: HashMap<usize, bool> = HashMap::new();
    for name in names.iter().filter_map(|id| known.get(id)) {
        if let Some(owner) = name.owner.filter(|owner| !counted.contains(owner)) {
            *found.entry(owner).or_default() |= !name.survives;
        }
    }
    let mut found: Vec<Recited> = found.into_iter().map(|(pair, lost)| Recited { pair, lost }).collect();
    found.sort_by_key(|recited| recited.pair);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    /// Three reads, then replies that say these texts; what the model run behind the last one is asked about counts.
    fn recited_by(replies: &[&str], verdict: Verdict) -> Vec<Recited> {
        let mut messages = vec![r#"{"role":"user","content":"Go to src/told.rs."}"#.to_owned()];
        for (n, result) in ["alpha_one beta_two src/told.rs", "gamma_three", "beta_two delta_four"].iter().enumerate() {
            messages.push(format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"{n}","function":{{"name":"read","arguments":"{{\"path\":\"src/f{n}.rs\"}}"}}}}]}}"#
            ));
            messages.push(format!(r#"{{"role":"tool","tool_call_id":"{n}","content":"0123456789 {result}"}}"#));
        }
        for reply in replies {
            messages.push(format!(r#"{{"role":"assistant","content":"{reply}"}}"#));
            messages.push(r#"{"role":"user","content":"And?"}"#.to_owned());
        }
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let doc = Document::parse(body.as_bytes()).unwrap();
        let transcript = (Dialect::of("/v1/chat/completions").unwrap().read)(&doc).unwrap();
        let judged: Vec<Judged> = (0..2).map(|pair| Judged { pair, verdict, since: 7 }).collect();
        let newest = crate::epoch::newest_run(&transcript).unwrap().0;
        recited(&doc, &transcript, &judged, newest, 10)
    }

    #[test]
    fn a_name_that_only_a_removed_result_held_is_recited_and_lost() {
        assert_eq!(recited_by(&["see alpha_one"], Verdict::Drop), [Recited { pair: 0, lost: true }]);
        assert_eq!(recited_by(&["see alpha_one"], Verdict::Truncate), [Recited { pair: 0, lost: true }]);
        assert_eq!(
            recited_by(&["see alpha_one"], Verdict::Keep),
            [Recited { pair: 0, lost: false }],
            "it is still there"
        );
        assert_eq!(recited_by(&["nothing"], Verdict::Drop), []);
        assert_eq!(recited_by(&["see delta_four"], Verdict::Drop), [], "not a judged pair's");
        assert_eq!(recited_by(&["see src/told.rs"], Verdict::Drop), [], "the user said it first");
    }

    #[test]
    fn a_name_that_stands_elsewhere_is_recited_and_not_lost() {
        assert_eq!(recited_by(&["see beta_two"], Verdict::Drop), [Recited { pair: 0, lost: false }]);
    }

    #[test]
    fn each_pair_is_recited_once() {
        assert_eq!(recited_by(&["see alpha_one", "again beta_two"], Verdict::Drop), []);
        assert_eq!(recited_by(&["nothing", "see alpha_one and gamma_three"], Verdict::Drop).len(), 2);
    }
}
