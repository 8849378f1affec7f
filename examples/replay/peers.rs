//! Policies that the filter is compared with: from a conversation to what leaves of it this turn. What may leave at all, and
//! how, is the filter's own law, so that every body stays valid and only the timing differs.

use std::collections::{BTreeMap, BTreeSet};

use context_compaction::dialect::{self, Bound, Dialect};
use context_compaction::engine::recitation::{self, Recited};
use context_compaction::engine::{Bars, Class, Evidence, systemone};
use context_compaction::epoch::{self, Rule};
use context_compaction::json::Document;
use context_compaction::ledger::Tariff;
use context_compaction::policy::Policy;
use context_compaction::transcript::{Transcript, Verdict, self_check};
use context_compaction::{economy, models::Model};

use super::engines::Line;
use super::policies::Kind;
use crate::support::{Failure, Result};

/// The prompt from which `age` clears, in tokens.
const CLEARED_FROM: u64 = 100_000;
/// The newest results that `age` keeps.
const KEPT_RESULTS: usize = 3;

/// One turn's request, read.
pub struct Turn<'a> {
    /// The body.
    pub doc: Document<'a>,
    /// What its dialect makes of it.
    pub transcript: Transcript,
    /// The dialect.
    pub dialect: &'static Dialect,
}

impl<'a> Turn<'a> {
    /// Reads a body.
    pub fn read(path: &str, body: &'a [u8]) -> Result<Self> {
        let unread = |skip| Failure::new(format!("the body cannot be read: {skip}"));
        let dialect = Dialect::of(path).ok_or_else(|| Failure::new(format!("{path} is not served")))?;
        let doc = Document::parse(body).map_err(unread)?;
        Ok(Self { transcript: (dialect.read)(&doc).map_err(unread)?, doc, dialect })
    }

    /// The pairs that have aged out and may be asked about, in a prompt above the threshold: what the filter asks about
    /// when every pair closes a boundary.
    fn aged_out(&self, settings: &Policy, threshold_tokens: u64) -> Vec<usize> {
        let model = self.transcript.prompt.model();
        if dialect::reasoning_is_bound(model) || !settings.admits_model(model) {
            return Vec::new();
        }
        let rule = Rule {
            threshold_tokens,
            bytes_per_token: settings.bytes_per_token.thousandths().into(),
            epoch_tokens: 0,
            epoch_pairs: 1,
            preserve_recent: settings.preserve_recent,
            keep_last_group: settings.preserve_recent > 0,
            floor_bytes: settings.floor_bytes,
        };
        epoch::epochs(&self.transcript, &rule).into_iter().flat_map(|epoch| epoch.eligible).collect()
    }

    /// Whether the model drops or refuses reasoning whose prefix has changed, and there is some: nobody may remove anything.
    fn is_bound(&self) -> bool {
        let bound = (self.dialect.bound)(self.transcript.prompt.model());
        bound != Bound::Never && self.transcript.has_reasoning()
    }

    /// Verdicts of `age`. A provider that clears leaves the call and a note in place of the result; here the call stays
    /// with the first visible character, since no provider accepts an empty result.
    pub fn age(&self, settings: &Policy) -> Vec<Verdict> {
        let mut wanted = vec![Verdict::Keep; self.transcript.pairs.len()];
        let newest = wanted.len().saturating_sub(KEPT_RESULTS);
        let bytes = self.transcript.payload() as u64;
        if !self.is_bound() && bytes * 1000 / u64::from(settings.bytes_per_token.thousandths()) >= CLEARED_FROM {
            for pair in self.aged_out(settings, 0).into_iter().filter(|pair| *pair < newest) {
                wanted[pair] = Verdict::Truncate;
            }
        }
        wanted
    }

    /// Verdicts of `anew`: every pair that may leave, judged on the evidence of this turn. A call that fails keeps its
    /// pairs this turn.
    pub fn anew(&self, settings: &Policy, line: &mut Line<'_>) -> Vec<Verdict> {
        let mut wanted = vec![Verdict::Keep; self.transcript.pairs.len()];
        let (Some(decider), Some((newest, _))) = (&settings.decider, epoch::newest_run(&self.transcript)) else {
            return wanted;
        };
        if self.is_bound() {
            return wanted;
        }
        let bars = Bars { call: decider.call_threshold.as_f64(), result: decider.decision_threshold.as_f64() };
        let asked = self.aged_out(settings, settings.threshold_tokens);
        let asked = (newest.end, asked.as_slice());
        let evidence = Evidence::gather(&self.doc, &self.transcript, &[asked], settings.truncate_head_chars);
        for call in systemone::calls(&self.doc, &self.transcript, &evidence, asked, decider) {
            let answers = line.ask(&call.body).and_then(|reply| systemone::answers(&call, &reply));
            for (pair, answer) in call.pairs.iter().zip(answers.unwrap_or_default()) {
                wanted[*pair] = answer.verdict(bars);
            }
        }
        wanted
    }

    /// What the law makes of `wanted`, and the body without it.
    pub fn without(&self, wanted: &[Verdict], settings: &Policy, head_chars: usize) -> Result<(Vec<u8>, Vec<Verdict>)> {
        let (doc, transcript) = (&self.doc, &self.transcript);
        let levels = self.dialect.levels(settings.removal, transcript.prompt.model());
        let mut resolved = vec![Verdict::Keep; transcript.pairs.len()];
        for (index, group) in transcript.groups.iter().enumerate() {
            let wanted = &wanted[group.pairs.clone()];
            let (seen, left) = (transcript.elements.len(), vec![None; wanted.len()]);
            let allowed = transcript.resolve(doc, (index, seen), (wanted, &left), levels, head_chars);
            resolved[group.pairs.clone()].copy_from_slice(&allowed);
        }
        if resolved.iter().all(|verdict| *verdict == Verdict::Keep) {
            return Ok((doc.bytes().to_vec(), resolved));
        }
        let failed = |skip| Failure::new(format!("what is left is no valid body: {skip}"));
        let reduced = transcript.cuts(doc, &resolved, head_chars).and_then(|cuts| cuts.apply(doc.bytes()));
        let outgoing = reduced.map_err(failed)?.to_vec(doc.bytes());
        let after = Document::parse(&outgoing).map_err(failed)?;
        let read = (self.dialect.read)(&after).map_err(failed)?;
        self_check((doc, transcript), (&after, &read), &resolved, levels).map_err(failed)?;
        Ok((outgoing, resolved))
    }
}

/// What a peer has taken out of one conversation, and what the model came back to.
#[derive(Debug, Default)]
pub struct Books {
    /// Pairs that were out of the turn before, and the number of elements of the turn in which they left.
    out: BTreeMap<usize, (Verdict, usize)>,
    /// Pairs that left at any time.
    pub removed: BTreeSet<usize>,
    /// Those that the model came back to while they were out.
    recited: BTreeSet<usize>,
    /// Those whose name stood nowhere else.
    pub lost: u64,
    /// Those from tools that give the same again.
    pub rerunnable: u64,
    /// What it costs if all of them are fetched again, in billionths of a US dollar.
    pub fetched_again: u64,
}

impl Books {
    /// One turn of `kind`: what leaves this time, after a look at what the newest reply made of the last time.
    pub fn turn(&mut self, kind: Kind, turn: &Turn<'_>, settings: &Policy, line: &mut Line<'_>) -> Result<Vec<u8>> {
        let head = if kind == Kind::Age { 0 } else { settings.truncate_head_chars };
        self.look_back(turn, settings, head);
        let wanted = if kind == Kind::Age { turn.age(settings) } else { turn.anew(settings, line) };
        let (outgoing, resolved) = turn.without(&wanted, settings, head)?;
        let elements = turn.transcript.elements.len();
        let leaves = resolved.iter().enumerate().filter(|(_, verdict)| **verdict != Verdict::Keep);
        self.out = leaves
            .map(|(pair, verdict)| (pair, (*verdict, self.out.get(&pair).map_or(elements, |(_, since)| *since))))
            .collect();
        self.removed.extend(self.out.keys());
        Ok(outgoing)
    }

    /// How many removed pairs the model came back to.
    pub fn recited(&self) -> u64 {
        self.recited.len() as u64
    }

    fn look_back(&mut self, turn: &Turn<'_>, settings: &Policy, head_chars: usize) {
        let (doc, transcript) = (&turn.doc, &turn.transcript);
        let Some((newest, _)) = epoch::newest_run(transcript) else { return };
        let judged = |(pair, (verdict, since)): (&usize, &(Verdict, usize))| recitation::Judged {
            pair: *pair,
            verdict: *verdict,
            since: *since,
        };
        let judged: Vec<_> = self.out.iter().map(judged).collect();
        let gone: u64 = judged.iter().map(|j| transcript.gain(doc, j.pair, j.verdict, head_chars) as u64).sum();
        let tariff = tariff(transcript, settings);
        for Recited { pair, lost } in recitation::recited(doc, transcript, &judged, newest, head_chars) {
            if !self.recited.insert(pair) {
                continue; // It came back in between and was counted then.
            }
            let read = &transcript.pairs[pair];
            let name = read.call.name.as_ref().and_then(|name| doc.string(name)).unwrap_or_default();
            let again = match &settings.deterministic_tools {
                Some(globs) => globs.iter().any(|glob| glob.matches(&name)),
                None => matches!(Class::of(&name), Class::Read | Class::Search),
            };
            let result = read.result.as_ref().map_or(0, |result| result.payload) as u64;
            self.lost += u64::from(lost);
            self.rerunnable += u64::from(again);
            self.fetched_again += tariff.fetched_again(result, transcript.payload() as u64 - gone);
        }
    }
}

/// The prices by which the filter counts what is fetched again.
fn tariff(transcript: &Transcript, settings: &Policy) -> Tariff {
    let prompt = &transcript.prompt;
    let Model { cache, prices, .. } = settings.model(prompt.model());
    Tariff {
        bytes_per_token: settings.bytes_per_token.thousandths().into(),
        cache,
        write: economy::write_price(cache, prompt.one_hour_cache),
        prices,
        markers: prompt.cache_markers,
    }
}
