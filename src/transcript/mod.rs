//! What every dialect is read into: elements, calls, results and the groups they form, as spans of the body.
//!
//! A *message* here is a maximal run of elements of one side, so that six parallel `tool` entries and one user entry
//! with six results count alike.

mod builder;
mod check;
mod groups;
mod removal;

pub use builder::{Builder, Called, Parts, Returned};
pub(crate) use builder::{has_any, has_other};
pub use check::self_check;
pub use removal::{Levels, Verdict};

use crate::{json::Span, skip::Skip};
use std::ops::Range;

/// Whose turn an element belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Written by the model: prose, reasoning, calls.
    Model,
    /// Everything else: user, system, tool results, unknown entries.
    Client,
}

/// The role of an element, as far as role order matters to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// System or developer instructions.
    System,
    /// The user; in some dialects the carrier of results too.
    User,
    /// The model.
    Assistant,
    /// A carrier of results with a role of its own.
    Tool,
}

impl Role {
    /// The side that the role belongs to.
    pub fn side(self) -> Side {
        if self == Self::Assistant { Side::Model } else { Side::Client }
    }
}

/// One entry of the conversation array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The entry's bytes.
    pub span: Span,
    /// The entry's role.
    pub role: Role,
    /// Bytes of prose, arguments and results, as they stand in the body.
    pub payload: usize,
    /// Index of the message that the element belongs to.
    pub message: usize,
    /// Something besides calls and results that a provider accepts on its own: prose, an image of the user.
    pub stays: bool,
    /// Something that must leave whole or not at all and is not understood further: server tools, refusals.
    pub opaque: bool,
    /// Reasoning, signed or not.
    pub reasoning: bool,
    /// The provider's own compaction item.
    pub compaction: bool,
    /// It leaves with all calls of its group, and not without.
    rides: bool,
    /// Blank text blocks, which no provider accepts alone: they leave with the element's last call.
    fillers: Vec<Item>,
}

/// A comma-separated JSON list whose items may leave.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    items: Vec<Span>,
    /// What leaves when every item does; `None` where that cannot happen.
    parent: Option<Item>,
}

/// An item of a list of the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    list: usize,
    index: usize,
}

/// Prose: text of the user, the system or the assistant, never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prose {
    /// Index of the element that holds it.
    pub element: usize,
    /// The string literal, quotes included.
    pub literal: Span,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Index of the element that carries it.
    pub element: usize,
    /// The literal of the tool's name.
    pub name: Option<Span>,
    /// The arguments: a string literal or an object.
    pub arguments: Option<Span>,
    /// Bytes of the arguments: between the quotes of a string, the whole of an object.
    pub payload: usize,
    id: Option<Span>,
    item: Item,
    lock: Option<Skip>,
    marked: bool,
    /// It carries the signature of its parallel siblings: the group leaves whole or not at all.
    signed: bool,
}

/// One text part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The string literal, quotes included.
    pub literal: Span,
    item: Option<Item>,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Index of the element that carries it.
    pub element: usize,
    /// The text parts in order.
    pub texts: Vec<Text>,
    /// Bytes of the text between the quotes.
    pub payload: usize,
    id: Option<Span>,
    /// The tool's name, where that tells which call it answers if ids are missing.
    name: Option<Span>,
    item: Item,
    lock: Option<Skip>,
    marked: bool,
}

impl ToolResult {
    /// Whether the client flagged it as an error.
    pub fn is_error(&self) -> bool {
        self.lock == Some(Skip::ErrorResult)
    }
}

/// A call and, where it has come back, its result. The index of a pair plus one is its ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The call.
    pub call: Call,
    /// The result; missing only in the open tail of a body.
    pub result: Option<ToolResult>,
    /// Index of its group.
    pub group: usize,
}

/// The most that a group allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Drop,
    Truncate,
    Keep(Skip),
}

/// One model run that holds calls, and the client run with their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Elements of the model run.
    pub carriers: Range<usize>,
    /// Elements of the client run behind it.
    pub answers: Range<usize>,
    /// The pairs.
    pub pairs: Range<usize>,
    /// A closed model run stands behind the results, so the model has read them.
    pub complete: bool,
    limit: Limit,
    whole_only: bool,
    /// The first element behind the group that is sure to stay, and whether it holds reasoning: prose left here would
    /// join a signed run.
    next_fixed: Option<(usize, bool)>,
    /// How many elements tell that its turn is over; none are needed where no provider checks that.
    over_at: usize,
}

impl Group {
    /// Whether its turn is over, as far as the first `seen` elements tell.
    pub fn is_over(&self, seen: usize) -> bool {
        seen >= self.over_at
    }
}

/// What the request says about itself outside the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The model's name.
    pub model: Option<String>,
    /// Bytes of system instructions and tool definitions that stand outside the conversation array.
    pub fixed: usize,
    /// The request turns reasoning on, or may.
    pub thinking: bool,
    /// The client allows the provider to drop reasoning whose prefix changed.
    pub drop_block: bool,
    /// An explicit cache marker stands on a block, a tool, the system prompt or the request.
    pub cache_markers: bool,
    /// One of them asks for an hour.
    pub one_hour_cache: bool,
    /// The request asks the provider to clear or compact its history.
    pub provider_edits: bool,
    /// The request carries a token that is valid for this exact body only.
    pub exact_body: bool,
}

/// A conversation as spans of one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// What stands outside the conversation array.
    pub prompt: Prompt,
    /// The conversation array.
    pub array: Span,
    /// Its entries.
    pub elements: Vec<Element>,
    /// All prose in order.
    pub prose: Vec<Prose>,
    /// The payload of all elements in order, with the element that holds it: prose, arguments and results, without the
    /// quotes of strings. What a client may move between turns is not in it: ids, cache markers, reasoning, whether a
    /// text is a string or a block.
    pub pieces: Vec<(usize, Span)>,
    /// All client calls in order, each with its result.
    pub pairs: Vec<Pair>,
    /// The groups in order.
    pub groups: Vec<Group>,
    /// Number of messages.
    pub messages: usize,
    lists: Vec<List>,
}

impl Prompt {
    /// The model's name; empty where the request has none.
    pub fn model(&self) -> &str {
        self.model.as_deref().unwrap_or_default()
    }
}

impl Transcript {
    /// Bytes that count as the prompt: the payload of every element and what stands outside the array.
    pub fn payload(&self) -> usize {
        self.elements.iter().fold(self.prompt.fixed, |sum, e| sum.saturating_add(e.payload))
    }

    /// Whether any element holds reasoning.
    pub fn has_reasoning(&self) -> bool {
        self.elements.iter().any(|e| e.reasoning)
    }

    /// Whether pair `index` may be asked about once it is old enough, or why it never may. Nothing that stands behind
    /// its group can change the answer, and no cache marker, which clients move from turn to turn.
    pub fn standing(&self, index: usize, floor_bytes: usize) -> Result<(), Skip> {
        let pair = self.pairs.get(index).ok_or(Skip::Open)?;
        let group = self.groups.get(pair.group).ok_or(Skip::Open)?;
        let result = pair.result.as_ref().filter(|_| group.complete).ok_or(Skip::Open)?;
        if let Limit::Keep(skip) = group.limit {
            return Err(skip);
        }
        if let Some(skip) = pair.call.lock.or(result.lock) {
            return Err(skip);
        }
        if result.payload < floor_bytes { Err(Skip::SmallResult) } else { Ok(()) }
    }
}
