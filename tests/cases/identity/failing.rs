//! Issuers that fail: what is known goes on, what is not known is said so, and nobody waits for another's.

use serde_json::{Value, json};

use super::signer::Signer;
use super::watched::Watched;
use super::{shows, wait_until};
use crate::support::token::{claims, token};
use crate::support::upstream::answer;
use crate::support::{Act, Answer, Setup, Upstream};

const CANARY: &str = "what-the-issuer-says-besides-its-keys";

/// An issuer that fails in its own way, and how the metrics call it.
struct Failing {
    name: &'static str,
    outcome: &'static str,
    act: Act,
    keys: Upstream,
    signer: Signer,
}

impl Failing {
    fn token(&self, signer: &Signer) -> String {
        let mut claims = claims();
        claims["iss"] = json!(format!("https://{}.test", self.name));
        signer.token(&claims)
    }

    fn fetches(&self, gate: &Watched, outcome: &str) -> u64 {
        gate.metric(&format!("sluice_keys_fetches_total{{issuer={:?},outcome={outcome:?}}}", self.name))
    }
}

fn failing(elsewhere: &Upstream) -> Vec<Failing> {
    let location = format!("{}/keys", elsewhere.url());
    let redirect = |status| Act::bytes(answer(status, &[("Location", &location)], b""));
    let many: Vec<Value> = vec![Signer::ed("k-1").jwk(); 20_000];
    let small: Vec<Value> = vec![json!({}); 20_000];
    let cut = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"keys\":[";
    let set = |keys: &[Value]| Act::json(200, json!({ "keys": keys }).to_string());
    let html = format!("<html><p>{CANARY}</p></html>");
    let rows: Vec<(&str, &str, Act)> = vec![
        ("html", "unusable", Act::answer(200, "text/html", &html)),
        ("error", "status", Act::answer(500, "text/html", &html)),
        ("no-content", "status", Act::json(204, "")),
        ("moved", "status", redirect(302)),
        ("moved-for-good", "status", redirect(308)),
        ("enormous", "too_large", Act::json(200, vec![b' '; 64 * 1024 * 1024])),
        ("many", "too_large", set(&many)),
        ("many-small", "unusable", set(&small)),
        ("empty", "unusable", set(&[])),
        ("secret-keys", "unusable", set(&[Signer::shared(CANARY).jwk()])),
        ("cut", "broken", Act::bytes(cut).close()),
        ("closed", "unreachable", Act::silence().close()),
        ("no-http", "unreachable", Act::bytes(format!("{CANARY}\r\n\r\n")).close()),
        ("hangs", "unreachable", Act::silence().hang()),
        ("drips", "broken", Act::bytes(&cut[..]).hang()),
    ];
    let failing =
        |(name, outcome, act)| Failing { name, outcome, act, keys: Upstream::start(), signer: Signer::ed("k-1") };
    rows.into_iter().map(failing).collect()
}

/// Nobody can tell whether the token is good: 503, never 401.
fn assert_put_off(answer: &Answer, what: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{what}: {answer}");
    assert_eq!(answer.header("retry-after").as_deref(), Some("1"), "{what}: {answer}");
    assert_eq!(answer.header("www-authenticate"), None, "{what}: {answer}");
}

/// One gate that takes the tokens of all of them.
fn gate(upstream: &Upstream, all: &[Failing]) -> Watched {
    let add = |setup: Setup, one: &Failing| {
        let section = format!("issuer.{}", one.name);
        setup
            .set(&section, "issuer", &format!("https://{}.test", one.name))
            .set_raw(&section, "audience", r#"["sluice"]"#)
            .set_raw(&section, "environments", r#"["production"]"#)
            .set_raw(&section, "algorithms", r#"["EdDSA"]"#)
            .set(&section, "jwks_url", &format!("{}/keys", one.keys.url()))
    };
    let gate = Watched::start(all.iter().fold(Setup::of(upstream), add));
    gate.hides(CANARY);
    gate
}

#[test]
fn an_issuer_that_fails_from_the_start_is_503_until_it_answers() {
    let (upstream, elsewhere) = (Upstream::start(), Upstream::start());
    let all = failing(&elsewhere);
    for one in &all {
        one.keys.always(one.act.clone());
    }
    let gate = gate(&upstream, &all);
    std::thread::scope(|scope| {
        for one in &all {
            let gate = &gate;
            scope.spawn(move || {
                assert_put_off(&gate.read(&one.token(&one.signer)), one.name);
                assert!(one.fetches(gate, one.outcome) > 0, "{}: {}", one.name, gate.said());
            });
        }
        // Meanwhile others are not kept waiting.
        let others = gate.read(token());
        assert_eq!(others.status, 200);
        assert!(others.took.as_secs() < 2, "{:?}", others.took);
    });
    let (status, told) = gate.readiness();
    assert_eq!(status, 503);
    assert!(all.iter().all(|one| told.contains(one.name)), "{told}");
    assert_eq!((upstream.seen().len(), elsewhere.seen().len()), (1, 0));
    for one in &all {
        one.keys.forget();
        one.keys.always(shows(&[&one.signer]));
    }
    wait_until("the keys to be had", || gate.readiness().0 == 200);
    for one in &all {
        gate.assert_passes(&one.token(&one.signer));
    }
    gate.assert_silent();
}

#[test]
fn an_issuer_that_fails_later_leaves_its_known_keys_as_they_are() {
    let (upstream, elsewhere) = (Upstream::start(), Upstream::start());
    let all = failing(&elsewhere);
    for one in &all {
        one.keys.always(shows(&[&one.signer]));
    }
    let gate = gate(&upstream, &all);
    wait_until("the keys to be had", || gate.readiness().0 == 200);
    std::thread::scope(|scope| {
        for one in &all {
            let gate = &gate;
            scope.spawn(move || {
                one.keys.always(one.act.clone());
                let known = one.token(&one.signer);
                std::thread::scope(|scope| {
                    // A key that is not known has the keys fetched.
                    let unknown = scope.spawn(|| gate.read(&one.token(&Signer::ed("k-2"))));
                    one.keys.wait_for(1);
                    let answer = gate.read(&known);
                    assert_eq!(answer.status, 200, "{}: {answer}", one.name);
                    assert_put_off(&unknown.join().unwrap(), one.name);
                });
                // Nor is it refused while nothing is fetched, a moment after a fetch that failed.
                assert_put_off(&gate.read(&one.token(&Signer::ed("k-3"))), one.name);
                assert_eq!(one.fetches(gate, one.outcome), 1, "{}", one.name);
                gate.assert_passes(&known);
            });
        }
    });
    assert_eq!(gate.readiness().0, 200);
    assert_eq!(elsewhere.seen().len(), 0);
    gate.assert_silent();
}

#[test]
fn an_issuer_that_cannot_be_reached_is_tried_again() {
    let upstream = Upstream::start();
    let signer = Signer::ed("k-1");
    // An address where nothing listens, until something does.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = super::second(Setup::of(&upstream), "EdDSA");
    let gate = Watched::start(setup.set("issuer.second", "jwks_url", &format!("http://{nowhere}/keys")));
    let answer = gate.read(&signer.token(&super::claims_of_second()));
    assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{answer}");
    assert!(gate.readiness().1.contains("second"));
    assert!(gate.fetches("unreachable") > 0);
    gate.assert_passes(token());
    gate.assert_silent();
}

#[test]
fn a_key_that_came_is_taken_once_its_issuer_answers() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (signer, next, unknown) = (Signer::ed("k-1"), Signer::ed("k-2"), Signer::ed("k-3"));
    keys.always(shows(&[&signer]));
    let gate = Watched::start(super::fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&signer.token(&super::claims_of_second()));
    keys.always(Act::json(500, "{}"));
    assert_put_off(&gate.read(&next.token(&super::claims_of_second())), "failing");
    // A forged token that names a known key is refused all the same.
    gate.assert_refused(&Signer::ed("k-1").token(&super::claims_of_second()));
    keys.always(shows(&[&signer, &next]));
    wait_until("the issuer to be asked again", || gate.read(&next.token(&super::claims_of_second())).status == 200);
    // The issuer was asked just now; later it could have this one, too.
    let answer = gate.read(&unknown.token(&super::claims_of_second()));
    assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{answer}");
    gate.assert_passes(&signer.token(&super::claims_of_second()));
    gate.assert_silent();
}
