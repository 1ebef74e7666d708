//! A key that seals what is stored.

use std::fmt;

use ring::hkdf;
use thiserror::Error;

use crate::base::key_bytes::{is_key_id, key_bytes};
use crate::base::secret::Secret;

/// A key that seals records.
#[derive(Clone)]
pub struct SealingKey {
    pub(super) id: String,
    pub(super) root: hkdf::Prk,
}

impl SealingKey {
    /// `id`: 1 to 64 of `A-Za-z0-9._-`. `secret`: 32 random bytes, as base64 or as 64 hexadecimal digits.
    pub fn new(id: &str, secret: &Secret) -> Result<SealingKey, SealingKeyError> {
        if !is_key_id(id) {
            return Err(SealingKeyError::Id);
        }
        let bytes = key_bytes(secret.reveal().trim()).ok_or(SealingKeyError::Secret)?;
        Ok(SealingKey { id: id.to_owned(), root: hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &bytes) })
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

/// Why a text is not a sealing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealingKeyError {
    #[error("the id of a key is 1 to 64 of `A-Za-z0-9._-`")]
    Id,
    #[error("a key is 32 random bytes, as base64 or as 64 hexadecimal digits: make one with `openssl rand -hex 32`")]
    Secret,
}
