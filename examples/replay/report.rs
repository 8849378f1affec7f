//! What a replay found: a table for people, a document for machines.

use serde_json::{Value, json};

use super::run::Row;

/// What every table of savings says of itself.
pub const CAVEATS: [&str; 2] = ["Input side only: what is saved is input tokens.", "Task quality is not measured."];

/// How the worst case is counted.
const WORST_CASE: &str = "worst case = every re-cited result fetched again: for each, write price x its tokens + read price x the prompt as \
     sent + output price x 150; its tokens are bytes / bytes_per_token";

/// Everything that a replay found.
pub struct Report {
    /// The engine, as it was named.
    pub engine: String,
    /// How the provider's cache was modelled.
    pub cache: String,
    /// What the engine costs, in US dollars per million tokens of its requests.
    pub engine_price: f64,
    /// Conversations whose model has no price, and what stands in.
    pub priced_as: Vec<String>,
    /// Conversations in dialects that this version does not read.
    pub not_served: Vec<String>,
    /// The rows of each policy.
    pub policies: Vec<(&'static str, Vec<Row>)>,
}

/// All conversations under one policy.
pub struct Total {
    /// The sums.
    pub sum: Row,
    /// How many there are.
    pub conversations: usize,
    /// How many of them cost more than doing nothing.
    pub losing: usize,
    /// The worst of them, as a share of its cost of doing nothing; 0 where none loses.
    pub worst: f64,
}

impl Total {
    /// Adds rows up.
    pub fn of(rows: &[Row]) -> Self {
        let mut sum = Row::default();
        rows.iter().for_each(|row| sum.add(row));
        let losers = || rows.iter().filter(|row| row.loses());
        Self {
            sum,
            conversations: rows.len(),
            losing: losers().count(),
            worst: losers().map(Row::share).fold(0.0, f64::min),
        }
    }
}

impl Report {
    /// One JSON document. Money is in US dollars.
    pub fn json(&self) -> Value {
        let policy = |(name, rows): &(&str, Vec<Row>)| {
            let total = Total::of(rows);
            let mut sums = json!(total.sum);
            if let Some(sums) = sums.as_object_mut() {
                sums.shift_remove("conversation");
                sums.shift_remove("model");
            }
            json!({
                "policy": name,
                "conversations": rows,
                "total": sums,
                "net": total.sum.net(),
                "net_share": total.sum.share(),
                "losing": total.losing,
                "worst_share": total.worst,
                "engine_spend": self.engine_spend(&total.sum),
            })
        };
        json!({
            "engine": self.engine,
            "cache": self.cache,
            "engine_price_per_mtok": self.engine_price,
            "priced_as": self.priced_as,
            "not_served": self.not_served,
            "policies": self.policies.iter().map(policy).collect::<Vec<_>>(),
            "worst_case_formula": WORST_CASE,
            "caveats": CAVEATS,
        })
    }

    /// A line per conversation, then one table.
    pub fn print(&self) {
        for (name, rows) in &self.policies {
            println!("\n{name}");
            print_rows(rows);
        }
        println!("\nengine {}, cache {}; net > 0 is saved, % of the cost of doing nothing", self.engine, self.cache);
        self.print_totals();
        println!("\n{WORST_CASE}.");
        for note in &self.priced_as {
            println!("No list price: {note}.");
        }
        if !self.not_served.is_empty() {
            println!("Not served by this version: {} ({}).", self.not_served.len(), self.not_served.join(", "));
        }
        CAVEATS.iter().for_each(|sentence| println!("{sentence}"));
    }

    fn print_totals(&self) {
        let totals: Vec<Total> = self.policies.iter().map(|(_, rows)| Total::of(rows)).collect();
        let line = |name: &str, cell: &dyn Fn(&Total) -> String| {
            let cells: String = totals.iter().map(|total| format!("{:>26}", cell(total))).collect();
            println!("{name:<26}{cells}");
        };
        let names: String = self.policies.iter().map(|(name, _)| format!("{name:>26}")).collect();
        println!("{:<26}{names}", "");
        line("conversations", &|t| t.conversations.to_string());
        line("turns", &|t| t.sum.turns.to_string());
        line("engine calls (failed)", &|t| format!("{} ({})", t.sum.engine_calls, t.sum.engine_failures));
        line("bytes exported", &|t| format!("{:.2} MB", t.sum.exported_bytes as f64 / 1e6));
        line("prefix changes", &|t| t.sum.prefix_changes.to_string());
        line("input tokens without", &|t| millions(t.sum.tokens_without));
        line("removed tokens", &|t| {
            let removed = t.sum.tokens_without.saturating_sub(t.sum.tokens_with);
            format!("{} ({})", millions(removed), percent(ratio(removed, t.sum.tokens_without)))
        });
        line("cost of doing nothing", &|t| dollars(t.sum.cost_without));
        line("gross (reads saved)", &|t| dollars(t.sum.gross));
        line("rewrite", &|t| dollars(t.sum.rewrite));
        line("net", &|t| format!("{} ({})", dollars(t.sum.net()), signed(t.sum.share())));
        line("losing money (worst)", &|t| match t.losing {
            0 => "0".to_owned(),
            losing => format!("{losing} ({})", signed(t.worst)),
        });
        line("removed pairs", &|t| t.sum.removed.to_string());
        line("re-cited", &|t| format!("{} ({})", t.sum.recited, percent(ratio(t.sum.recited, t.sum.removed))));
        line("  of re-runnable tools", &|t| percent(ratio(t.sum.rerunnable, t.sum.recited)));
        line("  lost", &|t| format!("{} ({})", t.sum.lost, percent(ratio(t.sum.lost, t.sum.removed))));
        line("worst case", &|t| dollars(t.sum.worst_case));
        line("engine spend", &|t| {
            format!("{} ({} tokens)", dollars(self.engine_spend(&t.sum)), millions(t.sum.engine_tokens))
        });
    }

    fn engine_spend(&self, sum: &Row) -> f64 {
        sum.engine_tokens as f64 / 1e6 * self.engine_price
    }
}

fn print_rows(rows: &[Row]) {
    println!(
        "{:<24} {:>5} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>5} {:>8} {:>8} {:>4}",
        "conversation",
        "turns",
        "tokens",
        "with",
        "US$",
        "with",
        "net",
        "changes",
        "calls",
        "exported",
        "re-cited",
        "lost"
    );
    for row in rows {
        println!(
            "{:<24} {:>5} {:>8} {:>8} {:>8.2} {:>8.2} {:>7} {:>7} {:>5} {:>5} kB {:>8} {:>4}",
            row.conversation,
            row.turns,
            millions(row.tokens_without),
            millions(row.tokens_with),
            row.cost_without,
            row.cost_with,
            signed(row.share()),
            row.prefix_changes,
            row.engine_calls,
            row.exported_bytes / 1000,
            row.recited,
            row.lost
        );
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

fn millions(tokens: u64) -> String {
    format!("{:.2}M", tokens as f64 / 1e6)
}

fn dollars(amount: f64) -> String {
    format!("US$ {amount:.2}")
}
