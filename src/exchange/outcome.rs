//! What became of a request, in counts.

use super::Books;
use crate::{
    epoch::Fold,
    fault::Fault,
    json::Document,
    skip::Skip,
    tokens,
    transcript::{Transcript, Verdict},
};
use std::{collections::BTreeMap, fmt};

/// How a request left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With its original bytes.
    Untouched(Skip),
    /// Smaller.
    Reduced,
}

/// Counts of one request, never text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Pairs the engine is asked about in this request.
    pub asked: usize,
    /// Pairs that some boundary of this conversation judges.
    pub judged: usize,
    /// Boundaries of the conversation so far.
    pub epochs: usize,
    /// Batches that have left so far.
    pub batches: usize,
    /// Payload bytes of judged pairs that wait.
    pub waiting_bytes: u64,
    /// Pairs that leave.
    pub dropped: usize,
    /// Results that are shortened.
    pub truncated: usize,
    /// Estimated tokens that leave.
    pub removed_tokens: u64,
    /// Bytes of the body as it came and as it leaves; zero unless it was reduced.
    pub sizes: (usize, usize),
    /// The request asks its provider to clear or compact, or carries what it made of its history.
    pub provider_compaction: bool,
    /// How the engine failed, if it did.
    pub fault: Option<Fault>,
    /// Some reply answered many pairs all alike.
    pub degenerate: bool,
    /// What the request is worth; none where it was counted before or nothing of its conversation is judged.
    pub books: Option<Books>,
    /// Pairs left alone, by reason.
    pub pairs_skipped: BTreeMap<Skip, u64>,
}

impl Report {
    pub(super) fn skip_pair(&mut self, skip: Skip) {
        let count = self.pairs_skipped.entry(skip).or_default();
        *count = count.saturating_add(1);
    }

    /// Counts what the fold takes out.
    pub(super) fn folded(&mut self, doc: &Document<'_>, transcript: &Transcript, fold: &Fold, head_chars: usize) {
        self.waiting_bytes = fold.waiting_bytes;
        fold.kept_by_law.iter().for_each(|_| self.skip_pair(Skip::AlreadyShort));
        fold.only_shortened.iter().for_each(|_| self.skip_pair(Skip::TruncatedInstead));
        self.batches = fold.batches.iter().filter(|batch| !batch.is_empty()).count();
        for (index, verdict) in fold.verdicts.iter().enumerate() {
            match verdict {
                Verdict::Keep => continue,
                Verdict::Drop => self.dropped = self.dropped.saturating_add(1),
                Verdict::Truncate => self.truncated = self.truncated.saturating_add(1),
            }
            for span in transcript.removed_payload(doc, index, *verdict, head_chars) {
                let tokens = tokens::estimate_json_string(doc.slice(&span));
                self.removed_tokens = self.removed_tokens.saturating_add(tokens);
            }
        }
    }

    /// What became of the request, as a dictionary of structured fields (RFC 9651). `enforced` unless it was only measured.
    pub fn receipt(&self, outcome: Option<&Outcome>, enforced: bool) -> String {
        let verb = if enforced { "reduced" } else { "measured" };
        match outcome {
            None => "outcome=waiting".to_owned(),
            Some(Outcome::Untouched(skip)) => format!("outcome=untouched;reason={skip}"),
            Some(Outcome::Reduced) => {
                let pairs = self.dropped.saturating_add(self.truncated);
                format!("outcome={verb};pairs={pairs};tokens={};epoch={}", self.removed_tokens, self.epochs)
            }
        }
    }

    /// One line for the access log.
    pub fn line(&self, outcome: Option<&Outcome>) -> String {
        let (incoming, outgoing) = self.sizes;
        let counts = format!(
            "asked={} judged={} dropped={} truncated={} batches={} bytes_in={incoming} bytes_out={outgoing} \
             tokens_removed~{}",
            self.asked, self.judged, self.dropped, self.truncated, self.batches, self.removed_tokens
        );
        match outcome {
            None => "waiting".to_owned(),
            Some(Outcome::Reduced) => match self.fault {
                Some(fault) => format!("reduced {counts} engine_failed={fault}"),
                None => format!("reduced {counts}"),
            },
            Some(Outcome::Untouched(skip)) => match self.fault {
                Some(fault) => format!("untouched {skip} {fault} asked={}", self.asked),
                None if self.waiting_bytes > 0 => {
                    format!(
                        "untouched {skip} asked={} judged={} waiting_bytes={}",
                        self.asked, self.judged, self.waiting_bytes
                    )
                }
                None if self.judged > 0 => format!("untouched {skip} asked={} judged={}", self.asked, self.judged),
                None => format!("untouched {skip}"),
            },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untouched(skip) => write!(f, "untouched {skip}"),
            Self::Reduced => f.write_str("reduced"),
        }
    }
}
