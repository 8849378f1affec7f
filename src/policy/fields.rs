//! The table of fields, and the rules between them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::number::Share;
use super::raw::{Checked, Raw};
use super::{
    ApiKey, BoundModels, DEFAULT_THRESHOLD, Decider, Endpoint, Engine, Environment, Export, Known, OnEngineFailure,
    OutcomeCheck, Policy, Problem, ProviderCompaction, Removal, RequestHeader, names, secret,
};
use crate::json::{Document, Kind, Member};
use crate::models::{CachePrice, Prices};

/// Keys under which the whole configuration may stand.
const WRAPPERS: [&str; 2] = ["context_compaction", "compactacao"];
/// Longest model and cluster name, in bytes.
const MAX_NAME: usize = 256;

/// Fields that are each valid, before the rules between them.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) enabled: Option<bool>,
    pub(super) measure: Option<bool>,
    pub(super) policy: Policy,
    engine: Option<Engine>,
    endpoint: Option<Endpoint>,
    cluster: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
    export: Option<Export>,
    export_consent: Option<bool>,
    threshold_tokens: Option<u64>,
    timeout_ms: Option<u64>,
    decision_threshold: Option<Share>,
    call_threshold: Option<Share>,
    typed: Vec<Typed>,
}

/// A field that the operator set, well or not.
#[derive(Debug)]
struct Typed {
    field: &'static str,
    name: String,
}

/// One row of the table.
pub(super) struct Field {
    /// Our name.
    pub(super) name: &'static str,
    /// The other name accepted.
    pub(super) alias: Option<&'static str>,
    read: Read,
}

/// Reads a value into the draft.
type Read = fn(&mut Draft, &Raw<'_>) -> Checked<()>;

const fn field(name: &'static str, read: Read) -> Field {
    Field { name, alias: None, read }
}

const fn aliased(name: &'static str, alias: &'static str, read: Read) -> Field {
    Field { name, alias: Some(alias), read }
}

fn set<T>(place: &mut T, value: Checked<T>) -> Checked<()> {
    *place = value?;
    Ok(())
}

/// Every field of this version.
pub(super) const FIELDS: &[Field] = &[
    field("enabled", |d, v| set(&mut d.enabled, v.flag().map(Some))),
    field("measure", |d, v| set(&mut d.measure, v.flag().map(Some))),
    field("engine", |d, v| set(&mut d.engine, engine(v).map(Some))),
    field("endpoint", |d, v| set(&mut d.endpoint, endpoint(v).map(Some))),
    field("cluster", |d, v| set(&mut d.cluster, cluster(v).map(Some))),
    field("model", |d, v| set(&mut d.model, model(v).map(Some))),
    field("api_key_env", |d, v| set(&mut d.api_key_env, v.text().and_then(secret::variable_name).map(Some))),
    aliased("threshold_tokens", "limiar_tokens", |d, v| {
        set(&mut d.threshold_tokens, v.whole(0..=100_000_000).map(Some))
    }),
    field("threshold_ratio", |d, v| set(&mut d.policy.threshold_ratio, v.milli(0..=1).map(Some))),
    aliased("floor_bytes", "piso_bytes", |d, v| set(&mut d.policy.floor_bytes, v.size(0..=1_000_000_000))),
    aliased("preserve_recent", "preservar_recentes", |d, v| {
        set(&mut d.policy.preserve_recent, v.size(0..=1_000_000_000))
    }),
    aliased("decision_threshold", "limiar_decisao", |d, v| set(&mut d.decision_threshold, v.milli(0..=1).map(Some))),
    field("call_threshold", |d, v| set(&mut d.call_threshold, v.milli(0..=1).map(Some))),
    aliased("truncate_head_chars", "truncar_cabeca_chars", |d, v| {
        set(&mut d.policy.truncate_head_chars, v.size(0..=1_000_000_000))
    }),
    field("timeout_ms", |d, v| set(&mut d.timeout_ms, timeout(v).map(Some))),
    aliased("min_reduction", "min_reducao", |d, v| set(&mut d.policy.min_reduction, v.milli(0..=1))),
    aliased("export_consent", "consentimento_exportar_prompt", |d, v| set(&mut d.export_consent, v.flag().map(Some))),
    field("export", |d, v| {
        let choices = [("excerpts", Export::Excerpts), ("metadata", Export::Metadata)];
        set(&mut d.export, v.choice(&choices).map(Some))
    }),
    field("bytes_per_token", |d, v| set(&mut d.policy.bytes_per_token, v.milli(1..=16))),
    field("removal", |d, v| {
        let choices = [("auto", Removal::Auto), ("portable", Removal::Portable), ("full", Removal::Full)];
        set(&mut d.policy.removal, v.choice(&choices))
    }),
    field("bound_models", |d, v| {
        let choices = [("stand_down", BoundModels::StandDown), ("without_reasoning", BoundModels::WithoutReasoning)];
        set(&mut d.policy.bound_models, v.choice(&choices))
    }),
    field("allow_drop_block", |d, v| set(&mut d.policy.allow_drop_block, v.flag())),
    field("models_allowed", |d, v| set(&mut d.policy.models_allowed, v.globs())),
    field("models_denied", |d, v| set(&mut d.policy.models_denied, v.globs())),
    field("provider_compaction", |d, v| {
        let choices = [("respect", ProviderCompaction::Respect), ("ignore", ProviderCompaction::Ignore)];
        set(&mut d.policy.provider_compaction, v.choice(&choices))
    }),
    field("max_body_bytes", |d, v| set(&mut d.policy.max_body_bytes, v.size(1..=1_000_000_000))),
    field("buffer_unknown_length", |d, v| set(&mut d.policy.buffer_unknown_length, v.flag())),
    field("hold_headers", |d, v| set(&mut d.policy.hold_headers, v.flag())),
    field("signed_after_filter", |d, v| set(&mut d.policy.signed_after_filter, v.flag())),
    field("strategy", |_, v| {
        only(
            v.text().is_ok_and(|text| text == "selective"),
            "must be selective: this filter never writes text, so it has no summaries; selective removal is the \
             nearest it offers",
        )
    }),
    field("config_revision", |_, v| only(v.is_label(), "must be text or a number")),
    field("epoch_tokens", |d, v| set(&mut d.policy.epoch_tokens, v.whole(0..=100_000_000))),
    field("epoch_pairs", |d, v| set(&mut d.policy.epoch_pairs, v.size(0..=1_000_000))),
    field("cost_gate", |d, v| set(&mut d.policy.cost_gate, v.flag())),
    field("gate_horizon", |d, v| set(&mut d.policy.gate_horizon, v.milli(0..=1_000))),
    field("target_ratio", |d, v| set(&mut d.policy.target_ratio, v.milli(0..=1).map(Some))),
    field("max_removed_share", |d, v| set(&mut d.policy.max_removed_share, v.milli(0..=1))),
    field("max_prefix_changes", |d, v| set(&mut d.policy.max_prefix_changes, v.size(0..=1_000_000))),
    field("on_engine_failure", |d, v| {
        let choices = [("original", OnEngineFailure::Original), ("keep_decided", OnEngineFailure::KeepDecided)];
        set(&mut d.policy.on_engine_failure, v.choice(&choices))
    }),
    field("new_conversations_only", |d, v| set(&mut d.policy.new_conversations_only, v.flag())),
    field("holdout", |d, v| set(&mut d.policy.holdout, v.milli(0..=1))),
    field("models", |d, v| {
        let limits =
            v.named(|name, limit| Ok(Known { models: name, limit: Some(limit.whole(1..=100_000_000)?), prices: None }));
        limits.map(|limits| d.policy.known_models.extend(limits))
    }),
    field("pricing", |d, v| {
        let prices = v.named(|name, prices| Ok(Known { models: name, limit: None, prices: Some(pricing(prices)?) }));
        prices.map(|prices| d.policy.known_models.extend(prices))
    }),
    field("response_headers", |d, v| set(&mut d.policy.response_headers, v.flag())),
    field("request_header", |d, v| {
        let choices = [("ignore", RequestHeader::Ignore), ("trusted", RequestHeader::Trusted)];
        set(&mut d.policy.request_header, v.choice(&choices))
    }),
    field("analyze_header", |d, v| set(&mut d.policy.analyze_header, v.flag())),
    field("outcome_check", |d, v| {
        let choices = [("alert", OutcomeCheck::Alert), ("stop_new", OutcomeCheck::StopNew), ("off", OutcomeCheck::Off)];
        set(&mut d.policy.outcome_check, v.choice(&choices))
    }),
    field("deterministic_tools", |d, v| set(&mut d.policy.deterministic_tools, v.globs().map(Some))),
    field("engine_price_per_mtok", |d, v| set(&mut d.policy.engine_price_per_mtok, v.milli(0..=1_000))),
];

fn only(accepted: bool, otherwise: &str) -> Checked<()> {
    accepted.then_some(()).ok_or_else(|| otherwise.to_owned())
}

fn engine(value: &Raw<'_>) -> Checked<Engine> {
    if value.text().is_ok_and(|text| text == "builtin") {
        return Err("is not available in this version; choose local or remote".to_owned());
    }
    value.choice(&[("local", Engine::Local), ("remote", Engine::Remote)])
}

fn endpoint(value: &Raw<'_>) -> Checked<Endpoint> {
    Endpoint::parse(&value.text()?).map_err(str::to_owned)
}

fn cluster(value: &Raw<'_>) -> Checked<String> {
    let name = value.text()?;
    if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("must be the name of an Envoy cluster: 1 to {MAX_NAME} visible ASCII characters"));
    }
    without_secret(name)
}

fn model(value: &Raw<'_>) -> Checked<String> {
    let name = value.text()?;
    let plain = name.trim() == name && !name.chars().any(char::is_control);
    if !(1..=MAX_NAME).contains(&name.len()) || !plain {
        return Err(format!(
            "must be a model's name: 1 to {MAX_NAME} bytes, no space at its ends, no control characters"
        ));
    }
    without_secret(name)
}

/// The members of one model's prices; only `input` must be there.
const PRICES: [&str; 5] = ["input", "cache_read", "cache_write", "cache_write_1h", "output"];

fn pricing(value: &Raw<'_>) -> Checked<(CachePrice, Prices)> {
    let [input, read, write, write_1h, output] = value.members(PRICES)?;
    let dollars = |price: Option<Raw<'_>>| price.map(|price| price.dollars()).transpose();
    let input = dollars(input)?.filter(|price| *price > 0).ok_or("needs input, above 0")?;
    let cache = CachePrice::of(input, dollars(read)?, dollars(write)?, dollars(write_1h)?);
    let prices = Prices { input, output: dollars(output)?.unwrap_or(0) };
    Ok((cache.ok_or("needs input, above 0")?, prices))
}

fn without_secret(name: String) -> Checked<String> {
    if secret::holds_secret(&name) {
        return Err("looks like it holds a key, and is not shown here; a key goes through api_key_env".to_owned());
    }
    Ok(name)
}

fn timeout(value: &Raw<'_>) -> Checked<u64> {
    if value.is_number(0) {
        return Err("must not be 0, which Envoy takes as \"no timeout\"; give 1 to 60000 milliseconds".to_owned());
    }
    value.whole(1..=60_000)
}

/// The row that a typed name belongs to.
fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name || field.alias == Some(name))
}

/// A typed name as a constant, where it is one of ours.
pub(super) fn known_name(name: &str) -> Option<&'static str> {
    let field = find(name)?;
    if field.name == name { Some(field.name) } else { field.alias }
}

/// Reads every member; what is wrong goes to `problems` in the order of the text.
pub(super) fn read(document: &Document<'_>, problems: &mut Vec<Problem>) -> Draft {
    let mut draft = Draft::default();
    let mut seen = BTreeSet::new();
    for member in settings(document, problems) {
        let name = key(document, &member);
        if !seen.insert(name.clone()) {
            push_once(problems, Problem::new(shown(&name), "stands twice"));
            continue;
        }
        let Some(field) = find(&name) else {
            problems.push(Problem::new(shown(&name), names::refusal(&name)));
            continue;
        };
        if let Some(other) = draft.typed.iter().find(|typed| typed.field == field.name) {
            let problem = format!("is the same setting as {}, which stands beside it: keep one", other.name);
            problems.push(Problem::new(name.as_str(), problem));
        }
        let value = Raw { document: *document, span: member.value };
        if let Err(problem) = (field.read)(&mut draft, &value) {
            problems.push(Problem::new(name.as_str(), problem));
        }
        draft.typed.push(Typed { field: field.name, name });
    }
    draft
}

/// The members that are settings: those of the object itself, or of the object under its one wrapper key.
fn settings(document: &Document<'_>, problems: &mut Vec<Problem>) -> Vec<Member> {
    let outer: Vec<Member> = document.members(&document.root()).collect();
    let is_wrapper = |member: &&Member| WRAPPERS.contains(&key(document, member).as_str());
    let Some(wrapper) = outer.iter().find(is_wrapper) else {
        return outer;
    };
    let name = key(document, wrapper);
    for neighbour in outer.iter().filter(|member| *member != wrapper) {
        let other = key(document, neighbour);
        let problem = if other == name {
            "stands twice".to_owned()
        } else {
            format!("stands beside {name}, which must stand alone: move it inside")
        };
        push_once(problems, Problem::new(shown(&other), problem));
    }
    if document.kind(&wrapper.value) != Kind::Object {
        problems.push(Problem::new(name, "must be a JSON object"));
    }
    document.members(&wrapper.value).collect()
}

/// A member's name; empty where it is no text (a lone surrogate).
fn key(document: &Document<'_>, member: &Member) -> String {
    document.string(&member.key).unwrap_or_default().into_owned()
}

fn shown(name: &str) -> &str {
    if find(name).is_some() { name } else { names::shown(name) }
}

fn push_once(problems: &mut Vec<Problem>, problem: Problem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

impl Draft {
    /// The name under which the operator typed a field; our own where it is not there.
    fn name_of(&self, field: &'static str) -> &str {
        self.typed.iter().find(|typed| typed.field == field).map_or(field, |typed| &typed.name)
    }

    fn is_typed(&self, field: &'static str) -> bool {
        self.typed.iter().any(|typed| typed.field == field)
    }

    /// A named public host under `local`, the one thing that may not be said in any mode that removes.
    pub(super) fn contradiction(&self) -> Option<Problem> {
        let endpoint = self.endpoint.as_ref()?;
        (self.engine == Some(Engine::Local) && !endpoint.is_local()).then(|| {
            Problem::new(
                "endpoint",
                "must be a local host with engine local: a loopback, private or unique-local address, a name without \
                 dots, or one under .svc, .cluster.local, .local or .internal; any other host is engine remote",
            )
        })
    }

    /// What must still be said before anything can be removed. Fields that were typed and refused have their own
    /// problem already.
    pub(super) fn missing(&self) -> Vec<Problem> {
        let mut missing = Vec::new();
        for (field, problem) in [
            ("engine", "is missing: choose local or remote"),
            ("endpoint", "is missing: engines local and remote need it, as http(s)://host[:port][/path]"),
            ("model", "is missing: engines local and remote need the decision model's name"),
        ] {
            if !self.is_typed(field) {
                missing.push(Problem::new(field, problem));
            }
        }
        // A refused value of either field could have been the one that makes this fine.
        let refused = (self.is_typed("export") && self.export.is_none())
            || (self.is_typed("export_consent") && self.export_consent.is_none());
        let silent = self.export_consent != Some(true) && self.export != Some(Export::Metadata);
        if self.engine == Some(Engine::Remote) && silent && !refused {
            missing.push(Problem::new(
                self.name_of("export_consent"),
                "must be true with engine remote, which gets to see excerpts of prompts; or set export to metadata",
            ));
        }
        missing
    }

    /// A share of the window alone replaces the default.
    pub(super) fn threshold_tokens(&self) -> u64 {
        let default = if self.policy.threshold_ratio.is_some() { u64::MAX } else { DEFAULT_THRESHOLD };
        self.threshold_tokens.unwrap_or(default)
    }

    /// An analysis is an answer in place of the provider's: its request must not be on its way already.
    pub(super) fn unheld_analysis(&self) -> Option<Problem> {
        (self.policy.analyze_header && !self.policy.hold_headers).then(|| {
            Problem::new("analyze_header", "needs hold_headers: true, else the request's headers leave before it")
        })
    }

    /// The engine, where enough is said to ask one.
    pub(super) fn decider(&self, env: &impl Environment) -> Option<Decider> {
        let decision_threshold = self.decision_threshold.unwrap_or(Share::new(700));
        Some(Decider {
            engine: self.engine?,
            endpoint: self.endpoint.clone()?,
            cluster: self.cluster.clone().unwrap_or_else(|| "decision_engine".to_owned()),
            model: self.model.clone()?,
            api_key: self.api_key_env.as_ref().map(|variable| ApiKey::from_environment(variable, env)),
            export: self.export.unwrap_or(Export::Excerpts),
            timeout: Duration::from_millis(self.timeout_ms.unwrap_or(1_500)),
            decision_threshold,
            call_threshold: self.call_threshold.unwrap_or(decision_threshold),
        })
    }
}
