//! A Redis that was put back to where a gate's journal ends: that gate cannot see what others did since.

use serde_json::json;

use super::claims::{swap, told};
use super::console::{ask, console, lift, operator};
use super::nodes::{CLOSED, EXECUTED, all_have_it, await_log, outlives, paid, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Setup, Upstream, copy_folder};

const FORGOTTEN: &str = "503 FROZEN unknown";
const AGAIN: &str = "200 - executed again";
const COPY: &str = "a copy of its audit folder: whether it and the Redis are the newest";
const RIGHT: &str = "`right` did not come yet, and may have gone on after `left` ended";

/// A gate whose store is sealed; with the list of both, or without.
fn sealed(upstream: &Upstream, redis: &Redis, (node, is_listed): (&str, bool)) -> Setup {
    let setup = console(setup(upstream, &redis.url(), node)).set("store", "seal_key", &"5e".repeat(32));
    if is_listed { setup.set_raw("store", "all_nodes", r#"["left", "right"]"#) } else { setup }
}

fn pair(upstream: &Upstream, redis: &Redis, is_listed: bool) -> [Gate; 2] {
    ["left", "right"].map(|node| sealed(upstream, redis, (node, is_listed)).start().ready())
}

fn is_again(call: &Call, gate: &Gate) {
    wait_until("what was paid to be known", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, FORGOTTEN, AGAIN].contains(&answer.as_str()), "{answer}");
        answer == AGAIN
    });
}

/// Takes a copy of the audit folder, to be put back.
fn set_aside(ended: &Setup) {
    copy_folder(&ended.path("sluice-audit"), &ended.path("copied"));
}

fn puts_back(ended: &Setup) {
    std::fs::remove_dir_all(ended.path("sluice-audit")).unwrap();
    std::fs::rename(ended.path("copied"), ended.path("sluice-audit")).unwrap();
}

fn redis_goes_back(redis: &mut Redis, image: &tempfile::TempDir) {
    redis.go();
    redis.put_back(image);
    redis.come();
}

/// The gate ends and is backed up with the Redis. Then it pays once more and dies, and both are put back.
fn pays_and_is_put_back(redis: &mut Redis, gate: Gate) -> (Setup, Call) {
    let ended = gate.end();
    let image = redis.copy();
    set_aside(&ended);
    let gate = ended.start().ready();
    let since = paid(&gate);
    let ended = gate.kill();
    redis_goes_back(redis, &image);
    puts_back(&ended);
    (ended, since)
}

/// Starts the gate, which takes its folder for a copy and sends no more what was paid since.
fn starts_as_copy(ended: Setup, since: &Call) -> Gate {
    let gate = ended.start();
    await_log(&gate, COPY);
    wait_until("money to be closed", || told(&since.send(gate.production())) == FORGOTTEN);
    gate
}

/// The left gate ends, and the Redis is put back to that moment after the right one has paid and died.
fn goes_back(redis: &mut Redis, [left, right]: [Gate; 2], end: impl Fn(Gate) -> Setup) -> ([Setup; 2], [Call; 2]) {
    let before = paid(&right);
    is_again(&before, &left);
    all_have_it(redis);
    let left = end(left);
    let image = redis.copy();
    let since = paid(&right);
    let right = right.kill();
    redis_goes_back(redis, &image);
    ([left, right], [before, since])
}

#[test]
fn a_gate_alone_on_an_older_redis_waits_for_the_one_that_went_on() {
    for (is_listed, end) in [(true, Gate::kill as fn(Gate) -> Setup), (false, Gate::end)] {
        let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
        let gates = pair(&upstream, &redis, is_listed);
        let ([left, right], calls) = goes_back(&mut redis, gates, end);
        let sent = upstream.seen().len();
        let left = left.start();
        wait_until("money to be closed", || {
            let answer = told(&calls[1].send(left.production()));
            assert!([CLOSED, FORGOTTEN].contains(&answer.as_str()), "{answer}");
            answer == FORGOTTEN
        });
        await_log(&left, RIGHT);
        // It stays so over a restart.
        let left = left.kill().start();
        wait_until("money to be closed again", || told(&swap().send(left.production())) == FORGOTTEN);
        assert_eq!(upstream.seen().len(), sent);
        let right = right.start();
        for gate in [&left, &right] {
            calls.iter().for_each(|call| is_again(call, gate));
        }
        assert_eq!(upstream.seen().len(), sent);
    }
}

/// Everything is restored from one backup, as people do it: nothing there shows what was paid since.
#[test]
fn a_redis_and_all_audit_folders_that_were_put_back_together_close_money() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &redis, true);
    let before = paid(&gates[1]);
    is_again(&before, &gates[0]);
    all_have_it(&redis);
    let ended = gates.map(Gate::end);
    let image = redis.copy();
    ended.iter().for_each(set_aside);
    let gates = ended.map(Setup::start).map(Gate::ready);
    let since = paid(&gates[1]);
    let ended = gates.map(Gate::end);
    redis_goes_back(&mut redis, &image);
    ended.iter().for_each(puts_back);
    let sent = upstream.seen().len();
    let gates = ended.map(Setup::start);
    for gate in &gates {
        wait_until("money to be closed", || told(&since.send(gate.production())) == FORGOTTEN);
    }
    assert!(gates.iter().any(|gate| says(gate, COPY)));
    // It stays so, although the folders count as originals from now on.
    let gates = gates.map(Gate::kill).map(Setup::start);
    for gate in &gates {
        wait_until("money to be closed", || told(&since.send(gate.production())) == FORGOTTEN);
    }
    assert_eq!(upstream.seen().len(), sent);
    wait_until("people to open money", || lift(&gates[0], json!("restored")).json()["changed"] == true);
    paid(&gates[0]);
    is_again(&before, &gates[1]);
}

/// Where another gate ran meanwhile, the Redis was not put back.
#[test]
fn a_gate_with_a_copy_of_its_audit_folder_opens_beside_one_that_ran() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, true);
    let ended = right.end();
    set_aside(&ended);
    let call = paid(&left);
    puts_back(&ended);
    let right = ended.start().ready();
    is_again(&call, &right);
    paid(&right);
    assert!(!says(&right, "a copy of its audit folder"), "{}", right.stderr());
}

/// It ended before the backup was made, so that it cannot know what was paid since.
#[test]
fn a_gate_that_came_back_with_an_older_redis_does_not_answer_for_a_copy() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, false);
    is_again(&paid(&left), &right);
    all_have_it(&redis);
    let right = right.end();
    paid(&left);
    let (left, since) = pays_and_is_put_back(&mut redis, left);
    let sent = upstream.seen().len();
    let right = right.start();
    let _left = starts_as_copy(left, &since);
    wait_until("money to be closed", || told(&since.send(right.production())) == FORGOTTEN);
    assert_eq!(upstream.seen().len(), sent);
}

/// The other one had ended in order, too, as far as it heard, and came again since.
#[test]
fn a_gate_that_ended_last_does_not_answer_for_a_copy_of_one_that_came_again() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, false);
    is_again(&paid(&left), &right);
    all_have_it(&redis);
    let left = left.end();
    paid(&right);
    let right = right.end();
    let left = left.start().ready();
    paid(&left);
    let (left, since) = pays_and_is_put_back(&mut redis, left);
    let sent = upstream.seen().len();
    let right = right.start();
    drop((starts_as_copy(left, &since), right));
    assert_eq!(upstream.seen().len(), sent);
}

/// What it waits for is what it knew of the other one when it ended itself.
#[test]
fn a_gate_that_waits_for_another_one_takes_no_copy_for_it() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, false);
    is_again(&paid(&left), &right);
    all_have_it(&redis);
    let right = right.end();
    paid(&left);
    let image = redis.copy();
    copy_folder(&left.path("sluice-audit"), &left.path("copied"));
    let since = paid(&left);
    let left = left.kill();
    redis_goes_back(&mut redis, &image);
    puts_back(&left);
    let sent = upstream.seen().len();
    let right = right.start();
    await_log(&right, "`left` did not come yet, and may have gone on after `right` ended");
    let _left = starts_as_copy(left, &since);
    wait_until("money to be closed", || told(&since.send(right.production())) == FORGOTTEN);
    assert_eq!(upstream.seen().len(), sent);
}

/// It looks at the sandbox alone at its start.
#[test]
fn a_gate_of_the_sandbox_does_not_answer_for_a_copy_of_production() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let of_sandbox = Setup::new().sandbox(&upstream).set("store", "kind", "redis").set("store", "node", "right");
    let of_sandbox = of_sandbox.set("redis", "url", &redis.url()).set("store", "seal_key", &"5e".repeat(32));
    let left = sealed(&upstream, &redis, ("left", false)).start().ready();
    paid(&left);
    let (left, since) = pays_and_is_put_back(&mut redis, left);
    let sent = upstream.seen().len();
    let right = of_sandbox.start();
    wait_until("the sandbox to be open", || told(&swap().send(right.sandbox())) == EXECUTED);
    let _left = starts_as_copy(left, &since);
    assert_eq!(upstream.seen().len(), sent + 1, "the one of the sandbox");
}

/// The Redis of the backup awaits the gate: no gate that runs does.
#[test]
fn a_copy_that_an_older_redis_awaits_opens_no_money() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, false).map(|gate| {
        paid(&gate);
        gate
    });
    all_have_it(&redis);
    let [left, right] = [left, right].map(Gate::kill);
    let left = left.start();
    await_log(&left, RIGHT);
    let left = left.end();
    let image = redis.copy();
    [&left, &right].into_iter().for_each(set_aside);
    let [left, right] = [left, right].map(Setup::start).map(Gate::ready);
    let since = paid(&right);
    let ended = [left, right].map(Gate::end);
    redis_goes_back(&mut redis, &image);
    ended.iter().for_each(puts_back);
    let sent = upstream.seen().len();
    let [left, right] = ended;
    let right = right.start();
    await_log(&right, COPY);
    let left = left.start();
    for gate in [&left, &right] {
        wait_until("money to be closed", || told(&since.send(gate.production())) == FORGOTTEN);
    }
    assert_eq!(upstream.seen().len(), sent);
}

/// The mark of the copy names another file, although it has no entry.
#[test]
fn a_copy_from_before_the_first_payment_opens_no_money() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gate = sealed(&upstream, &redis, ("left", false)).start().ready();
    let (ended, since) = pays_and_is_put_back(&mut redis, gate);
    let sent = upstream.seen().len();
    drop(starts_as_copy(ended, &since));
    assert_eq!(upstream.seen().len(), sent);
}

/// Money waits for a third gate: what closes it concerns neither the copy nor the one that has had the Redis since.
#[test]
fn a_copy_beside_a_gate_that_waits_for_another_one_closes_no_money() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, false);
    let third = sealed(&upstream, &redis, ("third", false)).start().ready();
    let calls = [&left, &right, &third].map(paid);
    all_have_it(&redis);
    let third = third.kill();
    redis.ask(&["FLUSHALL"]);
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    wait_until("money to be closed", || told(&swap().send(right.production())) == FORGOTTEN);
    let right = right.end();
    set_aside(&right);
    puts_back(&right);
    let right = right.start();
    wait_until("the gate to have the Redis", || told(&calls[0].send(right.production())) != CLOSED);
    let third = third.start();
    for gate in [&left, &right, &third] {
        calls.iter().for_each(|call| is_again(call, gate));
        paid(gate);
    }
    assert!(!says(&right, "a copy of its audit folder"), "{}", right.stderr());
}

/// Nobody put anything back: what was paid is there, and money opens by itself.
#[test]
fn after_a_crash_of_all_gates_money_opens_once_all_have_come() {
    for is_listed in [true, false] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gates = pair(&upstream, &redis, is_listed);
        let calls = gates.each_ref().map(paid);
        let [left, right] = gates.map(Gate::kill);
        let left = left.start();
        wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
        await_log(&left, RIGHT);
        let right = right.start();
        let gates = [left.ready(), right.ready()];
        gates.iter().for_each(|gate| calls.iter().for_each(|call| is_again(call, gate)));
        // Together they wait for nobody.
        let gates = gates.map(Gate::kill).map(Setup::start).map(Gate::ready);
        gates.iter().for_each(|gate| assert!(!says(gate, "did not come yet"), "{}", gate.stderr()));
    }
}

#[test]
fn a_gate_waits_for_none_that_ended_in_order_or_before_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis, true);
    let call = paid(&right);
    // The other runs.
    let left = left.kill().start().ready();
    is_again(&call, &left);
    // All end in order, and one comes.
    let (left, right) = (left.end(), right.end());
    let left = left.start().ready();
    is_again(&call, &left);
    // The other dies, and this one goes on for a while.
    let right = right.start().ready().kill();
    outlives(&left, ["left", "right"]);
    let left = left.kill().start().ready();
    is_again(&call, &left);
    assert!(!says(&left, "did not come yet"), "{}", left.stderr());
    drop(right);
}

#[test]
fn a_gate_that_never_came_is_not_awaited() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = sealed(&upstream, &redis, ("left", true)).start().ready();
    let call = paid(&left);
    let heard = left.path("sluice-audit/audit-left-production.heard");
    let knows = || std::fs::read_to_string(&heard).is_ok_and(|text| text.contains("right"));
    wait_until("it to know of none", knows);
    let left = left.kill().start().ready();
    is_again(&call, &left);
    assert!(!says(&left, "did not come yet"), "{}", left.stderr());
}

/// They answer for what the other gate did; later starts ask nobody again.
#[test]
fn people_open_money_in_the_place_of_a_gate_that_never_comes() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &redis, true);
    paid(&gates[0]);
    let [left, _right] = gates.map(Gate::kill);
    let left = left.start();
    wait_until("money to be closed", || told(&swap().send(left.production())) == FORGOTTEN);
    for person in ["ops-1", "ops-2"] {
        let body = json!({"environment": "production", "scope": "restored", "reason": "upstream was asked"});
        ask(&left, "POST", "freezes/lift", &operator(person), Some(body));
    }
    paid(&left.ready());
}
