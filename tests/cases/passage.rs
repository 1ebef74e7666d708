//! A valid call of every operation reaches the right upstream, rebuilt, and its answer comes back unchanged.

use serde_json::Value;
use sluice::catalog::Operation;

use crate::support::shape::{ID, answering, odd_answer, operations, path, query, valid};
use crate::support::token::token;
use crate::support::upstream::{Seen, answer};
use crate::support::{Act, Call, Setup, Upstream, get};

/// Headers that a caller may send and upstream must not see.
const NOISE: [(&str, &str); 14] = [
    ("Cookie", "session=1"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Http-Method-Override", "DELETE"),
    ("X-Forwarded-Host", "evil.example"),
    ("Forwarded", "for=10.0.0.1"),
    ("Sluice-Outcome", "executed"),
    ("Sluice-Origin", "upstream"),
    ("TE", "trailers"),
    ("Accept-Encoding", "gzip, br"),
    ("Accept", "text/html"),
    ("User-Agent", "caller/1"),
    ("Connection", "authorization, x-api-key"),
    ("X-Api-Key", "k"),
    ("Proxy-Authorization", "Basic YTpi"),
];

fn noisy(call: Call) -> Call {
    NOISE.into_iter().fold(call, |call, (name, value)| call.header(name, value))
}

/// What upstream may see, besides the framing of a body.
fn assert_only_documented_headers(operation: &Operation, seen: &Seen, upstream: &Upstream) {
    let framing: &[&str] = match (&operation.body, operation.is_write()) {
        (Some(_), _) => &["content-length", "content-type"],
        (None, true) => &["content-length"],
        (None, false) => &[],
    };
    let mut expected: Vec<&str> =
        ["accept", "accept-encoding", "authorization", "host", "traceparent", "user-agent", "x-request-id"]
            .into_iter()
            .chain(framing.iter().copied())
            .collect();
    expected.sort_unstable();
    assert_eq!(seen.head.names(), expected, "{}", operation.id);
    let of = |name: &str| seen.head.header(name).unwrap_or_default();
    assert_eq!(of("host"), upstream.address().to_string());
    assert_eq!(of("authorization"), format!("Bearer {}", token()));
    assert_eq!((of("accept"), of("accept-encoding")), ("application/json".to_owned(), "identity".to_owned()));
    assert!(of("user-agent").starts_with("sluice/"));
}

fn assert_passes(operation: &Operation, to: &Upstream, not_to: &Upstream, address: std::net::SocketAddr) {
    let status = if operation.is_write() { 201 } else { 200 };
    let headers = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("ETag", "\"7\""),
        ("Server", "nginx/1.2"),
        ("X-Powered-By", "Secret"),
        ("Set-Cookie", "a=b"),
        ("X-Request-Id", "of-upstream"),
        ("Sluice-Outcome", "forged"),
        ("Connection", "x-hop"),
        ("X-Hop", "1"),
        ("Location", "https://elsewhere.example"),
        ("Clear-Site-Data", "\"*\""),
        ("X-Unknown", "1"),
        ("Vary", &"x".repeat(513)),
        ("Cache-Control", "no-store"),
        ("Cache-Control", "private"),
        ("Content-Encoding", "identity"),
        ("Expires", "0"),
        ("Expires", "1"),
    ];
    let call = valid(operation);
    let body = answering(operation, &call.line(), odd_answer(operation));
    to.next(Act::bytes(answer(status, &headers, &body)));
    let (before, others) = (to.seen().len(), not_to.seen().len());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = noisy(call).header("X-Request-Id", "of-caller-1").header("traceparent", trace);

    let answer = call.send(address);

    assert_eq!((answer.status, answer.body.as_slice()), (status, body.as_slice()), "{}: {answer}", operation.id);
    let outcome = if operation.is_write() { "executed" } else { "-" };
    assert_eq!((answer.origin().as_str(), answer.outcome().as_str()), ("upstream", outcome), "{}", operation.id);
    assert_eq!(answer.header("x-request-id").as_deref(), Some("of-caller-1"));
    assert_eq!(answer.header("content-type").as_deref(), Some("application/json; charset=utf-8"));
    assert_eq!(answer.header("etag").as_deref(), Some("\"7\""));
    assert_eq!(answer.header("content-encoding").as_deref(), Some("identity"));
    assert!(answer.header("cache-control").is_some(), "{}", operation.id);
    let no_others = ["location", "clear-site-data", "x-unknown", "vary", "expires"];
    for gone in ["server", "x-powered-by", "set-cookie", "x-hop"].into_iter().chain(no_others) {
        assert_eq!(answer.header(gone), None, "{}: {gone}", operation.id);
    }

    assert_eq!((to.seen().len(), not_to.seen().len()), (before + 1, others), "{}", operation.id);
    let seen = to.wait_for(before);
    assert_eq!(seen.line(), call.line());
    let sent: Option<Value> = operation.body.as_ref().map(|_| serde_json::from_slice(&call.body_bytes()).unwrap());
    assert_eq!(seen.text(), sent.map(|v| v.to_string()).unwrap_or_default(), "{}", operation.id);
    assert_eq!(seen.head.header("x-request-id").as_deref(), Some("of-caller-1"));
    assert_eq!(seen.head.header("traceparent").as_deref(), Some(trace));
    assert_only_documented_headers(operation, &seen, to);
}

#[test]
fn every_operation_reaches_its_environment_and_comes_back_unchanged() {
    let (production, sandbox) = (Upstream::start(), Upstream::start());
    for setup in [Setup::of(&production), Setup::of(&production).enforce()] {
        let gate = setup.sandbox(&sandbox).start();
        for operation in operations() {
            assert_passes(operation, &production, &sandbox, gate.production());
            assert_passes(operation, &sandbox, &production, gate.sandbox());
        }
    }
    assert_eq!(operations().count(), 16);
}

#[test]
fn a_query_is_rebuilt_in_one_form() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for operation in operations().filter(|o| !o.query_parameters.is_empty()) {
        let pairs: Vec<String> =
            query(operation).iter().map(|(n, v)| format!("{n}={}", v.replace(':', "%3a"))).collect();
        let sent = format!("{}?{}&unknown=a+b%2fc", path(operation), pairs.join("&"));
        let at = upstream.seen().len();
        assert_eq!(get(&sent).send(gate.production()).status, 200, "{sent}");
        let rebuilt = format!("GET {}&unknown=a%20b%2Fc", sent.split_once("&unknown").unwrap().0.replace("%3a", "%3A"));
        assert_eq!(upstream.wait_for(at).line(), rebuilt);
    }
}

#[test]
fn a_base_path_of_upstream_stands_before_every_path() {
    let upstream = Upstream::start();
    let gate = Setup::new().environment("production", &format!("{}/pay/v1", upstream.url())).start();
    assert_eq!(get(format!("/v2/wallets/transfers/{ID}")).send(gate.production()).status, 200);
    assert_eq!(upstream.wait_for(0).line(), format!("GET /pay/v1/v2/wallets/transfers/{ID}"));
}

#[test]
fn an_exchange_without_a_name_that_can_be_repeated_gets_a_new_one() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let long = "x".repeat(200);
    for given in [None, Some("white space"), Some("<script>"), Some(long.as_str()), Some("")] {
        let call = given.into_iter().fold(get("/v2/offramps"), |call, id| call.header("X-Request-Id", id));
        let at = upstream.seen().len();
        let named = call.send(gate.production()).header("x-request-id").unwrap();
        assert_eq!(named.len(), 36, "{given:?}: {named}");
        assert_eq!(upstream.wait_for(at).head.header("x-request-id"), Some(named.clone()));
        gate.request_line(&named);
    }
}

#[test]
fn numbers_go_on_as_they_were_written() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let body = r#" {"type":"individual", "b":1.50,"a":[0.10 , 100000000000000], "é":"\u00e9\ud83d\ude00\/" } "#;
    let answer = crate::support::post(format!("/v2/users/{ID}")).json(body).send(gate.production());
    assert_eq!(answer.status, 200, "{answer}");
    let sent = r#"{"a":[0.10,100000000000000],"b":1.50,"type":"individual","é":"é😀/"}"#;
    assert_eq!(upstream.wait_for(0).text(), sent);
}
