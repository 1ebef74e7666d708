//! The hash that links a line to the one before it.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::base::digest::hex;
use crate::base::json::written_as_text;

/// SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash before the first line of a node's first file.
    pub const NOTHING: Hash = Hash([0; 32]);

    /// Hashes the parts, one after the other.
    pub fn of(parts: &[&[u8]]) -> Hash {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Hash(hash.finalize().into())
    }

    /// The bytes of a SHA-256.
    pub fn of_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Hash> {
        let digit = |b: u8| match b {
            b'0'..=b'9' => Some(b.wrapping_sub(b'0')),
            b'a'..=b'f' => Some(b.wrapping_sub(b'a').wrapping_add(10)),
            _ => None,
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let mut hash = [0; 32];
        if pairs.len() != hash.len() {
            return None;
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Hash(hash))
    }
}

written_as_text!(Hash, to_string, Hash::parse, "64 hexadecimal digits");

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = Hash::of(&[b"a", b"b"]);
        assert_eq!(hash, Hash::of(&[b"ab"]));
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse(&hash.to_string().to_uppercase()), None);
        assert_eq!(Hash::parse("00"), None);
        assert_eq!(Hash::parse(&"0".repeat(64)), Some(Hash::NOTHING));
    }
}
