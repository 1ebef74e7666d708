//! A set of policies that waits until two people agree. It decides on every call in shadow mode, beside the set in
//! force.
//!
//! It gets the same facts as the set in force. The store is not asked for more: the candidate's own windows count as
//! having room, and a destination that nobody looked up counts as new.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;

use crate::policy::{Changes, DecisionHistory, Difference, Effect, Facts, Policies, Verdict};
use crate::stations::check::Intent;
use crate::stations::decide::{evaluate, paid_facts};
use crate::telemetry::Metrics;

/// The waiting set, with its difference and its counts.
#[derive(Debug)]
pub struct Candidate {
    pub policies: Arc<Policies>,
    /// The difference from the set in force to this one.
    pub difference: Difference,
    /// Rates that were removed or changed; no analysis shows whether they allow more.
    pub rates: Vec<String>,
    /// The contract changes beyond descriptions and the answers to reads.
    pub is_other_contract: bool,
    pub since: Timestamp,
    counts: Mutex<BTreeMap<(Effect, Effect), u64>>,
    /// What it would have changed in the last days, once that is known.
    history: OnceLock<DecisionHistory>,
}

impl Candidate {
    /// Returns `None` where the analysis proves that the set allows no more than the one in force, by a
    /// contract that binds calls alike. Where people sign which set takes force, every other set waits: what they sign is the
    /// succession, and nobody has to judge it again.
    pub fn of(
        policies: Arc<Policies>,
        difference: Difference,
        changes: &Changes,
        (is_other_contract, is_signed): (bool, bool),
        since: Timestamp,
    ) -> Option<Candidate> {
        let rates = changes.rates();
        let waits = is_signed || difference.loosens() || !rates.is_empty() || is_other_contract;
        let (counts, history) = (Mutex::default(), OnceLock::new());
        waits.then(|| Candidate { policies, difference, rates, is_other_contract, since, counts, history })
    }

    /// Decides on a call in shadow mode, counts the result, and logs it where it differs from the verdict in force.
    pub fn decide(&self, intent: &Intent, facts: &Facts, verdict: &Verdict, metrics: &Metrics) {
        // A destination counts as new for a cool-down that only this set has.
        let mut facts = facts.clone();
        for fact in paid_facts(intent, &self.policies) {
            facts.paid.entry(fact).or_insert(false);
        }
        let decision = evaluate(intent, &self.policies, &facts);
        let beside = &decision.verdict;
        let (from, to) = (verdict.effect, beside.effect);
        metrics.decided_beside(from, to);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((from, to)).or_default();
        *count = count.saturating_add(1);
        drop(counts);
        if from != to {
            let causes = |verdict: &Verdict| -> String {
                let names: Vec<&str> = verdict.reasons.iter().filter_map(|reason| reason.cause.name()).collect();
                names.join(", ")
            };
            tracing::info!(
                environment = intent.environment().as_str(),
                operation = intent.operation().id.as_str(),
                from = from.as_str(),
                to = to.as_str(),
                by = causes(verdict),
                then_by = causes(beside),
                candidate = self.policies.version(),
                "the waiting policies would have decided differently"
            );
        }
    }

    /// Notes what it would have changed, once.
    pub fn note_history(&self, history: DecisionHistory) {
        // Whoever comes second looked at the same journal.
        self.history.set(history).ok();
    }

    /// Returns what it would have changed in the last days; `None` until that is known.
    pub fn history(&self) -> Option<&DecisionHistory> {
        self.history.get()
    }

    /// Returns how many calls each pair of effects had since the set waits: in force, and by this set.
    pub fn counts(&self) -> Vec<(Effect, Effect, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((from, to), count)| (*from, *to, *count)).collect()
    }
}
