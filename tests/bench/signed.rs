//! The cost of signed votes and of the journal's tree: one signature, and one more leaf.

use std::hint::black_box;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use sluice::audit::{GrowingTree, Hash, Salts, leaf_hash};
use sluice::base::digest::plain_sha256;
use sluice::base::webauthn::{Assertion, AssertionTerms, PasskeyKey, SyncedKeys};

use crate::micro::{Step, step};

const DOMAIN: &str = "example.com";
const ORIGIN: &str = "https://example.com";
/// The person was there and was verified.
const VERIFIED: u8 = 0x05;

pub(crate) fn steps() -> anyhow::Result<Vec<Step>> {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
    let curve = EcdsaKeyPair::from_pkcs8(
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        made.map_err(|_| anyhow!("no key of P-256"))?.as_ref(),
        &random,
    );
    let curve = curve.map_err(|_| anyhow!("no key of P-256"))?;
    let made = Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| anyhow!("no key of Ed25519"))?;
    let edwards = Ed25519KeyPair::from_pkcs8(made.as_ref()).map_err(|_| anyhow!("no key of Ed25519"))?;
    let by_curve = |message: &[u8]| curve.sign(&random, message).ok().map(|signed| signed.as_ref().to_vec());
    let by_edwards = |message: &[u8]| Some(edwards.sign(message).as_ref().to_vec());
    let (salts, mut tree, mut nth) = (Salts::of(&[7; 32]), GrowingTree::default(), 0_u64);
    Ok(vec![
        vote("signed vote: ES256", curve.public_key().as_ref(), &by_curve)?,
        vote("signed vote: EdDSA", edwards.public_key().as_ref(), &by_edwards)?,
        step("journal's tree: one more leaf", || {
            nth = nth.saturating_add(1);
            tree.push(leaf_hash(&salts.leaf(nth, Hash::of(&[black_box(b"the hash of a line".as_slice())])))).len()
        }),
        step("journal's tree: its root", || black_box(&tree).root()),
    ])
}

/// Verifies an assertion as the gate does for each vote that it counts.
fn vote(name: &str, public: &[u8], sign: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> anyhow::Result<Step> {
    let key = PasskeyKey::of_public(public).map_err(|error| anyhow!("{error}"))?;
    let challenge = plain_sha256(b"a statement of some 800 bytes is hashed besides");
    let client_data = format!(
        r#"{{"type":"webauthn.get","challenge":"{}","origin":"{ORIGIN}","crossOrigin":false}}"#,
        URL_SAFE_NO_PAD.encode(challenge)
    )
    .into_bytes();
    let authenticator_data = [plain_sha256(DOMAIN.as_bytes()).as_slice(), &[VERIFIED], &[0; 4]].concat();
    let message = [authenticator_data.as_slice(), &plain_sha256(&client_data)].concat();
    let signature = sign(&message).context("the key signs nothing")?;
    let assertion = Assertion { authenticator_data, client_data, signature };
    let takes_origin = |origin: &str| origin == ORIGIN;
    let terms = AssertionTerms {
        rp_id: DOMAIN,
        challenge: &challenge,
        synced: SyncedKeys::Refuse,
        takes_origin: &takes_origin,
    };
    assertion.verify(&key, terms).map_err(|error| anyhow!("{name}: {error}"))?;
    Ok(step(name, || black_box(&assertion).verify(&key, terms).is_ok()))
}
