//! The operator's configuration: JSON text in; a checked [`Policy`], or every [`Problem`] at once, out.
//!
//! No message ever repeats a value, since any value may be a key pasted into the wrong place. Names are repeated only
//! where they are plain identifiers.

mod endpoint;
mod fields;
mod glob;
mod names;
mod number;
mod raw;
mod secret;

use crate::models::{self, CachePrice, Model, Prices};
use crate::window::Means;
use std::time::Duration;

pub use endpoint::Endpoint;
pub use glob::Glob;
pub use number::{Milli, Share};
pub use secret::{ApiKey, Secret};

use fields::Draft;

/// `threshold_tokens` where the configuration names no threshold at all.
pub const DEFAULT_THRESHOLD: u64 = 40_000;

/// Environment variables that turn removal on where the configuration does not say `enabled`.
pub const SWITCHES: [&str; 2] = ["CONTEXT_COMPACTION_ENABLED", "ATLASBERG_COMPACTACAO_ENABLED"];

/// Environment variables that turn measuring on where the configuration does not say `measure`.
pub const MEASURE_SWITCHES: [&str; 2] = ["CONTEXT_COMPACTION_MEASURE", "ATLASBERG_COMPACTACAO_MEDIR"];

/// Who decides what is no longer needed. Both speak the same protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A server of the operator's own: excerpts stay inside.
    Local,
    /// A hosted service: excerpts leave, so it needs consent.
    Remote,
}

/// What the filter does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is read, buffered or asked.
    Off,
    /// Runs beside the traffic: asks and counts, and changes and delays nothing.
    Measure,
    /// Removes for real.
    Enforce,
}

/// How far a removal may go in a message that also holds prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Full where the provider is known to accept it, portable elsewhere.
    Auto,
    /// Only what every provider accepts.
    Portable,
    /// Calls leave and the prose of their message stays, with every provider.
    Full,
}

/// What happens with models that check their reasoning against the exact prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundModels {
    /// Their requests are left alone.
    StandDown,
    /// Requests that neither enable reasoning nor hold any are worked on.
    WithoutReasoning,
}

/// What leaves when a verdict is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEngineFailure {
    /// The original.
    Original,
    /// What earlier boundaries removed stays removed, nothing later is.
    KeepDecided,
}

/// What the engine gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// Short pieces of arguments and results.
    Excerpts,
    /// Sizes, ages and counts, no text.
    Metadata,
}

/// What happens where the request asks the provider to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderCompaction {
    /// The filter leaves the request alone.
    Respect,
    /// The filter works as if the request did not ask.
    Ignore,
}

/// Whether one request may switch the filter off for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestHeader {
    /// The header means nothing here.
    Ignore,
    /// `x-context-compaction: off` leaves the request alone.
    Trusted,
}

/// What happens when removals cost more than they save, by what the provider reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeCheck {
    /// Nothing is compared.
    Off,
    /// It is said.
    Alert,
    /// It is said, and nothing more is removed while it is so.
    StopNew,
}

/// What the operator knows better of models than the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Which models.
    pub models: Glob,
    /// The most input that they take, in tokens.
    pub limit: Option<u64>,
    /// What they cost.
    pub prices: Option<(CachePrice, Prices)>,
}

/// The engine and what it needs to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// Local or remote.
    pub engine: Engine,
    /// Where questions go.
    pub endpoint: Endpoint,
    /// Envoy's cluster that reaches the endpoint.
    pub cluster: String,
    /// The decision model's name, sent as it stands.
    pub model: String,
    /// The key, where the configuration names a variable for it.
    pub api_key: Option<ApiKey>,
    /// What the engine gets to see.
    pub export: Export,
    /// Deadline for all calls of one request together.
    pub timeout: Duration,
    /// How sure "the whole result is not needed" must be.
    pub decision_threshold: Share,
    /// How sure "the call is not needed" must be.
    pub call_threshold: Share,
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether anything happens at all. Every mode but [`Mode::Off`] implies a decider.
    pub mode: Mode,
    /// The engine; none where the configuration does not say enough to ask one.
    pub decider: Option<Decider>,
    /// Smaller prompts are never touched, in tokens; `u64::MAX` where only `threshold_ratio` counts.
    pub threshold_tokens: u64,
    /// The same as a share of the model's input limit. The lower of both counts.
    pub threshold_ratio: Option<Milli>,
    /// Bytes of payload that count as one token.
    pub bytes_per_token: Milli,
    /// A boundary needs this much new payload since the last one, in tokens.
    pub epoch_tokens: u64,
    /// And this many pairs that have newly aged out.
    pub epoch_pairs: usize,
    /// Whether a batch must earn back the rewrite of the provider's cache.
    pub cost_gate: bool,
    /// Expected later requests per request so far.
    pub gate_horizon: Milli,
    /// No further batch once outgoing / incoming is at or below this.
    pub target_ratio: Option<Milli>,
    /// Never more than this share of the prompt leaves.
    pub max_removed_share: Milli,
    /// Batches of one conversation at most.
    pub max_prefix_changes: usize,
    /// What leaves when a verdict is missing.
    pub on_engine_failure: OnEngineFailure,
    /// Conversations that were long already when they were first seen are left alone.
    pub new_conversations_only: bool,
    /// Share of conversations that is left alone as a control.
    pub holdout: Milli,
    /// Tools that give the same again when they are called again; `None` for those that read and search by their name.
    pub deterministic_tools: Option<Vec<Glob>>,
    /// What the engine costs, in US$ per million tokens of its requests.
    pub engine_price_per_mtok: Milli,
    /// Smaller results are never asked about, in bytes as they stand in the body.
    pub floor_bytes: usize,
    /// How many of the newest messages stay.
    pub preserve_recent: usize,
    /// What stays of a result whose call stays, in characters.
    pub truncate_head_chars: usize,
    /// Smaller batches wait, as a share of the prompt.
    pub min_reduction: Milli,
    /// How far a removal may go.
    pub removal: Removal,
    /// What happens with models bound to their prefix.
    pub bound_models: BoundModels,
    /// Whether a request that itself carries `drop_block` is worked on although its model is bound.
    pub allow_drop_block: bool,
    /// Only these models; empty admits all.
    pub models_allowed: Vec<Glob>,
    /// Never these models; wins over `models_allowed`.
    pub models_denied: Vec<Glob>,
    /// Where the operator knows models better than the table; the first that fits counts.
    pub known_models: Vec<Known>,
    /// What happens where the request asks the provider to compact.
    pub provider_compaction: ProviderCompaction,
    /// Larger bodies pass untouched, in bytes.
    pub max_body_bytes: usize,
    /// Whether a body without content-length is buffered.
    pub buffer_unknown_length: bool,
    /// Whether the request's headers wait for the decision.
    pub hold_headers: bool,
    /// Whether Envoy signs the request behind this filter.
    pub signed_after_filter: bool,
    /// Whether responses carry what was done and how full the window is.
    pub response_headers: bool,
    /// Whether one request may switch the filter off for itself.
    pub request_header: RequestHeader,
    /// Whether a request that asks for an analysis is answered with one.
    pub analyze_header: bool,
    /// What happens when removals cost more than they save.
    pub outcome_check: OutcomeCheck,
    /// Why an environment switch had no effect; part of [`Policy::warnings`].
    pub switch_notes: Vec<Problem>,
}

/// One thing that is wrong with a configuration, under the name that the operator typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Problem {
    /// The field as typed, or `configuration` for the whole text.
    pub field: String,
    /// What is wrong and what to do; never holds a value.
    pub problem: String,
}

impl Problem {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Where environment variables come from.
pub trait Environment {
    /// The variable's value; none where it is not set or not text.
    fn var(&self, name: &str) -> Option<String>;
}

/// The environment of this process: inside Envoy, what the plugin's `environment_variables` lists.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            decider: None,
            threshold_tokens: DEFAULT_THRESHOLD,
            threshold_ratio: None,
            bytes_per_token: Milli::new(3_000),
            epoch_tokens: 0,
            epoch_pairs: 3,
            cost_gate: true,
            gate_horizon: Milli::new(1_000),
            target_ratio: None,
            max_removed_share: Milli::new(900),
            max_prefix_changes: 100,
            on_engine_failure: OnEngineFailure::Original,
            new_conversations_only: false,
            holdout: Milli::new(0),
            deterministic_tools: None,
            engine_price_per_mtok: Milli::new(0),
            floor_bytes: 2_048,
            preserve_recent: 6,
            truncate_head_chars: 800,
            min_reduction: Milli::new(100),
            removal: Removal::Auto,
            bound_models: BoundModels::StandDown,
            allow_drop_block: false,
            models_allowed: Vec::new(),
            models_denied: Vec::new(),
            known_models: Vec::new(),
            provider_compaction: ProviderCompaction::Respect,
            max_body_bytes: 1_000_000,
            buffer_unknown_length: false,
            hold_headers: false,
            signed_after_filter: false,
            response_headers: false,
            request_header: RequestHeader::Ignore,
            analyze_header: false,
            outcome_check: OutcomeCheck::Alert,
            switch_notes: Vec::new(),
        }
    }
}

impl Policy {
    /// Reads the plugin configuration's text. Nothing but whitespace is no configuration: off, unless the environment
    /// switches say otherwise.
    pub fn parse(json: &[u8], env: &impl Environment) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let draft = match raw::document(json) {
            Ok(Some(document)) => fields::read(&document, &mut problems),
            Ok(None) => Draft::default(),
            Err(problem) => return Err(vec![problem]),
        };
        let policy = settle(draft, env, &mut problems);
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// The smallest prompt to `model` that is worked on, in tokens.
    pub fn threshold_for(&self, model: &str) -> u64 {
        let share = |ratio: Milli| {
            let tokens = self.model(model).limit.saturating_mul(ratio.thousandths().into());
            tokens.div_ceil(1_000)
        };
        self.threshold_ratio.map_or(self.threshold_tokens, |ratio| share(ratio).min(self.threshold_tokens))
    }

    /// Tokens in bytes of payload, rounded up.
    pub fn bytes_of(&self, tokens: u64) -> usize {
        let thousandths = tokens.saturating_mul(u64::from(self.bytes_per_token.thousandths()));
        usize::try_from(thousandths.div_ceil(1_000)).unwrap_or(usize::MAX)
    }

    /// Bodies below this are not worth reading, whatever their model, in bytes. A share of the model's limit is known only
    /// once the model is, and a response header tells of every request.
    pub fn least_body(&self) -> usize {
        let reads_all = self.threshold_ratio.is_some() || self.response_headers;
        if reads_all { 0 } else { self.bytes_of(self.threshold_tokens) }
    }

    /// What can be done about a full window.
    pub fn means(&self, provider_compacts: bool) -> Means {
        Means { measuring: self.mode == Mode::Measure, removing: self.mode == Mode::Enforce, provider_compacts }
    }

    /// What is known of a model: by the operator first.
    pub fn model(&self, name: &str) -> Model {
        let fits: Vec<&Known> = self.known_models.iter().filter(|known| known.models.matches(name)).collect();
        let mut model = models::look_up(name);
        if let Some(limit) = fits.iter().find_map(|known| known.limit) {
            model.limit = limit;
        }
        if let Some((cache, prices)) = fits.iter().find_map(|known| known.prices) {
            (model.cache, model.prices) = (cache, Some(prices));
        }
        model
    }

    /// Whether requests for this model are worked on.
    pub fn admits_model(&self, model: &str) -> bool {
        let named = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(model));
        (self.models_allowed.is_empty() || named(&self.models_allowed)) && !named(&self.models_denied)
    }

    /// What loads but an operator should hear once.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = self.switch_notes.clone();
        if self.mode == Mode::Off {
            return warnings;
        }
        warnings.extend(self.decider.iter().filter_map(Decider::key_warning));
        warnings.extend(self.decider.iter().filter_map(Decider::alias_warning));
        if self.new_conversations_only {
            warnings.push(Problem::new(
                "new_conversations_only",
                "is told from what one process remembers: a conversation must always reach the same one, else it is reduced \
                 by one and not by the next",
            ));
        }
        let never = [
            ("max_removed_share", self.max_removed_share < self.min_reduction),
            ("max_removed_share", self.max_removed_share.thousandths() == 0),
            ("max_prefix_changes", self.max_prefix_changes == 0),
        ];
        if let Some((field, _)) = never.iter().find(|(_, never)| *never) {
            warnings.push(Problem::new(*field, "lets nothing leave, ever, and the engine is asked all the same"));
        }
        if self.threshold_ratio.is_none() && self.bytes_of(self.threshold_tokens) > self.max_body_bytes {
            warnings.push(Problem::new(
                "max_body_bytes",
                "is below threshold_tokens x bytes_per_token, so that no request is ever worked on",
            ));
        }
        warnings
    }
}

impl Decider {
    fn key_warning(&self) -> Option<Problem> {
        let key = self.api_key.as_ref().filter(|key| key.value.is_none())?;
        let effect = match self.engine {
            Engine::Remote => "requests pass untouched until it is set",
            Engine::Local => "the engine is called without a key",
        };
        Some(Problem::new(
            "api_key_env",
            format!(
                "the environment variable {} is missing, empty or no header value (is it listed in the plugin's \
                 environment?): {effect}",
                key.variable
            ),
        ))
    }

    fn alias_warning(&self) -> Option<Problem> {
        let moves = ["-latest", ":latest"].iter().any(|end| self.model.to_ascii_lowercase().ends_with(end));
        (self.engine == Engine::Remote && moves).then(|| {
            Problem::new(
                "model",
                "is an alias that the service can move, and a move re-decides every conversation without notice: \
                 name a fixed version",
            )
        })
    }
}

/// Applies the rules between fields and the environment to fields that are each valid.
fn settle(draft: Draft, env: &impl Environment, problems: &mut Vec<Problem>) -> Policy {
    let mut notes = Vec::new();
    let enforce = Wish::of(draft.enabled, &SWITCHES, "removal", env, &mut notes);
    let measure = Wish::of(draft.measure, &MEASURE_SWITCHES, "measuring", env, &mut notes);
    if enforce.wanted || measure.wanted {
        problems.extend(draft.contradiction());
        let missing = draft.missing();
        if enforce.is_typed() || measure.is_typed() {
            problems.extend(missing);
        } else {
            // The switch may stand in a mesh-wide environment: it must not turn an unfinished configuration into an
            // error, which can take the route down.
            notes.extend(missing.into_iter().map(|gap| {
                let problem = format!("{}; until then the environment switch has no effect", gap.problem);
                Problem::new(gap.field, problem)
            }));
        }
    }
    problems.extend(draft.unheld_analysis());
    let decider = draft.decider(env);
    let complete = draft.missing().is_empty() && decider.is_some();
    let mode = match (complete, enforce.wanted, measure.wanted) {
        (true, true, _) => Mode::Enforce,
        (true, false, true) => Mode::Measure,
        _ => Mode::Off,
    };
    let threshold_tokens = draft.threshold_tokens();
    Policy { mode, decider, threshold_tokens, switch_notes: notes, ..draft.policy }
}

/// Whether a mode is asked for, and by whom.
struct Wish {
    wanted: bool,
    typed: bool,
}

impl Wish {
    /// The configuration decides where it says anything; else one of the environment's `switches` can turn it on.
    fn of(
        typed: Option<bool>,
        switches: &[&str],
        what: &str,
        env: &impl Environment,
        notes: &mut Vec<Problem>,
    ) -> Self {
        let wanted = typed.unwrap_or_else(|| switched_on(switches, what, env, notes));
        Self { wanted, typed: typed.is_some() }
    }

    fn is_typed(&self) -> bool {
        self.wanted && self.typed
    }
}

fn switched_on(switches: &[&str], what: &str, env: &impl Environment, notes: &mut Vec<Problem>) -> bool {
    let mut on = false;
    for name in switches {
        let value = env.var(name).unwrap_or_default();
        match value.trim().to_ascii_lowercase().as_str() {
            "1" | "true" => on = true,
            "" | "0" | "false" => {}
            _ => notes.push(Problem::new(*name, format!("has no effect: only 1 or true turns {what} on"))),
        }
    }
    on
}
