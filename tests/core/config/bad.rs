//! Configurations that are refused, each with every problem that it has.

pub(super) const OBJECT: &str = "must be a JSON object, such as { \"enabled\": false }";
pub(super) const DECIMALS: &str = "must have at most three decimals: the filter counts in thousandths, so that no two builds round \
    differently";
pub(super) const SELECTIVE: &str = "must be selective: this filter never writes text, so it has no summaries; selective removal is the \
    nearest it offers";
pub(super) const KEY: &str =
    "is not accepted: a key does not belong here; put the NAME of an environment variable in api_key_env";
pub(super) const LOOKS_LIKE_A_KEY: &str =
    "looks like it holds a key, and is not shown here; a key goes through api_key_env";
pub(super) const GLOBS: &str = "must be a list of at most 64 patterns, each text of 1 to 128 characters";
pub(super) const NAMED: &str = "must be an object of at most 64 members, each named by a pattern over models";
pub(super) const MEMBERS: &str =
    "a member must be an object with members out of input, cache_read, cache_write, cache_write_1h, output";
pub(super) const NOT_A_NAME: &str = "must be the NAME of an environment variable (letters, digits and _, no digit first, at most 128 \
    characters); its value is not shown here";
pub(super) const NOT_A_NAME_BUT_A_KEY: &str = "must be the NAME of an environment variable; what stands there looks like a key itself, and is not shown \
    here";
pub(super) const NO_ENGINE: &str = "is missing: choose local or remote";
pub(super) const NO_ENDPOINT: &str = "is missing: engines local and remote need it, as http(s)://host[:port][/path]";
pub(super) const NO_MODEL: &str = "is missing: engines local and remote need the decision model's name";
pub(super) const CONSENT: &str =
    "must be true with engine remote, which gets to see excerpts of prompts; or set export to metadata";
pub(super) const NOT_LOCAL: &str = "must be a local host with engine local: a loopback, private or unique-local address, a name without dots, \
    or one under .svc, .cluster.local, .local or .internal; any other host is engine remote";
pub(super) const LATER: &str = "is not available in this version";
pub(super) const INSIDE: &str = "stands beside compactacao, which must stand alone: move it inside";
pub(super) const MODEL_NAME: &str =
    "must be a model's name: 1 to 256 bytes, no space at its ends, no control characters";
pub(super) const CLUSTER_NAME: &str = "must be the name of an Envoy cluster: 1 to 256 visible ASCII characters";
pub(super) const ZERO_TIMEOUT: &str =
    "must not be 0, which Envoy takes as \"no timeout\"; give 1 to 60000 milliseconds";
pub(super) const HOST: &str = "must have a host: a name of letters, digits, - and _ between dots, an IPv4 address, or an IPv6 address \
    between [ and ]";
pub(super) const HIDDEN: &str = "a field name that is not an identifier";
pub(super) const NO_USER: &str = "must have no user or password before the host; a key goes through api_key_env";
pub(super) const NO_QUERY: &str = "must have no query and no fragment; a key goes through api_key_env";
pub(super) const PATH_KEY: &str =
    "must not hold a key in its path, and something there looks like one; a key goes through api_key_env";
pub(super) const PORT: &str = "must have a port between 1 and 65535 after the colon";
pub(super) const IPV4: &str = "must have an IPv4 address of four decimal numbers where the host ends in a number";
pub(super) const FLAG: &str = "must be true or false";
pub(super) const QUOTED_FLAG: &str = "must be true or false, without quotes";
pub(super) const WHOLE: &str = "must be a whole number";
pub(super) const QUOTED_WHOLE: &str = "must be a whole number, without quotes";
pub(super) const TEXT: &str = "must be text in double quotes";
pub(super) const UNKNOWN: &str = "is not a known field";
pub(super) const TWICE: &str = "stands twice";

/// Text of a configuration, and every problem it has: field and message.
pub(super) type Bad = (&'static str, &'static [(&'static str, &'static str)]);

/// Every value in here holds "canary" or "7731", which no message may repeat.
pub(super) const BAD: &[Bad] = &[
    // The text as a whole
    ("null // canary", &[("configuration", OBJECT)]),
    ("7731", &[("configuration", OBJECT)]),
    (r#"[{"model":"canary"}]"#, &[("configuration", OBJECT)]),
    (r#""{\"model\":\"canary\"}""#, &[("configuration", OBJECT)]),
    (r#""model": "canary", "enabled": true"#, &[("configuration", "is a fragment: wrap it in { }")]),
    ("enabled: canary", &[("configuration", OBJECT)]),
    ("\u{feff}{\"model\":\"canary\"}", &[("configuration", "begins with a byte order mark: save the text without it")]),
    (r#"{"model":"canary""#, &[("model", "is not valid JSON in or after its value (line 1, column 17)")]),
    (r#"{"model":"canary",}"#, &[("configuration", "is not valid JSON (line 1, column 19)")]),
    (r#"{"model":'canary'}"#, &[("model", "is not valid JSON in or after its value (line 1, column 10)")]),
    (
        r#"{"model":"canary" "enabled":true}"#,
        &[("model", "is not valid JSON in or after its value (line 1, column 19)")],
    ),
    (
        r#"{"decision_threshold":NaN,"config_revision":"canary"}"#,
        &[("decision_threshold", "must be a value that JSON can hold; NaN and infinity are none (line 1, column 23)")],
    ),
    (
        r#"{"config_revision":"canary","limiar_decisao": -Infinity}"#,
        &[("limiar_decisao", "must be a value that JSON can hold; NaN and infinity are none (line 1, column 48)")],
    ),
    (
        r#"{"compactacao":{"config_revision":"canary","timeout_ms" : .7731}}"#,
        &[("timeout_ms", "is not valid JSON in or after its value (line 1, column 59)")],
    ),
    // Wrappers
    (r#"{"compactacao":{"config_revision":"canary"},"enabled":true}"#, &[("enabled", INSIDE)]),
    (r#"{"compactacao":{"config_revision":"canary"},"context_compaction":{}}"#, &[("context_compaction", INSIDE)]),
    (r#"{"compactacao":{"config_revision":"canary"},"compactacao":{},"compactacao":{}}"#, &[("compactacao", TWICE)]),
    (r#"{"compactacao":"canary"}"#, &[("compactacao", "must be a JSON object")]),
    (r#"{"context_compaction":[7731]}"#, &[("context_compaction", "must be a JSON object")]),
    (r#"{"compactacao":{"compactacao":{"model":"canary"}}}"#, &[("compactacao", UNKNOWN)]),
    (r#"{"canary b":1,"compactacao":{"model":7731}}"#, &[(HIDDEN, INSIDE), ("model", TEXT)]),
    // Names
    (r#"{"modell":"canary"}"#, &[("modell", "is not a known field; did you mean model?")]),
    (r#"{"thresholdTokens":7731}"#, &[("thresholdTokens", "is not a known field; did you mean threshold_tokens?")]),
    (r#"{"limiar_token":7731}"#, &[("limiar_token", "is not a known field; did you mean limiar_tokens?")]),
    (r#"{"temperature":7731}"#, &[("temperature", UNKNOWN)]),
    (r#"{"include_tools":["canary"]}"#, &[("include_tools", LATER)]),
    (
        r#"{"sticky_tools":7731,"protect_arguments":["canary"]}"#,
        &[("sticky_tools", LATER), ("protect_arguments", LATER)],
    ),
    (
        r#"{"canary key":1,"":2,"1canary":3,"\ud800":4,"Zx81Kq20Lm39canary7Rt56Yu65":5,"sk-canary":6}"#,
        &[
            (HIDDEN, UNKNOWN),
            (HIDDEN, UNKNOWN),
            (HIDDEN, UNKNOWN),
            (HIDDEN, TWICE),
            (HIDDEN, UNKNOWN),
            (HIDDEN, UNKNOWN),
        ],
    ),
    (
        r#"{"enabled":true,"model":"canary","enabled":false,"engine":"local","endpoint":"http://e","enabled":true}"#,
        &[("enabled", TWICE)],
    ),
    (r#"{"mod\u0065l":"canary","model":"canary"}"#, &[("model", TWICE)]),
    (r#"{"other_x":1,"other_x":7731}"#, &[("other_x", UNKNOWN), ("other_x", TWICE)]),
    (
        r#"{"threshold_tokens":77310,"limiar_tokens":77311}"#,
        &[("limiar_tokens", "is the same setting as threshold_tokens, which stands beside it: keep one")],
    ),
    (
        r#"{"limiar_tokens":-7731,"threshold_tokens":"canary"}"#,
        &[
            ("limiar_tokens", "must be between 0 and 100000000"),
            ("threshold_tokens", "is the same setting as limiar_tokens, which stands beside it: keep one"),
            ("threshold_tokens", QUOTED_WHOLE),
        ],
    ),
    (r#"{"maxContextLength":7731}"#, &[("maxContextLength", "is another system's name; here it is threshold_tokens")]),
    (r#"{"preserveLastN":7731}"#, &[("preserveLastN", "is another system's name; here it is preserve_recent")]),
    (
        r#"{"compressionRatio":0.7731}"#,
        &[("compressionRatio", "is another system's name; here it is min_reduction or target_ratio")],
    ),
    (
        r#"{"compressionStrategy":"canary"}"#,
        &[("compressionStrategy", "is another system's name; here it is strategy")],
    ),
    (
        r#"{"autoContextCompression":"canary"}"#,
        &[("autoContextCompression", "is another system's name; here it is enabled")],
    ),
    (
        r#"{"compactionThreshold":7731}"#,
        &[("compactionThreshold", "is another system's name; here it is threshold_tokens")],
    ),
    (
        r#"{"providerCompactionEnabled":"canary"}"#,
        &[("providerCompactionEnabled", "is another system's name; here it is provider_compaction")],
    ),
    (
        r#"{"api_key":"canary","apiKey":"canary","key":"canary","token":"canary"}"#,
        &[("api_key", KEY), ("apiKey", KEY), ("key", KEY), ("token", KEY)],
    ),
    // Types and ranges
    (r#"{"enabled":"canary"}"#, &[("enabled", QUOTED_FLAG)]),
    (r#"{"enabled":7731}"#, &[("enabled", FLAG)]),
    (
        r#"{"engine":"builtin","config_revision":"canary"}"#,
        &[("engine", "is not available in this version; choose local or remote")],
    ),
    (r#"{"engine":"canary"}"#, &[("engine", "must be local or remote")]),
    (r#"{"engine":7731}"#, &[("engine", "must be local or remote")]),
    (r#"{"model":7731}"#, &[("model", TEXT)]),
    (r#"{"model":" canary"}"#, &[("model", MODEL_NAME)]),
    (r#"{"model":""  ,"cluster":"canary 7731"}"#, &[("model", MODEL_NAME), ("cluster", CLUSTER_NAME)]),
    (r#"{"model":"sk-canary","cluster":"ghp_canary"}"#, &[("model", LOOKS_LIKE_A_KEY), ("cluster", LOOKS_LIKE_A_KEY)]),
    (r#"{"model":"m:Zx81Kq20Lm39canary7Rt56Yu65"}"#, &[("model", LOOKS_LIKE_A_KEY)]),
    (r#"{"model":"\ud800canary"}"#, &[("model", "must be valid Unicode text")]),
    (r#"{"cluster":["canary"]}"#, &[("cluster", TEXT)]),
    (r#"{"threshold_tokens":"7731"}"#, &[("threshold_tokens", QUOTED_WHOLE)]),
    (r#"{"threshold_tokens":7731.5}"#, &[("threshold_tokens", WHOLE)]),
    (r#"{"threshold_tokens":-7731}"#, &[("threshold_tokens", "must be between 0 and 100000000")]),
    (r#"{"threshold_tokens":773100000}"#, &[("threshold_tokens", "must be between 0 and 100000000")]),
    (r#"{"limiar_tokens":1e999,"config_revision":"canary"}"#, &[("limiar_tokens", "must be between 0 and 100000000")]),
    (r#"{"floor_bytes":"NaN","config_revision":"canary"}"#, &[("floor_bytes", QUOTED_WHOLE)]),
    (r#"{"piso_bytes":77310000000000000000000}"#, &[("piso_bytes", "must be between 0 and 1000000000")]),
    (r#"{"preserve_recent":{"canary":7731}}"#, &[("preserve_recent", WHOLE)]),
    (r#"{"preservar_recentes":"canary"}"#, &[("preservar_recentes", QUOTED_WHOLE)]),
    (r#"{"decision_threshold":7731}"#, &[("decision_threshold", "must be between 0 and 1")]),
    (r#"{"decision_threshold":0.77311}"#, &[("decision_threshold", DECIMALS)]),
    (r#"{"decision_threshold":"0.7731"}"#, &[("decision_threshold", "must be a number, without quotes")]),
    (r#"{"limiar_decisao":-0.7731}"#, &[("limiar_decisao", "must be between 0 and 1")]),
    (r#"{"limiar_decisao":0.70000000000000000007731}"#, &[("limiar_decisao", DECIMALS)]),
    (r#"{"call_threshold":1.001,"config_revision":"canary"}"#, &[("call_threshold", "must be between 0 and 1")]),
    (r#"{"call_threshold":null,"config_revision":"canary"}"#, &[("call_threshold", "must be a number")]),
    (r#"{"truncate_head_chars":true,"config_revision":"canary"}"#, &[("truncate_head_chars", WHOLE)]),
    (
        r#"{"truncar_cabeca_chars":-1,"config_revision":"canary"}"#,
        &[("truncar_cabeca_chars", "must be between 0 and 1000000000")],
    ),
    (r#"{"timeout_ms":0,"config_revision":"canary"}"#, &[("timeout_ms", ZERO_TIMEOUT)]),
    (r#"{"timeout_ms":-0.0,"config_revision":"canary"}"#, &[("timeout_ms", ZERO_TIMEOUT)]),
    (r#"{"timeout_ms":77310}"#, &[("timeout_ms", "must be between 1 and 60000")]),
    (r#"{"timeout_ms":"canary"}"#, &[("timeout_ms", QUOTED_WHOLE)]),
    (r#"{"min_reduction":1.7731}"#, &[("min_reduction", DECIMALS)]),
    (r#"{"min_reducao":[0.7731]}"#, &[("min_reducao", "must be a number")]),
    (r#"{"export_consent":"canary"}"#, &[("export_consent", QUOTED_FLAG)]),
    (r#"{"consentimento_exportar_prompt":7731}"#, &[("consentimento_exportar_prompt", FLAG)]),
    (r#"{"export":"canary"}"#, &[("export", "must be excerpts or metadata")]),
    (r#"{"export":null,"config_revision":"canary"}"#, &[("export", "must be excerpts or metadata")]),
    (r#"{"bytes_per_token":0.999,"config_revision":"canary"}"#, &[("bytes_per_token", "must be between 1 and 16")]),
    (r#"{"bytes_per_token":16.001,"config_revision":"canary"}"#, &[("bytes_per_token", "must be between 1 and 16")]),
    (r#"{"bytes_per_token":7731e99999999999999999999}"#, &[("bytes_per_token", "must be between 1 and 16")]),
    (r#"{"removal":"canary"}"#, &[("removal", "must be auto, portable or full")]),
    (r#"{"bound_models":"canary"}"#, &[("bound_models", "must be stand_down or without_reasoning")]),
    (r#"{"allow_drop_block":"canary"}"#, &[("allow_drop_block", QUOTED_FLAG)]),
    (r#"{"models_allowed":"canary"}"#, &[("models_allowed", GLOBS)]),
    (r#"{"models_allowed":["canary",7731]}"#, &[("models_allowed", GLOBS)]),
    (r#"{"models_denied":["canary",""]}"#, &[("models_denied", GLOBS)]),
    (r#"{"models_denied":{"canary":7731}}"#, &[("models_denied", GLOBS)]),
    (r#"{"provider_compaction":"canary"}"#, &[("provider_compaction", "must be respect or ignore")]),
    (r#"{"max_body_bytes":0,"config_revision":"canary"}"#, &[("max_body_bytes", "must be between 1 and 1000000000")]),
    (r#"{"max_body_bytes":7731000000}"#, &[("max_body_bytes", "must be between 1 and 1000000000")]),
    (r#"{"buffer_unknown_length":"canary"}"#, &[("buffer_unknown_length", QUOTED_FLAG)]),
    (r#"{"hold_headers":7731}"#, &[("hold_headers", FLAG)]),
    (r#"{"signed_after_filter":["canary"]}"#, &[("signed_after_filter", FLAG)]),
    (r#"{"strategy":"summarize","config_revision":"canary"}"#, &[("strategy", SELECTIVE)]),
    (r#"{"strategy":"summarise","config_revision":"canary"}"#, &[("strategy", SELECTIVE)]),
    (r#"{"strategy":"hybrid","config_revision":"canary"}"#, &[("strategy", SELECTIVE)]),
    (r#"{"strategy":"summary","config_revision":"canary"}"#, &[("strategy", SELECTIVE)]),
    (r#"{"strategy":"canary"}"#, &[("strategy", SELECTIVE)]),
    (r#"{"strategy":7731}"#, &[("strategy", SELECTIVE)]),
    (r#"{"config_revision":["canary"]}"#, &[("config_revision", "must be text or a number")]),
    (r#"{"config_revision":true,"model":"canary"}"#, &[("config_revision", "must be text or a number")]),
    (r#"{"cost_gate":"canary"}"#, &[("cost_gate", QUOTED_FLAG)]),
    (r#"{"epoch_pairs":"canary"}"#, &[("epoch_pairs", QUOTED_WHOLE)]),
    (r#"{"on_engine_failure":"canary"}"#, &[("on_engine_failure", "must be original or keep_decided")]),
    // Endpoint
    (r#"{"endpoint":7731}"#, &[("endpoint", TEXT)]),
    (r#"{"endpoint":"canary:7731"}"#, &[("endpoint", "must begin with http:// or https://")]),
    (r#"{"endpoint":"ftp://canary"}"#, &[("endpoint", "must begin with http:// or https://")]),
    (
        r#"{"endpoint":"http://canary 7731"}"#,
        &[("endpoint", "must be a URL of visible ASCII characters, at most 2048")],
    ),
    (r#"{"endpoint":"http://user:canary@h"}"#, &[("endpoint", NO_USER)]),
    (r#"{"endpoint":"http://h/?key=canary"}"#, &[("endpoint", NO_QUERY)]),
    (r#"{"endpoint":"http://h/#canary"}"#, &[("endpoint", NO_QUERY)]),
    (r#"{"endpoint":"http://h/sk-canary"}"#, &[("endpoint", PATH_KEY)]),
    (r#"{"endpoint":"http://canary:77310"}"#, &[("endpoint", PORT)]),
    (r#"{"endpoint":"http://canary:0"}"#, &[("endpoint", PORT)]),
    (r#"{"endpoint":"http://canary..h"}"#, &[("endpoint", HOST)]),
    (
        r#"{"endpoint":"http://[canary]"}"#,
        &[("endpoint", "must have a valid IPv6 address, without zone, between [ and ]")],
    ),
    (r#"{"endpoint":"http://7731"}"#, &[("endpoint", IPV4)]),
    (r#"{"endpoint":"http://::7731"}"#, &[("endpoint", "must have an IPv6 address between [ and ]")]),
    (
        r#"{"endpoint":"http://h/canary%"}"#,
        &[("endpoint", "must have two hexadecimal digits after each % of its path")],
    ),
    (r#"{"endpoint":"http://h/{canary}"}"#, &[("endpoint", "must have a path of URL characters")]),
    // The key's variable
    (r#"{"api_key_env":"sk-canary"}"#, &[("api_key_env", NOT_A_NAME_BUT_A_KEY)]),
    (r#"{"api_key_env":"sk_live_canary"}"#, &[("api_key_env", NOT_A_NAME_BUT_A_KEY)]),
    (r#"{"api_key_env":"AKIACANARYCANARY7731"}"#, &[("api_key_env", NOT_A_NAME_BUT_A_KEY)]),
    (r#"{"api_key_env":"Zx81Kq20Lm39canary7Rt56Yu65"}"#, &[("api_key_env", NOT_A_NAME_BUT_A_KEY)]),
    (r#"{"api_key_env":"0canary"}"#, &[("api_key_env", NOT_A_NAME)]),
    (r#"{"api_key_env":"${canary}"}"#, &[("api_key_env", NOT_A_NAME)]),
    (r#"{"api_key_env":""  ,"config_revision":"canary"}"#, &[("api_key_env", NOT_A_NAME)]),
    (r#"{"api_key_env":7731}"#, &[("api_key_env", TEXT)]),
    // Models and their prices
    (r#"{"models":{"m":"canary"}}"#, &[("models", "a member must be a whole number, without quotes")]),
    (r#"{"models":{"":1,"x":"canary"}}"#, &[("models", NAMED)]),
    (r#"{"models":["canary"]}"#, &[("models", NAMED)]),
    (r#"{"models":{"canary":0}}"#, &[("models", "a member must be between 1 and 100000000")]),
    (r#"{"pricing":{"canary":7731}}"#, &[("pricing", MEMBERS)]),
    (r#"{"pricing":{"canary":{"canary":7731}}}"#, &[("pricing", MEMBERS)]),
    (r#"{"pricing":{"canary":{"input":1,"input":2}}}"#, &[("pricing", MEMBERS)]),
    (r#"{"pricing":{"canary":{"cache_read":7731}}}"#, &[("pricing", "a member needs input, above 0")]),
    (r#"{"pricing":{"canary":{"input":0}}}"#, &[("pricing", "a member needs input, above 0")]),
    (r#"{"pricing":{"canary":{"input":-1}}}"#, &[("pricing", "a member must hold numbers between 0 and 1000000")]),
    (r#"{"pricing":{"canary":{"input":"1"}}}"#, &[("pricing", "a member must hold numbers between 0 and 1000000")]),
    (r#"{"threshold_ratio":1.5,"config_revision":"canary"}"#, &[("threshold_ratio", "must be between 0 and 1")]),
    (r#"{"request_header":"canary"}"#, &[("request_header", "must be ignore or trusted")]),
    (r#"{"outcome_check":"canary"}"#, &[("outcome_check", "must be alert, stop_new or off")]),
    (r#"{"response_headers":"canary"}"#, &[("response_headers", QUOTED_FLAG)]),
    (
        r#"{"analyze_header":true,"config_revision":"canary"}"#,
        &[("analyze_header", "needs hold_headers: true, else the request's headers leave before it")],
    ),
    // Between fields
    (
        r#"{"enabled":true,"config_revision":"canary"}"#,
        &[("engine", NO_ENGINE), ("endpoint", NO_ENDPOINT), ("model", NO_MODEL)],
    ),
    (
        r#"{"enabled":true,"engine":"local","config_revision":"canary"}"#,
        &[("endpoint", NO_ENDPOINT), ("model", NO_MODEL)],
    ),
    (
        r#"{"enabled":true,"engine":"canary"}"#,
        &[("engine", "must be local or remote"), ("endpoint", NO_ENDPOINT), ("model", NO_MODEL)],
    ),
    (
        r#"{"enabled":true,"engine":"local","endpoint":"canary","model":7731}"#,
        &[("endpoint", "must begin with http:// or https://"), ("model", TEXT)],
    ),
    (
        r#"{"enabled":true,"engine":"local","endpoint":"https://api.canary.com","model":"m"}"#,
        &[("endpoint", NOT_LOCAL)],
    ),
    (
        r#"{"enabled":true,"engine":"local","endpoint":"http://169.254.77.31","model":"canary"}"#,
        &[("endpoint", NOT_LOCAL)],
    ),
    (
        r#"{"enabled":true,"engine":"remote","endpoint":"https://api.canary.com","model":"m"}"#,
        &[("export_consent", CONSENT)],
    ),
    (
        r#"{"compactacao":{"enabled":true,"engine":"remote","endpoint":"https://api.canary.com","model":"m","consentimento_exportar_prompt":false}}"#,
        &[("consentimento_exportar_prompt", CONSENT)],
    ),
    (
        r#"{"enabled":true,"engine":"remote","endpoint":"https://api.canary.com","model":"m","export":"canary"}"#,
        &[("export", "must be excerpts or metadata")],
    ),
    (
        r#"{"enabled":true,"engine":"remote","model":"canary","api_key_env":"canary key"}"#,
        &[("api_key_env", NOT_A_NAME), ("endpoint", NO_ENDPOINT), ("export_consent", CONSENT)],
    ),
    (
        r#"{"enabled":"canary","engine":"remote","treshold_tokens":7731,"limiar_decisao":7,"api_key":"canary"}"#,
        &[
            ("enabled", QUOTED_FLAG),
            ("treshold_tokens", "is not a known field; did you mean threshold_tokens?"),
            ("limiar_decisao", "must be between 0 and 1"),
            ("api_key", KEY),
        ],
    ),
];
