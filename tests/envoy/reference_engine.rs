//! The reference engine: its rules over HTTP, what the protocol asks of a server, and what the filter makes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::reference::server::{self, BODY_LIMIT, Counts, Running};
use crate::reference::systemone;
use crate::support::conversations::{self, Format};
use crate::support::exchange;
use context_compaction::dialect::Dialect;
use context_compaction::engine::{Bars, Evidence, systemone as filter};
use context_compaction::json::Document;
use context_compaction::policy::Policy;
use context_compaction::transcript::Verdict;
use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::Command;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// The bars of a filter with default settings.
const BARS: Bars = Bars { call: 0.7, result: 0.7 };

async fn started() -> Running {
    server::start(ANY_PORT).await.expect("the engine starts")
}

async fn post(engine: &Running, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    let request = reqwest::Client::new().post(engine.url() + server::PATH).body(body);
    let reply = request.send().await.expect("a reply");
    (reply.status(), reply.json().await.expect("a reply in JSON"))
}

/// The answers to a request that must be fine.
async fn answers(engine: &Running, request: &Value) -> Value {
    let (status, mut reply) = post(engine, request.to_string()).await;
    assert_eq!(status, 200, "{reply}");
    reply["answers"].take()
}

/// What the filter says of a pair, with changes.
fn pair(changes: Value) -> Value {
    let mut pair = json!({
        "age_pairs": 5, "bytes": 4213, "cited_after": 0, "head": "//! A module", "input": "{\"file_path\":\"src/a.rs\"}",
        "same_target_later": [], "status": "ok", "tail": "}", "tool": "Read",
    });
    pair.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
    pair
}

fn call_question(pair: &str) -> Value {
    let text =
        format!("`{pair}`: later steps still depend on knowing that this call happened and with which arguments.");
    json!({"type": "noul", "instructions": text})
}

fn result_question(pair: &str) -> Value {
    let text = format!(
        "`{pair}`: later steps will need the exact text of this output, and that text appears nowhere else in the history."
    );
    json!({"type": "noul", "instructions": text})
}

fn request(asked: Value, questions: Value) -> Value {
    json!({"model": "rules", "state": {"about": "", "asked": asked, "index": [], "v": "cc/1"}, "questions": questions})
}

#[tokio::test]
async fn crafted_pairs_are_judged_by_the_rules() {
    let engine = started().await;
    let rows = [
        ("a young read", json!({}), (0.65, 0.6)),
        ("a file edited later", json!({"same_target_later": ["p9 edit"]}), (0.15, 0.1)),
        ("a file read again later", json!({"same_target_later": ["p9 read"]}), (0.15, 0.1)),
        ("a cited file edited later", json!({"same_target_later": ["p9 edit"], "cited_after": 3}), (0.95, 0.6)),
        ("an exact repeat", json!({"same_target_later": ["p9 repeat"], "cited_after": 3}), (0.1, 0.05)),
        ("an old search", json!({"tool": "Grep", "age_pairs": 20}), (0.25, 0.2)),
        ("an old read", json!({"age_pairs": 40}), (0.25, 0.2)),
        ("an old read that is in use", json!({"age_pairs": 40, "cited_after": 2}), (0.95, 0.7)),
        ("an old command", json!({"tool": "Bash", "age_pairs": 20}), (0.95, 0.2)),
        ("an open failure", json!({"tool": "Bash", "age_pairs": 90, "tail": "test result: FAILED"}), (0.95, 0.95)),
        (
            "a failure, tried again",
            json!({"tool": "Bash", "cited_after": 2, "head": "Exit code 101", "same_target_later": ["p9 shell"]}),
            (0.95, 0.05),
        ),
        ("no result yet", json!({"status": "open"}), (0.95, 0.95)),
        ("without excerpts", json!({"tool": "search", "age_pairs": 40, "head": null, "tail": null}), (0.15, 0.1)),
    ];
    for (what, changes, (call, result)) in rows {
        let asked =
            request(json!({"p7": pair(changes)}), json!({"c7": call_question("p7"), "r7": result_question("p7")}));
        let expected = json!({"c7": {"type": "noul", "noul": call}, "r7": {"type": "noul", "noul": result}});
        assert_eq!(answers(&engine, &asked).await, expected, "{what}");
    }
}

#[tokio::test]
async fn an_answer_depends_on_the_state_and_the_text_of_its_question_only() {
    let engine = started().await;
    let asked = json!({"p1": pair(json!({"same_target_later": ["p2 edit"]})), "p2": pair(json!({"tool": "Edit"}))});
    // The ids say the opposite of the texts.
    let questions = json!({"r2": call_question("p1"), "c2": result_question("p1"), "p1": call_question("p2")});
    let alone = answers(&engine, &request(asked.clone(), questions.clone())).await;
    let nouls = ["r2", "c2", "p1"].map(|id| alone[id]["noul"].as_f64().expect("a number"));
    assert_eq!(nouls, [0.15, 0.1, 0.95]);

    let questions = questions.as_object().expect("an object");
    let renamed: Map<String, Value> = questions.iter().map(|(id, q)| (format!("🎯 {id}"), q.clone())).collect();
    let renamed = answers(&engine, &request(asked.clone(), renamed.into())).await;
    let reversed: Map<String, Value> = questions.iter().rev().map(|(id, q)| (id.clone(), q.clone())).collect();
    let reversed = answers(&engine, &request(asked.clone(), reversed.into())).await;
    let mut more = questions.clone();
    more.extend((3..40).map(|n| (format!("c{n}"), call_question(&format!("p{n}")))));
    let more = answers(&engine, &request(asked, more.into())).await;
    for id in questions.keys() {
        assert_eq!(renamed[format!("🎯 {id}")], alone[id], "{id} under another name");
        assert_eq!(reversed[id], alone[id], "{id} in another order");
        assert_eq!(more[id], alone[id], "{id} among others");
    }
}

#[tokio::test]
async fn what_the_rules_know_nothing_about_is_a_draw() {
    let engine = started().await;
    let asked = json!({"p1": pair(json!({}))});
    let other_state = json!({"model": "m", "state": "p1: text", "questions": {"q": call_question("p1")}});
    let mut other_version = request(asked.clone(), json!({"q": call_question("p1")}));
    other_version["state"]["v"] = json!("cc/2");
    let unknown = [
        other_state,
        other_version,
        request(asked.clone(), json!({"q": call_question("p2")})),
        request(asked.clone(), json!({"q": {"type": "noul"}})),
        request(
            asked.clone(),
            json!({"q": {"type": "noul", "instructions": "Is p1 fine?", "criteria": {"true": "yes"}}}),
        ),
        request(json!([pair(json!({}))]), json!({"q": call_question("p0")})),
    ];
    for request in unknown {
        assert_eq!(answers(&engine, &request).await, json!({"q": {"type": "noul", "noul": 0.5}}), "{request}");
    }
    let questions = json!({
        "team": {"type": "choice", "criteria": {"환불": null, "b": "text", "c": ["x"], "d": {}}},
        "mood": {"type": "score", "criteria": ["calm", {"label": "angry"}]},
        "only": {"type": "choice", "criteria": {"one": null}},
    });
    let expected = json!({
        "team": {"type": "choice", "choice": "환불", "confidence": 0.0,
            "probabilities": {"환불": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}},
        "mood": {"type": "score", "score": 0.5, "confidence": 0.0, "probabilities": {"0": 0.5, "1": 0.5},
            "legend": {"0": "calm", "1": {"label": "angry"}}},
        "only": {"type": "choice", "choice": "one", "confidence": 1.0, "probabilities": {"one": 1.0}},
    });
    assert_eq!(answers(&engine, &request(asked, questions)).await, expected);
}

#[tokio::test]
async fn bad_requests_get_a_4xx_that_says_where_and_repeats_no_values() {
    let engine = started().await;
    let good = request(json!({}), json!({"q": {"type": "noul"}}));
    let with = |field: &str, value: Value| {
        let mut bad = good.clone();
        bad[field] = value;
        bad.to_string().into_bytes()
    };
    let question = |question: Value| with("questions", json!({"q": question}));
    let many: Map<String, Value> = (0..256).map(|n| (n.to_string(), Value::Null)).collect();
    let rows = [
        ("[]", b"".to_vec()),
        ("[]", b"{\"model\":\"hush\",".to_vec()),
        ("[]", b"\xff\xfe".to_vec()),
        ("[]", b"[\"hush\"]".to_vec()),
        ("[]", [b"{\"state\":".to_vec(), b"[".repeat(100_000)].concat()),
        ("[]", br#"{"state":"x","model":"m","questions":{"q":{"type":"noul","x":1e999}}}"#.to_vec()),
        ("[\"state\"]", b"{}".to_vec()),
        ("[\"state\"]", with("state", json!(7))),
        ("[\"model\"]", with("model", json!(["hush"]))),
        ("[\"questions\"]", with("questions", json!([]))),
        ("[\"questions\"]", with("questions", json!({}))),
        ("[\"questions\",\"q\"]", question(json!("hush"))),
        ("[\"questions\",\"q\",\"type\"]", question(json!({}))),
        ("[\"questions\",\"q\",\"type\"]", question(json!({"type": "hush"}))),
        ("[\"questions\",\"q\",\"instructions\"]", question(json!({"type": "noul", "instructions": 7}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "noul", "criteria": {"maybe": "hush"}}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "choice", "criteria": {}}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "choice", "criteria": many}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "choice", "criteria": {"a": 7}}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "score", "criteria": {"0": "hush"}}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "score", "criteria": ["a", null]}))),
        ("[\"questions\",\"q\",\"criteria\"]", question(json!({"type": "score", "criteria": vec!["a"; 11]}))),
    ];
    let bad = rows.len() as u64;
    for (place, body) in rows {
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        let (status, reply) = post(&engine, body).await;
        assert_eq!(status, 422, "{shown}: {reply}");
        let place = format!("[\"body\"{}{}", if place == "[]" { "" } else { "," }, &place[1..]);
        assert_eq!(reply["detail"][0]["loc"].to_string(), place, "{shown}: {reply}");
        assert!(reply["detail"][0]["msg"].is_string() && reply["detail"][0]["type"].is_string(), "{reply}");
        assert!(!reply.to_string().contains("hush"), "{reply}");
    }
    let hundred: Map<String, Value> = (0..100).map(|n| (n.to_string(), Value::Null)).collect();
    let (_, reply) = post(&engine, with("questions", hundred.into())).await;
    assert_eq!(reply["detail"].as_array().map(Vec::len), Some(20), "the list of problems is bounded");
    assert_eq!(engine.counts(), Counts { refused: bad + 1, ..Counts::default() });
}

#[tokio::test]
async fn long_bodies_other_paths_and_other_methods_are_refused() {
    let engine = started().await;
    let mut longest = request(json!({}), json!({"q": {"type": "noul"}})).to_string();
    longest.push_str(&" ".repeat(BODY_LIMIT - longest.len()));
    assert_eq!(post(&engine, longest.clone()).await.0, 200);
    let client = reqwest::Client::new();
    let rows = [
        (client.post(engine.url() + server::PATH).body(longest + " "), 413, "invalid_request"),
        (client.post(engine.url() + "/v1/decisions"), 404, "not_found"),
        (client.get(engine.url() + server::PATH), 405, "method_not_allowed"),
    ];
    for (request, status, kind) in rows {
        let reply = request.send().await.expect("a reply");
        assert_eq!(reply.status(), status);
        let reply: Value = reply.json().await.expect("a reply in JSON");
        assert_eq!(reply["detail"]["error_type"], kind);
        assert!(reply["detail"]["message"].is_string());
    }
    let models = client.get(engine.url() + "/v1/models").send().await.expect("a reply");
    let models: Value = models.json().await.expect("a reply in JSON");
    assert_eq!(models["models"][0]["name"], systemone::MODEL);
}

#[tokio::test]
async fn a_key_is_asked_for_where_there_is_one() {
    let engine = server::start_with_key(ANY_PORT, Some("right".to_owned())).await.expect("the engine starts");
    let body = request(json!({}), json!({"q": {"type": "noul"}})).to_string();
    let headers = [(None, 401), (Some("Bearer wrong"), 401), (Some("right"), 401), (Some("Bearer right"), 200)];
    for (header, status) in headers {
        for path in [server::PATH, "/v1/models", "/elsewhere"] {
            let client = reqwest::Client::new();
            let sent =
                if path == server::PATH { client.post(engine.url() + path) } else { client.get(engine.url() + path) };
            let sent = header.iter().fold(sent.body(body.clone()), |sent, key| sent.header("authorization", *key));
            let reply = sent.send().await.expect("a reply");
            let expected = if status == 200 && path == "/elsewhere" { 404 } else { status };
            assert_eq!(reply.status(), expected, "{header:?} {path}");
            let reply: Value = reply.json().await.expect("a reply in JSON");
            assert_eq!(reply["detail"]["error_type"] == "authentication_error", status == 401, "{reply}");
        }
    }
}

#[tokio::test]
async fn it_counts_and_stops_even_while_a_client_stalls() {
    let engine = started().await;
    let address = SocketAddr::from(([127, 0, 0, 1], engine.port()));
    let asked = json!({"p1": pair(json!({"same_target_later": ["p2 edit"]})), "p2": pair(json!({}))});
    let questions = json!({"c1": call_question("p1"), "r1": result_question("p1"), "r2": result_question("p2")});
    answers(&engine, &request(asked, questions)).await;
    assert_eq!(engine.counts(), Counts { answered: 1, refused: 0, questions: 3, not_needed: 2 });

    let mut stalls = TcpStream::connect(address).await.expect("a connection");
    stalls
        .write_all(b"POST /v1/systemone HTTP/1.1\r\nhost: e\r\ncontent-length: 9\r\n\r\n{")
        .await
        .expect("half a request");
    let before = Instant::now();
    assert_eq!(engine.stop().await.questions, 3);
    assert!(before.elapsed() < Duration::from_secs(4), "stopping took {:?}", before.elapsed());
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

// ------------------------------------------------------------------------------------------- the filter's own requests

fn documented_policy() -> Policy {
    (*exchange::policy(&exchange::configuration(json!({})))).clone()
}

/// The requests that the filter would send for this body.
fn filter_calls(policy: &Policy, path: &str, body: &[u8]) -> Vec<filter::Call> {
    let doc = Document::parse(body).expect("JSON");
    let dialect = Dialect::of(path).expect("a dialect");
    let transcript = (dialect.read)(&doc).expect("a conversation");
    let may_go = |pair: &usize| transcript.standing(*pair, policy.floor_bytes).is_ok();
    let asked: Vec<usize> = (0..transcript.pairs.len()).filter(may_go).collect();
    let decider = policy.decider.as_ref().expect("an engine");
    let asked = (transcript.elements.len(), asked.as_slice());
    let evidence = Evidence::gather(&doc, &transcript, &[asked], policy.truncate_head_chars);
    filter::calls(&doc, &transcript, &evidence, asked, decider)
}

/// A call with its result, which is long and introduces `<name>_0` to `<name>_199`.
fn step(id: usize, says: &str, tool: &str, input: &Value, name: &str) -> [Value; 2] {
    let lines: Vec<String> = (0..200).map(|n| format!("let {name}_{n} = {n};")).collect();
    let id = format!("toolu_{id}");
    [
        json!({"role": "assistant", "content": [
            {"type": "text", "text": says}, {"type": "tool_use", "id": id, "name": tool, "input": input}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": lines.join("\n")}]}),
    ]
}

#[tokio::test]
async fn a_coding_session_loses_what_is_superseded_repeated_or_tried_again() {
    let (file_a, file_b) = (json!({"file_path": "src/a.rs"}), json!({"file_path": "src/b.rs"}));
    let (grep, test) = (json!({"pattern": "retry"}), json!({"command": "cargo test"}));
    let steps = [
        ("I look at it.", "Read", &file_a, "first"),
        ("Who retries?", "Grep", &grep, "found"),
        ("I read b too.", "Read", &file_b, "other"),
        ("Tests.", "Bash", &test, "error: FAILED failed"),
        ("It is other_150 that must change.", "Edit", &file_a, "patched"),
        ("Who retries now?", "Grep", &grep, "found"),
        ("Tests again.", "Bash", &test, "passed"),
        ("Once more.", "Bash", &json!({"command": "git status"}), "clean"),
        ("And the log.", "Bash", &json!({"command": "git log"}), "commits"),
        ("And the diff.", "Bash", &json!({"command": "git diff"}), "changes"),
    ];
    let numbered = steps.iter().enumerate();
    let history = numbered.flat_map(|(id, (says, tool, input, name))| step(id, says, tool, input, name));
    let messages: Vec<Value> = std::iter::once(json!({"role": "user", "content": "Fix it."})).chain(history).collect();
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}).to_string();

    let engine = started().await;
    let mut verdicts = BTreeMap::new();
    for call in filter_calls(&documented_policy(), "/v1/messages", body.as_bytes()) {
        let (status, reply) = post(&engine, call.body.clone()).await;
        assert_eq!(status, 200, "{reply}");
        let answers = filter::answers(&call, reply.to_string().as_bytes()).expect("a reply that the filter takes");
        verdicts.extend(call.pairs.iter().copied().zip(answers.iter().map(|answer| answer.verdict(BARS))));
    }
    let expected = [
        (0, Verdict::Drop, "a read of a file that was edited later"),
        (1, Verdict::Drop, "a search that was repeated"),
        (2, Verdict::Keep, "a read that is in use"),
        (3, Verdict::Truncate, "a test run that failed, and ran again"),
        (4, Verdict::Keep, "the newest edit"),
        (5, Verdict::Keep, "the newest search"),
    ];
    for (pair, verdict, what) in expected {
        assert_eq!(verdicts.get(&pair), Some(&verdict), "{what}");
    }
}

#[test]
fn recorded_conversations_lose_a_part_and_never_most() {
    if !conversations::available() {
        eprintln!("skipped: the conversations are not beside this repository (../shared/data/conversations)");
        return;
    }
    let policy = documented_policy();
    let (mut questions, mut gone) = (0, 0);
    for conversation in conversations::load_all().expect("the conversations load") {
        if conversation.format == Format::OpenAiResponses {
            continue;
        }
        let body = conversation.body(conversation.messages.len());
        for call in filter_calls(&policy, conversation.path(), &body) {
            let answers = systemone::Request::read(&call.body).expect("a good request").answers();
            let reply = json!({"answers": answers}).to_string();
            let answers = filter::answers(&call, reply.as_bytes()).expect("a reply that the filter takes");
            assert!(
                !answers.iter().any(|answer| answer.call == 0.5),
                "{}: a question without a rule",
                conversation.name
            );
            questions += answers.len();
            gone += answers.iter().filter(|answer| answer.verdict(BARS) != Verdict::Keep).count();
        }
    }
    println!("{gone} of {questions} results are not needed");
    assert!(gone * 5 > questions && gone * 3 < questions * 2, "{gone} of {questions}");
}

// ------------------------------------------------------------------------------------------- the conformance suite

/// The suite that `JEVCOMPAT` names, else the one that `make tools` fetches, else the one on the PATH.
fn jevcompat() -> Option<Command> {
    if let Some(named) = std::env::var_os("JEVCOMPAT").filter(|named| !named.is_empty()) {
        return Some(Command::new(named));
    }
    let tools = crate::support::paths::repository().join(".tools");
    if tools.join("jevcompat").is_dir() {
        // `pip --target` leaves a script that does not find its own libraries.
        let mut python = Command::new("python3");
        python.args(["-m", "jevcompat.cli"]).env("PYTHONPATH", tools);
        return Some(python);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join("jevcompat").is_file());
    found.then(|| Command::new("jevcompat"))
}

/// Without the suite: fails where tools are required, else says that the test is skipped.
fn suite() -> Option<Command> {
    let suite = jevcompat();
    if suite.is_none() {
        let required = ["CI", "REQUIRE_TOOLS"].iter().any(|name| std::env::var_os(name).is_some());
        assert!(!required, "jevcompat is missing: run `make tools`, or name it in JEVCOMPAT");
        eprintln!("skipped: jevcompat is missing; run `make tools`, or name it in JEVCOMPAT");
    }
    suite
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms_to_the_protocol() {
    for key in [None, Some("a-key")] {
        let Some(mut suite) = suite() else { return };
        let engine = server::start_with_key(ANY_PORT, key.map(str::to_owned)).await.expect("the engine starts");
        suite.args(["test", &engine.url()]).args(key.iter().flat_map(|key| ["--key", key])).kill_on_drop(true);
        let run = tokio::time::timeout(Duration::from_secs(120), suite.output());
        let run = run.await.expect("the suite ends in time").expect("the suite starts");
        let (said, complaints) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        let conforms = run.status.success() && said.contains("conformant to spec") && !said.contains('✗');
        assert!(conforms, "{said}\n{complaints}");
        println!("{}", said.lines().last().unwrap_or_default());
        engine.stop().await;
    }
}
