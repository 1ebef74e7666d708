//! Memory of what a gate heard of the others before it ended last: see `unheard_gates`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::adapters::audit::LastHeard;
use crate::base::ids::Environment;

/// What this gate heard before it ended last, and whether it has found since that no other one went on.
#[derive(Debug, Default)]
pub struct HeardBefore {
    pub(super) start: OnceLock<HeardBeforeStart>,
    /// The environments whose store awaited this gate's journal at its start.
    pub(super) awaited: OnceLock<BTreeSet<Environment>>,
    settled: Mutex<BTreeSet<Environment>>,
    /// What is kept for the next start, and when it was written, by this node's monotonic clock.
    pub(super) kept: Mutex<BTreeMap<Environment, (Duration, LastHeard)>>,
}

#[derive(Debug)]
pub(super) struct HeardBeforeStart {
    pub began: Duration,
    /// This gate knows of nothing that happened in an environment that is not in it.
    pub heard: BTreeMap<Environment, LastHeard>,
}

impl HeardBefore {
    pub(super) fn is_settled(&self, environment: Environment) -> bool {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains(&environment)
    }

    pub(super) fn settle(&self, environment: Environment) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(environment);
    }
}
