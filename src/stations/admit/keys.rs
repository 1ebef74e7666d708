//! The keys of an issuer.

use std::collections::BTreeSet;
use std::fmt;

use aws_lc_rs::{hmac, signature};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::server::ParsedCertificate;
use serde_json::{Map, Value};

use super::algorithm::{Algorithm, KeyKind};
use crate::base::json::{self, Limits};
use crate::base::secret::Secret;

/// The most keys of a set.
const MOST_KEYS: usize = 100;
/// The shortest modulus that is taken, in bytes.
const RSA_BYTES: usize = 256;

/// Keys that can verify signatures, and none that could make one but a shared secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, where the set says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    Curve {
        kind: KeyKind,
        point: Vec<u8>,
    },
    /// A public key in X.509's form, of whatever kind.
    Public(Vec<u8>),
    Shared(Vec<u8>),
}

/// Why a set of keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    Json(json::JsonError),
    NotASet,
    TooMany,
    /// Two keys with one id: which is meant?
    SameId,
    NoneUsable,
    Pem,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFault::Json(error) => write!(f, "it is not JSON: {error}"),
            KeyFault::NotASet => f.write_str("it is not a JSON Web Key Set: an object with a list `keys`"),
            KeyFault::TooMany => write!(f, "it has more than {MOST_KEYS} keys"),
            KeyFault::SameId => f.write_str("two of its keys have the same `kid`"),
            KeyFault::NoneUsable => f.write_str("it has no key that can verify a signature"),
            KeyFault::Pem => f.write_str("it is not one public key in PEM"),
        }
    }
}

impl std::error::Error for KeyFault {}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of unknown kinds and those that are not for signatures are passed over.
    pub fn from_jwks(text: &[u8]) -> Result<KeySet, KeyFault> {
        let set = json::parse(text, Limits::ANSWER).map_err(KeyFault::Json)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeyFault::NotASet)?;
        if listed.len() > MOST_KEYS {
            return Err(KeyFault::TooMany);
        }
        let keys: Vec<Key> = listed.iter().filter_map(Value::as_object).filter_map(Key::from_jwk).collect();
        let mut ids = BTreeSet::new();
        if !keys.iter().filter_map(|key| key.id.as_deref()).all(|id| ids.insert(id)) {
            return Err(KeyFault::SameId);
        }
        if keys.is_empty() { Err(KeyFault::NoneUsable) } else { Ok(KeySet { keys }) }
    }

    /// Reads one public key, or that of a certificate.
    pub fn from_pem(text: &[u8]) -> Result<KeySet, KeyFault> {
        if let Ok(key) = SubjectPublicKeyInfoDer::from_pem_slice(text) {
            return Ok(KeySet::of(Material::Public(key.to_vec())));
        }
        let certificate = CertificateDer::from_pem_slice(text).map_err(|_| KeyFault::Pem)?;
        let parsed = ParsedCertificate::try_from(&certificate).map_err(|_| KeyFault::Pem)?;
        Ok(KeySet::of(Material::Public(parsed.subject_public_key_info().to_vec())))
    }

    pub fn shared(secret: &Secret) -> KeySet {
        KeySet::of(Material::Shared(secret.reveal().as_bytes().to_vec()))
    }

    fn of(material: Material) -> KeySet {
        KeySet { keys: vec![Key { id: None, algorithm: None, material }] }
    }

    /// Whether a key could have made signatures with this id and algorithm.
    pub(super) fn knows(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.candidates(id, algorithm).next().is_some()
    }

    pub(super) fn verify(&self, id: Option<&str>, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.candidates(id, algorithm).any(|key| key.material.verify(algorithm, message, signature))
    }

    fn candidates<'k>(&'k self, id: Option<&'k str>, algorithm: Algorithm) -> impl Iterator<Item = &'k Key> {
        let fits = move |key: &&Key| {
            let same_id = match (id, key.id.as_deref()) {
                (Some(wanted), Some(own)) => wanted == own,
                (None, _) | (_, None) => true,
            };
            same_id && key.algorithm.is_none_or(|own| own == algorithm) && key.material.is_for(algorithm)
        };
        self.keys.iter().filter(fits)
    }
}

impl Key {
    fn from_jwk(jwk: &Map<String, Value>) -> Option<Key> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let for_signatures = text("use").is_none_or(|of| of == "sig");
        let to_verify =
            jwk.get("key_ops").and_then(Value::as_array).is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures || !to_verify {
            return None;
        }
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::parse(name)?),
        };
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let modulus = bytes("n")?;
                let significant = modulus.iter().skip_while(|byte| **byte == 0).count();
                (significant >= RSA_BYTES).then_some(Material::Rsa { modulus, exponent: bytes("e")? })?
            }
            ("EC", Some("P-256")) => Material::point(KeyKind::P256, 32, bytes("x")?, bytes("y")?)?,
            ("EC", Some("P-384")) => Material::point(KeyKind::P384, 48, bytes("x")?, bytes("y")?)?,
            ("EC", Some("P-521")) => Material::point(KeyKind::P521, 66, bytes("x")?, bytes("y")?)?,
            ("OKP", Some("Ed25519")) => Material::Curve { kind: KeyKind::Ed25519, point: bytes("x")? },
            // A secret has no place in a set that others can read.
            _ => return None,
        };
        Some(Key { id: text("kid").map(str::to_owned), algorithm, material })
    }
}

impl Material {
    fn point(kind: KeyKind, length: usize, x: Vec<u8>, y: Vec<u8>) -> Option<Material> {
        let whole = x.len() == length && y.len() == length;
        whole.then(|| Material::Curve { kind, point: [&[4], x.as_slice(), y.as_slice()].concat() })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Material::Rsa { .. } => algorithm.kind() == KeyKind::Rsa,
            Material::Curve { kind, .. } => algorithm.kind() == *kind,
            Material::Public(_) => algorithm.kind() != KeyKind::Shared,
            Material::Shared(_) => algorithm.kind() == KeyKind::Shared,
        }
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let public = |bytes: &[u8]| match (algorithm.rsa(), algorithm.curve()) {
            (Some(rsa), _) => signature::UnparsedPublicKey::new(rsa, bytes).verify(message, signature).is_ok(),
            (None, Some(curve)) => signature::UnparsedPublicKey::new(curve, bytes).verify(message, signature).is_ok(),
            (None, None) => false,
        };
        match self {
            Material::Rsa { modulus, exponent } => algorithm.rsa().is_some_and(|parameters| {
                let key = signature::RsaPublicKeyComponents { n: modulus.as_slice(), e: exponent.as_slice() };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Curve { point, .. } => public(point),
            Material::Public(key) => public(key),
            Material::Shared(secret) => algorithm
                .hmac()
                .is_some_and(|hash| hmac::verify(&hmac::Key::new(hash, secret), message, signature).is_ok()),
        }
    }
}

impl fmt::Debug for Key {
    /// A shared secret is never seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
