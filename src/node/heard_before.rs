//! Memory of what a gate heard of the others before it ended last: see `unheard_gates`.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::adapters::audit::LastHeard;
use crate::adapters::store::redis::RAN_WITHIN;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;

/// What this gate heard before it ended last, and whether it has found since that no other one went on.
#[derive(Debug, Default)]
pub struct HeardBefore {
    pub(super) start: OnceLock<HeardBeforeStart>,
    settled: Mutex<BTreeMap<Environment, Continuity>>,
    /// What is kept for the next start, and when it was written, by this node's monotonic clock.
    pub(super) kept: Mutex<BTreeMap<Environment, (Duration, LastHeard)>>,
}

#[derive(Debug)]
pub(super) struct HeardBeforeStart {
    pub began: Duration,
    /// This gate knows of nothing that happened in an environment that is not in it.
    pub heard: BTreeMap<Environment, LastHeard>,
    /// When this gate had the store last, and since when it had missed nothing then.
    pub had: BTreeMap<Environment, Continuity>,
}

/// The time in which a gate had the store and missed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Continuity {
    pub since: StoreTime,
    pub until: StoreTime,
}

impl Continuity {
    /// The gate finds the store well. What happened in a longer pause it may have missed: the store may have been put back
    /// meanwhile.
    fn goes_on(&mut self, at: StoreTime) {
        if at.since(self.until) >= RAN_WITHIN {
            self.since = at;
        }
        self.until = self.until.max(at);
    }
}

impl HeardBefore {
    pub(super) fn is_settled(&self, environment: Environment) -> bool {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&environment)
    }

    pub(super) fn settle(&self, environment: Environment, had: Continuity) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, had);
    }

    /// Since when this gate has missed nothing of what happened in the store; `None` where it does not know yet.
    pub(super) fn had_since(&self, environment: Environment) -> Option<StoreTime> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).map(|had| had.since)
    }

    /// Notes that the store is well at this time.
    pub(super) fn goes_on(&self, environment: Environment, at: StoreTime) {
        if let Some(had) = self.settled.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&environment) {
            had.goes_on(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_gate_that_did_not_have_the_store_for_a_while_may_have_missed_something() {
        let at = |seconds| StoreTime::default().plus(Duration::from_secs(seconds));
        let mut had = Continuity { since: at(100), until: at(200) };
        for (next, since) in [(201, 100), (210, 100), (209, 100), (219, 100), (229, 229), (230, 229)] {
            had.goes_on(at(next));
            assert_eq!(had.since, at(since), "{next}");
        }
    }
}
