//! The parts of the process that the console shares with the gateway.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::pass_tables::PolicyAnalyses;
use super::person::Person;
use super::rank_memory::HoldRanks;
use crate::adapters::audit::JournalReceipts;
use crate::adapters::identity::Identity;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{LimitsConfig, Loosening, TimeoutsConfig};
use crate::gateway::Readiness;
use crate::node::{InForce, Node};
use crate::people::visibility::Visibility;
use crate::stations::claim::Freeze;
use crate::telemetry::Metrics;

/// The parts of the process that the console shares with the gateway.
#[derive(Clone, Debug)]
pub struct ConsoleState {
    pub node: Arc<Node>,
    pub identity: Arc<Identity>,
    pub in_force: Arc<InForce>,
    pub readiness: Arc<Readiness>,
    /// The served environments.
    pub environments: Vec<Environment>,
    /// The names of all issuers.
    pub issuers: Vec<String>,
    pub loosening: Loosening,
    /// The folder of this node's audit log.
    pub audit_folder: PathBuf,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub metrics: Metrics,
    /// Whose calls each role sees.
    pub visibility: Arc<Visibility>,
    /// Opens what the journal keeps sealed.
    pub seals: Seals,
    /// What orders holds.
    pub ranks: Arc<HoldRanks>,
    /// The console's findings about policies.
    pub analyses: PolicyAnalyses,
    pub receipts: Arc<JournalReceipts>,
    /// Every request that is being answered; a shutdown waits for it.
    pub requests: TaskTracker,
    /// Becomes true when the process is to end.
    pub stopping: watch::Receiver<bool>,
}

impl ConsoleState {
    /// Returns the current contract.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.in_force.now().catalog.clone()
    }

    /// Whether the process is to end.
    pub(super) fn is_ending(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits for work that an end of the process need not wait for; `None` where it ends first.
    pub(super) async fn unless_ending<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            done = work => Some(done),
            // The sender lives as long as the process.
            _ = stopping.wait_for(|stopped| *stopped) => None,
        }
    }

    /// Whether a person sees the calls of this caller.
    pub(super) fn shows_call(&self, person: &Person, environment: Environment, issuer: &str, subject: &str) -> bool {
        self.visibility.shows(&person.roles().collect::<Vec<_>>(), environment, Some((issuer, subject)))
    }

    /// Whether a person sees an entry of the audit log: one without a caller is seen with anything of its environment.
    pub(super) fn shows_entry(&self, roles: &[&str], environment: Environment, entry: &Value) -> bool {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        if let Some(freeze) = text("/freeze").and_then(Freeze::parse) {
            return self.shows_freeze(roles, environment, &freeze);
        }
        self.visibility.shows(roles, environment, text("/owner/issuer").zip(text("/owner/subject")))
    }

    /// Whether a person sees a freeze: one of a caller as the calls of that caller.
    pub(super) fn shows_freeze(&self, roles: &[&str], environment: Environment, freeze: &Freeze) -> bool {
        let caller = match freeze {
            Freeze::Caller(owner) | Freeze::Reads(owner) => Some((owner.issuer.as_str(), owner.subject.as_str())),
            Freeze::All | Freeze::Restored | Freeze::Clock | Freeze::GateClock(_) | Freeze::Operation(_) => None,
        };
        self.visibility.shows(roles, environment, caller)
    }
}
