//! Whether removals pay, by what providers report of their caches. Counts only, kept per route in the data that all workers
//! share.
//!
//! What a provider read from its cache is compared with what stood in the request before and could have been read:
//!
//! - while nothing has left yet, the share that is read tells how well the provider caches this route at all;
//! - where a removal has just changed the prefix, what falls short of that share was written again because of it;
//! - on later requests the prefix is the same again, so what falls short of that share then is held against removals too.
//!
//! On the other side stands what the removed tokens would have cost to read. All of it is in thousandths of the price of a
//! fresh token.

use crate::memory::{self, Store};

/// Requests with something removed, and without, before anything is said.
const LEAST: u64 = 50;
const LEAST_BEFORE: u64 = 10;
/// At so many requests, the older half is forgotten by half.
const WINDOW: u64 = 400;
/// A provider forgets a prompt after five minutes: what comes later is no evidence.
pub const FRESH_SECONDS: u64 = 300;

/// One request and what the provider reported of it, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// What stood in the request before, and could be read from the cache.
    pub readable: u64,
    /// What was.
    pub read: u64,
    /// What had left.
    pub removed: u64,
    /// The prefix differs from that of the request before.
    pub changed: bool,
    /// Price of a cached token, in thousandths of a fresh one.
    pub read_price: u64,
    /// Price of writing one.
    pub write_price: u64,
}

/// Sums over the observations of one route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    /// Requests of all kinds, and those with something removed.
    all: u64,
    requests: u64,
    saved: u64,
    lost: u64,
    /// With something removed and the prefix unchanged: readable and read tokens, times the price of missing one.
    after: [u64; 2],
    /// Before any removal: requests, readable and read tokens.
    before: [u64; 3],
}

/// Adds an observation. Says whether removals pay on the route, and whether that is news.
pub fn observe(store: &dyn Store, route: u64, observation: &Observation) -> (bool, bool) {
    let (mut before, mut now) = (true, true);
    memory::change(store, &key(route), |value| {
        let mut sums = Sums::from(value);
        before = sums.pays();
        sums.add(observation);
        now = sums.pays();
        sums.to_bytes()
    });
    (now, now != before)
}

/// Whether removals pay on the route, as far as is known.
pub fn pays(store: &dyn Store, route: u64) -> bool {
    store.get(&key(route)).is_none_or(|(value, _)| Sums::from(&value).pays())
}

fn key(route: u64) -> String {
    format!("context_compaction.realised.{route:016x}")
}

impl Sums {
    fn from(value: &[u8]) -> Self {
        let [all, requests, saved, lost, a, b, c, d, e] = value.as_chunks::<8>().0 else { return Self::default() };
        let [all, requests, saved, lost, a, b, c, d, e] =
            [all, requests, saved, lost, a, b, c, d, e].map(|number| u64::from_le_bytes(*number));
        Self { all, requests, saved, lost, after: [a, b], before: [c, d, e] }
    }

    fn to_bytes(self) -> Vec<u8> {
        let Self { all, requests, saved, lost, after: [a, b], before: [c, d, e] } = self;
        [all, requests, saved, lost, a, b, c, d, e].map(u64::to_le_bytes).concat()
    }

    /// Forgets the older half of each kind by half. Requests without removals count too, so that a route on which nothing
    /// leaves any more gets another chance.
    fn age(&mut self) {
        if self.all >= WINDOW {
            let [all, requests, saved, lost] = [self.all, self.requests, self.saved, self.lost].map(|sum| sum >> 1);
            *self = Self { all, requests, saved, lost, after: self.after.map(|sum| sum >> 1), ..*self };
        }
        if self.before.first().is_some_and(|requests| *requests >= WINDOW) {
            self.before = self.before.map(|sum| sum >> 1);
        }
    }

    fn add(&mut self, observation: &Observation) {
        let Observation { readable, removed, changed, read_price, write_price, .. } = *observation;
        let read = observation.read.min(readable);
        let missing = write_price.saturating_sub(read_price);
        self.age();
        self.all = self.all.saturating_add(1);
        if removed == 0 && !changed {
            return add(&mut self.before, [1, readable, read]);
        }
        self.requests = self.requests.saturating_add(1);
        // What left would have been read or missed like everything else.
        let would_read = self.usual(removed);
        let would_miss = removed.saturating_sub(would_read);
        let saved = would_read.saturating_mul(read_price).saturating_add(would_miss.saturating_mul(write_price));
        self.saved = self.saved.saturating_add(saved);
        if changed {
            let lost = self.usual(readable).saturating_sub(read).saturating_mul(missing);
            self.lost = self.lost.saturating_add(lost);
        } else {
            add(&mut self.after, [readable, read].map(|tokens| tokens.saturating_mul(missing)));
        }
    }

    /// How many of `tokens` the provider reads from its cache where nothing has left; none, if that is not known.
    fn usual(&self, tokens: u64) -> u64 {
        let [_, readable, read] = self.before.map(u128::from);
        let usual = u128::from(tokens).saturating_mul(read).checked_div(readable);
        usual.and_then(|usual| u64::try_from(usual).ok()).unwrap_or(0)
    }

    fn pays(&self) -> bool {
        let [readable, read] = self.after;
        let [untouched, ..] = self.before;
        let cost = self.lost.saturating_add(self.usual(readable).saturating_sub(read));
        self.requests < LEAST || untouched < LEAST_BEFORE || cost <= self.saved
    }
}

fn add<const N: usize>(sums: &mut [u64; N], more: [u64; N]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt of 10,000 tokens that a provider reads for a tenth of the price and writes for five quarters.
    const STEADY: Observation = Observation {
        readable: 10_000,
        read: 10_000,
        removed: 2_000,
        changed: false,
        read_price: 100,
        write_price: 1_250,
    };

    fn after(observations: &[(usize, Observation)]) -> Sums {
        let mut sums = Sums::default();
        for (times, observation) in observations {
            (0..*times).for_each(|_| sums.add(observation));
        }
        sums
    }

    #[test]
    fn a_cache_that_keeps_up_pays_and_one_that_is_lost_for_good_does_not() {
        let untouched = Observation { removed: 0, ..STEADY };
        let rewrite = Observation { changed: true, read: 5_000, ..STEADY };
        let lost = Observation { read: 1_000, ..STEADY };
        assert!(after(&[(20, untouched), (1, rewrite), (80, STEADY)]).pays());
        assert!(
            !after(&[(20, untouched), (1, rewrite), (80, lost)]).pays(),
            "it read all before, and reads a tenth since"
        );
        assert!(!after(&[(20, untouched), (30, rewrite), (30, STEADY)]).pays(), "a rewrite on every other request");
        assert!(after(&[(20, untouched), (1, rewrite), (48, lost)]).pays(), "too few to tell");
    }

    #[test]
    fn a_provider_that_never_cached_or_caches_half_loses_nothing_by_removals() {
        for read in [0, 5_000] {
            let untouched = Observation { removed: 0, read, ..STEADY };
            let change = Observation { changed: true, read: 0, ..STEADY };
            let steady = Observation { read, ..STEADY };
            assert!(after(&[(20, untouched), (10, change), (90, steady)]).pays(), "{read}");
        }
    }

    #[test]
    fn nothing_is_said_without_requests_to_compare_with() {
        let lost = Observation { read: 0, ..STEADY };
        assert!(after(&[(100, lost)]).pays());
        assert!(after(&[(9, Observation { removed: 0, ..STEADY }), (100, lost)]).pays());
    }

    #[test]
    fn what_was_long_ago_is_forgotten_also_where_nothing_leaves_any_more() {
        let untouched = Observation { removed: 0, ..STEADY };
        let lost = Observation { read: 0, ..STEADY };
        assert!(!after(&[(20, untouched), (100, lost)]).pays());
        assert!(after(&[(20, untouched), (100, lost), (10_000, STEADY)]).pays());
        assert!(after(&[(20, untouched), (100, lost), (1_000, untouched)]).pays());
        assert!(after(&[(20, untouched), (10_000, STEADY)]).all <= WINDOW);
    }

    #[test]
    fn sums_come_back_and_foreign_values_are_none() {
        let sums = after(&[(7, STEADY), (3, Observation { changed: true, read: 1, ..STEADY })]);
        assert_eq!(Sums::from(&sums.to_bytes()), sums);
        assert_eq!(Sums::from(b"something else"), Sums::default());
        let largest = Observation { readable: u64::MAX, read: u64::MAX, removed: u64::MAX, changed: true, ..STEADY };
        assert_eq!(after(&[(60, largest)]).saved, u64::MAX);
    }
}
