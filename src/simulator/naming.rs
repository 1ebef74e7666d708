//! Identifiers, hashes and addresses that look random but are not: the same seed and name always give the same result.

use sha2::{Digest as _, Sha256};

use crate::base::digest::hex;

/// The seed of all names of one simulator.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameSource {
    seed: u64,
}

impl NameSource {
    pub(super) fn new(seed: u64) -> NameSource {
        NameSource { seed }
    }

    /// Returns a UUID in the form of version 4.
    pub(super) fn uuid(self, name: &str) -> String {
        let digest = self.digest("uuid", name);
        let bytes = digest.first_chunk::<16>().copied().unwrap_or_default();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// `0x` and 64 digits.
    pub(super) fn transaction_hash(self, name: &str) -> String {
        format!("0x{}", hex(&self.digest("hash", name)))
    }

    /// `0x` and 40 digits, in lower case.
    pub(super) fn evm_address(self, name: &str) -> String {
        let bytes = self.digest("address", name);
        format!("0x{}", hex(bytes.first_chunk::<20>().map_or(&[][..], |b| &b[..])))
    }

    /// Returns a number below a hundred, for chances.
    pub(super) fn percentile(self, name: &str) -> u8 {
        let bytes = self.digest("percentile", name);
        let number = u64::from_be_bytes(bytes.first_chunk::<8>().copied().unwrap_or_default());
        u8::try_from(number % 100).unwrap_or(0)
    }

    /// Returns decimal digits, at most 32: for account numbers and bank references.
    pub(super) fn digits(self, name: &str, count: usize) -> String {
        self.digest("digits", name).iter().take(count).map(|b| char::from(b'0' + b % 10)).collect()
    }

    fn digest(self, kind: &str, name: &str) -> [u8; 32] {
        let text = format!("sluice simulator/{}/{kind}/{name}", self.seed);
        Sha256::digest(text.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_well_formed() {
        let naming = NameSource::new(1);
        let id = naming.uuid("user/ada");
        assert_eq!(id, naming.uuid("user/ada"));
        assert_ne!(id, naming.uuid("user/ben"));
        assert_ne!(id, NameSource::new(2).uuid("user/ada"));
        assert!(crate::base::normal::is_uuid(&id) && id.chars().nth(14) == Some('4'), "{id}");
        assert_eq!(naming.evm_address("x").len(), 42);
        assert_eq!(naming.transaction_hash("x").len(), 66);
        assert_eq!(naming.digits("x", 9).len(), 9);
    }
}
