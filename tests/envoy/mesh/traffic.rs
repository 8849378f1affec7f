//! Requests through a real Envoy that is configured as the control planes would do it from the resources for Istio and Envoy
//! Gateway. The module above checks the resources themselves.

use std::path::Path;

use super::proxies::{Delivery, configurations, istio, policy, proxy_of};
use super::resources::{VARIANTS, WAYS, available, rendered};
use crate::support::{
    client::Client,
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::{Envoy, Process},
    envoy_config::{connection_manager, static_cluster},
    paths,
    provider::Provider,
    scene::{CHAT, assert_reduced, conversation},
};
use context_compaction::policy::Mode;
use serde_json::{Value, json};

/// A stand-in for each of what the proxy talks to.
struct Stage {
    provider: Provider,
    engine: StubEngine,
}

impl Stage {
    fn new() -> Self {
        let engine = StubEngine::start(Behaviour::DropAll).expect("an engine");
        Self { provider: Provider::start().expect("a provider"), engine }
    }

    /// The bootstrap with its clusters moved to the stand-ins, the real module, and settings under which all may leave.
    async fn envoy(&self, mut bootstrap: Value, engine_cluster: &str) -> Envoy {
        for cluster in bootstrap["static_resources"]["clusters"].as_array_mut().expect("clusters") {
            if cluster["name"] == "provider" {
                *cluster = static_cluster("provider", self.provider.address());
            } else if cluster["name"] == engine_cluster {
                *cluster = static_cluster(engine_cluster, self.engine.address());
            }
        }
        for filter in connection_manager(&mut bootstrap)["http_filters"].as_array_mut().expect("filters") {
            let given: &Value = filter;
            let Some(text) = given["typed_config"]["config"]["configuration"]["value"].as_str().map(str::to_owned)
            else {
                continue;
            };
            let config = &mut filter["typed_config"]["config"];
            let mut settings: Value = serde_json::from_str(&text).expect("JSON");
            for (name, value) in
                [("threshold_tokens", json!(0)), ("preserve_recent", json!(0)), ("epoch_pairs", json!(1))]
            {
                settings[name] = value;
            }
            settings["cost_gate"] = json!(false);
            settings["max_removed_share"] = json!(1);
            config["configuration"]["value"] = json!(settings.to_string());
            config["vm_config"]["code"]["local"]["filename"] = json!(paths::filter_wasm().expect("make wasm"));
        }
        Envoy::start_bootstrap(&bootstrap, &Process::default()).await.expect("Envoy starts")
    }

    /// The status of one request, and the body that the provider got.
    async fn send(&self, client: &Client, body: &[u8]) -> (u16, Option<Vec<u8>>) {
        let status = client.post(CHAT, body.to_vec()).await.expect("a response").status;
        (status, self.provider.take().pop().map(|request| request.body.to_vec()))
    }
}

fn engine_cluster(resources: &[Value]) -> String {
    let texts: Vec<String> = resources.iter().flat_map(configurations).collect();
    policy(&texts[0]).decider.expect("an engine").cluster
}

#[tokio::test]
async fn an_enabled_overlay_reduces_a_conversation_and_the_others_pass_it_whole() {
    if !available() {
        return;
    }
    let stage = Stage::new();
    let body = conversation(6, 3000);
    for (way, _) in WAYS {
        for (variant, mode) in VARIANTS {
            let resources = rendered(&Path::new(way).join(variant));
            let envoy = stage.envoy(proxy_of(way, &resources), &engine_cluster(&resources)).await;
            let (status, arrived) = stage.send(&Client::http1(&envoy.url()).expect("a client"), &body).await;
            let arrived = arrived.unwrap_or_else(|| panic!("{way}/{variant}: {status}: {}", envoy.log()));
            assert_eq!(status, 200, "{way}/{variant}");
            match mode {
                Mode::Enforce => assert_reduced(&body, &arrived),
                _ => assert!(arrived == body, "{way}/{variant}: the body changed"),
            }
            let gauge = async |name| envoy.metric(&format!("context_compaction.{name}")).await.expect("statistics");
            let gauges = (gauge("measuring").await, gauge("enforcing").await);
            assert_eq!(gauges, (u64::from(mode == Mode::Measure), u64::from(mode == Mode::Enforce)), "{way}/{variant}");
        }
    }
}

#[tokio::test]
async fn envoy_gateway_answers_413_without_the_client_traffic_policy_once_bodies_are_held() {
    if !available() {
        return;
    }
    let stage = Stage::new();
    let body = conversation(60, 3000);
    assert!(body.len() > 150_000);
    for (variant, with_policy, expected) in
        [("overlays/measure", false, 200), ("overlays/enable", false, 413), ("overlays/enable", true, 200)]
    {
        let mut resources = rendered(&Path::new("envoy/gateway").join(variant));
        resources.retain(|resource| with_policy || resource["kind"] != "ClientTrafficPolicy");
        let envoy = stage.envoy(proxy_of("envoy/gateway", &resources), "decision_engine").await;
        for client in [Client::http1(&envoy.url()), Client::http2(&envoy.url())] {
            let (status, arrived) = stage.send(&client.expect("a client"), &body).await;
            assert_eq!(status, expected, "{variant}, policy: {with_policy}");
            assert!(arrived.is_none_or(|arrived| (arrived == body) == (variant == "overlays/measure")));
        }
    }
}

#[tokio::test]
async fn where_the_discovered_filter_never_comes_requests_pass_because_of_the_default() {
    if !available() {
        return;
    }
    let stage = Stage::new();
    let body = conversation(6, 3000);
    let resources = rendered(Path::new("envoy/istio/hold/overlays/enable"));
    for (with_default, expected) in [(true, 200), (false, 500)] {
        let mut bootstrap = istio(&resources, &rendered(Path::new("envoy/engine")), Delivery::Discovered);
        let discovery = &mut connection_manager(&mut bootstrap)["http_filters"][0]["config_discovery"];
        discovery["config_source"]["initial_fetch_timeout"] = json!("1s");
        if !with_default {
            discovery.as_object_mut().expect("an object").remove("default_config");
        }
        let envoy = stage.envoy(bootstrap, &engine_cluster(&resources)).await;
        let (status, arrived) = stage.send(&Client::http1(&envoy.url()).expect("a client"), &body).await;
        assert_eq!(status, expected, "{}", envoy.log());
        assert_eq!(arrived, with_default.then(|| body.clone()));
    }
}
