//! The table of models against the one that it was made from.

use crate::support::paths::shared;
use context_compaction::models::{self, CachePrice, Table};

/// Price cells of the source, in billionths of a US dollar per million tokens.
fn nano(cell: &str) -> Option<u64> {
    let dollars: f64 = cell.parse().ok()?;
    Some((dollars * 1e9).round() as u64)
}

#[test]
fn every_model_of_the_source_has_its_own_limit_and_prices() {
    let source = shared("data/models.tsv");
    let Ok(text) = std::fs::read_to_string(&source) else {
        eprintln!("skipped: {} is not there", source.display());
        return;
    };
    let mut seen = 0;
    for line in text.lines().filter(|line| !line.starts_with('#') && line.contains('\t')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let model = models::look_up(cells[0]);
        if let Ok(limit) = cells[2].parse::<u64>() {
            assert_eq!(model.limit, limit, "{line}");
        }
        if let Some(input) = nano(cells[3]).filter(|input| *input > 0) {
            let prices = model.prices.unwrap_or_else(|| panic!("{line}: no price"));
            let close = |ours: u64, theirs: u64| ours.abs_diff(theirs) <= theirs / 100_000 + 1;
            assert!(
                close(prices.input, input) && close(prices.output, nano(cells[7]).unwrap_or(0)),
                "{line}: {prices:?}"
            );
            let expected = CachePrice::of(prices.input, nano(cells[4]), nano(cells[5]), nano(cells[6]));
            if !cells[4].is_empty() || !cells[0].contains("claude") {
                assert_eq!(Some(model.cache), expected, "{line}");
            }
        }
        seen += 1;
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn a_table_of_ones_own_is_looked_up_alike() {
    let table = Table::read("# a comment\nb-2\t20\t2\t\t\t\t\na-1\t10\t1\t0.5\t\t\t3\n");
    assert_eq!((table.len(), table.is_empty()), (2, false));
    assert_eq!((table.look_up("a-1-large").limit, table.look_up("a-1-large").prices), (10, None));
    assert_eq!((table.look_up("a-1-2026").limit, table.look_up("x/b-2@7").limit), (10, 20));
    assert_eq!(table.look_up("a-1").cache, CachePrice { read: 500, write: 1000, write_1h: 1000 });
}
