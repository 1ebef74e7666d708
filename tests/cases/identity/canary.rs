//! The search for what must not be told: it finds what is leaked on purpose, and finds nothing in what the gate says.
//!
//! Every gate of all tests is searched so; here it is shown that the search can find something.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::signer::Signer;
use super::watched::Watched;
use super::{claims_of_second, fetched_from, shows};
use crate::support::canary::{leaked, plant, search};
use crate::support::shape::{odd_answer, operation, operations, valid};
use crate::support::token::token;
use crate::support::upstream::answer;
use crate::support::{Act, Gate, Setup, Upstream, get, post};

const OURS: &str = "the-credential-of-the-gate-itself";

fn received(upstream: &Upstream) -> String {
    upstream.seen().iter().map(|seen| String::from_utf8_lossy(&seen.head.raw).into_owned()).collect()
}

#[test]
fn the_search_finds_what_is_leaked_on_purpose() {
    let (forwarding, injecting) = (Upstream::start(), Upstream::start());
    let setup = Setup::of(&injecting).sandbox(&forwarding).set("production", "credential", OURS);
    let gate = Watched::start(setup);
    gate.hides(OURS);
    for address in [gate.production(), gate.sandbox()] {
        assert_eq!(gate.call(address, crate::support::get("/v2/users"), token()).status, 200);
    }
    assert!(leaked(&received(&forwarding), token()).is_some());
    assert!(leaked(&received(&injecting), OURS).is_some());
    // A part is enough, whichever it is.
    let signature = token().rsplit_once('.').unwrap().1;
    for text in [&signature[..20], &signature[signature.len() - 20..], "x the-credential-of-the y"] {
        assert!(leaked(text, token()).or(leaked(text, OURS)).is_some(), "{text}");
    }
    assert!(leaked(&received(&forwarding), OURS).is_none());
    assert!(leaked(&received(&injecting), token()).is_none());
    gate.assert_silent();
}

/// Upstream, or a proxy before it, may echo what it got.
#[test]
fn an_echo_of_the_gate_s_credential_never_reaches_a_caller() {
    let upstream = Upstream::start();
    let echo = format!("\"Bearer {OURS}\"");
    let headers = [("Content-Type", "application/json"), ("ETag", echo.as_str())];
    let setup = || Setup::of(&upstream).set("production", "credential", OURS);
    for (setup, call) in
        [(setup(), get("/v2/users")), (setup().enforce(), get("/v2/users")), (setup(), valid(operation("createSwap")))]
    {
        let gate = Watched::start(setup);
        gate.hides(OURS);
        upstream.next(Act::bytes(answer(200, &headers, &odd_answer(operation("createSwap")))));
        let got = gate.call(gate.production(), call, token());
        assert_eq!(got.header("etag"), None, "{got}");
        gate.assert_silent();
    }
}

/// What somebody's test would fail with.
fn failure(work: impl FnOnce()) -> String {
    let failure = catch_unwind(AssertUnwindSafe(work)).expect_err("nothing was found");
    failure.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_gate_that_tells_a_secret_fails_its_test_by_itself() {
    let upstream = Upstream::start();
    let secret = "a-secret-that-is-a-request-id-117";
    plant(secret);

    let gate = Setup::of(&upstream).start();
    assert_eq!(get("/v2/users").header("X-Request-Id", secret).send(gate.production()).status, 200);
    gate.request_line(secret);
    assert!(failure(|| drop(gate)).starts_with("the log:"));

    let gate = Setup::of(&upstream).start();
    let call = get("/v2/users").without("Authorization").header("X-Request-Id", secret);
    assert!(failure(|| drop(call.send(gate.production()))).starts_with("an answer of the gate:"));
    gate.request_line(secret);
    assert!(failure(|| drop(gate.kill())).starts_with("the log:"));

    let issuer = "a-secret-that-names-an-issuer-11";
    plant(issuer);
    let section = format!("issuer.{issuer}");
    let other = Upstream::start();
    let setup = Setup::of(&upstream).sandbox(&other).file("jwks.json", &super::jwks(&[&Signer::ed("k-1")]));
    let setup = setup.set(&section, "issuer", "i").set_raw(&section, "audience", r#"["a"]"#);
    let setup =
        setup.set_raw(&section, "environments", r#"["sandbox"]"#).set_raw(&section, "algorithms", r#"["EdDSA"]"#);
    let gate = setup.set(&section, "jwks_file", "jwks.json").start();
    assert!(failure(|| drop(gate)).starts_with("the metrics:"));

    let setting = "a-secret-that-is-no-setting";
    plant(setting);
    let gate = Gate::spawn(Setup::of(&upstream).set("log", setting, "x"));
    gate.wait_end();
    assert!(failure(|| drop(gate)).starts_with("standard error:"));
}

#[test]
fn secrets_are_planted_without_being_asked_for() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream)
        .set("production", "credential", "the-credential-in-the-file")
        .variable("OURS", "the-credential-of-a-variable");
    let setup = setup.file("ours", "the-credential-beside-it").set_raw("sandbox", "credential", r#"{ env = "OURS" }"#);
    let gate = Gate::spawn(setup.set_raw("issuer.main", "shared_secret", r#"{ file = "ours" }"#));
    let shown = "Bearer aGVhZGVy.dGhlIGNsYWltcyBvZiBpdA.c2lnbmF0dXJlIG9mIGl0";
    let body = r#"{"a": 1}"#;
    let call = post("/v2/users").without("Authorization").header("authorization", shown).json(body);
    crate::support::canary::plant_tokens(&call.bytes());
    for (told, what) in [
        ("the-credential-in-the-file", "in the file"),
        ("the-credential-of-a-variable", "in a variable"),
        ("the-credential-beside-it", "in another file"),
        ("dGhlIGNsYWltcyBvZiBpdA", "the claims of a token"),
        ("c2lnbmF0dXJlIG9mIGl0", "the signature of a token"),
        ("XX00EXAMPLE0000000117", "an IBAN of an example"),
        ("0000000117", "an account number of an example"),
        ("odalys.brandreth@example.com", "a person of an example"),
        (token().rsplit_once('.').unwrap().1, "the token of all tests"),
    ] {
        assert!(search(&format!("x {told} y")).is_some(), "{what}");
    }
    assert_eq!(search("aaaaaaaaaaaaaaaaaaaaaaaa nothing of anything 000000000 aGVhZGVy"), None);
    gate.wait_end();
}

/// Upstream and the issuer repeat what they were sent, and break in many ways; the gate tells nobody.
#[test]
fn nothing_is_told_when_everything_around_fails() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    keys.always(shows(&[&signer]));
    let setup = fetched_from(Setup::of(&upstream), &keys).set("production", "credential", OURS);
    let gate = Watched::start(setup.timeout_ms("answer_ms", 300));
    gate.hides(OURS);
    let token = signer.token(&claims_of_second());
    gate.assert_passes(&token);
    let echo = format!("Bearer {OURS} of {token}");
    keys.always(Act::answer(500, "text/plain", &echo));
    for act in [
        Act::answer(500, "text/plain", &echo),
        Act::answer(401, "text/plain", &echo),
        Act::bytes(answer(302, &[("Location", &format!("https://evil.test/?{OURS}"))], b"")),
        Act::bytes(answer(400, &[("X-Echo", &echo), ("Content-Type", "text/html")], echo.as_bytes())),
        Act::bytes(format!("{echo}\r\n\r\n")).close(),
        Act::silence().reset(),
        Act::silence().hang(),
    ] {
        upstream.always(act);
        for operation in
            operations().filter(|o| o.is_write()).take(2).chain(operations().filter(|o| !o.is_write()).take(2))
        {
            gate.call(gate.production(), valid(operation), &token);
        }
        gate.read(&Signer::ed("k-2").token(&claims_of_second()));
    }
    gate.assert_silent();
}
