//! The salted digests of lines that a tree has as its leaves.

use std::fmt;

use ring::hmac;

use super::hash::Hash;

/// The salts of one journal.
#[derive(Clone)]
pub struct Salts(hmac::Key);

impl Salts {
    pub fn of(secret: &[u8; 32]) -> Salts {
        Salts(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns what tells these salts from others, and nothing of them.
    pub fn name(&self) -> [u8; 8] {
        digest(&self.0, b"the name of the log").first_chunk().copied().unwrap_or_default()
    }

    /// Returns the salt of the line at an index.
    pub fn salt(&self, index: u64) -> [u8; 32] {
        digest(&self.0, &index.to_be_bytes())
    }

    /// Returns what the tree has of a line: a digest of the line's hash.
    pub fn leaf(&self, index: u64, line: Hash) -> [u8; 32] {
        salted(&self.salt(index), line)
    }
}

impl fmt::Debug for Salts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salts")
    }
}

/// Returns the digest of a line's hash under a salt.
pub fn salted(salt: &[u8; 32], line: Hash) -> [u8; 32] {
    digest(&hmac::Key::new(hmac::HMAC_SHA256, salt), line.as_bytes())
}

fn digest(key: &hmac::Key, bytes: &[u8]) -> [u8; 32] {
    // An HMAC with SHA-256 has 32 bytes.
    hmac::sign(key, bytes).as_ref().try_into().unwrap_or_default()
}
