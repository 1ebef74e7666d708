//! The records that a read found otherwise than the journal has them, until somebody looks at them again.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::ledger::RecordKey;

/// How many are remembered: a store is not believed long before.
const MAX_DOUBTED: usize = 64;

/// Records that were read and are doubted, each with the reason.
#[derive(Debug, Default)]
pub(super) struct DoubtedRecords {
    found: Mutex<BTreeMap<RecordKey, String>>,
    changed: Notify,
}

impl DoubtedRecords {
    /// Notes a record; once, however often it is read.
    pub(super) fn add(&self, key: &RecordKey, why: &str) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < MAX_DOUBTED && !found.contains_key(key) {
            found.insert(key.clone(), why.to_owned());
            self.changed.notify_one();
        }
    }

    /// Returns those that were noted since the last time.
    pub(super) fn take(&self) -> BTreeMap<RecordKey, String> {
        mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns once a record was noted.
    pub(super) async fn noted(&self) {
        self.changed.notified().await;
    }
}
