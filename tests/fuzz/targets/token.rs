//! Tokens: only the one that was signed is believed.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use sluice::base::ids::Environment;
use sluice::base::secret::Secret;
use sluice::stations::admit::{Algorithm, FieldPath, IssuerRules, KeySet, Trusted, believe, stated};

use super::text;

const SECRET: &str = "a secret of at least thirty-two bytes";
const NOW: i64 = 1_700_000_000;

static TRUSTED: LazyLock<Vec<Trusted>> = LazyLock::new(|| {
    let path = |text| FieldPath::parse(text).expect("a path");
    let rules = IssuerRules {
        name: "main".into(),
        issuer: "https://issuer.example".into(),
        audiences: vec!["sluice".into()],
        people_audiences: Vec::new(),
        environments: vec![Environment::Sandbox],
        algorithms: vec![Algorithm::Hs256],
        leeway_secs: 30,
        longest_lifetime_secs: 3_600,
        required: vec![path("client_id")],
        roles: Some(path("realm.roles")),
        requester: path("act.sub"),
        refuses_holds: false,
        opaque: false,
    };
    vec![Trusted { rules, keys: Some(Arc::new(KeySet::shared(&Secret::new(SECRET.to_owned())))) }]
});

static VALID: LazyLock<String> = LazyLock::new(valid);

pub fn valid() -> String {
    let claims = format!(
        r#"{{"iss":"https://issuer.example","aud":["other","sluice"],"sub":"service-1","iat":{},"exp":{},"act":{{"sub":"ada"}},"realm":{{"roles":["payroll"]}},"client_id":"c-1"}}"#,
        NOW - 10,
        NOW + 600
    );
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

pub fn token(input: &[u8]) {
    let Some(token) = text(input) else { return };
    let believed = believe(token, &TRUSTED, NOW);
    assert_eq!(believed.is_ok(), token == *VALID, "{believed:?}");
    drop(stated(token));
}
