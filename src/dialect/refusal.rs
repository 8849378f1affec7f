//! Whether a provider refused a request for what stands in its history.

/// Bytes of an error that are read: its message stands in front.
pub const READ: usize = 8 * 1024;

/// Words with which providers name tools, reasoning and signatures in their errors.
const WORDS: [&str; 5] = ["tool", "function", "thinking", "reasoning", "signature"];

/// Whether a status may mean that the history is malformed: a 4xx that is not about keys, money, size, rate or time.
pub fn may_blame_history(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 401 | 402 | 403 | 404 | 405 | 407 | 408 | 413 | 429 | 451 | 499)
}

/// Whether an error's body names what this filter works on.
pub fn blames_history(error: &[u8]) -> bool {
    let text = error.to_ascii_lowercase();
    WORDS.iter().any(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_tools_reasoning_and_signatures_are_noticed_and_others_are_not() {
        for error in [
            "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after",
            "An assistant message with 'tool_calls' must be followed by tool messages",
            "Please ensure that function response turn comes immediately after a Function Call turn",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        ] {
            assert!(blames_history(error.as_bytes()), "{error}");
        }
        for error in ["prompt is too long: 210000 tokens > 200000 maximum", "max_tokens: must be positive", ""] {
            assert!(!blames_history(error.as_bytes()), "{error}");
        }
    }

    #[test]
    fn keys_money_size_rate_and_time_are_not_about_history() {
        let statuses: Vec<u16> = (0..600).filter(|status| may_blame_history(*status)).collect();
        assert!(statuses.contains(&400) && statuses.contains(&422) && statuses.contains(&409));
        for other in [200, 401, 403, 404, 408, 413, 429, 499, 500, 529] {
            assert!(!statuses.contains(&other), "{other}");
        }
    }
}
