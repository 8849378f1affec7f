//! Measuring, the books, and what workers and replicas share, in the real Envoy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::{
    bodies,
    client::Client,
    engine::StubEngine,
    engine_behaviour::Behaviour,
    envoy::Envoy,
    envoy_config::EnvoyConfig,
    gate::Gate,
    provider::{Answer, Provider, short_completion},
    scene::{CHAT, Scene, assert_reduced, conversation},
    wasm_filter::WasmFilter,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

/// The filter's defaults, but for a prompt of a few kilobytes and without a gate.
fn small(settings: &mut Value) {
    for (name, value) in [
        ("threshold_tokens", json!(2000)),
        ("preserve_recent", json!(4)),
        ("epoch_pairs", json!(2)),
        ("floor_bytes", json!(1000)),
        ("max_removed_share", json!(0.9)),
        ("timeout_ms", json!(60_000)),
        ("engine_price_per_mtok", json!(0.05)),
    ] {
        settings[name] = value;
    }
}

fn measuring(settings: &mut Value) {
    small(settings);
    settings["enabled"] = json!(false);
    settings["measure"] = json!(true);
}

/// Waits until every request has an outcome.
async fn settled(scene: &Scene, requests: u64) -> BTreeMap<String, u64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counts = scene.all_counts().await;
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let skipped: u64 = counts.iter().filter(|(n, _)| n.starts_with("request_skipped.")).map(|(_, v)| v).sum();
        if count("requests_reduced") + count("requests_measured") + skipped == requests {
            return counts;
        }
        assert!(Instant::now() < deadline, "{requests} requests, but {counts:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn measured_and_enforced_runs_count_the_same() {
    let conversations: Vec<Vec<Vec<u8>>> = (0..5).map(|_| bodies::growing("gpt-4o", 14, 3000)).collect();
    let mut books = Vec::new();
    for measure in [true, false] {
        let scene = Scene::start(true, if measure { measuring } else { small }, |e| e).await;
        scene.engine.behave(Behaviour::by_hash()).unwrap();
        let mut sent = 0;
        for body in conversations.iter().flatten() {
            let arrived = scene.send(body).await;
            assert!(!measure || arrived.body == *body, "measuring changes nothing");
            sent += 1;
            // Measured requests are read a moment after they have passed.
            settled(&scene, sent).await;
        }
        let mut counts = settled(&scene, sent).await;
        let left = counts.remove(if measure { "requests_measured" } else { "requests_reduced" });
        // Windows and estimates are about what leaves, and a measured request leaves whole.
        let differs =
            |name: &str| ["requests_measured", "requests_reduced"].contains(&name) || name.starts_with("usage_");
        counts.retain(|name, _| !differs(name));
        assert_eq!((counts.remove("measuring"), counts.remove("enforcing")).0, Some(u64::from(measure)));
        books.push((left, counts));
    }
    assert_eq!(books[0], books[1]);
    let counts = &books[0].1;
    // What answers by hash cannot miss. Recitations come by chance here: src/engine/recitation.rs holds those.
    for name in [
        "conversations",
        "epochs_judged",
        "batches",
        "cache_bytes_not_read",
        "cache_bytes_rewritten",
        "saved_microdollars",
        "rewrite_microdollars",
        "engine_cost_microdollars",
        "bill_prose_microdollars",
        "bill_output_microdollars",
        "bill_cache_write_microdollars",
    ] {
        assert!(counts.get(name).is_some_and(|count| *count > 0), "{name}: {counts:?}");
    }
    assert_eq!(counts["conversations"], 5);
    assert_eq!(counts["engine_never_answered"], 0, "it has answered");
}

#[tokio::test]
async fn measuring_never_waits_and_loses_no_answer() {
    let all_are_old = |settings: &mut Value| {
        measuring(settings);
        settings["preserve_recent"] = json!(0);
        settings["max_removed_share"] = json!(1);
    };
    let scene = Scene::start(true, all_are_old, |e| e).await;
    let gate = Gate::shut();
    scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
    let body = conversation(6, 3000);
    assert_eq!(scene.send(&body).await.body, body, "it leaves while the engine thinks");
    scene.engine.wait_for(1).await.unwrap();
    scene.envoy.wait_for_access_log(1).await.unwrap();
    assert_eq!(scene.count("requests_measured").await, 0);
    assert_eq!(scene.count("engine_never_answered").await, 1);
    gate.open();
    settled(&scene, 1).await;
    assert_eq!((scene.count("requests_measured").await, scene.count("pairs_dropped").await), (1, 6));
    assert_eq!(scene.count("engine_never_answered").await, 0);
    // Too large, not JSON, a path of nobody's, no body: they pass as ever, and are counted.
    let client = Client::http1(&scene.envoy.url()).unwrap();
    let large = vec![b'x'; 1_500_000];
    for (path, sent) in [(CHAT, large), (CHAT, b"{".repeat(9000)), ("/v1/embeddings", body.clone())] {
        assert_eq!(client.post(path, sent.clone()).await.unwrap().status, 200);
        assert!(scene.provider.take_one().await.unwrap().body == sent);
    }
    let counts = settled(&scene, 4).await;
    for skip in ["too_large", "not_json", "other_path"] {
        assert_eq!(counts[&format!("request_skipped.{skip}")], 1, "{skip}");
    }
    assert!(scene.envoy.is_alive() && !scene.envoy.log().contains("[critical]"), "{}", scene.envoy.log());
}

#[tokio::test]
async fn the_environment_turns_measuring_on_and_the_log_says_so() {
    let provider = Provider::start().unwrap();
    let engine = StubEngine::start(Behaviour::DropAll).unwrap();
    for switch in ["CONTEXT_COMPACTION_MEASURE", "ATLASBERG_COMPACTACAO_MEDIR"] {
        let settings = json!({"engine": "local", "endpoint": engine.endpoint(), "model": "m", "threshold_tokens": 0});
        let filter = WasmFilter::new().configuration(&settings).host_env_keys(&[switch]);
        let config = EnvoyConfig::new(provider.address()).engine(engine.address()).filter(filter);
        let envoy = Envoy::start(&config.environment(switch, "1")).await.unwrap();
        assert!(envoy.log().contains("is measuring"), "{}", envoy.log());
        assert_eq!(envoy.metric("context_compaction.measuring").await.unwrap(), 1);
        let (client, body) = (Client::http1(&envoy.url()).unwrap(), conversation(6, 3000));
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        assert_eq!(provider.take_one().await.unwrap().body, body);
    }
}

#[tokio::test]
async fn replicas_that_take_turns_send_what_one_alone_sends() {
    let mut scenes = Vec::new();
    for _ in 0..3 {
        let scene = Scene::start(true, small, |e| e).await;
        scene.engine.behave(Behaviour::by_hash()).unwrap();
        scenes.push(scene);
    }
    let mut reduced = 0;
    for (turn, body) in bodies::growing("gpt-4o", 20, 3000).into_iter().enumerate() {
        let one_of_two = scenes[turn % 2].send(&body).await.body;
        let alone = scenes[2].send(&body).await.body;
        assert!(one_of_two == alone, "turn {turn}");
        reduced += usize::from(alone != body);
    }
    assert!(reduced > 0, "{reduced} reduced");
}

#[tokio::test]
async fn a_provider_that_refuses_a_reduced_body_gets_the_original_from_then_on() {
    let scene = Scene::start(true, |_| {}, |e| e).await;
    let body = conversation(6, 3000);
    let message = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after";
    scene.provider.answer_with(move |_| Answer::json(400, &json!({"error": {"message": message}})));
    let client = Client::http1(&scene.envoy.url()).unwrap();
    let response = client.post(CHAT, body.clone()).await.unwrap();
    assert_eq!((response.status, response.text().contains("tool_use")), (400, true), "the client sees the error");
    assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
    scene.provider.answer_with(|_| short_completion());
    assert_eq!(scene.send(&body).await.body, body);
    assert_eq!((scene.count("provider_refused").await, scene.count("request_skipped.refused_before").await), (1, 1));
    let log = scene.envoy.log();
    assert!(log.contains("the provider refused a reduced body") && !log.contains("immediately after"), "{log}");
    // Other conversations go on.
    let other = conversation(6, 3000);
    assert_reduced(&other, &scene.send(&other).await.body);
}

#[tokio::test]
async fn a_conversation_that_waits_says_for_what() {
    let waits = [
        (json!({"cost_gate": true, "gate_horizon": 0, "preserve_recent": 6, "min_reduction": 0}), "waits_for_gate"),
        (json!({"min_reduction": 1}), "waits_for_min_reduction"),
        (json!({"preserve_recent": 100}), "nothing_aged_out"),
        (json!({"floor_bytes": 100_000}), "nothing_eligible"),
        (json!({"threshold_tokens": 1_000_000, "max_body_bytes": 10_000_000}), "below_threshold"),
    ];
    for (changes, reason) in waits {
        let change = |settings: &mut Value| {
            settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        };
        let scene = Scene::start(true, change, |e| e).await;
        let behaviour = Behaviour::custom(|request| {
            let mut reply = crate::support::engine_behaviour::nothing_needed(request);
            // One early result goes, so that much behind it has to be written again.
            for question in request.questions().iter().filter(|question| !question.ends_with('3')) {
                reply["answers"][question]["noul"] = json!(1);
            }
            crate::support::engine_behaviour::EngineReply::json(200, &reply)
        });
        scene.engine.behave(behaviour).unwrap();
        let body = bodies::growing("gpt-4o", 12, 3000).pop().expect("turns");
        assert_eq!(scene.send(&body).await.body, body, "{reason}");
        assert_eq!(scene.count(&format!("request_skipped.{reason}")).await, 1, "{reason}");
        let note = scene.note(1).await;
        assert!(note.contains(&format!("untouched {reason}")), "{note}");
        assert_eq!(reason.starts_with("waits"), note.contains("waiting_bytes="), "{note}");
    }
}

#[tokio::test]
async fn both_arms_of_a_holdout_are_counted() {
    let half = |settings: &mut Value| settings["holdout"] = json!(0.5);
    let scene = Scene::start(true, half, |e| e).await;
    for _ in 0..30 {
        scene.send(&conversation(5, 3000)).await;
    }
    let counts = scene.all_counts().await;
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let (treated, held) = (count("conversations"), count("holdout_conversations"));
    assert!(treated > 3 && held > 3 && treated + held == 30, "{counts:?}");
    assert_eq!((count("treated_requests"), count("holdout_requests")), (treated, held));
    assert_eq!((count("requests_reduced"), count("request_skipped.holdout")), (treated, held));
    let per_request =
        |arm: &str, what: &str| count(&format!("{arm}_{what}")) / count(&format!("{arm}_requests")).max(1);
    assert!(per_request("holdout", "prompt_bytes") > 10 * per_request("treated", "prompt_bytes"), "{counts:?}");
    assert!(per_request("holdout", "cost_microdollars") > per_request("treated", "cost_microdollars"), "{counts:?}");
}

fn resident_kib(envoy: &Envoy) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", envoy.pid())).expect("Envoy runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[tokio::test]
async fn memory_stays_flat_over_a_thousand_conversations() {
    let scene = Scene::start(true, |_| {}, |e| e.concurrency(2)).await;
    let client = Client::http1(&scene.envoy.url()).unwrap();
    let mut sizes = Vec::new();
    for _ in 0..5 {
        for _ in 0..200 {
            let body = conversation(5, 3000);
            assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
            assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
            scene.engine.take();
        }
        sizes.push(resident_kib(&scene.envoy));
    }
    assert_eq!(scene.count("conversations").await, 1000);
    // 800 conversations of 16 KiB bodies after the warm-up: what is kept of each is about 200 bytes.
    let grown = sizes[4].saturating_sub(sizes[0]);
    assert!(grown < 4096, "resident KiB after each 200 conversations: {sizes:?}");
}

#[tokio::test]
async fn no_text_of_a_conversation_stands_anywhere_outside_it() {
    const MARKER: &str = "xq7marker4711";
    for change in [small as fn(&mut Value), measuring] {
        let scene = Scene::start(true, change, |e| e.log_level("info", "wasm:trace")).await;
        let marked = |body: &[u8]| {
            let text = String::from_utf8(body.to_vec()).expect("text");
            // Into every text: prose, arguments and results.
            text.replace("src/c-", &format!("src/{MARKER}/c-"))
                .replace("r-", &format!("{MARKER} r-"))
                .replace("Look at every", &format!("{MARKER} Look at every"))
        };
        let engines = [
            Behaviour::by_hash(),
            Behaviour::custom(|_| {
                crate::support::engine_behaviour::EngineReply::json(200, &json!({"answers": {MARKER: MARKER}}))
            }),
            Behaviour::Reply(500, json!({"error": MARKER})),
        ];
        let mut sent = 0;
        for engine in engines {
            scene.engine.behave(engine).unwrap();
            scene.provider.answer_with(|_| Answer::json(400, &json!({"error": format!("tool {MARKER}")})));
            for body in bodies::growing("gpt-4o", 10, 3000) {
                let client = Client::http1(&scene.envoy.url()).unwrap();
                let response = client.post(CHAT, marked(&body).into_bytes()).await.unwrap();
                assert!(
                    response.headers.iter().all(|(_, value)| memchr::memmem::find(value, MARKER.as_bytes()).is_none())
                );
                let arrived = scene.provider.take_one().await.unwrap();
                assert!(!format!("{:?}", arrived.headers).contains(MARKER));
                sent += 1;
            }
        }
        settled(&scene, sent).await;
        scene.envoy.wait_for_access_log(sent as usize).await.unwrap();
        let mut texts = vec![scene.envoy.log(), format!("{:?}", scene.envoy.access_log())];
        for page in ["/stats", "/stats/prometheus", "/config_dump", "/clusters"] {
            texts.push(scene.envoy.admin_get(page).await.unwrap());
        }
        for text in &texts {
            assert!(text.len() > 100 && !text.contains(MARKER), "{text}");
        }
    }
}

#[tokio::test]
async fn envoy_shows_every_metric_of_the_published_list() {
    let scene = Scene::start(true, |_| {}, |e| e).await;
    let body = conversation(5, 3000);
    scene.send(&body).await;
    let page = scene.envoy.admin_get("/stats").await.unwrap();
    for line in include_str!("../fixtures/metrics.txt").lines() {
        let name = line.split_once(' ').expect("kind and name").1;
        assert!(page.contains(&format!("wasmcustom.{name}:")), "{name}");
    }
}
