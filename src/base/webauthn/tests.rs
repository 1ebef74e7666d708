//! Assertions of keys in software, and every way in which they are refused.

pub(crate) mod soft_key;

use serde_json::json;

use super::*;
use soft_key::{SYNCED, SigningPage, SoftAssertion, SoftKey, VERIFIED};

const DOMAIN: &str = "example.com";
const ORIGIN: &str = "https://sluice.example.com";
const CHALLENGE: &[u8] = b"what a person is to agree to";

fn page() -> SigningPage {
    SigningPage { counter: 7, ..SigningPage::of(DOMAIN, ORIGIN) }
}

fn assertion(made: SoftAssertion) -> Assertion {
    let SoftAssertion { authenticator_data, client_data, signature } = made;
    Assertion { authenticator_data, client_data, signature }
}

fn verified(key: &SoftKey, made: SoftAssertion, synced: SyncedKeys) -> Result<u32, AssertionError> {
    let takes_origin = |origin: &str| origin == ORIGIN;
    let terms = AssertionTerms { rp_id: DOMAIN, challenge: CHALLENGE, synced, takes_origin: &takes_origin };
    assertion(made).verify(&PasskeyKey::of_cose(&key.cose()).unwrap(), terms)
}

fn keys() -> [SoftKey; 2] {
    [SoftKey::es256(), SoftKey::eddsa()]
}

#[test]
fn a_signature_of_either_kind_is_verified_and_tells_the_counter() {
    for key in keys() {
        assert_eq!(verified(&key, key.sign(CHALLENGE, &page()), SyncedKeys::Refuse), Ok(7));
        let synced = SigningPage { flags: VERIFIED | SYNCED | 0x10, counter: 0, ..page() };
        assert_eq!(verified(&key, key.sign(CHALLENGE, &synced), SyncedKeys::Allow), Ok(0));
        // Browsers may add members.
        let more = page().with("other_keys_can_be_added_here", json!("do not compare"));
        assert_eq!(verified(&key, key.sign(CHALLENGE, &more), SyncedKeys::Refuse), Ok(7));
        let (key, cose) = (PasskeyKey::of_cose(&key.cose()).unwrap(), key.cose());
        assert_eq!(key.to_cose(), cose);
    }
}

#[test]
fn whatever_differs_is_refused() {
    let flags = |flags: u8| SigningPage { flags, ..page() };
    let table = [
        (flags(VERIFIED | SYNCED), AssertionError::Synced),
        (flags(0x01), AssertionError::NotVerified),
        (flags(0x04), AssertionError::NotVerified),
        (flags(VERIFIED | 0x10), AssertionError::AuthenticatorData),
        (flags(VERIFIED | 0x40), AssertionError::AuthenticatorData),
        (flags(VERIFIED | 0x80), AssertionError::AuthenticatorData),
        (SigningPage { rp_id: "evil.com".to_owned(), ..page() }, AssertionError::OtherDomain),
        (page().with("type", json!("webauthn.create")), AssertionError::ClientData),
        (page().with("type", json!(null)), AssertionError::ClientData),
        (page().with("origin", json!("https://evil.com")), AssertionError::OtherOrigin),
        (page().with("origin", json!("https://sluice.example.com.evil.com")), AssertionError::OtherOrigin),
        (page().with("origin", json!([ORIGIN])), AssertionError::OtherOrigin),
        (page().with("crossOrigin", json!(true)), AssertionError::OtherOrigin),
        (page().with("crossOrigin", json!("false")), AssertionError::OtherOrigin),
        (page().with("topOrigin", json!("https://evil.com")), AssertionError::OtherOrigin),
        (page().with("x", json!("y".repeat(MAX_CLIENT_BYTES))), AssertionError::ClientData),
    ];
    for key in keys() {
        for (page, expected) in &table {
            assert_eq!(verified(&key, key.sign(CHALLENGE, page), SyncedKeys::Refuse), Err(*expected), "{page:?}");
        }
        let other = key.sign(b"something else", &page());
        assert_eq!(verified(&key, other, SyncedKeys::Refuse), Err(AssertionError::OtherChallenge));
        for other in keys() {
            let foreign = other.sign(CHALLENGE, &page());
            assert_eq!(verified(&key, foreign, SyncedKeys::Refuse), Err(AssertionError::Signature));
        }
    }
}

#[test]
fn no_changed_byte_passes() {
    for key in keys() {
        let good = key.sign(CHALLENGE, &page());
        for at in 0..good.authenticator_data.len() {
            let mut changed = good.clone();
            changed.authenticator_data[at] ^= 0x20;
            assert!(verified(&key, changed, SyncedKeys::Allow).is_err(), "{at}");
        }
        for at in 0..good.client_data.len() {
            let mut changed = good.clone();
            changed.client_data[at] ^= 0x01;
            assert!(verified(&key, changed, SyncedKeys::Allow).is_err(), "{at}");
        }
        for at in 0..good.signature.len() {
            let mut changed = good.clone();
            changed.signature[at] ^= 0x01;
            assert!(verified(&key, changed, SyncedKeys::Allow).is_err(), "{at}");
        }
        for length in 0..good.authenticator_data.len() + 40 {
            let mut data = good.authenticator_data.clone();
            data.resize(length, 0);
            let is_whole = length == good.authenticator_data.len();
            let changed = key.sign_parts(data, good.client_data.clone());
            assert_eq!(verified(&key, changed, SyncedKeys::Allow).is_ok(), is_whole, "{length}");
        }
        let twice =
            String::from_utf8(good.client_data.clone()).unwrap().replace('{', r#"{"origin":"https://evil.com","#);
        let odd =
            [twice.into_bytes(), [b"\xef\xbb\xbf", good.client_data.as_slice()].concat(), b"[]".to_vec(), Vec::new()];
        for client_data in odd {
            let changed = key.sign_parts(good.authenticator_data.clone(), client_data);
            assert_eq!(verified(&key, changed, SyncedKeys::Allow), Err(AssertionError::ClientData));
        }
    }
}

#[test]
fn a_key_has_one_form() {
    for key in keys() {
        let cose = key.cose();
        for length in 0..cose.len() {
            assert_eq!(PasskeyKey::of_cose(&cose[..length]), Err(PasskeyKeyError::Form), "{length}");
        }
        assert_eq!(PasskeyKey::of_cose(&[&*cose, &[0]].concat()), Err(PasskeyKeyError::Form));
        // The head says the kind and the length of everything behind it.
        for at in 0..10 {
            let mut changed = cose.clone();
            changed[at] ^= 0x01;
            assert_eq!(PasskeyKey::of_cose(&changed), Err(PasskeyKeyError::Form), "{at}");
        }
    }
}

/// For a key of small order, a signature of zeros and the same point is good for very many messages.
#[test]
fn keys_of_small_order_are_refused_in_every_encoding() {
    for y in SMALL_ORDER {
        for sign in [0x00, 0x80] {
            let mut point = y;
            point[31] |= sign;
            let cose = [EDDSA_HEAD.as_slice(), &point].concat();
            assert_eq!(PasskeyKey::of_cose(&cose), Err(PasskeyKeyError::SmallOrder));
        }
    }
}

#[test]
fn points_off_the_curve_sign_nothing() {
    let good = SoftKey::es256();
    let mut cose = good.cose();
    *cose.last_mut().unwrap() ^= 0x01;
    let key = PasskeyKey::of_cose(&cose).unwrap();
    let takes_origin = |_: &str| true;
    let terms =
        AssertionTerms { rp_id: DOMAIN, challenge: CHALLENGE, synced: SyncedKeys::Allow, takes_origin: &takes_origin };
    let made = assertion(good.sign(CHALLENGE, &page()));
    assert_eq!(made.verify(&key, terms), Err(AssertionError::Signature));
}

#[test]
fn a_code_is_of_a_challenge_and_of_a_salt_that_its_maker_did_not_know() {
    let challenge = plain_sha256(b"a statement");
    assert_eq!(challenge_code(&[0; 16], &challenge), "KAES-UIKL-40HG");
    assert_eq!(challenge_code(&[7; 16], &challenge), "CH7P-6O1B-KRE8");
}
