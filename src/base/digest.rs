//! SHA-256 digests.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::json::written_as_text;

/// The identity of an exact request: operation, method, path and body bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Each part is preceded by its length, so that no two lists of parts give the same digest.
    pub fn of(parts: &[&[u8]]) -> Fingerprint {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Fingerprint(hash.finalize().into())
    }

    /// Takes the output of [`plain_sha256`].
    pub fn of_sha256(digest: [u8; 32]) -> Fingerprint {
        Fingerprint(digest)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first byte, for sorting digests into shards.
    pub fn first_byte(self) -> u8 {
        let [first, ..] = self.0;
        first
    }

    /// Parses the output of [`Fingerprint::to_hex`].
    pub fn of_hex(text: &str) -> Option<Fingerprint> {
        let mut bytes = [0_u8; 32];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Fingerprint(bytes))
    }

    pub fn to_hex(self) -> String {
        hex(&self.0)
    }
}

written_as_text!(Fingerprint, to_hex, Fingerprint::of_hex, "a digest");

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Returns the SHA-256 of some bytes, as every other tool computes it.
pub fn plain_sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(nibble.wrapping_add(if nibble < 10 { b'0' } else { b'a' - 10 }));
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xf));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_one_part_ends_matters() {
        assert_ne!(Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
        let fingerprint = Fingerprint::of(&[b"ab"]);
        assert_eq!(Fingerprint::of_hex(&fingerprint.to_hex()), Some(fingerprint));
        assert_eq!(Fingerprint::of_hex("ab"), None);
    }
}
