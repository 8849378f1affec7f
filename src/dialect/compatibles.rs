//! Whose models come in Chat Completions and in Responses, and how much of a conversation may leave for each: a table.

use crate::transcript::Levels;

/// One family of upstreams.
#[derive(Debug)]
pub struct Compatible {
    /// Its name, for people.
    pub name: &'static str,
    /// What its models' names begin with, in lower case; `#` stands for a digit.
    begins: &'static [&'static str],
    /// Whether the name must stand alone: behind a vendor's name (`openai/gpt-4o`) a gateway sends the request anywhere.
    bare: bool,
    /// What it takes.
    pub levels: Levels,
}

/// The first row that fits counts; for all other names [`UNKNOWN`] does.
pub const COMPATIBLES: &[Compatible] = &[
    // Takes an assistant message without its calls, and two user messages in a row. `gpt-oss` runs on templates.
    Compatible {
        name: "OpenAI",
        begins: &["gpt-#", "o#", "chatgpt-", "ft:gpt"],
        bare: true,
        levels: Levels { partial: true, prose_stays: true },
    },
    // The first of parallel calls carries the signature of all, in places that gateways choose.
    Compatible {
        name: "Gemini",
        begins: &["gemini"],
        bare: false,
        levels: Levels { partial: false, prose_stays: false },
    },
    // Ties its reasoning to all calls of the message.
    Compatible {
        name: "DeepSeek",
        begins: &["deepseek"],
        bare: false,
        levels: Levels { partial: false, prose_stays: false },
    },
    // Counts calls and results per message; older validators take words or calls, not both.
    Compatible {
        name: "Mistral",
        begins: &[
            "mistral",
            "ministral",
            "codestral",
            "devstral",
            "magistral",
            "pixtral",
            "open-mistral",
            "open-mixtral",
        ],
        bare: false,
        levels: UNKNOWN,
    },
];

/// Groq, vLLM, llama.cpp and whoever else puts the messages into a model's template: roles alternate once messages with
/// calls and results are set aside, so that words must not lose their calls.
pub const UNKNOWN: Levels = Levels { partial: true, prose_stays: false };

/// How much may leave a conversation with this model.
pub fn levels(model: &str) -> Levels {
    let model = model.to_ascii_lowercase();
    let last = model.rsplit('/').next().unwrap_or_default();
    let fits = |row: &&Compatible| row.begins.iter().any(|begin| begins(if row.bare { &model } else { last }, begin));
    COMPATIBLES.iter().find(fits).map_or(UNKNOWN, |row| row.levels)
}

fn begins(name: &str, begin: &str) -> bool {
    let mut name = name.chars();
    begin.chars().all(|expected| {
        name.next().is_some_and(|found| if expected == '#' { found.is_ascii_digit() } else { found == expected })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_whatever_stands_before_it_unless_it_must_stand_alone() {
        let both = |model| (levels(model).partial, levels(model).prose_stays);
        for model in ["gpt-4o", "o3-mini", "chatgpt-4o-latest", "ft:gpt-4o:acme", "GPT-5.5"] {
            assert_eq!(both(model), (true, true), "{model}");
        }
        for model in ["gemini-3-pro", "google/gemini-2.5-flash", "deepseek-chat", "deepseek-ai/DeepSeek-V4"] {
            assert_eq!(both(model), (false, false), "{model}");
        }
        for model in ["gpt-oss-120b", "openai/gpt-4o", "mistral-large", "olmo", "qwen3", "claude-sonnet-4-5", ""] {
            assert_eq!(both(model), (true, false), "{model}");
        }
    }
}
