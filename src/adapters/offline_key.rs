//! Private keys that lie in a file and sign away from any gate: Ed25519 and ES256, as PKCS#8 in PEM.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use zeroize::Zeroizing;

use super::random;
use crate::base::ed25519;
use crate::base::secret::Secret;
use crate::base::webauthn::PasskeyKey;
use crate::base::word_enum::word_enum;

/// The longest line of a PEM file.
const PEM_LINE: usize = 64;

word_enum! {
    /// How a key signs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OfflineAlgorithm {
        Ed25519 = "ed25519",
        Es256 = "es256",
    }
}

/// A private key.
pub struct OfflineKey(OfflinePair);

enum OfflinePair {
    Ed25519(Ed25519KeyPair),
    Es256(EcdsaKeyPair),
}

impl OfflineKey {
    /// Makes a key; returns the text of its file. `None` where the operating system gives no random bytes.
    pub fn make(algorithm: OfflineAlgorithm) -> Option<Secret> {
        match algorithm {
            OfflineAlgorithm::Ed25519 => {
                let seed = Zeroizing::new(random::bytes::<32>()?);
                Some(ed25519::to_pem(&seed))
            }
            OfflineAlgorithm::Es256 => {
                let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).ok()?;
                let text = Zeroizing::new(STANDARD.encode(made.as_ref()));
                let mut pem = Zeroizing::new(String::from("-----BEGIN PRIVATE KEY-----\n"));
                for (at, letter) in text.chars().enumerate() {
                    if at > 0 && at.is_multiple_of(PEM_LINE) {
                        pem.push('\n');
                    }
                    pem.push(letter);
                }
                pem.push_str("\n-----END PRIVATE KEY-----\n");
                Some(Secret::new(pem.to_string()))
            }
        }
    }

    /// Reads the first key of a PEM file.
    pub fn of_pem(pem: &[u8]) -> Option<OfflineKey> {
        if let Some(pair) = ed25519::of_pem(pem) {
            return Some(OfflineKey(OfflinePair::Ed25519(pair)));
        }
        let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.secret_der(), &SystemRandom::new()).ok()?;
        Some(OfflineKey(OfflinePair::Es256(pair)))
    }

    pub fn public(&self) -> Option<PasskeyKey> {
        let bytes = match &self.0 {
            OfflinePair::Ed25519(pair) => pair.public_key().as_ref(),
            OfflinePair::Es256(pair) => pair.public_key().as_ref(),
        };
        PasskeyKey::of_public(bytes).ok()
    }

    /// Signs a message; `None` where the operating system gives no random bytes.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            OfflinePair::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
            OfflinePair::Es256(pair) => Some(pair.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for OfflineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfflineKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_each_kind_is_read_again_and_signs() {
        for algorithm in OfflineAlgorithm::ALL {
            let pem = OfflineKey::make(algorithm).unwrap();
            let key = OfflineKey::of_pem(pem.reveal().as_bytes()).unwrap();
            let public = key.public().unwrap();
            let signature = key.sign(b"message").unwrap();
            assert!(public.signed(b"message", &signature) && !public.signed(b"other", &signature), "{algorithm}");
            assert_eq!(PasskeyKey::of_cose(&public.to_cose()), Ok(public), "{algorithm}");
            assert!(pem.reveal().lines().all(|line| line.len() <= PEM_LINE), "{algorithm}");
        }
        assert!(OfflineKey::of_pem(b"").is_none());
    }
}
