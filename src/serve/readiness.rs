//! What the gate can do now: serve reads, and move money.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

use crate::adapters::identity::Keyring;
use crate::adapters::upstream::PinnedUpstream;
use crate::edge::Phase;
use crate::node::{MoneyStop, Node, StopReason};

/// The parts that decide what the gate can do.
#[derive(Debug)]
pub struct Readiness {
    pub keyring: Arc<Keyring>,
    pub node: Arc<Node>,
    pub upstreams: Vec<Arc<PinnedUpstream>>,
    /// The phase of the process.
    pub phase: watch::Receiver<Phase>,
}

/// The answer of `/readyz/money`.
#[derive(Debug, Serialize)]
pub(super) struct MoneyReadiness {
    pub ready: bool,
    reasons: Vec<ReasonLine>,
}

#[derive(Debug, Serialize)]
struct ReasonLine {
    reason: &'static str,
    environment: Option<&'static str>,
    text: String,
}

impl Readiness {
    /// Returns why the gate cannot serve reads; empty if it can. Reads need no store.
    pub(super) fn read_stops(&self) -> Vec<MoneyStop> {
        let mut stops = Vec::new();
        let mut stop = |reason, text: String| stops.push(MoneyStop { reason, environment: None, text });
        if *self.phase.borrow() > Phase::Serving {
            stop(StopReason::Draining, "draining".to_owned());
        }
        if !self.upstreams.iter().all(|upstream| upstream.is_found()) {
            stop(StopReason::UpstreamUnknown, "the address of an upstream host is unknown".to_owned());
        }
        let missing = self.keyring.missing();
        if !missing.is_empty() {
            stop(StopReason::KeysUnknown, format!("keys of these issuers are unknown: {}", missing.join(", ")));
        }
        stops
    }

    /// Returns whether money could move now, and if not why.
    pub(super) fn money(&self) -> MoneyReadiness {
        let mut stops = self.read_stops();
        stops.extend(self.node.watched.stops());
        if !self.node.audit.is_well() {
            let text = "the audit log cannot be written: check its disk".to_owned();
            stops.push(MoneyStop { reason: StopReason::AuditFailing, environment: None, text });
        }
        let reasons = stops.into_iter().map(|stop| ReasonLine {
            reason: stop.reason.as_str(),
            environment: stop.environment.map(|environment| environment.as_str()),
            text: stop.text,
        });
        let reasons: Vec<ReasonLine> = reasons.collect();
        MoneyReadiness { ready: reasons.is_empty(), reasons }
    }
}
