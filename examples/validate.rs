//! Checks every Envoy configuration of a folder before it is deployed: with the filter's own rules first, so that each
//! problem comes with its field, then with Envoy's `--mode validate`, which runs the module too.
//!
//! `cargo run --example validate -- envoy`

mod support;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use context_compaction::policy::{Decider, Endpoint, Mode, Policy};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use support::{
    Failure, Result,
    envoy::{self, Process},
    exchange::NoEnvironment,
    paths,
};

/// Checks every Envoy configuration of a folder.
#[derive(Parser)]
struct Arguments {
    /// Folders with YAML files, or single files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(bad) => {
            eprintln!("{bad} of the files would be refused");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<usize> {
    let mut files = Vec::new();
    for path in &arguments.paths {
        collect(path, &mut files)?;
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::new("no YAML file found"));
    }
    let mut bad = 0;
    let mut checked = 0;
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let problems = if is_for_kubernetes(&text) {
            match check_resources(&text) {
                Some(problems) => problems,
                None => {
                    println!(
                        "{:<40} holds no whole configuration of the filter: render the overlay first",
                        file.display()
                    );
                    continue;
                }
            }
        } else {
            check(&file, &text).await?
        };
        checked += 1;
        println!("{:<40} {}", file.display(), if problems.is_empty() { "ok" } else { "REFUSED" });
        for problem in &problems {
            println!("    {problem}");
        }
        bad += usize::from(!problems.is_empty());
    }
    if checked == 0 {
        return Err(Failure::new(
            "nothing to check was found: neither an Envoy bootstrap nor a whole configuration of the filter. For a mesh render \
             the overlay (kubectl kustomize FOLDER > all.yaml) and check that file",
        ));
    }
    Ok(bad)
}

/// What is wrong with the filter's configuration in resources for Kubernetes; `None` where there is none, or only a part of
/// one. Their schemas are not checked here.
fn check_resources(text: &str) -> Option<Vec<String>> {
    let mut problems = None;
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let mut resource = match Value::deserialize(document) {
            Ok(resource) => resource,
            Err(error) => return Some(vec![format!("not YAML: {error}")]),
        };
        let kind = resource["kind"].as_str().unwrap_or_default().to_owned();
        let mut found = Vec::new();
        if kind == "WasmPlugin" {
            found.push((resource["spec"]["pluginConfig"].clone(), false));
        }
        for wasm in resource["spec"]["wasm"].as_array().into_iter().flatten() {
            found.push((wasm["config"].clone(), false));
        }
        for_each_filter(&mut resource, &mut |filter| {
            let text = filter["configuration"]["value"].as_str().unwrap_or_default();
            let flag = filter["allow_on_headers_stop_iteration"] == true;
            found.push((serde_json::from_str(text).unwrap_or_else(|_| json!(text)), flag));
        });
        for (settings, flag) in
            found.into_iter().filter(|(settings, _)| !settings["engine"].is_null() || settings.is_string())
        {
            let problems = problems.get_or_insert_with(Vec::new);
            match Policy::parse(settings.to_string().as_bytes(), &NoEnvironment) {
                Err(refused) => problems.extend(refused.iter().map(|problem| format!("{kind}: {problem}"))),
                Ok(policy) if policy.hold_headers && !flag => problems.push(format!(
                    "{kind}: hold_headers: needs allow_on_headers_stop_iteration beside the configuration, which only an \
                     EnvoyFilter can set"
                )),
                Ok(_) => {}
            }
        }
    }
    problems
}

/// Whether a file holds resources for Kubernetes, which no Envoy reads: the first of them says `apiVersion`.
fn is_for_kubernetes(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("apiVersion:"))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        if !path.exists() {
            return Err(Failure::new(format!("{}: no such file or folder", path.display())));
        }
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
    Ok(())
}

async fn check(file: &Path, text: &str) -> Result<Vec<String>> {
    let mut bootstrap: Value = match serde_yaml_ng::from_str(text) {
        Ok(bootstrap) => bootstrap,
        Err(error) => return Ok(vec![format!("not YAML: {error}")]),
    };
    if let Some(resources) = bootstrap.get("resources") {
        match discovered(file, resources) {
            Ok(inserted) => bootstrap = inserted,
            Err(problem) => return Ok(vec![problem.to_string()]),
        }
    }
    if bootstrap.get("static_resources").is_none() {
        return Ok(vec!["is no Envoy bootstrap: it has no static_resources".to_owned()]);
    }
    let nothing = tempfile::NamedTempFile::with_suffix(".json")?;
    std::fs::write(nothing.path(), r#"{"resources":[]}"#)?;
    for_each_object(&mut bootstrap, &mut |members| {
        // A file that appears only when the switch is first moved.
        let path = members.get_mut("path_config_source").and_then(|source| source.get_mut("path"));
        if let Some(path) =
            path.filter(|path| path.as_str().is_some_and(|path| !paths::repository().join(path).exists()))
        {
            *path = json!(nothing.path());
        }
    });
    let mut problems = Vec::new();
    let clusters = bootstrap["static_resources"]["clusters"].clone();
    let room = room(&bootstrap);
    for_each_filter(&mut bootstrap, &mut |filter| {
        problems.extend(check_filter(filter, &clusters, room));
        filter["vm_config"]["code"]["local"]["filename"] = json!(paths::filter_wasm().unwrap_or_default());
    });
    if !problems.is_empty() {
        return Ok(problems);
    }
    let validation = envoy::validate_bootstrap(&bootstrap, &Process::default()).await?;
    if !validation.ok {
        let lines = validation.output.lines().filter(|l| l.contains("rror") || l.contains("refused"));
        problems.extend(lines.map(str::to_owned));
        problems.push("Envoy refuses the file".to_owned());
    }
    Ok(problems)
}

/// `envoy.yaml` beside `file`, with the resources of this discovery response where it would discover them.
fn discovered(file: &Path, resources: &Value) -> Result<Value> {
    let beside = file.with_file_name("envoy.yaml");
    let doing =
        |failure: Failure| failure.while_doing(format!("reading {}, which discovers this file", beside.display()));
    let text = std::fs::read_to_string(&beside).map_err(|error| doing(error.into()))?;
    let mut bootstrap: Value = serde_yaml_ng::from_str(&text).map_err(|error| doing(error.into()))?;
    let mut places = 0;
    for_each_object(&mut bootstrap, &mut |members| {
        let name = members.get("name").cloned();
        let mut named = resources.as_array().into_iter().flatten().filter(|r| Some(&r["name"]) == name.as_ref());
        if let Some(resource) = named.next().filter(|_| members.contains_key("config_discovery")) {
            members.remove("config_discovery");
            members.insert("typed_config".to_owned(), resource["typed_config"].clone());
            places += 1;
        }
    });
    match places {
        0 => Err(Failure::new(format!("{} discovers no filter of this name", beside.display()))),
        _ => Ok(bootstrap),
    }
}

/// Visits the plugin configuration of every wasm filter, wherever it stands.
fn for_each_filter(bootstrap: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    for_each_object(bootstrap, &mut |members| {
        let wasm = members.get("@type").and_then(Value::as_str).is_some_and(|t| t.ends_with("wasm.v3.Wasm"));
        if let Some(filter) = members.get_mut("config").filter(|_| wasm) {
            visit(filter);
        }
    });
}

/// Visits every object of a bootstrap by depth-first search, with a stack of its own.
fn for_each_object(bootstrap: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    let mut waiting = vec![bootstrap];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                visit(members);
                waiting.extend(members.values_mut());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
}

/// What Envoy buffers of a request at most, in bytes.
#[derive(Clone, Copy)]
struct Room {
    /// Per connection, which bounds bodies of known length.
    connection: u64,
    /// Per request body, where a route or a virtual host says so.
    body: Option<u64>,
}

/// The smallest limits that stand anywhere in the file.
fn room(bootstrap: &Value) -> Room {
    let smallest = |name: &str| {
        let mut waiting = vec![bootstrap];
        let mut found: Option<u64> = None;
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(members) => {
                    let here = members.get(name).and_then(Value::as_u64);
                    found = found.into_iter().chain(here).min();
                    waiting.extend(members.values());
                }
                Value::Array(items) => waiting.extend(items),
                _ => {}
            }
        }
        found
    };
    let connection = smallest("per_connection_buffer_limit_bytes").unwrap_or(1 << 20);
    Room { connection, body: smallest("request_body_buffer_limit") }
}

/// What the filter's own settings ask of the file around them.
fn check_surroundings(policy: &Policy, filter: &Value, room: Room) -> Vec<String> {
    let mut problems = Vec::new();
    if policy.hold_headers && filter["allow_on_headers_stop_iteration"] != true {
        problems.push("hold_headers: needs allow_on_headers_stop_iteration: true beside the configuration".to_owned());
    }
    let largest = policy.max_body_bytes as u64;
    if room.body.unwrap_or(room.connection) < largest {
        problems.push("max_body_bytes: is above Envoy's buffer limit, which answers 413".to_owned());
    }
    if policy.buffer_unknown_length && room.body.is_none_or(|body| body < largest + room.connection + (16 << 10)) {
        problems.push(
            "buffer_unknown_length: needs a request_body_buffer_limit of max_body_bytes + \
             per_connection_buffer_limit_bytes + 16384, else Envoy may answer 413"
                .to_owned(),
        );
    }
    let listed = filter["vm_config"]["environment_variables"]["host_env_keys"].as_array();
    let key = policy.decider.as_ref().and_then(|decider| decider.api_key.as_ref());
    if let Some(key) = key.filter(|key| !listed.into_iter().flatten().any(|name| *name == key.variable.as_str())) {
        let values = &filter["vm_config"]["environment_variables"]["key_values"];
        if values.get(&key.variable).is_none() {
            problems
                .push("api_key_env: the variable is not listed in host_env_keys, so it can never be read".to_owned());
        }
    }
    problems
}

fn check_filter(filter: &Value, clusters: &Value, room: Room) -> Vec<String> {
    let configuration = &filter["configuration"];
    let is_text = configuration["@type"].as_str().is_some_and(|t| t.ends_with("google.protobuf.StringValue"));
    if !configuration.is_null() && !is_text {
        return vec!["configuration: must be a google.protobuf.StringValue that holds JSON text".to_owned()];
    }
    let text = configuration["value"].as_str().unwrap_or_default();
    match Policy::parse(text.as_bytes(), &NoEnvironment) {
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
        Ok(policy) => {
            let mut problems = check_surroundings(&policy, filter, room);
            let reach = |d: &Decider| unreachable_endpoint(&d.endpoint, &d.cluster, clusters);
            problems.extend(policy.decider.as_ref().and_then(reach));
            match policy.mode {
                Mode::Off => println!("note: the filter is off in this file (neither enabled nor measure is true)"),
                Mode::Measure => println!("note: the filter only measures in this file"),
                Mode::Enforce => {}
            }
            problems
        }
    }
}

/// Why calls to `endpoint` would not arrive there through the cluster of this name.
fn unreachable_endpoint(endpoint: &Endpoint, name: &str, clusters: &Value) -> Option<String> {
    let Some(cluster) = clusters.as_array().into_iter().flatten().find(|c| c["name"] == name) else {
        return Some(format!("cluster: there is no cluster {name} in this file"));
    };
    let host = endpoint.host();
    let port = endpoint.authority.rsplit(':').next().and_then(|port| port.parse::<u64>().ok());
    if cluster["type"] == "ORIGINAL_DST" {
        let address = host.parse::<IpAddr>().is_ok();
        return (!address).then(|| {
            format!(
                "endpoint: cluster {name} follows addresses only; make it STRICT_DNS with the endpoint's name and port"
            )
        });
    }
    let addresses = cluster["load_assignment"]["endpoints"].as_array().into_iter().flatten();
    let reached = addresses.flat_map(|e| e["lb_endpoints"].as_array().into_iter().flatten()).any(|e| {
        let socket = &e["endpoint"]["address"]["socket_address"];
        socket["address"] == host && socket["port_value"].as_u64() == port
    });
    (!reached).then(|| format!("endpoint: cluster {name} does not reach the endpoint's host and port"))
}
