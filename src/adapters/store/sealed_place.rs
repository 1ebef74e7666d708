//! The place of a sealed value: its key is derived from it, and the value is bound to it.

use std::fmt;

use ring::aead::{AES_256_GCM, LessSafeKey, NONCE_LEN, UnboundKey};

use super::sealing_key::SealingKey;
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::ledger::RecordKey;

/// The first bytes of a sealed value. No plain value of Sluice begins so.
pub(super) const SEALED: &[u8] = b"\0sealed";
/// The byte behind them: the version of the format. What is sealed is packed.
pub(super) const FORMAT: u8 = 2;

/// The place that a value is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealedPlace<'p> {
    pub environment: Environment,
    pub kind: &'p str,
    pub name: &'p str,
}

impl SealedPlace<'_> {
    pub fn of(key: &RecordKey) -> SealedPlace<'_> {
        SealedPlace { environment: key.environment, kind: key.kind.as_str(), name: &key.name }
    }

    /// Returns the key of the place, and the bytes that bind a value to it.
    pub fn key(&self, sealing: &SealingKey) -> Option<(LessSafeKey, Vec<u8>)> {
        let bound = self.bound(sealing);
        let info = [bound.as_slice()];
        let key = LessSafeKey::new(UnboundKey::from(sealing.root.expand(&info, &AES_256_GCM).ok()?));
        Some((key, bound))
    }

    /// Each part has its length before it.
    fn bound(&self, sealing: &SealingKey) -> Vec<u8> {
        let (environment, kind, name) = (self.environment.as_str(), self.kind, self.name);
        let parts =
            [SEALED, &[FORMAT], sealing.id.as_bytes(), environment.as_bytes(), kind.as_bytes(), name.as_bytes()];
        let mut bound = Vec::with_capacity(parts.iter().map(|part| part.len().saturating_add(8)).sum());
        for part in parts {
            bound.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bound.extend_from_slice(part);
        }
        bound
    }
}

impl fmt::Display for SealedPlace<'_> {
    /// A name may reveal a payee, so a digest of it stands in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = Fingerprint::of(&[self.name.as_bytes()]).to_hex();
        let short = digest.get(..16).unwrap_or_default();
        write!(f, "the {} {short} (a digest of its name) in {}", self.kind, self.environment)
    }
}

/// Splits what is behind the first bytes of a sealed value into key id, nonce and ciphertext.
pub(super) fn parts(sealed: &[u8]) -> Option<(&str, [u8; NONCE_LEN], &[u8])> {
    let (length, rest) = sealed.strip_prefix(&[FORMAT])?.split_first()?;
    let (id, rest) = rest.split_at_checked(usize::from(*length))?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
    Some((std::str::from_utf8(id).ok()?, *nonce, sealed))
}
