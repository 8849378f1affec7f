//! What the documents say about the code is true of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use context_compaction::{fault::Fault, skip::Skip};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).expect("a document")
}

/// The names of all functions in tests/ and src/ that follow a test attribute.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("tests"), root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let source = fs::read_to_string(path).expect("a source");
                for behind in source.split("#[test]").skip(1).chain(source.split("#[tokio::test").skip(1)) {
                    let name = behind.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                    names.extend(name.map(str::to_owned));
                }
            }
        }
    }
    names
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_named_in_the_failure_modes_exists() {
    let tests = tests();
    let document = read("docs/failure-modes.md");
    let looks_like_a_test = |name: &&str| name.matches('_').count() >= 4 && !name.contains(['.', ' ', '*', ':']);
    let named: Vec<&str> = quoted(&document).filter(looks_like_a_test).collect();
    assert!(named.len() > 20, "only {} tests are named", named.len());
    let missing: Vec<&&str> =
        named.iter().filter(|name| !tests.contains(**name) && !name.starts_with("context_compaction")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_reason_has_its_place_in_the_readme() {
    let readme = read("README.md");
    let words: BTreeSet<&str> = quoted(&readme).collect();
    for skip in Skip::ALL {
        assert!(words.contains(skip.name()), "README.md does not name {skip}");
    }
    for fault in Fault::ALL {
        assert!(words.contains(fault.name()), "README.md does not name {fault}");
    }
}
