//! A token is good where its issuer may be used, and nowhere else.

use super::signer::Signer;
use super::watched::Watched;
use super::{claims_of_second, jwks, second};
use crate::support::shape::{operation, operations, shape, valid};
use crate::support::{Setup, Upstream};

#[test]
fn a_token_for_sandbox_does_not_reach_production() {
    let (production, sandbox) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    let setup = second(Setup::of(&production).sandbox(&sandbox), "EdDSA").file("jwks.json", &jwks(&[&signer]));
    let setup = setup.set_raw("issuer.second", "environments", r#"["sandbox"]"#);
    let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
    let token = signer.token(&claims_of_second());
    for (at, operation) in operations().enumerate() {
        // Here first, so that it is remembered as a good one.
        let passed = gate.call(gate.sandbox(), valid(operation), &token);
        assert_eq!((passed.status, sandbox.seen().len()), (200, at + 1), "{}: {passed}", operation.id);
        let answer = gate.call(gate.production(), valid(operation), &token);
        let told = (answer.status, answer.code(), shape(&answer.json()).to_owned(), answer.origin());
        assert_eq!(told, (403, "FORBIDDEN".into(), "C".into(), "gateway".into()), "{}: {answer}", operation.id);
        assert_eq!(answer.header("www-authenticate"), None);
    }
    assert_eq!(production.seen().len(), 0);
    gate.assert_silent();
}

#[test]
fn a_token_for_production_does_not_reach_sandbox() {
    let (production, sandbox) = (Upstream::start(), Upstream::start());
    let signer = Signer::curve("k-1");
    let setup = second(Setup::of(&production).sandbox(&sandbox), "ES256").file("key.pem", &signer.pem());
    let setup = setup.set_raw("issuer.second", "environments", r#"["production"]"#);
    let gate = Watched::start(setup.set("issuer.second", "public_key", "key.pem"));
    let token = signer.token(&claims_of_second());
    gate.assert_passes(&token);
    let answer = gate.call(gate.sandbox(), valid(operation("createSwap")), &token);
    assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"), "{answer}");
    assert_eq!(sandbox.seen().len(), 0);
    gate.assert_silent();
}
