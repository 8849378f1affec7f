//! The reference decision engine: answers the filter's questions by simple rules, over System One on this machine.
//!
//! ```sh
//! cargo run --release --example engine -- --port 8080
//! ```
//!
//! It needs no model and no key, and the same question always gets the same answer. What it decides by stands in
//! `reference/rules.rs`. It never prints what it was asked.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::Parser;

mod reference;

use reference::server;

/// Answer System One questions about tool calls by rules.
#[derive(Parser)]
struct Args {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// IP address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Listen on an address that other machines reach. There is no TLS.
    #[arg(long)]
    allow_remote: bool,
    /// Environment variable with a key; requests must then carry it as `Authorization: Bearer <key>`.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: Args) -> Result<(), String> {
    if !args.host.is_loopback() && !args.allow_remote {
        return Err(format!("{} is reachable from other machines: add --allow-remote if you mean it", args.host));
    }
    let key = args.key_env.map(|name| key(&name)).transpose()?;
    let address = SocketAddr::new(args.host, args.port);
    let engine = server::start_with_key(address, key).await.map_err(|error| format!("{address}: {error}"))?;
    println!("listening on {}{}", engine.url(), server::PATH);
    tokio::signal::ctrl_c().await.map_err(|error| format!("waiting for ctrl-c: {error}"))?;
    let counts = engine.stop().await;
    println!(
        "{} requests answered, {} refused; {} questions, {} of them \"not needed\"",
        counts.answered, counts.refused, counts.questions, counts.not_needed
    );
    Ok(())
}

/// The key in this environment variable.
fn key(name: &str) -> Result<String, String> {
    let key = std::env::var(name).unwrap_or_default();
    if key.is_empty() { Err(format!("the environment variable {name} holds no key")) } else { Ok(key) }
}
