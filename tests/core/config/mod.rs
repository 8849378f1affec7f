//! The operator's configuration, as the design's table has it: what loads, what is refused, and with which words.

use std::collections::BTreeMap;
use std::time::Duration;

use context_compaction::models::{CachePrice, Model, Prices};
use context_compaction::policy::{
    BoundModels, Decider, Endpoint, Engine, Environment, Export, MEASURE_SWITCHES, Milli, Mode, OnEngineFailure,
    OutcomeCheck, Policy, Problem, ProcessEnvironment, ProviderCompaction, Removal, RequestHeader, SWITCHES, Share,
};

mod bad;
mod fields;

use fields::FIELDS;

/// An environment that holds what a test says and nothing else.
#[derive(Default)]
struct Fake(BTreeMap<&'static str, &'static str>);

impl Environment for Fake {
    fn var(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }
}

fn env<const N: usize>(variables: [(&'static str, &'static str); N]) -> Fake {
    Fake(BTreeMap::from(variables))
}

fn load(json: &str) -> Policy {
    load_in(json, &Fake::default())
}

fn load_in(json: &str, env: &Fake) -> Policy {
    Policy::parse(json.as_bytes(), env).unwrap_or_else(|problems| panic!("{json}: {problems:?}"))
}

fn refused(json: &str) -> Vec<Problem> {
    Policy::parse(json.as_bytes(), &Fake::default()).expect_err(json)
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

const BLOCK: &str = r#"{"compactacao":{"enabled":true,"engine":"local","endpoint":"http://127.0.0.1:8080","model":"m","api_key_env":"ATLASBERG_COMPACTACAO_API_KEY","limiar_tokens":40000,"piso_bytes":2048,"preservar_recentes":6,"limiar_decisao":0.7,"truncar_cabeca_chars":800,"timeout_ms":1500,"min_reducao":0.1,"consentimento_exportar_prompt":false}}"#;
const COMPLETE: &str = r#"{"engine":"local","endpoint":"http://e","model":"m"}"#;
const REMOTE: &str = r#"{"enabled":true,"engine":"remote","endpoint":"https://api.example.com","model":"m-1","api_key_env":"THE_KEY","export":"metadata"}"#;

fn object(members: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn the_documented_block_enforces() {
    let policy = load(BLOCK);
    assert_eq!(policy.mode, Mode::Enforce);
    let decider = policy.decider.as_ref().unwrap();
    assert_eq!(
        (decider.engine, decider.endpoint.authority.as_str(), decider.endpoint.path.as_str(), decider.endpoint.tls),
        (Engine::Local, "127.0.0.1:8080", "/v1/systemone", false)
    );
    assert_eq!((decider.cluster.as_str(), decider.model.as_str()), ("decision_engine", "m"));
    assert_eq!((decider.export, decider.timeout), (Export::Excerpts, Duration::from_millis(1500)));
    assert_eq!((decider.decision_threshold, decider.call_threshold), (Share::new(700), Share::new(700)));
    // Its values are the defaults.
    assert_eq!(Policy { mode: Mode::Off, decider: None, ..policy }, Policy::default());
}

#[test]
fn nothing_is_off() {
    for json in ["", " \r\n\t", "{}", r#"{"compactacao":{}}"#, r#"{"enabled":false}"#, COMPLETE] {
        let policy = load(json);
        assert_eq!(policy.mode, Mode::Off, "{json}");
        assert_eq!(policy.warnings(), [], "{json}");
    }
    assert_eq!(load(""), Policy::default());
    assert_eq!(load("{}"), Policy::default());
}

#[test]
fn every_field_arrives_where_it_belongs() {
    let policy = load(&object(FIELDS.iter().map(|(name, _, value)| (*name, *value))));
    let globs = |policy: &Policy| (policy.models_allowed.len(), policy.models_denied.len());
    assert_eq!(globs(&policy), (2, 1));
    let decider = Decider {
        engine: Engine::Remote,
        endpoint: Endpoint {
            authority: "engine.example.com:443".to_owned(),
            path: "/api/alpha/decisions".to_owned(),
            tls: true,
        },
        cluster: "outbound|443||engine.ns.svc.cluster.local".to_owned(),
        model: "Org/Model-7B:1.2".to_owned(),
        api_key: policy.decider.clone().unwrap().api_key,
        export: Export::Metadata,
        timeout: Duration::from_millis(250),
        decision_threshold: Share::new(750),
        call_threshold: Share::new(900),
    };
    assert_eq!(decider.api_key.as_ref().unwrap().variable, "MY_KEY_2");
    let wanted = Policy {
        mode: Mode::Enforce,
        decider: Some(decider),
        threshold_tokens: 1_000,
        threshold_ratio: Some(Milli::new(400)),
        bytes_per_token: Milli::new(2_800),
        floor_bytes: 4_096,
        preserve_recent: 8,
        truncate_head_chars: 500,
        min_reduction: Milli::new(125),
        removal: Removal::Portable,
        bound_models: BoundModels::WithoutReasoning,
        allow_drop_block: true,
        models_allowed: policy.models_allowed.clone(),
        models_denied: policy.models_denied.clone(),
        provider_compaction: ProviderCompaction::Ignore,
        max_body_bytes: 2_000_000,
        buffer_unknown_length: true,
        hold_headers: true,
        signed_after_filter: true,
        switch_notes: vec![],
        epoch_tokens: 0,
        epoch_pairs: 1,
        cost_gate: false,
        gate_horizon: Milli::new(500),
        target_ratio: Some(Milli::new(300)),
        max_removed_share: Milli::new(500),
        max_prefix_changes: 7,
        on_engine_failure: OnEngineFailure::KeepDecided,
        new_conversations_only: true,
        holdout: Milli::new(50),
        deterministic_tools: policy.deterministic_tools.clone(),
        engine_price_per_mtok: Milli::new(40),
        known_models: policy.known_models.clone(),
        response_headers: true,
        request_header: RequestHeader::Trusted,
        analyze_header: true,
        outcome_check: OutcomeCheck::StopNew,
    };
    let known = policy.model("our-own");
    let prices = Some(Prices { input: 2_000_000_000, output: 8_250_000_000 });
    assert_eq!(known, Model { limit: 64_000, cache: CachePrice { read: 250, write: 1_000, write_1h: 1_000 }, prices });
    assert_eq!(policy.deterministic_tools.as_ref().map(Vec::len), Some(1));
    assert_eq!(policy, wanted);
}

#[test]
fn other_names_and_wrappers_change_nothing() {
    let plain = object(FIELDS.iter().map(|(name, _, value)| (*name, *value)));
    let others = object(FIELDS.iter().map(|(name, other, value)| (other.unwrap_or(name), *value)));
    assert_ne!(plain, others);
    for json in [
        others.clone(),
        format!("{{\"compactacao\":{others}}}"),
        format!(" {{ \"context_compaction\" : {plain} }} "),
        plain.replace("\"model\"", "\"mod\\u0065l\""),
    ] {
        assert_eq!(load(&json), load(&plain), "{json}");
    }
}

#[test]
fn every_choice_can_be_chosen() {
    let policy = load(r#"{"removal":"full","bound_models":"stand_down","provider_compaction":"respect"}"#);
    assert_eq!(policy.removal, Removal::Full);
    assert_eq!(load(r#"{"removal":"auto"}"#), Policy::default());
    let policy = load(
        r#"{"enabled":true,"engine":"remote","endpoint":"http://e","model":"m","export":"excerpts","export_consent":true}"#,
    );
    assert_eq!((policy.mode, policy.decider.unwrap().export), (Mode::Enforce, Export::Excerpts));
}

#[test]
fn numbers_may_be_written_in_any_way_that_json_has() {
    for (json, wanted) in [
        (r#"{"max_body_bytes":1e+06}"#, Policy { max_body_bytes: 1_000_000, ..Policy::default() }),
        (r#"{"preserve_recent":6.0}"#, Policy { preserve_recent: 6, ..Policy::default() }),
        (r#"{"min_reduction":1}"#, Policy { min_reduction: Milli::new(1_000), ..Policy::default() }),
        (r#"{"min_reduction":1E-3}"#, Policy { min_reduction: Milli::new(1), ..Policy::default() }),
        (r#"{"bytes_per_token":3.500000}"#, Policy { bytes_per_token: Milli::new(3_500), ..Policy::default() }),
        (r#"{"config_revision":"any text"}"#, Policy::default()),
        (r#"{"epoch_tokens":0.0,"epoch_pairs":1.0}"#, Policy { epoch_pairs: 1, ..Policy::default() }),
    ] {
        assert_eq!(load(json), wanted, "{json}");
    }
}

#[test]
fn ranges_end_where_they_say() {
    for (field, low, high, above) in [
        ("threshold_tokens", "0", "100000000", "100000001"),
        ("floor_bytes", "0", "1000000000", "1000000001"),
        ("preserve_recent", "0", "1000000000", "1000000001"),
        ("truncate_head_chars", "0", "1000000000", "1000000001"),
        ("timeout_ms", "1", "60000", "60001"),
        ("max_body_bytes", "1", "1000000000", "1000000001"),
        ("decision_threshold", "0", "1", "1.001"),
        ("call_threshold", "0", "1", "1.001"),
        ("min_reduction", "0", "1", "1.001"),
        ("bytes_per_token", "1", "16", "16.001"),
    ] {
        for value in [low, high] {
            load(&format!("{{\"{field}\":{value}}}"));
        }
        for value in ["-1", above] {
            let found = lines(&refused(&format!("{{\"{field}\":{value}}}")));
            assert_eq!(found, [format!("{field}: must be between {low} and {high}")]);
        }
    }
    assert_eq!(refused(r#"{"bytes_per_token":0.999}"#).len(), 1);
}

#[test]
fn the_call_threshold_follows_the_decision_threshold() {
    let thresholds = |members: &str| {
        let json = COMPLETE.replace('}', &format!("{members}}}"));
        let decider = load(&json).decider.unwrap();
        (decider.decision_threshold.thousandths(), decider.call_threshold.thousandths())
    };
    assert_eq!(thresholds(""), (700, 700));
    assert_eq!(thresholds(r#","limiar_decisao":0.8"#), (800, 800));
    assert_eq!(thresholds(r#","call_threshold":0.9"#), (700, 900));
    assert_eq!(thresholds(r#","call_threshold":0.9,"decision_threshold":0.2"#), (200, 900));
    assert!(Share::new(700).as_f64() <= 0.7 && Share::new(701).as_f64() > 0.7);
}

#[test]
fn the_threshold_in_bytes_rounds_up_and_never_overflows() {
    let bytes = |threshold_tokens, bytes_per_token| {
        Policy { bytes_per_token: Milli::new(bytes_per_token), ..Policy::default() }.bytes_of(threshold_tokens)
    };
    assert_eq!(bytes(40_000, 3_000), 120_000);
    assert_eq!(bytes(0, 3_000), 0);
    assert_eq!(bytes(3, 1_001), 4);
    assert_eq!(bytes(1_000, 1_001), 1_001);
    assert_eq!(bytes(u64::MAX, 16_000), usize::try_from(u64::MAX.div_ceil(1_000)).unwrap());
}

#[test]
fn a_share_of_the_window_replaces_the_default_and_the_lower_of_two_thresholds_counts() {
    for (members, model, tokens) in [
        (r#""threshold_ratio":0.5"#, "gpt-4o", 64_000),
        (r#""threshold_ratio":0.5"#, "claude-sonnet-4-5", 100_000),
        (r#""threshold_ratio":0.5,"limiar_tokens":70000"#, "gpt-4o", 64_000),
        (r#""threshold_ratio":0.5,"limiar_tokens":70000"#, "claude-sonnet-4-5", 70_000),
        (r#""threshold_ratio":0.5,"models":{"gpt-*":1000}"#, "gpt-4o", 500),
        (r#""threshold_ratio":0.5"#, "unheard-of", 64_000),
        ("", "gpt-4o", 40_000),
    ] {
        let policy = load(&format!("{{{members}}}"));
        assert_eq!(policy.threshold_for(model), tokens, "{members} {model}");
        assert_eq!(policy.least_body(), if members.is_empty() { 120_000 } else { 0 });
    }
}

#[test]
fn the_first_pattern_that_fits_a_model_counts_for_limits_and_for_prices() {
    let policy = load(
        r#"{"models":{"a-1":10,"a-*":20},"pricing":{"a-*":{"input":1,"cache_read":0.1,"cache_write":1.25},"gpt-4o":{"input":1}}}"#,
    );
    let limits = ["a-1", "a-2", "b-1"].map(|model| policy.model(model).limit);
    assert_eq!(limits, [10, 20, 128_000]);
    let cache = CachePrice { read: 100, write: 1_250, write_1h: 1_250 };
    assert_eq!(policy.model("a-1").cache, cache);
    let theirs = policy.model("gpt-4o");
    assert_eq!((theirs.limit, theirs.cache.read), (128_000, 1_000), "a missing price is that of fresh input");
}

#[test]
fn models_are_admitted_by_pattern() {
    let policy = load(r#"{"models_allowed":["GPT-*","claude-?"],"models_denied":["*-mini"]}"#);
    for (model, admitted) in
        [("gpt-5", true), ("gpt-5-MINI", false), ("claude-4", true), ("claude-45", false), ("o3", false), ("", false)]
    {
        assert_eq!(policy.admits_model(model), admitted, "{model}");
    }
    assert!(load("{}").admits_model("anything"));
    let many = |patterns: usize| format!("{{\"models_denied\":[{}]}}", vec!["\"x\""; patterns].join(","));
    assert_eq!(load(&many(64)).models_denied.len(), 64);
    assert_eq!(lines(&refused(&many(65))), [format!("models_denied: {}", bad::GLOBS)]);
    let denied = load(r#"{"models_allowed":[],"models_denied":["o?"]}"#);
    assert!(denied.admits_model("gpt-5") && !denied.admits_model("o3"));
}

#[test]
fn bad_configurations_get_exactly_their_problems() {
    assert!(bad::BAD.len() >= 80);
    for (json, wanted) in bad::BAD {
        let found = refused(json);
        let found: Vec<(&str, &str)> =
            found.iter().map(|problem| (problem.field.as_str(), problem.problem.as_str())).collect();
        assert_eq!(found, *wanted, "{json}");
    }
}

#[test]
fn bytes_that_are_no_json_text_are_told_what_to_be() {
    let refused = |json: &[u8]| lines(&Policy::parse(json, &Fake::default()).unwrap_err());
    // What Envoy 1.40 hands over for a Struct { enabled: true }.
    let protobuf =
        ["configuration: arrived as serialized protobuf (a google.protobuf.Struct): give the JSON text in a \
                     google.protobuf.StringValue"];
    assert_eq!(refused(b"\n\x0d\n\x07enabled\x12\x02 \x01"), protobuf);
    assert_eq!(refused(b"\x08\x01"), protobuf);
    assert_eq!(refused(b"{\"model\":\"\xff\"}"), ["configuration: is not UTF-8 text"]);
}

/// Fails unless the row could have leaked something.
fn assert_no_leak(json: &str, problems: &[Problem]) {
    assert!(["canary", "CANARY", "7731"].iter().any(|value| json.contains(value)), "no canary in {json}");
    for line in lines(problems) {
        let leaks = line.to_lowercase().contains("canary") || line.contains("7731");
        assert!(!leaks, "{json}: {line}");
    }
}

#[test]
fn no_message_repeats_a_value() {
    for (json, _) in bad::BAD {
        assert_no_leak(json, &refused(json));
    }
}

#[test]
fn every_field_refuses_every_wrong_type_by_its_typed_name_without_repeating_it() {
    let wrong = [
        "null",
        r#"[{"canary":"canary"}]"#,
        r#"{"canary":{"canary":7731}}"#,
        "-7731.77317731",
        "7731e7731",
        r#""canary\n7731""#,
        r#""0.7731""#,
        r#""\udc00 canary""#,
        r#"["canary",7731]"#,
    ];
    for (name, other, _) in FIELDS {
        for name in [Some(*name), *other].into_iter().flatten() {
            for value in wrong {
                let json = format!("{{\"{name}\":{value},\"sticky_tools\":\"canary\"}}");
                // Any text or number will do as a revision; text is right for these two.
                let harmless = match name {
                    "config_revision" => !value.starts_with(['n', '[', '{']) && !value.contains("udc00"),
                    "model" | "cluster" => value == r#""0.7731""#,
                    _ => false,
                };
                let problems = refused(&json);
                let named = problems.iter().filter(|problem| problem.field == name).count();
                assert_eq!(named, usize::from(!harmless), "{json}: {problems:?}");
                assert_no_leak(&json, &problems);
            }
        }
    }
}

#[test]
fn damaged_text_is_refused_or_read_but_never_a_trap() {
    let bytes = BLOCK.replace("\"m\"", "\"cánary 7731\"").into_bytes();
    for at in 0..bytes.len() {
        for damage in [None, Some(b'"'), Some(b'\\'), Some(b','), Some(b':'), Some(b'{'), Some(0), Some(0xc3)] {
            let mut damaged = bytes.clone();
            match damage {
                None => damaged.truncate(at),
                Some(byte) => damaged[at] = byte,
            }
            for line in Policy::parse(&damaged, &Fake::default()).map_or_else(|problems| lines(&problems), |_| vec![]) {
                assert!(!line.contains("nary") && !line.contains("7731"), "{at} {damage:?}: {line}");
            }
        }
    }
}

#[test]
fn many_mistakes_are_all_named() {
    let json = object(FIELDS.iter().map(|(name, _, _)| (*name, "null")));
    let found: Vec<String> = refused(&json).into_iter().map(|problem| problem.field).collect();
    let wanted: Vec<&str> = FIELDS.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(found, wanted);
}

#[test]
fn the_switch_enables_a_complete_configuration_only() {
    for switch in SWITCHES {
        for value in ["1", "true", " TRUE\n"] {
            let env = env([(switch, value)]);
            assert_eq!(load_in(COMPLETE, &env).mode, Mode::Enforce);
            // What the configuration says itself counts more.
            let off = COMPLETE.replace('{', r#"{"enabled":false,"#);
            assert_eq!(load_in(&off, &env).mode, Mode::Off);
            assert_eq!(load_in(&off, &env).warnings(), []);
            assert_eq!(load_in(r#"{"enabled":false}"#, &env), Policy::default());
        }
        for value in ["", "0", "false"] {
            let policy = load_in(COMPLETE, &env([(switch, value)]));
            assert_eq!((policy.mode, policy.warnings()), (Mode::Off, vec![]));
        }
        let policy = load_in(COMPLETE, &env([(switch, "canary")]));
        assert_eq!(policy.mode, Mode::Off);
        assert_eq!(lines(&policy.warnings()), [format!("{switch}: has no effect: only 1 or true turns removal on")]);
    }
    assert_eq!(load_in(COMPLETE, &env([(SWITCHES[0], "0"), (SWITCHES[1], "1")])).mode, Mode::Enforce);
    assert_eq!(load_in(COMPLETE, &env([("OTHER_ENABLED", "1")])).mode, Mode::Off);
}

#[test]
fn measuring_is_a_wish_of_its_own_and_removing_beats_it() {
    let with = |members: &str| COMPLETE.replace('{', &format!("{{{members},"));
    let none = Fake::default();
    for switch in MEASURE_SWITCHES {
        let env = env([(switch, "1")]);
        assert_eq!(load_in(COMPLETE, &env).mode, Mode::Measure, "{switch}");
        assert_eq!(load_in(&with(r#""enabled":false"#), &env).mode, Mode::Measure, "measuring works while it is off");
        assert_eq!(load_in(&with(r#""measure":false"#), &env).mode, Mode::Off, "the configuration can switch it off");
        assert_eq!(load_in(&with(r#""enabled":true"#), &env).mode, Mode::Enforce);
        let silent = load_in("", &env);
        assert_eq!((silent.mode, silent.warnings().len()), (Mode::Off, 3), "it lacks an engine, and says so");
    }
    assert_eq!(load_in(&with(r#""measure":true"#), &none).mode, Mode::Measure);
    assert_eq!(load_in(&with(r#""measure":true,"enabled":true"#), &none).mode, Mode::Enforce);
    let both = env([(MEASURE_SWITCHES[0], "1"), (SWITCHES[0], "1")]);
    assert_eq!(load_in(COMPLETE, &both).mode, Mode::Enforce);
    assert_eq!(load_in(&with(r#""enabled":false"#), &both).mode, Mode::Measure);
    let problems = refused(r#"{"measure":true}"#);
    assert_eq!(problems.iter().map(|p| p.field.as_str()).collect::<Vec<_>>(), ["engine", "endpoint", "model"]);
    let policy = load_in(COMPLETE, &env([(MEASURE_SWITCHES[1], "canary")]));
    let note = format!("{}: has no effect: only 1 or true turns measuring on", MEASURE_SWITCHES[1]);
    assert_eq!((policy.mode, lines(&policy.warnings())), (Mode::Off, vec![note]));
}

#[test]
fn the_switch_on_an_incomplete_configuration_stays_off_and_says_why() {
    let env = env([(SWITCHES[0], "1")]);
    let until = "; until then the environment switch has no effect";
    let engine = format!("engine: {}{until}", bad::NO_ENGINE);
    let endpoint = format!("endpoint: {}{until}", bad::NO_ENDPOINT);
    let model = format!("model: {}{until}", bad::NO_MODEL);
    let consent = format!("consentimento_exportar_prompt: {}{until}", bad::CONSENT);
    for (json, wanted) in [
        ("", vec![&engine, &endpoint, &model]),
        ("{}", vec![&engine, &endpoint, &model]),
        (r#"{"engine":"local","endpoint":"http://e"}"#, vec![&model]),
        (r#"{"endpoint":"https://x.example.com","model":"m"}"#, vec![&engine]),
        (
            r#"{"engine":"remote","endpoint":"https://x.example.com","model":"m","consentimento_exportar_prompt":false}"#,
            vec![&consent],
        ),
    ] {
        let policy = load_in(json, &env);
        assert_eq!(policy.mode, Mode::Off, "{json}");
        assert_eq!(lines(&policy.warnings()).iter().collect::<Vec<_>>(), wanted, "{json}");
    }
}

#[test]
fn rules_between_fields_hold_whatever_turns_removal_on() {
    let public = r#"{"engine":"local","endpoint":"https://api.example.com","model":"m"}"#;
    let wanted = vec![format!("endpoint: {}", bad::NOT_LOCAL)];
    assert_eq!(lines(&refused(&public.replace('{', r#"{"enabled":true,"#))), wanted);
    assert_eq!(lines(&Policy::parse(public.as_bytes(), &env([(SWITCHES[1], "1")])).unwrap_err()), wanted);
    // Off is off: nothing is asked, so nothing has to fit.
    assert_eq!(load(public).mode, Mode::Off);
    assert_eq!(load_in(&public.replace('{', r#"{"enabled":false,"#), &env([(SWITCHES[1], "1")])).mode, Mode::Off);
    // The switch excuses what is missing, not what is wrong.
    let wrong = Policy::parse(br#"{"modell":"canary"}"#, &env([(SWITCHES[0], "1")])).unwrap_err();
    assert_eq!(wrong[0].field, "modell");
}

#[test]
fn a_remote_engine_needs_consent_or_metadata() {
    let remote = |members: &str| {
        let json = r#"{"enabled":true,"engine":"remote","endpoint":"https://x.y","model":"m""#;
        Policy::parse(format!("{json}{members}}}").as_bytes(), &Fake::default()).map(|policy| policy.mode)
    };
    assert_eq!(remote(r#","export_consent":true"#), Ok(Mode::Enforce));
    assert_eq!(remote(r#","export":"metadata""#), Ok(Mode::Enforce));
    assert_eq!(remote(r#","export":"metadata","export_consent":false"#), Ok(Mode::Enforce));
    let refused = [Problem { field: "export_consent".to_owned(), problem: bad::CONSENT.to_owned() }];
    assert_eq!(remote(r#","export":"excerpts","export_consent":false"#).unwrap_err(), refused);
    assert_eq!(remote("").unwrap_err(), refused);
}

#[test]
fn keys_come_from_the_environment_and_are_never_shown() {
    let policy = load_in(REMOTE, &env([("THE_KEY", "canary-7731\n")]));
    assert!(!format!("{policy:?}").contains("canary"));
    assert_eq!(policy.warnings(), []);
    let key = policy.decider.unwrap().api_key.unwrap();
    assert_eq!((key.variable.as_str(), key.value.unwrap().expose()), ("THE_KEY", "canary-7731"));
    assert_eq!(load(&COMPLETE.replace('{', r#"{"enabled":true,"#)).warnings(), []);
}

#[test]
fn a_missing_or_empty_key_loads_and_is_warned_about() {
    let local = BLOCK.replace("ATLASBERG_COMPACTACAO_API_KEY", "THE_KEY");
    for (json, effect) in
        [(REMOTE, "requests pass untouched until it is set"), (local.as_str(), "the engine is called without a key")]
    {
        for env in [env([]), env([("THE_KEY", "")]), env([("THE_KEY", " \n")])] {
            let policy = load_in(json, &env);
            assert_eq!(policy.mode, Mode::Enforce);
            assert_eq!(
                lines(&policy.warnings()),
                [format!(
                    "api_key_env: the environment variable THE_KEY is missing, empty or no header value (is it listed \
                     in the plugin's environment?): {effect}"
                )]
            );
            assert_eq!(policy.decider.unwrap().api_key.unwrap().value, None);
        }
    }
}

#[test]
fn other_warnings() {
    let env = env([("THE_KEY", "k")]);
    let moving = ["model: is an alias that the service can move, and a move re-decides every conversation without \
                   notice: name a fixed version"];
    assert_eq!(lines(&load_in(&REMOTE.replace("m-1", "jev-latest"), &env).warnings()), moving);
    assert_eq!(lines(&load_in(&REMOTE.replace("m-1", "JEV:Latest"), &env).warnings()), moving);
    assert_eq!(load_in(&REMOTE.replace("m-1", "latest-jev"), &env).warnings(), []);
    let local = COMPLETE.replace('{', r#"{"enabled":true,"#).replace("\"m\"", "\"jev-latest\"");
    assert_eq!(load(&local).warnings(), []);
    // A filter that is off has nothing to warn about.
    assert_eq!(load(&REMOTE.replace("true", "false").replace("m-1", "jev-latest")).warnings(), []);
    let small = COMPLETE.replace('{', r#"{"enabled":true,"max_body_bytes":119999,"#);
    assert_eq!(
        lines(&load(&small).warnings()),
        ["max_body_bytes: is below threshold_tokens x bytes_per_token, so that no request is ever worked on"]
    );
    assert_eq!(load(&small.replace("119999", "120000")).warnings(), []);
}

#[test]
fn the_process_environment_is_read() {
    assert_eq!(ProcessEnvironment.var("PATH"), std::env::var("PATH").ok());
    assert!(ProcessEnvironment.var("PATH").is_some());
    assert_eq!(ProcessEnvironment.var("CONTEXT_COMPACTION_NO_SUCH_VARIABLE"), None);
}
