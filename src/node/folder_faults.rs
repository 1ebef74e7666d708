//! Faults of files beside the journal, each of which is told once.

use std::sync::{Mutex, PoisonError};

use crate::telemetry::ToldCauses;

/// The faults that were told since a file could be written last.
#[derive(Debug, Default)]
pub struct FolderFaults(Mutex<ToldCauses>);

impl FolderFaults {
    /// Whether a fault was not told yet.
    pub(super) fn is_new(&self, why: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_new(why)
    }

    /// A file could be written again.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}
