//! Tokens that are wrong in one way each, over HTTP: none is believed, and none gets any further.

use serde_json::{Value, json};

use super::signer::{Signer, encoded};
use super::watched::{Watched, assert_refused};
use super::{SECOND, claims_of_second, jwks, second};
use crate::support::shape::{ID, operation, valid};
use crate::support::token::claims;
use crate::support::{Setup, Upstream, get};

/// Each with what is wrong with it.
fn attacks(signer: &Signer) -> Vec<(&'static str, String)> {
    let good = signer.token(&claims_of_second());
    let pieces: Vec<&str> = good.split('.').collect();
    let (h, c, s) = (pieces[0], pieces[1], pieces[2]);
    let stranger = Signer::ed("k-1");
    let header = |header: Value| signer.token_with(&header, &claims_of_second());
    let claim = |name: &str, value: Value| {
        let mut claims = claims_of_second();
        claims[name] = value;
        signer.token(&claims)
    };
    let without = |name: &str| {
        let mut claims = claims_of_second();
        claims.as_object_mut().unwrap().remove(name);
        signer.token(&claims)
    };
    let now = claims()["iat"].as_i64().unwrap();
    let plain = signer.header().to_string();
    let said = claims_of_second().to_string();
    let public = signer.jwk()["x"].as_str().unwrap().to_owned();
    let confused = json!({"alg": "HS256", "kid": "k-1"});
    vec![
        ("one piece", h.to_owned()),
        ("no signature", format!("{h}.{c}.")),
        ("two pieces", format!("{h}.{c}")),
        ("four pieces", format!("{good}.{s}")),
        ("padding", format!("{good}==")),
        ("another alphabet", format!("{h}.{c}.{}", "+/".repeat(43))),
        ("more than 8 KiB", format!("{h}.{c}.{}", "A".repeat(9000))),
        ("alg none, no signature", format!("{}.{c}.", encoded(r#"{"alg":"none"}"#))),
        ("alg none", header(json!({"alg": "none"}))),
        ("alg nOnE", header(json!({"alg": "nOnE"}))),
        ("alg of another family", header(json!({"alg": "RS256", "kid": "k-1"}))),
        ("the public key as a secret", Signer::shared(&public).token_with(&confused, &claims_of_second())),
        ("the PEM as a secret", Signer::shared(&signer.pem()).token_with(&confused, &claims_of_second())),
        ("a key of its own", stranger.token_with(&json!({"alg": "EdDSA", "jwk": stranger.jwk()}), &claims_of_second())),
        ("jku", header(json!({"alg": "EdDSA", "kid": "k-1", "jku": "https://evil.test/keys"}))),
        ("x5u", header(json!({"alg": "EdDSA", "kid": "k-1", "x5u": "https://evil.test/chain"}))),
        ("x5c", header(json!({"alg": "EdDSA", "kid": "k-1", "x5c": ["MII"]}))),
        ("crit", header(json!({"alg": "EdDSA", "kid": "k-1", "crit": ["exp"]}))),
        ("b64 false", header(json!({"alg": "EdDSA", "kid": "k-1", "b64": false}))),
        ("kid a path", header(json!({"alg": "EdDSA", "kid": "../../../dev/null"}))),
        ("kid with SQL", header(json!({"alg": "EdDSA", "kid": "' OR '1'='1"}))),
        ("alg twice", signer.token_of(&plain.replacen('{', r#"{"alg":"none","#, 1), &said)),
        ("sub twice", signer.token_of(&plain, &said.replacen('{', r#"{"sub":"admin","#, 1))),
        ("a stranger's signature", stranger.token(&claims_of_second())),
        ("a signature of zeros", format!("{h}.{c}.{}", encoded([0_u8; 64]))),
        ("claims exchanged", format!("{h}.{}.{s}", encoded(said.replace("\"test\"", "\"admin\"")))),
        ("iss missing", without("iss")),
        ("iss of nobody", claim("iss", json!("https://evil.test"))),
        ("iss nearly", claim("iss", json!(format!("{SECOND}/")))),
        ("iss a list", claim("iss", json!([SECOND]))),
        ("aud missing", without("aud")),
        ("aud of others", claim("aud", json!(["sluice.evil.test"]))),
        ("exp missing", without("exp")),
        ("expired", claim("exp", json!(now - 31))),
        ("exp a text", claim("exp", json!("9999999999"))),
        ("not yet", claim("nbf", json!(now + 600))),
        ("issued in the future", claim("iat", json!(now + 600))),
        ("good for too long", claim("exp", json!(now + 90_000))),
        ("no subject", without("sub")),
    ]
}

#[test]
fn attack_tokens_are_refused_and_nothing_of_them_is_told() {
    let upstream = Upstream::start();
    let signer = Signer::ed("k-1");
    let setup = second(Setup::of(&upstream), "EdDSA").file("jwks.json", &jwks(&[&signer]));
    let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
    let attacks = attacks(&signer);
    assert!(attacks.len() >= 30, "{}", attacks.len());
    for (what, token) in &attacks {
        let read = gate.read(token);
        let write = gate.call(gate.production(), valid(operation("createSwap")), token);
        for answer in [read, write] {
            // Such a key could have come since the file was read last.
            let may_come = what.starts_with("kid ") && answer.code() == "KEYS_UNAVAILABLE";
            if may_come {
                assert_eq!(answer.status, 503, "{what}: {answer}");
            } else {
                assert_refused(&answer, what);
            }
        }
    }
    assert_eq!(upstream.seen().len(), 0);
    gate.assert_passes(&signer.token(&claims_of_second()));
    gate.assert_silent();
}

#[test]
fn what_is_no_single_bearer_token_is_refused_without_a_word_about_one() {
    let upstream = Upstream::start();
    let gate = Watched::start(Setup::of(&upstream));
    let good = crate::support::token::token();
    gate.hides(good);
    let bare = || get(format!("/v2/users/{ID}/kyc/status")).without("Authorization");
    for (what, call) in [
        ("none", bare()),
        ("basic", bare().header("Authorization", "Basic YTpi")),
        ("two in one", bare().header("Authorization", format!("Bearer {good}, Bearer {good}"))),
        ("no scheme", bare().header("Authorization", good)),
        ("in a cookie", bare().header("Cookie", format!("token={good}"))),
        ("in another header", bare().header("X-Authorization", format!("Bearer {good}"))),
        ("in the query", get(format!("/v2/users?access_token={good}")).without("Authorization")),
    ] {
        let answer = call.send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHORIZED"), "{what}: {answer}");
        assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer"), "{what}: {answer}");
    }
    // Which of two would be meant is not asked at all.
    for second in ["Bearer a.b.c".to_owned(), format!("Bearer {good}"), "Basic YTpi".to_owned()] {
        let answer = get("/v2/users").header("Authorization", &second).send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (400, "MALFORMED_REQUEST"), "{second}: {answer}");
    }
    // Which of two would be meant is not asked at all.
    for second in ["Bearer a.b.c".to_owned(), format!("Bearer {good}"), "Basic YTpi".to_owned()] {
        let answer = get("/v2/users").header("Authorization", &second).send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (400, "MALFORMED_REQUEST"), "{second}: {answer}");
    }
    assert_eq!(upstream.seen().len(), 0);
    gate.assert_silent();
}
