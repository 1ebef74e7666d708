//! A Redis that forgot what it was told: nobody does anything with it until it was rebuilt from a journal; and money stays
//! closed where something may be missing.

use std::path::PathBuf;

use super::claims::{assert_again, swap, told};
use super::nodes::{CLOSED, all_have_it, await_log, have_all, pair, read, says, setup};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::shape::swap_record;
use crate::support::{Act, Between, Call, Gate, Redis, Upstream};

const FORGOTTEN: &str = "503 FROZEN unknown";
const PAID: &str = "201 - executed again";
const PROGRESS: &str = "409 REQUEST_IN_PROGRESS unknown";
const IN_DOUBT: &str = "409 OUTCOME_UNKNOWN unknown";

fn has_rebuilt(gate: &Gate) -> bool {
    says(gate, "was rebuilt from this journal")
}

fn has_closed(gate: &Gate) -> bool {
    says(gate, "money is closed until a person opens it")
}

/// What was paid, and what nobody knows of: at this gate.
fn made(upstream: &Upstream, gate: &Gate) -> [Call; 2] {
    let (paid, in_doubt) = (swap(), swap());
    upstream.next(Act::json(201, swap_record("paid")));
    assert_eq!(told(&paid.send(gate.production())), "201 - executed");
    upstream.next(Act::silence().close());
    assert_eq!(told(&in_doubt.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    [paid, in_doubt]
}

/// However often they are asked for, until money moves again: nothing is paid, and then they are known again.
fn assert_remembered(upstream: &Upstream, gates: &[&Gate], [paid, in_doubt]: &[Call; 2]) {
    let sent = writes(upstream);
    for gate in gates {
        wait_until("what was forgotten to be remembered", || {
            let (paid, in_doubt) = (told(&paid.send(gate.production())), told(&in_doubt.send(gate.production())));
            assert!([CLOSED, PAID, PROGRESS, IN_DOUBT].contains(&paid.as_str()), "{paid}");
            assert!([CLOSED, PROGRESS, IN_DOUBT].contains(&in_doubt.as_str()), "{in_doubt}");
            [PAID, IN_DOUBT].contains(&paid.as_str()) && in_doubt == IN_DOUBT
        });
    }
    assert_eq!(writes(upstream), sent, "something was paid twice");
    for gate in gates {
        wait_until("money to move again", || told(&swap().send(gate.production())) == "200 - executed");
    }
}

/// All entries of all nodes, without a gap, once they are on disk.
fn verified(redis: &Redis, setups: &[&Gate]) {
    all_have_it(redis);
    let folders: Vec<PathBuf> = setups.iter().map(|gate| gate.path("sluice-audit")).collect();
    let folders: Vec<&str> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    let output = sluice(&[&["audit", "verify"], folders.as_slice()].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Until this node has been told of all that is in the store now.
fn hear_of_each_other(redis: &Redis, node: &str) {
    for _ in 0..2 {
        let beat = || redis.ask(&["HGET", "sluice:{production}:n", node]);
        let before = beat();
        wait_until("a beat", || beat() != before);
    }
}

fn writes(upstream: &Upstream) -> usize {
    upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")).count()
}

#[test]
fn a_redis_that_is_flushed_under_live_gates_is_rebuilt_and_pays_nothing_twice() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    for (here, there) in [(&left, &right), (&right, &left)] {
        let calls = made(&upstream, here);
        redis.ask(&["FLUSHALL"]);
        assert_remembered(&upstream, &[there, here], &calls);
    }
    let rebuilds = |gate: &Gate| gate.metric("sluice_store_rebuilds_total{environment=\"production\"}");
    assert_eq!(rebuilds(&left) + rebuilds(&right), 2);
    assert!(!has_closed(&left) && !has_closed(&right));
    verified(&redis, &[&left, &right]);
}

#[test]
fn a_redis_that_starts_again_with_what_it_had_closes_nothing() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let paid = swap();
    let first = paid.send(left.production());
    for _ in 0..3 {
        redis.go();
        redis.come();
        for gate in [&left, &right] {
            wait_until("money to move again", || told(&swap().send(gate.production())) == "200 - executed");
            assert_again(&first, &paid.send(gate.production()));
        }
    }
    assert!(!has_rebuilt(&left) && !has_rebuilt(&right));
    verified(&redis, &[&left, &right]);
}

#[test]
fn a_redis_that_starts_again_without_its_file_is_rebuilt() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start());
    let [left, right] = ["left", "right"]
        .map(|node| setup(&upstream, &redis.url(), node).set_raw("redis", "allow_unsafe", "true").start());
    let calls = made(&upstream, &left);
    redis.go();
    redis.come();
    assert_remembered(&upstream, &[&right, &left], &calls);
    assert!(has_rebuilt(&left) || has_rebuilt(&right));
    verified(&redis, &[&left, &right]);
}

/// The replica does not have the last writes: the other gate, which never saw them, is asked at once.
#[test]
fn a_failover_to_a_replica_that_lagged_pays_nothing_twice() {
    let (upstream, mut redis, replica) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let between = Between::to(redis.port());
    let [left, right] = ["left", "right"].map(|node| setup(&upstream, &between.url(), node).start().ready());
    let before = swap();
    let first = before.send(right.production());
    assert_eq!(told(&first), "200 - executed");
    replica.ask(&["REPLICAOF", "127.0.0.1", &redis.port().to_string()]);
    let has = |text: &str| replica.ask(&["INFO", "replication"])[0].contains(text);
    wait_until("the replica to follow", || has("master_link_status:up") && has("master_sync_in_progress:0"));
    // The Redis has another history since its first replica came; all nodes meet it anew.
    wait_until("money to move again", || told(&swap().send(left.production())) == "200 - executed");
    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let calls = made(&upstream, &left);
    redis.go();
    between.lead(replica.port());
    assert_remembered(&upstream, &[&right, &left], &calls);
    assert!(has_rebuilt(&left) || has_rebuilt(&right));
    assert_again(&first, &before.send(left.production()));
    verified(&replica, &[&left, &right]);
}

#[test]
fn an_older_copy_is_noticed_and_made_whole() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let before = swap();
    let first = before.send(left.production());
    let copy = redis.copy();
    let calls = made(&upstream, &left);
    redis.go();
    redis.put_back(&copy);
    redis.come();
    assert_remembered(&upstream, &[&right, &left], &calls);
    assert_again(&first, &before.send(right.production()));
    verified(&redis, &[&left, &right]);
}

#[test]
fn money_stays_closed_until_a_node_that_ran_has_come_back_and_told() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let calls = made(&upstream, &left);
    hear_of_each_other(&redis, "right");
    let left = left.kill();
    redis.ask(&["FLUSHALL"]);
    let sent = writes(&upstream);
    wait_until("money to be closed", || told(&swap().send(right.production())) == FORGOTTEN);
    await_log(&right, "`left` ran when the store lost its memory, and did not come yet");
    for _ in 0..20 {
        assert_eq!(told(&swap().send(right.production())), FORGOTTEN);
        assert_eq!(read(&right).status, 200);
    }
    assert_eq!(writes(&upstream), sent);
    let left = left.start();
    assert_remembered(&upstream, &[&right, &left], &calls);
    verified(&redis, &[&left, &right]);
}

/// It had left long before: all that it did is in the journal of the other.
#[test]
fn a_node_that_had_left_is_not_waited_for() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let calls = made(&upstream, &left);
    let left = left.end();
    hear_of_each_other(&redis, "right");
    redis.ask(&["FLUSHALL"]);
    assert_remembered(&upstream, &[&right], &calls);
    let left = left.start();
    assert_remembered(&upstream, &[&left], &calls);
    verified(&redis, &[&left, &right]);
}

/// Both paid and ended; the Redis comes back empty; one starts first.
#[test]
fn gates_that_did_not_run_at_the_loss_leave_money_to_a_person() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let of_left = made(&upstream, &left);
    let of_right = made(&upstream, &right);
    have_all(&redis, &["right"]);
    let (left, right) = (left.end(), right.kill());
    redis.ask(&["FLUSHALL"]);
    let left = left.start();
    let sent = writes(&upstream);
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    await_log(&left, "no gate that ran when the store lost its memory was there");
    let right = right.start();
    for gate in [&left, &right] {
        for [paid, in_doubt] in [&of_left, &of_right] {
            wait_until("what was paid to be known", || told(&paid.send(gate.production())) == PAID);
            assert_eq!(told(&in_doubt.send(gate.production())), IN_DOUBT);
        }
        assert_eq!(told(&swap().send(gate.production())), FORGOTTEN);
    }
    assert_eq!(writes(&upstream), sent);
}

/// It made none of the lost calls, and saw their numbers.
#[test]
fn who_lives_notices_what_was_lost_of_one_that_died() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    hear_of_each_other(&redis, "right");
    let copy = redis.copy();
    let calls = made(&upstream, &left);
    hear_of_each_other(&redis, "right");
    let left = left.kill();
    redis.go();
    redis.put_back(&copy);
    redis.come();
    let sent = writes(&upstream);
    wait_until("money to be closed", || {
        let answer = told(&calls[0].send(right.production()));
        assert!([CLOSED, FORGOTTEN, PAID].contains(&answer.as_str()), "{answer}");
        answer != CLOSED
    });
    assert_eq!(told(&swap().send(right.production())), FORGOTTEN);
    assert_eq!(writes(&upstream), sent);
    let left = left.start();
    assert_remembered(&upstream, &[&right, &left], &calls);
    verified(&redis, &[&left, &right]);
}

#[test]
fn a_node_that_alone_is_led_to_another_redis_pays_nothing_there() {
    let (upstream, redis, empty) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let between = Between::to(redis.port());
    let left = setup(&upstream, &between.url(), "left").start().ready();
    let right = setup(&upstream, &redis.url(), "right").start().ready();
    let paid = swap();
    let first = paid.send(right.production());
    let mine = swap();
    let of_left = mine.send(left.production());
    // Its connection alone is lost: nothing is closed.
    between.lead(redis.port());
    wait_until("money to move again", || told(&swap().send(left.production())) == "200 - executed");
    assert!(!has_closed(&left) && !has_closed(&right));
    between.lead(empty.port());
    let sent = writes(&upstream);
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    assert_again(&of_left, &mine.send(left.production()));
    assert_eq!(writes(&upstream), sent);
    assert_again(&first, &paid.send(right.production()));
    assert_again(&of_left, &mine.send(right.production()));
    assert_eq!(told(&swap().send(right.production())), "200 - executed");
    // The right one again: what it did not forget needs nobody to tell it.
    between.lead(redis.port());
    wait_until("money to move again", || told(&swap().send(left.production())) == "200 - executed");
    assert_again(&of_left, &mine.send(left.production()));
}

/// Its numbers are higher than any that the node knows.
#[test]
fn a_node_that_is_led_to_the_redis_of_others_pays_nothing_there_and_changes_nothing() {
    let (upstream, redis, others) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let of_others = setup(&upstream, &others.url(), "other").start().ready();
    for _ in 0..20 {
        assert_eq!(told(&swap().send(of_others.production())), "200 - executed");
    }
    let between = Between::to(redis.port());
    let left = setup(&upstream, &between.url(), "left").start().ready();
    let [paid, _] = made(&upstream, &left);
    between.lead(others.port());
    let sent = writes(&upstream);
    wait_until("it to be told", || says(&left, "belongs to another store"));
    for _ in 0..5 {
        assert_eq!(told(&paid.send(left.production())), CLOSED);
    }
    assert_eq!(writes(&upstream), sent);
    assert_eq!(told(&swap().send(of_others.production())), "200 - executed");
    between.lead(redis.port());
    wait_until("money to move again", || told(&swap().send(left.production())) == "200 - executed");
    assert_eq!(told(&paid.send(left.production())), PAID);
}

#[test]
fn a_name_is_borne_by_one_gate_at_a_time() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let first = setup(&upstream, &redis.url(), "left").start().ready();
    let second = Gate::spawn(setup(&upstream, &redis.url(), "left"));
    assert!(!second.wait_end().success());
    assert!(second.stderr().contains("store.node"), "{}", second.stderr());
    assert_eq!(told(&swap().send(first.production())), "200 - executed");
    // A killed one begins again at once, and its name on another machine when it is missed for a while.
    let killed = first.kill();
    let again = killed.start();
    assert_eq!(told(&swap().send(again.production())), "200 - executed");
    again.signal("STOP");
    let other = super::console::console(setup(&upstream, &redis.url(), "left")).start();
    // It came with an empty folder, and nobody tells it what was before.
    wait_until("money to be closed", || told(&swap().send(other.production())) == "503 FROZEN unknown");
    assert_eq!(super::console::lift(&other, serde_json::json!("restored")).json()["changed"], true);
    wait_until("money to move", || told(&swap().send(other.production())) == "200 - executed");
    again.signal("CONT");
    assert!(!again.wait_end().success());
    await_log(&again, "another gate with the same `store.node`");
    assert_eq!(told(&swap().send(other.production())), "200 - executed");
}

#[test]
fn what_a_dead_node_did_is_in_the_journal_of_the_other() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let calls: Vec<Call> = (0..5).map(|_| swap()).collect();
    for call in &calls {
        assert_eq!(told(&call.send(left.production())), "200 - executed");
    }
    let left = left.kill();
    let has = |call: &Call| {
        let folder = right.path("sluice-audit");
        let files = sluice::adapters::audit::audit_files(&folder).unwrap();
        let text: String = files.iter().map(|file| std::fs::read_to_string(&file.path).unwrap()).collect();
        text.contains(&call.request_id())
    };
    wait_until("its entries to be there", || calls.iter().all(has));
    verified(&redis, &[&left.start(), &right]);
}

/// Somebody, or a fault, removes records of a Redis that runs.
#[test]
fn records_that_were_removed_are_not_paid_again() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let paid: Vec<Call> = (0..2).map(|_| swap()).collect();
    for call in &paid {
        assert_eq!(told(&call.send(left.production())), "200 - executed");
        wait_until("the other to have it", || told(&call.send(right.production())) == "200 - executed again");
    }
    hear_of_each_other(&redis, "left");
    let sent = writes(&upstream);
    for (gate, call) in [(&right, &paid[0]), (&left, &paid[1])] {
        let key = format!("sluice:{{production}}:r:claim:request/{}", call.request_id());
        assert_eq!(redis.ask(&["DEL", &key]), ["1"]);
        assert_eq!(told(&call.send(gate.production())), CLOSED);
        wait_until("it to be told", || says(gate, "the store contradicts the journal"));
    }
    assert_eq!(writes(&upstream), sent);
    wait_until("money to be closed", || told(&swap().send(right.production())) == FORGOTTEN);
    let sent = writes(&upstream);
    for gate in [&left, &right] {
        for call in &paid {
            wait_until("it to be known", || told(&call.send(gate.production())) == "200 - executed again");
        }
    }
    assert_eq!(writes(&upstream), sent);
}

/// The store gives out numbers that the journals have already: nothing is sent by them, and money is closed.
#[test]
fn numbers_that_go_back_send_nothing_and_close_money() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let paid = swap();
    assert_eq!(told(&paid.send(left.production())), "200 - executed");
    wait_until("the other to have it", || told(&paid.send(right.production())) == "200 - executed again");
    hear_of_each_other(&redis, "right");
    redis.set_head("sluice:{production}", "last", 0);
    let answer = told(&swap().send(right.production()));
    assert!(answer.starts_with("503"), "{answer}");
    wait_until("money to be closed", || has_closed(&left) || has_closed(&right));
    for gate in [&right, &left] {
        wait_until("what was paid to be known", || told(&paid.send(gate.production())) == "200 - executed again");
    }
    assert_eq!(writes(&upstream), 1);
}
