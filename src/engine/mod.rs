//! Who decides: questions to a decision engine, its answers, and what an answer means.

mod evidence;
mod excerpt;
mod identifiers;
pub mod recitation;
pub mod systemone;

pub use evidence::{Boundary, Class, Evidence};

use crate::transcript::Verdict;

/// How sure an engine is, per pair, that the call and the whole result are still needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Probability that the call is still needed, 0 to 1.
    pub call: f64,
    /// Probability that the whole result is still needed, 0 to 1.
    pub result: f64,
}

/// The bars that "not needed" must reach, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bars {
    /// For the call.
    pub call: f64,
    /// For the whole result.
    pub result: f64,
}

impl Answer {
    /// How sure the engine is that the whole result is still needed, in tenths rounded down, 0 to 9.
    pub fn tenths(self) -> u8 {
        (self.result * 10.0).clamp(0.0, 9.0) as u8
    }

    /// Both over their bar: drop. Only the result: truncate. Doubt keeps, and so does a call that alone is not needed.
    pub fn verdict(self, bars: Bars) -> Verdict {
        let over = |needed: f64, bar: f64| 1.0 - needed >= bar;
        match (over(self.call, bars.call), over(self.result, bars.result)) {
            (true, true) => Verdict::Drop,
            (false, true) => Verdict::Truncate,
            (_, false) => Verdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_leaves_only_when_both_answers_are_over_their_bar() {
        let bars = Bars { call: 0.9, result: 0.7 };
        let verdict = |call, result| Answer { call, result }.verdict(bars);
        assert_eq!(verdict(0.1, 0.3), Verdict::Drop, "exactly at the bars");
        assert_eq!(verdict(0.11, 0.3), Verdict::Truncate);
        assert_eq!(verdict(0.0, 0.31), Verdict::Keep, "a call alone never leaves");
        assert_eq!(verdict(1.0, 1.0), Verdict::Keep);
    }
}
