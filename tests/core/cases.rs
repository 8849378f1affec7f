//! The written cases through the core, without a proxy: what must leave and what must stay.

use crate::support::{cases, cases::Case, exchange};
use serde_json::Value;

fn written_cases() -> Vec<Case> {
    if !cases::available() {
        eprintln!("skipped: the cases are not beside this repository (../shared/cases)");
        return Vec::new();
    }
    cases::load_all().expect("the cases load")
}

/// What the engine of a case answers for one pair; `None` where the engine is to fail.
fn needed(case: &Case, about: &Value) -> Option<exchange::Needed> {
    let engine = &case.expect["engine"];
    if let Some(markers) = engine["drop_if_call_contains"].as_array() {
        let text = about.to_string();
        let hit = markers.iter().filter_map(Value::as_str).any(|marker| text.contains(marker));
        return Some(if hit { (0.02, 0.02) } else { (0.98, 0.98) });
    }
    match engine.as_str() {
        Some("drop_all") => Some((0.02, 0.02)),
        Some("keep_call_shorten_result") => Some((0.98, 0.02)),
        _ => None,
    }
}

#[test]
fn every_case_holds() {
    for case in written_cases() {
        let policy = exchange::policy(&case.configuration("http://127.0.0.1:1"));
        let headers = case.headers();
        let run = |body: &[u8]| {
            let mut judge = |_: &str, about: &Value| needed(&case, about).unwrap_or((2.0, 2.0));
            exchange::run(&policy, case.path(), &headers, body, &mut judge)
        };
        let ran: Vec<_> = case.bodies.iter().map(|body| run(body)).collect();
        let outgoing: Vec<_> = ran.iter().map(|r| &r.outgoing).collect();
        if let Err(complaint) = case.check(&outgoing) {
            panic!("{complaint}\n{:?}", ran.iter().map(|r| (r.outcome, &r.report)).collect::<Vec<_>>());
        }
        for (body, before) in case.bodies.iter().zip(&ran) {
            assert_eq!(run(body).outgoing, before.outgoing, "{}: the same body twice", case.slug);
        }
        println!("{:45} {}", case.slug, ran[0].report.line(Some(&ran[0].outcome)));
    }
}
