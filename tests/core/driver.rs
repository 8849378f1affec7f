//! The driver on a fake host that calls back in random order, refuses at random and loses clients: each request leaves
//! exactly once, whole or reduced.

use std::{cell::RefCell, collections::HashMap, rc::Rc, time::Duration};

use crate::support::{exchange, invariants};
use context_compaction::{
    cut::Reduced,
    driver::{self, Driver, Field, Flow, Host, Plugin},
    exchange::{Outcome, SWITCH},
    fault::Fault,
    metrics::Metric,
    policy::{Decider, Policy, RequestHeader},
    skip::{Scope, Skip},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

const RUNS: u64 = 20_000;

/// Headers and body of an engine's reply.
type Reply = (Vec<(&'static str, Vec<u8>)>, Vec<u8>);

/// What Envoy keeps of one stream, as far as the filter can see and change it.
struct World {
    rng: StdRng,
    refuses: f64,
    hold: bool,
    headers: HashMap<String, Vec<u8>>,
    /// Headers can be read and changed while they have not left.
    headers_left: bool,
    buffered: Vec<u8>,
    /// Whether the last callback paused the request with its body complete.
    paused: bool,
    left: Vec<Vec<u8>>,
    calls: Vec<(u32, Vec<u8>)>,
    next_token: u32,
    reply: Option<Reply>,
    clock: Duration,
    shared: HashMap<String, Vec<u8>>,
    /// Status, content-encoding and the passing part of the body.
    response: (&'static str, Option<&'static str>, Vec<u8>),
    counts: HashMap<Metric, u64>,
    notes: Vec<String>,
    told: Vec<(String, String)>,
}

impl World {
    fn refuses(&mut self) -> bool {
        let share = self.refuses;
        self.rng.random_bool(share)
    }

    fn release(&mut self) {
        let body = std::mem::take(&mut self.buffered);
        self.headers_left = true;
        self.paused = false;
        self.left.push(body);
    }
}

#[derive(Clone)]
struct FakeHost(Rc<RefCell<World>>);

impl Host for FakeHost {
    type Plugin = Self;

    fn plugin(&self) -> &Self {
        self
    }

    fn request_header(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.0.borrow();
        if world.headers_left { None } else { world.headers.get(name).cloned() }
    }

    fn set_request_header(&self, name: &str, value: &str) -> bool {
        let mut world = self.0.borrow_mut();
        if world.headers_left || world.refuses() {
            return false;
        }
        world.headers.insert(name.to_owned(), value.as_bytes().to_vec());
        true
    }

    fn remove_request_header(&self, name: &str) -> bool {
        let mut world = self.0.borrow_mut();
        if world.headers_left || world.refuses() {
            return false;
        }
        world.headers.remove(name);
        true
    }

    fn request_body(&self, len: usize) -> Option<Vec<u8>> {
        let mut world = self.0.borrow_mut();
        if world.refuses() || world.buffered.len() != len { None } else { Some(world.buffered.clone()) }
    }

    fn replace_request_body(&self, body: &Reduced) -> bool {
        let mut world = self.0.borrow_mut();
        assert!(world.left.is_empty(), "a body is replaced that has already left");
        if world.refuses() {
            return false;
        }
        world.buffered = body.to_vec(&world.buffered);
        true
    }

    fn may_hold(&self) -> bool {
        !self.0.borrow_mut().refuses()
    }

    fn resume_request(&self) -> bool {
        let mut world = self.0.borrow_mut();
        assert!(world.paused, "resumed without being paused");
        world.release();
        true
    }

    fn response_header(&self, name: &str) -> Option<Vec<u8>> {
        let (status, encoding, _) = self.0.borrow().response;
        match name {
            ":status" => Some(status.into()),
            "content-encoding" => encoding.map(Into::into),
            "content-type" => Some("application/json".into()),
            _ => None,
        }
    }

    fn response_body(&self, len: usize) -> Option<Vec<u8>> {
        Some(self.0.borrow().response.2.iter().copied().take(len).collect())
    }

    fn take_request_header(&self, name: &str) {
        self.0.borrow_mut().headers.remove(name);
    }

    fn set_response_header(&self, name: &str, value: &str) {
        self.0.borrow_mut().told.push((name.to_owned(), value.to_owned()));
    }

    fn note(&self, field: Field, line: &str) {
        if field == Field::Outcome {
            self.0.borrow_mut().notes.push(line.to_owned());
        }
    }
}

impl Plugin for FakeHost {
    fn dispatch(&self, _: &Decider, body: &[u8], timeout: Duration) -> Option<u32> {
        assert!(timeout >= Duration::from_millis(1), "Envoy takes zero as no timeout");
        let mut world = self.0.borrow_mut();
        if world.refuses() {
            return None;
        }
        world.next_token += 1;
        let token = world.next_token;
        world.calls.push((token, body.to_vec()));
        Some(token)
    }

    fn reply_header(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.0.borrow();
        let (headers, _) = world.reply.as_ref().expect("reply headers are read only inside a reply");
        headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    }

    fn reply_body(&self, len: usize) -> Option<Vec<u8>> {
        let world = self.0.borrow();
        let (_, body) = world.reply.as_ref().expect("a reply body is read only inside a reply");
        Some(body.iter().copied().take(len).collect())
    }

    fn shared(&self, key: &str) -> Option<(Vec<u8>, Option<u32>)> {
        self.0.borrow().shared.get(key).map(|value| (value.clone(), Some(1)))
    }

    fn set_shared(&self, key: &str, value: &[u8], _: Option<u32>) -> bool {
        let mut world = self.0.borrow_mut();
        if world.refuses() {
            return false;
        }
        world.shared.insert(key.to_owned(), value.to_vec());
        true
    }

    fn now(&self) -> Duration {
        self.0.borrow().clock
    }

    fn add(&self, metric: Metric, by: u64) {
        *self.0.borrow_mut().counts.entry(metric).or_default() += by;
    }

    fn shift(&self, _: Metric, _: i64) {}

    fn record(&self, _: Metric, _: u64) {}

    fn engine_called(&self) {}

    fn engine_answered(&self) {}
}

/// A conversation of `pairs` reads, each followed by the next.
fn conversation(pairs: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "user", "content": "Go."})];
    for n in 0..pairs {
        let call = json!({"id": format!("c{n}"), "type": "function", "function": {"name": "read", "arguments": "{}"}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": format!("r{n} {}", "x".repeat(50))}),
        );
    }
    messages.push(json!({"role": "assistant", "content": "Done."}));
    messages.push(json!({"role": "user", "content": "Thanks."}));
    json!({"model": "gpt-4o", "messages": messages}).to_string().into_bytes()
}

/// The policies of both header modes, made once.
fn policies() -> [Rc<Policy>; 2] {
    [policy(false), policy(true)]
}

fn policy(hold: bool) -> Rc<Policy> {
    exchange::policy(&exchange::configuration(json!({
        "threshold_tokens": 0, "floor_bytes": 0, "preserve_recent": 0, "min_reduction": 0, "timeout_ms": 100,
        "hold_headers": hold, "buffer_unknown_length": true, "max_body_bytes": 20_000,
    })))
}

fn world(seed: u64, hold: bool, body: &[u8]) -> World {
    let mut rng = StdRng::seed_from_u64(seed);
    let refuses = if rng.random_bool(0.5) { 0.0 } else { 0.1 };
    let mut headers = HashMap::from([
        (":method".to_owned(), b"POST".to_vec()),
        (":path".to_owned(), b"/v1/chat/completions".to_vec()),
        ("content-type".to_owned(), b"application/json".to_vec()),
    ]);
    if rng.random_bool(0.8) {
        headers.insert("content-length".to_owned(), body.len().to_string().into_bytes());
    }
    World {
        rng,
        refuses,
        hold,
        headers,
        headers_left: false,
        buffered: Vec::new(),
        paused: false,
        left: Vec::new(),
        calls: Vec::new(),
        next_token: 0,
        reply: None,
        clock: Duration::from_secs(1),
        shared: HashMap::new(),
        response: ("200", None, Vec::new()),
        counts: HashMap::new(),
        notes: Vec::new(),
        told: Vec::new(),
    }
}

/// Delivers the request as Envoy would. Says whether the filter let it go in the middle of the body.
fn deliver(driver: &mut Driver<FakeHost>, shared: &Rc<RefCell<World>>, body: &[u8]) -> bool {
    let flow = driver.on_request_headers(false);
    let hold = shared.borrow().hold;
    assert!(flow == Flow::Continue || hold, "portable mode never holds headers");
    shared.borrow_mut().headers_left = flow == Flow::Continue;
    let mut given_up = flow == Flow::Continue && driver.outcome().is_some();
    let trailers = shared.borrow_mut().rng.random_bool(0.2);
    let mut at = 0;
    while at < body.len() {
        let chunk = shared.borrow_mut().rng.random_range(1..=body.len()).min(body.len() - at);
        shared.borrow_mut().buffered.extend(&body[at..at + chunk]);
        at += chunk;
        let end = at == body.len() && !trailers;
        let flow = driver.on_request_body(if given_up { chunk } else { at }, end);
        if given_up {
            assert_eq!(flow, Flow::Continue, "a request that was let go is held again");
        } else if flow == Flow::Continue {
            given_up = true;
        }
        shared.borrow_mut().paused = end && flow == Flow::Pause;
    }
    if trailers {
        let flow = driver.on_request_trailers();
        assert!(!given_up || flow == Flow::Continue);
        given_up |= flow == Flow::Continue;
        shared.borrow_mut().paused = flow == Flow::Pause;
    }
    if given_up {
        shared.borrow_mut().release();
    }
    given_up
}

/// Answers every call, in random order, in random ways; stops early when the client leaves.
fn reply_to_all(driver: &mut Driver<FakeHost>, shared: &Rc<RefCell<World>>, client_leaves: bool) -> bool {
    loop {
        let (token, body) = {
            let mut world = shared.borrow_mut();
            if world.calls.is_empty() {
                return false;
            }
            if client_leaves && world.rng.random_bool(0.3) {
                return true;
            }
            let waiting = world.calls.len();
            let at = world.rng.random_range(0..waiting);
            let passed = world.rng.random_range(0..60);
            world.clock += Duration::from_millis(passed);
            world.calls.swap_remove(at)
        };
        let (headers, body) = reply_to(&mut shared.borrow_mut().rng, &body);
        let (count, len) = (headers.len(), body.len());
        shared.borrow_mut().reply = Some((headers, body));
        driver.on_engine_reply(token, count, len);
        if shared.borrow_mut().rng.random_bool(0.1) {
            driver.on_engine_reply(token, count, len); // the same token again
            driver.on_engine_reply(token + 1_000, count, len); // one that nobody sent
        }
        shared.borrow_mut().reply = None;
    }
}

fn reply_to(rng: &mut StdRng, body: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(body).expect("an engine request is JSON");
    let questions = request["questions"].as_object().expect("questions");
    let answers: serde_json::Map<String, Value> = questions
        .keys()
        .map(|name| (name.clone(), json!({"type": "noul", "noul": f64::from(rng.random_range(0..3u8)) / 2.0})))
        .collect();
    let good = json!({"answers": answers}).to_string().into_bytes();
    let with = |status: &str, kind: &str| {
        vec![(":status", status.as_bytes().to_vec()), ("content-type", kind.as_bytes().to_vec())]
    };
    match rng.random_range(0..40) {
        0 => (Vec::new(), Vec::new()),
        1 => (with("500", "application/json"), good),
        2 => (with("200", "text/html"), good),
        3 => (with("200", "application/json"), b"{}".to_vec()),
        4 => (vec![(":status", vec![0xff, 0xfe])], good),
        _ => (with("200", "application/json; charset=utf-8"), good),
    }
}

#[test]
fn each_request_leaves_exactly_once_whole_or_reduced() {
    let (mut reduced, mut engine_failed) = (0, 0);
    let policies = policies();
    for seed in 0..RUNS {
        let mut rng = StdRng::seed_from_u64(seed);
        let hold = rng.random_bool(0.5);
        // Mostly short; sometimes more than four calls of fourteen pairs.
        let pairs = if rng.random_bool(0.01) { rng.random_range(56..80) } else { rng.random_range(0..4) };
        let body = conversation(pairs);
        let shared = Rc::new(RefCell::new(world(seed, hold, &body)));
        let mut driver = Driver::new(FakeHost(Rc::clone(&shared)), Rc::clone(&policies[usize::from(hold)]), 7);
        deliver(&mut driver, &shared, &body);
        let client_left = reply_to_all(&mut driver, &shared, rng.random_bool(0.1));
        driver.on_stream_end();
        let world = shared.borrow();
        let outcome = *driver.outcome().expect("every request has an outcome");
        let context = || format!("seed {seed}: {outcome} {:?}", world.notes);
        if client_left && world.left.is_empty() {
            assert_eq!(outcome, Outcome::Untouched(Skip::ClientGone), "{}", context());
        } else {
            assert_eq!(world.left.len(), 1, "{}", context());
            check_body(&world, &body, outcome, &context());
        }
        assert_eq!(world.notes.len(), 1, "{}", context());
        assert_eq!(ended(&world), 1, "{}", context());
        reduced += u32::from(outcome == Outcome::Reduced);
        engine_failed += u32::from(outcome == Outcome::Untouched(Skip::EngineFailed));
    }
    assert!(reduced > 1_000 && engine_failed > 500, "{reduced} reduced, {engine_failed} without an engine");
}

fn check_body(world: &World, body: &[u8], outcome: Outcome, context: &str) {
    let left = &world.left[0];
    assert_eq!(outcome == Outcome::Reduced, left != body, "{context}");
    let complaints = invariants::complaints(body, left);
    assert!(complaints.is_empty(), "{context}: {complaints:?}");
    if let Some(length) = world.headers.get("content-length") {
        assert_eq!(String::from_utf8_lossy(length), left.len().to_string(), "{context}");
    }
}

/// How many outcomes were counted.
fn ended(world: &World) -> u64 {
    let is_outcome = |m: &Metric| match m {
        Metric::Reduced => true,
        Metric::Skipped(skip) => skip.scope() == Scope::Request,
        _ => false,
    };
    world.counts.iter().filter(|(metric, _)| is_outcome(metric)).map(|(_, count)| count).sum()
}

#[test]
fn at_most_four_calls_are_out_at_once() {
    let body = conversation(14 * 6);
    let shared = Rc::new(RefCell::new(world(1, true, &body)));
    shared.borrow_mut().refuses = 0.0;
    let mut driver = Driver::new(FakeHost(Rc::clone(&shared)), policy(true), 7);
    assert_eq!(driver.on_request_headers(false), Flow::Pause);
    shared.borrow_mut().buffered.extend(&body);
    assert_eq!(driver.on_request_body(body.len(), true), Flow::Pause);
    assert_eq!(shared.borrow().calls.len(), 4);
}

#[test]
fn without_a_configuration_nothing_is_even_read() {
    let shared = Rc::new(RefCell::new(world(1, true, b"{}")));
    let off = Policy::parse(b"", &exchange::NoEnvironment).expect("no configuration is fine");
    let mut driver = Driver::new(FakeHost(Rc::clone(&shared)), Rc::new(off), 7);
    assert_eq!(driver.on_request_headers(false), Flow::Continue);
    assert_eq!(driver.on_request_body(10_000_000, true), Flow::Continue);
    assert_eq!(driver.on_request_trailers(), Flow::Continue);
    driver.on_stream_end();
    assert!(shared.borrow().counts.is_empty() && shared.borrow().notes.is_empty());
}

/// A new stream on the same host: what workers share stays.
fn next_stream(world: &World, body: &[u8]) -> Rc<RefCell<World>> {
    let mut next = self::world(1, true, body);
    next.refuses = 0.0;
    next.clock = world.clock;
    next.next_token = world.next_token;
    next.shared = world.shared.clone();
    Rc::new(RefCell::new(next))
}

/// Sends `body` and answers its calls with this status; `None` answers well.
fn send(
    shared: &Rc<RefCell<World>>,
    body: &[u8],
    failure: Option<(&str, &[(&'static str, &str)])>,
) -> Driver<FakeHost> {
    let mut driver = Driver::new(FakeHost(Rc::clone(shared)), policy(true), 7);
    shared.borrow_mut().headers.insert("content-length".to_owned(), body.len().to_string().into_bytes());
    driver.on_request_headers(false);
    shared.borrow_mut().buffered.extend(body);
    let flow = driver.on_request_body(body.len(), true);
    shared.borrow_mut().paused = flow == Flow::Pause;
    while let Some((token, question)) = { shared.borrow_mut().calls.pop() } {
        let (status, more) = failure.unwrap_or(("200", &[]));
        let reply =
            if more.contains(&GARBAGE) { b"{}".to_vec() } else { exchange::drop_all(&question).expect("an answer") };
        let mut headers = vec![
            (":status", status.as_bytes().to_vec()),
            ("content-type", b"application/json".to_vec()),
            ("x-envoy-upstream-service-time", b"1".to_vec()),
        ];
        headers.extend(more.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())));
        let (count, len) = (headers.len(), reply.len());
        shared.borrow_mut().reply = Some((headers, reply));
        driver.on_engine_reply(token, count, len);
    }
    driver
}

/// Stands for a reply without answers.
const GARBAGE: (&str, &str) = ("x-garbage", "1");

fn counted(shared: &Rc<RefCell<World>>, metric: Metric) -> u64 {
    shared.borrow().counts.get(&metric).copied().unwrap_or(0)
}

/// Two conversations that share no boundary.
fn two_conversations() -> [Vec<u8>; 2] {
    let one = conversation(2);
    let other = String::from_utf8(one.clone()).expect("text").replace("Go.", "Begin.").into_bytes();
    [one, other]
}

#[test]
fn after_a_failure_its_conversation_pauses_and_others_are_asked() {
    let [one, other] = two_conversations();
    let shared = next_stream(&world(1, true, &one), &one);
    let driver = send(&shared, &one, Some(("500", &[])));
    assert_eq!(driver.outcome(), Some(&Outcome::Untouched(Skip::EngineFailed)));
    let again = next_stream(&shared.borrow(), &one);
    assert_eq!(send(&again, &one, None).outcome(), Some(&Outcome::Untouched(Skip::EngineFailed)));
    assert_eq!((counted(&again, Metric::EngineCalls), counted(&again, Metric::Failed(Fault::Paused))), (0, 1));
    assert_eq!(counted(&again, Metric::PairsAsked), 0, "no question is even written");
    let others = next_stream(&again.borrow(), &other);
    assert_eq!(send(&others, &other, None).outcome(), Some(&Outcome::Reduced));
    let later = next_stream(&others.borrow(), &one);
    later.borrow_mut().clock += Duration::from_secs(1);
    assert_eq!(send(&later, &one, None).outcome(), Some(&Outcome::Reduced), "a second later it is asked again");
}

#[test]
fn a_reply_that_does_not_answer_pauses_like_any_failure() {
    let [one, _] = two_conversations();
    let shared = next_stream(&world(1, true, &one), &one);
    send(&shared, &one, Some(("200", &[("content-type", "application/json"), GARBAGE])));
    let again = next_stream(&shared.borrow(), &one);
    assert_eq!(send(&again, &one, None).outcome(), Some(&Outcome::Untouched(Skip::EngineFailed)));
    assert_eq!((counted(&again, Metric::EngineCalls), counted(&again, Metric::Failed(Fault::Paused))), (0, 1));
}

#[test]
fn a_wrong_key_pauses_all_calls_for_minutes_and_retry_after_for_as_long_as_it_says_up_to_a_minute() {
    let [one, other] = two_conversations();
    for (status, headers, seconds) in [
        ("401", &[][..], 300),
        ("403", &[], 300),
        ("404", &[], 300),
        ("501", &[], 300),
        ("429", &[("retry-after", "7")], 7),
        ("503", &[("retry-after", "3600")], 60),
    ] {
        let shared = next_stream(&world(1, true, &one), &one);
        send(&shared, &one, Some((status, headers)));
        for (passed, outcome) in [(seconds - 1, Outcome::Untouched(Skip::EngineFailed)), (seconds, Outcome::Reduced)] {
            let next = next_stream(&shared.borrow(), &other);
            next.borrow_mut().clock += Duration::from_secs(passed);
            assert_eq!(send(&next, &other, None).outcome(), Some(&outcome), "{status} after {passed} s");
        }
    }
}

#[test]
fn what_the_provider_reports_is_read_from_the_passing_response_and_told_the_client_on_the_next_turn() {
    let body = |pairs| conversation(pairs);
    let mut policy = (*policy(true)).clone();
    policy.response_headers = true;
    let policy = Rc::new(policy);
    let shared = next_stream(&world(1, true, &body(10)), &body(10));
    let mut driver = Driver::new(FakeHost(Rc::clone(&shared)), Rc::clone(&policy), 7);
    deliver(&mut driver, &shared, &body(10));
    while !driver.is_settled() {
        let (token, _) = shared.borrow_mut().calls.remove(0);
        driver.on_engine_reply(token, 0, 0);
    }
    driver.on_response_headers(false);
    let told = shared.borrow().told.clone();
    let [(receipt, outcome), (window, first)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((receipt.as_str(), outcome.as_str()), (driver::RECEIPT, "outcome=untouched;reason=engine_failed"));
    assert!(window == driver::WINDOW && !first.contains("provider_reported_tokens"), "{first}");
    for part in [&br#"{"usage":{"prompt_tok"#[..], br#"ens":4711}}"#] {
        shared.borrow_mut().response.2 = part.to_vec();
        driver.on_response_body(part.len(), false);
    }
    assert_eq!(counted(&shared, Metric::UsageInput), 0, "it may still change");
    driver.on_stream_end();
    assert_eq!((counted(&shared, Metric::UsageResponses), counted(&shared, Metric::UsageInput)), (1, 4711));

    let next = next_stream(&shared.borrow(), &body(11));
    let mut driver = Driver::new(FakeHost(Rc::clone(&next)), policy, 7);
    deliver(&mut driver, &next, &body(11));
    assert!(
        driver.window().is_some_and(|window| window.reported.is_none()),
        "not the same conversation: its end differs"
    );
}

#[test]
fn a_trusted_client_switches_the_filter_off_for_one_request_and_the_provider_does_not_see_how() {
    let body = conversation(10);
    for (trusted, value, skip) in [
        (true, "off", Some(Skip::SwitchedOff)),
        (true, "on", None),
        (false, "off", None),
        (true, " OFF", Some(Skip::SwitchedOff)),
    ] {
        let mut policy = (*policy(true)).clone();
        policy.request_header = if trusted { RequestHeader::Trusted } else { RequestHeader::Ignore };
        let shared = next_stream(&world(1, true, &body), &body);
        shared.borrow_mut().headers.insert(SWITCH.to_owned(), value.into());
        let mut driver = Driver::new(FakeHost(Rc::clone(&shared)), Rc::new(policy), 7);
        let flow = driver.on_request_headers(false);
        assert_eq!(flow == Flow::Continue, skip.is_some(), "{trusted} {value}");
        assert_eq!(driver.outcome().copied(), skip.map(Outcome::Untouched));
        assert_eq!(shared.borrow().headers.contains_key(SWITCH), !trusted);
    }
}

#[test]
fn a_conversation_whose_reduced_body_the_provider_refuses_is_left_alone() {
    let [one, _] = two_conversations();
    let error = br#"{"error":{"message":"messages.2: `TOOL_use` ids were found without `tool_result` blocks"}}"#;
    let (first, rest) = error.split_at(40);
    for (status, encoding, parts, refused) in [
        ("400", None, vec![first, rest], true),
        ("422", Some("gzip"), vec![&b"\x1f\x8b"[..]], true),
        ("400", None, vec![&b"prompt is too long"[..]], false),
        ("401", None, vec![first, rest], false),
        ("200", None, vec![first, rest], false),
    ] {
        let shared = next_stream(&world(1, true, &one), &one);
        let mut driver = send(&shared, &one, None);
        assert_eq!(driver.outcome(), Some(&Outcome::Reduced));
        shared.borrow_mut().response = (status, encoding, Vec::new());
        driver.on_response_headers(false);
        for part in parts {
            shared.borrow_mut().response.2 = part.to_vec();
            driver.on_response_body(part.len(), false);
        }
        driver.on_response_body(0, true);
        driver.on_stream_end();
        assert_eq!(counted(&shared, Metric::ProviderRefused), u64::from(refused), "{status} {encoding:?}");
        let next = next_stream(&shared.borrow(), &one);
        let outcome = if refused { Outcome::Untouched(Skip::RefusedBefore) } else { Outcome::Reduced };
        assert_eq!(send(&next, &one, None).outcome(), Some(&outcome), "{status} {encoding:?}");
    }
}
