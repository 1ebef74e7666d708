//! The metrics: each method records one kind of event.
//!
//! Labels are bounded: names of operations, rules, limits, rates and issuers come from the configuration, a few codes
//! from upstream, all others from this program. A new configuration replaces the names of the former one.

mod connections;
mod family;
mod following;
mod journal;
mod list;
mod meters;
mod unlisted;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{Encoder, Registry, TextEncoder};

use self::list::All;
use self::unlisted::UnlistedRefusals;
use super::tally::Tally;
use crate::ledger::WriteRefusal;
use crate::policy::{Changes, Effect, Max, Mode, Policies, Verdict};

pub use list::{Described, METRICS};
pub use meters::{RateCounters, RequestMeters, StoreMeter};
pub use unlisted::UnlistedRefusal;

/// The most rules, limits and rates that have their own series.
const MAX_NAMES: usize = 1_000;
/// The label of all further ones; no id has parentheses.
const OTHERS: &str = "(others)";

/// Every metric of Sluice.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    all: Arc<All>,
    /// The rules and limits that have their own series.
    names: Arc<ArcSwap<HashSet<Arc<str>>>>,
    pub(super) tally: Arc<Tally>,
    unlisted: Arc<UnlistedRefusals>,
}

/// The resources that the process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu: Duration,
    pub memory_bytes: u64,
    pub virtual_bytes: u64,
    pub threads: u64,
    pub files: u64,
    pub most_files: u64,
}

impl Metrics {
    /// Returns the counts of decisions by hour.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new();
        let all = Arc::new(All::registered(&registry)?);
        all.build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        all.audit_up.set(1);
        Ok(Metrics { registry, all, names: Arc::default(), tally: Arc::default(), unlisted: Arc::default() })
    }

    pub fn hold(&self, environment: &str, what: &str) {
        self.all.holds.with_label_values(&[environment, what]).inc();
    }

    pub fn holds_open(&self, environment: &str, count: usize) {
        self.all.holds_open.with_label_values(&[environment]).set(integer(count));
    }

    /// Sets the time when the oldest hold began, in seconds since 1970.
    pub fn holds_open_since(&self, environment: &str, since_secs: Option<i64>) {
        moment(&self.all.holds_open_since, environment, since_secs);
    }

    /// Sets the time when the next hold expires, in seconds since 1970.
    pub fn holds_expire(&self, environment: &str, at_secs: Option<i64>) {
        moment(&self.all.holds_expire, environment, at_secs);
    }

    /// Counts a hold that has ended.
    pub fn hold_ended(&self, environment: &str, ending: &str, waited: Duration) {
        self.all.hold_wait.0.with_label_values(&[environment, ending]).observe(waited.as_secs_f64());
    }

    pub fn holds_expiring(&self, environment: &str, count: usize) {
        self.all.holds_expiring.with_label_values(&[environment]).set(integer(count));
    }

    /// Sets how much of the room for open holds is used.
    pub fn hold_room(&self, environment: &str, of: &str, used: u64, all: u64) {
        self.all.hold_room.with_label_values(&[environment, of]).set(parts(used, all));
    }

    /// Counts a message sent to a webhook.
    pub fn webhook_sent(&self, webhook: &str, outcome: &str) {
        self.all.told.with_label_values(&[webhook, outcome]).inc();
    }

    /// Counts messages that were dropped.
    pub fn webhook_dropped(&self, webhook: &str, why: &str, count: usize) {
        self.all.untold.with_label_values(&[webhook, why]).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub fn untold_waiting(&self, environment: &str, webhook: &str, count: usize, oldest: Duration) {
        self.all.untold_waiting.with_label_values(&[environment, webhook]).set(integer(count));
        self.all.untold_oldest.with_label_values(&[environment, webhook]).set(integer(oldest.as_secs()));
    }

    pub fn started(&self) {
        self.all.in_flight.inc();
    }

    /// Counts a request that was answered, or that could not be.
    pub fn answered(&self, line: &super::RequestLine<'_>) {
        self.all.in_flight.dec();
        let labels = [line.environment, line.operation, line.status, line.origin, line.outcome, line.code];
        self.all.requests.with_label_values(&labels).inc();
    }

    /// Counts events of connections for writes.
    pub fn upstream_connection(&self, environment: &str, what: &str, count: u64) {
        self.all.upstream_connections.with_label_values(&[environment, what]).inc_by(count);
    }

    pub fn drifted(&self, environment: &str, operation: &str) {
        self.all.drift.with_label_values(&[environment, operation]).inc();
    }

    pub fn token_refused(&self, environment: &str, reason: &str) {
        self.all.tokens_refused.with_label_values(&[environment, reason]).inc();
    }

    pub fn keys_age(&self, issuer: &str, age: Duration) {
        self.all.keys_age.with_label_values(&[issuer]).set(integer(age.as_secs()));
    }

    pub fn keys_known(&self, issuer: &str, are_known: bool) {
        self.all.keys_known.with_label_values(&[issuer]).set(i64::from(are_known));
    }

    pub fn keys_fetched(&self, issuer: &str, outcome: &str) {
        self.all.keys_fetches.with_label_values(&[issuer, outcome]).inc();
    }

    pub fn revocations_expire(&self, environment: &str, at_secs: i64) {
        self.all.revocations_expire.with_label_values(&[environment]).set(at_secs);
    }

    pub fn rated_by_part(&self) {
        self.all.rated_by_part.inc();
    }

    pub fn redis_up(&self, is_up: bool) {
        self.all.redis_up.with_label_values::<&str>(&[]).set(i64::from(is_up));
    }

    /// Counts a decision; a call that is decided again because a fact had changed counts again.
    pub fn decided(&self, environment: &str, operation: &str, verdict: &Verdict) {
        self.all.decisions.with_label_values(&[environment, operation, verdict.effect.as_str()]).inc();
        let names = self.names.load();
        let in_force = verdict.reasons.iter().map(|reason| (reason, Mode::Enforce));
        let in_shadow = verdict.shadows.iter().map(|reason| (reason, Mode::Shadow));
        for (reason, mode) in in_force.chain(in_shadow) {
            let rule = match reason.cause.name() {
                Some(name) if names.contains(name) => name,
                Some(_) => OTHERS,
                None => "",
            };
            self.all.rule_hits.with_label_values(&[rule, reason.effect.as_str(), mode.as_str()]).inc();
        }
    }

    pub fn claim_settled(&self, environment: &str, outcome: &str) {
        self.all.claims.with_label_values(&[environment, outcome]).inc();
    }

    pub fn claim_met(&self, environment: &str, said: &str) {
        self.all.claims_met.with_label_values(&[environment, said]).inc();
    }

    /// Counts a call of which a second attempt was executed, or may have been.
    pub fn paid_twice(&self, environment: &str, executions: &str) {
        self.all.paid_twice.with_label_values(&[environment, executions]).inc();
    }

    pub fn store_up(&self, is_up: bool) {
        self.all.store_up.set(i64::from(is_up));
    }

    /// Sets why the store refuses writes, if it does.
    pub fn store_refuses_writes(&self, refusal: Option<WriteRefusal>) {
        for cause in WriteRefusal::ALL {
            let is_so = i64::from(refusal == Some(cause));
            self.all.store_refuses_writes.with_label_values(&[cause.as_str()]).set(is_so);
        }
    }

    /// Counts a record that the store returned but that cannot be parsed.
    pub fn record_unreadable(&self) {
        self.all.store_failures.with_label_values(&["content", "broken"]).inc();
    }

    pub fn unsettled(&self, change: i64) {
        self.all.unsettled.add(change);
    }

    /// Sets the number behind which the earliest journal of a running gate begins.
    pub fn journals_begin(&self, environment: &str, behind: u64) {
        self.all.journals_begin.with_label_values(&[environment]).set(integer(behind));
    }

    pub fn store_rebuilt(&self, environment: &str) {
        self.all.store_rebuilt.with_label_values(&[environment]).inc();
    }

    pub fn store_contradicted(&self, environment: &str) {
        self.all.store_contradicted.with_label_values(&[environment]).inc();
    }

    /// Counts a record that was refused because somebody wrote it: `plain-text` or `changed`.
    pub fn record_refused(&self, environment: &str, reason: &str) {
        self.all.record_refused.with_label_values(&[environment, reason]).inc();
    }

    /// Sets how many records in plain text the store still has.
    pub fn plain_records(&self, environment: &str, count: u64) {
        self.all.plain_records.with_label_values(&[environment]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn clock_leapt(&self, environment: &str) {
        self.all.clock_leapt.with_label_values(&[environment]).inc();
    }

    pub fn clock_doubted(&self, environment: &str, is_doubted: bool) {
        self.all.clock_doubted.with_label_values(&[environment]).set(i64::from(is_doubted));
    }

    pub fn money_closed(&self, environment: &str, reason: &str, is_closed: bool) {
        self.all.money_closed.with_label_values(&[environment, reason]).set(i64::from(is_closed));
    }

    pub fn fence_closed(&self, environment: &str, is_closed: bool) {
        self.all.fence_closed.with_label_values(&[environment]).set(i64::from(is_closed));
    }

    pub fn audit_refused(&self, environment: &str) {
        self.all.audit_refused.with_label_values(&[environment]).inc();
    }

    pub fn in_doubt(&self, environment: &str, count: usize) {
        self.all.in_doubt.with_label_values(&[environment]).set(integer(count));
    }

    /// Sets the time when the oldest unknown outcome began, in seconds since 1970.
    pub fn in_doubt_since(&self, environment: &str, since_secs: Option<i64>) {
        moment(&self.all.in_doubt_since, environment, since_secs);
    }

    pub fn reconciled(&self, environment: &str, found: &str) {
        self.all.reconciled.with_label_values(&[environment, found]).inc();
    }

    pub fn frozen(&self, environment: &str, scope: &str, count: usize) {
        let count = integer(count);
        self.all.frozen.with_label_values(&[environment, scope]).set(count);
    }

    pub fn console_answered(&self, act: &str, status: u16) {
        self.all.people.with_label_values(&[act, &status.to_string()]).inc();
    }

    pub fn signed_in(&self, way: &str, outcome: &str) {
        self.all.sign_ins.with_label_values(&[way, outcome]).inc();
    }

    /// Sets the version of the policies in force, and removes the series of names that only the former policies had.
    pub fn policies_in_force(&self, policies: &Policies) {
        self.all.policy_info.reset();
        self.all.policy_info.with_label_values(&[policies.version()]).set(1);
        let rules = policies.rules.rules.iter().map(|rule| &rule.id);
        let limits: HashSet<Arc<str>> = policies.rules.limits.iter().map(|limit| limit.id.clone()).collect();
        let names: HashSet<Arc<str>> = limits.iter().chain(rules).take(MAX_NAMES).cloned().collect();
        let rates: HashSet<Arc<str>> = policies.rates.iter().map(|rate| rate.id.clone()).collect();
        forget(&self.all.rule_hits, "rule", |name| name.is_empty() || names.contains(name));
        for gauges in [&self.all.limit_used_ratio, &self.all.limit_used_usd, &self.all.limit_left_usd] {
            forget(gauges, "limit", |name| limits.contains(name));
        }
        for gauges in [&self.all.limit_used_calls, &self.all.limit_left_calls] {
            forget(gauges, "limit", |name| limits.contains(name));
        }
        for counters in [&self.all.rate_calls, &self.all.rate_near] {
            forget(counters, "rate", |name| rates.contains(name));
        }
        self.names.store(Arc::new(names));
    }

    /// Sets the use of a limit in its fullest window.
    pub fn limit_used(&self, environment: &str, limit: &str, mode: Mode, max: Max, used: u64) {
        if !self.names.load().contains(limit) {
            return;
        }
        let labels = [environment, limit, mode.as_str()];
        let left = max.units().saturating_sub(used);
        self.all.limit_used_ratio.with_label_values(&labels).set(parts(used, max.units()));
        match max {
            Max::MicroUsd(_) => {
                self.all.limit_used_usd.with_label_values(&labels).set(parts(used, MICROS));
                self.all.limit_left_usd.with_label_values(&labels).set(parts(left, MICROS));
            }
            Max::Calls(_) => {
                self.all.limit_used_calls.with_label_values(&labels).set(integer(used));
                self.all.limit_left_calls.with_label_values(&labels).set(integer(left));
            }
        }
    }

    /// Records how long a call waited for shared rates.
    pub fn rated_together(&self, waited: Duration) {
        self.all.rate_shared_seconds.observe(waited.as_secs_f64());
    }

    pub fn spans(&self, outcome: &str, count: usize) {
        self.all.spans.with_label_values(&[outcome]).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Sets the start time of this process, in seconds since 1970.
    pub fn process_started(&self, at: Duration) {
        self.all.process_start.set(at.as_secs_f64());
    }

    /// Sets the current resource use of the process.
    pub fn process(&self, usage: Usage) {
        let all = &self.all;
        all.process_cpu.reset();
        all.process_cpu.inc_by(usage.cpu.as_secs_f64());
        for (gauge, value) in [
            (&all.process_memory, usage.memory_bytes),
            (&all.process_virtual, usage.virtual_bytes),
            (&all.process_threads, usage.threads),
            (&all.process_files, usage.files),
            (&all.process_most_files, usage.most_files),
        ] {
            gauge.set(integer(value));
        }
    }

    pub fn policies_read(&self, outcome: &str) {
        self.all.policy_reads.with_label_values(&[outcome]).inc();
    }

    pub fn policies_changed(&self, changes: &Changes) {
        let Changes { added, removed, changed } = changes;
        for (change, names) in [("added", added), ("removed", removed), ("changed", changed)] {
            let count = u64::try_from(names.len()).unwrap_or(u64::MAX);
            self.all.policy_changes.with_label_values(&[change]).inc_by(count);
        }
    }

    pub fn policies_faulty(&self, are_faulty: bool) {
        self.all.policy_faulty.set(i64::from(are_faulty));
    }

    /// Sets whether this gate cannot run the policies in force.
    pub fn policies_not_run(&self, is_so: bool) {
        self.all.policy_not_run.set(i64::from(is_so));
    }

    /// Counts a reload that took effect; sets how many settings need a restart.
    pub fn reloaded(&self, outcome: &str, need_restart: usize) {
        self.all.reloads.with_label_values(&[outcome]).inc();
        self.all.reload_faulty.set(0);
        self.all.reload_needs_restart.set(integer(need_restart));
    }

    /// Counts a reload that was refused; the last good configuration stays.
    pub fn reload_refused(&self) {
        self.all.reloads.with_label_values(&["refused"]).inc();
        self.all.reload_faulty.set(1);
    }

    pub fn candidate(&self, version: Option<&str>) {
        self.all.policy_candidate.reset();
        if let Some(version) = version {
            self.all.policy_candidate.with_label_values(&[version]).set(1);
        }
    }

    /// Counts the decision of a call beside the one that the waiting policies would have made.
    pub fn decided_beside(&self, from: Effect, to: Effect) {
        self.all.candidate_decisions.with_label_values(&[from.as_str(), to.as_str()]).inc();
    }

    pub fn left_unchecked(&self) {
        self.all.unchecked.inc();
    }

    /// Returns the text that Prometheus scrapes.
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

const MICROS: u64 = 1_000_000;

/// Returns a share as a float, for display only; no decision uses it.
#[expect(clippy::float_arithmetic, reason = "Prometheus' numbers are floats")]
fn parts(some: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { some as f64 / whole as f64 }
}

fn integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Sets a gauge of a moment; without a moment there is no series.
fn moment(gauges: &prometheus::IntGaugeVec, environment: &str, at_secs: Option<i64>) {
    match at_secs {
        Some(at) => gauges.with_label_values(&[environment]).set(at),
        // There may be no series to remove.
        None => drop(gauges.remove_label_values(&[environment])),
    }
}

/// Removes the series whose label value does not stay.
fn forget<B: MetricVecBuilder>(metrics: &MetricVec<B>, label: &str, stays: impl Fn(&str) -> bool) {
    for family in metrics.collect() {
        for metric in family.get_metric() {
            let labels = metric.get_label();
            if labels.iter().any(|pair| pair.name() == label && !stays(pair.value())) {
                let all: std::collections::HashMap<&str, &str> =
                    labels.iter().map(|pair| (pair.name(), pair.value())).collect();
                drop(metrics.remove(&all));
            }
        }
    }
}
