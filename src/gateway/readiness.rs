//! The gate's abilities now: to serve reads, and to move money.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::adapters::identity::Keyring;
use crate::adapters::upstream::PinnedUpstream;
use crate::base::ids::Environment;
use crate::edge::Phase;
use crate::node::{MoneyStop, Node, StopReason};

/// How often the reasons are looked at, so that their beginnings are known.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The parts that decide what the gate can do.
#[derive(Debug)]
pub struct Readiness {
    pub keyring: Arc<Keyring>,
    pub node: Arc<Node>,
    upstreams: Vec<Arc<PinnedUpstream>>,
    /// The phase of the process.
    phase: watch::Receiver<Phase>,
    /// When each current reason was first seen.
    began: Mutex<BTreeMap<ReasonKey, Timestamp>>,
}

/// A reason, and the environment that it stops, if it stops one alone.
pub type ReasonKey = (&'static str, Option<&'static str>);

/// The answer of `/readyz/money`, and of the console.
#[derive(Debug, Serialize)]
pub struct MoneyReadiness {
    pub ready: bool,
    /// The gate's clock.
    at: String,
    reasons: Vec<ReasonLine>,
}

#[derive(Debug, Serialize)]
struct ReasonLine {
    reason: &'static str,
    environment: Option<&'static str>,
    text: String,
    /// When a freeze was made, or when this gate saw another reason first.
    since: String,
    /// Whether a freeze stops it, which people lift.
    frozen: bool,
}

impl Readiness {
    pub fn new(
        keyring: Arc<Keyring>,
        node: Arc<Node>,
        upstreams: Vec<Arc<PinnedUpstream>>,
        phase: watch::Receiver<Phase>,
    ) -> Readiness {
        Readiness { keyring, node, upstreams, phase, began: Mutex::default() }
    }

    /// Returns why the gate cannot serve reads; empty if it can. Reads need no store.
    pub fn read_stops(&self) -> Vec<MoneyStop> {
        let mut stops = Vec::new();
        let mut stop = |reason, text: String| stops.push(MoneyStop { reason, environment: None, text, since: None });
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

    /// Returns the reasons why money cannot move now.
    pub fn reasons(&self) -> Vec<ReasonKey> {
        let key = |line: &ReasonLine| (line.reason, line.environment);
        self.money().reasons.iter().map(key).collect()
    }

    /// Looks at the reasons as long as the process lives.
    pub async fn watch(self: Arc<Readiness>) {
        loop {
            self.money();
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Sets the metric of each reason in each served environment.
    pub fn tell_reasons(&self) {
        let reasons = self.reasons();
        for environment in self.upstreams.iter().map(|upstream| upstream.environment().as_str()) {
            for name in StopReason::ALL.map(StopReason::as_str) {
                let stops = |(reason, of): &ReasonKey| *reason == name && of.is_none_or(|one| one == environment);
                self.node.metrics.money_closed(environment, name, reasons.iter().any(stops));
            }
        }
    }

    /// Returns whether money could move now, and if not why and since when.
    pub fn money(&self) -> MoneyReadiness {
        let mut stops = self.read_stops();
        stops.extend(self.node.watched.stops());
        if !self.node.audit.is_well() {
            let why = self.node.audit.trouble().unwrap_or_else(|| "check its disk".to_owned());
            let text = format!("the audit log cannot be written: {why}");
            stops.push(MoneyStop { reason: StopReason::AuditFailing, environment: None, text, since: None });
        }
        if self.node.entries.is_kept_from(Environment::Sandbox) {
            let text =
                "the free disk is less than `audit.production_bytes`: the rest is kept for production".to_owned();
            let environment = Some(Environment::Sandbox);
            stops.push(MoneyStop { reason: StopReason::DiskKept, environment, text, since: None });
        }
        if self.node.audit.lacks_witnesses() {
            let text = "too few witnesses sign the journal's checkpoints, and `audit.unwitnessed` is `close`: see the log for what each of \
                        them answers";
            let text = text.to_owned();
            stops.push(MoneyStop { reason: StopReason::Unwitnessed, environment: None, text, since: None });
        }
        if let Some(text) = self.node.activations.fault() {
            stops.push(MoneyStop { reason: StopReason::PoliciesNotRun, environment: None, text, since: None });
        }
        stops.extend(self.node.activations.unread().into_iter().map(|(environment, text)| {
            let environment = Some(environment);
            MoneyStop { reason: StopReason::PoliciesNotRun, environment, text, since: None }
        }));
        stops.extend(self.node.clocks.uncompared().into_iter().map(|environment| {
            let text = "nobody has told this gate the date since its start: money waits for upstream's or an issuer's";
            let (environment, text) = (Some(environment), text.to_owned());
            MoneyStop { reason: StopReason::GateClock, environment, text, since: None }
        }));
        let now = self.node.clock.now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *began);
        let reasons = stops.into_iter().map(|stop| {
            let key = (stop.reason.as_str(), stop.environment.map(|environment| environment.as_str()));
            let first_seen = before.get(&key).copied().unwrap_or(now);
            began.insert(key, first_seen);
            let made = stop.since.and_then(|since| Timestamp::from_microsecond(since.as_micros()).ok());
            let since = made.unwrap_or(first_seen).to_string();
            ReasonLine { reason: key.0, environment: key.1, text: stop.text, since, frozen: stop.since.is_some() }
        });
        let reasons: Vec<ReasonLine> = reasons.collect();
        MoneyReadiness { ready: reasons.is_empty(), at: now.to_string(), reasons }
    }
}
