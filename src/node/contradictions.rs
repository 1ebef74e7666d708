//! Commits of the store that contradict the journal: the store forgot something, or somebody changed it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Node;
use crate::base::ids::Environment;

/// After so many contradictions the store is not believed any more.
const ENOUGH: usize = 2;
/// Contradictions further apart do not count together.
const WITHIN: Duration = Duration::from_hours(1);

/// The contradictions that were found lately.
#[derive(Debug, Default)]
pub struct Contradictions {
    found: Mutex<BTreeMap<Environment, Vec<Duration>>>,
}

impl Contradictions {
    fn add(&self, environment: Environment, now: Duration) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.entry(environment).or_default();
        found.retain(|at| now.saturating_sub(*at) < WITHIN);
        if found.len() < ENOUGH {
            found.push(now);
        }
    }

    /// Whether there are enough of them for the store not to be believed.
    pub(super) fn are_enough(&self, environment: Environment) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(&environment).is_some_and(|found| found.len() >= ENOUGH)
    }

    /// Begins anew: everybody knows that the store is not believed.
    pub(super) fn are_told(&self, environment: Environment) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
    }
}

impl Node {
    /// Reports a commit that contradicts the journal.
    pub(super) fn contradicted(&self, environment: Environment, why: &str) {
        self.contradictions.add(environment, self.clock.elapsed());
        self.metrics.store_contradicted(environment.as_str());
        tracing::error!(
            %environment,
            why,
            "the store contradicts the journal: it forgot something, or somebody changed it; nothing is sent by such a commit"
        );
    }
}
