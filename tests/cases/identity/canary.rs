//! The search for what must not be told: it finds what is leaked on purpose, and finds nothing in what the gate says.
//!
//! Every gate of these tests is searched so; here it is shown that the search can find something.

use super::signer::Signer;
use super::watched::{Watched, leaked};
use super::{claims_of_second, fetched_from, shows};
use crate::support::shape::{operations, valid};
use crate::support::token::token;
use crate::support::upstream::answer;
use crate::support::{Act, Setup, Upstream};

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
