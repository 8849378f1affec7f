//! The filter's estimates of input against what providers reported in recorded conversations.
//!
//! The logs of most agents lack the system prompt and the tools. What is missing is taken from the first report of each
//! conversation, for all ways of estimating alike; so this is about what the history adds.

use std::collections::BTreeMap;

use context_compaction::{
    dialect::Dialect,
    json::Document,
    models::Family,
    reported::{self, Report},
};

use super::conversations::Conversation;
use super::exchange::Shared;

/// Bytes per token where nothing was reported yet: the default of `bytes_per_token`, in thousandths.
const CONSTANT: u64 = 3_000;
/// Logs whose reports are about a longer history than they hold.
const ABOUT_MORE: [&str; 2] = ["pi-compact-s1", "pi-compact-s2"];

/// One model family.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name in metrics.
    pub family: &'static str,
    /// Conversations and requests that carry a report.
    pub conversations: usize,
    /// Requests.
    pub requests: usize,
    /// Payload bytes per token as learned from all of them, in thousandths.
    pub rate: u64,
    /// Errors, relative to the report, of each way to estimate.
    pub errors: [Errors; 3],
}

/// Errors in thousandths of what was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errors {
    /// Half of them are at most this.
    pub median: u64,
    /// Nine of ten are.
    pub ninety: u64,
}

/// How the three ways are called.
pub const WAYS: [&str; 3] = ["constant", "calibrated", "calibrated, from the last report on"];

/// The requests of one conversation as the filter would report them.
struct Reports {
    group: String,
    family: Family,
    turns: Vec<Report>,
}

fn reports(conversation: &Conversation) -> Option<Reports> {
    let dialect = Dialect::of(conversation.path())?;
    let mut turns: Vec<Report> = Vec::new();
    for turn in &conversation.logged_turns {
        let number = |name: &str| turn[name].as_u64().unwrap_or(0);
        let tokens = number("input") + number("cache_read") + number("cache_write");
        let body = conversation.body(usize::try_from(number("at")).ok()?);
        let doc = Document::parse(&body).ok()?;
        let Ok(transcript) = (dialect.read)(&doc) else { continue };
        let bytes = transcript.payload() as u64;
        // Where the history shrank by half the agent compacted it: that is the beginning of another conversation. A little
        // less is reasoning that the provider has dropped.
        if turns.last().is_some_and(|last| tokens < last.tokens / 2) {
            break;
        }
        if tokens > 0 {
            turns.push(Report { tokens, bytes, seconds: 0 });
        }
    }
    let (group, family) = (conversation.family.clone(), Family::of(&conversation.model));
    (turns.len() > 1 && !ABOUT_MORE.contains(&conversation.name.as_str())).then_some(Reports { group, family, turns })
}

/// A row for each family that the conversations hold reports about. The rate for a conversation is learned from those of
/// other groups, so that none is judged by itself.
pub fn rows(conversations: &[Conversation]) -> Vec<Row> {
    let reports: Vec<Reports> = conversations.iter().filter_map(reports).collect();
    let learned = |family: Family, without: Option<&str>| {
        let store = Shared::default();
        for other in reports.iter().filter(|r| r.family == family && Some(r.group.as_str()) != without) {
            for pair in other.turns.windows(2) {
                reported::learn(&store, family, pair[0], pair[1]);
            }
        }
        reported::rate(&store, family)
    };
    let mut rows: BTreeMap<&str, (usize, Family, [Vec<u64>; 3])> = BTreeMap::new();
    for conversation in &reports {
        let rate = learned(conversation.family, Some(&conversation.group)).unwrap_or(CONSTANT);
        let (count, _, errors) =
            rows.entry(conversation.family.name()).or_insert((0, conversation.family, Default::default()));
        *count += 1;
        let first = conversation.turns[0];
        for (index, turn) in conversation.turns.iter().enumerate().skip(1) {
            let since = |from: Report, rate: u64| from.tokens + (turn.bytes - from.bytes) * 1_000 / rate;
            let last = conversation.turns[index - 1];
            let estimates = [since(first, CONSTANT), since(first, rate), since(last, rate)];
            for (errors, estimate) in errors.iter_mut().zip(estimates) {
                errors.push(estimate.abs_diff(turn.tokens) * 1_000 / turn.tokens);
            }
        }
    }
    let row = |(family, (conversations, of, errors)): (&'static str, (usize, Family, [Vec<u64>; 3]))| Row {
        family,
        conversations,
        requests: errors[0].len(),
        rate: learned(of, None).unwrap_or(0),
        errors: errors.map(Errors::of),
    };
    rows.into_iter().map(row).collect()
}

impl Errors {
    fn of(mut errors: Vec<u64>) -> Self {
        errors.sort_unstable();
        let at = |share: usize| errors[(errors.len() - 1) * share / 100];
        Self { median: at(50), ninety: at(90) }
    }
}
