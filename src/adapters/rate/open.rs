//! Counts open calls, by bucket: a slot is held from the rate check to the end of the call, however it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::digest::Fingerprint;

/// The number of open calls in each bucket.
#[derive(Clone, Debug, Default)]
pub struct OpenCalls(Arc<Mutex<HashMap<Fingerprint, u64>>>);

/// One open call in one bucket; dropping it ends it.
#[derive(Debug)]
pub struct OpenCall {
    open: OpenCalls,
    bucket: Fingerprint,
}

impl OpenCalls {
    /// Takes a slot of each bucket, in the order of the wishes, or none at all if an enforced bucket has none left.
    /// Returns for each how many other calls are open, and whether it had room.
    pub fn enter(&self, wishes: &[(Fingerprint, u64, bool)]) -> (Vec<(u64, bool)>, Vec<OpenCall>) {
        if wishes.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut counts = self.lock();
        let count = |bucket: &Fingerprint| counts.get(bucket).copied().unwrap_or(0);
        let found: Vec<(u64, bool)> =
            wishes.iter().map(|(bucket, most, _)| (count(bucket), count(bucket) < *most)).collect();
        if wishes.iter().zip(&found).any(|((_, _, is_enforced), (_, has_room))| *is_enforced && !has_room) {
            return (found, Vec::new());
        }
        let slots = wishes.iter().map(|(bucket, _, _)| {
            let count = counts.entry(*bucket).or_insert(0);
            *count = count.saturating_add(1);
            OpenCall { open: self.clone(), bucket: *bucket }
        });
        let slots = slots.collect();
        (found, slots)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut counts = self.open.lock();
        match counts.get_mut(&self.bucket) {
            Some(count) if *count > 1 => *count = count.saturating_sub(1),
            Some(_) | None => drop(counts.remove(&self.bucket)),
        }
    }
}
