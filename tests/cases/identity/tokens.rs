//! Good tokens, by every source of keys.

use serde_json::json;

use super::signer::Signer;
use super::watched::{Watched, assert_refused};
use super::{SECOND, claims_of_second, fetched_from, jwks, second, shows};
use crate::support::shape::{operation, valid};
use crate::support::token::{claims, signed, token};
use crate::support::{Setup, Upstream};

#[test]
fn good_tokens_pass_by_shared_secret() {
    let upstream = Upstream::start();
    let secret = "known to the second issuer and to the gate, and to nobody else";
    let setup = second(Setup::of(&upstream), "HS256").file("secret", &format!("{secret}\n"));
    let gate = Watched::start(setup.set_raw("issuer.second", "shared_secret", r#"{ file = "secret" }"#));
    gate.hides(secret);
    gate.assert_passes(&Signer::shared(secret).token(&claims_of_second()));
    gate.assert_refused(&Signer::shared("another secret, long enough to be one").token(&claims_of_second()));
    gate.assert_silent();
}

#[test]
fn good_tokens_pass_by_a_file_with_a_set_of_keys() {
    let upstream = Upstream::start();
    for signer in [Signer::ed("k-1"), Signer::curve("k-1")] {
        let setup = second(Setup::of(&upstream), signer.algorithm()).file("jwks.json", &jwks(&[&signer]));
        let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
        gate.assert_passes(&signer.token(&claims_of_second()));
        // No key is named: any that fits.
        gate.assert_passes(&signer.token_with(&json!({"alg": signer.algorithm()}), &claims_of_second()));
        gate.assert_silent();
    }
}

#[test]
fn good_tokens_pass_by_a_public_key() {
    let upstream = Upstream::start();
    for signer in [Signer::ed("k-1"), Signer::curve("k-1")] {
        let setup = second(Setup::of(&upstream), signer.algorithm()).file("key.pem", &signer.pem());
        let gate = Watched::start(setup.set("issuer.second", "public_key", "key.pem"));
        gate.assert_passes(&signer.token(&claims_of_second()));
        gate.assert_silent();
    }
}

#[test]
fn good_tokens_pass_by_keys_that_are_fetched() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    keys.always(shows(&[&signer]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&signer.token(&claims_of_second()));
    let asked = keys.wait_for(0);
    assert_eq!(asked.line(), "GET /keys");
    assert_eq!(asked.head.header("authorization"), None);
    assert_eq!((gate.fetches("good"), keys.seen().len()), (1, 1));
    gate.assert_silent();
}

#[test]
fn each_of_two_issuers_speaks_for_itself() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    keys.always(shows(&[&signer]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(token());
    gate.assert_passes(&signer.token(&claims_of_second()));
    let sent = upstream.seen().len();
    // Each other's keys, under each other's name.
    gate.assert_refused(&signer.token(&claims()));
    let mut forged = claims();
    forged["iss"] = json!(SECOND);
    gate.assert_refused(&signed(&forged));
    assert_eq!(upstream.seen().len(), sent);
    assert_eq!(gate.refused("algorithm"), 2);
    gate.assert_silent();
}

#[test]
fn a_refused_token_is_counted_by_its_reason() {
    let upstream = Upstream::start();
    let signer = Signer::ed("k-1");
    let setup = second(Setup::of(&upstream), "EdDSA").file("jwks.json", &jwks(&[&signer]));
    let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = claims_of_second();
        claims[name] = value;
        signer.token(&claims)
    };
    let now = claims()["iat"].as_i64().unwrap();
    let header = |header: serde_json::Value| signer.token_with(&header, &claims_of_second());
    let rows = [
        ("malformed", "not.a-token".to_owned()),
        ("header", header(json!({"alg": "EdDSA", "crit": ["exp"]}))),
        ("issuer", with("iss", json!("https://third.test"))),
        ("algorithm", header(json!({"alg": "HS256"}))),
        ("unknown_key", header(json!({"alg": "EdDSA", "kid": "k-2"}))),
        ("signature", Signer::ed("k-1").token(&claims_of_second())),
        ("audience", with("aud", json!("others"))),
        ("expired", with("exp", json!(now - 31))),
        ("not_yet", with("nbf", json!(now + 600))),
        ("lifetime", with("exp", json!(now + 90_000))),
        ("fields", with("sub", json!(7))),
    ];
    for (reason, token) in &rows {
        assert_eq!(gate.refused(reason), 0, "{reason}");
        let call = valid(operation("createSwap"));
        let answer = gate.call(gate.production(), call, token);
        assert_refused(&answer, reason);
        // Nothing was sent; whether an earlier attempt was is not looked up.
        assert_eq!(answer.outcome(), "unknown", "{reason}");
        assert_eq!(gate.refused(reason), 1, "{reason}");
    }
    assert_eq!(upstream.seen().len(), 0);
    gate.assert_silent();
}
