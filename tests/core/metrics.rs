//! The names of all metrics: dashboards and alerts hold on to them, so a change shows here first.

use context_compaction::metrics::Metric;

/// One line per metric: its kind and its name, in order.
const LIST: &str = include_str!("../fixtures/metrics.txt");

#[test]
fn the_list_of_metrics_is_the_published_one() {
    let mut names: Vec<String> = Metric::all().map(|m| format!("{:?} {}", m.kind(), m.name()).to_lowercase()).collect();
    names.sort();
    let published: Vec<&str> = LIST.lines().collect();
    let missing: Vec<&&str> = published.iter().filter(|line| !names.iter().any(|name| name == **line)).collect();
    let new: Vec<&String> = names.iter().filter(|name| !published.contains(&name.as_str())).collect();
    assert!(missing.is_empty() && new.is_empty(), "gone: {missing:#?}\nnew: {new:#?}");
    assert_eq!(names, published, "in order, each once");
}
