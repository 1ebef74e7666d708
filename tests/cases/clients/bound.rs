//! Tokens that are bound to a certificate: good with that one, and with nothing else, remembered or not.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Parties, VERSIONS};
use crate::support::tls::{Certified, Leaf};
use crate::support::token::{claims, signed, token};
use crate::support::{Gate, Upstream, get};

fn digest(certified: &Certified) -> Vec<u8> {
    Sha256::digest(&certified.chain()[0]).to_vec()
}

fn bound(cnf: &Value) -> String {
    let mut claims = claims();
    claims["cnf"] = cnf.clone();
    signed(&claims)
}

fn bound_to(certified: &Certified) -> String {
    bound(&json!({"x5t#S256": URL_SAFE_NO_PAD.encode(digest(certified))}))
}

fn refused(gate: &Gate, environment: &str) -> u64 {
    gate.metric(&format!("sluice_tokens_refused_total{{environment={environment:?},reason=\"bound\"}}"))
}

#[test]
fn a_bound_token_is_good_with_its_certificate_alone() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let sandbox = Upstream::start();
    let gate = parties.setup(&upstream).sandbox(&sandbox).start();
    let (own, other) = (parties.good(), parties.callers.issue(Leaf::new("payroll").serial(7)));
    let token_of_own = bound_to(&own);
    let without = |token: &str| {
        get("/v2/users")
            .without("Authorization")
            .header("Authorization", format!("Bearer {token}"))
            .send(gate.sandbox())
    };
    for version in VERSIONS {
        let (mine, stolen) =
            (parties.connected(&gate, Some(&own), version), parties.connected(&gate, Some(&other), version));
        // Before it is remembered, when it is, and again after it was refused.
        for _ in 0..3 {
            assert_eq!(stolen.read(&token_of_own), Ok(401));
            let answer = without(&token_of_own);
            let told = (answer.status, answer.code(), answer.header("www-authenticate"));
            let invalid = Some("Bearer error=\"invalid_token\"".to_owned());
            assert_eq!(told, (401, "UNAUTHORIZED".into(), invalid), "{answer}");
            assert_eq!(mine.read(&token_of_own), Ok(200));
        }
        assert_eq!((mine.read(token()), stolen.read(token())), (Ok(200), Ok(200)));
        assert_eq!((stolen.read(&bound_to(&other)), mine.read(&bound_to(&other))), (Ok(200), Ok(401)));
    }
    assert_eq!((refused(&gate, "production"), refused(&gate, "sandbox")), (8, 6));
    assert_eq!((upstream.seen().len(), sandbox.seen().len()), (2 * (3 + 2 + 1), 0));
}

#[test]
fn what_is_bound_in_another_way_or_unreadably_is_not_taken_for_unbound() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let gate = parties.setup(&upstream).start();
    let own = parties.good();
    let mine = parties.connected(&gate, Some(&own), VERSIONS[0]);
    let good = URL_SAFE_NO_PAD.encode(digest(&own));
    for cnf in [
        json!({}),
        json!(null),
        json!("x"),
        json!([]),
        json!({"jkt": good}),
        json!({"x5t#S256": good, "jkt": good}),
        json!({"x5t#S256": null}),
        json!({"x5t#S256": ""}),
        json!({"x5t#S256": [good]}),
        json!({"x5t#S256": format!("{good}=")}),
        json!({"x5t#S256": STANDARD.encode(digest(&own))}),
        json!({"x5t#S256": hex(&digest(&own))}),
        json!({"x5t#S256": URL_SAFE_NO_PAD.encode(&digest(&own)[..31])}),
        json!({"x5t": good}),
        json!({"X5T#S256": good}),
    ] {
        assert_eq!(mine.read(&bound(&cnf)), Ok(401), "{cnf}");
    }
    assert!(upstream.seen().is_empty());
    assert_eq!(mine.read(&bound(&json!({"x5t#S256": good}))), Ok(200));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
