//! The list of metrics: what each is called, what its labels are, and what it says. Everything else derives from it.

use prometheus::Registry;

use super::family::{Counter, Counters, Family, Float, FloatCounter, Floats, Gauge, Gauges, Latencies, Latency, Waits};

/// One metric, as the documents tell it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($field:ident: $family:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// Every metric that there is.
        #[derive(Clone, Debug)]
        pub(super) struct All { $(pub $field: $family,)* }

        /// Every metric, in reading order.
        pub static METRICS: &[Described] = &[$(Described {
            name: $name,
            kind: <$family as Family>::KIND,
            labels: &[$($label),*],
            help: $help,
        },)*];

        impl All {
            pub fn registered(registry: &Registry) -> Result<All, prometheus::Error> {
                Ok(All { $($field: <$family as Family>::registered(registry, $name, $help, &[$($label),*])?,)* })
            }
        }
    };
}

metrics! {
    requests: Counters "sluice_requests_total" ["environment", "operation", "status", "origin", "outcome", "code"]
        "Requests answered, by who answered and whether the call was executed.";
    in_flight: Gauge "sluice_requests_in_flight" [] "Requests that are being answered now.";
    request_seconds: Latencies "sluice_request_seconds" ["environment", "operation"]
        "From the head of a request to the end of its answer.";
    gate_seconds: Latencies "sluice_gate_seconds" ["environment", "operation"]
        "What Sluice itself took of a request, without upstream and without the caller's sending.";
    upstream_seconds: Latencies "sluice_upstream_seconds" ["environment", "operation"]
        "From sending to upstream to its answer: to the head for reads, to the end for writes.";
    drift: Counters "sluice_answer_drift_total" ["environment", "operation"]
        "Answers of upstream that are not what the contract says.";
    unchecked: Counter "sluice_answers_unchecked_total" []
        "Answers that passed unchecked, because they were too large or checking fell behind.";

    decisions: Counters "sluice_decisions_total" ["environment", "operation", "effect"]
        "Calls that were decided, by what became of them: allow, hold or deny.";
    rule_hits: Counters "sluice_rule_hits_total" ["rule", "effect", "mode"]
        "How often a rule or limit made a decision or, in shadow, would have had a say in it. Past 1000 ids: `(others)`.";
    limit_used_ratio: Floats "sluice_limit_used_ratio" ["environment", "limit", "mode"]
        "What is used of a limit in its fullest window, from 0 to 1; of many windows, the first 1000 are looked at.";
    limit_used_usd: Floats "sluice_limit_used_usd" ["environment", "limit", "mode"]
        "US dollars used of a limit on amounts, in its fullest window.";
    limit_left_usd: Floats "sluice_limit_left_usd" ["environment", "limit", "mode"]
        "US dollars left of a limit on amounts, in its fullest window.";
    limit_used_calls: Gauges "sluice_limit_used_calls" ["environment", "limit", "mode"]
        "Calls used of a limit on calls, in its fullest window.";
    limit_left_calls: Gauges "sluice_limit_left_calls" ["environment", "limit", "mode"]
        "Calls left of a limit on calls, in its fullest window.";

    claims: Counters "sluice_claims_total" ["environment", "outcome"]
        "What became of attempts; `late`: an answer came when its claim had moved on.";
    claims_met: Counters "sluice_claims_met_total" ["environment", "said"]
        "Calls that met a claim of their name, by what it said.";
    in_doubt: Gauges "sluice_claims_in_doubt" ["environment"] "Claims whose outcome nobody knows.";
    in_doubt_since: Gauges "sluice_claims_in_doubt_since_timestamp_seconds" ["environment"]
        "Since when the oldest of them is in doubt; no line while none is.";
    reconciled: Counters "sluice_reconciliations_total" ["environment", "found"]
        "Looks for the record of a call in doubt, by what was found.";
    unsettled: Gauge "sluice_outcomes_unsettled" [] "Outcomes that the store could not be told yet.";
    frozen: Gauges "sluice_frozen" ["environment", "scope"]
        "What is frozen, by scope: all money, operations, callers; `restored`: all money, as the store may have forgotten.";

    holds: Counters "sluice_holds_total" ["environment", "what"] "What happened to calls that wait for people.";
    holds_open: Gauges "sluice_holds_open" ["environment"]
        "Calls that wait for people, or to be released; 4096 means that many or more.";
    holds_open_since: Gauges "sluice_holds_open_since_timestamp_seconds" ["environment"]
        "Since when the oldest of them waits; no line while none does.";
    holds_expire: Gauges "sluice_holds_expire_timestamp_seconds" ["environment"]
        "When the next of them expires; no line while none waits.";
    holds_expiring: Gauges "sluice_holds_expiring" ["environment"]
        "Calls that wait for people and expire within `console.remind_before_secs`.";
    told: Counters "sluice_webhook_deliveries_total" ["webhook", "outcome"]
        "Messages that were sent to a webhook, by what came of it; what is not `delivered` is sent again.";
    untold: Counters "sluice_webhook_dropped_total" ["webhook", "why"]
        "Messages that nobody is told any more: they waited too long (`late`), or too many waited (`full`).";
    untold_waiting: Gauges "sluice_webhook_waiting" ["environment", "webhook"]
        "Messages that wait to be delivered to a webhook; past 4096 no more are taken.";
    untold_oldest: Gauges "sluice_webhook_oldest_seconds" ["environment", "webhook"]
        "How long the oldest message waits that is to be delivered to a webhook.";
    hold_wait: Waits "sluice_hold_wait_seconds" ["environment", "ending"]
        "How long calls waited for people until they were released, or went no further.";

    tokens_refused: Counters "sluice_tokens_refused_total" ["environment", "reason"]
        "Tokens that were not believed, by reason.";
    keys_age: Gauges "sluice_keys_age_seconds" ["issuer"]
        "Since an issuer's keys were last fetched or read, and were good.";
    keys_fetches: Counters "sluice_keys_fetches_total" ["issuer", "outcome"]
        "Fetches of an issuer's keys, by what came of them.";
    revocations_expire: Gauges "sluice_revocations_expire_timestamp_seconds" ["environment"]
        "When the first of the lists of revoked certificates expires; then callers are refused.";

    rate_calls: Counters "sluice_rate_calls_total" ["rate", "mode", "outcome"]
        "Calls by rate: allowed, or limited; in shadow mode, what would have been. One for each bucket.";
    rate_near: Counters "sluice_rate_near_total" ["rate", "mode"]
        "Calls that were allowed and left less than a fifth of what the rate allows.";
    rate_shared_seconds: Latency "sluice_rate_shared_seconds" []
        "What a call waited for the Redis to say whether shared rates have room.";
    rated_by_part: Counter "sluice_rate_by_part_total" []
        "Calls that were limited by this node's part of shared rates, as the Redis was away or slow.";
    redis_up: Gauges "sluice_redis_up" []
        "Whether the Redis that nodes share is there; no line where none is configured.";

    store_up: Gauge "sluice_store_up" [] "Whether the store did what it was asked, when it was asked last.";
    store_seconds: Latencies "sluice_store_seconds" ["call"] "How long calls of the store took, by what they were for.";
    store_failures: Counters "sluice_store_failures_total" ["call", "kind"]
        "Calls of the store that failed, by what they were for and what is known of them.";

    audit_up: Gauge "sluice_audit_up" [] "Whether the audit chain could be written last; while it cannot, no money moves.";
    audit_seconds: Latency "sluice_audit_seconds" [] "How long money waited until its entry was on disk.";
    audit_outbox: Gauges "sluice_audit_outbox_entries" ["environment"]
        "Entries of this node that were still to be brought to its disk; looked at every ten seconds.";
    audit_lag: Gauges "sluice_audit_lag_seconds" ["environment"]
        "How long the oldest of them had waited.";
    audit_refused: Counters "sluice_audit_refused_total" ["environment"]
        "Entries that can never stand in the audit chain.";

    policy_info: Gauges "sluice_policy_info" ["version"]
        "Always 1; the label tells which version of the policies is in force.";
    policy_reads: Counters "sluice_policy_reads_total" ["outcome"]
        "Policies that were read again, by what came of it: changed, unchanged, waiting or refused.";
    policy_changes: Counters "sluice_policy_changes_total" ["change"]
        "What changed in the policies in force: things added, removed and changed in meaning.";
    policy_faulty: Gauge "sluice_policy_faulty" []
        "1 while the policies that were written last have errors, and those before them stay in force.";
    policy_candidate: Gauges "sluice_policy_candidate" ["version"]
        "1 for the version of the policies that wait until two people agree; no line while none wait.";
    candidate_decisions: Counters "sluice_candidate_decisions_total" ["from", "to"]
        "Calls that were decided while policies waited, by what became of them and what those would have made of them.";

    reloads: Counters "sluice_reloads_total" ["outcome"]
        "How often everything that can be reloaded was read again, by what came of it: changed, unchanged or refused.";
    reload_faulty: Gauge "sluice_reload_faulty" []
        "1 while what was read again has errors, and what was good last stays.";
    reload_needs_restart: Gauge "sluice_reload_needs_restart" []
        "Settings that have changed since the start and need a restart.";

    people: Counters "sluice_console_requests_total" ["act", "status"]
        "Requests that the console answered, by act and status.";
    sign_ins: Counters "sluice_console_sign_ins_total" ["way", "outcome"]
        "Sign-ins of browsers, by their way and their outcome.";

    connections: Gauges "sluice_connections_open" ["listener"] "Connections that are open now.";
    connections_refused: Counters "sluice_connections_refused_total" ["listener", "reason"]
        "Connections that were closed before a request, by reason.";
    unreadable: Counters "sluice_unreadable_requests_total" ["listener", "reason"]
        "Requests whose framing or head could not be read, by reason.";

    spans: Counters "sluice_spans_total" ["outcome"]
        "Spans of traces: exported, or dropped, as the queue was full or the collector did not take them.";
    build: Gauges "sluice_build_info" ["version"] "Always 1; the label tells which build runs.";

    process_cpu: FloatCounter "process_cpu_seconds_total" [] "Time of processors that the process used.";
    process_memory: Gauge "process_resident_memory_bytes" [] "Memory that the process has in use.";
    process_virtual: Gauge "process_virtual_memory_bytes" [] "Memory that the process has asked for.";
    process_threads: Gauge "process_threads" [] "Threads of the process.";
    process_files: Gauge "process_open_fds" [] "Descriptors that are open now.";
    process_most_files: Gauge "process_max_fds" [] "Descriptors that may be open.";
    process_start: Float "process_start_time_seconds" [] "When the process was started, in seconds since 1970.";
}
