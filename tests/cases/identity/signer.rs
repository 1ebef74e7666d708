//! Key pairs of issuers, made for one test.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Signer {
    id: String,
    pair: Pair,
    /// The public key, as PEM.
    pem: String,
}

#[derive(Debug)]
enum Pair {
    Ed(Ed25519KeyPair),
    Curve(EcdsaKeyPair),
    Shared(String),
}

/// A private key as PKCS#8, and its public key as PEM.
fn generate(algorithm: &'static SignatureAlgorithm) -> (Vec<u8>, String) {
    let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
    (pair.serialize_der(), pair.public_key_pem())
}

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(super) fn ed(id: &str) -> Signer {
        let (der, pem) = generate(&PKCS_ED25519);
        Signer { id: id.to_owned(), pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(&der).unwrap()), pem }
    }

    pub(super) fn curve(id: &str) -> Signer {
        let (der, pem) = generate(&PKCS_ECDSA_P256_SHA256);
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        Signer { id: id.to_owned(), pair: Pair::Curve(pair.unwrap()), pem }
    }

    pub(super) fn shared(secret: &str) -> Signer {
        Signer { id: "shared".to_owned(), pair: Pair::Shared(secret.to_owned()), pem: String::new() }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed(_) => "EdDSA",
            Pair::Curve(_) => "ES256",
            Pair::Shared(_) => "HS256",
        }
    }

    pub(super) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": encoded(pair.public_key())})
            }
            Pair::Curve(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": encoded(x), "y": encoded(y)})
            }
            Pair::Shared(secret) => json!({"kty": "oct", "kid": self.id, "k": encoded(secret)}),
        }
    }

    /// The public key, as PEM.
    pub(super) fn pem(&self) -> String {
        assert!(!self.pem.is_empty(), "a shared secret has no public key");
        self.pem.clone()
    }

    pub(super) fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "kid": self.id, "typ": "JWT"})
    }

    /// A token that says this.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    pub(super) fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.token_of(&header.to_string(), &claims.to_string())
    }

    /// Of header and claims as they are written.
    pub(super) fn token_of(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = match &self.pair {
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Pair::Curve(pair) => pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Shared(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{message}.{}", encoded(signature))
    }
}
