//! One conversation, turn by turn, under several policies at once.

use context_compaction::dialect::Dialect;
use context_compaction::exchange::Report;
use context_compaction::models;
use serde::Serialize;

use super::bill::{Account, Cache, Paid, Prompt, Rates, Reader, message_tokens};
use super::engines::Line;
use super::peers::{self, Turn};
use super::policies::{Arm, Kind};
use crate::support::conversations::{Conversation, Format};
use crate::support::exchange::{self, Shared};
use crate::support::{Failure, Result, invariants};

/// The models by which conversations are priced where the table has no price for their own: Claude's, and all others.
const STAND_INS: [&str; 2] = ["claude-sonnet-4-5", "gpt-4o"];

/// What became of one conversation under one policy. Money is in US dollars.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// The conversation's name.
    pub conversation: String,
    /// The model by which it is priced.
    pub model: String,
    /// Requests.
    pub turns: u64,
    /// Input tokens of all requests as the client sent them.
    pub tokens_without: u64,
    /// The same as they left.
    pub tokens_with: u64,
    /// The bill without the policy, output included.
    pub cost_without: f64,
    /// The bill with it.
    pub cost_with: f64,
    /// Reads that are saved: what left, at the price of reading it.
    pub gross: f64,
    /// Writes that were caused, less the reads that they replace.
    pub rewrite: f64,
    /// Turns in which something that was sent before did not come again at its place.
    pub prefix_changes: u64,
    /// Batches that left, for policies that have any.
    pub batches: Option<u64>,
    /// Calls to the engine.
    pub engine_calls: u64,
    /// Calls that failed.
    pub engine_failures: u64,
    /// Bytes of the calls.
    pub exported_bytes: u64,
    /// Estimated tokens of the calls.
    pub engine_tokens: u64,
    /// Pairs that left.
    pub removed: u64,
    /// Those that the model came back to.
    pub recited: u64,
    /// Those of them from tools that give the same again.
    pub rerunnable: u64,
    /// Those of them whose name stands nowhere else.
    pub lost: u64,
    /// What it costs if all of them are fetched again.
    pub worst_case: f64,
}

impl Row {
    /// What is saved; negative where the policy cost money. The engine is not in it.
    pub fn net(&self) -> f64 {
        self.gross - self.rewrite
    }

    /// [`Row::net`] as a share of the cost of doing nothing.
    pub fn share(&self) -> f64 {
        if self.cost_without > 0.0 { self.net() / self.cost_without } else { 0.0 }
    }

    /// The policy cost more than doing nothing. A billionth of the bill is rounding.
    pub fn loses(&self) -> bool {
        self.share() < -1e-9
    }

    /// Adds another conversation under the same policy.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.tokens_without += other.tokens_without;
        self.tokens_with += other.tokens_with;
        self.cost_without += other.cost_without;
        self.cost_with += other.cost_with;
        self.gross += other.gross;
        self.rewrite += other.rewrite;
        self.prefix_changes += other.prefix_changes;
        self.batches = other.batches.map(|batches| batches + self.batches.unwrap_or(0)).or(self.batches);
        self.engine_calls += other.engine_calls;
        self.engine_failures += other.engine_failures;
        self.exported_bytes += other.exported_bytes;
        self.engine_tokens += other.engine_tokens;
        self.removed += other.removed;
        self.recited += other.recited;
        self.rerunnable += other.rerunnable;
        self.lost += other.lost;
        self.worst_case += other.worst_case;
    }
}

/// Whether this version reads the conversation's dialect.
pub fn is_served(conversation: &Conversation) -> bool {
    Dialect::of(conversation.path()).is_some()
}

/// Sees to it that the conversation has a price: its own, that of its model with dashes in place of dots, or that of a
/// stand-in. Says what stands in, if anything does.
pub fn price(conversation: &mut Conversation) -> Option<String> {
    if models::look_up(&conversation.model).prices.is_some() {
        return None;
    }
    let dashed = conversation.model.replace('.', "-");
    let [claude, other] = STAND_INS;
    let stand_in = if dashed.contains("claude") { claude } else { other };
    let priced = if models::look_up(&dashed).prices.is_some() { dashed } else { stand_in.to_owned() };
    let note = format!("{}: {} priced as {priced}", conversation.name, conversation.model);
    conversation.model = priced;
    Some(note)
}

/// Sends every turn of a conversation through every arm, one row for each. `after_turn` is called between turns.
pub fn replay(
    conversation: &Conversation,
    arms: &[Arm<'_>],
    cache: Cache,
    after_turn: &mut dyn FnMut(),
) -> Result<Vec<Row>> {
    let doing = |failure: Failure| failure.while_doing(&conversation.name);
    let unpriced = || Failure::new(format!("{} has no price", conversation.model));
    let rates = Rates::of(&conversation.model).ok_or_else(|| doing(unpriced()))?;
    let markers = cache == Cache::Markers && conversation.format == Format::Anthropic;
    let mut reader = Reader::default();
    let mut doing_nothing = Account::new(rates, markers);
    let mut runs: Vec<Run<'_>> = arms.iter().map(|arm| Run::new(arm, conversation, rates, markers)).collect();
    let turns = conversation.turns();
    for (index, count) in turns.iter().enumerate() {
        let body = body(conversation, *count, markers);
        let output = conversation.reply(*count).iter().map(message_tokens).sum();
        let prompt = reader.read(&body).map_err(doing)?;
        let without = doing_nothing.pay(&prompt, output);
        // The peers look at the same reading of the body.
        let read = runs.iter().any(|run| run.is_peer()).then(|| Turn::read(conversation.path(), &body)).transpose();
        let read = read.map_err(doing)?;
        for run in &mut runs {
            let outgoing = run.turn(conversation, &body, read.as_ref()).map_err(doing)?;
            let sent = if outgoing == body { prompt.clone() } else { reader.read(&outgoing).map_err(doing)? };
            run.enter((&prompt, without), &sent, output);
            // The law of the filter has checked every body; once per conversation somebody else does.
            let complaints =
                if index + 1 == turns.len() { invariants::complaints(&body, &outgoing) } else { Vec::new() };
            if !complaints.is_empty() {
                return Err(doing(Failure::new(format!("{}: {}", run.arm.kind.name(), complaints.join("; ")))));
            }
        }
        after_turn();
    }
    Ok(runs.into_iter().map(Run::finish).collect())
}

/// The body of a turn. The marker is the one that asks the provider to place its own, so that no message ever changes by it.
fn body(conversation: &Conversation, count: usize, markers: bool) -> Vec<u8> {
    let body = conversation.body(count);
    match body.strip_prefix(b"{") {
        Some(rest) if markers => [br#"{"cache_control":{"type":"ephemeral"},"#, rest].concat(),
        _ => body,
    }
}

/// One arm on its way through one conversation.
struct Run<'a> {
    arm: &'a Arm<'a>,
    rates: Rates,
    account: Account,
    line: Line<'a>,
    /// Of the filter: what its host remembers.
    shared: Shared,
    /// Of a peer: what is out.
    books: peers::Books,
    row: Row,
}

impl<'a> Run<'a> {
    fn new(arm: &'a Arm<'a>, conversation: &'a Conversation, rates: Rates, markers: bool) -> Self {
        Self {
            arm,
            rates,
            account: Account::new(rates, markers),
            line: Line::new(arm.engine, &conversation.name, arm.failing),
            shared: Shared::default(),
            books: peers::Books::default(),
            row: Row { conversation: conversation.name.clone(), model: conversation.model.clone(), ..Row::default() },
        }
    }

    fn is_peer(&self) -> bool {
        matches!(self.arm.kind, Kind::Age | Kind::Anew)
    }

    /// The bytes that leave.
    fn turn(&mut self, conversation: &Conversation, body: &[u8], read: Option<&Turn<'_>>) -> Result<Vec<u8>> {
        let settings = &self.arm.settings;
        if let Some(read) = read.filter(|_| self.is_peer()) {
            return self.books.turn(self.arm.kind, read, settings, &mut self.line);
        }
        let line = &mut self.line;
        let request = (conversation.path(), &[][..]);
        let ran = exchange::run_engine((&self.shared, 7), settings, request, body, &mut |asked| line.ask(asked));
        self.count(&ran.report);
        Ok(ran.outgoing)
    }

    fn count(&mut self, report: &Report) {
        let row = &mut self.row;
        // Both only grow, but for turns on which the engine failed.
        row.batches = row.batches.max(Some(report.batches as u64));
        row.removed = row.removed.max((report.dropped + report.truncated) as u64);
        if let Some(books) = &report.books {
            row.recited += books.recited;
            row.rerunnable += books.rerunnable;
            row.lost += books.lost;
            row.worst_case += dollars(books.fetched_again);
        }
    }

    /// Bills the turn. What left would have been read; what was written beyond what is new had been read before.
    fn enter(&mut self, (original, without): (&Prompt, Paid), sent: &Prompt, output: u64) {
        let with = self.account.pay(sent, output);
        let Rates { read, write, .. } = self.rates;
        let removed = original.tokens() as f64 - sent.tokens() as f64;
        let rewritten = with.written as f64 - without.written as f64;
        let row = &mut self.row;
        row.turns += 1;
        row.tokens_without += original.tokens();
        row.tokens_with += sent.tokens();
        row.cost_without += without.cost;
        row.cost_with += with.cost;
        row.gross += read * removed;
        row.rewrite += (write - read) * rewritten;
        row.prefix_changes += u64::from(with.changed);
    }

    fn finish(self) -> Row {
        let Self { line, books, mut row, .. } = self;
        row.engine_calls = line.calls;
        row.engine_failures = line.failed;
        row.exported_bytes = line.bytes;
        row.engine_tokens = line.tokens;
        row.removed += books.removed.len() as u64;
        row.recited += books.recited();
        row.rerunnable += books.rerunnable;
        row.lost += books.lost;
        row.worst_case += dollars(books.fetched_again);
        row
    }
}

/// US dollars from billionths.
fn dollars(billionths: u64) -> f64 {
    billionths as f64 / 1e9
}
