//! Texts from disk: source code and recorded conversations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Corpus, Failure};

/// Every readable text below `path` with its extension, in the order of their paths.
pub fn texts_under(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut pending = vec![path.to_owned()];
    let mut files = BTreeSet::new();
    while let Some(path) = pending.pop() {
        let kind = fs::symlink_metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if kind.is_dir() {
            let entries = fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            pending.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if kind.is_file() && kind.len() < 200_000 {
            files.insert(path);
        }
    }
    let texts: Vec<_> =
        files.iter().filter_map(|file| Some((extension(file), fs::read_to_string(file).ok()?))).collect();
    if texts.is_empty() {
        return Err(format!("{}: holds no text file below 200 kB", path.display()).into());
    }
    Ok(texts)
}

pub fn extension(file: &Path) -> String {
    file.extension().unwrap_or_default().to_string_lossy().into_owned()
}

pub fn add_source(corpus: &mut Corpus, directories: &[PathBuf]) -> Result<(), Failure> {
    for directory in directories {
        for (extension, text) in texts_under(directory)? {
            let class = match extension.as_str() {
                "rs" | "py" | "md" | "json" | "toml" => extension.as_str(),
                "js" | "mjs" | "cjs" | "ts" => "js",
                _ => continue,
            };
            // Tables of foreign characters (codecs, Unicode data) are not source as people write it.
            let foreign = text.bytes().filter(|byte| !byte.is_ascii()).count();
            if text.len() > 500 && foreign < text.len() / 5 {
                corpus.entry(format!("source .{class}")).or_default().push(text);
            }
        }
    }
    Ok(())
}

/// Tool results by agent, arguments of calls, and prose; one text for each family of conversations.
pub fn add_conversations(corpus: &mut Corpus, directory: &Path) -> Result<(), Failure> {
    if !directory.exists() {
        eprintln!("no conversations: {} is missing; fitting without tool results and prose", directory.display());
        return Ok(());
    }
    let mut families: BTreeMap<(String, String), String> = BTreeMap::new();
    for path in files_in(directory, "json")? {
        let conversation: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let family = conversation["family"].as_str().ok_or_else(|| format!("{}: has no `family`", path.display()))?;
        let name = conversation["name"].as_str().unwrap_or_default();
        let agent = name.split('-').next().filter(|agent| ["cc", "cx"].contains(agent)).unwrap_or("other");
        let mut add = |class: &str, text: &str| {
            let all = families.entry((class.to_owned(), family.to_owned())).or_default();
            all.push_str(text);
            all.push('\n');
        };
        let results = format!("results {agent}");
        strings(&conversation["system"], &mut |text| add("prose", text));
        if conversation["tools"].is_array() {
            add("tool lists", &conversation["tools"].to_string());
        }
        for message in conversation["messages"].as_array().into_iter().flatten() {
            add_message(message, &results, &mut add);
        }
    }
    for ((class, _), text) in families {
        corpus.entry(class).or_default().push(text);
    }
    Ok(())
}

/// The files in `directory` with this extension, in the order of their names.
pub fn files_in(directory: &Path, wanted: &str) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| extension(path) == wanted);
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: holds no .{wanted} file", directory.display()).into());
    }
    Ok(paths)
}

/// Sorts the texts of one message, or Responses item, into classes.
pub fn add_message(message: &Value, results: &str, add: &mut impl FnMut(&str, &str)) {
    match message["type"].as_str().unwrap_or_default() {
        "function_call_output" | "custom_tool_call_output" => {
            return strings(&message["output"], &mut |text| add(results, text));
        }
        "function_call" => return strings(&message["arguments"], &mut |text| add("arguments", text)),
        "custom_tool_call" => return strings(&message["input"], &mut |text| add("arguments", text)),
        "reasoning" | "compaction" => return,
        _ => {}
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        strings(&call["function"]["arguments"], &mut |text| add("arguments", text));
    }
    if message["role"] == "tool" {
        return strings(&message["content"], &mut |text| add(results, text));
    }
    let Some(blocks) = message["content"].as_array() else {
        return strings(&message["content"], &mut |text| add("prose", text));
    };
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "tool_result" => strings(&block["content"], &mut |text| add(results, text)),
            "tool_use" => add("arguments", &block["input"].to_string()),
            "thinking" => {}
            _ => strings(block, &mut |text| add("prose", text)),
        }
    }
}

/// A string, or the texts of a list of content blocks.
pub fn strings(value: &Value, visit: &mut impl FnMut(&str)) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => visit(text),
            Value::Array(blocks) => pending.extend(blocks.iter().rev()),
            Value::Object(block) => pending.extend(block.get("text")),
            _ => {}
        }
    }
}
