//! Calls that a node allowed from its own part, and that the Redis has not counted yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Local;
use crate::base::digest::Fingerprint;
use crate::ports::Take;

/// The most buckets with unsynced calls; calls beyond that are never counted.
const MAX_BUCKETS: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Owed(Mutex<HashMap<Fingerprint, u64>>);

impl Owed {
    /// Takes the unsynced calls of each bucket, as far as they still count in this node's part.
    pub(super) fn take(&self, parts: &[Take<'_>], part: &Local) -> Vec<u64> {
        let owed: Vec<u64> = {
            let mut all = self.lock();
            if all.is_empty() {
                return vec![0; parts.len()];
            }
            parts.iter().map(|take| all.remove(&take.bucket).unwrap_or(0)).collect()
        };
        owed.into_iter().zip(part.used(parts)).map(|(owed, used)| owed.min(used)).collect()
    }

    pub(super) fn add(&self, owed: impl Iterator<Item = (Fingerprint, u64)>) {
        let mut all = self.lock();
        for (bucket, calls) in owed.filter(|(_, calls)| *calls > 0) {
            if all.len() < MAX_BUCKETS || all.contains_key(&bucket) {
                let sum = all.entry(bucket).or_insert(0);
                *sum = sum.saturating_add(calls);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
