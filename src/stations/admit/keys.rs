//! The verification keys of an issuer.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{hmac, signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::server::ParsedCertificate;
use serde_json::{Map, Value};
use thiserror::Error;
use x509_parser::oid_registry::{OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_SIG_ED25519};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::algorithm::{Algorithm, KeyKind};
use crate::base::json::{self, Limits};
use crate::base::secret::Secret;

/// The most keys of a set that are used.
const MAX_KEYS: usize = 100;
/// The shortest RSA modulus, in bytes.
const RSA_BYTES: usize = 256;

/// Keys that verify signatures. Only a shared secret among them could also make one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
    warnings: Vec<KeyWarning>,
}

#[derive(Clone, PartialEq, Eq)]
struct VerificationKey {
    id: Option<String>,
    /// The only algorithm of this key, where the set states one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Curve { kind: KeyKind, point: Vec<u8> },
    Shared(Vec<u8>),
}

/// The reasons why a set of keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyFault {
    #[error("it is not JSON: {0}")]
    Json(json::JsonError),
    #[error("it is not a JSON Web Key Set: an object with a list `keys`")]
    NotASet,
    #[error("it has no key that can verify a signature")]
    NoneUsable,
    #[error("it is not one public key in PEM of a supported kind (RSA of 2048 bits or more, P-256, P-384, Ed25519)")]
    Pem,
}

/// A part of a set of keys that is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum KeyWarning {
    #[error("different keys have the same `kid`, kind and algorithm: each of them is tried")]
    SameId,
    #[error("it has more than {MAX_KEYS} keys: only the first ones are used")]
    TooMany,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of unknown kinds and keys that are not for signatures are skipped.
    pub fn from_jwks(text: &[u8]) -> Result<KeySet, KeyFault> {
        let set = json::parse(text, Limits::UPSTREAM_TREE).map_err(KeyFault::Json)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeyFault::NotASet)?;
        let (mut keys, mut warnings) = (Vec::new(), Vec::new());
        for key in listed.iter().filter_map(Value::as_object).filter_map(VerificationKey::from_jwk) {
            if keys.contains(&key) {
                continue;
            }
            if keys.len() >= MAX_KEYS {
                warnings.push(KeyWarning::TooMany);
                break;
            }
            keys.push(key);
        }
        if keys.iter().any(|key| keys.iter().filter(|other| key.is_named_as(other)).count() > 1) {
            warnings.push(KeyWarning::SameId);
        }
        if keys.is_empty() { Err(KeyFault::NoneUsable) } else { Ok(KeySet { keys, warnings }) }
    }

    /// Returns what of the set is not used, and should be mended.
    pub fn warnings(&self) -> &[KeyWarning] {
        &self.warnings
    }

    /// Reads one public key, or the key of a certificate.
    pub fn from_pem(text: &[u8]) -> Result<KeySet, KeyFault> {
        if let Ok(key) = SubjectPublicKeyInfoDer::from_pem_slice(text) {
            return Material::from_der(&key).map(KeySet::of).ok_or(KeyFault::Pem);
        }
        let certificate = CertificateDer::from_pem_slice(text).map_err(|_| KeyFault::Pem)?;
        let parsed = ParsedCertificate::try_from(&certificate).map_err(|_| KeyFault::Pem)?;
        Material::from_der(&parsed.subject_public_key_info()).map(KeySet::of).ok_or(KeyFault::Pem)
    }

    pub fn shared(secret: &Secret) -> KeySet {
        KeySet::of(Material::Shared(secret.reveal().as_bytes().to_vec()))
    }

    fn of(material: Material) -> KeySet {
        KeySet { keys: vec![VerificationKey { id: None, algorithm: None, material }], warnings: Vec::new() }
    }

    /// Returns whether a key of this set could have made a signature with this id and algorithm.
    pub(super) fn knows(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.candidates(id, algorithm).next().is_some()
    }

    /// Returns whether an id names a key of this set.
    pub(super) fn names(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        id.is_some() && self.candidates(id, algorithm).any(|key| key.id.as_deref() == id)
    }

    pub(super) fn verify(&self, id: Option<&str>, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.candidates(id, algorithm).any(|key| key.material.verify(algorithm, message, signature))
    }

    fn candidates<'k>(
        &'k self,
        id: Option<&'k str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'k VerificationKey> {
        let fits = move |key: &&VerificationKey| {
            let same_id = match (id, key.id.as_deref()) {
                (Some(wanted), Some(own)) => wanted == own,
                (None, _) | (_, None) => true,
            };
            same_id && key.algorithm.is_none_or(|own| own == algorithm) && key.material.kind() == algorithm.kind()
        };
        self.keys.iter().filter(fits)
    }
}

impl KeyKind {
    /// Returns the kind of a public key in DER (SubjectPublicKeyInfo), or `None` if no algorithm here can use the key.
    pub fn of_public_key(der: &[u8]) -> Option<KeyKind> {
        Material::from_der(der).map(|material| material.kind())
    }
}

impl VerificationKey {
    fn from_jwk(jwk: &Map<String, Value>) -> Option<VerificationKey> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let for_signatures = text("use").is_none_or(|of| of == "sig");
        let to_verify =
            jwk.get("key_ops").and_then(Value::as_array).is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures || !to_verify {
            return None;
        }
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::named(name)?),
        };
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::rsa(&bytes("n")?, &bytes("e")?)?,
            ("EC", Some("P-256")) => Material::coordinates(KeyKind::P256, 32, &bytes("x")?, &bytes("y")?)?,
            ("EC", Some("P-384")) => Material::coordinates(KeyKind::P384, 48, &bytes("x")?, &bytes("y")?)?,
            ("OKP", Some("Ed25519")) => Material::Curve { kind: KeyKind::Ed25519, point: bytes("x")? },
            // A shared secret must not be in a set that others can read.
            _ => return None,
        };
        let fits = algorithm.is_none_or(|algorithm| algorithm.kind() == material.kind());
        fits.then(|| VerificationKey { id: text("kid").map(str::to_owned), algorithm, material })
    }

    /// Whether a token that names one of them may mean the other.
    fn is_named_as(&self, other: &VerificationKey) -> bool {
        self.id.is_some()
            && self.id == other.id
            && self.algorithm == other.algorithm
            && self.material.kind() == other.material.kind()
    }
}

impl Material {
    /// Reads a public key in DER (SubjectPublicKeyInfo).
    fn from_der(der: &[u8]) -> Option<Material> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let bits = info.subject_public_key.data.as_ref();
        match info.parsed().ok()? {
            PublicKey::RSA(key) => Material::rsa(key.modulus, key.exponent),
            PublicKey::EC(_) if info.algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY => {
                let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
                let kinds = [(OID_EC_P256, KeyKind::P256), (OID_NIST_EC_P384, KeyKind::P384)];
                let kind = kinds.into_iter().find(|(id, _)| *id == curve)?.1;
                // Verification takes uncompressed points only.
                let coordinate_bytes = if kind == KeyKind::P256 { 32 } else { 48 };
                let is_uncompressed = bits.first() == Some(&4) && bits.len() == 1 + 2 * coordinate_bytes;
                is_uncompressed.then(|| Material::Curve { kind, point: bits.to_vec() })
            }
            _ if info.algorithm.algorithm == OID_SIG_ED25519 && bits.len() == 32 => {
                Some(Material::Curve { kind: KeyKind::Ed25519, point: bits.to_vec() })
            }
            _ => None,
        }
    }

    /// Numbers may begin with zeros, as those of some issuers do.
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Material> {
        let significant = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
        let (modulus, exponent) = (significant(modulus), significant(exponent));
        (modulus.len() >= RSA_BYTES).then_some(Material::Rsa { modulus, exponent })
    }

    fn coordinates(kind: KeyKind, length: usize, x: &[u8], y: &[u8]) -> Option<Material> {
        let is_whole = x.len() == length && y.len() == length;
        is_whole.then(|| Material::Curve { kind, point: [&[4], x, y].concat() })
    }

    fn kind(&self) -> KeyKind {
        match self {
            Material::Rsa { .. } => KeyKind::Rsa,
            Material::Curve { kind, .. } => *kind,
            Material::Shared(_) => KeyKind::Shared,
        }
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Material::Rsa { modulus, exponent } => algorithm.rsa().is_some_and(|parameters| {
                let key = signature::RsaPublicKeyComponents { n: modulus.as_slice(), e: exponent.as_slice() };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Curve { point, .. } => algorithm.curve().is_some_and(|curve| {
                signature::UnparsedPublicKey::new(curve, point).verify(message, signature).is_ok()
            }),
            Material::Shared(secret) => algorithm
                .hmac()
                .is_some_and(|hash| hmac::verify(&hmac::Key::new(hash, secret), message, signature).is_ok()),
        }
    }
}

impl fmt::Debug for VerificationKey {
    /// Debug output never shows a shared secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
