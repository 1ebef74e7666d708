//! Gaps in a gate's own journal: what closes money, which numbers it names, and what opens it.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use sluice::adapters::audit::audit_files;

use super::claims::{swap, told};
use super::console::{console, lift};
use super::doctor;
use super::nodes::{
    CLOSED, all_have_it, await_log, have_all, outlives, paid, pair, says, setup, waiting, without_what_was_before,
};
use crate::support::clock::wait_until;
use crate::support::command::sluice;
use crate::support::{Call, Gate, Redis, Setup, Upstream};

const REBUILT: &str = "the store had lost its memory and was rebuilt from this journal";
const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";
const FOLDER: &str = "sluice-audit";

fn small_files(setup: Setup) -> Setup {
    setup.set_raw("audit", "file_bytes", "65536")
}

/// Pays until the journal has several files; returns what was paid.
fn paid_over_files(gate: &Gate) -> Vec<Call> {
    let mut calls = Vec::new();
    while audit_files(&gate.path(FOLDER)).unwrap().len() < 4 {
        calls.push(paid(gate));
    }
    calls
}

/// Takes a file out of the middle of a journal; returns where it was, and where it is.
fn taken_out(stopped: &Setup) -> (PathBuf, PathBuf) {
    let file = audit_files(&stopped.path(FOLDER)).unwrap().remove(2).path;
    let aside = stopped.path("aside.jsonl");
    fs::rename(&file, &aside).unwrap();
    (file, aside)
}

fn are_known(gate: &Gate, calls: &[Call]) {
    for call in calls {
        wait_until("what was paid to be known", || {
            let answer = told(&call.send(gate.production()));
            assert!([CLOSED, FROZEN, AGAIN].contains(&answer.as_str()), "{answer}");
            answer == AGAIN
        });
    }
}

/// Its files begin behind what all have.
fn with_a_new_folder(gate: Gate, redis: &Redis) -> Gate {
    all_have_it(redis);
    let stopped = gate.end();
    fs::remove_dir_all(stopped.path(FOLDER)).unwrap();
    stopped.start().ready()
}

#[test]
fn a_file_that_is_missing_in_the_middle_closes_money_until_a_person_opens_it() {
    let upstream = Upstream::start();
    let gate = console(small_files(Setup::of(&upstream))).start().ready();
    let calls = paid_over_files(&gate);
    let stopped = gate.end();
    let (file, aside) = taken_out(&stopped);
    let gate = stopped.start();
    let sent = upstream.seen().len();
    assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
    // The store is whole: what was paid is known, and reads go on.
    calls.iter().for_each(|call| assert_eq!(told(&call.send_when_met(gate.production())), AGAIN));
    assert_eq!(upstream.seen().len(), sent);
    let why = "file 3 of the journal is missing, with numbers ";
    await_log(&gate, why);
    let stopped = gate.end();
    let findings = doctor::findings(&doctor::json(&stopped).1);
    assert!(findings.contains(why) && findings.contains("put it back from an archive or a copy"), "{findings}");

    // Once a person has opened it, it stays open.
    let gate = stopped.start();
    assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
    assert_eq!(lift(&gate, json!("restored")).json()["changed"], true);
    paid(&gate);
    let gate = gate.end().start();
    paid(&gate);
    // The file is back, and is lost again.
    let stopped = gate.end();
    fs::rename(&aside, &file).unwrap();
    let gate = stopped.start();
    paid(&gate);
    let stopped = gate.end();
    fs::rename(&file, &aside).unwrap();
    let gate = stopped.start();
    assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
}

#[test]
fn a_gap_that_another_journal_fills_closes_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| small_files(setup(&upstream, &redis.url(), node)).start().ready());
    let calls = paid_over_files(&left);
    let stopped = left.end();
    taken_out(&stopped);
    let left = stopped.start().ready();
    await_log(&left, "the journal of another gate has these entries");
    paid(&left);
    // The other one has all of it.
    redis.ask(&["FLUSHALL"]);
    for gate in [&left, &right] {
        wait_until("what was paid to be known", || told(&calls[9].send(gate.production())) == AGAIN);
        paid(gate);
    }
}

/// The entries behind the end of its journal are neither in the store nor in the other journal, whose gate lost its folder.
#[test]
fn entries_that_nobody_has_close_money() {
    for is_lost in [false, true] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let [left, right] = pair(&upstream, &redis);
        let before = paid(&left);
        all_have_it(&redis);
        let away = right.kill();
        let between = paid(&left);
        have_all(&redis, &["left"]);
        outlives(&left, ["left", "right"]);
        let stopped = left.kill();
        redis.ask(&["DEL", "sluice:{production}:q"]);
        if is_lost {
            fs::remove_dir_all(stopped.path(FOLDER)).unwrap();
        }
        let left = stopped.start();
        if is_lost {
            // It does not know what was before, and waits in vain for the other one.
            wait_until("money to be closed", || told(&swap().send(left.production())) == FROZEN);
        } else {
            paid(&left);
        }
        let right = away.start();
        if is_lost {
            let why = "neither the store nor a journal that is known has the entries ";
            wait_until("the gap to be found", || says(&right, why));
            assert_eq!(told(&swap().send_when_met(left.production())), FROZEN);
        } else {
            let right = right.ready();
            await_log(&right, "the journal of another gate has these entries");
            paid(&left);
        }
        // The store is whole.
        [before, between].iter().for_each(|call| assert_eq!(told(&call.send_when_met(left.production())), AGAIN));
    }
}

/// The store has entries before the missing ones, and behind them.
#[test]
fn a_gap_between_entries_of_the_store_ends_no_start() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let away = right.kill();
    let calls: Vec<Call> = (0..3).map(|_| paid(&left)).collect();
    wait_until("both entries of each", || waiting(&redis) >= 6);
    have_all(&redis, &["left"]);
    outlives(&left, ["left", "right"]);
    let stopped = left.kill();
    redis.ask(&["ZREMRANGEBYRANK", "sluice:{production}:q", "2", "3"]);
    let left = stopped.start().ready();
    let right = away.start().ready();
    await_log(&right, "the journal of another gate has these entries");
    for gate in [&left, &right] {
        paid(gate);
        calls.iter().for_each(|call| assert_eq!(told(&call.send_when_met(gate.production())), AGAIN));
    }
}

/// The gate that rebuilds the Redis does not find it among those that an emptied Redis has heard of.
#[test]
fn a_journal_that_comes_after_the_rebuild_gets_every_entry_that_it_lacks() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let before = paid(&right);
    all_have_it(&redis);
    let away = right.kill();
    let last = paid(&left);
    have_all(&redis, &["left"]);
    let stopped = left.kill();
    redis.ask(&["FLUSHALL"]);
    let left = stopped.start();
    wait_until("the rebuild", || says(&left, REBUILT));
    let right = away.start();
    are_known(&right, &[before, last]);
    assert!(!says(&right, "it goes on without them"), "{:#?}", right.log.all());
}

/// Without it, the next start would begin another journal beside the entries of this one.
#[test]
fn the_identity_of_a_journal_is_put_back_and_no_start_goes_on_without_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let calls = [paid(&left), paid(&right)];
    let file = left.path("sluice-audit/audit-left.id");
    let identity = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    wait_until("the identity to be put back", || fs::read_to_string(&file).is_ok_and(|found| found == identity));
    await_log(&left, "the identity of this gate's journal was removed or spoilt; it was put back");
    let stopped = left.end();
    fs::remove_file(&file).unwrap();
    let config = stopped.write();
    let ended = sluice(&["serve", "--config", config.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("audit-left.id") && said.contains("restore the file"), "{said}");
    fs::write(&file, identity).unwrap();
    let left = stopped.start().ready();
    for gate in [&left, &right] {
        are_known(gate, &calls);
        paid(gate);
    }
}

/// A store is rebuilt from it alone, and people open money: it goes on without anything from before its beginning.
fn rebuilt_with_one_that_was_opened(upstream: &Upstream, redis: &Redis, start: impl FnOnce([Setup; 2]) -> [Gate; 2]) {
    let [left, right] = ["left", "right"].map(|node| console(setup(upstream, &redis.url(), node)).start().ready());
    let mut calls = vec![paid(&left), paid(&right)];
    let right = with_a_new_folder(right, redis);
    calls.push(paid(&right));
    all_have_it(redis);
    let away = left.kill();
    calls.push(paid(&right));
    have_all(redis, &["right"]);
    let stopped = without_what_was_before(right.kill());
    redis.ask(&["FLUSHALL"]);
    let right = stopped.start();
    wait_until("money to be closed", || told(&swap().send(right.production())) == FROZEN);
    assert_eq!(lift(&right, json!("restored")).json()["changed"], true);
    calls.push(paid(&right));
    have_all(redis, &["right"]);
    let stopped = right.kill();
    redis.ask(&["FLUSHALL"]);
    let [left, right] = start([away, stopped]);
    for gate in [&left, &right] {
        are_known(gate, &calls);
        assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
    }
    assert_eq!(upstream.seen().len(), calls.len());
    assert_eq!(lift(&right, json!("restored")).json()["changed"], true);
    for gate in [&left, &right] {
        are_known(gate, &calls);
        paid(gate);
    }
}

#[test]
fn a_journal_that_begins_later_and_was_opened_is_not_joined_with_an_earlier_one() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    rebuilt_with_one_that_was_opened(&upstream, &redis, |gates| {
        // They meet it at the same time.
        redis.freeze();
        let [left, right] = gates.map(Setup::start);
        redis.thaw();
        [left, right]
    });
}

#[test]
fn an_earlier_journal_comes_after_one_that_begins_later_and_was_opened() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    rebuilt_with_one_that_was_opened(&upstream, &redis, |[left, right]| {
        let right = right.start();
        await_log(&right, REBUILT);
        [left.start(), right]
    });
}

/// It follows a rebuild from a whole journal, which left numbers out.
#[test]
fn a_journal_with_unused_numbers_joins_one_that_begins_before() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| console(setup(&upstream, &redis.url(), node)).start().ready();
    let [left, right, third] = ["left", "right", "third"].map(start);
    let mut calls = vec![paid(&left), paid(&right), paid(&third)];
    let right = with_a_new_folder(right, &redis);
    calls.push(paid(&right));
    all_have_it(&redis);
    let [left, right] = [left, right].map(Gate::kill);
    redis.ask(&["FLUSHALL"]);
    wait_until("money to be closed", || told(&swap().send(third.production())) == FROZEN);
    assert_eq!(lift(&third, json!("restored")).json()["changed"], true);
    let right = right.start();
    calls.extend([paid(&third), paid(&right)]);
    let before = upstream.seen().len();
    have_all(&redis, &["right", "third"]);
    let [_third, right] = [third, right].map(Gate::kill);
    let right = without_what_was_before(right);
    redis.ask(&["FLUSHALL"]);
    // They meet it at the same time.
    redis.freeze();
    let [left, right] = [left, right].map(Setup::start);
    redis.thaw();
    wait_until("the entries", || says(&left, "this journal takes entries that another gate has"));
    for gate in [&left, &right] {
        are_known(gate, &calls);
    }
    assert_eq!(upstream.seen().len(), before);
    assert!(!says(&left, "the others lack"), "{:#?}", left.log.all());
}
