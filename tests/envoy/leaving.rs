//! Clients that leave, upstreams that break, and many requests that wait, in the real Envoy.
//!
//! | `envoy.md` | test |
//! |---|---|
//! | 3: a client disconnects while its request is paused, and the engine's call is not cancelled | `a_client_may_leave_…` |
//! | 3: 300 requests paused at once | `hundreds_of_requests_…` |
//! | 4: upstream retries resend the rewritten body, both modes | `retries_send_…` |
//! | 5: what ends a request that hangs: `stream_idle_timeout`; 12: it bounds the worst case | `a_request_that_waits_…` |
//! | 5, 12.6: nothing of this costs the VM, and a request is counted once | `the_connection_stays_…`, and every test |
//!
//! Two replies to one call, or a reply to nobody's call, cannot be caused from outside: Envoy makes one callback for
//! each token that it gave. `tests/core/driver.rs` delivers the same token twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::support::{
    client::{self, Client, Step},
    engine_behaviour::Behaviour,
    gate::Gate,
    provider::{Answer, BodyEnd, Framing, ProviderRequest, short_completion},
    scene::{CHAT, Scene, assert_reduced, conversation, grown},
    wire,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const PAIRS: usize = 4;
/// `hold_headers`, and its name.
const MODES: [(bool, &str); 2] = [(true, "held"), (false, "portable")];
/// How long something may take that has no reason to take long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The engine must never be late while a busy machine makes it slow.
fn patient(settings: &mut Value) {
    settings["timeout_ms"] = json!(60_000);
}

fn body() -> Vec<u8> {
    conversation(PAIRS, 3000)
}

/// The bytes of an ordinary request: head, then body.
fn request(body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let length = body.len().to_string();
    let headers: [(&str, &[u8]); 2] = [("content-type", b"application/json"), ("content-length", length.as_bytes())];
    (wire::request_head("POST", CHAT, &headers), body.to_vec())
}

async fn connect(scene: &Scene) -> TcpStream {
    let stream = TcpStream::connect(scene.envoy.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Every request has one outcome, every failed one has one fault, and the filter runs.
async fn assert_sound(scene: &Scene) {
    let counts = scene.counts().await;
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let sum = |prefix: &str| counts.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, n)| n).sum::<u64>();
    assert_eq!(count("requests"), count("requests_reduced") + sum("request_skipped."), "{counts:?}");
    assert_eq!(count("request_skipped.engine_failed"), sum("engine_failed."), "{counts:?}");
    let log = scene.envoy.log();
    assert!(scene.envoy.is_alive() && !log.contains("[critical]") && !log.contains("[error]"), "{log}");
    let deadline = Instant::now() + PATIENCE;
    while scene.envoy.counter("http.ingress.downstream_rq_active").await.unwrap() > 0 {
        assert!(Instant::now() < deadline, "a request is stuck");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An ordinary request is reduced, whatever happened before; whole requests only, since others may still be arriving.
async fn assert_works(scene: &Scene) {
    let body = body();
    scene.engine.behave(Behaviour::DropAll).unwrap();
    scene.provider.answer_with(|_| short_completion());
    scene.provider.take();
    let response = Client::http1(&scene.envoy.url()).unwrap().post(CHAT, body.clone()).await.unwrap();
    assert_eq!(response.status, 200, "{}", scene.envoy.log());
    let arrived = whole(scene);
    assert_eq!(arrived.len(), 1);
    assert_reduced(&body, &arrived[0].body);
    assert_sound(scene).await;
}

fn whole(scene: &Scene) -> Vec<ProviderRequest> {
    scene.provider.take().into_iter().filter(|request| request.end == BodyEnd::Complete).collect()
}

/// What was counted, apart from sizes.
async fn counted(scene: &Scene, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut grown = grown(before, &scene.counts().await);
    grown.retain(|name, _| !name.contains("bytes") && !name.contains("tokens"));
    grown
}

/// The end of a stream is counted a moment after its response.
async fn assert_counted(scene: &Scene, before: &BTreeMap<String, u64>, expected: &BTreeMap<String, u64>, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    while counted(scene, before).await != *expected && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(counted(scene, before).await, *expected, "{name}");
}

fn counts<const N: usize>(of: [(&str, u64); N]) -> BTreeMap<String, u64> {
    of.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[tokio::test]
async fn a_client_may_leave_at_any_time() {
    for (hold, mode) in MODES {
        let scene = Scene::start(hold, patient, |e| e).await;
        assert_works(&scene).await; // the first body also ends the watch over held headers
        let (head, body) = request(&body());
        let gone = counts([("requests", 1), ("request_skipped.client_gone", 1)]);

        // In the headers, and within the body.
        for (entries, sent) in [(2, 0), (3, body.len() / 2)] {
            let before = scene.counts().await;
            let mut client = connect(&scene).await;
            client.write_all(&[&head, &body[..sent]].concat()).await.unwrap();
            drop(client);
            scene.envoy.wait_for_access_log(entries).await.unwrap();
            assert_counted(&scene, &before, &gone, &format!("after {sent} bytes, {mode}")).await;
        }

        // While the engine thinks. It answers when the stream is long gone.
        let (gate, before) = (Gate::shut(), scene.counts().await);
        scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
        scene.engine.take();
        let replies = scene.engine_replies().await;
        let mut client = connect(&scene).await;
        client.write_all(&[head.clone(), body.clone()].concat()).await.unwrap();
        scene.engine.wait_for(1).await.unwrap();
        drop(client);
        let log = scene.envoy.wait_for_access_log(4).await.unwrap();
        assert_eq!((log[3]["flags"].as_str(), &log[3]["status"]), (Some("DC"), &json!(0)), "{}", log[3]);
        let mut asked = gone.clone();
        asked.extend(counts([("engine_calls", 1), ("pairs_asked", 4)]));
        assert_counted(&scene, &before, &asked, mode).await;
        gate.open();
        scene.until_engine_replied(replies + 1).await;
        assert_works(&scene).await;
        assert_eq!(
            counted(&scene, &before).await["request_skipped.client_gone"],
            1,
            "the late reply counts for nothing"
        );

        // While the response streams: the request was decided before.
        let before = scene.counts().await;
        let pieces = vec![(Duration::ZERO, Bytes::from("first")), (Duration::from_secs(60), Bytes::from("last"))];
        scene.provider.answer_with(move |_| Answer::pieces(pieces.clone()));
        let mut client = connect(&scene).await;
        client.write_all(&[head.clone(), body.clone()].concat()).await.unwrap();
        let mut seen = Vec::new();
        while !seen.windows(5).any(|window| window == b"first") {
            assert_ne!(client.read_buf(&mut seen).await.unwrap(), 0, "the response ended");
        }
        drop(client);
        scene.envoy.wait_for_access_log(6).await.unwrap();
        let reduced =
            [("requests", 1), ("requests_reduced", 1), ("engine_calls", 1), ("pairs_asked", 4), ("pairs_dropped", 4)];
        assert_counted(&scene, &before, &counts(reduced), mode).await;
        assert_works(&scene).await;
    }
}

#[tokio::test]
async fn the_connection_stays_usable_after_every_failure() {
    for (hold, mode) in MODES {
        let scene = Scene::start(hold, patient, |e| e).await;
        let mut client = BufReader::new(connect(&scene).await);
        let failures = [
            (Behaviour::Status(500), None, 200),
            (Behaviour::ResetMidBody, None, 200),
            (Behaviour::Garbage200, Some(Answer::json(529, &json!({"error": "overloaded"}))), 529),
            (Behaviour::DropAll, Some(Answer::reset()), 503),
            (Behaviour::RefuseConnection, Some(Answer::reset()), 503),
        ];
        let good = || (Behaviour::DropAll, None, 200);
        for (engine, answer, status) in failures.into_iter().flat_map(|failure| [failure, good()]) {
            let name = format!("{engine:?} {status}, {mode}");
            let original = body();
            let (head, body) = request(&original);
            let reduces = matches!(engine, Behaviour::DropAll);
            scene.engine.behave(engine).unwrap();
            scene.provider.answer_with(move |_| answer.clone().unwrap_or_else(short_completion));
            client.get_mut().write_all(&[head.clone(), body.clone()].concat()).await.unwrap();
            let response = wire::read_response(&mut client).await.unwrap().expect("the connection is still open");
            assert_eq!((response.status(), response.complete), (status, true), "{name}");
            let arrived = scene.provider.take_one().await.unwrap().body;
            if reduces {
                assert_reduced(&original, &arrived);
            } else {
                assert!(arrived == original, "{name}: the body changed");
            }
        }
        assert_eq!(scene.envoy.counter("http.ingress.downstream_cx_total").await.unwrap(), 1);
        assert_eq!((scene.count("requests").await, scene.count("requests_reduced").await), (10, 6));
        // A response that breaks off takes its connection with it, and nothing else.
        scene.provider.answer_with(|_| Answer::broken_after(vec![(Duration::ZERO, Bytes::from("half"))]));
        let response = Client::http1(&scene.envoy.url()).unwrap().post(CHAT, body()).await.unwrap();
        assert_eq!((response.status, response.complete), (200, false));
        assert_works(&scene).await;
    }
}

#[tokio::test]
async fn retries_send_the_same_bytes_again_and_ask_nobody_again() {
    for (hold, mode) in MODES {
        let policy = json!({"retry_on": "5xx", "num_retries": 2, "retry_back_off": {"base_interval": "0.005s"}});
        let scene = Scene::start(hold, patient, |e| e.retry_policy(policy)).await;
        let rounds = [
            (Behaviour::DropAll, false),
            (Behaviour::DropAll, true),
            (Behaviour::KeepCallShortenResult, false),
            (Behaviour::Status(500), true),
        ];
        for (round, (engine, reset)) in rounds.into_iter().enumerate() {
            let (name, original) = (format!("{engine:?}, reset {reset}, {mode}"), body());
            let reduces = !matches!(engine, Behaviour::Status(_));
            scene.engine.behave(engine).unwrap();
            scene.provider.answer_with(move |request| match request.number % 3 {
                2 => short_completion(),
                _ if reset => Answer::reset(),
                _ => Answer::json(503, &json!({"error": "try again"})),
            });
            let before = scene.counts().await;
            let response = Client::http1(&scene.envoy.url()).unwrap().post(CHAT, original.clone()).await.unwrap();
            assert_eq!(response.status, 200, "{name}");
            let arrived = scene.provider.take();
            assert_eq!(arrived.len(), 3, "{name}");
            for attempt in &arrived {
                assert_eq!((&attempt.end, attempt.body == arrived[0].body), (&BodyEnd::Complete, true), "{name}");
                let length = u64::try_from(attempt.body.len()).unwrap();
                let framing = if hold { Framing::ContentLength(length) } else { Framing::Chunked };
                assert_eq!(attempt.framing, framing, "{name}");
            }
            if reduces {
                assert_reduced(&original, &arrived[0].body);
            } else {
                assert!(arrived[0].body == original, "{name}: the body changed");
            }
            let counted = counted(&scene, &before).await;
            assert_eq!((counted["requests"], counted["engine_calls"]), (1, 1), "{name}");
            let log = scene.envoy.wait_for_access_log(round + 1).await.unwrap();
            assert_eq!(log[round]["upstream_attempts"], 3, "{name}");
        }
        assert_sound(&scene).await;
    }
}

#[tokio::test]
async fn hundreds_of_requests_wait_at_once_and_every_one_gets_its_own_decision() {
    const MANY: usize = 300;
    for (hold, mode) in MODES {
        let scene = Scene::start(hold, patient, |e| e).await;
        // The first body under held headers ends the watch over them, which a busy machine could try.
        assert_works(&scene).await;
        scene.engine.take();
        let before = scene.counts().await;
        let gate = Gate::shut();
        scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
        let client = Client::http1(&scene.envoy.url()).unwrap();
        let bodies: Vec<String> = (0..MANY).map(|_| String::from_utf8(body()).unwrap()).collect();
        let mut waiting = tokio::task::JoinSet::new();
        for body in bodies.clone() {
            let client = client.clone();
            waiting.spawn(async move { client.post(CHAT, body).await.map(|response| response.status) });
        }
        let all_asked = || (scene.engine.requests().len() == MANY).then_some(());
        let waited =
            crate::support::eventually(Duration::from_secs(60), "every request at the engine", all_asked).await;
        if let Err(failure) = waited {
            let log = scene.envoy.access_log().pop().unwrap_or_default();
            panic!("{mode}: {failure}: {:?} {log}", counted(&scene, &before).await);
        }
        let active = scene.envoy.counter("http.ingress.downstream_rq_active").await.unwrap();
        let reduced = scene.count("requests_reduced").await - before["requests_reduced"];
        assert_eq!((active, reduced), (300, 0), "all wait");
        gate.open();
        while let Some(status) = waiting.join_next().await {
            assert_eq!(status.unwrap().unwrap(), 200);
        }
        let mut seen = BTreeSet::new();
        for arrived in scene.provider.take() {
            let goal = arrived.json().unwrap()["messages"][0]["content"].to_string();
            let original = bodies.iter().find(|body| body.contains(&goal)).expect("one of ours");
            assert_reduced(original.as_bytes(), &arrived.body);
            seen.insert(goal);
        }
        assert_eq!(seen.len(), MANY, "{mode}");
        let expected = [
            ("requests", 300),
            ("requests_reduced", 300),
            ("engine_calls", 300),
            ("pairs_asked", 1200),
            ("pairs_dropped", 1200),
        ];
        assert_eq!(counted(&scene, &before).await, counts(expected));
        assert_works(&scene).await;
    }
}

#[tokio::test]
async fn a_request_that_waits_longer_than_envoy_allows_is_ended_by_envoy() {
    for (hold, mode) in MODES {
        let scene = Scene::start(hold, patient, |e| e.stream_idle_timeout(Duration::from_secs(1))).await;
        let client = Client::http1(&scene.envoy.url()).unwrap();
        let (gate, body) = (Gate::shut(), body());
        scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
        let response = client.post(CHAT, body.clone()).await.unwrap();
        assert_eq!(response.status, 504, "{}", response.text());
        let ended = [("requests", 1), ("request_skipped.body_unavailable", 1), ("engine_calls", 1), ("pairs_asked", 4)];
        assert_counted(&scene, &BTreeMap::new(), &counts(ended), mode).await;

        // The same for a client that never sends its body.
        let before = scene.counts().await;
        let response = client::raw(scene.envoy.address(), vec![Step::Send(request(&body).0)]).await.unwrap();
        assert_eq!(response.status, 408, "{response:?}");
        let ended = [("requests", 1), ("request_skipped.body_unavailable", 1)];
        assert_counted(&scene, &before, &counts(ended), mode).await;

        // The reply to the ended request comes late, and the next request is on time.
        gate.open();
        scene.until_engine_replied(1).await;
        let mut tries = 0;
        while client.post(CHAT, body.clone()).await.unwrap().status != 200 {
            tries += 1;
            assert!(tries < 20, "every request is ended");
        }
        let arrived = whole(&scene);
        assert_eq!(arrived.len(), 1);
        assert_reduced(&body, &arrived[0].body);
        assert_sound(&scene).await;
    }
}
