//! A set of policies that waits until two people agree: beside the one in force it decides everything, and nothing by it.
//!
//! It is asked with what the decision in force was made on. What only the candidate would ask the store is assumed: its
//! own windows have room, and a destination that nobody looked up is a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::policy::{Changes, Difference, Effect, Facts, Policies, Verdict};
use crate::stations::check::Intent;
use crate::stations::decide::decide;
use crate::telemetry::Metrics;

/// See the module.
#[derive(Debug)]
pub struct Candidate {
    pub policies: Arc<Policies>,
    /// From the set in force to this one.
    pub difference: Difference,
    /// Rates that are gone or otherwise: whether more passes is not proved.
    pub rates: Vec<String>,
    pub since: Timestamp,
    counts: Mutex<BTreeMap<(Effect, Effect), u64>>,
}

impl Candidate {
    /// Nothing, if it is proved that no more passes under it.
    pub fn of(
        policies: Arc<Policies>,
        difference: Difference,
        changes: &Changes,
        since: Timestamp,
    ) -> Option<Candidate> {
        let others = changes.removed.iter().chain(&changes.changed);
        let rates: Vec<String> = others.filter(|name| name.starts_with("rate ")).cloned().collect();
        let waits = difference.loosens() || !rates.is_empty();
        waits.then(|| Candidate { policies, difference, rates, since, counts: Mutex::default() })
    }

    /// What it would have made of a call that was decided so; counted, and told where it is otherwise.
    pub fn decide(&self, intent: &Intent, facts: &Facts, verdict: &Verdict, metrics: &Metrics) {
        let decision = decide(intent, &self.policies, facts);
        let beside = &decision.grounds().verdict;
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
                "the policies that wait would have decided otherwise"
            );
        }
    }

    /// How many calls were decided since it waits: so, and so by it.
    pub fn counts(&self) -> Vec<(Effect, Effect, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((from, to), count)| (*from, *to, *count)).collect()
    }
}
