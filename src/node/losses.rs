//! The losses of a store's memory that this gate knows of.
//!
//! What was committed before a loss is sent only if its entry was on disk before this gate acknowledged the loss: the
//! rebuild counts on the journals as they were then. Nor is it sent where the journal goes on without entries before it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::ids::Environment;
use crate::ledger::StoreTime;

#[derive(Debug, Default)]
pub struct StoreLosses {
    known: Mutex<BTreeMap<Environment, KnownLoss>>,
}

#[derive(Clone, Debug, Default)]
struct KnownLoss {
    /// How many losses this gate has learnt of.
    count: u64,
    latest: Option<StoreTime>,
    acknowledged: Option<StoreTime>,
    /// The store is not rebuilt yet.
    is_lost: bool,
    /// The run of the Redis that this gate met.
    run: String,
    /// Since this gate met the store, its journal had every entry of it at one moment.
    has_followed: bool,
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
            loss.is_lost = true;
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

    /// Notes that the store is whole, in this run of the Redis. After a loss or in another run, it may have entries that this
    /// journal lacks and cannot get.
    pub(super) fn meets(&self, environment: Environment, run: &str) {
        let mut known = self.known();
        let loss = known.entry(environment).or_default();
        if std::mem::take(&mut loss.is_lost) || loss.run != run {
            run.clone_into(&mut loss.run);
            loss.has_followed = false;
        }
    }

    /// Whether a loss is known after which the store was not rebuilt yet.
    pub(super) fn is_lost(&self, environment: Environment) -> bool {
        self.known().get(&environment).is_some_and(|loss| loss.is_lost)
    }

    /// Notes that the journal has every entry of the store. From then on none leaves the store before the journal has it.
    pub(super) fn follows(&self, environment: Environment) {
        self.known().entry(environment).or_default().has_followed = true;
    }

    pub(super) fn has_followed(&self, environment: Environment) -> bool {
        self.known().get(&environment).is_some_and(|loss| loss.has_followed)
    }

    /// Notes that the journal goes on without some entries. Nothing is sent that was committed before.
    pub(super) fn skips(&self, environment: Environment) {
        let mut known = self.known();
        let loss = known.entry(environment).or_default();
        loss.count = loss.count.saturating_add(1);
        loss.has_followed = false;
    }

    /// Returns how many losses are known.
    pub fn count(&self, environment: Environment) -> u64 {
        self.known().get(&environment).map_or(0, |loss| loss.count)
    }
}
