//! Patterns over names: `*` stands for any text, `?` for one character, case of ASCII letters does not count.

/// A pattern over model names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Longest pattern, in characters. It bounds what one character of a name can cost.
    pub const MAX_CHARS: usize = 128;

    /// The pattern, unless it is empty or too long.
    pub fn new(pattern: &str) -> Option<Self> {
        let fits = !pattern.is_empty() && pattern.chars().count() <= Self::MAX_CHARS;
        fits.then(|| Self(pattern.to_owned()))
    }

    /// Whether the pattern covers all of `text`. Only the last star is ever tried again, so the time grows with the
    /// text's length and at most [`Glob::MAX_CHARS`] steps for each of its characters.
    pub fn matches(&self, text: &str) -> bool {
        let mut pattern = self.0.chars();
        let mut rest = text.chars();
        let mut star = None;
        loop {
            let token = pattern.next();
            if token == Some('*') {
                star = Some((pattern.clone(), rest.clone()));
                continue;
            }
            let fits = match (token, rest.next()) {
                (None, None) => return true,
                (Some(_), None) => return false,
                (None, Some(_)) => false,
                (Some(token), Some(found)) => token == '?' || token.eq_ignore_ascii_case(&found),
            };
            if fits {
                continue;
            }
            // The last star takes one character more.
            let Some((after, from)) = star.as_mut() else {
                return false;
            };
            from.next();
            pattern = after.clone();
            rest = from.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn patterns_cover_whole_names() {
        for (pattern, text) in [
            ("gpt-4o", "gpt-4o"),
            ("GPT-4O", "gpt-4o"),
            ("gpt-*", "gpt-"),
            ("gpt-*", "gpt-5.1-mini"),
            ("*", ""),
            ("**", "x"),
            ("*mini*", "gpt-5-mini-2026"),
            ("*mini", "mini-mini"),
            ("a*b*c", "a-b-b-c"),
            ("a?c", "aéc"),
            ("?*", "x"),
            ("é*", "éa"),
        ] {
            assert!(matches(pattern, text), "{pattern} over {text}");
        }
        for (pattern, text) in [
            ("gpt-4o", "gpt-4o-mini"),
            ("gpt-4o", "my-gpt-4o"),
            ("gpt-4o", ""),
            ("?", ""),
            ("a?c", "ac"),
            ("*mini", "mini-m"),
            ("a*b*c", "a-c-b"),
            ("a*a", "a"),
            ("claude-[34]", "claude-3"),
        ] {
            assert!(!matches(pattern, text), "{pattern} over {text}");
        }
    }

    /// The textbook definition, exponential, for small inputs only.
    fn defined(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|skip| defined(rest, &text[skip..])),
            [token, rest @ ..] => match text {
                [first, others @ ..] => (*token == '?' || token == first) && defined(rest, others),
                [] => false,
            },
        }
    }

    fn words(alphabet: &[char], max: usize) -> Vec<Vec<char>> {
        let mut all = vec![vec![]];
        let mut last = all.clone();
        for _ in 0..max {
            last = last
                .iter()
                .flat_map(|word: &Vec<char>| alphabet.iter().map(move |letter| [word.as_slice(), &[*letter]].concat()))
                .collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn agrees_with_the_definition_on_all_small_inputs() {
        let texts = words(&['a', 'b'], 5);
        for pattern in words(&['a', 'b', '*', '?'], 5).iter().filter(|pattern| !pattern.is_empty()) {
            let glob = Glob::new(&pattern.iter().collect::<String>()).unwrap();
            for text in &texts {
                let plain: String = text.iter().collect();
                assert_eq!(glob.matches(&plain), defined(pattern, text), "{pattern:?} over {plain}");
            }
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = "*a".repeat(Glob::MAX_CHARS / 2 - 1) + "*b";
        assert!(!matches(&pattern, &"a".repeat(100_000)));
    }

    #[test]
    fn empty_and_endless_patterns_are_none() {
        assert_eq!(Glob::new(""), None);
        assert!(Glob::new(&"é".repeat(Glob::MAX_CHARS)).is_some());
        assert_eq!(Glob::new(&"x".repeat(Glob::MAX_CHARS + 1)), None);
    }
}
