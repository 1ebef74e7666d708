//! The list of metrics: the name, the labels and the description of each. Everything else derives from it.

use prometheus::Registry;

use super::family::{Counter, Counters, Family, Float, FloatCounter, Floats, Gauge, Gauges, Latencies, Latency, Waits};

/// One metric, for the documents.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($field:ident: $family:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// Every metric.
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
        "Answered requests, by origin (gateway or upstream) and by whether the call was executed.";
    in_flight: Gauge "sluice_requests_in_flight" [] "Requests in progress.";
    request_seconds: Latencies "sluice_request_seconds" ["environment", "operation"]
        "Time from the head of a request to the end of its answer.";
    gate_seconds: Latencies "sluice_gate_seconds" ["environment", "operation"]
        "Time of a request in Sluice itself, without upstream and without the caller's sending.";
    upstream_seconds: Latencies "sluice_upstream_seconds" ["environment", "operation"]
        "Time from sending to upstream to its answer: to the head for reads, to the end for writes.";
    upstream_connections: Counters "sluice_upstream_connections_total" ["environment", "what"]
        "Connections for writes: `opened`, ahead or for a call that waits; `used`, for one call each; `discarded` unused.";
    drift: Counters "sluice_answer_drift_total" ["environment", "operation"]
        "Answers of upstream that break the contract.";
    unlisted: Counters "sluice_unlisted_refusals_total" ["environment", "operation", "status", "code"]
        "Refusals of writes by upstream that the contract does not list; past 64 codes, and for unusual ones: `(others)`.";
    unchecked: Counter "sluice_answers_unchecked_total" []
        "Answers of upstream that passed unchecked, because they were too large or checking fell behind.";

    decisions: Counters "sluice_decisions_total" ["environment", "operation", "effect"]
        "Decided calls, by decision: allow, hold or deny.";
    rule_hits: Counters "sluice_rule_hits_total" ["rule", "effect", "mode"]
        "Decisions in which a rule or limit took part or, in shadow mode, would have. Past 1000 ids: `(others)`.";
    limit_used_ratio: Floats "sluice_limit_used_ratio" ["environment", "limit", "mode"]
        "Used share of a limit in its fullest window, from 0 to 1.";
    limit_used_usd: Floats "sluice_limit_used_usd" ["environment", "limit", "mode"]
        "US dollars used of a limit on amounts, in its fullest window.";
    limit_left_usd: Floats "sluice_limit_left_usd" ["environment", "limit", "mode"]
        "US dollars left of a limit on amounts, in its fullest window.";
    limit_used_calls: Gauges "sluice_limit_used_calls" ["environment", "limit", "mode"]
        "Calls used of a limit on calls, in its fullest window.";
    limit_left_calls: Gauges "sluice_limit_left_calls" ["environment", "limit", "mode"]
        "Calls left of a limit on calls, in its fullest window.";

    claims: Counters "sluice_claims_total" ["environment", "outcome"]
        "Attempts, by outcome; `late`: an answer came after its claim had changed; `proved-late`: it proved an execution; `restored`: the store had lost the claim.";
    claims_met: Counters "sluice_claims_met_total" ["environment", "said"]
        "Calls whose requestId already had a claim, by the state of that claim.";
    paid_twice: Counters "sluice_paid_twice_total" ["environment", "executions"]
        "Calls of which two attempts were executed (`twice`), or may have been (`perhaps-twice`).";
    in_doubt: Gauges "sluice_claims_in_doubt" ["environment"] "Claims with an unknown outcome.";
    in_doubt_since: Gauges "sluice_claims_in_doubt_since_timestamp_seconds" ["environment"]
        "Time when the oldest unknown outcome began; no series while there is none.";
    reconciled: Counters "sluice_reconciliations_total" ["environment", "found"]
        "Queries of upstream for the record of an unknown outcome, by result.";
    lists_read: Counters "sluice_follow_readings_total" ["environment", "operation", "result"]
        "Readings of upstream's list of payments by this gate: `read`, or `failed`.";
    listed_unreadable: Counters "sluice_follow_unreadable_total" ["environment", "operation"]
        "Records of upstream's list of payments that have another form than the contract says.";
    followed: Counters "sluice_followed_total" ["environment", "operation", "state", "meaning"]
        "Payments that upstream's list showed in a further state, and what the state means: `open`, `settled`, `failed` or `returned`.";
    foreign: Counters "sluice_foreign_payments_total" ["environment", "operation", "problem"]
        "Payments in upstream's list that no gate sent, or there or in its answers that are not as they were sent, by what is wrong.";
    foreign_listed: Gauges "sluice_foreign_payments_listed" ["environment"]
        "Such payments of the last 35 days; 4096 means that many or more.";
    unsettled: Gauge "sluice_outcomes_unsettled" [] "Outcomes that could not be written to the store yet.";
    frozen: Gauges "sluice_frozen" ["environment", "scope"]
        "Freezes, by scope: all money, operations, callers; `restored`: all money, because the store may have lost data; `clock`: all money, because the store's clock leapt.";

    holds: Counters "sluice_holds_total" ["environment", "what"] "Events of holds; `no-room`: a call was refused because its caller or environment had too many.";
    signatures_refused: Counters "sluice_signatures_refused_total" ["environment", "reason"]
        "Signatures of votes that were refused: `stale`: no open challenge, or other policies; `copied`: the authenticator's counter stood still; `recovery`: signatures of recovery keys; `key`, `signature`, `statement`, `origin`, `unverified`, `synced`, `form`.";
    holds_open: Gauges "sluice_holds_open" ["environment"]
        "Holds that wait for approval or for release; 4096 means that many or more.";
    holds_open_since: Gauges "sluice_holds_open_since_timestamp_seconds" ["environment"]
        "Time when the oldest open hold began; no series while none is open.";
    holds_expire: Gauges "sluice_holds_expire_timestamp_seconds" ["environment"]
        "Time when the next open hold expires; no series while none is open.";
    holds_expiring: Gauges "sluice_holds_expiring" ["environment"]
        "Holds that wait for approval and expire within `console.remind_before_secs`.";
    hold_room: Floats "sluice_hold_room_used_ratio" ["environment", "of"]
        "Used share of the room for open holds, from 0 to 1: of their number (`holds`) and of their bytes (`bytes`).";
    told: Counters "sluice_webhook_deliveries_total" ["webhook", "outcome"]
        "Messages sent to a webhook, by result; a message that is not `delivered` is sent again.";
    untold: Counters "sluice_webhook_dropped_total" ["webhook", "why"]
        "Dropped messages to webhooks: they waited too long (`late`), or too many waited (`full`).";
    untold_waiting: Gauges "sluice_webhook_waiting" ["environment", "webhook"]
        "Messages that wait for delivery to a webhook; past 4096, further ones are dropped.";
    untold_oldest: Gauges "sluice_webhook_oldest_seconds" ["environment", "webhook"]
        "Age of the oldest message that waits for delivery to a webhook.";
    hold_wait: Waits "sluice_hold_wait_seconds" ["environment", "ending"]
        "Time that holds waited until they were released or ended.";

    tokens_refused: Counters "sluice_tokens_refused_total" ["environment", "reason"]
        "Refused tokens, by reason.";
    keys_age: Gauges "sluice_keys_age_seconds" ["issuer"]
        "Time since an issuer's keys were last fetched or read successfully.";
    keys_known: Gauges "sluice_keys_known" ["issuer"]
        "1 while the gate has keys of the issuer; 0 before they were fetched first, and once they are too old to be used.";
    keys_fetches: Counters "sluice_keys_fetches_total" ["issuer", "outcome"]
        "Fetches of an issuer's keys, by result.";
    revocations_expire: Gauges "sluice_revocations_expire_timestamp_seconds" ["environment"]
        "Time when the first certificate revocation list expires; callers are refused from then on.";

    rate_calls: Counters "sluice_rate_calls_total" ["rate", "mode", "outcome"]
        "Calls by rate: allowed, or limited; in shadow mode, the result it would have had. One count for each bucket.";
    rate_near: Counters "sluice_rate_near_total" ["rate", "mode"]
        "Allowed calls that left less than a fifth of what the rate allows.";
    rate_shared_seconds: Latency "sluice_rate_shared_seconds" []
        "Time that a call waited for the Redis to check shared rates.";
    rated_by_part: Counter "sluice_rate_by_part_total" []
        "Calls that this node's part of shared rates limited, because the Redis was away or slow.";
    redis_up: Gauges "sluice_redis_up" []
        "Whether the shared Redis is connected and accepts writes; no series if none is configured.";

    store_up: Gauge "sluice_store_up" [] "Whether the store answers queries and accepts writes; checked every second.";
    store_refuses_writes: Gauges "sluice_store_refuses_writes" ["cause"]
        "1 while the store answers but refuses writes, by cause: `memory`, `replicas` (too few), `replica` (it is one), `disk`.";
    store_seconds: Latencies "sluice_store_seconds" ["call"] "Time of calls to the store, by call.";
    store_failures: Counters "sluice_store_failures_total" ["call", "kind"]
        "Failed calls to the store, by call and by fault.";

    unwitnessed_since: Gauge "sluice_unwitnessed_since_seconds" []
        "Since when lines of the journal wait for the signatures of enough witnesses, in seconds since 1970; 0 if none wait.";
    witness_answers: Counters "sluice_witness_answers_total" ["witness", "answer"]
        "Answers of witnesses to checkpoints: `signed`, or why not.";
    audit_up: Gauge "sluice_audit_up" [] "Whether the last write to the audit chain succeeded; while it fails, no money moves.";
    audit_seconds: Latency "sluice_audit_seconds" [] "Time that commits for money waited until their audit entry was on disk.";
    audit_outbox: Gauges "sluice_audit_outbox_entries" ["environment"]
        "Entries of all gates that were not on this gate's disk yet; measured every second.";
    audit_lag: Gauges "sluice_audit_lag_seconds" ["environment"]
        "Age of the oldest entry that was not on disk yet.";
    audit_refused: Counters "sluice_audit_refused_total" ["environment"]
        "Entries that the audit chain can never take.";
    journals_begin: Gauges "sluice_journals_begin_behind" ["environment"]
        "The number behind which the earliest journal of a running gate begins; above 0, a store that loses its memory stays closed.";
    store_rebuilt: Counters "sluice_store_rebuilds_total" ["environment"]
        "How often this gate rebuilt a store that had lost its memory, from its journal.";
    store_contradicted: Counters "sluice_store_contradictions_total" ["environment"]
        "Commits, records and members of indexes in the store that contradicted this gate's journal; nothing was sent by them.";
    record_refused: Counters "sluice_store_records_refused_total" ["environment", "reason"]
        "Records of the store that were refused: in plain text although a seal key is configured, sealed with another key, or changed by somebody.";
    plain_records: Gauges "sluice_store_plain_records" ["environment"]
        "Records in plain text in the store of a gate with `store.seal_key` and `store.allow_plain`, counted at its start and every hour.";
    clock_leapt: Counters "sluice_store_clock_leaps_total" ["environment"]
        "Leaps of the store's clock for which this gate closed money.";
    clock_doubted: Gauges "sluice_gate_clock_doubted" ["environment"]
        "1 while the gate sends no money because no date of upstream or an issuer agreed with its machine's clock since its start.";
    money_closed: Gauges "sluice_money_closed" ["environment", "reason"]
        "1 while no money can move for this reason of `/readyz/money`, otherwise 0.";
    fence_closed: Gauges "sluice_redis_fence_closed" ["environment"]
        "1 while the gate does not pay because its Redis may not be the only primary.";

    policy_info: Gauges "sluice_policy_info" ["version"]
        "Always 1; the label is the version of the policies in force.";
    policy_reads: Counters "sluice_policy_reads_total" ["outcome"]
        "Reloads of the policies, by result: changed, unchanged, waiting or refused.";
    policy_changes: Counters "sluice_policy_changes_total" ["change"]
        "Changes of the policies in force: rules and limits added, removed and changed in meaning.";
    policy_faulty: Gauge "sluice_policy_faulty" []
        "1 while the newest policies have errors, and the former ones stay in force.";
    policy_not_run: Gauge "sluice_policy_not_run" []
        "1 while this gate cannot run the policies or the contract in force: it serves reads and sends nothing.";
    policy_candidate: Gauges "sluice_policy_candidate" ["version"]
        "1 for the version of the policies that waits for the approval of two people; no series while none waits.";
    candidate_decisions: Counters "sluice_candidate_decisions_total" ["from", "to"]
        "Calls decided while policies waited, by their decision and by that of the waiting policies.";

    reloads: Counters "sluice_reloads_total" ["outcome"]
        "Reloads of the configuration, by result: changed, unchanged or refused.";
    reload_faulty: Gauge "sluice_reload_faulty" []
        "1 while the newest configuration has errors, and the former one stays in use.";
    reload_needs_restart: Gauge "sluice_reload_needs_restart" []
        "Settings that have changed since the start and need a restart.";

    people: Counters "sluice_console_requests_total" ["act", "status"]
        "Requests to the console, by act and status.";
    sign_ins: Counters "sluice_console_sign_ins_total" ["way", "outcome"]
        "Sign-ins of browsers, by method and outcome.";

    connections: Gauges "sluice_connections_open" ["listener"] "Open connections.";
    connections_refused: Counters "sluice_connections_refused_total" ["listener", "reason"]
        "Connections closed before a request, by reason.";
    buffered: Gauges "sluice_buffered_bytes" ["listener"]
        "Memory of callers without a place among the calls: handshakes, heads that arrive in parts, requests whose callers are not known yet, answers that are not taken, HTTP/2 connections.";
    connections_reset: Counters "sluice_connections_reset_total" ["listener"]
        "Connections reset because `limits.buffered_bytes` was full: the slowest of the address that held the most.";
    answers_waited: Counters "sluice_answers_waited_total" ["environment"]
        "Answers to writes, and long heads of upstream's answers, that waited for `limits.answers_bytes`.";
    late_answers_given_up: Counters "sluice_late_answers_given_up_total" ["environment"]
        "Calls with an unknown outcome whose late answer is not waited for: their caller waited for too many.";
    unreadable: Counters "sluice_unreadable_requests_total" ["listener", "reason"]
        "Requests with an invalid framing or head, by reason.";

    spans: Counters "sluice_spans_total" ["outcome"]
        "Spans of traces: exported, or dropped because the queue was full or the collector refused them.";
    build: Gauges "sluice_build_info" ["version"] "Always 1; the label is the running version.";

    process_cpu: FloatCounter "process_cpu_seconds_total" [] "CPU time that the process used.";
    process_memory: Gauge "process_resident_memory_bytes" [] "Resident memory of the process.";
    process_virtual: Gauge "process_virtual_memory_bytes" [] "Virtual memory of the process.";
    process_threads: Gauge "process_threads" [] "Threads of the process.";
    process_files: Gauge "process_open_fds" [] "Open file descriptors of the process.";
    process_most_files: Gauge "process_max_fds" [] "Maximum number of open file descriptors.";
    process_start: Float "process_start_time_seconds" [] "Start time of the process, in seconds since 1970.";
}
