//! Keys: where they come from, and how to notice one that was pasted where only a name belongs.

use std::fmt;

use super::Environment;

/// A key's text. Its `Debug` does not show it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for the one header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The engine's key and the variable that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Name of the environment variable; checked, so that it may be logged.
    pub variable: String,
    /// The key; none where the variable is missing, empty or not usable in a header.
    pub value: Option<Secret>,
}

impl ApiKey {
    pub(super) fn from_environment(variable: &str, env: &impl Environment) -> Self {
        let value = env.var(variable).unwrap_or_default();
        // Files and Kubernetes secrets often end in a newline, which no header may carry.
        let value = value.trim();
        let usable = !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        Self { variable: variable.to_owned(), value: usable.then(|| Secret(value.to_owned())) }
    }
}

/// Longest name of an environment variable, in bytes.
const MAX_VARIABLE: usize = 128;
/// Shorter text is never called random, in bytes.
const MIN_RANDOM: usize = 24;
/// Text with fewer different characters is never called random.
const MIN_VARIETY: usize = 10;

/// How well-known issuers begin their keys.
const PREFIXES: &[&str] =
    &["sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "AIza", "eyJ", "hf_", "glpat"];

/// Checks the value of `api_key_env`.
pub(super) fn variable_name(name: String) -> Result<String, String> {
    let without_underscore = !name.contains('_') && Kinds::of(&name).both_cases() && is_long_and_varied(&name);
    if has_known_prefix(&name) || is_random(&name) || without_underscore {
        return Err("must be the NAME of an environment variable; what stands there looks like a key itself, and is \
                    not shown here"
            .to_owned());
    }
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let valid = name.len() <= MAX_VARIABLE
        && name.bytes().next().is_some_and(first)
        && name.bytes().all(|byte| first(byte) || byte.is_ascii_digit());
    if valid {
        Ok(name)
    } else {
        Err("must be the NAME of an environment variable (letters, digits and _, no digit first, at most 128 \
             characters); its value is not shown here"
            .to_owned())
    }
}

/// Whether a field's name is more likely a key.
pub(super) fn is_secret_name(name: &str) -> bool {
    has_known_prefix(name) || is_random(name)
}

/// Whether any word of a text (model, cluster, path) looks like a key. Stricter evidence than for a name: hexadecimal
/// account numbers and digests are common in these.
pub(super) fn holds_secret(text: &str) -> bool {
    let words = || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    let parts = words().flat_map(|word| word.split('-'));
    words().any(has_known_prefix) || parts.into_iter().any(|part| is_random(part) && Kinds::of(part).both_cases())
}

fn has_known_prefix(word: &str) -> bool {
    // Slack: xoxb-, xoxp-, xoxa-2-, ...
    let slack = word.strip_prefix("xox").is_some_and(|rest| rest.chars().nth(1) == Some('-'));
    let amazon = ["AKIA", "ASIA"]
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix))
        .any(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()));
    slack || amazon || PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Long, with digits, and either without the underscores that names have or in both cases.
fn is_random(word: &str) -> bool {
    let kinds = Kinds::of(word);
    is_long_and_varied(word)
        && kinds.digit
        && (kinds.both_cases() || (!word.contains('_') && (kinds.upper || kinds.lower)))
}

fn is_long_and_varied(word: &str) -> bool {
    let mut different: Vec<u8> = word.bytes().collect();
    different.sort_unstable();
    different.dedup();
    word.len() >= MIN_RANDOM && different.len() >= MIN_VARIETY
}

/// Which kinds of characters a word holds.
struct Kinds {
    upper: bool,
    lower: bool,
    digit: bool,
}

impl Kinds {
    fn of(word: &str) -> Self {
        Self {
            upper: word.bytes().any(|byte| byte.is_ascii_uppercase()),
            lower: word.bytes().any(|byte| byte.is_ascii_lowercase()),
            digit: word.bytes().any(|byte| byte.is_ascii_digit()),
        }
    }

    fn both_cases(&self) -> bool {
        self.upper && self.lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_pass() {
        for name in [
            "ATLASBERG_COMPACTACAO_API_KEY",
            "OPENAI_API_KEY",
            "MY_KEY_2",
            "_k",
            "k",
            "SK_LIVE",
            "HF_TOKEN",
            "skills",
            "AKIA_KEY",
            "AWS_BEDROCK_RUNTIME_US_EAST_1_API_KEY_2026",
            "opentypesafeproductionkey",
        ] {
            assert_eq!(variable_name(name.to_owned()).as_deref(), Ok(name));
        }
        assert!(variable_name("K".repeat(128)).is_ok());
    }

    #[test]
    fn keys_and_other_text_do_not_pass_as_names() {
        for name in [
            "sk_live_canary",
            "sk-ant-api03-canary",
            "pk_test",
            "rk_x",
            "ghp_canary",
            "gho_canary",
            "ghu_canary",
            "ghs_canary",
            "ghr_canary",
            "github_pat_canary",
            "xoxb-1234",
            "AKIAIOSFODNN7EXAMPLE",
            "ASIAIOSFODNN7EXAMPLE",
            "AIzaSyCanary",
            "eyJhbGciOi",
            "hf_canary",
            "glpat_canary",
            "a1b2c3d4e5f60718293a4b5c6d7e8f90",
            "Zx81Kq20Lm39Pw47Rt56Yu65",
            "Zx81Kq20_Lm39Pw47_Rt56Yu65",
            "ZxKqLmPwRtYuIoAsDfGhJkZx",
            "A1B2C3D4E5F6G7H8I9J0KLMN",
        ] {
            let message = variable_name(name.to_owned()).unwrap_err();
            assert!(message.contains("looks like a key"), "{name}: {message}");
            assert!(!message.contains(name));
        }
        for name in ["", " K", "K ", "1K", "A-B", "$KEY", "${KEY}", "Bearer x", "a.b", "É", "A\nB", "A=B"] {
            let message = variable_name(name.to_owned()).unwrap_err();
            assert!(message.contains("letters, digits and _"), "{name}: {message}");
        }
        assert!(variable_name("K".repeat(129)).is_err());
    }

    #[test]
    fn model_names_clusters_and_paths_are_not_taken_for_keys() {
        for text in [
            "m",
            "jev-1.14-2026-09",
            "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "accounts/fireworks/models/llama-v3p1-405b-instruct",
            "SmolLM2-135M-Instruct-Q4_1.gguf",
            "model@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "outbound|80||engine.ns.svc.cluster.local",
            "/client/v4/accounts/023e105f4ecef8ad9ca31a8372d0c353/v1/decisions",
            "/0f8fad5b-d9cb-469f-a165-70867728950e/x",
            "task-sk",
        ] {
            assert!(!holds_secret(text), "{text}");
        }
    }

    #[test]
    fn keys_are_noticed_inside_model_names_clusters_and_paths() {
        for text in [
            "sk-canary",
            "m:sk-canary",
            "/v1/key/ghp_canary/x",
            "openrouter/eyJhbGciOi.x.y",
            "/x/AKIAIOSFODNN7EXAMPLE",
            "m Zx81Kq20Lm39Pw47Rt56Yu65",
            "cluster|xoxb-12-34",
        ] {
            assert!(holds_secret(text), "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_debug() {
        struct One;
        impl Environment for One {
            fn var(&self, _: &str) -> Option<String> {
                Some(" canary\n".to_owned())
            }
        }
        let key = ApiKey::from_environment("K", &One);
        assert_eq!(format!("{key:?}"), "ApiKey { variable: \"K\", value: Some(…) }");
        assert_eq!(key.value.unwrap().expose(), "canary");
    }

    #[test]
    fn a_key_that_no_header_can_carry_counts_as_missing() {
        struct Fixed(&'static str);
        impl Environment for Fixed {
            fn var(&self, _: &str) -> Option<String> {
                Some(self.0.to_owned())
            }
        }
        for value in ["", " \n", "a\r\nb", "clé", "a\u{0}b"] {
            assert_eq!(ApiKey::from_environment("K", &Fixed(value)).value, None, "{value:?}");
        }
    }
}
