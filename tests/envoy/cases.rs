//! The written cases in a real Envoy with a stub engine, in both header modes.

use std::collections::BTreeMap;

use crate::support::{
    Result,
    cases::{self, Case, LISTENER_BUFFER},
    client::Client,
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::Envoy,
    envoy_config::EnvoyConfig,
    provider::Provider,
    wasm_filter::WasmFilter,
};
use serde_json::Value;

/// The cases by configuration: one Envoy serves all cases that share one.
fn by_configuration(endpoint: &str) -> Result<BTreeMap<String, (Value, Vec<Case>)>> {
    let mut groups: BTreeMap<String, (Value, Vec<Case>)> = BTreeMap::new();
    for case in cases::load_all()? {
        let configuration = case.configuration(endpoint);
        groups.entry(configuration.to_string()).or_insert_with(|| (configuration, Vec::new())).1.push(case);
    }
    Ok(groups)
}

async fn every_case_holds(hold: bool) -> Result<()> {
    if !cases::available() {
        eprintln!("skipped: the cases are not beside this repository (../shared/cases)");
        return Ok(());
    }
    let provider = Provider::start()?;
    let engine = StubEngine::start(Behaviour::DropAll)?;
    for (mut configuration, cases) in by_configuration(&engine.endpoint())?.into_values() {
        configuration["hold_headers"] = hold.into();
        let filter = WasmFilter::new().configuration(&configuration).hold_flag(hold);
        let config = EnvoyConfig::new(provider.address()).engine(engine.address()).filter(filter);
        let config = config.listener_buffer(LISTENER_BUFFER);
        let shared = Envoy::start(&config).await?;
        for case in cases {
            let engines = case.engines()?;
            let several = engines.len() > 1;
            for (name, behaviour) in engines {
                engine.behave(behaviour)?;
                // An Envoy remembers what an engine said, and that one failed.
                let own = if several { Some(Envoy::start(&config).await?) } else { None };
                let envoy = own.as_ref().unwrap_or(&shared);
                run(&case, &Client::http1(&envoy.url())?, &provider)
                    .await
                    .map_err(|e| e.while_doing(format!("engine {name}, hold {hold}")))?;
                assert!(envoy.is_alive(), "{}", envoy.log());
            }
        }
    }
    Ok(())
}

async fn run(case: &Case, client: &Client, provider: &Provider) -> Result<()> {
    let mut outgoing = Vec::new();
    for body in &case.bodies {
        let response = client.send("POST", case.path(), &case.headers(), body.clone()).await?;
        assert_eq!(response.status, 200, "{}", case.slug);
        outgoing.push(provider.take_one().await?.body.to_vec());
    }
    case.check(&outgoing)
}

#[tokio::test]
async fn every_case_holds_with_held_headers() {
    every_case_holds(true).await.expect("the cases hold");
}

#[tokio::test]
async fn every_case_holds_in_portable_mode() {
    every_case_holds(false).await.expect("the cases hold");
}
