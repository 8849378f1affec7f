//! The head of a request in the real Envoy: when the upstream opens, which length and which route a request leaves with,
//! and that no bytes in a header harm the filter.
//!
//! | `envoy.md` | test |
//! |---|---|
//! | 1, hold: upstream opens at the decision, right length, same for every protocol | `held_headers_leave_…` |
//! | 1 and 12.8, early: headers leave at once and without a length | `portable_headers_leave_…` |
//! | 1, route cache: only a rewrite picks the route again | `only_a_reduced_request_…` |
//! | 0.4, 1, 12.7: no flag, the watchdog | `without_the_flag_…` |
//! | 0.8, 10: resumed before its body, with the fix of issue 46841 off | `a_client_that_is_slow_…` |
//! | 1, another asynchronous filter releases the request; 8, dynamic forward proxy | `beside_a_dynamic_forward_proxy_…` |
//! | 0.3, 10: header bytes outside UTF-8 | `no_header_harms_the_filter_…` |

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::support::{
    client::{self, Client, Protocol, Step},
    engine_behaviour::Behaviour,
    envoy::Envoy,
    envoy_config::{EnvoyConfig, connection_manager, route},
    eventually,
    gate::Gate,
    provider::{BodyEnd, Framing, Provider},
    scene::{CHAT, Scene, assert_reduced, conversation},
    wire,
};
use serde_json::{Value, json};

const FLAG: &str = "allow_on_headers_stop_iteration";

/// A busy machine is no reason to give the engine up.
fn patient(settings: &mut Value) {
    settings["timeout_ms"] = json!(60_000);
}

async fn scene(hold: bool, upstream_http2: bool) -> Scene {
    Scene::start(hold, patient, |e| if upstream_http2 { e.upstream_http2() } else { e }).await
}

/// Every version of HTTP with every decision.
fn cases() -> [(Protocol, Behaviour); 4] {
    let [one, two] = [Protocol::Http1, Protocol::Http2];
    [(one, Behaviour::DropAll), (one, Behaviour::KeepAll), (two, Behaviour::DropAll), (two, Behaviour::KeepAll)]
}

/// What leaves after `decision`: the body itself when everything is kept.
fn assert_decided(decision: &Behaviour, body: &[u8], left: &[u8]) {
    match decision {
        Behaviour::KeepAll => assert_eq!(left, body, "untouched, byte for byte"),
        _ => assert_reduced(body, left),
    }
}

fn length(body: &[u8]) -> String {
    body.len().to_string()
}

/// An ordinary request by hand, with more headers.
fn head(body: &[u8]) -> Vec<u8> {
    let length = length(body);
    wire::request_head("POST", CHAT, &[("content-type", b"application/json"), ("content-length", length.as_bytes())])
}

#[tokio::test]
async fn held_headers_leave_after_the_decision_with_the_length_that_is_right_then() {
    for upstream_http2 in [false, true] {
        let scene = scene(true, upstream_http2).await;
        for (sent, (protocol, decision)) in (0..).zip(cases()) {
            let body = conversation(5, 3000);
            let gate = Gate::shut();
            scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(decision.clone()))).unwrap();
            let client = Client::new(&scene.envoy.url(), protocol).unwrap();
            let nothing_yet = async {
                scene.engine.wait_for(1).await.unwrap();
                assert_eq!(scene.envoy.counter("cluster.provider.upstream_rq_total").await.unwrap(), sent);
                assert!(scene.provider.requests().is_empty());
                if sent == 0 {
                    assert_eq!(scene.envoy.counter("cluster.provider.upstream_cx_total").await.unwrap(), 0);
                    assert!(scene.provider.connections().is_empty());
                }
                gate.open();
            };
            let ((), response) = tokio::join!(nothing_yet, client.post(CHAT, body.clone()));
            assert_eq!(response.unwrap().status, 200);
            let arrived = scene.provider.take_one().await.unwrap();
            assert_decided(&decision, &body, &arrived.body);
            assert_eq!(arrived.header("content-length"), Some(length(&arrived.body).as_bytes()));
            assert_eq!(arrived.version == hyper::Version::HTTP_2, upstream_http2);
            scene.engine.take();
        }
        assert!(!scene.provider.connections().is_empty());
    }
}

#[tokio::test]
async fn portable_headers_leave_at_once_and_without_a_length() {
    for upstream_http2 in [false, true] {
        let scene = scene(false, upstream_http2).await;
        let framing = if upstream_http2 { Framing::Unstated } else { Framing::Chunked };
        for (protocol, decision) in cases() {
            let body = conversation(5, 3000);
            let gate = Gate::shut();
            scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(decision.clone()))).unwrap();
            let client = Client::new(&scene.envoy.url(), protocol).unwrap();
            let headers_only = async {
                let limit = Duration::from_secs(10);
                let first = || scene.provider.requests().pop();
                let early = eventually(limit, "the headers at the provider", first).await.unwrap();
                assert_eq!((early.header("content-length"), early.framing), (None, framing));
                scene.engine.wait_for(1).await.unwrap();
                assert_eq!(scene.provider.requests()[0].end, BodyEnd::Arriving);
                gate.open();
            };
            let ((), response) = tokio::join!(headers_only, client.post(CHAT, body.clone()));
            assert_eq!(response.unwrap().status, 200);
            assert_decided(&decision, &body, &scene.provider.take_one().await.unwrap().body);
            scene.engine.take();
        }
        assert_eq!(scene.count("requests_reduced").await, 2);
        assert_eq!(scene.count("request_skipped.kept_by_engine").await, 2);
    }
}

/// Portable mode cannot do this: it takes the length out of every candidate before any decision, and that alone makes
/// Envoy pick the route again.
#[tokio::test]
async fn only_a_reduced_request_is_routed_again() {
    // Every conversation of this shape is as long.
    let original = length(&conversation(5, 3000));
    let by_length = move |bootstrap: &mut Value| {
        let other = route(bootstrap).clone();
        let mut exact = other.clone();
        exact["name"] = json!("by_length");
        exact["match"]["headers"] = json!([{"name": "content-length", "string_match": {"exact": original}}]);
        exact["request_headers_to_add"] = json!([{"header": {"key": "x-route", "value": "by_length"}}]);
        connection_manager(bootstrap)["route_config"]["virtual_hosts"][0]["routes"] = json!([exact, other]);
    };
    let scene = Scene::start(true, patient, |e| e.patch(by_length)).await;
    for (protocol, decision) in cases() {
        let body = conversation(5, 3000);
        scene.engine.behave(decision.clone()).unwrap();
        let client = Client::new(&scene.envoy.url(), protocol).unwrap();
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        let arrived = scene.provider.take_one().await.unwrap();
        assert_decided(&decision, &body, &arrived.body);
        let kept = matches!(decision, Behaviour::KeepAll);
        assert_eq!(arrived.header("x-route"), kept.then_some(&b"by_length"[..]));
    }
}

#[tokio::test]
async fn without_the_flag_three_requests_wait_a_moment_and_the_next_is_not_held_at_all() {
    let held = |settings: &mut Value| settings["hold_headers"] = json!(true);
    let scene = Scene::start(false, held, |e| e).await;
    let complaints = || scene.envoy.log().matches(FLAG).count();
    let bodies = [(Protocol::Http1, 3_000), (Protocol::Http2, 100_000), (Protocol::Http1, 300_000)];
    for (done, (protocol, bytes)) in bodies.into_iter().enumerate() {
        let body = conversation(3, bytes / 3);
        let client = Client::new(&scene.envoy.url(), protocol).unwrap();
        assert_eq!(client.post(CHAT, body.clone()).await.unwrap().status, 200);
        let arrived = scene.provider.take_one().await.unwrap();
        assert_eq!(arrived.body, body);
        assert_eq!(arrived.header("content-length"), Some(length(&body).as_bytes()));
        assert_eq!(complaints(), done + 1, "{}", scene.envoy.log());
        assert_eq!(scene.note(done + 1).await, "\"untouched hold_unsupported\"");
    }
    let body = conversation(3, 3000);
    assert_eq!(scene.send(&body).await.body, body);
    assert_eq!(complaints(), 3, "the fourth request was held and let go");
    assert_eq!(scene.count("request_skipped.hold_unsupported").await, 4);
    assert_eq!(scene.count("requests").await, 4);
    assert_eq!(scene.engine.take().len(), 0);
}

#[tokio::test]
async fn a_client_that_is_slow_with_its_first_body_is_served_whole_and_later_ones_are_reduced() {
    // Envoy before the fix of issue 46841 loses a chunk where a request is resumed at the wrong moment.
    let unfixed = json!({"envoy.reloadable_features.filter_manager_forward_added_data_on_continue": false});
    let scene = Scene::start(true, patient, |e| e.runtime(unfixed)).await;
    let body = conversation(20, 3000);
    let (first, second) = body.split_at(body.len() / 2);
    let gate = Gate::shut();
    let steps = vec![
        Step::Send(head(&body)),
        Step::Await(gate.clone()),
        Step::Send(first.to_vec()),
        Step::Wait(Duration::from_millis(20)),
        Step::Send(second.to_vec()),
    ];
    let let_go = async {
        scene.envoy.wait_for_log(FLAG).await.unwrap();
        gate.open();
    };
    let ((), response) = tokio::join!(let_go, client::raw(scene.envoy.address(), steps));
    assert_eq!(response.unwrap().status, 200);
    let arrived = scene.provider.take_one().await.unwrap();
    assert_eq!(arrived.body, body);
    assert_eq!(arrived.header("content-length"), Some(length(&body).as_bytes()));
    assert_eq!(scene.count("request_skipped.hold_unsupported").await, 1);
    assert_reduced(&body, &scene.send(&body).await.body);
    // The flag is proven now: a client may take longer than the watchdog's patience.
    let steps = vec![Step::Send(head(&body)), Step::Wait(Duration::from_millis(500)), Step::Send(body.clone())];
    assert_eq!(client::raw(scene.envoy.address(), steps).await.unwrap().status, 200);
    assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
    assert_eq!(scene.count("requests_reduced").await, 2);
}

/// Resolves `localhost` and the port in `x-to`. Each new name is a miss of the DNS cache: the request waits for the
/// resolver, and the filter that waited then sends it on, whatever ours had in mind.
fn dynamic_forward_proxy(config: EnvoyConfig) -> EnvoyConfig {
    let kind = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    let filter = "envoy.filters.http.dynamic_forward_proxy";
    let cache = json!({"name": "names", "dns_lookup_family": "V4_ONLY"});
    let http = kind("filters.http.dynamic_forward_proxy.v3.FilterConfig");
    let target = kind("filters.http.dynamic_forward_proxy.v3.PerRouteConfig");
    let cluster = kind("clusters.dynamic_forward_proxy.v3.ClusterConfig");
    let to = json!({filter: {"@type": target, "host_rewrite_header": "x-to"}});
    config
        .filter_after(json!({"name": filter, "typed_config": {"@type": http, "dns_cache_config": cache}}))
        .cluster(json!({
            "name": "dynamic",
            "lb_policy": "CLUSTER_PROVIDED",
            "connect_timeout": "5s",
            "cluster_type": {
                "name": "envoy.clusters.dynamic_forward_proxy",
                "typed_config": {"@type": cluster, "dns_cache_config": cache},
            },
        }))
        .patch(move |bootstrap| {
            route(bootstrap)["route"]["cluster"] = json!("dynamic");
            route(bootstrap)["typed_per_filter_config"] = to.clone();
        })
}

/// The head of a request to `provider` by name.
fn head_to(provider: &Provider, body: &[u8]) -> Vec<u8> {
    let (length, to) = (length(body), format!("localhost:{}", provider.address().port()));
    let headers: [(&str, &[u8]); 3] =
        [("content-type", b"application/json"), ("content-length", length.as_bytes()), ("x-to", to.as_bytes())];
    wire::request_head("POST", CHAT, &headers)
}

#[tokio::test]
async fn beside_a_dynamic_forward_proxy_a_held_request_is_reduced() {
    let scene = Scene::start(true, patient, dynamic_forward_proxy).await;
    let body = conversation(5, 3000);
    let request = [head_to(&scene.provider, &body), body.clone()].concat();
    let response = client::raw(scene.envoy.address(), vec![Step::Send(request)]).await.unwrap();
    assert_eq!(response.status, 200);
    assert_reduced(&body, &scene.provider.take_one().await.unwrap().body);
    assert_eq!(scene.envoy.counter("dns_cache.names.dns_query_attempt").await.unwrap(), 1);
}

#[tokio::test]
async fn beside_a_dynamic_forward_proxy_a_portable_request_may_leave_as_it_came_and_is_counted() {
    let scene = Scene::start(false, patient, dynamic_forward_proxy).await;
    let body = conversation(5, 3000);
    let gate = Gate::shut();
    scene.engine.behave(Behaviour::Behind(gate.clone(), Box::new(Behaviour::DropAll))).unwrap();
    // Released while the engine thinks.
    let request = [head_to(&scene.provider, &body), body.clone()].concat();
    let response = client::raw(scene.envoy.address(), vec![Step::Send(request)]).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(scene.provider.take_one().await.unwrap().body, body);
    assert_eq!(scene.engine.wait_for(1).await.unwrap().len(), 1);
    assert_eq!(scene.note(1).await, "\"untouched body_unavailable asked=5 judged=5\"");
    assert_eq!(scene.count("request_skipped.body_unavailable").await, 1);
    gate.open();
    // Released in the middle of the body: another provider is another miss.
    let provider = Provider::start().unwrap();
    let (first, second) = body.split_at(body.len() / 2);
    let released = Gate::shut();
    let start = [head_to(&provider, &body), first.to_vec()].concat();
    let steps = vec![Step::Send(start), Step::Await(released.clone()), Step::Send(second.to_vec())];
    let half_of_it = async {
        let arriving = || provider.requests().pop().map(|_| ());
        eventually(Duration::from_secs(10), "the headers at the provider", arriving).await.unwrap();
        released.open();
    };
    let ((), response) = tokio::join!(half_of_it, client::raw(scene.envoy.address(), steps));
    assert_eq!(response.unwrap().status, 200);
    assert_eq!(provider.take_one().await.unwrap().body, body);
    assert_eq!(scene.count("request_skipped.body_unavailable").await, 2);
    // Both names are known now.
    let request = [head_to(&provider, &body), body.clone()].concat();
    assert_eq!(client::raw(scene.envoy.address(), vec![Step::Send(request)]).await.unwrap().status, 200);
    assert_reduced(&body, &provider.take_one().await.unwrap().body);
    assert_eq!(scene.count("requests").await, 3);
}

/// A request with odd headers, and what becomes of it: `reduced`, a reason to pass it, or `refused` by Envoy itself.
struct Odd {
    path: &'static [u8],
    headers: Vec<(&'static str, &'static [u8])>,
    left: &'static str,
}

fn odd(headers: &[(&'static str, &'static [u8])], left: &'static str) -> Odd {
    Odd { path: CHAT.as_bytes(), headers: headers.to_vec(), left }
}

/// 50 kB; Envoy's limit for all headers is 60 KiB.
static HUGE: [u8; 50_000] = [b'a'; 50_000];
static HUGE_JSON: [u8; 50_000] = {
    let (mut value, kind) = (HUGE, b"application/json;a=");
    let mut at = 0;
    while at < kind.len() {
        value[at] = kind[at];
        at += 1;
    }
    value
};

/// Odd headers that both versions of HTTP can carry.
fn odd_anywhere() -> Vec<Odd> {
    let seals = ["x-amz-content-sha256", "content-md5", "digest", "content-digest", "repr-digest", "signature-input"];
    let sealed = seals
        .into_iter()
        .flat_map(|seal| [odd(&[(seal, b"\xff\xfe")], "signed"), odd(&[(seal, b"a"), (seal, b"\xc3\x28")], "signed")]);
    let mut all: Vec<Odd> = sealed.collect();
    all.extend([
        odd(&[("content-type", b"\xff\xfe")], "not_json_type"),
        odd(&[("content-type", b"application/json\xff")], "not_json_type"),
        odd(&[("content-type", b"application/json; charset=\xff")], "reduced"),
        odd(&[("content-type", b"application/json"), ("content-type", b"text/plain")], "not_json_type"),
        odd(&[("content-type", b"text/plain"), ("content-type", b"application/json")], "not_json_type"),
        odd(&[("content-encoding", b"\xff")], "encoded"),
        odd(&[("content-encoding", b"identity\xff")], "encoded"),
        odd(&[("content-encoding", b"identity"), ("content-encoding", b"gzip")], "encoded"),
        odd(&[("content-encoding", b"gzip"), ("content-encoding", b"identity")], "encoded"),
        odd(&[("authorization", b"Bearer \xff\xfe\x80")], "reduced"),
        odd(&[("authorization", b"AWS4-HMAC-SHA256 \xff")], "signed"),
        odd(&[("authorization", b"AWS4-HMAC-SHA256 a"), ("authorization", b"Bearer a")], "signed"),
        odd(&[("authorization", b"Bearer a"), ("authorization", b"AWS4-HMAC-SHA256 a")], "signed"),
        odd(&[("x-other", b"\xff\xfe\xfd"), ("x-other", b"\x80")], "reduced"),
        odd(&[("authorization", &HUGE)], "reduced"),
        odd(&[("content-type", &HUGE_JSON)], "reduced"),
        odd(&[("content-encoding", &HUGE)], "encoded"),
        odd(&[("digest", &HUGE)], "signed"),
        odd(&[("authorization", &HUGE), ("digest", &HUGE)], "refused"),
        odd(&[("x-many", b"1".as_slice()); 150], "refused"),
    ]);
    all
}

/// Odd headers that only a hand-written HTTP/1.1 request carries.
fn odd_by_hand() -> Vec<Odd> {
    let path = |path: &'static [u8], left| Odd { path, headers: Vec::new(), left };
    vec![
        path(b"/v1/chat/completions?a=\xff\xfe", "refused"),
        path(b"/v1/\xff/chat/completions", "refused"),
        path(b"/v1/chat/completions?a=%ff%00&b", "reduced"),
        path(b"/%ff/../v1/chat/completions?", "reduced"),
        path(b"/v1/chat/completions%ff", "other_path"),
        path(b"/v1/chat/com\x01pletions", "refused"),
        path(b"http://provider.test/v1/chat/completions", "reduced"),
        odd(&[("content-length", b"\xff")], "refused"),
        odd(&[("content-length", b"12abc")], "refused"),
        odd(&[("content-length", b"-1")], "refused"),
        odd(&[("content-length", b"+5")], "refused"),
        odd(&[("content-length", b"99999999999999999999999")], "refused"),
        odd(&[("content-length", b"5"), ("content-length", b"6")], "refused"),
        odd(&[("content-length", b"5"), ("transfer-encoding", b"chunked")], "refused"),
        odd(&[("content-type", b"application/json\x00")], "refused"),
        odd(&[("content-typé", b"a")], "refused"),
        odd(&[("upgrade", b"websocket"), ("connection", b"upgrade")], "refused"),
    ]
}

impl Odd {
    /// With the usual headers where it has none of its own.
    fn headers<'a>(&'a self, length: &'a [u8]) -> Vec<(&'a str, &'a [u8])> {
        let usual: [(&str, &[u8]); 2] = [("content-type", b"application/json"), ("content-length", length)];
        let missing = usual.into_iter().filter(|(name, _)| !self.headers.iter().any(|(own, _)| own == name));
        missing.chain(self.headers.iter().copied()).collect()
    }

    /// The status of the response; 0 where the connection or the stream broke instead.
    async fn send(&self, envoy: &Envoy, protocol: Protocol, body: &[u8]) -> u16 {
        let length = length(body);
        let headers = self.headers(length.as_bytes());
        let response = match protocol {
            Protocol::Http1 => {
                let request = [wire::request_head("POST", self.path, &headers), body.to_vec()].concat();
                client::raw(envoy.address(), vec![Step::Send(request)]).await
            }
            Protocol::Http2 => {
                let client = Client::http2(&envoy.url()).expect("a client");
                client.send_bytes("POST", CHAT, &headers, body.to_vec()).await
            }
        };
        response.map_or(0, |response| response.status)
    }
}

impl fmt::Debug for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.escape_ascii())?;
        let shown = |value: &[u8]| value[..value.len().min(40)].escape_ascii().to_string();
        self.headers.iter().try_for_each(|(name, value)| write!(f, " {name:?}: {}", shown(value)))
    }
}

#[tokio::test]
async fn no_header_harms_the_filter_and_only_envoy_refuses() {
    let without = Provider::start().unwrap();
    let plain = Envoy::start(&EnvoyConfig::new(without.address())).await.unwrap();
    let body = conversation(2, 2500);
    for hold in [true, false] {
        let scene = scene(hold, false).await;
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        let by_hand = odd_anywhere().into_iter().chain(odd_by_hand()).map(|odd| (Protocol::Http1, odd));
        for (protocol, odd) in by_hand.chain(odd_anywhere().into_iter().map(|odd| (Protocol::Http2, odd))) {
            let status = odd.send(&scene.envoy, protocol, &body).await;
            assert_eq!(status, odd.send(&plain, protocol, &body).await, "{odd:?}");
            assert_eq!(status == 200, odd.left != "refused", "{status} {odd:?}");
            let arrived = scene.provider.take();
            assert_eq!(arrived.len(), without.take().len(), "{odd:?}");
            match odd.left {
                "refused" => assert!(arrived.is_empty(), "{odd:?}"),
                "reduced" => assert_reduced(&body, &arrived[0].body),
                _ => assert!(arrived[0].body == body, "{odd:?}"),
            }
            *counted.entry(odd.left).or_default() += 1;
            // The VM lives: an ordinary request is still worked on.
            assert_reduced(&body, &scene.send(&body).await.body);
            *counted.entry("reduced").or_default() += 1;
        }
        counted.remove("refused");
        for (left, requests) in counted {
            let counter = if left == "reduced" { "requests_reduced" } else { &format!("request_skipped.{left}") };
            assert_eq!(scene.count(counter).await, requests, "{left}");
        }
    }
}
