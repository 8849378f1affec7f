//! What a conversation is made of and what could leave it, for people: numbers, without sending or asking anything.

use crate::{
    dialect::Target,
    exchange::{Headers, Judgements},
    json::Document,
    memory::Store,
    models::Family,
    policy::{Mode, Policy},
    reported,
    skip::Skip,
    transcript::{Role, Transcript, Verdict},
    window::{Severity, Snapshot},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// With `1` a request asks for an analysis in place of an answer.
pub const HEADER: &str = "x-context-compaction-analyze";

/// Whether the request asks for an analysis, and may.
pub fn wanted(policy: &Policy, headers: &dyn Headers) -> bool {
    policy.mode != Mode::Off && policy.analyze_header && headers.get(HEADER).is_some_and(|value| value == b"1")
}

/// An analysis. Tokens are payload bytes divided by what a token of the model's family comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// The wire format.
    pub dialect: &'static str,
    /// Tokens of the whole prompt: system, tools, history.
    pub total_tokens: u64,
    /// Entries of the conversation.
    pub messages: usize,
    /// Tokens of them, on average.
    pub average_tokens_per_message: u64,
    /// The most that the model takes, in tokens.
    pub context_limit: u64,
    /// Share of it in use.
    pub utilisation: f64,
    /// How full that is.
    pub severity: &'static str,
    /// What to do about it.
    pub recommended_action: &'static str,
    /// The prompt is long enough for the filter to work on it.
    pub compaction_needed: bool,
    /// Outgoing / incoming that would bring the window below 70 %.
    pub suggested_ratio: f64,
    /// Outgoing / incoming if everything left that may leave now.
    pub reachable_ratio: f64,
    /// Pairs of calls and results.
    pub pairs: usize,
    /// How many of them there are of each kind: `drop`, `truncate` and `keep` where a verdict is remembered, `unasked` where
    /// one would be asked for, else why none is.
    pub pairs_by_class: BTreeMap<String, usize>,
    /// Each entry of the conversation.
    pub per_message: Vec<Message>,
}

/// One entry of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Whose it is.
    pub role: &'static str,
    /// Its tokens.
    pub tokens: u64,
}

/// What is known of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A verdict is remembered.
    Judged(Verdict),
    /// It is old enough, and would be asked about.
    Unasked,
    /// It is not asked about.
    Standing(Skip),
}

impl Class {
    /// Its name in an analysis.
    pub fn name(self) -> String {
        match self {
            Self::Judged(Verdict::Drop) => "drop".to_owned(),
            Self::Judged(Verdict::Truncate) => "truncate".to_owned(),
            Self::Judged(Verdict::Keep) => "keep".to_owned(),
            Self::Unasked => "unasked".to_owned(),
            Self::Standing(skip) => skip.to_string(),
        }
    }
}

/// Analyses the body of a request in this format.
pub fn analyse(
    (policy, seed): (&Policy, u64),
    target: &Target,
    body: &[u8],
    store: &dyn Store,
) -> Result<Analysis, Skip> {
    let doc = Document::parse(body)?;
    let transcript = target.read(&doc)?;
    let model = transcript.prompt.model();
    let configured = policy.bytes_per_token.thousandths().into();
    let rate = reported::rate(store, Family::of(model)).unwrap_or(configured);
    let tokens = |bytes: usize| (bytes as u64).saturating_mul(1_000).checked_div(rate).unwrap_or(0);
    let window = Snapshot {
        estimated: tokens(transcript.payload()),
        original: tokens(transcript.payload()),
        limit: policy.model(model).limit,
        reported: None,
        means: policy.means(target.dialect.provider_compacts),
    };
    let classes = classes((policy, seed), &doc, &transcript, store);
    let leaves = classes.iter().enumerate().fold(0usize, |sum, (pair, class)| {
        let gone = match class {
            Class::Standing(_) | Class::Judged(Verdict::Keep) => 0,
            Class::Judged(Verdict::Truncate) => {
                transcript.gain(&doc, pair, Verdict::Truncate, policy.truncate_head_chars)
            }
            Class::Unasked | Class::Judged(Verdict::Drop) => payload_of(&transcript, pair),
        };
        sum.saturating_add(gone)
    });
    let mut pairs_by_class = BTreeMap::new();
    for class in &classes {
        let count: &mut usize = pairs_by_class.entry(class.name()).or_default();
        *count = count.saturating_add(1);
    }
    let total = window.estimated;
    let messages = transcript.elements.len();
    let suggested = window.limit.saturating_mul(Severity::Info.begins()).checked_div(total).unwrap_or(1_000).min(1_000);
    let stays = transcript.payload().saturating_sub(leaves) as u64;
    Ok(Analysis {
        dialect: target.dialect.name,
        total_tokens: total,
        messages,
        average_tokens_per_message: total.checked_div(messages as u64).unwrap_or(0),
        context_limit: window.limit,
        utilisation: ratio(window.ratio()),
        severity: window.severity().name(),
        recommended_action: window.advice().name(),
        compaction_needed: transcript.payload() >= policy.bytes_of(policy.threshold_for(model)),
        suggested_ratio: ratio(suggested),
        reachable_ratio: ratio(stays.saturating_mul(1_000).checked_div(transcript.payload() as u64).unwrap_or(1_000)),
        pairs: classes.len(),
        pairs_by_class,
        per_message: transcript
            .elements
            .iter()
            .map(|e| Message { role: role(e.role), tokens: tokens(e.payload) })
            .collect(),
    })
}

/// What is known of each pair.
pub fn classes(
    (policy, seed): (&Policy, u64),
    doc: &Document<'_>,
    transcript: &Transcript,
    store: &dyn Store,
) -> Vec<Class> {
    let Judgements { epochs, answers } = Judgements::recalled((policy, seed), doc, transcript, store);
    let standing = |pair| Class::Standing(transcript.standing(pair, policy.floor_bytes).err().unwrap_or(Skip::Recent));
    let mut classes: Vec<Class> = (0..transcript.pairs.len()).map(standing).collect();
    for (epoch, answer) in epochs.iter().zip(&answers) {
        for (at, pair) in epoch.eligible.iter().enumerate() {
            let verdict = answer.as_ref().and_then(|answer| answer.get(at)).map(|judged| judged.verdict);
            if let Some(class) = classes.get_mut(*pair) {
                *class = verdict.map_or(Class::Unasked, Class::Judged);
            }
        }
    }
    classes
}

/// Bytes of a pair's arguments and result.
pub fn payload_of(transcript: &Transcript, pair: usize) -> usize {
    transcript
        .pairs
        .get(pair)
        .map_or(0, |pair| pair.call.payload.saturating_add(pair.result.as_ref().map_or(0, |result| result.payload)))
}

/// Thousandths as a number.
fn ratio(thousandths: u64) -> f64 {
    thousandths as f64 / 1_000.0
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// The answer to a request that asks for an analysis: a status and JSON.
pub fn answer(policy: (&Policy, u64), path: &str, body: Option<&[u8]>, store: &dyn Store) -> (u16, String) {
    let refused = |status, skip: Skip| (status, format!("{{\"error\":\"{skip}\"}}"));
    let Some(body) = body else { return refused(413, Skip::TooLarge) };
    let Some(target) = Target::of(path) else { return refused(404, Skip::OtherPath) };
    match analyse(policy, &target, body, store) {
        Ok(analysis) => match serde_json::to_string(&analysis) {
            Ok(json) => (200, json),
            Err(_) => refused(500, Skip::SelfCheck),
        },
        Err(skip) => refused(422, skip),
    }
}
