//! The engine fails in every way, in the real Envoy: the original leaves, byte for byte, and the counter says why.
//!
//! | section | test |
//! |---|---|
//! | `envoy.md` 3: no call is made | `where_no_call_is_made_…` |
//! | `envoy.md` 3: refused, closed before headers, not HTTP, reset in the body, more than 32 MiB | `every_fault_…` |
//! | `envoy.md` 3: timeout before and after the headers (0/0/0) | `a_late_reply_…` |
//! | `envoy.md` 3: 4xx, 5xx, 204, 3xx, empty; trailers on the reply | `every_fault_…`, `unusual_but_valid_…` |
//! | `envoy.md` 3: some of several calls fail; 12.5 and 12.6 | `of_several_calls_…`, `where_no_call_is_made_…` |
//! | `envoy.md` 5: nothing here takes the VM down | every test: the next good request is reduced |
//! | `envoy.md` 7: one counter per reason; `engine.md` 1.4: each rule of the reply, and no text of it anywhere | `every_fault_…` |

use std::{collections::BTreeMap, time::Duration};

use crate::support::{
    bodies,
    client::{Client, Response},
    engine_behaviour::{Behaviour, CANARY, EngineReply, nothing_needed},
    envoy_config::{EnvoyConfig, static_cluster},
    gate::Gate,
    provider::short_completion,
    scene::{CHAT, Scene, assert_reduced, conversation, eager, grown},
    wasm_filter::WasmFilter,
};
use serde_json::{Map, Value, json};

const PAIRS: usize = 4;
/// What an operator should read for each of [`Behaviour::faults`].
const NAMED: [(&str, &str); 28] = [
    ("refuse_connection", "reset"),
    ("status_204", "bad_status"),
    ("status_400", "unanswerable"),
    ("status_401", "unauthorized"),
    ("status_429", "overloaded"),
    ("status_500", "bad_status"),
    ("status_503", "overloaded"),
    ("never_answer", "timeout"),
    ("delay", "timeout"),
    ("empty_200", "not_json"),
    ("garbage_200", "not_json"),
    ("truncated_json", "not_json"),
    ("other_ids", "missing_answer"),
    ("half_of_the_answers", "missing_answer"),
    ("extra_answer", "extra_answer"),
    ("not_a_number", "not_json"),
    ("out_of_range", "out_of_range"),
    ("number_as_string", "answer_type"),
    ("duplicate_keys", "duplicate_key"),
    ("wrong_content_type", "media_type"),
    ("slow_headers", "timeout"),
    ("slow_drip", "timeout"),
    ("reset_mid_body", "reset"),
    ("reset_at_once", "reset"),
    ("oversized_2_mib", "too_large"),
    ("oversized_40_mib", "reset"),
    ("redirect", "bad_status"),
    ("not_http", "wrong_endpoint"),
];
/// [`Behaviour::faults`], each with what an operator should read.
fn faults(timeout: Duration) -> Vec<(&'static str, Behaviour, &'static str)> {
    let faults = Behaviour::faults(timeout);
    assert_eq!(faults.iter().map(|f| f.0).collect::<Vec<_>>(), NAMED.map(|n| n.0), "every fault has its reason");
    faults.into_iter().zip(NAMED).map(|((name, fault), (_, reason))| (name, fault, reason)).collect()
}

/// The right answers, changed.
fn answers(change: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static) -> Behaviour {
    Behaviour::custom(move |request| {
        let mut right = nothing_needed(request);
        change(right["answers"].as_object_mut().expect("answers"));
        EngineReply::json(200, &right)
    })
}

/// The first answer, replaced.
fn first_answer(answer: Value) -> Behaviour {
    answers(move |answers| answers["c1"] = answer.clone())
}

/// The text of the right reply, changed.
fn text(change: impl Fn(String) -> Vec<u8> + Send + Sync + 'static) -> Behaviour {
    Behaviour::custom(move |request| {
        let mut reply = EngineReply::json(200, &json!(null));
        reply.body = change(nothing_needed(request).to_string());
        reply
    })
}

fn replaced(from: &'static str, to: &'static str) -> Behaviour {
    text(move |right| {
        assert!(right.contains(from), "{right}");
        right.replacen(from, to, 1).into_bytes()
    })
}

fn content_type(value: Option<&'static str>) -> Behaviour {
    Behaviour::custom(move |request| {
        let mut reply = EngineReply::json(200, &nothing_needed(request));
        reply.headers = value.iter().map(|value| ("content-type".to_owned(), (*value).to_owned())).collect();
        reply
    })
}

/// The right reply with spaces in it, so that it is `beyond` bytes longer than the filter reads.
fn as_long_as_allowed_and(beyond: usize) -> Behaviour {
    text(move |right| {
        let allowed = 4 * 1024 + 256 * 2 * PAIRS;
        format!("{}{right}", " ".repeat(allowed + beyond - right.len())).into_bytes()
    })
}

/// Ways to fail that the stand-in has no name for.
fn more_faults() -> Vec<(&'static str, Behaviour, &'static str)> {
    let mut faults = vec![
        ("one byte too long", as_long_as_allowed_and(1), "too_large"),
        ("31 MiB", Behaviour::Oversized(31), "too_large"),
        ("no content-type", content_type(None), "media_type"),
        ("a page", content_type(Some("text/html; charset=utf-8")), "media_type"),
        ("not UTF-8", text(|right| [right.as_bytes(), b"\xff"].concat()), "not_json"),
        ("two values", text(|right| right.repeat(2).into_bytes()), "not_json"),
        ("deep and cut off", text(|_| b"[".repeat(4000)), "not_json"),
        ("deep", text(|_| [b"[".repeat(2000), b"]".repeat(2000)].concat()), "shape"),
        ("no answers", replaced("\"answers\"", "\"answer\""), "shape"),
        ("a list of answers", replaced("\"answers\":{", "\"answers\":[],\"a\":{"), "shape"),
        ("answers twice", replaced("\"answers\":", "\"answers\":{},\"answers\":"), "duplicate_key"),
        ("a number twice", replaced("\"noul\":0.02", "\"noul\":0.02,\"noul\":0.02"), "duplicate_key"),
        ("one id in two spellings", replaced("\"c2\"", "\"\\u00631\""), "duplicate_key"),
        ("no answer at all", answers(Map::clear), "missing_answer"),
        ("an answer of another type", first_answer(json!({"type": "boolean", "noul": 0.02})), "answer_type"),
        ("an answer without number", first_answer(json!({"type": "noul", "score": 0.02})), "answer_type"),
        ("null", first_answer(json!({"type": "noul", "noul": null})), "answer_type"),
        ("a bare number", first_answer(json!(0.02)), "answer_type"),
        ("below zero", first_answer(json!({"type": "noul", "noul": -0.01})), "out_of_range"),
        ("endless", replaced("0.02", "1e999"), "answer_type"),
    ];
    let statuses = [
        (201, "bad_status"),
        (302, "bad_status"),
        (403, "unauthorized"),
        (404, "wrong_endpoint"),
        (405, "wrong_endpoint"),
        (422, "unanswerable"),
        (501, "wrong_endpoint"),
        // What Envoy says itself where a connection fails, here said by the engine.
        (502, "bad_status"),
        (504, "timeout"),
        (529, "overloaded"),
    ];
    faults.extend(statuses.map(|(status, reason)| ("a status", Behaviour::Status(status), reason)));
    faults
}

/// The engine must never be late while a busy machine makes it slow.
fn patient(settings: &mut Value) {
    settings["timeout_ms"] = json!(60_000);
}

/// Exactly one request more, left alone for exactly one reason, after this many calls.
async fn assert_one_failure(scene: &Scene, before: &BTreeMap<String, u64>, (reason, calls): (&str, u64), name: &str) {
    let mut grown = grown(before, &scene.counts().await);
    // What the engine will never answer is an answer: all of it stays.
    let skip = if reason == "unanswerable" { "kept_by_engine" } else { "engine_failed" };
    let (skip, reason) = (format!("request_skipped.{skip}"), format!("engine_failed.{reason}"));
    for counter in ["requests", &skip, &reason] {
        assert_eq!(grown.remove(counter), Some(1), "{name}: {counter}, beside {grown:?}");
    }
    assert_eq!(grown.remove("engine_calls").unwrap_or(0), calls, "{name}");
    assert_eq!(grown.remove("engine_request_bytes").is_some(), calls > 0, "{name}");
    grown.remove("engine_degenerate_replies"); // of the calls that were answered
    grown.remove("pair_skipped.recent"); // those beyond 56
    let asked = grown.remove("pairs_asked").unwrap_or(0);
    assert_eq!(asked > 0, reason != "engine_failed.paused", "{name}");
    assert!(grown.is_empty(), "{name}: {grown:?}");
}

/// Sends `body` and expects that it arrives as it is.
async fn assert_untouched(scene: &Scene, body: &[u8], hold: bool, name: &str) {
    let client = Client::http1(&scene.envoy.url()).unwrap();
    let response = client.post(CHAT, body.to_vec()).await.unwrap();
    assert_eq!((response.status, response.complete), (200, true), "{name}: {}", scene.envoy.log());
    let arrived = scene.provider.take_one().await.unwrap();
    assert!(arrived.body == body, "{name}: the body changed");
    let length = hold.then(|| body.len().to_string());
    assert_eq!(arrived.header("content-length"), length.as_ref().map(String::as_bytes), "{name}");
    assert!(!format!("{:?}", arrived.headers).contains(CANARY), "{name}");
    let answer =
        response.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]).collect::<Vec<_>>().concat();
    assert!(!String::from_utf8_lossy(&[&answer, &response.body[..]].concat()).contains(CANARY), "{name}");
}

/// The fault costs this request its reduction and nothing else.
async fn assert_fails_open(scene: &Scene, hold: bool, fault: Behaviour, reason: &str, name: &str) {
    let before = scene.counts().await;
    scene.engine.behave(fault).unwrap();
    assert_untouched(scene, &conversation(PAIRS, 3000), hold, name).await;
    assert_one_failure(scene, &before, (reason, 1), name).await;
}

async fn assert_recovers(scene: &Scene) {
    let body = conversation(PAIRS, 3000);
    scene.engine.behave(Behaviour::DropAll).unwrap();
    assert_reduced(&body, &scene.send(&body).await.body);
}

/// After a wrong key or endpoint nobody is called for minutes.
async fn assert_pauses(scene: &Scene) {
    scene.engine.behave(Behaviour::DropAll).unwrap();
    let before = scene.counts().await;
    assert_untouched(scene, &conversation(PAIRS, 3000), true, "paused").await;
    assert_one_failure(scene, &before, ("paused", 0), "paused").await;
    assert_eq!(scene.envoy.log().matches("no calls for 300 s").count(), 1, "said once: {}", scene.envoy.log());
}

/// Nothing that the engine said stands anywhere, and nothing broke.
async fn assert_silent(scene: &Scene) {
    let pages = ["/stats", "/stats/prometheus", "/config_dump", "/clusters"];
    let mut texts = vec![scene.envoy.log(), format!("{:?}", scene.envoy.access_log())];
    for page in pages {
        texts.push(scene.envoy.admin_get(page).await.unwrap());
    }
    for text in &texts {
        assert!(text.len() > 100 && !text.contains(CANARY), "{text}");
    }
    assert!(!texts[0].contains("[critical]") && !texts[0].contains("[error]"), "{}", texts[0]);
}

/// Whether the engine's answer to what the filter last asked holds the canary: else nothing is proven by its absence.
async fn says_the_canary(scene: &Scene) -> bool {
    let question = scene.engine.take().pop().map(|request| request.body).unwrap_or_default();
    let reply = Client::http1(&scene.engine.endpoint()).unwrap().post("", question).await;
    let said = |reply: Response| reply.text().contains(CANARY) || reply.header("x-engine") == Some(CANARY.as_bytes());
    reply.is_ok_and(said)
}

#[tokio::test]
async fn every_fault_leaves_the_original_under_its_own_reason_and_the_next_request_is_reduced() {
    let start = async || Scene::start(true, patient, |e| e.log_level("info", "wasm:debug")).await;
    let mut scene = start().await;
    assert_recovers(&scene).await;
    let mut silent = Vec::new();
    let named = faults(Duration::ZERO).into_iter().filter(|(_, _, reason)| *reason != "timeout");
    for (name, fault, reason) in named.chain(more_faults()) {
        let name = format!("{name} {fault:?} {reason}");
        assert_fails_open(&scene, true, fault, reason, &name).await;
        if !says_the_canary(&scene).await {
            silent.push(name.clone());
        }
        // What is not even HTTP may be an engine that is just starting.
        if ["unauthorized", "wrong_endpoint"].contains(&reason) && !name.starts_with("not_http") {
            assert_pauses(&scene).await;
            assert_silent(&scene).await;
            scene = start().await;
        }
        assert_recovers(&scene).await;
    }
    assert_eq!(silent.len(), 3, "refused, reset at once, and what no client reads as a reply: {silent:?}");
    assert_silent(&scene).await;
}

#[tokio::test]
async fn faults_cost_no_more_in_portable_mode() {
    let scene = Scene::start(false, patient, |e| e).await;
    let some = ["refuse_connection", "status_500", "garbage_200", "extra_answer", "reset_mid_body", "oversized_2_mib"];
    for (name, fault, reason) in faults(Duration::ZERO).into_iter().filter(|(name, ..)| some.contains(name)) {
        assert_fails_open(&scene, false, fault, reason, name).await;
        assert_recovers(&scene).await;
    }
    assert_eq!(scene.count("requests_reduced").await, 6);
    assert_silent(&scene).await;
}

#[tokio::test]
async fn a_late_reply_is_a_timeout_however_much_of_it_came() {
    let timeout = Duration::from_millis(800);
    let scene = Scene::start(true, |s| s["timeout_ms"] = json!(800), |e| e).await;
    for (name, fault, reason) in faults(timeout).into_iter().filter(|(_, _, reason)| *reason == "timeout") {
        assert_fails_open(&scene, true, fault, reason, name).await;
    }
    // Envoy's clock for the timeout starts before it has read the body; a large one takes long to read.
    let before = scene.counts().await;
    scene.engine.behave(Behaviour::SlowDrip(timeout)).unwrap();
    let large = conversation(40, 15_000);
    assert_untouched(&scene, &large, true, "large").await;
    assert_one_failure(&scene, &before, ("timeout", 3), "large").await;
    scene.engine.behave(Behaviour::DropAll).unwrap();
    for _ in 0..20 {
        let body = conversation(PAIRS, 3000);
        let left = scene.send(&body).await.body;
        if left != body {
            assert_reduced(&body, &left);
            return assert_silent(&scene).await;
        }
        tokio::time::sleep(timeout).await; // one more that is late begins a pause of a second
    }
    panic!("no request is reduced any more: {}", scene.note(26).await);
}

#[tokio::test]
async fn unusual_but_valid_replies_count() {
    let scene = Scene::start(true, patient, |e| {
        e.patch(|bootstrap| {
            let options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
            let http1 = json!({"http_protocol_options": {"enable_trailers": true}});
            bootstrap["static_resources"]["clusters"][1]["typed_extension_protocol_options"] = json!({
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": options, "explicit_http_config": http1,
                }
            });
        })
    })
    .await;
    let deep = [b"[".repeat(1000), b"]".repeat(1000)].concat();
    let deep = format!("{{\"x\":{},", String::from_utf8(deep).unwrap());
    let replies = [
        ("in chunks, with a trailer", Behaviour::InChunks),
        ("as long as allowed", as_long_as_allowed_and(0)),
        ("with a charset", content_type(Some("Application/JSON ; charset=utf-8"))),
        ("of a media type in JSON", content_type(Some("application/vnd.engine+json"))),
        ("without types", text(|right| right.replace("\"type\":\"noul\",", "").into_bytes())),
        ("whole numbers", text(|right| right.replace("0.02", "0").into_bytes())),
        ("with deep nonsense beside the answers", text(move |right| right.replacen('{', &deep, 1).into_bytes())),
    ];
    for (index, (name, reply)) in replies.into_iter().enumerate() {
        let body = conversation(PAIRS, 3000);
        scene.engine.behave(reply).unwrap();
        let arrived = scene.send(&body).await;
        let note = scene.note(index + 1).await;
        assert!(note.contains("reduced asked=4 judged=4 dropped=4"), "{name}: {note}");
        assert_reduced(&body, &arrived.body);
    }
    assert_silent(&scene).await;
}

#[tokio::test]
async fn where_no_call_is_made_the_original_leaves_at_once() {
    // ECDS brings one filter after another; the first is off.
    let clusters = |e: EnvoyConfig| {
        let nobody = json!({"name": "nobody", "type": "STATIC", "connect_timeout": "1s"});
        let mut unknown_name = static_cluster("unknown_name", ([127, 0, 0, 1], 1).into());
        unknown_name["type"] = json!("STRICT_DNS");
        unknown_name["wait_for_warm_on_init"] = json!(false);
        unknown_name["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"] =
            json!({"socket_address": {"address": "some.invalid", "port_value": 80}});
        e.filter(WasmFilter::new().over_ecds()).cluster(nobody).cluster(unknown_name).engine_limits(1, 1)
    };
    let scene = Scene::start(true, |_| {}, clusters).await;
    let mut settings = eager(&scene.engine, true);
    patient(&mut settings);
    for cluster in ["not_configured", "nobody", "unknown_name"] {
        settings["cluster"] = json!(cluster);
        let filter = WasmFilter::new().configuration(&settings).over_ecds();
        assert!(scene.envoy.replace_filter(&filter).await.unwrap(), "{}", scene.envoy.log());
        let before = scene.counts().await;
        assert_untouched(&scene, &conversation(PAIRS, 3000), true, cluster).await;
        assert_one_failure(&scene, &before, ("not_dispatched", 0), cluster).await;
    }
    settings["cluster"] = json!("decision_engine");
    let filter = WasmFilter::new().configuration(&settings).over_ecds();
    assert!(scene.envoy.replace_filter(&filter).await.unwrap());
    // Two calls and no connection yet: one may wait for it, and its reply comes too late.
    let before = scene.counts().await;
    assert_untouched(&scene, &conversation(20, 3000), true, "the second of two").await;
    assert_one_failure(&scene, &before, ("not_dispatched", 1), "the second of two").await;
    scene.until_engine_replied(1).await;
    assert_recovers(&scene).await;
    // While a call is out the next one may wait for a connection, and is refused when it has one: with Envoy's own 503.
    let gate = Gate::shut();
    scene.engine.take();
    scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
    let (client, body) = (Client::http1(&scene.envoy.url()).unwrap(), conversation(PAIRS, 3000));
    let waiting = tokio::spawn({
        let body = body.clone();
        async move { client.post(CHAT, body).await.unwrap().status }
    });
    scene.engine.wait_for(1).await.unwrap();
    let before = scene.counts().await;
    assert_untouched(&scene, &conversation(PAIRS, 3000), true, "beside another").await;
    assert_one_failure(&scene, &before, ("not_dispatched", 1), "beside another").await;
    gate.open();
    assert_eq!(waiting.await.unwrap(), 200);
    assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
    assert_recovers(&scene).await;
    assert_silent(&scene).await;
}

#[tokio::test]
async fn of_several_calls_one_that_fails_is_enough_and_late_replies_change_nothing() {
    let scene = Scene::start(true, patient, |e| e).await;
    // Pairs of each epoch, the failing question, whether it fails before the other calls are answered, how many calls are
    // made. Up to four are out at once, of all epochs together; one epoch asks about 56 pairs at most.
    let cases: [(&[usize], &str, bool, u64); 8] = [
        (&[30], "c1", true, 3),
        (&[30], "c15", true, 3),
        (&[30], "c30", true, 3),
        (&[30], "c1", false, 3),
        (&[30], "c30", false, 3),
        (&[60], "c56", false, 4),
        (&[30, 30], "c1", true, 4),
        (&[30, 30], "c60", false, 6),
    ];
    for (groups, failing, fails_first, calls) in cases {
        let name = format!("{failing} of {groups:?}, first: {fails_first}");
        let body = bodies::chat_in_groups("gpt-4o", groups, 3000);
        let (gate, provider_gate) = (Gate::shut(), Gate::shut());
        let (second, last) = (gate.clone(), provider_gate.clone());
        let behaviour = Behaviour::choose(move |request| {
            let fails = request.questions().iter().any(|question| question == failing);
            let then = if fails { Behaviour::Garbage200 } else { Behaviour::DropAll };
            if fails == fails_first { then } else { Behaviour::Behind(second.clone(), Box::new(then)) }
        });
        scene.engine.behave(behaviour).unwrap();
        scene.provider.answer_with(move |_| short_completion().behind(&last));
        let (before, replies) = (scene.counts().await, scene.engine_replies().await);
        let events = async {
            if fails_first {
                scene.provider.wait_for(1).await.unwrap();
            } else {
                scene.until_engine_replied(replies + calls - 1).await;
                assert!(scene.provider.requests().is_empty(), "{name}");
            }
            gate.open();
            // The stream is still there: its response waits.
            scene.until_engine_replied(replies + calls).await;
            provider_gate.open();
        };
        tokio::join!(events, assert_untouched(&scene, &body, true, &name));
        assert_one_failure(&scene, &before, ("not_json", calls), &name).await;
        assert_eq!(scene.engine.take().len() as u64, calls, "{name}");
        scene.provider.answer_with(|_| short_completion());
        assert_recovers(&scene).await;
        scene.engine.take();
    }
    assert_silent(&scene).await;
}
