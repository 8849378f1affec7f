//! What is remembered of conversations, in the data that all workers share: verdict bits under hashes of their evidence,
//! and a few numbers. A fixed number of slots, no text.
//!
//! Memory spares calls and decides nothing: a lost, foreign or torn record costs calls, never a wrong removal.

use crate::transcript::Verdict;

/// Slots in the host's shared data. It can neither delete nor age entries, so their number is fixed.
pub const SLOTS: u128 = 4096;

/// Conversations in one slot; the one that was not used for longest goes first.
const RECORDS: usize = 4;
/// Bytes of one slot, unless a single record is larger: four conversations of 37 boundaries, the longest known, take 4 KiB.
const SLOT_BYTES: usize = 8 * 1024;
/// Answers of one conversation, and of others that begin like it.
const ANSWERS: usize = 128;
/// How often a write is tried again when another worker was faster.
const ATTEMPTS: usize = 3;
/// First byte of every slot; another layout gets another one.
const LAYOUT: u8 = 3;

/// The host's shared data, which all workers of a process see.
pub trait Store {
    /// The value of `key` and the token of its version.
    fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)>;
    /// Sets `key` unless its version has changed; says whether it did.
    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> bool;
    /// Whether calls about `subject` pause after failures, so that questions need not even be written.
    fn pauses(&self, _subject: u128) -> bool {
        false
    }
}

/// What is remembered of one judged pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// What the engine's answer came to.
    pub verdict: Verdict,
    /// The probability that the whole result is still needed, in tenths rounded down, 0 to 9; 10 where none was given.
    pub needed: u8,
}

/// Numbers of one conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// Number of its newest request that was counted.
    pub requests: u32,
    /// Epochs that were counted.
    pub epochs: u32,
    /// Batches that were out of the newest request.
    pub batches: u32,
    /// The most that ever were.
    pub most_batches: u32,
    /// Payload bytes before the first of the batches, in the request as the client sent it.
    pub first_cut: u64,
    /// What was saved so far, less what it cost, in billionths of a US dollar.
    pub net: i64,
}

/// What is remembered of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Its name: the hash of what stands before its first boundary.
    pub key: u128,
    /// The provider refused a reduced request of it: it is left alone.
    pub off: bool,
    /// It was short enough when it was first seen, for `new_conversations_only`.
    pub admitted: bool,
    /// What was removed for real.
    pub enforced: Books,
    /// What was measured only.
    pub measured: Books,
    /// Answers by the hash of their evidence, the newest last.
    answers: Vec<(u128, Vec<Judged>)>,
}

impl Record {
    /// The answer to the epoch `key`, if it is remembered with `count` pairs.
    pub fn answer(&self, key: u128, count: usize) -> Option<&[Judged]> {
        let (_, answer) = self.answers.iter().find(|(known, _)| *known == key)?;
        (answer.len() == count).then_some(answer)
    }

    /// Adds an answer, unless there is one: others with the same evidence have acted on it. When full it stays as it is:
    /// later answers are of no use without the earlier ones.
    pub fn add(&mut self, key: u128, answer: Vec<Judged>) {
        if self.answers.len() < ANSWERS && !self.answers.iter().any(|(known, _)| *known == key) {
            self.answers.push((key, answer));
        }
    }

    /// Adds what another worker has filed, which was there first.
    fn behind(&mut self, filed: Self) {
        for (key, answer) in std::mem::replace(&mut self.answers, filed.answers) {
            self.add(key, answer);
        }
        self.off |= filed.off;
        self.admitted |= filed.admitted;
        for (ours, theirs) in [(&mut self.enforced, filed.enforced), (&mut self.measured, filed.measured)] {
            if theirs.requests > ours.requests {
                *ours = theirs;
            }
        }
    }
}

/// What is remembered of the conversation `key`.
pub fn recall(store: &dyn Store, key: u128) -> Record {
    let known = store.get(&slot(key)).and_then(|(value, _)| read(&value)?.into_iter().find(|r| r.key == key));
    known.unwrap_or(Record { key, ..Record::default() })
}

/// Takes over what other workers have filed of a conversation.
pub fn refresh(store: &dyn Store, record: &mut Record) {
    record.behind(recall(store, record.key));
}

/// Keeps what is known of a conversation, and takes over what other workers have filed of it.
pub fn keep(store: &dyn Store, record: &mut Record) {
    let slot = slot(record.key);
    change(store, &slot, |value| {
        let mut others = read(value).unwrap_or_default();
        if let Some(at) = others.iter().position(|other| other.key == record.key) {
            record.behind(others.remove(at));
        }
        // What a provider has refused is forgotten last.
        others.sort_by_key(|other| !other.off);
        written(record, &others)
    });
}

/// Changes a shared value, which is empty where there is none, and says whether that worked. Another worker may be faster
/// a few times.
pub fn change(store: &dyn Store, key: &str, mut change: impl FnMut(&[u8]) -> Vec<u8>) -> bool {
    (0..ATTEMPTS).any(|_| {
        let (value, version) = store.get(key).unwrap_or_default();
        store.set(key, &change(&value), version)
    })
}

fn slot(key: u128) -> String {
    format!("context_compaction.{}", key.checked_rem(SLOTS).unwrap_or_default())
}

/// The slot's value: as many records as have room, the newest first.
fn written(newest: &Record, others: &[Record]) -> Vec<u8> {
    let mut value = vec![LAYOUT];
    for record in [newest].into_iter().chain(others).take(RECORDS) {
        let bytes = record_bytes(record);
        if value.len() > 1 && value.len().saturating_add(bytes.len()) > SLOT_BYTES {
            break;
        }
        value.extend(bytes);
    }
    value
}

fn record_bytes(record: &Record) -> Vec<u8> {
    let mut bytes = record.key.to_le_bytes().to_vec();
    bytes.push(u8::from(record.off) | u8::from(record.admitted) << 1);
    for Books { requests, epochs, batches, most_batches, first_cut, net } in [record.enforced, record.measured] {
        bytes.extend([requests, epochs, batches, most_batches].map(u32::to_le_bytes).concat());
        bytes.extend(first_cut.to_le_bytes());
        bytes.extend(net.to_le_bytes());
    }
    bytes.push(u8::try_from(record.answers.len()).unwrap_or(u8::MAX));
    for (key, answer) in record.answers.iter().take(u8::MAX.into()) {
        bytes.extend(key.to_le_bytes());
        bytes.push(u8::try_from(answer.len()).unwrap_or(u8::MAX));
        bytes.extend(answer.iter().take(u8::MAX.into()).map(|judged| byte(*judged)));
    }
    bytes
}

/// The records of a slot; `None` where it holds anything else.
fn read(value: &[u8]) -> Option<Vec<Record>> {
    let mut rest = Bytes(value.strip_prefix(&[LAYOUT])?);
    let mut records = Vec::new();
    while !rest.0.is_empty() {
        records.push(rest.record()?);
    }
    Some(records)
}

/// What is left to read of a slot.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn record(&mut self) -> Option<Record> {
        let key = u128::from_le_bytes(self.take()?);
        let [flags] = self.take()?;
        let (enforced, measured) = (self.books()?, self.books()?);
        let [count] = self.take()?;
        let answers = (0..count).map(|_| self.answer()).collect::<Option<Vec<_>>>()?;
        let (off, admitted) = (flags & 1 != 0, flags & 2 != 0);
        (flags < 4).then_some(Record { key, off, admitted, enforced, measured, answers })
    }

    fn books(&mut self) -> Option<Books> {
        Some(Books {
            requests: u32::from_le_bytes(self.take()?),
            epochs: u32::from_le_bytes(self.take()?),
            batches: u32::from_le_bytes(self.take()?),
            most_batches: u32::from_le_bytes(self.take()?),
            first_cut: u64::from_le_bytes(self.take()?),
            net: i64::from_le_bytes(self.take()?),
        })
    }

    fn answer(&mut self) -> Option<(u128, Vec<Judged>)> {
        let key = u128::from_le_bytes(self.take()?);
        let [count] = self.take()?;
        let (bits, rest) = self.0.split_at_checked(count.into())?;
        self.0 = rest;
        Some((key, bits.iter().map(|bits| judged(*bits)).collect::<Option<_>>()?))
    }
}

fn byte(judged: Judged) -> u8 {
    let verdict = match judged.verdict {
        Verdict::Keep => 0,
        Verdict::Truncate => 1,
        Verdict::Drop => 2,
    };
    judged.needed.min(10) << 2 | verdict
}

fn judged(byte: u8) -> Option<Judged> {
    let verdict = [Verdict::Keep, Verdict::Truncate, Verdict::Drop].get(usize::from(byte & 3)).copied()?;
    Some(Judged { verdict, needed: byte >> 2 }).filter(|j| j.needed <= 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, collections::HashMap};

    #[derive(Default)]
    struct Map {
        values: RefCell<HashMap<String, Vec<u8>>>,
        /// Refuse so many writes, as if another worker had been faster.
        refuses: RefCell<u32>,
    }

    impl Store for Map {
        fn get(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
            self.values.borrow().get(key).map(|value| (value.clone(), Some(1)))
        }

        fn set(&self, key: &str, value: &[u8], _: Option<u32>) -> bool {
            let mut refuses = self.refuses.borrow_mut();
            let fresh = *refuses == 0;
            *refuses = refuses.saturating_sub(1);
            if fresh {
                self.values.borrow_mut().insert(key.to_owned(), value.to_vec());
            }
            fresh
        }
    }

    fn answer() -> Vec<Judged> {
        vec![
            Judged { verdict: Verdict::Drop, needed: 0 },
            Judged { verdict: Verdict::Keep, needed: 9 },
            Judged { verdict: Verdict::Truncate, needed: 10 },
        ]
    }

    fn record(key: u128) -> Record {
        let enforced =
            Books { requests: 7, epochs: u32::MAX, batches: 2, most_batches: 3, first_cut: u64::MAX, net: -5 };
        let mut record = Record { key, off: true, enforced, ..Record::default() };
        record.add(1, answer());
        record
    }

    #[test]
    fn a_record_comes_back_whole_and_its_answers_for_their_own_key_and_size_only() {
        let map = Map::default();
        keep(&map, &mut record(7));
        assert_eq!(recall(&map, 7), record(7));
        assert_eq!(recall(&map, 7).answer(1, 3), Some(answer().as_slice()));
        assert_eq!(recall(&map, 7).answer(1, 2), None, "another number of pairs");
        assert_eq!(recall(&map, 7).answer(2, 3), None, "other evidence");
        assert_eq!(recall(&map, 8), Record { key: 8, ..Record::default() });
    }

    #[test]
    fn conversations_share_a_slot_until_there_are_too_many() {
        let map = Map::default();
        let keys: Vec<u128> = (0..6).map(|n| SLOTS.saturating_mul(n).saturating_add(7)).collect();
        for (n, key) in keys.iter().enumerate() {
            // The first was refused by its provider.
            keep(&map, &mut Record { off: n == 0, ..record(*key) });
        }
        let known: Vec<bool> = keys.iter().map(|key| recall(&map, *key).answer(1, 3).is_some()).collect();
        assert_eq!(known, [true, false, false, true, true, true], "those that were not used for longest go first");
        assert_eq!(map.values.borrow().len(), 1);
    }

    #[test]
    fn workers_add_to_each_others_answers() {
        let map = Map::default();
        let (mut one, mut other) = (record(7), Record { key: 7, ..Record::default() });
        one.add(2, answer());
        other.add(3, answer());
        other.add(1, vec![Judged { verdict: Verdict::Keep, needed: 10 }; 3]);
        keep(&map, &mut one);
        keep(&map, &mut other);
        let known = recall(&map, 7);
        assert!((1..=3).all(|key| known.answer(key, 3).is_some()) && known.off);
        assert_eq!(known.answer(1, 3), Some(answer().as_slice()), "whoever was first is right");
        *map.refuses.borrow_mut() = 2;
        other.add(4, answer());
        keep(&map, &mut other);
        assert!(recall(&map, 7).answer(4, 3).is_some(), "a write that came too late is tried again");
        *map.refuses.borrow_mut() = 9;
        other.add(5, answer());
        keep(&map, &mut other);
        assert!(recall(&map, 7).answer(5, 3).is_none(), "and given up some time");
    }

    #[test]
    fn foreign_and_torn_values_are_nobodys() {
        let map = Map::default();
        keep(&map, &mut record(7));
        let whole = map.values.borrow()[&slot(7)].clone();
        for end in 0..whole.len() {
            map.values.borrow_mut().insert(slot(7), whole[..end].to_vec());
            assert_eq!(recall(&map, 7), Record { key: 7, ..Record::default() }, "{end}");
        }
        for foreign in [b"something else".to_vec(), vec![LAYOUT; 200], vec![0; 200]] {
            map.values.borrow_mut().insert(slot(7), foreign);
            assert_eq!(recall(&map, 7).answers, []);
        }
    }

    #[test]
    fn slots_and_their_sizes_are_bounded() {
        let map = Map::default();
        for key in 0..SLOTS.saturating_mul(3) {
            keep(&map, &mut record(key));
        }
        assert_eq!(map.values.borrow().len() as u128, SLOTS);
        let mut large = record(7);
        for key in 0..1000 {
            large.add(key, answer());
        }
        for n in 0..6u128 {
            large.key = SLOTS.saturating_mul(n).saturating_add(7);
            keep(&map, &mut large);
        }
        assert!(map.values.borrow().values().all(|value| value.len() <= SLOT_BYTES));
        assert!(recall(&map, large.key).answer(1, 3).is_some() && recall(&map, large.key).answer(999, 3).is_none());
    }
}
