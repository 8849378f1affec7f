//! Whether a removal earns back what it costs.
//!
//! A cached prefix is read for `read` of the price of fresh input and written for `write`. A removal of `R` bytes makes
//! everything behind the first removed byte new: `A` bytes that would have been read are written again. Every later
//! request then reads `R` bytes less. With `t` requests so far and `kappa` later requests per request so far it pays when
//!
//! ```text
//! read * R * kappa * t  >  (write - read) * A  -  write * R
//! ```
//!
//! Bytes stand on both sides, so no tokenizer is needed.

use crate::models::CachePrice;

/// One batch of removals, as it would be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Payload bytes that leave.
    pub removed: u64,
    /// Payload bytes behind the first cut that are cached now, what leaves among them.
    pub rewritten: u64,
    /// Payload bytes of the request as it would be sent without the batch, fixed part included.
    pub sent: u64,
    /// The same without any removal at all.
    pub original: u64,
    /// Requests so far.
    pub requests: u64,
}

/// What a batch must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Share of what is sent that must leave, in thousandths.
    pub min_reduction: u64,
    /// No further batch at or below this share of the original, in thousandths; zero for no such goal.
    pub target_ratio: u64,
    /// Later requests per request so far, in thousandths; `None` when removals need not pay.
    pub horizon: Option<u64>,
}

/// Why a batch waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Nothing would leave, or the goal is reached.
    Nothing,
    /// No more may leave: `max_removed_share` or `max_prefix_changes`.
    AtLimit,
    /// For more to leave at once.
    ForMinReduction,
    /// For a longer conversation, or more to leave, so that the rewrite is earned back.
    ForGate,
}

/// Whether `batch` is to be sent, and if not, what it waits for. All arithmetic is on integers.
pub fn passes(batch: Batch, bar: Bar, read: u64, write: u64) -> Result<(), Waits> {
    let [removed, rewritten, sent, original] =
        [batch.removed, batch.rewritten, batch.sent, batch.original].map(i128::from);
    let [read, write, requests] = [read, write, batch.requests].map(i128::from);
    let times = |factors: &[i128]| factors.iter().fold(1, |product: i128, f| product.saturating_mul(*f));
    if removed == 0 || (bar.target_ratio > 0 && times(&[sent, 1000]) <= times(&[bar.target_ratio.into(), original])) {
        return Err(Waits::Nothing);
    }
    if times(&[removed, 1000]) < times(&[bar.min_reduction.into(), sent]) {
        return Err(Waits::ForMinReduction);
    }
    let Some(horizon) = bar.horizon else { return Ok(()) };
    let saved = times(&[read, removed, horizon.into(), requests]);
    let rewrite = times(&[write.saturating_sub(read), rewritten]).saturating_sub(times(&[write, removed]));
    if saved > rewrite.saturating_mul(1000) { Ok(()) } else { Err(Waits::ForGate) }
}

/// The price of a cache write: for an hour where the request asks for that anywhere.
pub fn write_price(price: CachePrice, one_hour: bool) -> u64 {
    if one_hour { price.write_1h } else { price.write }
}

/// How bytes become money: tokens are bytes / `bytes_per_token`, a constant, so that the same traffic always costs the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Payload bytes per token, in thousandths.
    pub bytes_per_token: u64,
    /// Price in billionths of a US dollar per million tokens.
    pub price: u64,
}

impl Rate {
    /// What `bytes` cost at `share` thousandths of the price, in billionths of a US dollar.
    pub fn cost(self, bytes: u64, share: u64) -> u64 {
        let product = [bytes, share, self.price].into_iter().fold(1u128, |all, f| all.saturating_mul(f.into()));
        // bytes / (bytes_per_token / 1000) * share / 1000 * price / 1,000,000
        let cost = product.checked_div(u128::from(self.bytes_per_token).saturating_mul(1_000_000)).unwrap_or(0);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Batch = Batch { removed: 300, rewritten: 1000, sent: 2000, original: 2000, requests: 26 };
    const BAR: Bar = Bar { min_reduction: 100, target_ratio: 0, horizon: Some(1000) };

    #[test]
    fn a_third_of_the_rewritten_part_pays_after_26_requests_at_a_tenth_and_five_quarters() {
        // N* = ((w - r) A / R - w) / r = (1.15 / 0.3 - 1.25) / 0.1 = 25.8
        assert_eq!(passes(BATCH, BAR, 100, 1250), Ok(()));
        assert_eq!(passes(Batch { requests: 25, ..BATCH }, BAR, 100, 1250), Err(Waits::ForGate));
        assert_eq!(passes(Batch { requests: 2, ..BATCH }, BAR, 500, 1000), Ok(()), "cheap rewrites pay early");
        assert_eq!(passes(Batch { requests: 100, ..BATCH }, BAR, 20, 1000), Err(Waits::ForGate), "cheap reads do not");
        assert_eq!(passes(Batch { requests: 0, ..BATCH }, Bar { horizon: None, ..BAR }, 20, 1000), Ok(()));
    }

    #[test]
    fn a_removal_of_nearly_everything_pays_at_once() {
        let most = Batch { removed: 930, rewritten: 1000, requests: 0, ..BATCH };
        assert_eq!(passes(most, BAR, 100, 1250), Ok(()), "what leaves need not be written");
    }

    #[test]
    fn small_batches_wait_and_reached_goals_end_it() {
        assert_eq!(passes(Batch { removed: 199, ..BATCH }, BAR, 100, 1250), Err(Waits::ForMinReduction));
        assert_eq!(passes(Batch { removed: 0, ..BATCH }, BAR, 100, 1250), Err(Waits::Nothing));
        let reached = Batch { sent: 600, ..BATCH };
        assert_eq!(passes(reached, Bar { target_ratio: 300, ..BAR }, 100, 1250), Err(Waits::Nothing));
    }

    #[test]
    fn a_million_tokens_at_three_dollars_read_from_the_cache_cost_thirty_cents() {
        let rate = Rate { bytes_per_token: 3_000, price: 3_000_000_000 };
        assert_eq!(rate.cost(3_000_000, 100), 300_000_000);
        assert_eq!(Rate { bytes_per_token: 0, ..rate }.cost(1, 1), 0);
        assert_eq!(Rate { price: u64::MAX, ..rate }.cost(u64::MAX, u64::MAX), u64::MAX);
    }
}
