//! A module uses only lower layers: told from the `use crate::` lines and paths of `src/`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// From the innermost layer outwards. A module may use modules of layers before its own, and itself.
const LAYERS: &[&[&str]] = &[
    &["skip", "fault", "hold", "models", "window", "usage"],
    &["json", "metrics"],
    &["cut", "tokens", "policy", "economy"],
    &["transcript"],
    &["dialect", "engine", "epoch", "memory"],
    &["ledger", "pause", "reported", "realised"],
    &["exchange"],
    &["analysis"],
    &["driver"],
    &["glue"],
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The module that a file belongs to: `src/engine/rules.rs` is `engine`.
fn module(path: &Path) -> String {
    let relative = path.strip_prefix(root()).expect("a file of src");
    let first = relative.components().next().expect("a file name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The modules that a source names behind `crate::`, single or in braces. Comments and its tests do not count.
fn named(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(top_level(list)),
            None => names.extend(identifier(rest)),
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The first path segment of each item of a brace list.
fn top_level(list: &str) -> Vec<String> {
    let (mut depth, mut item, mut names) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut item)),
            _ => item.push(c),
        }
    }
    names.push(item);
    names.iter().filter_map(|item| identifier(item.trim())).collect()
}

#[test]
fn a_module_uses_only_lower_layers() {
    let level = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    for path in sources(&root()) {
        let this = module(&path);
        if this == "lib" {
            continue;
        }
        let own = level(&this).unwrap_or_else(|| panic!("{this} stands in no layer"));
        for used in named(&fs::read_to_string(&path).expect("a source")) {
            let other = level(&used).unwrap_or_else(|| panic!("{}: {used} stands in no layer", path.display()));
            assert!(used == this || other < own, "{}: {this} must not use {used}", path.display());
        }
    }
}

#[test]
fn only_the_glue_names_the_host() {
    for path in sources(&root()) {
        let source = fs::read_to_string(&path).expect("a source");
        let names_host = source.contains("proxy_wasm::");
        assert!(!names_host || module(&path) == "glue", "{} names proxy_wasm", path.display());
    }
}

#[test]
fn the_glue_calls_the_host_through_its_own_abi_only() {
    // The names of the SDK's host calls; a panic in one of them takes the VM down.
    let calls =
        [".get_", ".set_", ".add_http", ".remove_http", ".resume_", ".reset_", ".send_", ".close_", ".dispatch_"];
    for path in sources(&root().join("glue")) {
        let source = fs::read_to_string(&path).expect("a source");
        let host_calls: BTreeSet<&str> =
            source.split("hostcalls::").skip(1).filter_map(|rest| rest.split('(').next()).collect();
        assert!(host_calls.iter().all(|call| *call == "dispatch_http_call"), "{}: {host_calls:?}", path.display());
        let by_self = calls.iter().find(|call| source.contains(&format!("self{call}")));
        assert_eq!(by_self, None, "{}", path.display());
    }
}

#[test]
fn only_the_driver_and_the_glue_log() {
    for path in sources(&root()) {
        let logs = fs::read_to_string(&path).expect("a source").contains("log::");
        assert!(!logs || ["driver", "glue"].contains(&module(&path).as_str()), "{} logs", path.display());
    }
}

#[test]
fn the_raw_abi_is_the_only_unsafe_code() {
    for path in sources(&root()) {
        let source = fs::read_to_string(&path).expect("a source");
        assert!(!source.contains("unsafe ") || path.ends_with("glue/abi.rs"), "{} is unsafe", path.display());
    }
}

#[test]
fn a_dialect_fits_into_300_lines() {
    for path in sources(&root().join("dialect")) {
        let lines = fs::read_to_string(&path).expect("a source").lines().count();
        assert!(lines <= 300, "{}: {lines} lines", path.display());
    }
}

#[test]
fn the_brace_list_reader_sees_every_module() {
    let names = named("use crate::{a::B, c::{D, e}, f};\nlet x = crate::g::h();\n// crate::comment");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "c", "f", "g"]);
}
