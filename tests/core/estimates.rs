//! Estimates of input against what providers reported, on the recorded conversations that carry usage.

use crate::support::{conversations, estimates};

#[test]
fn what_providers_report_makes_estimates_better() {
    let all = conversations::served(usize::MAX);
    let rows = estimates::rows(&all);
    assert_eq!(rows.is_empty(), all.is_empty(), "some recordings carry usage");
    for row in rows {
        let [constant, calibrated, last] = row.errors;
        assert!(row.requests > 50, "{row:?}");
        assert!(calibrated.median <= constant.median + 5, "{row:?}");
        assert!(last.ninety * 2 < constant.ninety && last.median <= 20, "{row:?}");
        assert!((1_000..8_000).contains(&row.rate), "{row:?}");
    }
}
