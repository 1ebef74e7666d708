//! The metrics.

use std::sync::Arc;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::tally::Tally;
use crate::policy::{Changes, Effect, Mode, Verdict};

/// Upper bounds in seconds: 100 µs to 60 s.
const BUCKETS: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Every metric of Sluice.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    gate_seconds: HistogramVec,
    upstream_seconds: HistogramVec,
    drift: IntCounterVec,
    unchecked: IntCounter,
    decisions: IntCounterVec,
    rule_hits: IntCounterVec,
    in_flight: IntGauge,
    tokens_refused: IntCounterVec,
    keys_age: IntGaugeVec,
    keys_fetches: IntCounterVec,
    revocations_expire: IntGaugeVec,
    unreadable: IntCounterVec,
    connections: IntGaugeVec,
    connections_refused: IntCounterVec,
    rate_calls: IntCounterVec,
    rate_near: IntCounterVec,
    rated_by_part: IntCounterVec,
    redis_up: IntGaugeVec,
    claims: IntCounterVec,
    claims_met: IntCounterVec,
    store_failures: IntCounterVec,
    unsettled: IntGauge,
    audit_refused: IntCounterVec,
    in_doubt: IntGaugeVec,
    reconciled: IntCounterVec,
    frozen: IntGaugeVec,
    people: IntCounterVec,
    sign_ins: IntCounterVec,
    pub(super) tally: Arc<Tally>,
    holds: IntCounterVec,
    holds_open: IntGaugeVec,
    policy_info: IntGaugeVec,
    policy_reads: IntCounterVec,
    reloads: IntCounterVec,
    reload_faulty: IntGauge,
    reload_needs_restart: IntGauge,
    policy_changes: IntCounterVec,
    policy_faulty: IntGauge,
    policy_candidate: IntGaugeVec,
    candidate_decisions: IntCounterVec,
}

/// What is counted of one rate.
#[derive(Clone, Debug)]
pub struct RateCounters {
    pub allowed: IntCounter,
    pub limited: IntCounter,
    /// Allowed, with less than a fifth left.
    pub near: IntCounter,
}

impl Metrics {
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new();
        let seconds = |name: &str, help: &str| {
            let histogram = HistogramVec::new(
                HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()),
                &["environment", "operation"],
            )?;
            registered(&registry, histogram)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
        };
        let build = IntCounterVec::new(
            Opts::new("sluice_build_info", "Always 1; the label tells which build runs."),
            &["version"],
        )?;
        registered(&registry, build)?.with_label_values(&[env!("CARGO_PKG_VERSION")]).inc();
        Ok(Metrics {
            requests: counters(
                "sluice_requests_total",
                "Requests answered, by who answered and whether the call was executed.",
                &["environment", "operation", "status", "origin", "outcome", "code"],
            )?,
            request_seconds: seconds("sluice_request_seconds", "From the head of a request to the end of its answer.")?,
            gate_seconds: seconds(
                "sluice_gate_seconds",
                "What Sluice itself took of a request, without upstream and without the caller's sending.",
            )?,
            upstream_seconds: seconds(
                "sluice_upstream_seconds",
                "From sending to upstream to its answer: to the head for reads, to the end for writes.",
            )?,
            drift: counters(
                "sluice_answer_drift_total",
                "Answers of upstream that are not what the contract says.",
                &["environment", "operation"],
            )?,
            unchecked: registered(
                &registry,
                IntCounter::new(
                    "sluice_answers_unchecked_total",
                    "Answers that passed unchecked, because they were too large or checking fell behind.",
                )?,
            )?,
            tokens_refused: counters(
                "sluice_tokens_refused_total",
                "Tokens that were not believed, by reason.",
                &["environment", "reason"],
            )?,
            keys_age: gauges(
                "sluice_keys_age_seconds",
                "Since an issuer's keys were last fetched or read, and were good.",
                &["issuer"],
            )?,
            keys_fetches: counters(
                "sluice_keys_fetches_total",
                "Fetches of an issuer's keys, by what came of them.",
                &["issuer", "outcome"],
            )?,
            revocations_expire: gauges(
                "sluice_revocations_expire_timestamp_seconds",
                "When the first of the lists of revoked certificates expires; then callers are refused.",
                &["environment"],
            )?,
            unreadable: counters(
                "sluice_unreadable_requests_total",
                "Requests whose framing or head could not be read, by reason.",
                &["listener", "reason"],
            )?,
            connections: gauges("sluice_connections_open", "Connections that are open now.", &["listener"])?,
            connections_refused: counters(
                "sluice_connections_refused_total",
                "Connections that were closed before a request, by reason.",
                &["listener", "reason"],
            )?,
            rate_calls: counters(
                "sluice_rate_calls_total",
                "Calls by rate: allowed, or limited; in shadow mode, what would have been. One for each bucket.",
                &["rate", "mode", "outcome"],
            )?,
            rate_near: counters(
                "sluice_rate_near_total",
                "Calls that were allowed and left less than a fifth of what the rate allows.",
                &["rate", "mode"],
            )?,
            rated_by_part: counters(
                "sluice_rate_by_part_total",
                "Calls that were limited by this node's part of shared rates, as the Redis was away or slow.",
                &[],
            )?,
            redis_up: gauges("sluice_redis_up", "Whether the Redis that nodes share is there.", &[])?,
            claims: counters(
                "sluice_claims_total",
                "What became of attempts; `late`: an answer came when its claim had moved on.",
                &["environment", "outcome"],
            )?,
            claims_met: counters(
                "sluice_claims_met_total",
                "Calls that met a claim of their name, by what it said.",
                &["environment", "said"],
            )?,
            store_failures: counters(
                "sluice_store_failures_total",
                "Calls of the store that failed, by what is known of them.",
                &["kind"],
            )?,
            unsettled: registered(
                &registry,
                IntGauge::new("sluice_outcomes_unsettled", "Outcomes that the store could not be told yet.")?,
            )?,
            audit_refused: counters(
                "sluice_audit_refused_total",
                "Entries that can never stand in the audit chain.",
                &["environment"],
            )?,
            in_doubt: gauges("sluice_claims_in_doubt", "Claims whose outcome nobody knows.", &["environment"])?,
            reconciled: counters(
                "sluice_reconciliations_total",
                "Looks for the record of a call in doubt, by what was found.",
                &["environment", "found"],
            )?,
            frozen: gauges(
                "sluice_frozen",
                "What operators froze, by scope: all money, operations, callers.",
                &["environment", "scope"],
            )?,
            people: counters(
                "sluice_console_requests_total",
                "Requests that the console answered, by act and status.",
                &["act", "status"],
            )?,
            tally: Arc::default(),
            sign_ins: counters(
                "sluice_console_sign_ins_total",
                "Sign-ins of browsers, by their way and their outcome.",
                &["way", "outcome"],
            )?,
            holds: counters(
                "sluice_holds_total",
                "What happened to calls that wait for people.",
                &["environment", "what"],
            )?,
            holds_open: gauges(
                "sluice_holds_open",
                "Calls that wait for people, or to be released; 4096 means that many or more.",
                &["environment"],
            )?,
            policy_info: gauges(
                "sluice_policy_info",
                "Always 1; the label tells which version of the policies is in force.",
                &["version"],
            )?,
            policy_reads: counters(
                "sluice_policy_reads_total",
                "Policies that were read again, by what came of it: changed, unchanged or refused.",
                &["outcome"],
            )?,
            policy_changes: counters(
                "sluice_policy_changes_total",
                "What changed in the policies in force: things added, removed and changed in meaning.",
                &["change"],
            )?,
            policy_faulty: registered(
                &registry,
                IntGauge::new(
                    "sluice_policy_faulty",
                    "1 while the policies that were written last have errors, and those before them stay in force.",
                )?,
            )?,
            reloads: counters(
                "sluice_reloads_total",
                "How often everything that can be reloaded was read again, by what came of it: changed, unchanged or refused.",
                &["outcome"],
            )?,
            reload_faulty: registered(
                &registry,
                IntGauge::new(
                    "sluice_reload_faulty",
                    "1 while what was read again has errors, and what was good last stays.",
                )?,
            )?,
            reload_needs_restart: registered(
                &registry,
                IntGauge::new(
                    "sluice_reload_needs_restart",
                    "Settings that have changed since the start and need a restart.",
                )?,
            )?,
            policy_candidate: gauges(
                "sluice_policy_candidate",
                "1 for the version of the policies that wait until two people agree; no line while none wait.",
                &["version"],
            )?,
            candidate_decisions: counters(
                "sluice_candidate_decisions_total",
                "Calls that were decided while policies waited, by what became of them and what those would have made of them.",
                &["from", "to"],
            )?,
            decisions: counters(
                "sluice_decisions_total",
                "Calls that were decided, by what became of them: allow, hold or deny.",
                &["environment", "operation", "effect"],
            )?,
            rule_hits: counters(
                "sluice_rule_hits_total",
                "How often a rule or limit made a decision or, in shadow, would have had a say in it.",
                &["rule", "effect", "mode"],
            )?,
            in_flight: registered(
                &registry,
                IntGauge::new("sluice_requests_in_flight", "Requests that are being answered now.")?,
            )?,
            registry,
        })
    }

    pub fn hold(&self, environment: &str, what: &str) {
        self.holds.with_label_values(&[environment, what]).inc();
    }

    pub fn holds_open(&self, environment: &str, count: usize) {
        self.holds_open.with_label_values(&[environment]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn started(&self) {
        self.in_flight.inc();
    }

    /// Counts a request that was answered, or that could not be.
    pub fn answered(&self, line: &super::RequestLine<'_>, times: super::Times) {
        self.in_flight.dec();
        let labels = [line.environment, line.operation, line.status, line.origin, line.outcome, line.code];
        self.requests.with_label_values(&labels).inc();
        let labels = [line.environment, line.operation];
        self.request_seconds.with_label_values(&labels).observe(times.whole.as_secs_f64());
        self.gate_seconds.with_label_values(&labels).observe(times.gate.as_secs_f64());
        if let Some(upstream) = times.upstream {
            self.upstream_seconds.with_label_values(&labels).observe(upstream.as_secs_f64());
        }
    }

    pub fn drifted(&self, environment: &str, operation: &str) {
        self.drift.with_label_values(&[environment, operation]).inc();
    }

    pub fn token_refused(&self, environment: &str, reason: &str) {
        self.tokens_refused.with_label_values(&[environment, reason]).inc();
    }

    pub fn keys_age(&self, issuer: &str, age: Duration) {
        self.keys_age.with_label_values(&[issuer]).set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    }

    pub fn keys_fetched(&self, issuer: &str, outcome: &str) {
        self.keys_fetches.with_label_values(&[issuer, outcome]).inc();
    }

    pub fn revocations_expire(&self, environment: &str, at_secs: i64) {
        self.revocations_expire.with_label_values(&[environment]).set(at_secs);
    }

    pub fn unreadable(&self, listener: &str, reason: &str) {
        self.unreadable.with_label_values(&[listener, reason]).inc();
    }

    pub fn connected(&self, listener: &str) {
        self.connections.with_label_values(&[listener]).inc();
    }

    pub fn disconnected(&self, listener: &str) {
        self.connections.with_label_values(&[listener]).dec();
    }

    pub fn connection_refused(&self, listener: &str, reason: &str) {
        self.connections_refused.with_label_values(&[listener, reason]).inc();
    }

    /// The counters of one rate; they are there from the start.
    pub fn of_rate(&self, rate: &str, mode: &str) -> RateCounters {
        let calls = |outcome: &str| self.rate_calls.with_label_values(&[rate, mode, outcome]);
        let near = self.rate_near.with_label_values(&[rate, mode]);
        RateCounters { allowed: calls("allowed"), limited: calls("limited"), near }
    }

    pub fn rated_by_part(&self) {
        self.rated_by_part.with_label_values::<&str>(&[]).inc();
    }

    pub fn redis_up(&self, is_up: bool) {
        self.redis_up.with_label_values::<&str>(&[]).set(i64::from(is_up));
    }

    /// A call was decided; again, where what was assumed was otherwise.
    pub fn decided(&self, environment: &str, operation: &str, verdict: &Verdict) {
        self.decisions.with_label_values(&[environment, operation, verdict.effect.as_str()]).inc();
        let in_force = verdict.reasons.iter().map(|reason| (reason, Mode::Enforce));
        let in_shadow = verdict.shadows.iter().map(|reason| (reason, Mode::Shadow));
        for (reason, mode) in in_force.chain(in_shadow) {
            let rule = reason.cause.name().unwrap_or("");
            self.rule_hits.with_label_values(&[rule, reason.effect.as_str(), mode.as_str()]).inc();
        }
    }

    pub fn claim_settled(&self, environment: &str, outcome: &str) {
        self.claims.with_label_values(&[environment, outcome]).inc();
    }

    pub fn claim_met(&self, environment: &str, said: &str) {
        self.claims_met.with_label_values(&[environment, said]).inc();
    }

    pub fn store_failed(&self, kind: &str) {
        self.store_failures.with_label_values(&[kind]).inc();
    }

    pub fn unsettled(&self, change: i64) {
        self.unsettled.add(change);
    }

    pub fn audit_refused(&self, environment: &str) {
        self.audit_refused.with_label_values(&[environment]).inc();
    }

    pub fn in_doubt(&self, environment: &str, count: usize) {
        self.in_doubt.with_label_values(&[environment]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn reconciled(&self, environment: &str, found: &str) {
        self.reconciled.with_label_values(&[environment, found]).inc();
    }

    pub fn frozen(&self, environment: &str, scope: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.frozen.with_label_values(&[environment, scope]).set(count);
    }

    pub fn console_answered(&self, act: &str, status: u16) {
        self.people.with_label_values(&[act, &status.to_string()]).inc();
    }

    pub fn signed_in(&self, way: &str, outcome: &str) {
        self.sign_ins.with_label_values(&[way, outcome]).inc();
    }

    /// Which version decides from now on.
    pub fn policies_in_force(&self, version: &str) {
        self.policy_info.reset();
        self.policy_info.with_label_values(&[version]).set(1);
    }

    pub fn policies_read(&self, outcome: &str) {
        self.policy_reads.with_label_values(&[outcome]).inc();
    }

    pub fn policies_changed(&self, changes: &Changes) {
        let Changes { added, removed, changed } = changes;
        for (change, names) in [("added", added), ("removed", removed), ("changed", changed)] {
            let count = u64::try_from(names.len()).unwrap_or(u64::MAX);
            self.policy_changes.with_label_values(&[change]).inc_by(count);
        }
    }

    pub fn policies_faulty(&self, are_faulty: bool) {
        self.policy_faulty.set(i64::from(are_faulty));
    }

    /// What was read again is in use; so many settings need a restart.
    pub fn reloaded(&self, outcome: &str, need_restart: usize) {
        self.reloads.with_label_values(&[outcome]).inc();
        self.reload_faulty.set(0);
        self.reload_needs_restart.set(i64::try_from(need_restart).unwrap_or(i64::MAX));
    }

    /// What was read again has errors; what was good last stays.
    pub fn reload_refused(&self) {
        self.reloads.with_label_values(&["refused"]).inc();
        self.reload_faulty.set(1);
    }

    pub fn candidate(&self, version: Option<&str>) {
        self.policy_candidate.reset();
        if let Some(version) = version {
            self.policy_candidate.with_label_values(&[version]).set(1);
        }
    }

    /// What became of a call, and what the policies that wait would have made of it.
    pub fn decided_beside(&self, from: Effect, to: Effect) {
        self.candidate_decisions.with_label_values(&[from.as_str(), to.as_str()]).inc();
    }

    pub fn left_unchecked(&self) {
        self.unchecked.inc();
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
