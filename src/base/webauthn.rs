//! Verifies signatures of passkeys (WebAuthn): ES256 and EdDSA, for keys that are known before.
//!
//! Everything is strict, and what is not needed is refused: a key has one form of bytes, an assertion has no extensions,
//! the browser's data names exactly one challenge and one of the permitted origins, and the person was verified.

use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::digest::plain_sha256;
use super::json::{self, Limits, written_as};
use super::word_enum::word_enum;

/// The canonical CBOR of a COSE key around its numbers: ES256 on P-256, its two coordinates.
const ES256_HEAD: [u8; 10] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
const ES256_BETWEEN: [u8; 3] = [0x22, 0x58, 0x20];
/// The same for EdDSA on Ed25519.
const EDDSA_HEAD: [u8; 10] = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
/// The first byte of a point with both coordinates.
const UNCOMPRESSED: u8 = 0x04;

/// The y coordinates of Ed25519's points of small order, in every encoding, least significant byte first: anyone can sign
/// for such a key.
const SMALL_ORDER: [[u8; 32]; 7] = [
    repeated(0x00, 0x00, 0x00),
    repeated(0x01, 0x00, 0x00),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    repeated(0xec, 0xff, 0x7f),
    repeated(0xed, 0xff, 0x7f),
    repeated(0xee, 0xff, 0x7f),
];

const fn repeated(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    let [head, .., tail] = &mut bytes;
    (*head, *tail) = (first, last);
    bytes
}

/// The length of authenticator data without a new key and without extensions.
const AUTHENTICATOR_BYTES: usize = 37;
/// More than any browser writes.
const MAX_CLIENT_BYTES: usize = 4096;
const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const HAS_NEW_KEY: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;

word_enum! {
    /// Whether keys count that their maker's cloud can copy to other devices.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SyncedKeys {
        Allow = "allow",
        Refuse = "refuse",
    }
}

/// The public key of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyKey {
    algorithm: PasskeyAlgorithm,
    point: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PasskeyAlgorithm {
    Es256,
    EdDsa,
}

/// The reasons why bytes are no public key of a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PasskeyKeyError {
    #[error("it is no COSE key of ES256 (P-256) or EdDSA (Ed25519)")]
    Form,
    #[error("it is a point of small order, for which anyone can sign")]
    SmallOrder,
}

/// The answer of an authenticator: what it signed, and its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assertion {
    #[serde(with = "written_as::base64url")]
    pub authenticator_data: Vec<u8>,
    /// JSON, as the browser wrote it.
    #[serde(with = "written_as::base64url")]
    pub client_data: Vec<u8>,
    #[serde(with = "written_as::base64url")]
    pub signature: Vec<u8>,
}

/// The demands on an assertion.
#[derive(Clone, Copy)]
pub struct AssertionTerms<'t> {
    pub rp_id: &'t str,
    pub challenge: &'t [u8],
    pub synced: SyncedKeys,
    /// Whether a page of this origin may have asked for it.
    pub takes_origin: &'t dyn Fn(&str) -> bool,
}

/// The reasons why an assertion is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AssertionError {
    #[error("the authenticator's data has another form than for a signature without extensions")]
    AuthenticatorData,
    #[error("the key belongs to another domain than `rp_id`")]
    OtherDomain,
    #[error("the authenticator did not verify the person, by PIN or biometrics")]
    NotVerified,
    #[error("the key is synced to other devices, and `synced` refuses such keys")]
    Synced,
    #[error("the browser's data cannot be read, or is for something else than a signature")]
    ClientData,
    #[error("it is for another challenge")]
    OtherChallenge,
    #[error("a page of another origin asked for it, or a page inside of another")]
    OtherOrigin,
    #[error("the signature is not of this key")]
    Signature,
    #[error("the key is none of this person's in the policies in force")]
    UnknownKey,
}

impl PasskeyKey {
    /// Reads a COSE key in its canonical form, the only one that authenticators write.
    pub fn of_cose(bytes: &[u8]) -> Result<PasskeyKey, PasskeyKeyError> {
        if let Some(point) = bytes.strip_prefix(&EDDSA_HEAD) {
            let point: [u8; 32] = point.try_into().map_err(|_| PasskeyKeyError::Form)?;
            let mut y = point;
            // The sign of x.
            let [.., last] = &mut y;
            *last &= 0x7f;
            if SMALL_ORDER.contains(&y) {
                return Err(PasskeyKeyError::SmallOrder);
            }
            return Ok(PasskeyKey { algorithm: PasskeyAlgorithm::EdDsa, point: point.to_vec() });
        }
        let numbers = bytes.strip_prefix(&ES256_HEAD).and_then(|rest| rest.split_at_checked(32));
        let (x, rest) = numbers.ok_or(PasskeyKeyError::Form)?;
        let y = rest.strip_prefix(&ES256_BETWEEN).filter(|y| y.len() == 32).ok_or(PasskeyKeyError::Form)?;
        let point = [&[UNCOMPRESSED], x, y].concat();
        Ok(PasskeyKey { algorithm: PasskeyAlgorithm::Es256, point })
    }

    /// Reads a public key as its private key has it: 32 bytes of Ed25519, or a point of P-256.
    pub fn of_public(bytes: &[u8]) -> Result<PasskeyKey, PasskeyKeyError> {
        let point = bytes.strip_prefix(&[UNCOMPRESSED]).filter(|point| point.len() == 64);
        match point.and_then(|point| point.split_at_checked(32)) {
            Some((x, y)) => PasskeyKey::of_cose(&[ES256_HEAD.as_slice(), x, &ES256_BETWEEN, y].concat()),
            None => PasskeyKey::of_cose(&[EDDSA_HEAD.as_slice(), bytes].concat()),
        }
    }

    pub fn to_cose(&self) -> Vec<u8> {
        match (self.algorithm, self.point.get(1..33), self.point.get(33..)) {
            (PasskeyAlgorithm::Es256, Some(x), Some(y)) => [&ES256_HEAD, x, &ES256_BETWEEN, y].concat(),
            _ => [EDDSA_HEAD.as_slice(), &self.point].concat(),
        }
    }

    /// Returns whether this key signed a message. A point that is not on the curve signs nothing.
    pub fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.algorithm {
            PasskeyAlgorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point).verify(message, signature)
            }
            PasskeyAlgorithm::EdDsa => UnparsedPublicKey::new(&ED25519, &self.point).verify(message, signature),
        }
        .is_ok()
    }
}

impl Assertion {
    /// Verifies an assertion with a known key, and returns the authenticator's counter. The counter of a key that is
    /// synced, and of many others, is always 0.
    pub fn verify(&self, key: &PasskeyKey, terms: AssertionTerms<'_>) -> Result<u32, AssertionError> {
        let counter = self.meets(terms)?;
        let hash = plain_sha256(&self.client_data);
        let message = [self.authenticator_data.as_slice(), &hash].concat();
        if key.signed(&message, &self.signature) { Ok(counter) } else { Err(AssertionError::Signature) }
    }

    /// Verifies everything but the signature; returns the authenticator's counter.
    pub fn meets(&self, terms: AssertionTerms<'_>) -> Result<u32, AssertionError> {
        let counter = verified_by_authenticator(&self.authenticator_data, terms)?;
        asked_by_browser(&self.client_data, terms)?;
        Ok(counter)
    }
}

/// Returns the code by which a person compares a challenge on two screens: the first 60 bits of the SHA-256 of a salt and the
/// challenge, in base 32, in groups of four. Whoever makes the challenge does not know the salt before, so nobody looks for two
/// statements with one code.
pub fn challenge_code(salt: &[u8], challenge: &[u8; 32]) -> String {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = plain_sha256(&[salt, challenge].concat());
    let first = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let digit = |nth: u32| {
        let value = u32::try_from((first >> (59 - 5 * nth)) & 31).unwrap_or_default();
        char::from_digit(value, 32).unwrap_or_default().to_ascii_uppercase()
    };
    let group = |nth: u32| (4 * nth..4 * nth + 4).map(digit).collect::<String>();
    [group(0), group(1), group(2)].join("-")
}

fn verified_by_authenticator(data: &[u8], terms: AssertionTerms<'_>) -> Result<u32, AssertionError> {
    let data: &[u8; AUTHENTICATOR_BYTES] = data.try_into().map_err(|_| AssertionError::AuthenticatorData)?;
    let [domain @ .., flags, c3, c2, c1, c0] = data;
    if flags & (HAS_NEW_KEY | HAS_EXTENSIONS) != 0 || flags & (BACKUP_ELIGIBLE | BACKED_UP) == BACKED_UP {
        return Err(AssertionError::AuthenticatorData);
    }
    if *domain != plain_sha256(terms.rp_id.as_bytes()) {
        return Err(AssertionError::OtherDomain);
    }
    if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
        return Err(AssertionError::NotVerified);
    }
    if terms.synced == SyncedKeys::Refuse && flags & BACKUP_ELIGIBLE != 0 {
        return Err(AssertionError::Synced);
    }
    Ok(u32::from_be_bytes([*c3, *c2, *c1, *c0]))
}

fn asked_by_browser(data: &[u8], terms: AssertionTerms<'_>) -> Result<(), AssertionError> {
    if data.len() > MAX_CLIENT_BYTES {
        return Err(AssertionError::ClientData);
    }
    let data = json::parse(data, Limits::ANSWER).map_err(|_| AssertionError::ClientData)?;
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    if text("type") != Some("webauthn.get") {
        return Err(AssertionError::ClientData);
    }
    if text("challenge") != Some(written_as::base64url::encoded(terms.challenge).as_str()) {
        return Err(AssertionError::OtherChallenge);
    }
    let is_inside_another = !matches!(data.get("crossOrigin"), None | Some(Value::Bool(false)));
    if is_inside_another || data.get("topOrigin").is_some() || !text("origin").is_some_and(terms.takes_origin) {
        return Err(AssertionError::OtherOrigin);
    }
    Ok(())
}

impl std::fmt::Debug for AssertionTerms<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssertionTerms").field("rp_id", &self.rp_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
