//! A real Envoy as a child process: started, asked, and ended with the value that stands for it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::envoy_config::{ACCESS_LOG, EnvoyConfig};
use super::wasm_filter::{DISCOVERED_FILTER, WasmFilter};
use super::{Failure, Result, eventually, paths};

const LOG: &str = "envoy.log";
const ADMIN_ADDRESS: &str = "admin.address";
const BOOTSTRAP: &str = "bootstrap.json";
/// Where Envoy counts what became of a filter that comes over ECDS.
const DISCOVERY: &str = "extension_config_discovery.http_filter.context_compaction";
/// How many lines of the log an error shows.
const LINES_SHOWN: usize = 40;

/// How the Envoy process runs.
#[derive(Debug, Clone)]
pub struct Process {
    /// The whole environment of the process.
    pub environment: Vec<(String, String)>,
    /// Number of worker threads.
    pub concurrency: u32,
    /// Envoy's log level.
    pub log_level: String,
    /// Log levels of components, as in `wasm:info,http:debug`.
    pub component_levels: String,
    /// How long it may take to start, the compilation of the wasm module included.
    pub start_limit: Duration,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            environment: Vec::new(),
            concurrency: 1,
            log_level: "warning".to_owned(),
            component_levels: "wasm:info".to_owned(),
            start_limit: Duration::from_secs(90),
        }
    }
}

/// What `envoy --mode validate` says about a bootstrap.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Whether Envoy would start with it.
    pub ok: bool,
    /// Everything that Envoy printed.
    pub output: String,
}

/// A running Envoy. Dropping it ends the process, and that process only.
pub struct Envoy {
    child: Mutex<Child>,
    guard: Child,
    directory: TempDir,
    admin: SocketAddr,
    address: SocketAddr,
    http: reqwest::Client,
}

impl Envoy {
    /// Starts Envoy and waits until its workers accept connections.
    pub async fn start(config: &EnvoyConfig) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let bootstrap = config.bootstrap(directory.path())?;
        if let Some(filter) = config.discovered_filter() {
            fs::write(directory.path().join(DISCOVERED_FILTER), filter.discovery_response()?.to_string())?;
        }
        Self::start_in(directory, &bootstrap, config.process()).await
    }

    /// Starts Envoy with a bootstrap from elsewhere; see [`super::envoy_config::read_bootstrap`].
    pub async fn start_bootstrap(bootstrap: &Value, process: &Process) -> Result<Self> {
        Self::start_in(tempfile::tempdir()?, bootstrap, process).await
    }

    async fn start_in(directory: TempDir, bootstrap: &Value, process: &Process) -> Result<Self> {
        fs::write(directory.path().join(BOOTSTRAP), serde_json::to_vec_pretty(bootstrap)?)?;
        let mut child = spawn(directory.path(), process)?;
        let guard = guard(child.id()).inspect_err(|_| end_and_reap(&mut child))?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(Duration::from_secs(5));
        let mut envoy =
            Self { child: Mutex::new(child), guard, directory, admin: nowhere, address: nowhere, http: http.build()? };
        match envoy.wait_until_ready(process.start_limit).await {
            Ok(()) => Ok(envoy),
            Err(failure) => Err(Failure::new(format!("starting Envoy: {failure}\n{}", envoy.last_log_lines()))),
        }
    }

    async fn wait_until_ready(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let path = self.directory.path().join(ADMIN_ADDRESS);
        let admin = eventually(limit, "the admin address", || {
            let written = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            written.map(Ok).or_else(|| (!self.is_alive()).then(|| Err(Failure::new("the process ended"))))
        });
        self.admin = admin.await??;
        loop {
            match self.ready_address().await {
                Ok(address) => {
                    self.address = address;
                    return Ok(());
                }
                Err(_) if !self.is_alive() => return Err(Failure::new("the process ended")),
                Err(failure) if Instant::now() > deadline => {
                    return Err(failure.while_doing(format!("not ready after {limit:?}")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// The first listener's address, once the workers run.
    async fn ready_address(&self) -> Result<SocketAddr> {
        self.admin_get("/ready").await?;
        if self.counter("listener_manager.workers_started").await? != 1 {
            return Err(Failure::new("the workers have not started"));
        }
        let listeners: Value = serde_json::from_str(&self.admin_get("/listeners?format=json").await?)?;
        let socket = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
        let port = socket["port_value"].as_u64().and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or_else(|| Failure::new(format!("no listener in {listeners}")))?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// `http://` and the address of the first listener.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    /// Everything that Envoy has logged.
    pub fn log(&self) -> String {
        read_lossy(&self.directory.path().join(LOG))
    }

    /// The access log's entries so far. Envoy writes them out a moment after the response.
    pub fn access_log(&self) -> Vec<Value> {
        let text = read_lossy(&self.directory.path().join(ACCESS_LOG));
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The access log once it holds `entries`, within five seconds.
    pub async fn wait_for_access_log(&self, entries: usize) -> Result<Vec<Value>> {
        let what = format!("{entries} access log entries");
        eventually(Duration::from_secs(5), &what, || Some(self.access_log()).filter(|log| log.len() >= entries)).await
    }

    /// The log once it holds `text`, within five seconds.
    pub async fn wait_for_log(&self, text: &str) -> Result<String> {
        let what = format!("{text:?} in Envoy's log");
        eventually(Duration::from_secs(5), &what, || Some(self.log()).filter(|log| log.contains(text))).await
    }

    /// All counters and gauges.
    pub async fn stats(&self) -> Result<HashMap<String, u64>> {
        let reply: Value = serde_json::from_str(&self.admin_get("/stats?format=json").await?)?;
        let stats = reply["stats"].as_array().ok_or_else(|| Failure::new("no `stats` in the admin's reply"))?;
        let number = |stat: &Value| Some((stat["name"].as_str()?.to_owned(), stat["value"].as_u64()?));
        Ok(stats.iter().filter_map(number).collect())
    }

    /// One counter or gauge; 0 where Envoy does not know it.
    pub async fn counter(&self, name: &str) -> Result<u64> {
        Ok(self.stats().await?.get(name).copied().unwrap_or(0))
    }

    /// A counter or gauge that the filter defined; 0 where it did not.
    pub async fn metric(&self, name: &str) -> Result<u64> {
        self.counter(&format!("wasmcustom.{name}")).await
    }

    /// The body of an admin page.
    pub async fn admin_get(&self, path: &str) -> Result<String> {
        let response = self.http.get(format!("http://{}{path}", self.admin)).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// The reply to an admin command, for example `/logging?wasm=trace`.
    pub async fn admin_post(&self, path: &str) -> Result<String> {
        let response = self.http.post(format!("http://{}{path}", self.admin)).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// Delivers another filter over ECDS and waits until Envoy has taken or refused it: `Ok(true)` when taken.
    pub async fn replace_filter(&self, filter: &WasmFilter) -> Result<bool> {
        self.replace_discovered(&self.directory.path().join(DISCOVERED_FILTER), &filter.discovery_response()?).await
    }

    /// The same for any file that Envoy discovers the filter from.
    pub async fn replace_discovered(&self, target: &Path, response: &Value) -> Result<bool> {
        let counts = async || -> Result<(u64, u64)> {
            let stats = self.stats().await?;
            let count = |name| stats.get(&format!("{DISCOVERY}.{name}")).copied().unwrap_or(0);
            Ok((count("update_success"), count("update_rejected")))
        };
        let before = counts().await?;
        let fresh = target.with_extension("fresh");
        fs::write(&fresh, response.to_string())?;
        fs::rename(&fresh, target)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let now = counts().await?;
            if now != before {
                return Ok(now.0 > before.0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Failure::new(format!("Envoy ignored the new filter\n{}", self.last_log_lines())))
    }

    /// Ends the process and gives its whole log.
    pub fn stop(mut self) -> String {
        self.end();
        self.log()
    }

    fn last_log_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().expect("nothing panics while it holds the child process")
    }

    /// SIGTERM, then SIGKILL if Envoy is still there after two seconds.
    fn end(&mut self) {
        end_and_reap(&mut self.guard);
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            let terminate = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
            let deadline = Instant::now() + Duration::from_secs(2);
            while terminate.is_ok() && matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        end_and_reap(&mut child);
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks `envoy --mode validate`, which also runs the filter's own check of its configuration.
pub async fn validate(config: &EnvoyConfig) -> Result<Validation> {
    let directory = tempfile::tempdir()?;
    validate_in(&directory, &config.bootstrap(directory.path())?, config.process()).await
}

/// [`validate`] for a bootstrap from elsewhere.
pub async fn validate_bootstrap(bootstrap: &Value, process: &Process) -> Result<Validation> {
    validate_in(&tempfile::tempdir()?, bootstrap, process).await
}

async fn validate_in(directory: &TempDir, bootstrap: &Value, process: &Process) -> Result<Validation> {
    fs::write(directory.path().join(BOOTSTRAP), bootstrap.to_string())?;
    let mut command = tokio::process::Command::from(command(directory.path(), process)?);
    command.args(["--mode", "validate"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(process.start_limit, command.output()).await??;
    let text = [output.stdout, output.stderr].concat();
    Ok(Validation { ok: output.status.success(), output: String::from_utf8_lossy(&text).into_owned() })
}

fn spawn(directory: &Path, process: &Process) -> Result<Child> {
    let log = File::create(directory.join(LOG))?;
    let mut command = command(directory, process)?;
    command.arg("--admin-address-path").arg(directory.join(ADMIN_ADDRESS));
    // Envoy keeps access log lines for ten seconds otherwise.
    command.args(["--file-flush-interval-msec", "20"]);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command.spawn()?)
}

/// Envoy over the bootstrap in `directory`, in the repository's root, since shipped bootstraps name files from there.
fn command(directory: &Path, process: &Process) -> Result<Command> {
    let mut command = Command::new(paths::envoy_binary()?);
    command.current_dir(paths::repository());
    command.env_clear().envs(process.environment.iter().map(|(name, value)| (name, value)));
    command.arg("--config-path").arg(directory.join(BOOTSTRAP));
    command.args(["--concurrency", &process.concurrency.to_string()]);
    command.args(["--log-level", &process.log_level, "--component-log-level", &process.component_levels]);
    // Every mention of `fail_open` would be logged as deprecated.
    command.arg("--skip-deprecated-logs");
    // No shared memory and no socket of a base id: any number of Envoys run side by side.
    command.arg("--disable-hot-restart");
    Ok(command)
}

/// Kills Envoy once this process is gone, however it went: `read` ends when our end of the pipe closes.
fn guard(envoy: u32) -> Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" INT TERM; read -r _; kill -KILL "$0" 2>/dev/null"#, &envoy.to_string()]);
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

fn end_and_reap(child: &mut Child) {
    // Both fail only for a process that has already been waited for.
    let _ = child.kill();
    let _ = child.wait();
}

fn read_lossy(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
