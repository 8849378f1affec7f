//! Prices of models, by the names that requests use. Data: `models.tsv`.
//!
//! A name is looked up as it stands, then without a provider's prefix and suffix (here, and in the table), then by the
//! longest name in the table that it begins with, then by family; an unknown model counts as one with explicit cache
//! prices. Dots in versions count as dashes where the name with dots is not known.

/// Tab-separated, sorted by name: model, provider, input limit in tokens, then US$ per million tokens of input, cache
/// read, cache write, cache write for an hour, output. An empty cell is unknown.
const TABLE: &str = include_str!("models.tsv");

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

/// For a model that nothing is known of: the dearest common case.
const UNKNOWN: CachePrice = CachePrice { read: 100, write: 1250, write_1h: 2000 };

/// Families by the start of their names, for models that the table does not have yet.
const FAMILIES: [(&str, CachePrice); 9] = [
    ("claude", UNKNOWN),
    ("gpt-5", CachePrice { read: 100, write: 1000, write_1h: 1000 }),
    ("gpt-4.1", CachePrice { read: 250, write: 1000, write_1h: 1000 }),
    ("gpt-4o", CachePrice { read: 500, write: 1000, write_1h: 1000 }),
    ("o", CachePrice { read: 250, write: 1000, write_1h: 1000 }),
    ("gemini", CachePrice { read: 100, write: 1000, write_1h: 1000 }),
    ("deepseek", CachePrice { read: 20, write: 1000, write_1h: 1000 }),
    ("mistral", CachePrice { read: 100, write: 1000, write_1h: 1000 }),
    ("kimi", CachePrice { read: 250, write: 1000, write_1h: 1000 }),
];

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    cells: &'a str,
}

/// What caching costs with `model`, and what the model costs, where the table says. One look through the table.
pub fn look_up(model: &str) -> (CachePrice, Option<Prices>) {
    let model = model.to_ascii_lowercase();
    let bare = bare(&model);
    let family = || FAMILIES.iter().find(|(start, _)| begins(bare, start)).map(|(_, price)| *price);
    let row = row(&model);
    (row.and_then(Row::cache_price).or_else(family).unwrap_or(UNKNOWN), row.and_then(Row::prices))
}

/// What caching costs with `model`.
pub fn cache_price(model: &str) -> CachePrice {
    look_up(model).0
}

/// What `model` costs; `None` where the table has no price for it.
pub fn prices(model: &str) -> Option<Prices> {
    look_up(model).1
}

/// The line for a name in lower case: the one that fits best.
fn row(model: &str) -> Option<Row<'static>> {
    let bare_model = bare(model);
    let dashed = bare_model.replace('.', "-");
    let fit = |row: &Row<'_>| {
        let name = row.name;
        // Of several providers that sell it, one that says what a cache read costs.
        let says_all = usize::from(row.cell(3).is_some());
        match () {
            () if name == model => Some((5, 0)),
            () if name == bare_model => Some((4, 0)),
            () if name == dashed => Some((3, 0)),
            () if name.contains(bare_model) && bare(name) == bare_model => Some((2, says_all)),
            () if name.contains(&dashed) && bare(name) == dashed => Some((2, says_all)),
            () if begins(bare_model, name) || begins(&dashed, name) => Some((1, name.len())),
            () => None,
        }
    };
    rows().filter_map(|row| Some((fit(&row)?, row))).max_by_key(|(fit, _)| *fit).map(|(_, row)| row)
}

/// The name without the prefixes that gateways and clouds put before it, and without a Bedrock version behind it.
fn bare(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.rsplit_once("anthropic.").map_or(name, |(_, name)| name);
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rsplit_once("-v") {
        Some((start, version)) if version.starts_with(|c: char| c.is_ascii_digit()) && version.contains(':') => start,
        _ => name,
    }
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(name, cells)| Row { name, cells })
}

/// Whether `model` is `start` or `start` with something behind a separator: `o1` begins `o1-mini`, not `o12`. Behind a
/// letter a digit may follow at once, as in `o3` of the family `o`.
fn begins(model: &str, start: &str) -> bool {
    model.strip_prefix(start).is_some_and(|rest| match rest.chars().next() {
        None => true,
        Some(next) if next.is_ascii_digit() => !start.ends_with(|c: char| c.is_ascii_digit()),
        Some(next) => !next.is_ascii_alphabetic(),
    })
}

impl Row<'_> {
    /// `None` where the input price is missing or zero: then nothing can be said of shares of it. A write price of zero
    /// means that writing costs no more than the fresh token, as a missing one does.
    fn cache_price(self) -> Option<CachePrice> {
        let cell = |index| self.cell(index);
        let input = cell(2).filter(|price| *price > 0)?;
        let share = |price: Option<u64>| price.and_then(|p| p.checked_mul(1000)?.checked_div(input));
        let read = share(cell(3)).unwrap_or(1000);
        let write = share(cell(4).filter(|price| *price > 0)).unwrap_or(1000);
        let write_1h = share(cell(5).filter(|price| *price > 0)).unwrap_or(write);
        Some(CachePrice { read, write, write_1h })
    }

    fn prices(self) -> Option<Prices> {
        Some(Prices { input: self.cell(2).filter(|price| *price > 0)?, output: self.cell(6).unwrap_or(0) })
    }

    fn cell(self, index: usize) -> Option<u64> {
        self.cells.split('\t').nth(index).and_then(nano_dollars)
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
        let CachePrice { read, write, write_1h } = cache_price(model);
        (read, write, write_1h)
    }

    #[test]
    fn names_are_found_as_they_are_written_by_clients_and_gateways() {
        let claude = (100, 1250, 2000);
        for model in [
            "claude-opus-4-6",
            "claude-opus-4-6-20260205",
            "anthropic/claude-opus-4-6",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-sonnet-4-5@20250929",
            "Claude-Sonnet-4-5-preview",
        ] {
            assert_eq!(shares(model), claude, "{model}");
        }
        assert_eq!(shares("gpt-4o"), (500, 1000, 1000));
        assert_eq!(shares("gpt-4.1-mini"), (250, 1000, 1000));
        assert_eq!(shares("deepseek-v4-flash"), (20, 1000, 1000), "a write price of zero is the price of input");
    }

    #[test]
    fn prices_are_those_of_the_table() {
        assert_eq!(prices("gpt-4o"), Some(Prices { input: 2_500_000_000, output: 10_000_000_000 }));
        assert_eq!(prices("my-own-model"), None);
        let sonnet = Some(Prices { input: 3_000_000_000, output: 15_000_000_000 });
        for name in ["claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-20250514", "claude-sonnet-4.5"] {
            assert_eq!(prices(name), sonnet, "{name}");
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
        let mut names: Vec<&str> = rows().map(|row| row.name).collect();
        assert!(names.len() > 1000);
        for row in rows() {
            assert_eq!(row.cells.split('\t').count(), 7, "{}", row.name);
            for price in row.cells.split('\t').skip(2).filter(|cell| !cell.is_empty()) {
                assert!(nano_dollars(price).is_some(), "{}: {price}", row.name);
            }
        }
        names.dedup();
        assert_eq!(names.len(), rows().count(), "a name stands twice");
    }
}
