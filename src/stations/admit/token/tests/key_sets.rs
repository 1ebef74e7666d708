//! Sets of keys, and the tokens that they verify.

use super::*;
use crate::stations::admit::{KeyFault, KeyWarning};

#[test]
fn sets_of_keys_are_read_strictly() {
    let fault = |set: Value| KeySet::from_jwks(set.to_string().as_bytes()).err();
    let rsa = TestSigner::rsa();
    assert_eq!(fault(json!({"keys": [rsa.jwk("a"), TestSigner::ed().jwk("b"), {"kty": "new"}]})), None);
    assert_eq!(fault(json!({"keys": []})), Some(KeyFault::NoneUsable));
    assert_eq!(fault(json!({"keys": [TestSigner::Shared.jwk("a")]})), Some(KeyFault::NoneUsable));
    assert_eq!(
        fault(json!({"keys": [{"kty": "RSA", "n": encoded([1_u8; 128]), "e": "AQAB"}]})),
        Some(KeyFault::NoneUsable)
    );
    assert_eq!(fault(json!({"keys": vec![json!({"kty": "new"}); 10_000]})), Some(KeyFault::NoneUsable));
    assert_eq!(fault(json!([])), Some(KeyFault::NotASet));
    assert!(matches!(KeySet::from_jwks(b"<html>").err(), Some(KeyFault::Json(_))));
    assert_eq!(KeySet::from_pem(b"nothing").err(), Some(KeyFault::Pem));
    let mut encrypting = rsa.jwk("a");
    encrypting["use"] = json!("enc");
    assert_eq!(fault(json!({"keys": [encrypting]})), Some(KeyFault::NoneUsable));
}

#[test]
fn one_odd_key_leaves_the_others_of_its_set_in_use() {
    let (good, other, rsa) = (TestSigner::ed(), TestSigner::ed(), TestSigner::rsa());
    let p256 = TestSigner::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let with = |jwk: Value, name: &str, value: &str| {
        let mut jwk = jwk;
        jwk[name] = json!(value);
        jwk
    };
    let many: Vec<Value> = (0..101).map(|at| with(good.jwk("a"), "kid", &format!("k-{at}"))).collect();
    let rows: [(&str, Value, &[KeyWarning]); 9] = [
        ("alone", json!([good.jwk("k-1")]), &[]),
        ("the same kid of another kind", json!([p256.jwk("k-1"), good.jwk("k-1"), rsa.jwk("k-1")]), &[]),
        ("listed twice", json!([good.jwk("k-1"), good.jwk("k-1")]), &[]),
        (
            "one key for two algorithms",
            json!([good.jwk("k-1"), with(rsa.jwk("r"), "alg", "RS256"), with(rsa.jwk("r"), "alg", "PS256")]),
            &[],
        ),
        ("RFC 9864", json!([with(good.jwk("k-1"), "alg", "Ed25519")]), &[]),
        ("an algorithm of another kind", json!([with(rsa.jwk("k-1"), "alg", "EdDSA"), good.jwk("k-1")]), &[]),
        ("many", json!(many), &[KeyWarning::TooMany]),
        (
            "two others with one name",
            json!([good.jwk("k-1"), other.jwk("x"), with(other.jwk("x"), "x", &"A".repeat(43))]),
            &[KeyWarning::SameId],
        ),
        ("unreadable ones", json!([7, {}, {"kty": "new"}, {"kty": "OKP", "crv": "Ed25519"}, good.jwk("k-1")]), &[]),
    ];
    for (what, keys, warnings) in rows {
        let set = KeySet::from_jwks(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        assert_eq!(set.warnings(), warnings, "{what}");
        let trusted = vec![Trusted { rules: rules(&[Algorithm::EdDsa, Algorithm::Rs256]), keys: Some(Arc::new(set)) }];
        for name in ["EdDSA", "Ed25519"] {
            let text = token(&good, Algorithm::EdDsa, &json!({"alg": name, "kid": "k-1"}), &claims());
            assert!(believe(&text, &trusted, NOW).is_ok(), "{what}: {name}");
        }
        let stranger = token(&other, Algorithm::EdDsa, &json!({"alg": "EdDSA", "kid": "x"}), &claims());
        let is_listed = warnings.contains(&KeyWarning::SameId);
        assert_eq!(believe(&stranger, &trusted, NOW).is_ok(), is_listed, "{what}");
    }
    // Keys that turn under one name: both sign for a while, beside any other key.
    let turning = json!({"keys": [good.jwk("a"), other.jwk("a"), p256.jwk("b")]}).to_string();
    let set = Arc::new(KeySet::from_jwks(turning.as_bytes()).unwrap());
    let trusted = vec![Trusted { rules: rules(&[Algorithm::EdDsa]), keys: Some(set) }];
    for signer in [&good, &other] {
        let text = token(signer, Algorithm::EdDsa, &json!({"alg": "EdDSA", "kid": "a"}), &claims());
        assert!(believe(&text, &trusted, NOW).is_ok());
    }
}

#[test]
fn a_wrong_signature_tells_whether_the_token_names_its_key() {
    let (signer, stranger) = (TestSigner::ed(), TestSigner::ed());
    let mut nameless = signer.jwk("k-1");
    nameless.as_object_mut().unwrap().remove("kid");
    for (jwk, header, is_key_named) in [
        (signer.jwk("k-1"), json!({"alg": "EdDSA", "kid": "k-1"}), true),
        (signer.jwk("k-1"), json!({"alg": "EdDSA"}), false),
        (nameless, json!({"alg": "EdDSA", "kid": "k-1"}), false),
    ] {
        let keys = KeySet::from_jwks(json!({ "keys": [jwk] }).to_string().as_bytes()).unwrap();
        let trusted = vec![Trusted { rules: rules(&[Algorithm::EdDsa]), keys: Some(Arc::new(keys)) }];
        let forged = token(&stranger, Algorithm::EdDsa, &header, &claims());
        let fault = TokenFault::Signature { issuer: 0, is_key_named };
        assert_eq!(believe(&forged, &trusted, NOW).err(), Some(fault), "{header}");
        assert!(believe(&token(&signer, Algorithm::EdDsa, &header, &claims()), &trusted, NOW).is_ok(), "{header}");
    }
}
