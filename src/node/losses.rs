//! The losses of a store's memory that this gate knows of.
//!
//! What was committed before a loss is sent only if its entry was on disk before this gate acknowledged the loss: the
//! rebuild counts on the journals as they were then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::ids::Environment;
use crate::ledger::StoreTime;

#[derive(Debug, Default)]
pub struct StoreLosses {
    known: Mutex<BTreeMap<Environment, KnownLoss>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownLoss {
    /// How many losses this gate has learnt of.
    count: u64,
    latest: Option<StoreTime>,
    acknowledged: Option<StoreTime>,
}

impl StoreLosses {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Environment, KnownLoss>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a loss, and returns whether it is to be acknowledged. From then on nothing is sent that was committed before.
    pub(super) fn learn(&self, environment: Environment, since: StoreTime) -> bool {
        let mut known = self.known();
        let loss = known.entry(environment).or_default();
        let is_new = loss.latest != Some(since);
        if is_new {
            loss.count = loss.count.saturating_add(1);
            loss.latest = Some(since);
        }
        is_new || loss.acknowledged != Some(since)
    }

    /// The journal has everything now that may have been sent before the loss.
    pub(super) fn acknowledge(&self, environment: Environment, since: StoreTime) {
        self.known().entry(environment).or_default().acknowledged = Some(since);
    }

    pub(super) fn acknowledged(&self, environment: Environment) -> Option<StoreTime> {
        self.known().get(&environment)?.acknowledged
    }

    /// Returns how many losses are known.
    pub fn count(&self, environment: Environment) -> u64 {
        self.known().get(&environment).map_or(0, |loss| loss.count)
    }
}
