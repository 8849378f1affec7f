//! The copy of the repository in which the agent works, and the commands that may run there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Failure, Result};

/// The commands that the agent may run.
pub const COMMANDS: [&str; 5] = [
    "cargo check --lib",
    "cargo test --lib",
    "cargo clippy --lib",
    "cargo doc --lib --no-deps",
    "rustfmt --edition 2024 --check src/cut.rs",
];
/// What has to succeed before the agent begins; it also leaves only the crate itself for the agent's commands to build.
const PREPARATIONS: [&str; 2] = ["cargo clippy --lib", "cargo test --lib"];

const COMMAND_LIMIT: Duration = Duration::from_secs(300);
const PREPARATION_LIMIT: Duration = Duration::from_secs(3600);
/// Bytes of output that the agent sees.
const OUTPUT_LIMIT: usize = 16_000;

/// Built, fetched, or made by this example; names with a leading dot stay behind as well.
const LEFT_BEHIND: [&str; 3] = ["target", "dist", "conversation.json"];
/// Where the copy seems to be, for whoever reads the conversation.
const SHOWN_ROOT: &str = "/work/repo";

/// A copy of the repository. It is deleted with this value.
pub struct Workspace {
    folder: TempDir,
    root: PathBuf,
    target: PathBuf,
    repository: PathBuf,
    home: Option<PathBuf>,
}

/// What a command printed, and how it ended.
pub struct Finished {
    /// Output and errors as they came, without paths of this machine.
    pub output: String,
    /// How the command ended.
    pub status: ExitStatus,
}

impl Workspace {
    /// Copies the sources of `repository`. Cargo builds in `target`, or else in a folder that goes with the copy.
    pub fn copy_of(repository: &Path, target: Option<&Path>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?.join("repo");
        copy(repository, &root)?;
        let target = target.map_or_else(|| Ok(folder.path().join("target")), std::path::absolute)?;
        fs::create_dir_all(&target)?;
        let target = target.canonicalize()?;
        refuse_shared(&target)?;
        Ok(Self { folder, root, target, repository: repository.to_owned(), home: std::env::home_dir() })
    }

    /// The root of the copy.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Builds what the agent will need; fails with the words of the compiler or of a test that the sources do not pass.
    pub fn build(&self) -> Result<()> {
        for command in PREPARATIONS {
            let finished = self.execute(command, PREPARATION_LIMIT)?;
            if !finished.status.success() {
                return Err(Failure::new(format!("`{command}` fails before any edit:\n{}", finished.output)));
            }
        }
        Ok(())
    }

    /// Runs one of [`COMMANDS`].
    pub fn run(&self, command: &str) -> Result<Finished> {
        if !COMMANDS.contains(&command) {
            return Err(Failure::new("not a command that the agent may run"));
        }
        let mut finished = self.execute(command, COMMAND_LIMIT)?;
        if finished.output.len() > OUTPUT_LIMIT {
            finished.output.truncate(finished.output.floor_char_boundary(OUTPUT_LIMIT));
            finished.output.push_str("\n[output cut here]\n");
        }
        Ok(finished)
    }

    /// A path of this machine that stands in `text`, if there is one.
    pub fn private_path_in(&self, text: &str) -> Option<String> {
        let private = [Some(&self.root), Some(&self.target), Some(&self.repository), self.home.as_ref()];
        let names = private.into_iter().flatten().map(|path| path.to_string_lossy().into_owned());
        names.into_iter().find(|name| name.len() > 1 && positions(text, name).next().is_some())
    }

    fn execute(&self, command: &str, limit: Duration) -> Result<Finished> {
        let log = self.folder.path().join("output");
        let file = File::create(&log)?;
        let mut words = command.split_whitespace();
        let child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_TERM_PROGRESS_WHEN", "never")
            .env("CARGO_NET_OFFLINE", "true")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| Failure::from(error).while_doing(command))?;
        let status = wait(child, limit)?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok(Finished { output: self.shown(&output), status })
    }

    /// The output without what belongs to this machine: its paths, and waiting for other builds.
    fn shown(&self, output: &str) -> String {
        let lines = output.lines().filter(|line| !line.trim_start().starts_with("Blocking waiting for"));
        let mut text: String = lines.map(|line| format!("{line}\n")).collect();
        text = hide(&text, &self.target, &format!("{SHOWN_ROOT}/target"));
        text = hide(&text, &self.root, SHOWN_ROOT);
        self.home.as_ref().map_or_else(|| text.clone(), |home| hide(&text, home, "~"))
    }
}

/// In one target folder cargo takes the copy for the repository, and would go on to use what was built of the copy.
fn refuse_shared(target: &Path) -> Result<()> {
    let this_program = std::env::current_exe()?.canonicalize()?;
    if this_program.ancestors().nth(3) == Some(target) {
        return Err(Failure::new(
            "the agent needs a target folder of its own, for example `--target-dir target/agent`",
        ));
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let name_text = name.to_string_lossy();
        if name_text.starts_with('.') || LEFT_BEHIND.contains(&name_text.as_ref()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &to.join(name))?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

/// Writes the file anew: its time must be now, or cargo would not build the copy where an older one was built.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    match fs::read(from) {
        Ok(bytes) => Ok(fs::write(to, bytes)?),
        // An editor may take a file away between listing and copying it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).while_doing(format!("copying {}", from.display()))),
    }
}

fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(Failure::new(format!("not finished after {} seconds", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn hide(text: &str, path: &Path, shown: &str) -> String {
    let name = path.to_string_lossy();
    if name.len() < 2 {
        return text.to_owned();
    }
    let mut hidden = String::new();
    let mut end = 0;
    for at in positions(text, &name) {
        hidden.push_str(&text[end..at]);
        hidden.push_str(shown);
        end = at + name.len();
    }
    hidden + &text[end..]
}

/// Where `path` stands in `text` as itself, not inside a longer name: `/root` is not in `src/glue/root.rs`.
fn positions<'a>(text: &'a str, path: &'a str) -> impl Iterator<Item = usize> {
    let in_name = |c: char| c.is_alphanumeric() || "_-.~".contains(c);
    let on_its_own = move |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + path.len()..].chars().next();
        !before.is_some_and(in_name) && !after.is_some_and(in_name)
    };
    text.match_indices(path).map(|(at, _)| at).filter(on_its_own)
}
