//! The seal of the sum of a store's content, and the key with which the sum is made.

use bytes::Bytes;
use ring::hmac;

use super::sealed::Seals;
use super::sealed_place::{SEALED, SealedPlace, parts};
use crate::base::ids::Environment;
use crate::ledger::StoreFault;

/// The kind under which the sum is sealed; no record has it.
const SUM: &str = "sum";

/// The sum of a store's content, and the key with which it is made.
#[derive(Debug)]
pub(super) struct OpenedSum {
    pub key: hmac::Key,
    /// Whether the key is the one that seals now.
    pub is_current: bool,
    pub sum: Bytes,
}

impl Seals {
    /// Returns the key with which the sum of a store's content is made.
    pub(super) fn sum_key(&self) -> Result<hmac::Key, StoreFault> {
        let failed = || StoreFault::Away("the key of a sum could not be made".to_owned());
        let Some(sealing) = self.keys.first() else { return Ok(hmac::Key::new(hmac::HMAC_SHA256, &[])) };
        let info = [SUM.as_bytes()];
        sealing.root.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from).map_err(|_| failed())
    }

    /// Seals a sum, and binds it to the numbers of the latest commits.
    pub(super) fn seal_sum(&self, numbers: &str, sum: &Bytes) -> Result<Bytes, StoreFault> {
        self.seal_at(&of_sum(numbers), sum)
    }

    /// Opens a sum; `None` where it was not made with a key. Fails where its key is not configured.
    pub(super) fn open_sum(&self, numbers: &str, sealed: Bytes) -> Result<Option<OpenedSum>, StoreFault> {
        let Some(rest) = sealed.strip_prefix(SEALED) else {
            let is_current = !self.is_sealing();
            if !is_current && !self.accepts_plain {
                return Ok(None);
            }
            let sum = self.open_at(&of_sum(numbers), sealed)?;
            return Ok(Some(OpenedSum { key: Seals::default().sum_key()?, is_current, sum }));
        };
        let Some((id, ..)) = parts(rest) else { return Ok(None) };
        let Some(at) = self.keys.iter().position(|one| one.id == id) else {
            return Err(StoreFault::Broken(format!(
                "the store is sealed with the key `{id}`, which is not configured: add that key"
            )));
        };
        let key = Seals::new(self.keys.get(at).cloned().into_iter().collect()).sum_key()?;
        let sum = self.open_at(&of_sum(numbers), sealed).ok();
        Ok(sum.map(|sum| OpenedSum { key, is_current: at == 0, sum }))
    }
}

fn of_sum(numbers: &str) -> SealedPlace<'_> {
    // The sum is that of all environments.
    SealedPlace { environment: Environment::Production, kind: SUM, name: numbers }
}
