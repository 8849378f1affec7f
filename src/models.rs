//! What is known of models by the names that requests use: how much input they take, what they cost, and whose tokenizer
//! they have. Data: `models.tsv`, which `make models` writes.
//!
//! A name is looked up as it stands, then without the prefixes and versions that gateways and clouds put around it, then by
//! the longest known name that it begins with, then by family; an unknown model takes [`UNKNOWN_LIMIT`] tokens and counts as
//! one with explicit cache prices. Dots in versions count as dashes where the name with dots is not known.

use std::sync::OnceLock;

/// Tab-separated and sorted by name: model, input limit in tokens, then US$ per million tokens of input, cache read, cache
/// write, cache write for an hour, output. An empty cell is unknown. A name is left out where the look-up says the same
/// without it.
const TABLE: &str = include_str!("models.tsv");

/// Longer names are nobody's: a look-up must not cost more than a request is worth.
const LONGEST_NAME: usize = 256;

/// Input limit of a model that nothing is known of, in tokens.
pub const UNKNOWN_LIMIT: u64 = 128_000;

/// What caching costs with a model, as thousandths of its price for fresh input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePrice {
    /// Reading a cached token.
    pub read: u64,
    /// Writing a token to the cache.
    pub write: u64,
    /// Writing a token to a cache that lasts an hour.
    pub write_1h: u64,
}

/// What tokens cost, in billionths of a US dollar per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// Fresh input.
    pub input: u64,
    /// Output.
    pub output: u64,
}

/// What is known of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// The most input that it takes, in tokens.
    pub limit: u64,
    /// What caching costs.
    pub cache: CachePrice,
    /// What it costs; `None` where that is not known.
    pub prices: Option<Prices>,
}

/// For a model that nothing is known of: the dearest common case.
const UNKNOWN: CachePrice = CachePrice { read: 100, write: 1250, write_1h: 2000 };

/// Cache prices of models that charge nothing extra for a write.
const fn reads_at(read: u64) -> CachePrice {
    CachePrice { read, write: 1000, write_1h: 1000 }
}

/// Models by the start of their names, for those that the table does not have yet: input limit and cache prices.
const STARTS: [(&str, u64, CachePrice); 20] = [
    ("claude", 200_000, UNKNOWN),
    ("gpt-5", 272_000, reads_at(100)),
    ("gpt-4.1", 1_047_576, reads_at(250)),
    ("gpt-4o", 128_000, reads_at(500)),
    ("gpt-4", 128_000, reads_at(500)),
    ("gpt-3.5", 16_385, reads_at(500)),
    ("chatgpt", 128_000, reads_at(500)),
    ("o", 200_000, reads_at(250)),
    ("gemini-1.5", 1_000_000, reads_at(250)),
    ("gemini", 1_048_576, reads_at(100)),
    ("deepseek", 128_000, reads_at(20)),
    ("mistral", 128_000, reads_at(100)),
    ("kimi", 256_000, reads_at(250)),
    ("glm", 200_000, reads_at(200)),
    ("qwen", 131_072, reads_at(200)),
    ("grok", 256_000, reads_at(250)),
    ("llama", 128_000, UNKNOWN),
    ("command", 128_000, UNKNOWN),
    ("nova", 300_000, reads_at(250)),
    ("gemma", 128_000, UNKNOWN),
];

/// Who makes a model's tokenizer, as far as its name tells: what bytes come to in tokens differs from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Claude before 4.7.
    Claude,
    /// Claude from 4.7 on, whose tokenizer makes more tokens of the same text.
    Claude47,
    /// OpenAI's models.
    OpenAi,
    /// Gemini and Gemma.
    Gemini,
    /// DeepSeek.
    DeepSeek,
    /// Mistral and its relatives.
    Mistral,
    /// Llama.
    Llama,
    /// Qwen.
    Qwen,
    /// Kimi.
    Kimi,
    /// GLM.
    Glm,
    /// Grok.
    Grok,
    /// Command.
    Command,
    /// Nova.
    Nova,
    /// Any other.
    Other,
}

impl Family {
    /// Every family with the name that it has in metrics and with what its models' names begin with.
    const TABLE: [(Self, &'static str, &'static [&'static str]); 14] = [
        (Self::Claude, "claude", &["claude"]),
        (Self::Claude47, "claude_4_7", &[]),
        (Self::OpenAi, "openai", &["gpt", "chatgpt", "o", "codex", "ft:gpt"]),
        (Self::Gemini, "gemini", &["gemini", "gemma"]),
        (Self::DeepSeek, "deepseek", &["deepseek"]),
        (
            Self::Mistral,
            "mistral",
            &["mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral"],
        ),
        (Self::Llama, "llama", &["llama", "meta-llama"]),
        (Self::Qwen, "qwen", &["qwen", "qwq"]),
        (Self::Kimi, "kimi", &["kimi", "moonshot"]),
        (Self::Glm, "glm", &["glm"]),
        (Self::Grok, "grok", &["grok"]),
        (Self::Command, "command", &["command"]),
        (Self::Nova, "nova", &["nova"]),
        (Self::Other, "other", &[]),
    ];

    /// All families.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.iter().map(|(family, ..)| *family)
    }

    /// The family of a model.
    pub fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        if claude_version(&model).is_some_and(|version| version >= (4, 7)) {
            return Self::Claude47;
        }
        let name = bare(&model);
        let of = Self::TABLE.iter().find(|(.., starts)| starts.iter().any(|start| begins(name, start)));
        of.map_or(Self::Other, |(family, ..)| *family)
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(family, ..)| *family == self).map_or("other", |(_, name, _)| name)
    }
}

/// The version of a Claude model: major, and minor or 0; `None` for other models and for Claude names without a version.
/// Dates are no versions: `claude-opus-5-20260901` is 5.0.
pub fn claude_version(model: &str) -> Option<(u8, u8)> {
    let model = model.to_ascii_lowercase();
    let (_, tail) = model.split_once("claude")?;
    let mut major = None;
    for piece in tail.split(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = piece.strip_prefix('v').unwrap_or(piece);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let number = digits.parse().ok().filter(|_| digits.len() <= 2);
        match (major, number) {
            (None, number) => major = Some(number?),
            // Behind the number stands a date, or the version of what a host made of the model: `-v1:0`.
            (Some(major), Some(minor)) if digits.len() == piece.len() => return Some((major, minor)),
            (Some(major), _) => return Some((major, 0)),
        }
    }
    major.map(|major| (major, 0))
}

/// What is known of `model`.
pub fn look_up(model: &str) -> Model {
    static SHIPPED: OnceLock<Table<'static>> = OnceLock::new();
    SHIPPED.get_or_init(|| Table::read(TABLE)).look_up(model)
}

/// A table of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table<'a> {
    /// Sorted by name.
    rows: Vec<Row<'a>>,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    cells: &'a str,
}

impl<'a> Table<'a> {
    /// Reads a table: lines with `#` in front are comments, a line without a tab is none.
    pub fn read(text: &'a str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut rows: Vec<Row<'a>> =
            lines.filter_map(|line| line.split_once('\t')).map(|(name, cells)| Row { name, cells }).collect();
        rows.sort_unstable_by_key(|row| row.name);
        Self { rows }
    }

    /// How many models it names.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the table, and where it says nothing the family, knows of `model`.
    pub fn look_up(&self, model: &str) -> Model {
        let model = if model.len() > LONGEST_NAME { String::new() } else { model.to_ascii_lowercase() };
        let name = bare(&model);
        let (row, same) = self.row(&model, name).unzip();
        // A variant has its own price, which is not that of the model whose name it begins with.
        let priced = row.filter(|_| same == Some(true));
        // Every Claude caches, also where a cloud's table does not say for how much.
        let priced_cache = priced.filter(|row| row.price(READ).is_some() || !begins(name, "claude"));
        let start = STARTS.iter().find(|(start, ..)| begins(name, start));
        Model {
            limit: row.and_then(Row::limit).or(start.map(|(_, limit, _)| *limit)).unwrap_or(UNKNOWN_LIMIT),
            cache: priced_cache.and_then(Row::cache_price).or(start.map(|(.., cache)| *cache)).unwrap_or(UNKNOWN),
            prices: priced.and_then(Row::prices),
        }
    }

    /// The line that fits a name in lower case best, and whether it is the same model: only dates and words for a release
    /// stand behind its name.
    fn row(&self, model: &str, name: &str) -> Option<(Row<'a>, bool)> {
        if let Some(row) = self.find(model) {
            return Some((row, true));
        }
        let shorter = std::iter::successors(Some(name), |name| Some(shortened(name)).filter(|short| !short.is_empty()));
        shorter.into_iter().find_map(|short| {
            let row = self.find(short).or_else(|| self.find_dashed(short))?;
            Some((row, is_release(name.get(short.len()..).unwrap_or_default())))
        })
    }

    fn find(&self, name: &str) -> Option<Row<'a>> {
        let at = self.rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
        self.rows.get(at).copied()
    }

    fn find_dashed(&self, name: &str) -> Option<Row<'a>> {
        if name.contains('.') { self.find(&name.replace('.', "-")) } else { None }
    }
}

/// A name without its last part. A dot before a digit parts nothing: `gpt-4.9` is no kind of `gpt-4`.
fn shortened(name: &str) -> &str {
    let parts = |(at, c): &(usize, char)| match c {
        '-' | ':' | '_' | '@' => true,
        '.' => name.get(at.saturating_add(1)..).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())),
        _ => false,
    };
    name.char_indices().rev().find(parts).and_then(|(at, _)| name.get(..at)).unwrap_or_default()
}

/// Whether what stands behind a model's name names a release of it: dates, numbers of builds, and the like.
fn is_release(suffix: &str) -> bool {
    let is_date = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let words = ["", "latest", "preview", "exp", "beta", "stable"];
    suffix.split(['-', ':', '_', '@']).all(|part| is_date(part) || words.contains(&part))
}

/// Regions and makers that stand before a model's name on Bedrock and the like, each with a dot.
const OWNERS: [&str; 28] = [
    "us",
    "eu",
    "apac",
    "au",
    "jp",
    "ca",
    "global",
    "us-gov",
    "anthropic",
    "amazon",
    "meta",
    "mistral",
    "cohere",
    "ai21",
    "deepseek",
    "qwen",
    "openai",
    "google",
    "moonshot",
    "moonshotai",
    "minimax",
    "nvidia",
    "writer",
    "zai",
    "xai",
    "twelvelabs",
    "stability",
    "luma",
];

/// The name without the prefixes that gateways and clouds put before it, and without a version for Vertex or Bedrock.
pub fn bare(model: &str) -> &str {
    let mut name = model.rsplit('/').next().unwrap_or(model);
    while let Some((_, rest)) = name.split_once('.').filter(|(owner, _)| OWNERS.contains(owner)) {
        name = rest;
    }
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rsplit_once("-v") {
        Some((start, version)) if is_version(version) => start,
        _ => name,
    }
}

/// Two numbers with a colon between, as Bedrock has them.
fn is_version(version: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    version.split_once(':').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// Whether `model` is `start`, or `start` with something behind that is no letter: `llama` begins `llama3`, `gpt-4` begins
/// `gpt-4.9` and not `gpt-45`.
fn begins(model: &str, start: &str) -> bool {
    model.strip_prefix(start).is_some_and(|rest| match rest.chars().next() {
        None => true,
        Some(next) if next.is_ascii_digit() => !start.ends_with(|c: char| c.is_ascii_digit()),
        Some(next) => !next.is_ascii_alphabetic(),
    })
}

/// The column of the price of a cache read.
const READ: usize = 2;

impl Row<'_> {
    fn limit(self) -> Option<u64> {
        self.cells.split('\t').next()?.parse().ok().filter(|limit| *limit > 0)
    }

    /// `None` where the input price is missing or zero: then nothing can be said of shares of it. A write price of zero
    /// means that writing costs no more than the fresh token, as a missing one does.
    fn cache_price(self) -> Option<CachePrice> {
        let [input, read, write, write_1h] = [1, 2, 3, 4].map(|index| self.price(index));
        CachePrice::of(input?, read, write, write_1h)
    }

    fn prices(self) -> Option<Prices> {
        Some(Prices { input: self.price(1).filter(|price| *price > 0)?, output: self.price(5).unwrap_or(0) })
    }

    fn price(self, index: usize) -> Option<u64> {
        self.cells.split('\t').nth(index).and_then(nano_dollars)
    }
}

impl CachePrice {
    /// Shares of the price for fresh input, all in the same unit. What is missing costs as much as the fresh token; `None`
    /// where that is free.
    pub fn of(input: u64, read: Option<u64>, write: Option<u64>, write_1h: Option<u64>) -> Option<Self> {
        let share = |price: u64| price.checked_mul(1000)?.checked_div(input);
        let paid = |price: Option<u64>| price.filter(|price| *price > 0).and_then(share);
        let write = paid(write);
        (input > 0).then(|| Self {
            read: read.and_then(share).unwrap_or(1000),
            write: write.unwrap_or(1000),
            write_1h: paid(write_1h).or(write).unwrap_or(1000),
        })
    }
}

/// A decimal number of dollars in billionths, exactly.
fn nano_dollars(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let scale = 10u64.checked_pow(9u32.checked_sub(u32::try_from(fraction.len()).ok()?)?)?;
    if text.is_empty() {
        return None;
    }
    digits(whole)?.checked_mul(1_000_000_000)?.checked_add(digits(fraction)?.checked_mul(scale)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(model: &str) -> (u64, u64, u64) {
        let CachePrice { read, write, write_1h } = look_up(model).cache;
        (read, write, write_1h)
    }

    #[test]
    fn names_are_found_as_they_are_written_by_clients_and_gateways() {
        for model in [
            "claude-opus-4-6",
            "claude-opus-4-6-20260205",
            "anthropic/claude-opus-4-6",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-sonnet-4-5@20250929",
            "Claude-Sonnet-4-5-preview",
        ] {
            assert_eq!(shares(model), (100, 1250, 2000), "{model}");
        }
        assert_eq!(shares("gpt-4o"), (500, 1000, 1000));
        assert_eq!(shares("gpt-4.1-mini"), (250, 1000, 1000));
        assert_eq!(shares("claude-3-5-sonnet-latest"), (100, 1250, 2000), "every Claude caches");
        assert_eq!(look_up("grok-4-fast").prices, None, "a variant costs something else");
        assert_eq!(bare("deepseek-v3:671b"), "deepseek-v3:671b");
        let long = "-".repeat(1_000_000);
        assert_eq!(look_up(&long), look_up(""), "and takes no time");
        assert_eq!(shares("deepseek-v4-flash"), (20, 1000, 1000), "a write price of zero is the price of input");
    }

    #[test]
    fn prices_are_those_of_the_table() {
        let prices = |model: &str| look_up(model).prices;
        assert_eq!(prices("gpt-4o"), Some(Prices { input: 2_500_000_000, output: 10_000_000_000 }));
        assert_eq!(prices("my-own-model"), None);
        let sonnet = Some(Prices { input: 3_000_000_000, output: 15_000_000_000 });
        for name in ["claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-20250514", "claude-sonnet-4.5"] {
            assert_eq!(prices(name), sonnet, "{name}");
        }
    }

    #[test]
    fn limits_go_from_the_exact_name_to_its_start_to_its_family_to_the_unknown() {
        for (model, limit) in [
            ("gpt-4", 8_192),
            ("gpt-4-0613", 8_192),
            ("gpt-4-turbo", 128_000),
            ("gpt-4-of-ours", 8_192),
            ("gpt-4.9-nova", 128_000),
            ("gpt-4.1-mini", 1_047_576),
            ("openai/gpt-4o-2024-11-20", 128_000),
            ("gemini-1.5-ultra", 1_000_000),
            ("gemini-9", 1_048_576),
            ("claude-sonnet-4-5", 200_000),
            ("claude-sonnet-4.5", 200_000),
            ("claude-novel-9", 200_000),
            ("o9-mini", 200_000),
            ("olmo", UNKNOWN_LIMIT),
            ("my-own-model", UNKNOWN_LIMIT),
            ("", UNKNOWN_LIMIT),
            ("///...---@@@:::", UNKNOWN_LIMIT),
        ] {
            assert_eq!(look_up(model).limit, limit, "{model}");
        }
    }

    #[test]
    fn what_the_table_lacks_falls_to_its_family_and_then_to_the_dearest_case() {
        assert_eq!(shares("gpt-5.99-nova"), (100, 1000, 1000));
        assert_eq!(shares("deepseek-v9"), (20, 1000, 1000));
        assert_eq!(shares("my-own-model"), (100, 1250, 2000));
        assert_eq!(shares(""), (100, 1250, 2000));
        assert_eq!(shares("o12345"), (250, 1000, 1000));
    }

    #[test]
    fn every_line_of_the_table_can_be_read() {
        let table = Table::read(TABLE);
        assert!(table.len() > 300, "{}", table.len());
        for row in &table.rows {
            assert_eq!(row.cells.split('\t').count(), 6, "{}", row.name);
            for cell in row.cells.split('\t').filter(|cell| !cell.is_empty()) {
                assert!(nano_dollars(cell).is_some(), "{}: {cell}", row.name);
            }
        }
        assert!(table.rows.is_sorted_by(|a, b| a.name < b.name), "a name stands twice");
    }

    #[test]
    fn families_are_told_by_name_and_claude_by_version_too() {
        for (model, family) in [
            ("claude-sonnet-4-5-20250929", Family::Claude),
            ("us.anthropic.claude-opus-4-7-v1:0", Family::Claude47),
            ("claude-opus-5-20260901", Family::Claude47),
            ("claude-latest", Family::Claude),
            ("openai/gpt-4o", Family::OpenAi),
            ("o3-mini", Family::OpenAi),
            ("olmo", Family::Other),
            ("models/gemini-2.5-pro", Family::Gemini),
            ("deepseek-reasoner", Family::DeepSeek),
            ("meta.llama3-1-70b-instruct-v1:0", Family::Llama),
            ("qwen3-coder", Family::Qwen),
            ("", Family::Other),
        ] {
            assert_eq!(Family::of(model), family, "{model}");
        }
        let names: std::collections::HashSet<&str> = Family::all().map(Family::name).collect();
        assert_eq!(names.len(), Family::TABLE.len());
    }
}
