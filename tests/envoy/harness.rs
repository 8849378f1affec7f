//! The support code tests itself, without the filter: what it claims to send, record and answer is so.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::client::{self, Client, Protocol, Step};
use crate::support::engine::StubEngine;
use crate::support::engine_behaviour::{Behaviour, EngineReply};
use crate::support::envoy::{self, Envoy};
use crate::support::envoy_config::{self, EnvoyConfig};
use crate::support::provider::{Answer, BodyEnd, Framing, Provider, failing_first};
use crate::support::wasm_filter::WasmFilter;
use crate::support::{bodies, cases, conversations, wire};

const CHAT: &str = "/v1/chat/completions";

fn odd_bytes(length: usize) -> Bytes {
    (0..length).map(|n| u8::try_from(n * 31 % 251).expect("below 251")).collect()
}

#[tokio::test]
async fn envoy_passes_a_body_byte_for_byte_in_every_version() {
    for upstream_http2 in [false, true] {
        let provider = Provider::start().expect("provider");
        let config = EnvoyConfig::new(provider.address());
        let config = if upstream_http2 { config.upstream_http2() } else { config };
        let envoy = Envoy::start(&config).await.expect("Envoy");
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let client = Client::new(&envoy.url(), protocol).expect("client");
            let body = odd_bytes(300_000);
            let response = client.post(CHAT, body.clone()).await.expect("response");
            assert_eq!((response.status, response.complete), (200, true));
            assert_eq!(response.json().expect("json")["object"], "chat.completion");

            let seen = provider.take_one().await.expect("one request");
            assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", CHAT));
            assert_eq!(seen.end, BodyEnd::Complete);
            assert!(seen.body == body, "the body changed");
            assert_eq!(seen.framing, Framing::ContentLength(300_000));
            assert_eq!(seen.version == hyper::Version::HTTP_2, upstream_http2);
            assert!(seen.headers_at <= seen.ended_at);

            let pieces = vec![body.slice(..1000), body.slice(1000..)];
            client.post_pieces(CHAT, client::JSON, pieces).await.expect("response");
            let seen = provider.take_one().await.expect("one request");
            assert!(seen.body == body, "the body in pieces changed");
            assert_eq!(seen.framing, if upstream_http2 { Framing::Unstated } else { Framing::Chunked });
        }
        assert!(!provider.connections().is_empty());
    }
}

#[tokio::test]
async fn envoy_tells_about_itself_and_ends_with_its_value() {
    let provider = Provider::start().expect("provider");
    let envoy = Envoy::start(&EnvoyConfig::new(provider.address())).await.expect("Envoy");
    Client::http1(&envoy.url()).expect("client").post("/a?b=c", "12345").await.expect("response");

    let entry = envoy.wait_for_access_log(1).await.expect("entry").remove(0);
    assert_eq!(
        (&entry["status"], &entry["path"], &entry["bytes_received"]),
        (&json!(200), &json!("/a?b=c"), &json!(5))
    );
    assert_eq!((&entry["details"], &entry["filter_state"]), (&json!("via_upstream"), &Value::Null));
    assert_eq!(envoy.counter("http.ingress.downstream_rq_2xx").await.expect("counter"), 1);
    assert_eq!(envoy.counter("no.such.counter").await.expect("counter"), 0);
    assert!(envoy.admin_get("/server_info").await.expect("admin").contains("\"state\": \"LIVE\""));

    let (pid, address) = (envoy.pid(), envoy.address());
    assert!(envoy.is_alive() && std::path::Path::new(&format!("/proc/{pid}")).exists());
    let log = envoy.stop();
    assert!(log.contains("caught ENVOY_SIGTERM"), "{log}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn options_reach_envoy() {
    let provider = Provider::answering(failing_first(2, 503)).expect("provider");
    let buffer = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer";
    let config = EnvoyConfig::new(provider.address())
        .filter_after(json!({
            "name": "buffer",
            "typed_config": {"@type": buffer, "max_request_bytes": 10_000},
        }))
        .listener_buffer(2000)
        .request_body_buffer_limit(8000)
        .retry_policy(json!({"retry_on": "5xx", "num_retries": 3}))
        .stream_idle_timeout(Duration::from_millis(500))
        .runtime(json!({"envoy.reloadable_features.filter_manager_forward_added_data_on_continue": false}))
        .engine("127.0.0.1:9".parse().expect("address"))
        .engine_limits(1, 2)
        .environment("ANY_KEY", "value")
        .concurrency(2)
        .patch(|bootstrap| envoy_config::route(bootstrap)["route"]["host_rewrite_literal"] = json!("patched"));
    let envoy = Envoy::start(&config).await.expect("Envoy");
    let client = Client::http1(&envoy.url()).expect("client");

    assert_eq!(client.post(CHAT, "retried").await.expect("response").status, 200);
    let seen = provider.take();
    assert_eq!(seen.len(), 3, "503, 503, 200");
    assert!(seen.iter().all(|request| request.body == "retried" && request.header("host") == Some(b"patched")));

    assert_eq!(client.post(CHAT, odd_bytes(7000)).await.expect("response").status, 200);
    assert_eq!(client.post(CHAT, odd_bytes(200_000)).await.expect("response").status, 413);
    assert_eq!(envoy.stats().await.expect("stats")["server.concurrency"], 2);

    let stalled = vec![Step::Send(wire::request_head("POST", CHAT, &[("content-length", b"5")]))];
    let response = client::raw(envoy.address(), stalled).await.expect("response");
    assert_eq!(response.status, 408, "{}", response.text());
    let log = envoy.wait_for_access_log(4).await.expect("entries");
    assert_eq!(log[0]["upstream_attempts"], 3);
    assert_eq!(log[2]["details"], "request_payload_too_large");
}

#[tokio::test]
async fn the_bare_socket_sends_what_no_library_would() {
    let provider = Provider::start().expect("provider");
    let envoy = Envoy::start(&EnvoyConfig::new(provider.address()).trailers()).await.expect("Envoy");
    let send = async |headers: &[(&str, &[u8])], rest: Vec<Step>| {
        let mut steps = vec![Step::Send(wire::request_head("POST", CHAT, headers))];
        steps.extend(rest);
        let response = client::raw(envoy.address(), steps).await.expect("response");
        assert_eq!(response.status, 200);
        (response, provider.take_one().await.expect("one request"))
    };

    let chunks = wire::chunked(b"one byte at a time", 1, &[("x-trailer", "here")]);
    let (_, seen) = send(&[("transfer-encoding", b"chunked")], vec![Step::Drip(chunks)]).await;
    assert_eq!((seen.body.as_ref(), seen.framing), (b"one byte at a time".as_ref(), Framing::Chunked));
    assert_eq!(seen.trailers["x-trailer"], "here");

    let (_, seen) = send(&[("x-odd", b"a\xffb"), ("content-length", b"0")], Vec::new()).await;
    assert_eq!(seen.header("x-odd"), Some(b"a\xffb".as_ref()));

    let expecting: &[(&str, &[u8])] = &[("content-length", b"2"), ("expect", b"100-continue")];
    let (response, seen) = send(expecting, vec![Step::AwaitContinue, Step::Send(b"ok".to_vec())]).await;
    assert_eq!((response.interim, seen.body.as_ref()), (vec![100], b"ok".as_ref()));

    let head = wire::request_head("POST", CHAT, &[("content-length", b"9")]);
    let half = vec![Step::Send(head), Step::Send(b"half".to_vec()), Step::Wait(Duration::from_millis(100))];
    client::raw_and_leave(envoy.address(), half).await.expect("sent");
    let seen = provider.take_one().await.expect("one request");
    assert!(matches!(seen.end, BodyEnd::Broken(_)), "{:?}", seen.end);
    assert_eq!(envoy.wait_for_access_log(4).await.expect("entries")[3]["status"], 0);

    let pieces = vec![Bytes::from("with "), Bytes::from("trailers")];
    let trailers = [("x-trailer", "two")];
    let response = client::post_http2_with_trailers(envoy.address(), CHAT, client::JSON, pieces, &trailers);
    assert_eq!(response.await.expect("response").status, 200);
    let seen = provider.take_one().await.expect("one request");
    assert_eq!(
        (seen.body.as_ref(), &seen.trailers["x-trailer"]),
        (b"with trailers".as_ref(), &"two".parse().expect("value"))
    );
}

#[tokio::test]
async fn the_provider_streams_delays_and_breaks() {
    let gap = Duration::from_millis(50);
    let provider = Provider::answering(move |request| match request.path.as_str() {
        "/stream" => Answer::events(&["one", "two", "[DONE]"], gap),
        "/late" => Answer::json(418, &json!({"late": true})).after(gap).header("x-more", "1"),
        "/cut" => Answer::broken_after(vec![(Duration::ZERO, "half".into()), (gap, "way".into())]),
        _ => Answer::reset(),
    })
    .expect("provider");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = Client::new(&provider.url(), protocol).expect("client");
        let streamed = client.post("/stream", "").await.expect("response");
        assert_eq!(streamed.text(), "data: one\n\ndata: two\n\ndata: [DONE]\n\n");
        assert_eq!(streamed.header("content-type"), Some(b"text/event-stream".as_ref()));
        let pieces = &streamed.pieces;
        assert!(pieces.len() > 1 && pieces[pieces.len() - 1].0 - pieces[0].0 >= gap, "{protocol:?}: {pieces:?}");
        let late = client.post("/late", "").await.expect("response");
        assert!(late.status == 418 && late.headers_after >= gap && late.header("x-more") == Some(b"1"));
        let cut = client.post("/cut", "").await.expect("response");
        assert_eq!((cut.text().as_str(), cut.complete), ("halfway", false));
        assert!(client.post("/reset", "").await.is_err());
    }
    let numbers: Vec<usize> = provider.requests().iter().map(|request| request.number).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
}

/// A System One request about two pairs.
fn question() -> Value {
    let asked = json!({"p1": {"input": "c-birch"}, "p2": {"input": "c-alder"}});
    let ask = json!({"type": "noul", "instructions": "?"});
    json!({"model": "m", "state": {"asked": asked}, "questions": {"c1": ask, "c2": ask, "r1": ask, "r2": ask}})
}

/// Asks the engine and gives its answers by id.
async fn nouls(engine: &StubEngine) -> Vec<(String, f64)> {
    let client = Client::http1(&engine.endpoint()).expect("client");
    let response = client.post("", question().to_string()).await.expect("response");
    assert_eq!((response.status, response.header("content-type")), (200, Some(b"application/json".as_ref())));
    let json = response.json().expect("json");
    let answers = json["answers"].as_object().expect("answers");
    answers.iter().map(|(id, answer)| (id.clone(), answer["noul"].as_f64().expect("number"))).collect()
}

#[tokio::test]
async fn the_engine_answers_as_told() {
    let engine = StubEngine::start(Behaviour::DropAll).expect("engine");
    let told =
        |values: [f64; 4]| ["c1", "c2", "r1", "r2"].map(str::to_owned).into_iter().zip(values).collect::<Vec<_>>();
    assert_eq!(nouls(&engine).await, told([0.02; 4]));
    for (behaviour, values) in [
        (Behaviour::KeepAll, [0.98; 4]),
        (Behaviour::KeepCallShortenResult, [0.98, 0.98, 0.02, 0.02]),
        (Behaviour::DropIfContains(vec!["c-birch".to_owned()]), [0.02, 0.98, 0.02, 0.98]),
        (Behaviour::Delay(Duration::from_millis(50), Box::new(Behaviour::KeepAll)), [0.98; 4]),
        (
            Behaviour::custom(|_| EngineReply::json(200, &json!({"answers": {"c1": {"noul": 0.5}}}))),
            [0.5, 0.0, 0.0, 0.0],
        ),
    ] {
        engine.behave(behaviour.clone()).expect("change");
        let answers = nouls(&engine).await;
        let expected = told(values).into_iter().take(answers.len()).collect::<Vec<_>>();
        assert_eq!(answers, expected, "{behaviour:?}");
    }
    let seen = engine.take();
    assert_eq!((seen.len(), seen[0].path.as_str()), (6, "/v1/systemone"));
    assert_eq!(seen[0].body, question().to_string().into_bytes());
    assert_eq!(seen[0].questions(), ["c1", "c2", "r1", "r2"]);

    engine.behave(Behaviour::DropAll).expect("change");
    let client = Client::http1(&format!("http://{}", engine.address())).expect("client");
    assert_eq!(client.post("/v1/other", question().to_string()).await.expect("response").status, 404);
    assert_eq!(client.post("/v1/systemone", "{}").await.expect("response").status, 400);
    let authorised = client.send("POST", "/v1/systemone", &[("authorization", "Bearer k")], question().to_string());
    assert_eq!(authorised.await.expect("response").status, 200);
    assert_eq!(engine.take()[2].header("authorization"), Some(b"Bearer k".as_ref()));
}

#[tokio::test]
async fn the_engine_fails_as_told() {
    let engine = StubEngine::start(Behaviour::RefuseConnection).expect("engine");
    let timeout = Duration::from_millis(300);
    for (name, fault) in Behaviour::faults(timeout) {
        engine.behave(fault).expect("change");
        let client = Client::http1(&engine.endpoint()).expect("client");
        let late = ["never_answer", "delay", "slow_headers", "slow_drip"].contains(&name);
        let patience = if late { timeout } else { Duration::from_secs(20) };
        let reply = tokio::time::timeout(patience, client.post("", question().to_string())).await;
        let reply = reply.ok().map(|reply| reply.ok().map(|r| (r.status, r.complete, r.body)));
        let silent = ["refuse_connection", "reset_at_once", "not_http"].contains(&name);
        match reply {
            None => assert!(late, "{name} took too long"),
            Some(None) => assert!(silent, "{name} gave no response"),
            Some(Some((status, complete, body))) => {
                assert!(!late && !silent, "{name} answered");
                let expected = name.strip_prefix("status_").map_or(200, |code| code.parse().expect("code"));
                assert_eq!(status, if name == "redirect" { 307 } else { expected }, "{name}");
                assert_eq!(complete, name != "reset_mid_body", "{name}");
                let broken =
                    ["status_204", "empty_200", "garbage_200", "truncated_json", "not_a_number", "reset_mid_body"];
                assert_eq!(serde_json::from_slice::<Value>(&body).is_err(), broken.contains(&name), "{name}");
            }
        }
    }
    engine.behave(Behaviour::KeepAll).expect("change");
    assert_eq!(nouls(&engine).await.len(), 4, "the engine recovers on the same port");
}

#[tokio::test]
async fn envoy_validates_a_bootstrap() {
    let good = EnvoyConfig::new("127.0.0.1:9".parse().expect("address"));
    let said = envoy::validate(&good).await.expect("validation");
    assert!(said.ok, "{}", said.output);
    let bad = good.patch(|bootstrap| envoy_config::route(bootstrap)["no_such_field"] = json!(1));
    let said = envoy::validate(&bad).await.expect("validation");
    assert!(!said.ok && said.output.contains("no_such_field"), "{}", said.output);
    let failure = Envoy::start(&bad).await.err().expect("Envoy does not start");
    assert!(failure.to_string().contains("no_such_field"), "{failure}");
}

#[test]
fn the_filter_is_written_as_envoy_wants_it() {
    let directory = tempfile::tempdir().expect("directory");
    if crate::support::paths::filter_wasm().is_err() {
        let failure = crate::support::paths::filter_wasm().expect_err("no wasm");
        assert!(failure.to_string().contains("make wasm"), "{failure}");
        return;
    }
    let filter = WasmFilter::new().configuration(&json!({"enabled": false})).host_env_keys(&["A_KEY"]);
    let config = EnvoyConfig::new("127.0.0.1:9".parse().expect("address")).filter(filter);
    let mut bootstrap = config.bootstrap(directory.path()).expect("bootstrap");
    let plugin = &envoy_config::connection_manager(&mut bootstrap)["http_filters"][0]["typed_config"]["config"];
    assert_eq!(plugin["configuration"]["value"], r#"{"enabled":false}"#);
    assert_eq!((&plugin["fail_open"], &plugin["allow_on_headers_stop_iteration"]), (&json!(true), &json!(true)));
    assert_eq!(plugin["vm_config"]["environment_variables"]["host_env_keys"], json!(["A_KEY"]));
}

#[test]
fn cases_load_and_the_checker_judges() {
    if !cases::available() {
        return;
    }
    let all = cases::load_all().expect("cases");
    assert!(all.len() >= 30, "{} cases", all.len());
    for case in &all {
        assert!(!case.bodies.is_empty() && !case.engines().expect("engines").is_empty(), "{}", case.slug);
        assert!(!case.headers().is_empty() && case.path().starts_with('/'), "{}", case.slug);
        assert!(["prune", "passthrough", "prune_or_passthrough"].contains(&case.outcome()), "{}", case.slug);
        assert!(case.configuration("http://127.0.0.1:1")["threshold_tokens"].is_u64(), "{}", case.slug);
        let untouched = case.check(&case.bodies);
        assert_eq!(untouched.is_ok(), case.outcome() != "prune", "{}: {untouched:?}", case.slug);
    }
    let failure = all[0].check(&all[0].bodies).expect_err("must go");
    assert!(failure.to_string().contains("nothing was removed"), "{failure}");
}

#[test]
fn conversations_render_as_requests_that_grow() {
    if !conversations::available() {
        return;
    }
    let all = conversations::load_all().expect("conversations");
    assert!(all.len() >= 50);
    for conversation in &all {
        let turns = conversation.turns();
        assert!(turns.len() > 5 && turns.is_sorted(), "{}: {turns:?}", conversation.name);
        let key = if conversation.path() == "/v1/responses" { "input" } else { "messages" };
        let [first, last] = [turns[0], turns[turns.len() - 1]].map(|turn| conversation.body(turn));
        for (turn, body) in [(turns[0], &first), (turns[turns.len() - 1], &last)] {
            let json: Value = serde_json::from_slice(body).expect("valid JSON");
            let messages = json[key].as_array().expect("messages");
            assert_eq!(messages.len(), turn);
            assert_ne!(messages[turn - 1]["role"], "assistant", "{}", conversation.name);
            assert!(json["model"].is_string());
        }
        if conversation.tools.is_null() || key == "messages" && conversation.path() == "/v1/messages" {
            assert!(last.starts_with(&first[..first.len() - 2]), "{}: the prefix changed", conversation.name);
        }
    }
    let formats: HashSet<&str> = all.iter().map(conversations::Conversation::path).collect();
    assert_eq!(formats.len(), 3);
}

#[test]
fn bodies_load_and_made_bodies_have_their_size() {
    let made = bodies::chat("gpt-4o", 10, 5000);
    assert!(made.len() > 50_000 && made.len() < 60_000, "{}", made.len());
    assert!(serde_json::from_slice::<Value>(&made).expect("valid JSON")["messages"][2]["content"].is_string());
    assert!(serde_json::from_slice::<Value>(&bodies::anthropic("claude", 3, 10)).is_ok());
    if bodies::available() {
        let recorded = bodies::load_all().expect("bodies");
        assert!(recorded.len() > 90 && recorded.iter().all(|body| !body.bytes.is_empty()));
    }
}
