//! Passkeys in software: keys made at run time, and what browsers send of them. The black-box tests use this file, too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The person was there and was verified.
pub(crate) const VERIFIED: u8 = 0x05;
/// The key can be copied to other devices.
pub(crate) const SYNCED: u8 = 0x08;

#[derive(Debug)]
pub(crate) struct SoftKey {
    pair: SoftPair,
    pub credential: String,
}

#[derive(Debug)]
enum SoftPair {
    Curve(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// The page that asks, and the state of the authenticator.
#[derive(Clone, Debug)]
pub(crate) struct SigningPage {
    pub rp_id: String,
    pub flags: u8,
    pub counter: u32,
    pub client: Value,
}

/// The three parts of an assertion.
#[derive(Clone, Debug)]
pub(crate) struct SoftAssertion {
    pub authenticator_data: Vec<u8>,
    pub client_data: Vec<u8>,
    pub signature: Vec<u8>,
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

impl SigningPage {
    pub(crate) fn of(rp_id: &str, origin: &str) -> SigningPage {
        let client = json!({"type": "webauthn.get", "origin": origin, "crossOrigin": false});
        SigningPage { rp_id: rp_id.to_owned(), flags: VERIFIED, counter: 0, client }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> SigningPage {
        self.client[name] = value;
        self
    }
}

impl SoftKey {
    pub(crate) fn es256() -> SoftKey {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, made.as_ref(), &random).unwrap();
        SoftKey::of(SoftPair::Curve(pair))
    }

    pub(crate) fn eddsa() -> SoftKey {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        SoftKey::of(SoftPair::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap()))
    }

    fn of(pair: SoftPair) -> SoftKey {
        let mut key = SoftKey { pair, credential: String::new() };
        key.credential = encoded(sha256(&key.cose()));
        key
    }

    /// The public key as authenticators write it.
    pub(crate) fn cose(&self) -> Vec<u8> {
        match &self.pair {
            SoftPair::Curve(pair) => {
                let point = pair.public_key().as_ref();
                let head = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
                [&head, &point[1..33], &[0x22, 0x58, 0x20], &point[33..]].concat()
            }
            SoftPair::Ed(pair) => {
                let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
                [&head, pair.public_key().as_ref()].concat()
            }
        }
    }

    pub(crate) fn sign(&self, challenge: &[u8], page: &SigningPage) -> SoftAssertion {
        let mut client = page.client.clone();
        client["challenge"] = json!(encoded(challenge));
        let client_data = client.to_string().into_bytes();
        let counter = page.counter.to_be_bytes();
        let authenticator_data = [sha256(page.rp_id.as_bytes()).as_slice(), &[page.flags], &counter].concat();
        self.sign_parts(authenticator_data, client_data)
    }

    pub(crate) fn sign_parts(&self, authenticator_data: Vec<u8>, client_data: Vec<u8>) -> SoftAssertion {
        let message = [authenticator_data.clone(), sha256(&client_data)].concat();
        let signature = self.sign_bytes(&message);
        SoftAssertion { authenticator_data, client_data, signature }
    }

    /// Signs bytes as they are, as a key does that is no passkey.
    pub(crate) fn sign_bytes(&self, message: &[u8]) -> Vec<u8> {
        match &self.pair {
            SoftPair::Curve(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            SoftPair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// The table of the policies for a person who enrolled this key.
    pub(crate) fn enrolled(&self, person: &str, page: &SigningPage) -> String {
        let (credential, key) = (&self.credential, encoded(self.cose()));
        let SigningPage { rp_id, .. } = page;
        let enrolment = format!(
            r#"{{"credential":"{credential}","key":"{key}","person":"{person}","rpId":"{rp_id}","statement":"sluice-passkey-1"}}"#
        );
        let proof = self.sign(&sha256(enrolment.as_bytes()), page).proof();
        format!(
            "[[passkey]]\nperson = \"{person}\"\nname = \"a key\"\ncredential = \"{credential}\"\nkey = \"{key}\"\nproof = \"{proof}\"\n"
        )
    }
}

impl SoftAssertion {
    pub(crate) fn proof(&self) -> String {
        [&self.authenticator_data, &self.client_data, &self.signature].map(encoded).join(".")
    }
}
