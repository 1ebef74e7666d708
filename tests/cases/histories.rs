//! Two gates whose journals hold different entries under one number, because a Redis was split while a third gate did not
//! follow.

use serde_json::{Value, json};

use super::claims::{pay, swap, told};
use super::console::{ask, console, lift, operator};
use super::holds::{RULES, held, shown, swap as large};
use super::nodes::{EXECUTED, all_have_it, await_log, commits, have_all, paid, says, setup};
use super::replicated::{entries, journalled};
use crate::support::clock::wait_until;
use crate::support::gate::EVERYTHING;
use crate::support::{Act, Between, Call, Gate, Redis, Setup, Upstream};

const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";
const REFUSED: &str = r#"{"status":"error","error":{"code":"X","message":"no","details":{"a":1}}}"#;
const LIMITS: &str = r#"
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "5000 USD"
over = "deny"
[[limit]]
id = "calls"
ops = ["createSwap"]
window = "rolling 30d"
per = ["environment"]
max = "1000 calls"
over = "deny"
"#;

/// A swap of this amount, in USD.
fn swap_of(amount: &str) -> Call {
    let wallet = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    let body = json!({
        "requestId": format!("r-{amount}"),
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": wallet},
    });
    pay(body.to_string())
}

/// What the limits have used: millionths of USD, and calls.
fn used(gate: &Gate) -> [u64; 2] {
    ["day", "calls"].map(|limit| {
        let path = format!("usage?limit={limit}");
        let find = || ask(gate, "GET", &path, &operator("ops-1"), None).json()["usage"][0]["used"].as_u64();
        let mut found = None;
        wait_until("the store to tell it", || {
            found = find();
            found.is_some()
        });
        found.unwrap()
    })
}

/// A gate was killed before its last word on its journal came, and entries left the outbox since: what they were is known.
#[test]
fn a_gate_is_compared_although_its_newest_entry_has_left_the_outbox() {
    for is_known in [true, false] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let start = |node: &str| console(setup(&upstream, &redis.url(), node)).start().ready();
        let [left, right, third] = ["left", "right", "third"].map(start);
        let mut calls = vec![paid(&left)];
        all_have_it(&redis);
        let said = |node: &str| redis.ask(&["HGET", "sluice:{production}:k", node]).concat();
        let before = said("right");
        // Entries wait for this one.
        drop(third.kill());
        calls.push(paid(&left));
        let last = || redis.head("sluice:{production}", "last");
        wait_until("the other one to have it", || said("right").ends_with(&format!(" {}", last())));
        let away = right.kill();
        redis.ask(&["HSET", "sluice:{production}:k", "right", &before]);
        // As if many entries had come since.
        redis.set_head("sluice:{production}", "put", redis.head("sluice:{production}", "put") + 70_000_000);
        calls.push(paid(&left));
        let marks = "sluice:{production}:d:right";
        wait_until("entries to leave", || redis.ask(&["EXISTS", marks]) == ["1"]);
        if !is_known {
            redis.ask(&["DEL", marks]);
        }
        let right = away.start();
        if is_known {
            calls.push(paid(&right));
            wait_until("the marks to be removed", || redis.ask(&["EXISTS", marks]) == ["0"]);
        } else {
            wait_until("money to be closed", || told(&swap().send(right.production())) == FROZEN);
            await_log(&right, "cannot be compared any more");
            assert_eq!(told(&swap().send_when_met(left.production())), FROZEN);
            let tells = "the store has again what this node's audit log holds";
            wait_until("the gate to have told its claims", || says(&right, tells));
            assert_eq!(lift(&left, json!("restored")).json()["changed"], true);
            calls.extend([paid(&left), paid(&right)]);
        }
        for call in &calls {
            assert_eq!(told(&call.send_when_met(right.production())), AGAIN);
        }
        assert_eq!(upstream.seen().len(), calls.len());
    }
}

/// One gate pays at the former primary and is lost; another one has that payment in its journal, made no commit itself, and
/// comes to the promoted Redis when that has as many numbers.
#[test]
fn a_payment_at_a_former_primary_is_known_where_a_replica_that_lagged_is_promoted() {
    is_not_paid_again("replicated");
}

#[test]
fn a_payment_that_only_a_follower_of_the_former_primary_knows_is_not_paid_again() {
    is_not_paid_again("acknowledged");
}

/// A Redis that was split: one gate at the former primary with one that follows, and one at the promoted replica.
struct SplitGates {
    old: Redis,
    new: Redis,
    /// Each side has a replica of its own, and `redis.replicas` is 1.
    _replicas: [Redis; 2],
    /// The way to the former primary.
    former: Between,
    /// The way to the promoted one.
    _promoted: Between,
    left: Gate,
    follower: Gate,
    right: Gate,
    before: Vec<Call>,
}

/// A gate of one side.
fn side(upstream: &Upstream, (url, node): (&str, &str), durability: &str, rules: &str) -> Setup {
    // Nobody looks at what became of a call, which would make commits.
    let setup = console(setup(upstream, url, node).set("redis", "durability", durability));
    let setup = setup.set_raw("reconcile", "first_look_ms", "3600000");
    let setup = setup.set("production", "credential", "upstream-s-own-token");
    setup.file("policies/everything.toml", &format!("{rules}{LIMITS}"))
}

fn split(upstream: &Upstream, durability: &str, rules: &str) -> SplitGates {
    let (old, new) = (Redis::start_kept(), Redis::start_kept());
    let follows = |replica: &Redis, primary: &Redis| {
        replica.ask(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    };
    follows(&new, &old);
    let replicas = [Redis::start_kept(), Redis::start_kept()];
    follows(&replicas[0], &old);
    let setup = |url: &str, node: &str| side(upstream, (url, node), durability, rules);
    let (former, promoted) = (Between::to(old.port()), Between::to(old.port()));
    let left = setup(&former.url(), "left").start().ready();
    let follower = setup(&former.url(), "follower").start().ready();
    let right = setup(&promoted.url(), "right").start().ready();
    let before = vec![paid(&left), paid(&right)];
    wait_until("all to be journalled", || journalled(&follower) == 2);
    let in_step = || new.ask(&["INFO", "replication"]).concat().contains("master_link_status:up");
    wait_until("the replica to follow", in_step);
    wait_until("the replica to have all", || commits(&old) == commits(&new));
    new.ask(&["REPLICAOF", "NO", "ONE"]);
    follows(&replicas[1], &new);
    promoted.lead(new.port());
    SplitGates { old, new, _replicas: replicas, former, _promoted: promoted, left, follower, right, before }
}

/// The caller asked again at the other side: both amounts count, people are told which call it was, and money waits for them.
#[test]
fn a_call_that_was_paid_in_both_histories_counts_twice_and_is_named() {
    let upstream = Upstream::start();
    let SplitGates { old, new, former, left, follower, right, _replicas, _promoted, .. } =
        split(&upstream, "acknowledged", EVERYTHING);
    let twice = swap_of("12.34");
    // As the first commit of each side, both have one number.
    assert_eq!(told(&twice.send_when_met(left.production())), EXECUTED);
    wait_until("the other side to pay it", || told(&twice.send(right.production())) == EXECUTED);
    let counted = used(&right);
    wait_until("the follower to have it", || entries(&follower, "executed") == 3);
    let left = left.kill();
    let mut after = Vec::new();
    while commits(&new) < commits(&old) {
        after.push(paid(&right));
    }
    let calls = u64::try_from(after.len()).unwrap();
    let before = used(&right);
    assert_eq!(before[1], counted[1] + calls);
    former.lead(new.port());
    wait_until("money to be closed", || told(&swap().send(follower.production())).starts_with("503 FROZEN"));
    let both = [before[0] + 12_340_000, before[1] + 1];
    wait_until("both to count", || used(&right) == both);
    let series =
        |executions: &str| format!("sluice_paid_twice_total{{environment=\"production\",executions=\"{executions}\"}}");
    wait_until("it to be counted", || follower.metric(&series("twice")) == 1);
    let named = "the call `request/r-12.34` was executed twice";
    await_log(&follower, named);
    let freezes = ask(&right, "GET", "freezes", &operator("ops-1"), None).text();
    assert!(freezes.contains("two Redis were used") || freezes.contains(named), "{freezes}");
    for gate in [&follower, &right] {
        assert_eq!(told(&twice.send_when_met(gate.production())), AGAIN);
    }
    have_all(&new, &["follower", "right"]);
    // The gate that paid it tells it once more.
    let left = left.start();
    wait_until("it to have told all", || says(&left, "the store has again what this node's audit log holds"));
    assert_eq!((used(&right), left.metric(&series("twice"))), (both, 0));
    assert_eq!(lift(&right, json!("restored")).json()["changed"], true);
    after.extend([paid(&follower), paid(&left)]);
    after.iter().for_each(|call| assert_eq!(told(&call.send_when_met(right.production())), AGAIN));
}

/// One gate pays at the former primary and is lost, and another one holds a call at the promoted Redis. Returns both.
fn loses_one_and_holds_one(left: Gate, follower: &Gate, right: &Gate) -> (Call, Value) {
    let lost = swap_of("12.34");
    assert_eq!(told(&lost.send_when_met(left.production())), EXECUTED);
    wait_until("the follower to have it", || entries(follower, "executed") == 3);
    drop(left.kill());
    wait_until("the promoted Redis to take it", || large("m-1", "500").send(right.production()).status == 202);
    (lost, held(right, "m-1"))
}

/// Only the gate that closed money has the closing when the store is lost, and its journal begins there. The other one has
/// the holds: they end, as the votes of the other history may be missing, and nobody forgets that they were.
#[test]
fn a_store_with_two_histories_is_rebuilt_from_the_fuller_journal_also_where_that_lacks_the_closing() {
    for (is_told, is_killed) in [(false, false), (false, true), (true, false)] {
        let upstream = Upstream::start();
        let SplitGates { old, new, former, left, follower, right, before, _replicas, _promoted } =
            split(&upstream, "acknowledged", RULES);
        let (lost, waiting) = loses_one_and_holds_one(left, &follower, &right);
        while commits(&new) < commits(&old) {
            paid(&right);
        }
        let counted = used(&right);
        have_all(&new, &["right"]);
        right.signal("STOP");
        former.lead(new.port());
        wait_until("money to be closed", || says(&follower, "two Redis were used"));
        if is_told {
            wait_until("the follower to have told its calls", || entries(&follower, "expired") == 1);
        }
        have_all(&new, &["follower"]);
        let right = if is_killed { Err(right.kill()) } else { Ok(right) };
        let sent = upstream.seen().len();
        new.ask(&["FLUSHALL"]);
        let right = right.inspect(|right| right.signal("CONT")).unwrap_or_else(|killed| {
            // The store is rebuilt without it first.
            let rebuilt = |line: &Value| {
                line["environment"] == "production"
                    && line["message"].to_string().contains("was rebuilt from this journal")
            };
            wait_until("the store to be rebuilt", || follower.log.all().iter().any(rebuilt));
            killed.start()
        });
        for gate in [&follower, &right] {
            wait_until("the hold to be there", || shown(gate, &waiting)["id"] == waiting["id"]);
            for call in before.iter().chain([&lost]) {
                wait_until("what was paid to be known", || told(&call.send(gate.production())) == AGAIN);
            }
            assert_eq!(told(&swap_of("1").send_when_met(gate.production())), FROZEN);
        }
        wait_until("it to count", || used(&right) == [counted[0] + 12_340_000, counted[1] + 1]);
        wait_until("people to open money", || lift(&right, json!("restored")).json()["changed"] == true);
        assert_eq!(shown(&right, &waiting)["state"], "forgotten");
        let after = [paid(&follower), paid(&right)];
        after.iter().for_each(|call| assert_eq!(told(&call.send_when_met(right.production())), AGAIN));
        assert_eq!(upstream.seen().len(), sent + after.len());
    }
}

/// A third gate paid at the promoted Redis, and is lost with its journal; nobody has these entries. The journal of one gate ends before
/// them, and that of the other begins behind them: they cannot be joined, so people must find out what was paid between.
#[test]
fn where_a_journal_ends_before_the_other_begins_money_waits_for_people_and_all_known_calls_are_known() {
    let upstream = Upstream::start();
    let SplitGates { old, new, former, left, follower, right, before, _replicas, _promoted } =
        split(&upstream, "acknowledged", RULES);
    let (lost, waiting) = loses_one_and_holds_one(left, &follower, &right);
    have_all(&new, &["right"]);
    let third = side(&upstream, (&_promoted.url(), "third"), "acknowledged", RULES).start().ready();
    right.signal("STOP");
    let nobody_s = paid(&third);
    while commits(&new) < commits(&old) {
        paid(&third);
    }
    drop(third.kill());
    former.lead(new.port());
    wait_until("money to be closed", || says(&follower, "two Redis were used"));
    have_all(&new, &["follower"]);
    let sent = upstream.posts();
    new.ask(&["FLUSHALL"]);
    right.signal("CONT");
    for gate in [&follower, &right] {
        for call in before.iter().chain([&lost]) {
            wait_until("what was paid to be known", || told(&call.send(gate.production())) == AGAIN);
        }
        for call in [&swap_of("1"), &nobody_s] {
            wait_until("money to be closed", || told(&call.send(gate.production())) == FROZEN);
        }
    }
    let is_told = || [&follower, &right].iter().any(|gate| says(gate, "begins behind number"));
    wait_until("people to be told what is missing", is_told);
    // A hold that the store does not know is not released.
    // While the gate has not read on it answers 503.
    wait_until("the hold to be forgotten", || {
        let hold = ask(&right, "GET", &format!("holds/{}", waiting["id"].as_str().unwrap()), &operator("ops-1"), None);
        hold.status == 404 || (hold.status == 200 && hold.json()["state"] == "forgotten")
    });
    assert_eq!(upstream.posts(), sent);
    // Each gate may find on its own that something is missing, and each time people open money.
    let after = [&follower, &right].map(|gate| {
        let call = swap();
        wait_until("people to have opened money", || {
            lift(&right, json!("restored"));
            [EXECUTED, AGAIN].contains(&told(&call.send(gate.production())).as_str())
        });
        call
    });
    for call in &after {
        wait_until("it to be known", || told(&call.send(right.production())) == AGAIN);
    }
    assert_eq!(upstream.posts(), sent + after.len());
}

/// The other gates are lost with their journals. The replica of the one that is left begins with the closing, and its files
/// have all that was before.
#[test]
fn a_gate_that_is_left_alone_with_a_lost_store_tells_what_its_files_have_from_before() {
    let upstream = Upstream::start();
    let SplitGates { old, new, former, left, follower, right, before, _replicas, _promoted } =
        split(&upstream, "acknowledged", RULES);
    let (lost, _) = loses_one_and_holds_one(left, &follower, &right);
    while commits(&new) < commits(&old) {
        paid(&right);
    }
    former.lead(new.port());
    wait_until("money to be closed", || says(&follower, "two Redis were used"));
    wait_until("the follower to have told its calls", || entries(&follower, "expired") == 1);
    have_all(&new, &["follower"]);
    drop(right.kill());
    let sent = upstream.seen().len();
    new.ask(&["FLUSHALL"]);
    wait_until("the store to be rebuilt", || says(&follower, "was rebuilt from this journal"));
    for call in before.iter().chain([&lost]) {
        wait_until("what was paid to be known", || told(&call.send(follower.production())) == AGAIN);
    }
    assert_eq!(told(&swap_of("1").send_when_met(follower.production())), FROZEN);
    assert_eq!(upstream.seen().len(), sent);
    wait_until("people to open money", || lift(&follower, json!("restored")).json()["changed"] == true);
    let after = paid(&follower);
    assert_eq!(told(&after.send_when_met(follower.production())), AGAIN);
    assert_eq!(upstream.seen().len(), sent + 1);
}

fn is_not_paid_again(durability: &str) {
    let upstream = Upstream::start();
    let SplitGates { old, new, former, left, follower, right, mut before, _replicas, _promoted } =
        split(&upstream, durability, EVERYTHING);
    let [lost, in_doubt, refused] = ["12.34", "5.67", "3.21"].map(swap_of);
    let before_the_split = used(&left);
    assert_eq!(told(&lost.send_when_met(left.production())), EXECUTED);
    upstream.next(Act::silence().close());
    assert_eq!(told(&in_doubt.send(left.production())), "502 OUTCOME_UNKNOWN unknown");
    upstream.next(Act::json(400, REFUSED));
    assert_eq!(told(&refused.send(left.production())), "400 X not-executed");
    assert_eq!(used(&left), [before_the_split[0] + 18_010_000, before_the_split[1] + 2]);
    wait_until("the follower to have them", || journalled(&follower) == 5);
    let left = left.kill();
    before.push(paid(&right));
    while commits(&new) < commits(&old) {
        before.push(paid(&right));
    }
    let counted = used(&right);
    let both = [counted[0] + 18_010_000, counted[1] + 2];
    former.lead(new.port());
    let sent = upstream.seen().len();
    wait_until("money to be closed", || told(&lost.send(follower.production())).starts_with("503 FROZEN"));
    for gate in [&follower, &right] {
        wait_until("the payment to be known", || told(&lost.send(gate.production())) == AGAIN);
        for (call, status) in [(&in_doubt, "409 OUTCOME_UNKNOWN "), (&refused, "409 REQUEST_ID_SPENT ")] {
            wait_until("it to be known", || told(&call.send(gate.production())).starts_with(status));
        }
        assert_eq!(used(gate), both);
        assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
        before.iter().for_each(|call| assert_eq!(told(&call.send_when_met(gate.production())), AGAIN));
    }
    await_log(&follower, "two Redis were used");
    assert_eq!(upstream.seen().len(), sent);
    have_all(&new, &["follower", "right"]);

    // The gate that made them tells them once more.
    let left = left.start();
    let tells = "the store has again what this node's audit log holds";
    wait_until("the other one to have told them", || says(&left, tells));
    assert_eq!(used(&right), both);
    assert_eq!(lift(&right, json!("restored")).json()["changed"], true);
    let after = [paid(&follower), paid(&right)];
    // The follower's journal goes on, and a later start finds nothing new.
    let follower = follower.end().start().ready();
    for call in before.iter().chain(&after).chain([&lost]) {
        assert_eq!(told(&call.send_when_met(follower.production())), AGAIN);
    }
    // What is left is left to the cent.
    let [day, calls] = used(&follower);
    let left_over = 5_000_000_000 - day;
    let dollars = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let [more, exactly] = [left_over + 1, left_over].map(|micros| swap_of(&dollars(micros)));
    assert_eq!(told(&more.send(right.production())), "403 LIMIT_EXCEEDED not-executed");
    assert_eq!(told(&exactly.send_when_met(right.production())), EXECUTED);
    assert_eq!(used(&follower), [5_000_000_000, calls + 1]);
    assert_eq!(upstream.seen().len(), sent + 3);
}
