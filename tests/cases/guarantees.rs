//! The guarantees: every promise with its assumptions, what breaks without them, and the tests that show it.
//!
//! `deploy/docs/guarantees.md` is generated from this table and from `tests/broken.toml`.

use std::fs;
use std::path::Path;

/// One promise.
struct Guarantee {
    title: &'static str,
    promise: &'static str,
    /// Each assumption, and what breaks without it.
    assumptions: &'static [(&'static str, &'static str)],
    /// The tests that show it, by their module and name.
    tests: &'static [&'static str],
}

const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        title: "Nothing unlisted leaves",
        promise: "Only operations of the contract, with bodies and parameters that its schemas allow, reach the host of the \
                  environment that the call came in on.",
        assumptions: &[
            (
                "Callers cannot reach upstream, or do not have its token.",
                "A service that calls upstream directly passes no rule.",
            ),
            (
                "The contract and the policies are those that people decided on.",
                "Whoever can write their files decides what leaves.",
            ),
        ],
        tests: &[
            "examples::bad_bodies_are_refused_each_with_its_places_and_without_its_values",
            "heads::a_target_has_one_reading_or_none",
            "rules::answers::nothing_passes_that_no_rule_is_about_and_the_answer_names_what_denied",
            "identity::environments::a_token_for_sandbox_does_not_reach_production",
        ],
    },
    Guarantee {
        title: "At most once",
        promise: "One requestId has at most one effect upstream. An outcome that is not known is called unknown, and nothing is \
                  sent again by itself.",
        assumptions: &[
            ("Callers repeat a call with the same requestId.", "A repeat with another requestId is another payment."),
            (
                "Upstream acts on a call within `timeouts.upstream_max_ms` of its last byte, or never.",
                "People who resolve a call as absent may let it be paid a second time.",
            ),
            (
                "The store keeps what it confirmed, or the journals of all gates survive.",
                "Money stays closed until a person opens it; payments that no journal knows may then be repeated.",
            ),
        ],
        tests: &[
            "model::no_history_breaks_a_promise",
            "claims::progress::of_many_at_once_one_is_sent",
            "claims::restart::what_was_being_sent_when_its_process_was_killed_is_in_doubt",
            "claims::fates::what_is_in_doubt_is_told_so_and_never_sent_again",
            "once::a_write_on_a_dying_connection_is_never_sent_again",
            "nodes::a_race_at_both_gates_has_one_effect",
        ],
    },
    Guarantee {
        title: "No overspend",
        promise: "Limits hold under any concurrency on any number of gates. What is in flight or unknown counts until it is \
                  certain that it did not happen.",
        assumptions: &[
            (
                "The rates of assets are those of the policies.",
                "The value of a payment, and so its share of a limit, is wrong.",
            ),
            ("All gates share one store.", "Gates with separate stores have separate limits."),
        ],
        tests: &[
            "rules::overspend::many_callers_at_two_gates_that_are_killed_never_spend_more_than_the_limit",
            "rules::limits::what_was_certainly_not_executed_gives_its_share_back_and_what_is_unknown_keeps_it",
            "rebuilt::limits_count_on_after_the_redis_was_emptied",
            "following::seeded::every_window_equals_what_upstream_says_and_no_state_goes_back",
        ],
    },
    Guarantee {
        title: "No release without its quorum",
        promise: "What is sent is byte for byte what was approved. Nobody approves their own request. It is sent at most once, and \
                  only if the rules and limits of that moment allow it.",
        assumptions: &[
            (
                "The issuer of people's tokens names each person by one subject.",
                "One person with two subjects votes twice.",
            ),
            (
                "Tokens of services name the person behind them, or `console.owners` does.",
                "A person approves what a service requested for them.",
            ),
        ],
        tests: &[
            "holds::signed::it_takes_two_signatures_and_a_word_is_none",
            "holds::signed::every_other_signature_is_refused",
            "holds::believed_sets::no_gate_takes_a_set_that_nobody_signed",
            "holds::believed_sets::signatures_lead_a_gate_to_the_set_in_force_and_count_once",
            "holds::proved::whatever_root_changes_is_named",
            "holds::judging::it_takes_its_whole_quorum_and_nobody_counts_twice",
            "holds::judging::nobody_judges_what_they_asked_for_whatever_credential_they_show",
            "holds::judging::a_vote_is_for_the_bytes_that_were_seen",
            "holds::attacks::records_that_were_swapped_or_altered_in_the_store_are_not_sent",
            "holds::persons::two_opaque_subjects_count_twice_only_where_every_gate_and_time_says_so",
            "holds::releasing::what_the_rules_of_today_deny_is_blocked",
            "model::holds::no_history_of_calls_that_wait_breaks_a_promise",
        ],
    },
    Guarantee {
        title: "Same bytes",
        promise: "What was checked is what is sent. One request has one meaning, for Sluice and for upstream.",
        assumptions: &[(
            "Nothing between Sluice and upstream changes bodies.",
            "Upstream acts on bytes that nobody checked.",
        )],
        tests: &[
            "proofs::every_way_around_the_chain_of_proofs_fails_to_compile",
            "bodies::text_that_is_not_one_plain_json_value_is_refused",
            "examples::good_bodies_go_on_as_one_canonical_text",
            "heads::framing_with_two_readings_reaches_nobody",
            "rules::hostile::no_writing_of_a_payment_gets_past_its_rules",
        ],
    },
    Guarantee {
        title: "No silence",
        promise: "No money moves without its audit entry on disk. Every answer says whether the call was executed. Whoever \
                  takes payments out leaves an entry with the SHA-256 of what was taken. The doctor calls nothing well beside \
                  something unknown.",
        assumptions: &[
            (
                "`fsync` of the disk of `audit.folder` is durable.",
                "A power failure can lose entries of payments that were sent.",
            ),
            (
                "Checkpoints are signed (`audit.checkpoint_key`) and kept on another machine.",
                "Whoever can write the audit files can cut off or rewrite them unnoticed.",
            ),
            (
                "Enough witnesses are on machines that whoever has root on a gate cannot change (`[witness.NAME]`).",
                "Whoever has root on a gate can rewrite its journal, sign it, and show two auditors two journals.",
            ),
        ],
        tests: &[
            "claims::audit::what_upstream_sees_is_on_disk_before",
            "claims::audit::every_attempt_has_an_end_in_the_chain",
            "claims::audit::without_its_chain_no_money_moves_and_it_goes_on_by_itself",
            "audit::only_signed_checkpoints_prove_that_nothing_is_missing",
            "witness::a_journal_that_was_written_anew_by_root_is_found_by_its_witnesses",
            "witness::a_journal_that_was_set_back_is_refused_by_its_witnesses",
            "witness::a_second_log_for_another_journal_is_found_and_accepted_only_by_name",
            "witness::a_receipt_proves_a_payment_that_was_deleted_since",
            "faults::writes::a_cut_answer_still_names_the_request_id",
            "console::payments::an_export_is_an_audit_entry_and_can_be_verified",
        ],
    },
    Guarantee {
        title: "Fail closed for money, stay open for reading",
        promise: "Without its store Sluice refuses what changes state (503) and still serves reads.",
        assumptions: &[(
            "Callers take 503 for what it says.",
            "A caller that looks for another way out pays past the gate.",
        )],
        tests: &[
            "nodes::while_the_redis_is_away_money_is_refused_in_time_and_reads_go_on",
            "nodes::a_gate_that_starts_without_its_redis_serves_reads_until_it_comes",
            "money_probe::an_audit_log_that_cannot_be_written_stops_money",
            "rates::shared::two_nodes_keep_the_limit_and_a_frozen_redis_holds_nobody_up",
        ],
    },
    Guarantee {
        title: "The journal is the record",
        promise: "A store that forgot, was set back, split or was written by somebody else moves no money. It is rebuilt from \
                  journals that prove themselves whole, or money stays closed until a person acts.",
        assumptions: &[
            (
                "At least one journal that has everything survives.",
                "A person must find out from upstream what was paid.",
            ),
            (
                "`store.all_nodes` lists all gates.",
                "A gate that nobody waits for may know payments that the others do not.",
            ),
            (
                "A managed Redis has the traits that `redis.trusted` names.",
                "A payment that it forgets, and that no journal has, may be made twice.",
            ),
            (
                "A gate, a primary and a replica for which its commits wait (`durability`) do not stand on one machine.",
                "Where that machine stands still, its clocks do not show it and another Redis is promoted meanwhile, the gate may \
                 send calls that wait in its sockets before it hears of the new primary.",
            ),
            (
                "A snapshot of a whole disk with an embedded store and its journal is put back only as `recovery.md` says.",
                "The gate takes an older store for the newest, and pays again what it paid since.",
            ),
            (
                "The monotonic clock of a gate's machine goes right, or the clock of the Redis does. An embedded store has the \
                 first alone.",
                "Limits are free, and requestIds forgotten, too early.",
            ),
        ],
        tests: &[
            "memory::a_redis_that_is_flushed_under_live_gates_is_rebuilt_and_pays_nothing_twice",
            "memory::a_failover_to_a_replica_that_lagged_pays_nothing_twice",
            "memory::an_older_copy_is_noticed_and_made_whole",
            "clusters::a_split_between_the_nodes_pays_at_the_side_of_the_majority_alone",
            "older_journals::an_older_copy_of_the_journal_of_a_killed_gate_closes_money",
            "older_journals::a_journal_that_was_cut_after_a_kill_closes_money",
            "older_journals::older_copies_of_store_and_journal_close_money",
            "rebuilt::a_gate_whose_folder_was_lost_cannot_open_a_rebuilt_store",
            "archived::a_snapshot_that_was_changed_opens_nothing",
            "joining::a_gate_that_came_late_finds_what_was_removed_from_before",
            "joining::where_no_gate_knows_what_was_before_people_open_money",
            "joining::a_gate_takes_no_snapshot_of_somebody_without_the_key",
            "clocks::a_gate_whose_clock_is_wrong_at_a_start_closes_its_own_money_only",
            "own_clocks::a_gate_all_of_whose_clocks_leap_ahead_frees_no_limit",
            "clocks::a_gate_whose_machine_was_paused_pays_nothing_until_it_has_met_the_store_again",
            "model::leaps::no_history_of_leaps_breaks_a_promise",
            "model::splits::no_history_of_splits_with_a_replica_breaks_a_promise",
            "model::splits::no_history_of_splits_behind_a_fence_breaks_a_promise",
        ],
    },
    Guarantee {
        title: "Proof always wins",
        promise: "What is proved executed is never called otherwise, is never sent again, and counts, however late the proof \
                  comes. What was given up is never sent later.",
        assumptions: &[(
            "A proof comes from upstream over a verified connection.",
            "An answer of somebody else settles a call.",
        )],
        tests: &[
            "wire::late::an_answer_at_nearly_twice_the_deadline_is_heard",
            "wire::giving_up::bytes_that_stay_queued_are_dropped_when_the_answer_is_given_up",
            "claims::late_proofs::what_is_given_up_is_never_sent_again",
            "claims::late_proofs::nobody_says_absent_of_a_call_whose_gate_may_hold_the_proof",
        ],
    },
    Guarantee {
        title: "All money counts",
        promise: "Fees and every side of a payment are in its value. Every place that money goes is a destination, and one \
                  destination has one form. Sums that people see are exact, or not told.",
        assumptions: &[(
            "The contract names every field that carries money or a destination.",
            "A field that it does not know counts nothing.",
        )],
        tests: &[
            "rules::hostile::no_writing_of_a_payment_gets_past_its_rules",
            "rules::hostile::a_place_that_the_contract_does_not_know_passes_where_it_is_listed_and_a_rule_names_it",
            "rules::limits::a_destination_is_new_until_it_was_paid",
            "console::payments::payments_are_told_with_their_money_and_found_by_each_filter",
        ],
    },
    Guarantee {
        title: "People act, and nobody else",
        promise: "Votes and acts need a token or a session of the console's issuer. People's tokens are no callers' tokens, \
                  another site cannot act for a person, and a role that was taken away ends with the session. A role that is \
                  limited to environments or callers sees the payments of no others.",
        assumptions: &[
            ("`console.audience` or an issuer of their own keeps people's tokens apart.", "An ID token calls the API."),
            ("The console is served over TLS.", "Anyone on the network path steals sessions."),
            (
                "People's devices are theirs.",
                "Whoever has the browser of an approver is that approver until the session ends.",
            ),
        ],
        tests: &[
            "console::crowds::tokens_of_people_are_for_the_console_and_tokens_of_callers_are_not",
            "console::crowds::requests_for_other_hosts_get_nothing",
            "console::payments::a_person_sees_the_calls_that_their_roles_may_see",
            "holds::attacks::nobody_becomes_an_approver_by_what_they_show",
            "holds::attacks::a_vote_that_was_withdrawn_is_not_put_back_in_the_store",
        ],
    },
    Guarantee {
        title: "Nobody starves another",
        promise: "Rooms, rates, streams, sessions, holds, and entries of refused calls and of people's acts have shares by environment, caller, person and address.",
        assumptions: &[
            (
                "Callers and people have addresses and tokens of their own.",
                "Those who share one share its part: behind one proxy, all people have one address.",
            ),
            (
                "The host has the memory and descriptors that the limits add up to.",
                "The kernel ends the gate before a limit does.",
            ),
        ],
        tests: &[
            "hostile::rooms::a_caller_at_its_limit_takes_nothing_from_another_caller_or_environment",
            "hostile::rooms::two_callers_at_their_limits_leave_room_for_a_third",
            "hostile::entries::a_caller_whose_calls_are_refused_fills_only_its_share_of_the_journal",
            "hostile::entries::where_little_disk_is_free_sandbox_leaves_it_to_production",
            "console::entries::a_person_exports_so_often_within_an_hour_and_others_still_may",
            "console::entries::further_reasons_and_lifts_are_bounded_and_a_freeze_never",
            "holds::entries::a_person_votes_and_remarks_so_often_and_always_withdraws_and_rejects",
            "console::crowds::one_person_signs_in_so_often_and_no_more_while_others_do",
            "console::crowds::one_person_asks_so_often_and_no_more_while_others_do",
            "console::crowds::sessions_of_all_people_are_bounded_and_those_that_ended_make_room",
            "console::crowds::nobody_takes_all_streams",
            "hostile::connections::connections_are_bounded_in_all_and_of_one_peer",
            "hostile::descriptors::idle_connections_of_one_address_leave_descriptors_for_all_others_and_for_the_gate",
            "hostile::descriptors::a_lack_of_descriptors_is_no_fault_of_policies_and_closes_no_money",
            "hostile::http2::who_asks_on_does_not_keep_a_gate_from_its_end",
            "webhooks::slow_names::names_that_cannot_be_looked_up_stop_neither_the_store_nor_the_console",
        ],
    },
];

/// Returns the page.
fn page() -> String {
    let mut text = "# Guarantees\n\nWhat Sluice promises, on what it relies, and which tests show it. This page is generated from \
                    `tests/cases/guarantees.rs`\nand `tests/broken.toml`; a test fails if a test that is named here does not exist.\n"
        .to_owned();
    for (at, guarantee) in GUARANTEES.iter().enumerate() {
        let Guarantee { title, promise, assumptions, tests } = guarantee;
        text.push_str(&format!("\n## {}. {title}\n\n{promise}\n\n| it relies on | without it |\n|---|---|\n", at + 1));
        for (assumption, breaks) in *assumptions {
            text.push_str(&format!("| {assumption} | {breaks} |\n"));
        }
        text.push_str("\nShown by:\n\n");
        for test in *tests {
            text.push_str(&format!("- `{test}`\n"));
        }
        let broken: Vec<BrokenGuard> = broken_guards().into_iter().filter(|guard| guard.promise == at + 1).collect();
        if !broken.is_empty() {
            text.push_str(
                "\n`tests/run long broken` breaks the code in these ways, and demands that a test fails each time:\n\n",
            );
        }
        for BrokenGuard { what, .. } in broken {
            text.push_str(&format!("- {what}\n"));
        }
    }
    text
}

/// A guard that is broken on purpose.
struct BrokenGuard {
    promise: usize,
    what: String,
    file: String,
    old: String,
}

fn broken_guards() -> Vec<BrokenGuard> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken.toml");
    let all: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let guards = all["guard"].as_array().unwrap().iter().map(|guard| {
        let text = |name: &str| guard[name].as_str().unwrap().to_owned();
        let promise = usize::try_from(guard["promise"].as_integer().unwrap()).unwrap();
        BrokenGuard { promise, what: text("what"), file: text("file"), old: text("old") }
    });
    guards.collect()
}

#[test]
fn every_guard_that_is_broken_stands_once_in_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for BrokenGuard { what, file, old, .. } in broken_guards() {
        let found = fs::read_to_string(folder.join(&file)).unwrap().matches(&old).count();
        assert_eq!(found, 1, "{what} `{old}` stands {found} times in {file}: mend tests/broken.toml");
    }
}

/// Returns the source of a module of these tests.
fn source(module: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(module.replace("::", "/"));
    let file = [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.is_file())?;
    fs::read_to_string(file).ok()
}

fn exists(test: &str) -> bool {
    let (module, name) = test.rsplit_once("::").expect("a module and a name");
    let text = source(module).unwrap_or_default();
    let heading = format!("fn {name}()");
    let before = text.split(&heading).next().unwrap_or_default();
    text.contains(&heading) && before.trim_end().ends_with("#[test]")
}

#[test]
fn every_test_of_a_guarantee_exists() {
    assert!(!exists("guarantees::exists") && !exists("guarantees::no_test"));
    let missing: Vec<&str> =
        GUARANTEES.iter().flat_map(|guarantee| guarantee.tests).copied().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "these tests do not exist: {missing:?}");
}

#[test]
fn the_page_of_guarantees_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown = fs::read_to_string(folder.join("deploy/docs/guarantees.md")).unwrap_or_default();
    if shown != page() {
        fs::write(folder.join("target/guarantees.md"), page()).unwrap();
        panic!("the page is not current: cp target/guarantees.md deploy/docs/guarantees.md");
    }
}
