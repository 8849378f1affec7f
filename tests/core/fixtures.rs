//! The edge cases of every wire format, one file each: a request, what the engine says, and what must become of it.
//! `tests/fixtures/<dialect>/*.json`; the format of the files is told in `docs/adding-a-dialect.md`.

use crate::support::{exchange, exchange::Needed, invariants, paths::repository, provider_rules::broken};
use context_compaction::{dialect::DIALECTS, exchange::Outcome, skip::Skip};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path};

const DROP: Needed = (0.0, 0.0);
const SHORTEN: Needed = (1.0, 0.0);
const KEEP: Needed = (1.0, 1.0);

struct Fixture {
    /// Folder and file.
    name: String,
    what: Value,
}

/// Every fixture; with the names of the folders.
fn load_all() -> (Vec<Fixture>, BTreeSet<String>) {
    let root = repository().join("tests/fixtures");
    let folders = fs::read_dir(&root).expect("tests/fixtures").map(|entry| entry.expect("an entry").path());
    let (mut fixtures, mut names) = (Vec::new(), BTreeSet::new());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    for folder in folders.filter(|path| path.is_dir()) {
        names.insert(name(&folder));
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if name(&path) != "shape.json" {
                let text = fs::read_to_string(&path).expect("a text");
                let what = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                fixtures.push(Fixture { name: format!("{}/{}", name(&folder), name(&path)), what });
            }
        }
    }
    fixtures.sort_by(|a, b| a.name.cmp(&b.name));
    (fixtures, names)
}

impl Fixture {
    fn text(&self, member: &str) -> &str {
        self.what[member].as_str().unwrap_or_default()
    }

    fn texts(&self, member: &str) -> Vec<&str> {
        self.what[member].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn body(&self) -> Vec<u8> {
        match &self.what["body"] {
            Value::Null => self.text("text").as_bytes().to_vec(),
            body => body.to_string().into_bytes(),
        }
    }

    fn needed(&self, pair: &str) -> Needed {
        let listed = |member: &str| {
            let names = self.what["engine"][member].as_array().into_iter().flatten();
            names.filter_map(Value::as_str).any(|name| name == pair)
        };
        match self.what["engine"].as_str() {
            Some("shorten") => SHORTEN,
            None if self.what["engine"].is_null() => DROP,
            Some(_) => DROP,
            None if listed("drop") => DROP,
            None if listed("shorten") => SHORTEN,
            None => KEEP,
        }
    }

    /// What is wrong; nothing when all holds.
    fn complaints(&self) -> Vec<String> {
        let mut settings = exchange::configuration(json!({
            "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "truncate_head_chars": 10,
        }));
        let changes = self.what["settings"].as_object().cloned().unwrap_or_default();
        settings.as_object_mut().expect("settings").extend(changes);
        let headers = self.what["headers"].as_object().cloned().unwrap_or_default();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect();
        let (path, body) = (self.text("path"), self.body());
        let policy = exchange::policy(&settings);
        let ran = exchange::run(&policy, path, &headers, &body, &mut |pair, _| self.needed(pair));
        let mut complaints = invariants::complaints(&body, &ran.outgoing);
        let mut expect = |what: &str, expected: String, found: String| {
            if expected != found {
                complaints.push(format!("{what}: expected {expected}, found {found}"));
            }
        };
        let reduced = ran.outcome == Outcome::Reduced;
        let pairs = [&ran.report.dropped, &ran.report.truncated].map(|count| if reduced { *count } else { 0 });
        for (what, found) in [("dropped", pairs[0]), ("truncated", pairs[1])] {
            expect(what, self.what[what].as_u64().unwrap_or(0).to_string(), found.to_string());
        }
        let outcome = match ran.outcome {
            Outcome::Reduced => "reduced".to_owned(),
            Outcome::Untouched(skip) => skip.to_string(),
        };
        match self.text("outcome") {
            "E" => expect("outcome", "reduced".to_owned(), outcome),
            "P" => expect("outcome", self.text("skip").to_owned(), outcome),
            "G" if !self.text("skip").is_empty() => expect("outcome", self.text("skip").to_owned(), outcome),
            "G" => {}
            other => expect("a letter", "E, G or P".to_owned(), other.to_owned()),
        }
        if let Some(reason) = self.what["pair_skip"].as_str() {
            let counted: Vec<&str> = ran.report.pairs_skipped.keys().map(|skip| skip.name()).collect();
            let found = if counted.contains(&reason) { reason.to_owned() } else { format!("{counted:?}") };
            expect("pair_skip", reason.to_owned(), found);
        }
        let outgoing = String::from_utf8_lossy(&ran.outgoing);
        for (member, stands) in [("left", true), ("gone", false)] {
            for text in self.texts(member) {
                expect(&format!("{member} {text:?}"), stands.to_string(), outgoing.contains(text).to_string());
            }
        }
        if ran.outgoing != body && broken(path, &body).is_empty() {
            complaints.extend(broken(path, &ran.outgoing));
        }
        complaints
    }
}

#[test]
fn every_edge_case_becomes_what_its_file_says() {
    let (fixtures, _) = load_all();
    let wrong: Vec<String> = fixtures
        .iter()
        .map(|fixture| (fixture, fixture.complaints()))
        .filter(|(_, complaints)| !complaints.is_empty())
        .map(|(fixture, complaints)| format!("{}\n    {}", fixture.name, complaints.join("\n    ")))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), fixtures.len(), wrong.join("\n"));
}

#[test]
fn whatever_the_engine_says_no_provider_refuses_what_is_left_of_a_fixture() {
    let needed = [DROP, DROP, SHORTEN, KEEP];
    let (mut reduced, mut checked) = (0, 0);
    for fixture in load_all().0.iter().filter(|fixture| fixture.what["headers"].is_null()) {
        let (path, body) = (fixture.text("path"), fixture.body());
        let taken = broken(path, &body).is_empty();
        for seed in 0..16usize {
            let policy = exchange::policy(&exchange::configuration(json!({
                "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0,
                "truncate_head_chars": seed, "removal": if seed % 2 == 0 { "auto" } else { "portable" },
            })));
            let mut ordinal = seed;
            let mut judge = |_: &str, _: &Value| {
                ordinal += 1 + seed / 4;
                needed[ordinal % needed.len()]
            };
            let ran = exchange::run(&policy, path, &[], &body, &mut judge);
            assert_ne!(ran.outcome, Outcome::Untouched(Skip::SelfCheck), "{} {seed}", fixture.name);
            if ran.outgoing == body {
                continue;
            }
            reduced += 1;
            assert_eq!(invariants::complaints(&body, &ran.outgoing), Vec::<String>::new(), "{} {seed}", fixture.name);
            if taken {
                checked += 1;
                assert_eq!(broken(path, &ran.outgoing), Vec::<String>::new(), "{} {seed}", fixture.name);
            }
        }
    }
    assert!(checked > 1_000 && reduced > checked, "{checked} of {reduced} reduced bodies were held against the rules");
}

#[test]
fn every_file_says_what_it_must_and_every_dialect_has_a_folder_with_a_shape() {
    let (fixtures, folders) = load_all();
    for Fixture { name, what } in &fixtures {
        for member in what.as_object().expect("an object").keys() {
            let known = [
                "rule",
                "path",
                "headers",
                "settings",
                "engine",
                "body",
                "text",
                "outcome",
                "dropped",
                "truncated",
                "skip",
                "pair_skip",
                "left",
                "gone",
                "design",
            ];
            assert!(known.contains(&member.as_str()), "{name}: {member}");
        }
        assert!(what["rule"].is_string() && what["path"].is_string(), "{name}");
        assert!(what["body"].is_object() ^ what["text"].is_string(), "{name}");
        for reason in [&what["skip"], &what["pair_skip"]].into_iter().filter_map(Value::as_str) {
            assert!(Skip::ALL.iter().any(|skip| skip.name() == reason), "{name}: {reason}");
        }
    }
    for dialect in DIALECTS {
        assert!(folders.contains(dialect.name), "{}", dialect.name);
        assert!(
            repository().join("tests/fixtures").join(dialect.name).join("shape.json").is_file(),
            "{}",
            dialect.name
        );
    }
    let numbered: BTreeSet<u32> =
        fixtures.iter().filter_map(|f| f.name.split_once('/')?.1.get(..3)?.parse().ok()).collect();
    let missing: Vec<u32> = (1..=125).filter(|number| !numbered.contains(number)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "edge cases without a file");
}
