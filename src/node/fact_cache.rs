//! A cache of facts from the store, for decisions that do not read them again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::ids::Environment;
use crate::ledger::StoreTime;

/// How long this node's own clock carries a time of the store.
const GOOD_FOR: Duration = Duration::from_secs(30);
/// The most paid destinations in memory; beyond that the memory is emptied.
const MAX_PAID: usize = 100_000;

/// A cache of facts from the store.
#[derive(Debug, Default)]
pub struct FactCache {
    /// The store's time, and when it was read.
    time: Mutex<Option<(StoreTime, Duration)>>,
    /// Names of destinations that were paid; a paid one stays paid.
    paid: Mutex<HashSet<(Environment, String)>>,
}

impl FactCache {
    /// Records the store's time, read at this moment.
    pub(super) fn time(&self, at: StoreTime, elapsed: Duration) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        if time.is_none_or(|(_, since)| since <= elapsed) {
            *time = Some((at, elapsed));
        }
    }

    pub(super) fn now(&self, elapsed: Duration) -> Option<StoreTime> {
        let time = *self.time.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, since) = time?;
        let passed = elapsed.saturating_sub(since);
        (passed <= GOOD_FOR).then(|| at.plus(passed))
    }

    pub(super) fn is_paid(&self, environment: Environment, name: &str, is_paid: bool) {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_paid {
            paid.remove(&(environment, name.to_owned()));
            return;
        }
        if paid.len() >= MAX_PAID {
            paid.clear();
        }
        paid.insert((environment, name.to_owned()));
    }

    pub(super) fn was_paid(&self, environment: Environment, name: String) -> bool {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).contains(&(environment, name))
    }
}
