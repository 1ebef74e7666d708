//! The contract, policies and rates in force. One snapshot serves a request from its start to its end.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::candidate::Candidate;
use super::rates::Rates;
use crate::catalog::Catalog;
use crate::policy::{Changes, Policies};
use crate::telemetry::Metrics;

/// Everything that decides one request.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The contract that the policies were read for.
    pub catalog: Arc<Catalog>,
    pub policies: Arc<Policies>,
    pub rates: Arc<Rates>,
    /// The set that waits for agreement and decides in shadow mode.
    pub candidate: Option<Arc<Candidate>>,
}

/// The current snapshot, and the fault of a newer set.
#[derive(Debug)]
pub struct InForce {
    snapshot: ArcSwap<Snapshot>,
    fault: ArcSwapOption<String>,
    metrics: Metrics,
}

impl InForce {
    pub fn new(catalog: Arc<Catalog>, policies: Policies, rates: Rates, metrics: Metrics) -> InForce {
        metrics.policies_in_force(&policies);
        let snapshot = Snapshot { catalog, policies: Arc::new(policies), rates: Arc::new(rates), candidate: None };
        InForce { snapshot: ArcSwap::from_pointee(snapshot), fault: ArcSwapOption::empty(), metrics }
    }

    pub fn now(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Puts a set in force. Running requests keep their snapshot; rates keep their counts.
    pub fn replace(&self, catalog: Arc<Catalog>, policies: Policies) -> Changes {
        let before = self.now();
        let changes = policies.meaning.since(&before.policies.meaning);
        self.fault.store(None);
        self.metrics.policies_faulty(false);
        if !changes.is_empty() {
            self.metrics.policies_changed(&changes);
            self.metrics.policies_in_force(&policies);
        }
        let rates = before.rates.followed_by(policies.rates.clone(), &self.metrics);
        self.metrics.candidate(None);
        let (policies, rates) = (Arc::new(policies), Arc::new(rates));
        self.snapshot.store(Arc::new(Snapshot { catalog, policies, rates, candidate: None }));
        changes
    }

    /// Lets a set wait in shadow mode; the set in force stays.
    pub fn wait(&self, candidate: Candidate) {
        let version = candidate.policies.version();
        let now = self.now();
        let stays = now.policies.version();
        let why = format!("policies of version {version} wait until two people agree; version {stays} stays in force");
        self.metrics.candidate(Some(version));
        self.metrics.policies_faulty(false);
        self.fault.store(Some(Arc::new(why)));
        self.snapshot.store(Arc::new(Snapshot { candidate: Some(Arc::new(candidate)), ..Snapshot::clone(&now) }));
    }

    /// Drops a newer set for a fault; the set in force stays, and nothing waits.
    pub fn stay(&self, why: String) {
        self.metrics.candidate(None);
        self.snapshot.store(Arc::new(Snapshot { candidate: None, ..Snapshot::clone(&self.now()) }));
        self.metrics.policies_faulty(true);
        self.fault.store(Some(Arc::new(why)));
    }

    /// Returns why the set in force is not the newest one that was written.
    pub fn fault(&self) -> Option<Arc<String>> {
        self.fault.load_full()
    }
}
