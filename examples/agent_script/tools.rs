//! The agent's tools: how they are declared to the model, and how a call is carried out.

use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::workspace::{COMMANDS, Workspace};
use crate::support::{Failure, Result};

/// A call that the script makes.
pub enum Action {
    /// Lists a folder and everything below it.
    List(&'static str),
    /// Finds a text in a file or folder.
    Search {
        /// The text.
        pattern: &'static str,
        /// The file or folder.
        path: &'static str,
    },
    /// Reads a file.
    Read {
        /// The file.
        path: &'static str,
        /// First line and number of lines, where the call names them.
        page: Option<(usize, usize)>,
        /// The agent only guesses that there is such a file.
        guess: bool,
    },
    /// Changes a file.
    Edit {
        /// The file.
        path: &'static str,
        /// Where in it.
        place: Place,
        /// What is put there.
        text: &'static str,
    },
    /// Runs a command.
    Run {
        /// One of [`COMMANDS`].
        command: &'static str,
        /// The story goes on only if it succeeds, or only if it fails.
        succeeds: bool,
    },
}

/// A place in a file, found by a distinctive text.
pub enum Place {
    /// In front of the first line with this text.
    Before(&'static str),
    /// Behind the first line with this text.
    After(&'static str),
    /// This text itself, which must stand there once.
    InsteadOf(&'static str),
}

/// A call that was carried out.
pub struct Done {
    /// The tool's name.
    pub tool: &'static str,
    /// The arguments, an object.
    pub arguments: Value,
    /// The text of the result.
    pub result: String,
}

/// Lines of one result of `read_file`, unless the call asks for fewer.
const PAGE: usize = 250;
const MOST_MATCHES: usize = 100;
const MOST_FILES: usize = 150;

/// The tools as a request declares them.
pub fn declarations() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "integer", "minimum": 1, "description": about});
    let tool = |name: &str, about: &str, properties: Value, required: &[&str]| {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        json!({"type": "function", "function": {"name": name, "description": about, "parameters": parameters}})
    };
    let path = text("Path from the root of the repository.");
    let command = json!({"type": "string", "enum": COMMANDS});
    json!([
        tool("list_files", "Lists all files below a folder with their sizes.", json!({"path": path}), &["path"]),
        tool(
            "search",
            "Finds a plain text, not a regular expression, in a file or below a folder; answers path:line:text.",
            json!({"pattern": text("The text to find."), "path": path}),
            &["pattern", "path"]
        ),
        tool(
            "read_file",
            "Reads a file with line numbers, a page at a time.",
            json!({
                "path": path,
                "offset": number("First line, 1 if missing."),
                "limit": number("How many lines, at most and by default 250."),
            }),
            &["path"]
        ),
        tool(
            "edit_file",
            "Replaces a text that stands in a file exactly once.",
            json!({"path": path, "old": text("The text to replace."), "new": text("What takes its place.")}),
            &["path", "old", "new"]
        ),
        tool("run", "Runs a command in the root of the repository.", json!({"command": command}), &["command"]),
    ])
}

impl Action {
    /// Carries the call out; fails where the script does not fit the repository.
    pub fn carry_out(&self, workspace: &Workspace) -> Result<Done> {
        let root = workspace.root();
        match self {
            Self::List(path) => Ok(done("list_files", json!({"path": path}), list(root, path)?)),
            Self::Search { pattern, path } => {
                Ok(done("search", json!({"pattern": pattern, "path": path}), search(root, pattern, path)?))
            }
            Self::Read { path, page, guess } => {
                let arguments = match page {
                    Some((offset, limit)) => json!({"path": path, "offset": offset, "limit": limit}),
                    None => json!({"path": path}),
                };
                let result = if *guess && !root.join(path).exists() {
                    format!("error: {path}: no such file")
                } else {
                    numbered(&load(root, path)?, path, page.unwrap_or((1, PAGE)))
                };
                Ok(done("read_file", arguments, result))
            }
            Self::Edit { path, place, text } => edit(root, path, place, text),
            Self::Run { command, succeeds } => run(workspace, command, *succeeds),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(path) => write!(f, "list_files {path}"),
            Self::Search { pattern, path } => write!(f, "search {path} for {pattern:?}"),
            Self::Read { path, page: Some((offset, _)), .. } => write!(f, "read_file {path} from line {offset}"),
            Self::Read { path, .. } => write!(f, "read_file {path}"),
            Self::Edit { path, .. } => write!(f, "edit_file {path}"),
            Self::Run { command, .. } => write!(f, "run {command}"),
        }
    }
}

fn done(tool: &'static str, arguments: Value, result: String) -> Done {
    Done { tool, arguments, result }
}

fn load(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path))
        .map_err(|error| Failure::from(error).while_doing(format!("the story reads {path}")))
}

/// All files at or below `path`, in order, as paths from the root.
fn files(root: &Path, path: &str) -> Result<Vec<String>> {
    let full = root.join(path);
    if full.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries =
        fs::read_dir(&full).map_err(|error| Failure::from(error).while_doing(format!("the story lists {path}")))?;
    let mut names =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>>>()?;
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let below = if path == "." { name } else { format!("{path}/{name}") };
        found.extend(files(root, &below)?);
    }
    Ok(found)
}

fn list(root: &Path, path: &str) -> Result<String> {
    let files = files(root, path)?;
    let mut result = String::new();
    for file in files.iter().take(MOST_FILES) {
        let bytes = fs::metadata(root.join(file))?.len();
        result += &format!("{bytes:>7}  {file}\n");
    }
    if files.len() > MOST_FILES {
        result += &format!("[and {} more files]\n", files.len() - MOST_FILES);
    }
    Ok(result)
}

fn search(root: &Path, pattern: &str, path: &str) -> Result<String> {
    let mut matches = Vec::new();
    for file in files(root, path)? {
        // A file that is not text has no lines to show.
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| line.contains(pattern));
        matches.extend(lines.map(|(index, line)| format!("{file}:{}:{line}\n", index + 1)));
    }
    let left_out = matches.len().saturating_sub(MOST_MATCHES);
    matches.truncate(MOST_MATCHES);
    match (matches.is_empty(), left_out) {
        (true, _) => Ok("no matches\n".to_owned()),
        (_, 0) => Ok(matches.concat()),
        _ => Ok(format!("{}[and {left_out} more matches]\n", matches.concat())),
    }
}

fn numbered(text: &str, path: &str, (offset, limit): (usize, usize)) -> String {
    let total = text.lines().count();
    let lines = text.lines().enumerate().skip(offset.saturating_sub(1)).take(limit.min(PAGE));
    let shown: Vec<String> = lines.map(|(index, line)| format!("{:>5}\t{line}\n", index + 1)).collect();
    let end = offset + shown.len();
    if shown.is_empty() {
        format!("[{path} has {total} lines, none from {offset} on]\n")
    } else if end <= total {
        format!("{}[{} more lines; go on with offset {end}]\n", shown.concat(), total + 1 - end)
    } else {
        shown.concat()
    }
}

fn edit(root: &Path, path: &str, place: &Place, text: &str) -> Result<Done> {
    let before = load(root, path)?;
    let (old, new) = replacement(&before, place, text).map_err(|failure| failure.while_doing(path))?;
    let line = before.split(&old).next().map_or(0, |above| above.lines().count()) + 1;
    fs::write(root.join(path), before.replacen(&old, &new, 1))?;
    let result =
        format!("{path}: replaced 1 occurrence at line {line}, {} lines before, {} after.\n", count(&old), count(&new));
    Ok(done("edit_file", json!({"path": path, "old": old, "new": new}), result))
}

fn count(text: &str) -> usize {
    text.lines().count()
}

/// The old and the new text of an edit: whole lines, as many as it takes for the old text to stand there once.
fn replacement(before: &str, place: &Place, text: &str) -> Result<(String, String)> {
    let (Place::Before(anchor) | Place::After(anchor) | Place::InsteadOf(anchor)) = place;
    let missing = || Failure::new(format!("the text {anchor:?} is missing: choose another anchor in story.rs"));
    if let Place::InsteadOf(_) = place {
        return match before.matches(anchor).count() {
            0 => Err(missing()),
            1 => Ok(((*anchor).to_owned(), text.to_owned())),
            more => Err(Failure::new(format!("the text {anchor:?} stands there {more} times"))),
        };
    }
    let found = before.find(anchor).ok_or_else(missing)?;
    let start = before[..found].rfind('\n').map_or(0, |newline| newline + 1);
    let ends = before[start..].match_indices('\n').map(|(at, _)| start + at + 1);
    let mut olds = ends.map(|end| &before[start..end]);
    let first = olds.clone().next().unwrap_or_default();
    let old = olds.find(|old| before.matches(old).count() == 1).ok_or_else(missing)?;
    let new = match place {
        Place::After(_) => format!("{first}{text}{}", &old[first.len()..]),
        _ => format!("{text}{old}"),
    };
    Ok((old.to_owned(), new))
}

fn run(workspace: &Workspace, command: &str, succeeds: bool) -> Result<Done> {
    let finished = workspace.run(command)?;
    let code = finished.status.code().map_or("none".to_owned(), |code| code.to_string());
    let result = format!("{}exit code {code}\n", finished.output);
    if finished.status.success() != succeeds {
        let expected = if succeeds { "success" } else { "failure" };
        return Err(Failure::new(format!("the story goes on after a {expected} only, but:\n{result}")));
    }
    Ok(done("run", json!({"command": command}), result))
}
