//! The filter in a real Envoy: what leaves, with which headers, and what does not when something fails.

use crate::support::{
    Result,
    client::{Client, Protocol},
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::{self, Envoy},
    envoy_config::EnvoyConfig,
    exchange::configuration,
    provider::Provider,
    scene::{CHAT, Scene, assert_reduced, conversation, eager},
    wasm_filter::WasmFilter,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_held_request_arrives_smaller_with_its_right_length() {
    let scene = Scene::start(true, |_| {}, |e| e).await;
    let body = conversation(20, 3000);
    let arrived = scene.send(&body).await;
    assert_reduced(&body, &arrived.body);
    assert_eq!(arrived.header("content-length"), Some(arrived.body.len().to_string().as_bytes()));
    assert_eq!(scene.engine.take().len(), 2, "twenty pairs are two requests");
    let note = scene.note(1).await;
    assert!(note.contains("reduced asked=20 judged=20 dropped=20"), "{note}");
    assert_eq!(scene.count("requests_reduced").await, 1);
    assert_eq!(scene.count("pairs_dropped").await, 20);
}

#[tokio::test]
async fn portable_mode_needs_no_flag_and_sends_chunks() {
    let scene = Scene::start(false, |_| {}, |e| e).await;
    let body = conversation(5, 3000);
    let arrived = scene.send(&body).await;
    assert_reduced(&body, &arrived.body);
    assert_eq!(arrived.header("content-length"), None);
    scene.engine.behave(Behaviour::KeepAll).unwrap();
    let body = conversation(5, 3000);
    let arrived = scene.send(&body).await;
    assert_eq!(arrived.body, body, "untouched, byte for byte");
}

#[tokio::test]
async fn http2_on_both_sides_works_the_same() {
    for hold in [true, false] {
        let scene = Scene::start(hold, |_| {}, EnvoyConfig::upstream_http2).await;
        let body = conversation(5, 3000);
        let client = Client::new(&scene.envoy.url(), Protocol::Http2).unwrap();
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
    }
}

#[tokio::test]
async fn a_failing_engine_never_changes_or_loses_a_request() {
    let scene = Scene::start(true, |s| s["timeout_ms"] = json!(300), |e| e).await;
    let faults = [
        Behaviour::RefuseConnection,
        Behaviour::Status(500),
        Behaviour::NeverAnswer,
        Behaviour::Empty200,
        Behaviour::Garbage200,
        Behaviour::OtherIds,
        Behaviour::HalfOfTheAnswers,
        Behaviour::NotANumber,
        Behaviour::DuplicateKeys,
        Behaviour::ResetMidBody,
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        let (name, body) = (format!("{fault:?}"), conversation(4, 3000));
        scene.engine.behave(fault).unwrap();
        let arrived = scene.send(&body).await;
        assert_eq!(arrived.body, body, "{name}");
        assert_eq!(arrived.header("content-length"), Some(body.len().to_string().as_bytes()), "{name}");
        let note = scene.note(2 * index + 1).await;
        assert!(note.contains("untouched engine_failed"), "{name}: {note}");
        scene.engine.behave(Behaviour::DropAll).unwrap();
        let body = conversation(4, 3000);
        assert_reduced(&body, &scene.send(&body).await.body);
    }
    assert_eq!(scene.count("request_skipped.engine_failed").await, 10);
}

#[tokio::test]
async fn what_is_no_candidate_passes_untouched_and_unasked() {
    let scene = Scene::start(true, |s| s["max_body_bytes"] = json!(40_000), |e| e).await;
    let client = Client::http1(&scene.envoy.url()).unwrap();
    let body = conversation(4, 3000);
    let json_type = ("content-type", "application/json");
    type Sent<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Vec<u8>, &'a str);
    let requests: [Sent<'_>; 8] = [
        ("POST", "/v1/embeddings", &[json_type], body.clone(), "other_path"),
        ("POST", CHAT, &[("content-type", "text/plain")], body.clone(), "not_json_type"),
        ("POST", CHAT, &[json_type, ("content-encoding", "gzip")], body.clone(), "encoded"),
        ("POST", CHAT, &[json_type, ("authorization", "AWS4-HMAC-SHA256 Credential=x")], body.clone(), "signed"),
        ("POST", CHAT, &[json_type], conversation(20, 3000), "too_large"),
        ("PUT", CHAT, &[json_type], body.clone(), "no_body"),
        ("POST", CHAT, &[json_type], b"{\"messages\":[".to_vec(), "not_json"),
        ("POST", CHAT, &[json_type], b"{\"messages\":[]}".to_vec(), "nothing_aged_out"),
    ];
    for (method, path, headers, body, reason) in requests {
        let response = client.send(method, path, headers, body.clone()).await.unwrap();
        assert_eq!(response.status, 200, "{reason}");
        assert_eq!(scene.provider.take_one().await.unwrap().body, body, "{reason}");
        assert_eq!(scene.count(&format!("request_skipped.{reason}")).await, 1, "{reason}");
    }
    assert_eq!(scene.engine.take().len(), 0);
}

#[tokio::test]
async fn the_engine_gets_the_key_of_the_named_variable_and_nobody_else_does() {
    let change = |s: &mut Value| s["api_key_env"] = json!("KEY");
    let scene = Scene::start(true, change, |e| e.environment("KEY", "canary-4711")).await;
    let arrived = scene.send(&conversation(3, 3000)).await;
    let asked = scene.engine.take();
    assert_eq!(asked[0].header("authorization"), Some(&b"Bearer canary-4711"[..]));
    assert_eq!(arrived.header("authorization"), None);
    let dump = scene.envoy.admin_get("/config_dump").await.unwrap();
    assert!(!dump.contains("canary-4711") && !scene.envoy.log().contains("canary-4711"));
}

#[tokio::test]
async fn a_local_engine_without_its_key_is_called_bare_and_a_remote_one_is_not_called() {
    let with_key = |s: &mut Value| s["api_key_env"] = json!("KEY");
    let local = Scene::start(true, with_key, |e| e).await;
    let body = conversation(3, 3000);
    assert_reduced(&body, &local.send(&body).await.body);
    assert_eq!(local.engine.take()[0].header("authorization"), None);
    assert!(local.envoy.log().contains("KEY"), "a warning names the variable");
    let remote = Scene::start(
        true,
        |s| {
            with_key(s);
            s["engine"] = json!("remote");
            s["export_consent"] = json!(true);
        },
        |e| e.environment("KEY", ""),
    )
    .await;
    assert_eq!(remote.send(&body).await.body, body);
    assert_eq!(remote.engine.take().len(), 0);
    assert_eq!(remote.count("request_skipped.no_api_key").await, 1);
}

#[tokio::test]
async fn it_is_off_without_configuration_and_switched_on_by_its_environment() {
    let provider = Provider::start().unwrap();
    let engine = StubEngine::start(Behaviour::DropAll).unwrap();
    let body = conversation(4, 3000);
    let mut settings = eager(&engine, true);
    settings.as_object_mut().unwrap().remove("enabled");
    let configured = WasmFilter::new().configuration(&settings).hold_flag(true);
    let switch = "CONTEXT_COMPACTION_ENABLED";
    let base = || EnvoyConfig::new(provider.address()).engine(engine.address());
    let off = [
        base().filter(WasmFilter::new().hold_flag(true)),
        base().filter(configured.clone()),
        base().filter(configured.clone()).environment(switch, "1"), // not among host_env_keys
    ];
    for config in off {
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::http1(&envoy.url()).unwrap();
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        assert_eq!(provider.take_one().await.unwrap().body, body);
        assert_eq!(envoy.metric("context_compaction.requests").await.unwrap_or(0), 0);
    }
    let on = base().filter(configured.host_env_keys(&[switch])).environment(switch, "1");
    let envoy = Envoy::start(&on).await.unwrap();
    Client::http1(&envoy.url()).unwrap().post(CHAT, body.clone()).await.unwrap();
    assert_reduced(&body, &provider.take_one().await.unwrap().body);
}

#[tokio::test]
async fn a_bad_configuration_is_refused_by_envoy_with_the_fields_name() -> Result<()> {
    let provider = Provider::start()?;
    let refused = |filter: WasmFilter| {
        let config = EnvoyConfig::new(provider.address()).filter(filter);
        async move {
            let validation = envoy::validate(&config).await.expect("Envoy validates");
            assert!(!validation.ok, "{}", validation.output);
            validation.output
        }
    };
    let secret = "sk-live-0123456789abcdefghij";
    let settings = configuration(json!({"api_key_env": secret, "timeout_ms": 0, "nonsense": 1}));
    let output = refused(WasmFilter::new().configuration(&settings)).await;
    for field in ["api_key_env", "timeout_ms", "nonsense"] {
        assert!(output.contains(&format!("configuration refused: {field}")), "{field}: {output}");
    }
    assert!(!output.contains(secret));
    let structure = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"enabled": true}});
    let output = refused(WasmFilter::new().configuration_any(structure)).await;
    assert!(output.contains("StringValue"), "{output}");
    Ok(())
}

#[tokio::test]
async fn a_client_that_leaves_while_the_engine_thinks_costs_nothing_else() {
    let scene = Scene::start(true, |_| {}, |e| e).await;
    scene.engine.behave(Behaviour::NeverAnswer).unwrap();
    let body = conversation(4, 3000);
    let length = body.len().to_string();
    let headers: [(&str, &[u8]); 2] = [("content-type", b"application/json"), ("content-length", length.as_bytes())];
    let head = crate::support::wire::request_head("POST", CHAT, &headers);
    let steps = vec![
        crate::support::client::Step::Send([head, body.clone()].concat()),
        crate::support::client::Step::Wait(std::time::Duration::from_millis(300)),
    ];
    crate::support::client::raw_and_leave(scene.envoy.address(), steps).await.unwrap();
    scene.envoy.wait_for_access_log(1).await.unwrap();
    assert_eq!(scene.count("request_skipped.client_gone").await, 1);
    scene.engine.behave(Behaviour::DropAll).unwrap();
    assert_reduced(&body, &scene.send(&body).await.body);
}
