//! Whose token upstream sees: with a credential ours, and never the caller's.

use super::wait_until;
use super::watched::Watched;
use crate::support::shape::{operation, operations, valid};
use crate::support::token::token;
use crate::support::upstream::{Seen, answer};
use crate::support::{Act, Call, Setup, Upstream, get};

const OURS: &str = "the-credential-of-the-gate-itself";

/// Headers that say who somebody is.
const IDENTITY: [(&str, &str); 9] = [
    ("Cookie", "session=of-the-caller"),
    ("Proxy-Authorization", "Basic of-the-caller"),
    ("X-Api-Key", "of-the-caller"),
    ("X-Forwarded-User", "of-the-caller"),
    ("X-Remote-User", "of-the-caller"),
    ("X-Auth-Token", "of-the-caller"),
    ("X-Forwarded-Client-Cert", "of-the-caller"),
    ("X-User-Id", "of-the-caller"),
    ("X-Amzn-Oidc-Identity", "of-the-caller"),
];

fn from_each_source(setup: impl Fn() -> Setup) -> [(&'static str, Setup); 3] {
    [
        ("text", setup().set("production", "credential", OURS)),
        ("variable", setup().set_raw("production", "credential", r#"{ env = "OURS" }"#).variable("OURS", OURS)),
        (
            "file",
            setup().file("production.token", &format!("{OURS}\n")).set_raw(
                "production",
                "credential",
                r#"{ file = "production.token" }"#,
            ),
        ),
    ]
}

fn assert_ours(seen: &Seen, what: &str) {
    assert_eq!(seen.head.header("authorization"), Some(format!("Bearer {OURS}")), "{what}");
    let whole = format!("{}{}", String::from_utf8_lossy(&seen.head.raw), seen.text());
    for word in [token(), "of-the-caller"] {
        assert!(!whole.contains(word), "{what}: {word} travelled on: {whole}");
    }
}

#[test]
fn upstream_sees_ours_and_never_the_callers() {
    for enforce in [false, true] {
        let upstream = Upstream::start();
        let setup = || if enforce { Setup::of(&upstream).enforce() } else { Setup::of(&upstream) };
        for (source, setup) in from_each_source(setup) {
            let gate = Watched::start(setup);
            gate.hides(OURS);
            for operation in operations() {
                let call = IDENTITY.into_iter().fold(valid(operation), |call, (n, v)| call.header(n, v));
                let at = upstream.seen().len();
                gate.call(gate.production(), call, token());
                assert_ours(&upstream.wait_for(at), &format!("{source}: {}", operation.id));
            }
            gate.assert_silent();
        }
    }
}

#[test]
fn a_credential_is_of_one_environment() {
    let (production, sandbox) = (Upstream::start(), Upstream::start());
    let setup = Setup::of(&production).sandbox(&sandbox).set("production", "credential", OURS);
    let gate = Watched::start(setup);
    gate.hides(OURS);
    for operation in operations() {
        let at = sandbox.seen().len();
        gate.call(gate.sandbox(), valid(operation), token());
        let seen = sandbox.wait_for(at);
        assert_eq!(seen.head.header("authorization"), Some(format!("Bearer {}", token())), "{}", operation.id);
    }
    assert!(sandbox.seen().iter().all(|seen| !String::from_utf8_lossy(&seen.head.raw).contains(OURS)));
    assert_eq!(production.seen().len(), 0);
    gate.assert_silent();
}

#[test]
fn a_file_that_changes_is_taken_and_one_that_breaks_is_not() {
    let upstream = Upstream::start();
    let [_, _, (_, setup)] = from_each_source(|| Setup::of(&upstream));
    let gate = Watched::start(setup);
    let next = "the-next-credential-of-the-gate";
    gate.hides(OURS);
    gate.hides(next);
    let sees = || {
        let at = upstream.seen().len();
        gate.assert_passes(token());
        upstream.wait_for(at).head.header("authorization").unwrap()
    };
    assert_eq!(sees(), format!("Bearer {OURS}"));
    std::fs::write(gate.path("production.token"), next).unwrap();
    wait_until("the next credential to be sent", || sees() == format!("Bearer {next}"));
    std::fs::write(gate.path("production.token"), "two words of a-secret-that-nobody-shall-read").unwrap();
    gate.hides("a-secret-that-nobody-shall-read");
    gate.log.wait("the broken file to be told of", |lines| {
        let told =
            |l: &&serde_json::Value| l["message"].as_str().is_some_and(|m| m.contains("the last good one stays"));
        lines.iter().find(told).map(drop)
    });
    assert_eq!(sees(), format!("Bearer {next}"));
    gate.assert_silent();
}

#[test]
fn upstreams_401_is_about_the_gate_and_not_about_the_caller() {
    let upstream = Upstream::start();
    let refusal = format!(r#"{{"code": 401, "error": "Unauthorized", "errorDetails": "{OURS}"}}"#);
    let headers = [("Content-Type", "application/json"), ("WWW-Authenticate", "Bearer realm=\"upstream\"")];
    upstream.always(Act::bytes(answer(401, &headers, refusal.as_bytes())));
    for setup in [Setup::of(&upstream), Setup::of(&upstream).enforce()] {
        let gate = Watched::start(setup.set("production", "credential", OURS));
        gate.hides(OURS);
        for operation in operations() {
            let answer = gate.call(gate.production(), valid(operation), token());
            let told = (answer.status, answer.code(), answer.origin());
            let expected = (502, "UPSTREAM_UNAVAILABLE".to_owned(), "gateway".to_owned());
            assert_eq!(told, expected, "{}: {answer}", operation.id);
            assert_eq!(answer.header("www-authenticate"), None, "{}: {answer}", operation.id);
            let outcome = if operation.is_write() { "not-executed" } else { "-" };
            assert_eq!(answer.outcome(), outcome, "{}: {answer}", operation.id);
        }
        gate.assert_silent();
    }
}

#[test]
fn upstreams_401_is_the_callers_where_its_token_goes_on() {
    let upstream = Upstream::start();
    upstream.always(Act::json(401, r#"{"code": 401, "error": "Unauthorized", "errorDetails": "no"}"#));
    let gate = Watched::start(Setup::of(&upstream));
    let calls: [Call; 2] = [get("/v2/users"), valid(operation("createSwap"))];
    for call in calls {
        let answer = gate.call(gate.production(), call, token());
        assert_eq!((answer.status, answer.origin().as_str()), (401, "upstream"), "{answer}");
    }
    gate.assert_silent();
}
