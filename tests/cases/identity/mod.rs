//! Who may call: tokens, keys and credentials through the real gate, and what of them is never told.

mod attacks;
mod authority;
mod canary;
mod command;
mod credential;
mod environments;
mod failing;
mod kept;
mod rotation;
mod signer;
mod tokens;
mod watched;
mod withheld;

use serde_json::{Value, json};

use crate::support::clock::wait_until;
use crate::support::token::claims;
use crate::support::{Act, Setup, Upstream};
use signer::Signer;

/// What the second issuer's tokens say in `iss`.
const SECOND: &str = "https://second.test";
const KEYS_OF_SECOND: &str = r#"sluice_keys_fetches_total{issuer="second",outcome="good"}"#;

/// A second issuer beside the one that every gate of these tests trusts; its keys are left to the test.
fn second(setup: Setup, algorithm: &str) -> Setup {
    setup
        .set("issuer.second", "issuer", SECOND)
        .set_raw("issuer.second", "audience", r#"["sluice"]"#)
        .set_raw("issuer.second", "environments", r#"["production", "sandbox"]"#)
        .set_raw("issuer.second", "algorithms", &format!("[{algorithm:?}]"))
}

/// The second issuer, with Ed25519 keys fetched from there.
pub(super) fn fetched_from(setup: Setup, keys: &Upstream) -> Setup {
    second(setup, "EdDSA").set("issuer.second", "jwks_url", &format!("{}/keys", keys.url()))
}

/// What a good token of the second issuer says.
fn claims_of_second() -> Value {
    let mut claims = claims();
    claims["iss"] = json!(SECOND);
    claims
}

fn jwks(signers: &[&Signer]) -> String {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() }).to_string()
}

/// From now on there is one key.
pub(super) fn show_a_key(keys: &Upstream) {
    keys.always(shows(&[&Signer::ed("k-1")]));
}

fn shows(signers: &[&Signer]) -> Act {
    Act::json(200, jwks(signers))
}
