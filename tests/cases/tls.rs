//! TLS on both sides: HTTP/1.1 and HTTP/2 for callers, and an upstream that is who it is expected to be.

use reqwest::{Client, Response, Version};
use serde_json::Value;

use crate::support::shape::{ID, odd_answer, operation, valid};
use crate::support::tls::{Authority, Leaf};
use crate::support::token::token;
use crate::support::upstream::Reserved;
use crate::support::{Act, Gate, Setup, Upstream};

/// A gate whose callers speak TLS.
fn gate(upstream: &Upstream, authority: &Authority) -> Gate {
    let own = authority.certify(&["127.0.0.1", "localhost"]);
    Setup::of(upstream)
        .file("cert.pem", &own.certificate)
        .file("key.pem", &own.key)
        .set("production", "tls_certificate", "cert.pem")
        .set_raw("production", "tls_key", r#"{ file = "key.pem" }"#)
        .timeout_ms("body_ms", 500)
        .start()
}

fn client(authority: &Authority, version: Version) -> Client {
    let alpn: &[&[u8]] = if version == Version::HTTP_2 { &[b"h2"] } else { &[b"http/1.1"] };
    let builder = Client::builder().no_proxy().tls_backend_preconfigured(authority.client(alpn));
    if version == Version::HTTP_2 { builder.http2_prior_knowledge() } else { builder.http1_only() }.build().unwrap()
}

fn header(answer: &Response, name: &str) -> String {
    answer.headers().get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn callers_speak_http_1_and_2_over_tls() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&upstream, &authority);
    let url = |path: &str| format!("https://{}{path}", gate.production());
    let read = odd_answer(operation("listUsers"));
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let client = client(&authority, version);
        let (swap, at) = (valid(operation("createSwap")).body_bytes(), upstream.seen().len());

        upstream.next(Act::json(200, &read));
        let answer = client.get(url("/v2/users?limit=3")).bearer_auth(token()).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
        assert_eq!(
            (header(&answer, "sluice-origin"), header(&answer, "sluice-outcome")),
            ("upstream".into(), "".into())
        );
        assert_eq!(answer.bytes().await.unwrap(), read);

        let record = odd_answer(operation("createSwap"));
        upstream.next(Act::json(201, &record));
        let write =
            client.post(url("/v2/wallets/swaps")).bearer_auth(token()).header("content-type", "application/json");
        let answer = write.body(swap.clone()).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), header(&answer, "sluice-outcome")), (201, "executed".into()));
        assert_eq!(answer.bytes().await.unwrap(), record);
        assert_eq!(upstream.wait_for(at + 1).text(), serde_json::from_slice::<Value>(&swap).unwrap().to_string());

        upstream.next(Act::answer(500, "text/html", "<h1>"));
        let answer = client.get(url("/v2/users")).bearer_auth(token()).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 500);
        assert_eq!(answer.json::<Value>().await.unwrap()["error"], "UPSTREAM_ERROR");

        upstream.next(Act::json(404, ""));
        let answer = client.get(url("/v2/users")).bearer_auth(token()).send().await.unwrap();
        assert_eq!(answer.json::<Value>().await.unwrap()["error"]["code"], "UPSTREAM_ERROR");

        for (path, status) in [("/nowhere", 404), ("/v2//users", 400)] {
            assert_eq!(client.get(url(path)).bearer_auth(token()).send().await.unwrap().status().as_u16(), status);
        }
        assert_eq!(client.get(url("/v2/users")).send().await.unwrap().status().as_u16(), 401);
        let refused = client.post(url(&format!("/v2/users/{ID}"))).bearer_auth(token());
        let refused = refused.header("content-type", "application/json").body(vec![b' '; 2_000_000]).send().await;
        assert_eq!(refused.unwrap().status().as_u16(), 413);
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 8);
    let host = upstream.address().to_string();
    assert!(seen.iter().all(|s| s.head.header("host") == Some(host.clone()) && s.head.first.ends_with(" HTTP/1.1")));
    assert_eq!(seen[0].head.names(), seen[4].head.names());
    assert_eq!(seen[1].head.names(), seen[5].head.names());
}

#[tokio::test]
async fn the_listener_offers_both_protocols_and_no_plain_text() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&upstream, &authority);
    let both = Client::builder().no_proxy().tls_backend_preconfigured(authority.client(&[b"h2", b"http/1.1"])).build();
    let url = format!("https://localhost:{}/v2/users", gate.production().port());
    let answer = both.unwrap().get(url).bearer_auth(token()).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));

    let stranger = client(&Authority::new(), Version::HTTP_11);
    assert!(stranger.get(format!("https://{}/v2/users", gate.production())).send().await.is_err());
    let mut plain = crate::support::Caller::connect(gate.production());
    drop(plain.try_send(valid(operation("listUsers")).bytes()));
    assert!(plain.try_answer().is_err());
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_write_over_http_2_goes_on_when_its_caller_is_gone() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&upstream, &authority);
    let go = crate::support::shared::Signal::new();
    upstream.next(Act::done(201).after(&go));
    let client = client(&authority, Version::HTTP_2);
    let write = client.post(format!("https://{}/v2/wallets/swaps", gate.production())).bearer_auth(token());
    let write = write.header("content-type", "application/json").header("x-request-id", "gone");
    let calling = tokio::spawn(write.body(valid(operation("createSwap")).body_bytes()).send());
    let waited = tokio::task::spawn_blocking(move || (upstream.wait_for(0).whole, upstream)).await.unwrap();
    assert!(waited.0);
    calling.abort();
    drop(client);
    go.give();
    let line = tokio::task::spawn_blocking(move || gate.request_line("gone")).await.unwrap();
    assert_eq!((&line["http.response.status_code"], &line["outcome"]), (&201.into(), &"executed".into()), "{line}");
}

/// A gate in front of an upstream behind TLS, which it knows by this authority and under this host.
fn verifying(upstream: &Upstream, trusted: &Authority, host: &str) -> Gate {
    let url = format!("https://{host}:{}", upstream.address().port());
    Setup::new()
        .environment("production", &url)
        .file("ca.pem", &trusted.pem())
        .set("production", "upstream_ca", "ca.pem")
        .timeout_ms("tls_handshake_ms", 1000)
        .set_raw("store", "allow_plain", "true")
        .start()
}

#[test]
fn upstream_is_verified_by_the_configured_authority() {
    let authority = Authority::new();
    for host in ["127.0.0.1", "localhost"] {
        let upstream = Upstream::start_tls(authority.certify(&[host]).server());
        let gate = verifying(&upstream, &authority, host);
        for id in ["listUsers", "createSwap", "cancelSwap", "createSwap"] {
            let answer = valid(operation(id)).send(gate.production());
            assert_eq!(answer.status, 200, "{host} {id}: {answer}");
        }
        let host = format!("{host}:{}", upstream.address().port());
        assert!(upstream.seen().iter().all(|seen| seen.head.header("host") == Some(host.clone())));
    }
}

#[test]
fn an_upstream_that_is_somebody_else_is_sent_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (what, certified) in [
        ("another authority", stranger.certify(&["127.0.0.1"])),
        ("another name", authority.certify(&["api.example", "127.0.0.2"])),
    ] {
        let upstream = Upstream::start_tls(certified.server());
        let gate = verifying(&upstream, &authority, "127.0.0.1");
        for id in ["createSwap", "cancelSwap", "listUsers"] {
            let answer = valid(operation(id)).send(gate.production());
            let outcome = if id == "listUsers" { "-" } else { "not-executed" };
            let told = (answer.status, answer.code(), answer.outcome());
            assert_eq!(told, (502, "UPSTREAM_UNAVAILABLE".to_owned(), outcome.to_owned()), "{what}, {id}: {answer}");
        }
        assert!(upstream.seen().is_empty(), "{what}");
    }
}

#[test]
fn an_upstream_that_speaks_no_tls_is_sent_nothing() {
    let authority = Authority::new();
    let upstream = Upstream::start();
    upstream.next(Act::silence().blind().hang()).next(Act::bytes("HTTP/1.1 400 Bad\r\n\r\n").blind().close());
    let gate = verifying(&upstream, &authority, "127.0.0.1");
    for _ in 0..2 {
        let answer = valid(operation("createSwap")).send(gate.production());
        assert_eq!((answer.status, answer.outcome().as_str()), (502, "not-executed"), "{answer}");
    }
    assert!(upstream.seen().is_empty());
}

/// The word and the remedy that the log gives for an upstream that cannot be reached.
#[test]
fn the_log_says_why_upstream_cannot_be_reached() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let leaf = || Leaf::new("a server").named("127.0.0.1");
    for (word, certified) in [
        ("certificate-authority", stranger.issue(leaf())),
        ("certificate-authority", Authority::called("a stranger").issue(leaf())),
        ("certificate-name", authority.certify(&["api.example", "127.0.0.2"])),
        ("certificate-expired", authority.issue(leaf().expired())),
        ("certificate-not-yet-valid", authority.issue(leaf().not_yet())),
    ] {
        let upstream = Upstream::start_tls(certified.server());
        assert_eq!(why(&verifying(&upstream, &authority, "127.0.0.1")), [word, word]);
    }
    let plain = Upstream::start();
    for _ in 0..8 {
        plain.next(Act::bytes("HTTP/1.1 400 Bad\r\n\r\n").blind().close());
    }
    assert_eq!(why(&verifying(&plain, &authority, "127.0.0.1")), ["tls", "tls"]);

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let setup = || Setup::new().timeout_ms("tls_handshake_ms", 200).timeout_ms("connect_ms", 200);
    assert_eq!(why(&setup().environment("production", &url).start()), ["timeout", "timeout"]);
    let nobody = Reserved::new();
    assert_eq!(why(&setup().environment("production", &nobody.url()).start()), ["refused", "refused"]);
    let unknown = "https://no-such-host.invalid";
    let unknown = setup().environment("production", unknown).set_raw("store", "allow_plain", "true").start();
    assert_eq!(why(&unknown), ["name-lookup", "name-lookup"]);
}

/// Why a write and a read did not reach upstream, by the log.
fn why(gate: &Gate) -> Vec<String> {
    for id in ["createSwap", "listUsers"] {
        let answer = valid(operation(id)).send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (502, "UPSTREAM_UNAVAILABLE"), "{answer}");
    }
    let lines = gate.log.wait("both lines", |lines| {
        let told = |line: &&Value| line["message"] == "upstream cannot be reached; nothing was sent";
        let told: Vec<Value> = lines.iter().filter(told).cloned().collect();
        (told.len() == 2).then_some(told)
    });
    assert!(lines.iter().all(|line| line["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty())), "{lines:?}");
    lines.iter().map(|line| line["why"].as_str().unwrap().to_owned()).collect()
}
