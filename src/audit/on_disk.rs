//! The proof that entries are on disk.

use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding};

/// An audit log's proof that these entries are on disk. Only audit logs make one (`tidy` looks), after their fsync.
#[derive(Debug, PartialEq, Eq)]
pub struct OnDisk {
    entries: Vec<(Environment, Number)>,
}

impl OnDisk {
    /// For audit logs, after the fsync.
    pub fn new(entries: &[Outstanding]) -> OnDisk {
        OnDisk { entries: entries.iter().map(|entry| (entry.environment, entry.number)).collect() }
    }

    /// Whether the entry of this number is among them.
    pub fn covers(&self, environment: Environment, number: Number) -> bool {
        self.entries.contains(&(environment, number))
    }
}
