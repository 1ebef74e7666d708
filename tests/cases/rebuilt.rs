//! A Redis that is rebuilt: what stands as it stood, and who may open money.

use std::fs;

use serde_json::{Value, json};
use sluice::adapters::audit::audit_files;

use super::claims::{swap, told};
use super::console::{ask, console, operator};
use super::nodes::{
    CLOSED, EXECUTED, TOO_LATE, all_have_it, await_log, have_all, paid, pair, says, setup, without_what_was_before,
};
use super::rules::{allow, limit, swap_of};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Setup, Upstream, copy_folder};

const FORGOTTEN: &str = "503 FROZEN unknown";
const AGAIN: &str = "200 - executed again";

fn is_again(call: &Call, gate: &Gate) {
    wait_until("what was paid to be known", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, AGAIN].contains(&answer.as_str()), "{answer}");
        answer == AGAIN
    });
}

fn opens(gate: &Gate) {
    wait_until("money to move", || told(&swap().send(gate.production())) == EXECUTED);
}

fn listed(upstream: &Upstream, redis: &Redis, node: &str) -> Setup {
    setup(upstream, &redis.url(), node).set_raw("store", "all_nodes", r#"["left", "right"]"#)
}

#[test]
fn all_gates_of_the_list_open_money_together() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| listed(&upstream, &redis, node).start().ready());
    let calls = [paid(&left), paid(&right)];
    let (left, right) = (left.end(), right.end());
    redis.ask(&["FLUSHALL"]);
    let left = left.start();
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    await_log(&left, "`right` is listed in `store.all_nodes`, and did not come yet");
    let right = right.start();
    for gate in [&left, &right] {
        opens(gate);
        calls.iter().for_each(|call| is_again(call, gate));
    }
}

/// Each proves itself whole, and none has what was paid since the copies were made.
#[test]
fn old_copies_of_all_journals_open_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| listed(&upstream, &redis, node).start().ready();
    let gates = ["left", "right"].map(start);
    let before = paid(&gates[0]);
    is_again(&before, &gates[1]);
    let stopped = gates.map(Gate::end);
    for gate in &stopped {
        copy_folder(&gate.path("sluice-audit"), &gate.path("copy"));
    }
    let gates = stopped.map(|gate| gate.start().ready());
    let since = paid(&gates[0]);
    is_again(&since, &gates[1]);
    let stopped = gates.map(Gate::end);
    for gate in &stopped {
        fs::rename(gate.path("sluice-audit"), gate.path("newest")).unwrap();
        fs::rename(gate.path("copy"), gate.path("sluice-audit")).unwrap();
    }
    redis.ask(&["FLUSHALL"]);
    let gates = stopped.map(Setup::start);
    for gate in &gates {
        wait_until("money to be closed", || told(&since.send(gate.production())) == FORGOTTEN);
    }
    let why = "came with a copy of its audit folder";
    wait_until("the reason to be told", || gates.iter().any(|gate| says(gate, why)));
    assert_eq!(upstream.seen().len(), 2);
}

/// The journal looks whole, and lacks what was paid since the copy was made.
#[test]
fn an_old_copy_of_the_journal_beside_an_embedded_store_opens_nothing() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let before = paid(&gate);
    let stopped = gate.end();
    copy_folder(&stopped.path("sluice-audit"), &stopped.path("copy"));
    let gate = stopped.start();
    let since = paid(&gate);
    let stopped = gate.end();
    fs::rename(stopped.path("sluice-audit"), stopped.path("newest")).unwrap();
    fs::rename(stopped.path("copy"), stopped.path("sluice-audit")).unwrap();
    fs::remove_file(stopped.path("sluice-data/store.redb")).unwrap();
    let gate = stopped.start();
    assert_eq!(told(&since.send(gate.production())), FORGOTTEN);
    await_log(&gate, "the audit folder is a copy");
    // It stays so, and what the copy has is known.
    let gate = gate.end().start();
    assert_eq!(told(&since.send(gate.production())), FORGOTTEN);
    assert_eq!(told(&before.send_when_met(gate.production())), AGAIN);
    assert_eq!(upstream.seen().len(), 2);
}

/// Its audit folder was lost: it pays while the store is whole, and nobody rebuilds from what it has.
#[test]
fn a_gate_whose_folder_was_lost_cannot_open_a_rebuilt_store() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    let before = paid(&gate);
    let stopped = gate.end();
    fs::rename(stopped.path("sluice-audit"), stopped.path("lost")).unwrap();
    let gate = stopped.start();
    wait_until("money to be closed", || told(&swap().send(gate.production())) == FORGOTTEN);
    assert_eq!(told(&before.send_when_met(gate.production())), AGAIN);
    redis.ask(&["FLUSHALL"]);
    wait_until("the store to be rebuilt", || says(&gate, "the journal begins behind number"));
    wait_until("nobody to know it", || told(&before.send(gate.production())) == FORGOTTEN);
    assert_eq!(upstream.seen().len(), 1);
}

/// Two people answer once for what was before. The next losses lack nothing more, until the folder is lost again.
#[test]
fn a_beginning_that_people_opened_closes_money_once() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let without_folder = |stopped: Setup| {
        fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
        stopped.start()
    };
    let is_closed = |gate: &Gate| told(&swap().send(gate.production())) == FORGOTTEN;
    let begins = |gate: &Gate| {
        let is_closing = |line: &Value| {
            let why = line["why"].as_str().unwrap_or_default();
            line["environment"] == "production" && why.contains("the journal begins behind")
        };
        gate.log.all().iter().filter(|line| is_closing(line)).count()
    };
    let open = |gate: &Gate| {
        for person in ["ops-1", "ops-2"] {
            let body = json!({"environment": "production", "scope": "restored", "reason": "upstream was asked"});
            ask(gate, "POST", "freezes/lift", &operator(person), Some(body));
        }
    };
    let first = console(setup(&upstream, &redis.url(), "left")).start().ready();
    paid(&first);
    all_have_it(&redis);
    let gate = without_folder(first.end());
    wait_until("money to be closed", || is_closed(&gate));
    open(&gate);
    wait_until("money to move", || told(&swap().send(gate.production())) == EXECUTED);
    let calls = [paid(&gate)];
    all_have_it(&redis);
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &gate));
    opens(&gate);
    all_have_it(&redis);
    assert_eq!(begins(&gate), 0);
    // What people said is kept over a restart.
    let gate = gate.end().start().ready();
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &gate));
    opens(&gate);
    all_have_it(&redis);
    assert_eq!(begins(&gate), 0);
    // Nobody has answered for what the next folder lacks.
    let gate = without_folder(gate.end());
    wait_until("money to be closed", || is_closed(&gate));
}

/// The gate that comes first lacks what was before it lost its folder; the one that it waits for knows all of it.
#[test]
fn a_whole_journal_that_comes_later_opens_money() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| listed(&upstream, &redis, node).start().ready());
    let mut calls = vec![paid(&left), paid(&right)];
    is_again(&calls[0], &right);
    let stopped = left.end();
    fs::rename(stopped.path("sluice-audit"), stopped.path("lost")).unwrap();
    redis.ask(&["DEL", "sluice:{production}:q"]);
    let left = stopped.start();
    calls.push(paid(&left));
    is_again(&calls[2], &right);
    wait_until("it to be told", || says(&left, "this journal begins in the middle"));
    let (left, right) = (without_what_was_before(left.end()), right.end());
    redis.ask(&["FLUSHALL"]);
    let left = left.start();
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    await_log(&left, "the journal begins behind number");
    let right = right.start();
    for gate in [&left, &right] {
        opens(gate);
        calls.iter().for_each(|call| is_again(call, gate));
    }
}

/// Only the gate that pays has it in its journal, and that folder is lost together with the store.
fn lose_what_one_gate_knew() -> (Upstream, Redis, Gate, Setup, Call) {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    is_again(&paid(&left), &right);
    right.signal("STOP");
    let lost = paid(&left);
    redis.ask(&["FLUSHALL"]);
    let left = left.kill();
    right.signal("CONT");
    fs::rename(left.path("sluice-audit"), left.path("lost")).unwrap();
    (upstream, redis, right, left, lost)
}

#[test]
fn a_gate_that_comes_with_a_new_folder_before_the_rebuild_cannot_open_money() {
    let (upstream, _redis, right, left, lost) = lose_what_one_gate_knew();
    let left = left.start();
    wait_until("money to be closed", || told(&lost.send(right.production())) == FORGOTTEN);
    wait_until("it to be told", || says(&left, "with a new journal") || says(&right, "with a new journal"));
    wait_until("money to be closed here, too", || told(&lost.send(left.production())) == FORGOTTEN);
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_gate_that_comes_with_a_new_folder_after_the_rebuild_cannot_open_money() {
    let (upstream, redis, right, left, lost) = lose_what_one_gate_knew();
    wait_until("money to be closed", || told(&lost.send(right.production())) == FORGOTTEN);
    let left = left.start();
    wait_until("it to be told", || says(&left, "the store waits for the journal that this gate had before"));
    for gate in [&left, &right] {
        wait_until("money to be closed at both", || told(&lost.send(gate.production())) == FORGOTTEN);
    }
    let left = left.end().start();
    wait_until("it to be closed again", || told(&lost.send(left.production())) == FORGOTTEN);
    // The next loss tells why no person has opened money yet.
    redis.ask(&["FLUSHALL"]);
    let why = "`left` came with a new journal";
    let tells = |gate: &Gate| {
        gate.log.all().iter().map(ToString::to_string).any(|line| line.contains("was rebuilt") && line.contains(why))
    };
    wait_until("the former reason to be told again", || tells(&left) || tells(&right));
    assert_eq!(upstream.seen().len(), 2);
}

/// What was paid before is only in the Redis; a journal that has none of it does not look whole.
#[test]
fn a_new_journal_beside_a_store_with_payments_is_not_whole() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    let call = paid(&gate);
    let stopped = gate.end();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    let gate = stopped.start();
    let met = gate.path("sluice-audit/audit-left-production.store");
    wait_until("the journal to meet the store", || met.exists());
    is_again(&call, &gate);
    redis.ask(&["FLUSHALL"]);
    wait_until("the call to be forgotten", || told(&call.send(gate.production())) == FORGOTTEN);
    wait_until("the store to be rebuilt", || says(&gate, "the journal begins behind number"));
    assert_eq!(upstream.seen().len(), 1);
}

/// The replica holds what the archived files say.
#[test]
fn finished_files_may_be_archived() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").set_raw("audit", "file_bytes", "8192").start().ready();
    let calls: Vec<Call> = (0..8).map(|_| paid(&gate)).collect();
    let folder = gate.path("sluice-audit");
    wait_until("files to end", || audit_files(&folder).unwrap().len() > 2);
    let gate = gate.end().start();
    let mut files = audit_files(&folder).unwrap();
    files.pop();
    for file in files {
        fs::remove_file(file.path).unwrap();
    }
    redis.ask(&["FLUSHALL"]);
    opens(&gate);
    calls.iter().for_each(|call| is_again(call, &gate));
    let gate = gate.end().start();
    calls.iter().for_each(|call| is_again(call, &gate));
}

/// Returns the number above which the newest rebuild of this journal goes on.
fn goes_on_above(setup: &Setup) -> u64 {
    let files = audit_files(&setup.path("sluice-audit")).unwrap();
    let text: String = files.into_iter().map(|file| fs::read_to_string(file.path).unwrap()).collect();
    let (_, number) = text.rsplit_once("\"above\":").expect("a rebuild");
    number.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The first rebuild is in one journal only. The other journal knows nothing of it, and begins a rebuild behind the same
/// number: an auditor who has both must not find two entries with one number.
#[test]
fn two_rebuilds_behind_the_same_number_have_numbers_of_their_own() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    paid(&gate);
    let stopped = gate.end();
    let (folder, before) = (stopped.path("sluice-audit"), stopped.path("before"));
    copy_folder(&folder, &before);
    let rebuilt = |stopped: Setup| {
        redis.ask(&["FLUSHALL"]);
        let gate = stopped.start();
        wait_until("money to be closed", || told(&swap().send(gate.production())) == FORGOTTEN);
        let stopped = gate.end();
        (goes_on_above(&stopped), stopped)
    };
    let (first, stopped) = rebuilt(stopped);
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&before, &folder).unwrap();
    let (second, _stopped) = rebuilt(stopped);
    assert!(first > 1_000_000 && second > 1_000_000 && first != second, "{first} and {second}");
}

#[test]
fn a_journal_that_was_cut_ends_the_start() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let call = paid(&left);
    is_again(&call, &right);
    let stopped = left.end();
    let file = audit_files(&stopped.path("sluice-audit")).unwrap().pop().unwrap().path;
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&file, lines[..lines.len() - 2].join("\n") + "\n").unwrap();
    let first = Gate::spawn(stopped);
    assert!(!first.wait_end().success());
    assert!(first.stderr().contains("it had entries up to"), "{}", first.stderr());
    // Without the replica the other gates know it.
    let stopped = first.end();
    fs::remove_dir_all(stopped.path("sluice-audit/replica-left")).unwrap();
    let second = Gate::spawn(stopped);
    assert!(!second.wait_end().success());
    assert!(second.stderr().contains("was cut"), "{}", second.stderr());
}

#[test]
fn limits_count_on_after_the_redis_was_emptied() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let hundred = "window = \"rolling 24h\"\nmax = \"100 USD\"\nover = \"deny\"";
    let rules = allow("op = \"createSwap\"") + &limit("hundred", hundred);
    let [left, right] = ["left", "right"]
        .map(|node| setup(&upstream, &redis.url(), node).file("policies/everything.toml", &rules).start());
    assert_eq!(told(&swap_of("a", "60").send_when_met(left.production())), EXECUTED);
    assert_eq!(told(&swap_of("b", "30").send_when_met(right.production())), EXECUTED);
    redis.ask(&["FLUSHALL"]);
    for (gate, amount) in [(&left, "10.01"), (&right, "11")] {
        wait_until("the limit to be known", || {
            let answer = told(&swap_of("c", amount).send(gate.production()));
            assert!([CLOSED, TOO_LATE, "403 LIMIT_EXCEEDED not-executed"].contains(&answer.as_str()), "{answer}");
            ![CLOSED, TOO_LATE].contains(&answer.as_str())
        });
    }
    wait_until("the rest to fit", || told(&swap_of("d", "10").send(left.production())) == EXECUTED);
    assert_eq!(told(&swap_of("e", "0.01").send(right.production())), "403 LIMIT_EXCEEDED not-executed");
}

fn listed_with(upstream: &Upstream, redis: &Redis, rules: &str) -> [Setup; 3] {
    ["left", "right", "third"].map(|node| {
        let setup = setup(upstream, &redis.url(), node).file("policies/everything.toml", rules);
        setup.set_raw("store", "all_nodes", r#"["left", "right", "third"]"#)
    })
}

/// Each returns with payments that those before it never heard of; the first ones rebuild the Redis without them.
#[test]
fn a_gate_that_comes_later_with_a_fuller_journal_brings_all_that_it_knows() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let hundred = "window = \"rolling 24h\"\nmax = \"100 USD\"\nover = \"deny\"";
    let rules = allow("op = \"createSwap\"") + &limit("hundred", hundred);
    let [left, right, third] = listed_with(&upstream, &redis, &rules).map(Setup::start);
    let calls = [swap_of("of-left", "30"), swap_of("of-right", "30"), swap_of("of-third", "30")];
    assert_eq!(told(&calls[0].send_when_met(left.production())), EXECUTED);
    have_all(&redis, &["left"]);
    let left = left.kill();
    assert_eq!(told(&calls[1].send_when_met(right.production())), EXECUTED);
    have_all(&redis, &["right"]);
    let right = right.kill();
    assert_eq!(told(&calls[2].send_when_met(third.production())), EXECUTED);
    have_all(&redis, &["third"]);
    let third = third.kill();
    redis.ask(&["FLUSHALL"]);

    let left = left.start();
    wait_until("money to be closed", || told(&swap_of("new", "1").send(left.production())) == FORGOTTEN);
    let right = right.start();
    for gate in [&left, &right] {
        wait_until("what was paid to be known", || told(&calls[1].send(gate.production())) == AGAIN);
        // The third gate's journal may have more.
        assert_eq!(told(&swap_of("new", "1").send(gate.production())), FORGOTTEN);
    }
    let third = third.start();
    for gate in [&left, &right, &third] {
        calls.iter().for_each(|call| is_again(call, gate));
        let over = || told(&swap_of("over", "11").send(gate.production()));
        wait_until("the limit to be known", || over() == "403 LIMIT_EXCEEDED not-executed");
    }
    wait_until("money to move", || told(&swap_of("rest", "10").send(left.production())).starts_with(EXECUTED));
    assert_eq!(upstream.seen().len(), 4);
}

/// Each gate was away for a while, and the others paid meanwhile.
#[test]
fn a_rolling_restart_leaves_no_gap_in_any_journal() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let (right, mut calls) = (right.end(), vec![paid(&left)]);
    let right = right.start();
    calls.push(paid(&right));
    let left = left.end();
    calls.push(paid(&right));
    let left = left.start();
    calls.push(paid(&left));
    for gate in [&left, &right] {
        assert!(!says(gate, "begins in the middle") && !says(gate, "goes on without"));
    }
    redis.ask(&["FLUSHALL"]);
    for gate in [&left, &right] {
        opens(gate);
        calls.iter().for_each(|call| is_again(call, gate));
    }
    assert!(!says(&left, "until a person opens it") && !says(&right, "until a person opens it"));
}
