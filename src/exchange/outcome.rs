//! What became of a request, in counts.

use crate::{
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
    /// Pairs the engine was asked about.
    pub asked: usize,
    /// Pairs that leave.
    pub dropped: usize,
    /// Results that are shortened.
    pub truncated: usize,
    /// Estimated tokens that leave.
    pub removed_tokens: u64,
    /// Bytes of the body as it came and as it leaves; zero unless it was reduced.
    pub sizes: (usize, usize),
    /// How the engine failed, if it did.
    pub fault: Option<Fault>,
    /// Some reply answered many pairs all alike.
    pub degenerate: bool,
    /// Pairs left alone, by reason.
    pub pairs_skipped: BTreeMap<Skip, u64>,
}

impl Report {
    pub(super) fn skip_pair(&mut self, skip: Skip) {
        let count = self.pairs_skipped.entry(skip).or_default();
        *count = count.saturating_add(1);
    }

    /// Counts what the law made of the engine's verdicts, and returns the payload bytes that leave.
    pub(super) fn resolved(
        &mut self,
        doc: &Document<'_>,
        transcript: &Transcript,
        (wanted, resolved): (&[Verdict], &[Verdict]),
        head_chars: usize,
    ) -> usize {
        let mut gain = 0usize;
        for (index, (wanted, verdict)) in wanted.iter().zip(resolved).enumerate() {
            match (wanted, verdict) {
                (_, Verdict::Drop) => self.dropped = self.dropped.saturating_add(1),
                (_, Verdict::Truncate) => self.truncated = self.truncated.saturating_add(1),
                (Verdict::Keep, Verdict::Keep) => {}
                (_, Verdict::Keep) => self.skip_pair(Skip::AlreadyShort),
            }
            if (wanted, verdict) == (&Verdict::Drop, &Verdict::Truncate) {
                self.skip_pair(Skip::TruncatedInstead);
            }
            for span in transcript.removed_payload(doc, index, *verdict, head_chars) {
                gain = gain.saturating_add(span.len());
                let tokens = tokens::estimate_json_string(doc.slice(&span));
                self.removed_tokens = self.removed_tokens.saturating_add(tokens);
            }
        }
        gain
    }

    /// One line for the access log.
    pub fn line(&self, outcome: Option<&Outcome>) -> String {
        let (incoming, outgoing) = self.sizes;
        let counts = format!(
            "asked={} dropped={} truncated={} bytes_in={incoming} bytes_out={outgoing} tokens_removed~{}",
            self.asked, self.dropped, self.truncated, self.removed_tokens
        );
        match outcome {
            None => "waiting".to_owned(),
            Some(Outcome::Reduced) => format!("reduced {counts}"),
            Some(Outcome::Untouched(skip)) => match self.fault {
                Some(fault) => format!("untouched {skip} {fault} asked={}", self.asked),
                None if self.asked > 0 => format!("untouched {skip} asked={}", self.asked),
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
