//! Gates that share a Redis, and come and go with empty folders.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluice::adapters::audit::audit_files;

use super::claims::{swap, told};
use super::console::{ask, console, lift, operator};
use super::doctor;
use super::nodes::{CLOSED, EXECUTED, all_have_it, await_log, paid, says, setup};
use crate::support::clock::{Watch, wait_until};
use crate::support::{Act, Call, Gate, Redis, Setup, Upstream};

const AGAIN: &str = "200 - executed again";
/// Who pays at once.
const PAYERS: usize = 6;
/// An end without a rush takes two or three seconds, and several times that on a busy machine.
const SOON: Duration = Duration::from_secs(15);
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What was paid is known at a gate, and money was never closed for a person.
fn stands(gates: &[&Gate], calls: &[Call]) {
    for gate in gates {
        for call in calls {
            wait_until("what was paid to be known", || {
                let answer = told(&call.send(gate.production()));
                assert!([CLOSED, AGAIN].contains(&answer.as_str()), "{answer}");
                answer == AGAIN
            });
        }
    }
    assert!(!gates.iter().any(|gate| says(gate, "until a person opens it")));
}

/// Ends gates in order, all at once, and removes their folders.
fn scaled_down(gates: Vec<Gate>) -> Vec<Setup> {
    gates.iter().for_each(Gate::terminate);
    let ended = gates.into_iter().map(|gate| {
        gate.wait_end();
        await_log(&gate, "this gate retired");
        let stopped = gate.end();
        fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
        fs::remove_dir_all(stopped.path("sluice-data")).ok();
        stopped
    });
    ended.collect()
}

fn states(said: &Value) -> Vec<String> {
    let nodes = said["environments"][0]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
}

/// Five gates, then two, then five; those that go lose their folders. The Redis loses its memory when three have just
/// gone, while three come, and when all are there.
#[test]
fn a_fleet_that_shrinks_and_grows_with_empty_folders_opens_a_rebuilt_store() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| setup(&upstream, &redis.url(), node).start().ready();
    let (mut stay, go): (Vec<Gate>, Vec<Gate>) =
        (NODES[..2].iter().map(|node| start(node)).collect(), { NODES[2..].iter().map(|node| start(node)).collect() });
    let mut calls: Vec<Call> = stay.iter().chain(&go).map(paid).collect();
    let gone = scaled_down(go);
    redis.ask(&["FLUSHALL"]);
    let two: Vec<&Gate> = stay.iter().collect();
    stands(&two, &calls);
    calls.extend(two.iter().map(|gate| paid(gate)));
    let (_, said) = doctor::json(&setup(&upstream, &redis.url(), "asks"));
    assert_eq!(states(&said), ["live", "live", "retired", "retired", "retired"], "{said}");

    // The Redis is empty when they come: they are at the rebuild with new journals.
    two.iter().for_each(|gate| gate.signal("STOP"));
    redis.ask(&["FLUSHALL"]);
    let come: Vec<Gate> = gone.into_iter().map(Gate::spawn).collect();
    // Gates that stand still for five seconds count as gone.
    wait_until("one to look for the store", || come.iter().any(|gate| says(gate, "this gate has just started")));
    two.iter().for_each(|gate| gate.signal("CONT"));
    let come: Vec<Gate> = come.into_iter().map(Gate::listening).collect();
    let five: Vec<&Gate> = stay.iter().chain(&come).collect();
    stands(&five, &calls);
    calls.extend(five.iter().map(|gate| paid(gate)));

    redis.ask(&["FLUSHALL"]);
    stands(&five, &calls);
    calls.extend(five.iter().map(|gate| paid(gate)));
    assert_eq!(upstream.seen().len(), calls.len());
    // Gates that did not hand over, and come with new journals to a store that lost its memory, open nothing.
    drop(come);
    let last = stay.pop().unwrap().kill();
    fs::remove_dir_all(last.path("sluice-audit")).unwrap();
    redis.ask(&["FLUSHALL"]);
    let last = last.start();
    for gate in [&stay[0], &last] {
        wait_until("money to be closed", || told(&swap().send(gate.production())) == "503 FROZEN unknown");
    }
    assert_eq!(upstream.seen().len(), calls.len());
}

/// The other gate pays all the time, so that its journal never stands still.
#[test]
fn a_gate_retires_soon_while_another_one_pays() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    upstream.always(Act::done(200));
    let start = |node: &str| setup(&upstream, &redis.url(), node).start().ready();
    let (stays, ends) = (start("stays"), start("ends"));
    paid(&ends);
    let (address, is_over) = (stays.production(), Arc::new(AtomicBool::new(false)));
    let payers: Vec<_> = (0..PAYERS)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let mut count = 0_usize;
                while !is_over.load(Ordering::Relaxed) {
                    count += usize::from(told(&swap().send(address)) == EXECUTED);
                }
                count
            })
        })
        .collect();
    wait_until("payments to flow", || upstream.seen().len() > 20 * PAYERS);
    ends.terminate();
    let since = Watch::start();
    while !ends.has_ended() && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (took, paid_meanwhile) = (since.elapsed(), upstream.seen().len());
    is_over.store(true, Ordering::Relaxed);
    let paid: usize = payers.into_iter().map(|payer| payer.join().unwrap()).sum();
    assert!(ends.has_ended(), "it still ends after {took:?}, {paid_meanwhile} payments");
    await_log(&ends, "this gate retired");
    assert!(paid > 20 * PAYERS, "{paid}");
}

/// Nobody has what its journal has.
#[test]
fn the_last_gate_that_ends_does_not_retire() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "last").start().ready();
    paid(&gate);
    gate.terminate();
    gate.wait_end();
    assert!(!says(&gate, "this gate retired"));
    let (_, said) = doctor::json(&setup(&upstream, &redis.url(), "asks"));
    assert_eq!(states(&said).len(), 1, "{said}");
    assert_ne!(states(&said), ["retired"], "{said}");
}

pub(super) fn closings(gate: &Gate) -> Vec<String> {
    let lines =
        gate.log.all().into_iter().filter(|line| line["message"].to_string().contains("until a person opens it"));
    lines.map(|line| line["why"].as_str().unwrap_or_default().to_owned()).collect()
}

/// In the sandbox nobody made a commit. A rebuild waits for gates that it lacks at most six seconds, and closes money then.
#[test]
fn a_gate_without_any_commit_is_not_awaited() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| setup(&upstream, &redis.url(), node).start().ready();
    let (left, right) = (start("left"), start("right"));
    let calls = [paid(&left), paid(&right)];
    stands(&[&left, &right], &calls);
    scaled_down(vec![right]);
    redis.ask(&["FLUSHALL"]);
    stands(&[&left], &calls);
    let rebuilt =
        |environment: &str| left.metric(&format!("sluice_store_rebuilds_total{{environment=\"{environment}\"}}")) == 1;
    wait_until("the sandbox to be rebuilt", || rebuilt("sandbox") && rebuilt("production"));
    assert_eq!(closings(&left), [""; 0]);
}

/// It was killed long before the loss, and is awaited by nobody. Its journal goes on where it ended.
#[test]
fn a_gate_that_did_not_run_at_a_loss_gets_what_happened_since() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = super::nodes::pair(&upstream, &redis);
    let mut calls = vec![paid(&left), paid(&right)];
    stands(&[&left, &right], &calls);
    let away = right.kill();
    let asks = setup(&upstream, &redis.url(), "asks");
    // The other gate misses it, too, at the latest with its next heartbeat.
    wait_until("it to be missed for a while", || {
        let (_, said) = doctor::json(&asks);
        let nodes = said["environments"][0]["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|one| one["node"] == "right" && one["seenSecondsAgo"].as_u64() >= Some(8))
    });
    calls.push(paid(&left));
    redis.ask(&["FLUSHALL"]);
    stands(&[&left], &calls);
    calls.push(paid(&left));
    wait_until("its journal to have all", || {
        let (_, said) = doctor::json(&asks);
        said["environments"][0]["nodes"][0]["journalLacks"] == 0
    });
    let right = away.start().ready();
    stands(&[&left, &right], &calls);
    assert!(!says(&right, "it goes on without them"), "{:#?}", right.log.all());
    scaled_down(vec![left]);
    redis.ask(&["FLUSHALL"]);
    // It has the whole journal by itself.
    stands(&[&right], &calls);
}

/// The gate pays while the store is whole; the journal that it lost stands in the audit log and in what the doctor says.
#[test]
fn a_lost_journal_is_named() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(setup(&upstream, &redis.url(), "left")).start().ready();
    let before = paid(&gate);
    all_have_it(&redis);
    let stopped = gate.kill();
    let journal = fs::read_to_string(stopped.path("sluice-audit/audit-left.id")).unwrap();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    let gate = stopped.start();
    wait_until("money to be closed for people", || closings(&gate).len() == 1);
    assert_eq!(lift(&gate, json!("restored")).json()["changed"], true);
    wait_until("what was paid to be known", || told(&before.send(gate.production())) == AGAIN);
    paid(&gate);
    let folder = gate.path("sluice-audit");
    wait_until("the audit log to name it", || {
        let files = audit_files(&folder).unwrap().into_iter();
        let text: String = files.map(|file| fs::read_to_string(file.path).unwrap()).collect();
        text.contains("\"what\":\"journal-lost\"") && text.contains(journal.trim())
    });
    let (_, said) = doctor::json(&setup(&upstream, &redis.url(), "asks"));
    let lost = &said["environments"][0]["lostJournals"];
    assert_eq!(lost[0]["journal"], format!("left/{}", journal.trim()), "{said}");
    let advice = "no journal of a running gate has the entries up to number";
    wait_until("the doctor to hear of it", || {
        doctor::json(&setup(&upstream, &redis.url(), "asks")).1["advice"].to_string().contains(advice)
    });
}

/// Its node burnt with its disk. Until two people say so, the doctor misses it and entries wait for it.
#[test]
fn nothing_waits_for_a_gate_that_was_declared_gone() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = setup(&upstream, &redis.url(), "left").start().ready();
    let right = console(setup(&upstream, &redis.url(), "right")).start().ready();
    let calls = [paid(&left), paid(&right)];
    stands(&[&left, &right], &calls);
    let stopped = left.kill();
    let journal = fs::read_to_string(stopped.path("sluice-audit/audit-left.id")).unwrap().trim().to_owned();
    let gone = |who: &str| {
        let body = json!({ "environment": "production", "node": "left", "journal": journal, "reason": "burnt" });
        ask(&right, "POST", "nodes/gone", &operator(who), Some(body))
    };
    let asks = setup(&upstream, &redis.url(), "asks");
    wait_until("it to be missed", || doctor::findings(&doctor::json(&asks).1).contains("`left` has sent no heartbeat"));
    wait_until("the first word to be taken", || gone("ops-1").status == 202);
    assert_eq!(gone("ops-2").json(), json!({"gone": true, "missing": 0}));
    wait_until("nothing to wait for it", || {
        let (_, said) = doctor::json(&asks);
        states(&said) == ["live"] && said["environments"][0]["lostJournals"][0]["journal"] == format!("left/{journal}")
    });
    paid(&right);
    all_have_it(&redis);
}

/// The only gate has an entry on its disk, and the Redis keeps it all the same: a second disk gets it.
#[test]
fn with_two_copies_the_redis_keeps_what_one_disk_has() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").set_raw("store", "journal_copies", "2").start().ready();
    let calls = [paid(&gate), paid(&gate)];
    let stopped = gate.end();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    let gate = stopped.start().ready();
    let met = gate.path("sluice-audit/audit-left-production.store");
    wait_until("the journal to meet the store", || met.exists());
    redis.ask(&["FLUSHALL"]);
    stands(&[&gate], &calls);
    paid(&gate);
}
