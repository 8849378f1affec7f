//! When not to call the engine after failures. Kept in the data that all workers share, so that a process pauses as one.
//!
//! Two things pause by themselves: one subject (an epoch of one conversation), whose evidence an engine may choke on, and
//! the engine, which may be down.

use crate::{memory::Store, policy::Decider};
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// After a refusal that will not go away by itself: a wrong key, a wrong endpoint.
const LASTING: Duration = Duration::from_secs(300);
/// The longest wait that an engine may ask for.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);
/// The longest pause of a subject.
const LONGEST_SUBJECT: Duration = Duration::from_secs(60);
/// The longest pause of an engine that fails in a row.
const LONGEST_ENGINE: Duration = Duration::from_secs(30);
/// Failures in a row, of any subject, after which the engine pauses.
const TOLERATED: u32 = 5;
/// Slots in the shared data, for subjects and engines together.
const SLOTS: u128 = 1024;

/// How a call failed, as far as the next one is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It may work at once.
    Passing,
    /// The engine asked to be left alone for this long.
    Until(Duration),
    /// It will fail until an operator does something.
    Lasting,
}

/// Failures in a row, and the host's time when calls may be made again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    failures: u32,
    until: Duration,
}

impl State {
    fn is_on(self, now: Duration) -> bool {
        // A clock that was set back must not make a pause longer than any that is ever begun.
        self.until > now && self.until.saturating_sub(now) <= LASTING
    }
}

/// Names an engine by where it is and what it is called.
pub fn engine(decider: &Decider) -> u128 {
    let Decider { endpoint, cluster, model, .. } = decider;
    let mut hash = Xxh3::new();
    for part in [endpoint.authority.as_str(), endpoint.path.as_str(), cluster, model] {
        hash.update(&part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.digest128()
}

/// Whether calls to `engine` about `subject` pause.
pub fn is_on(store: &dyn Store, engine: u128, subject: u128, now: Duration) -> bool {
    read(store, engine).is_on(now) || read(store, subject).is_on(now)
}

/// The engine has answered. A pause that it asked for goes on: this reply may be to an earlier call.
pub fn answered(store: &dyn Store, engine: u128, subject: u128) {
    for key in [engine, subject] {
        let known = read(store, key);
        if known.failures > 0 {
            write(store, key, State { failures: 0, ..known });
        }
    }
}

/// The engine has not answered. Returns for how long the engine pauses, where that begins now.
pub fn failed(store: &dyn Store, engine: u128, subject: u128, failure: Failure, now: Duration) -> Option<Duration> {
    let failures = read(store, subject).failures.saturating_add(1);
    write(store, subject, State { failures, until: now.saturating_add(growing(failures, LONGEST_SUBJECT)) });
    let known = read(store, engine);
    let failures = known.failures.saturating_add(1);
    let growing = growing(failures.saturating_sub(TOLERATED), LONGEST_ENGINE);
    let pause = match failure {
        Failure::Lasting => LASTING,
        Failure::Until(asked) => asked.min(LONGEST_REQUEST).max(growing),
        Failure::Passing => growing,
    };
    let running = if known.is_on(now) { known.until } else { Duration::ZERO };
    let until = running.max(now.saturating_add(pause));
    write(store, engine, State { failures, until });
    (!pause.is_zero() && !known.is_on(now)).then_some(pause)
}

/// None, then one second, and twice as long after each further failure.
fn growing(failures: u32, longest: Duration) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    Duration::from_secs(1u64.checked_shl(doublings).unwrap_or(u64::MAX)).min(longest)
}

fn slot(key: u128) -> String {
    format!("context_compaction.p.{}", key.checked_rem(SLOTS).unwrap_or_default())
}

fn read(store: &dyn Store, key: u128) -> State {
    let state = || {
        let (value, _) = store.get(&slot(key))?;
        let (failures, rest) = value.strip_prefix(&key.to_le_bytes())?.split_first_chunk()?;
        let until = u64::from_le_bytes(rest.try_into().ok()?);
        Some(State { failures: u32::from_le_bytes(*failures), until: Duration::from_nanos(until) })
    };
    state().unwrap_or_default()
}

fn write(store: &dyn Store, key: u128, State { failures, until }: State) {
    let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
    let value = [key.to_le_bytes().as_slice(), &failures.to_le_bytes(), &until.to_le_bytes()].concat();
    let name = slot(key);
    let version = store.get(&name).and_then(|(_, version)| version);
    // A worker that is faster has seen the same engine fail.
    store.set(&name, &value, version);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, collections::HashMap};

    #[derive(Default)]
    struct Map(RefCell<HashMap<String, Vec<u8>>>);

    impl Store for Map {
        fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
            self.0.borrow().get(key).map(|value| (value.clone(), Some(1)))
        }

        fn set(&self, key: &str, value: &[u8], _: Option<u32>) -> bool {
            self.0.borrow_mut().insert(key.to_owned(), value.to_vec());
            true
        }
    }

    const ENGINE: u128 = 1;
    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1_000_000).saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn a_subject_pauses_longer_each_time_and_others_go_on() {
        let map = Map::default();
        for (time, last, over) in
            [(0, 0, 1), (100, 101, 102), (200, 203, 204), (300, 307, 308), (400, 415, 416), (500, 531, 532)]
        {
            answered(&map, ENGINE, 3); // Others get answers, so the engine does not pause.
            failed(&map, ENGINE, 2, Failure::Passing, at(time));
            assert!(is_on(&map, ENGINE, 2, at(last)) && !is_on(&map, ENGINE, 2, at(over)), "{time}");
            assert!(!is_on(&map, ENGINE, 3, at(time)));
        }
        failed(&map, ENGINE, 2, Failure::Passing, at(600));
        assert!(is_on(&map, ENGINE, 2, at(659)) && !is_on(&map, ENGINE, 2, at(660)), "a minute at most");
        answered(&map, ENGINE, 2);
        failed(&map, ENGINE, 2, Failure::Passing, at(700));
        assert!(!is_on(&map, ENGINE, 2, at(701)), "an answer begins the count anew");
    }

    #[test]
    fn an_engine_that_fails_in_a_row_pauses_for_everybody() {
        let map = Map::default();
        for subject in 10..15 {
            assert_eq!(failed(&map, ENGINE, subject, Failure::Passing, at(0)), None);
        }
        assert!(!is_on(&map, ENGINE, 99, at(0)), "five are tolerated");
        assert_eq!(failed(&map, ENGINE, 15, Failure::Passing, at(0)), Some(Duration::from_secs(1)));
        assert!(is_on(&map, ENGINE, 99, at(0)) && !is_on(&map, ENGINE, 99, at(1)));
        assert_eq!(failed(&map, ENGINE, 16, Failure::Passing, at(0)), None, "it pauses already");
    }

    #[test]
    fn what_will_not_go_away_pauses_for_minutes_and_a_wish_for_a_minute_at_most() {
        let map = Map::default();
        assert_eq!(failed(&map, ENGINE, 2, Failure::Lasting, at(0)), Some(LASTING));
        assert!(is_on(&map, ENGINE, 99, at(299)) && !is_on(&map, ENGINE, 99, at(300)));
        let map = Map::default();
        let wish = Failure::Until(Duration::from_secs(3_600));
        assert_eq!(failed(&map, ENGINE, 2, wish, at(0)), Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_clock_that_was_set_back_and_foreign_values_do_not_pause() {
        let map = Map::default();
        failed(&map, ENGINE, 2, Failure::Lasting, at(100_000));
        assert!(!is_on(&map, ENGINE, 2, at(0)));
        map.0.borrow_mut().values_mut().for_each(|value| value.truncate(20));
        assert!(!is_on(&map, ENGINE, 2, at(100_000)));
    }
}
