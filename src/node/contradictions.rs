//! What in the store contradicts the journal: the store forgot something, or somebody changed it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Node;
use crate::adapters::store::replica::{COPIED, MISTIMED};
use crate::base::ids::Environment;
use crate::ledger::Number;

/// After so many contradictions the store is not believed any more.
const ENOUGH: usize = 2;
/// Contradictions further apart do not count together.
const WITHIN: Duration = Duration::from_hours(1);

/// The contradictions that were found lately.
#[derive(Debug, Default)]
pub struct Contradictions {
    found: Mutex<BTreeMap<Environment, Vec<Contradiction>>>,
    are_new: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Contradiction {
    at: Duration,
    /// The entry that showed it, if one did.
    entry: Option<Number>,
}

impl Contradictions {
    /// Notes one, and returns whether it is new: an entry may be met by several who wait for it.
    fn add(&self, environment: Environment, now: Duration, entry: Option<Number>) -> bool {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.entry(environment).or_default();
        found.retain(|one| now.saturating_sub(one.at) < WITHIN);
        let is_new = entry.is_none() || !found.iter().any(|one| one.entry == entry);
        if is_new && found.len() < ENOUGH {
            found.push(Contradiction { at: now, entry });
            self.are_new.notify_one();
        }
        is_new
    }

    /// Notes one that is enough alone; returns whether it is new.
    fn add_enough(&self, environment: Environment, now: Duration) -> bool {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.entry(environment).or_default();
        let is_new = found.len() < ENOUGH;
        found.resize(ENOUGH, Contradiction { at: now, entry: None });
        self.are_new.notify_one();
        is_new
    }

    /// Whether there are enough of them for the store not to be believed.
    pub(super) fn are_enough(&self, environment: Environment) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(&environment).is_some_and(|found| found.len() >= ENOUGH)
    }

    /// Returns once there may be enough of them.
    pub(super) async fn noted(&self) {
        self.are_new.notified().await;
    }

    /// Begins anew: everybody knows that the store is not believed.
    pub(super) fn are_told(&self, environment: Environment) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
    }
}

impl Node {
    /// Reports that the store gave numbers that no entry has: it is not believed any more.
    pub(super) fn found_numbers_without_entries(&self, environment: Environment, why: &str) {
        if self.contradictions.add_enough(environment, self.clock.elapsed()) {
            self.metrics.store_contradicted(environment.as_str());
            tracing::error!(
                %environment,
                why,
                "the store contradicts the journal: somebody changed its numbers; it is rebuilt from a journal, and nothing is sent before"
            );
        }
    }

    /// Reports that the store has something that no gate writes so: it is not believed any more.
    pub(super) fn found_damage(&self, environment: Environment, why: &str) {
        if self.contradictions.add_enough(environment, self.clock.elapsed()) {
            self.metrics.store_contradicted(environment.as_str());
            tracing::error!(
                %environment,
                why,
                "the store cannot be read: somebody changed it; it is rebuilt from a journal, nothing is sent before, and people open money \
                 (see SluiceStoreContradicted in the runbook)"
            );
        }
    }

    /// Reports that somebody changed entries on their way from a gate to a journal: the store is not believed any more.
    pub(super) fn found_changed_entries(&self, environment: Environment, why: &str) {
        if self.contradictions.add_enough(environment, self.clock.elapsed()) {
            self.metrics.store_contradicted(environment.as_str());
            tracing::error!(
                %environment,
                why,
                "the store contradicts the journal: somebody changed entries in it; it is rebuilt from a journal, and nothing is sent \
                 before"
            );
        }
    }

    /// Reports that the store contradicts the journal, by this entry if there is one.
    pub(super) fn contradicted(&self, environment: Environment, entry: Option<Number>, why: &str) {
        // Something else was made in its place, or at another time: this journal would lack it.
        if [MISTIMED, COPIED].iter().any(|one| why.contains(one)) {
            return self.found_changed_entries(environment, why);
        }
        if !self.contradictions.add(environment, self.clock.elapsed(), entry) {
            return;
        }
        self.metrics.store_contradicted(environment.as_str());
        tracing::error!(
            %environment,
            why,
            "the store contradicts the journal: it forgot something, or somebody changed it; nothing is sent by that"
        );
    }
}
