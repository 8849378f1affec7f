//! Writes `src/models.tsv` anew from a newer source, and shows what the filter then says differently of which models.
//!
//! ```sh
//! make models SOURCE=model_prices_and_context_window.json
//! ```
//! The source is the table of the Python package litellm (JSON), or a table like `src/models.tsv` with a heading that names
//! its columns. Only models that answer chats are taken. A name is left out where the look-up says the same without it: most
//! are the same model under the name of yet another cloud.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Parser;
use context_compaction::models::{self, Model, Table};
use serde_json::Value;

/// The columns of the table: ours, then how litellm calls them, and whether they are prices of one token there.
const COLUMNS: [(&str, &str); 6] = [
    ("max_input_tokens", "max_input_tokens"),
    ("input_usd_per_mtok", "input_cost_per_token"),
    ("cache_read_usd_per_mtok", "cache_read_input_token_cost"),
    ("cache_write_usd_per_mtok", "cache_creation_input_token_cost"),
    ("cache_write_1h_usd_per_mtok", "cache_creation_input_token_cost_above_1hr"),
    ("output_usd_per_mtok", "output_cost_per_token"),
];

/// Writes src/models.tsv anew from a newer source, and shows the difference.
#[derive(Parser)]
struct Arguments {
    /// The newer table: JSON of litellm, or tab-separated with a heading.
    source: PathBuf,
    /// Where to write.
    #[arg(long, default_value = "src/models.tsv")]
    to: PathBuf,
    /// Only show what would change.
    #[arg(long)]
    dry_run: bool,
}

/// Cells of each model, by name.
type Rows = BTreeMap<String, [String; COLUMNS.len()]>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let text = std::fs::read_to_string(&arguments.source)
        .map_err(|error| format!("{}: {error}", arguments.source.display()))?;
    let source = if text.trim_start().starts_with('{') { from_litellm(&text)? } else { from_table(&text)? };
    if source.is_empty() {
        return Err(format!("{} names no model that answers chats", arguments.source.display()).into());
    }
    let rows = without_repeats(with_bare_names(source.clone()));
    let written = text_of(&rows);
    let changed = differences(&source, &Table::read(&written));
    for line in &changed {
        println!("{line}");
    }
    println!(
        "{} models in the source, {} lines ({} bytes) say all of it; {} models are known differently than before",
        source.len(),
        rows.len(),
        written.len(),
        changed.len()
    );
    if !arguments.dry_run {
        std::fs::write(&arguments.to, written)?;
        println!("written to {}", arguments.to.display());
    }
    Ok(())
}

fn from_litellm(text: &str) -> Result<Rows, Box<dyn std::error::Error>> {
    let Value::Object(models) = serde_json::from_str(text)? else { return Err("the source is no JSON object".into()) };
    let mut rows = Rows::new();
    for (name, about) in models.iter().filter(|(_, about)| matches!(about["mode"].as_str(), Some("chat" | "responses")))
    {
        let cell = |(ours, theirs): (&str, &str)| match about[theirs].as_f64() {
            None => String::new(),
            Some(tokens) if ours == "max_input_tokens" => format!("{tokens:.0}"),
            Some(price) => decimal(price * 1e6),
        };
        rows.insert(name.to_ascii_lowercase(), COLUMNS.map(cell));
    }
    Ok(rows)
}

/// At most nine decimals, which the filter reads exactly.
fn decimal(price: f64) -> String {
    let text = format!("{price:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn from_table(text: &str) -> Result<Rows, Box<dyn std::error::Error>> {
    let heading = text.lines().next().and_then(|line| line.strip_prefix("# ")).ok_or("the table has no heading")?;
    let heading: Vec<&str> = heading.split('\t').collect();
    let at = |name: &str| heading.iter().position(|h| *h == name).ok_or(format!("the table has no column {name}"));
    let places = COLUMNS.map(|(ours, _)| at(ours));
    let mut columns = [0; COLUMNS.len()];
    for (column, place) in columns.iter_mut().zip(places) {
        *column = place?;
    }
    let mut rows = Rows::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && line.contains('\t')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |column: usize| cells.get(column).copied().unwrap_or_default().to_owned();
        rows.insert(cell(0).to_ascii_lowercase(), columns.map(cell));
    }
    Ok(rows)
}

/// Each model under its plain name too. Of several clouds that sell it, the one that says most speaks for it.
fn with_bare_names(mut rows: Rows) -> Rows {
    let mut plain: BTreeMap<String, (usize, [String; COLUMNS.len()])> = BTreeMap::new();
    for (name, cells) in rows.iter().filter(|(name, _)| models::bare(name) != name.as_str()) {
        let says = cells.iter().filter(|cell| !cell.is_empty()).count();
        let known = plain.entry(models::bare(name).to_owned()).or_default();
        if says > known.0 {
            *known = (says, cells.clone());
        }
    }
    // One word without a version is a whole family, and would speak for members that are yet to come.
    for (name, (_, cells)) in
        plain.into_iter().filter(|(name, _)| name.contains(|c: char| c == '-' || c.is_ascii_digit()))
    {
        rows.entry(name).or_insert(cells);
    }
    rows
}

/// Leaves out, longest names first, what the look-up would say anyway.
fn without_repeats(mut rows: Rows) -> Rows {
    let mut names: Vec<String> = rows.keys().cloned().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let mut known: BTreeMap<String, Model> = BTreeMap::new();
    let all = text_of(&rows);
    let table = Table::read(&all);
    for name in &names {
        known.insert(name.clone(), table.look_up(name));
    }
    let whole = rows.clone();
    for name in names {
        let Some(cells) = rows.remove(&name) else { continue };
        if Table::read(&text_of(&rows)).look_up(&name) != known[&name] {
            rows.insert(name, cells);
        }
    }
    // A name may have been left out because of one that was left out after it.
    let text = text_of(&rows);
    let table = Table::read(&text);
    let missing: Vec<&String> =
        known.iter().filter(|(name, model)| table.look_up(name) != **model).map(|(n, _)| n).collect();
    for name in missing {
        rows.insert(name.clone(), whole[name].clone());
    }
    rows
}

fn text_of(rows: &Rows) -> String {
    let mut text = format!("# model\t{}\n", COLUMNS.map(|(ours, _)| ours).join("\t"));
    text.push_str("# facts from the MIT-licensed table of the Python package litellm; written by `make models`\n");
    for (name, cells) in rows {
        text.push_str(&format!("{name}\t{}\n", cells.join("\t")));
    }
    text
}

/// What the filter that runs this says of the source's models, where the new table says something else.
fn differences(source: &Rows, new: &Table<'_>) -> Vec<String> {
    let differs = |name: &String| {
        let (before, after) = (models::look_up(name), new.look_up(name));
        (before != after).then(|| format!("{name}: {} -> {}", shown(before), shown(after)))
    };
    source.keys().filter_map(differs).collect()
}

fn shown(model: Model) -> String {
    let Model { limit, cache, prices } = model;
    let price = prices.map_or("no price".to_owned(), |p| format!("{} / {} n$/Mtok", p.input, p.output));
    format!("{limit} tokens, {price}, cache {}/{}/{}", cache.read, cache.write, cache.write_1h)
}
