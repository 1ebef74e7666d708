//! A Redis that answers, and refuses writes, is away for money; and one that is late once is not.

use std::thread::spawn;

use serde_json::Value;

use super::claims::{assert_again, swap, told};
use super::console::{ask, console, operator};
use super::doctor::{findings, json as doctor};
use super::nodes::{CLOSED, read, setup};
use crate::support::clock::wait_until;
use crate::support::{Between, Gate, Redis, Upstream};

/// A way to make a Redis refuse writes.
struct Way {
    /// As the metric says it.
    cause: &'static str,
    /// What people are told.
    words: &'static str,
    refuse: fn(&Redis),
    accept: fn(&Redis),
}

const WAYS: [Way; 4] = [
    Way {
        cause: "memory",
        words: "its memory is full",
        refuse: |redis| set(redis, "maxmemory", "1"),
        accept: |redis| set(redis, "maxmemory", "0"),
    },
    Way {
        cause: "replicas",
        words: "too few of its replicas are connected",
        refuse: |redis| set(redis, "min-replicas-to-write", "1"),
        accept: |redis| set(redis, "min-replicas-to-write", "0"),
    },
    Way {
        cause: "disk",
        words: "it cannot save its data",
        refuse: fail_to_save,
        accept: |redis| set(redis, "save", ""),
    },
    Way {
        cause: "replica",
        words: "it is a replica",
        refuse: |redis| assert_eq!(redis.ask(&["REPLICAOF", "127.0.0.1", "1"]), ["OK"]),
        accept: |redis| assert_eq!(redis.ask(&["REPLICAOF", "NO", "ONE"]), ["OK"]),
    },
];

fn set(redis: &Redis, name: &str, value: &str) {
    assert_eq!(redis.ask(&["CONFIG", "SET", name, value]), ["OK"], "{name}");
}

/// As on a full disk: the file that it saves to cannot be replaced.
fn fail_to_save(redis: &Redis) {
    let folder = redis.ask(&["CONFIG", "GET", "dir"]).pop().unwrap();
    std::fs::create_dir_all(std::path::Path::new(&folder).join("dump.rdb")).unwrap();
    set(redis, "save", "3600 1");
    redis.ask(&["BGSAVE"]);
    wait_until("saving to fail", || redis.ask(&["INFO"]).concat().contains("rdb_last_bgsave_status:err"));
}

fn refused_for(gate: &Gate, cause: &str) -> u64 {
    gate.metric(&format!("sluice_store_refuses_writes{{cause=\"{cause}\"}}"))
}

/// The reasons why money cannot move, and what is said of each.
fn reasons(gate: &Gate) -> Vec<(String, String)> {
    let said = gate.probe("/readyz/money").json();
    let text = |reason: &Value, name: &str| reason[name].as_str().unwrap().to_owned();
    let reasons = said["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| (text(reason, "reason"), text(reason, "text"))).collect()
}

fn logged(gate: &Gate, message: &str) -> usize {
    gate.log.all().iter().filter(|line| line["message"].as_str().is_some_and(|one| one.contains(message))).count()
}

#[track_caller]
fn assert_refusing(gate: &Gate, way: &Way) {
    let Way { cause, words, .. } = way;
    wait_until("the gate to notice by itself", || refused_for(gate, cause) == 1 && gate.metric("sluice_store_up") == 0);
    assert_eq!((read(gate).status, gate.probe("/readyz").status), (200, 200), "{cause}");
    assert_eq!(told(&swap().send(gate.production())), CLOSED, "{cause}");
    let probe = gate.probe("/readyz/money");
    assert_eq!((probe.status, probe.header("content-type").as_deref()), (503, Some("application/json")), "{cause}");
    let reasons = reasons(gate);
    assert!(reasons.iter().any(|(name, text)| name == "store-refuses-writes" && text.contains(words)), "{reasons:?}");
}

#[track_caller]
fn assert_whole(gate: &Gate, way: &Way) {
    wait_until("money to move again", || gate.probe("/readyz/money").status == 200);
    assert_eq!((gate.metric("sluice_store_up"), refused_for(gate, way.cause)), (1, 0), "{}", way.cause);
    assert_eq!(told(&swap().send(gate.production())), "200 - executed", "{}", way.cause);
}

#[test]
fn a_redis_that_refuses_writes_is_noticed_without_a_call_and_told_everywhere() {
    for way in WAYS {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gate = setup(&upstream, &redis.url(), "left").start().ready();
        let asks = setup(&upstream, &redis.url(), "asks");
        let paid = swap();
        let first = paid.send(gate.production());
        (way.refuse)(&redis);
        assert_refusing(&gate, &way);
        assert_eq!(gate.metric("sluice_redis_up"), 0, "shared rates are not counted there either");
        if way.cause != "replica" {
            assert_again(&first, &paid.send(gate.production()));
        }
        let (code, said) = doctor(&asks);
        let found = findings(&said);
        assert!(code >= 8 && found.contains("refuses writes") && found.contains(way.words), "{}: {found}", way.cause);
        (way.accept)(&redis);
        assert_whole(&gate, &way);
        assert_again(&first, &paid.send(gate.production()));
        assert_eq!(gate.metric("sluice_redis_up"), 1);
        let lines = ["the store refuses writes", "the store accepts writes again"];
        wait_until("both to be told once", || lines.map(|line| logged(&gate, line)) == [1, 1]);
    }
}

#[test]
fn a_gate_that_starts_on_a_redis_that_refuses_writes_serves_reads_and_becomes_whole() {
    for way in WAYS {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let paid = swap();
        let gate = setup(&upstream, &redis.url(), "left").start().ready();
        let first = paid.send(gate.production());
        let setup = gate.kill();
        (way.refuse)(&redis);
        let gate = setup.start();
        assert_refusing(&gate, &way);
        assert_eq!(told(&paid.send(gate.production())), CLOSED, "{}", way.cause);
        assert!(!gate.has_ended());
        (way.accept)(&redis);
        assert_whole(&gate, &way);
        assert_again(&first, &paid.send(gate.production()));
    }
}

/// What the console tells people of it, and what it tells those who try to change something.
#[test]
fn the_console_says_that_the_store_refuses_writes_and_why() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(setup(&upstream, &redis.url(), "left")).start().ready();
    let listed = || ask(&gate, "GET", "money", &operator("ops-1"), None);
    assert_eq!(listed().json()["reasons"], serde_json::json!([]));
    let [way, ..] = WAYS;
    (way.refuse)(&redis);
    assert_refusing(&gate, &way);
    let answer = listed();
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(ask(&gate, "GET", "freezes", &operator("ops-1"), None).status, 200);
    let stops = &answer.json()["reasons"];
    assert_eq!(stops[0]["reason"], "store-refuses-writes", "{answer}");
    assert!(stops[0]["text"].as_str().unwrap().contains(way.words), "{answer}");
    let body = serde_json::json!({"environment": "production", "scope": "all", "reason": "a drill"});
    let refused = ask(&gate, "POST", "freezes", &operator("ops-1"), Some(body));
    assert_eq!((refused.status, refused.code().as_str()), (503, "STORE_UNAVAILABLE"), "{refused}");
    assert!(refused.text().contains("refuses writes: its memory is full"), "{refused}");
    (way.accept)(&redis);
    assert_whole(&gate, &way);
    wait_until("money to move", || listed().json()["reasons"] == serde_json::json!([]));
}

/// On a Redis that nobody used before, nothing can be created either.
#[test]
fn a_first_gate_on_a_redis_that_refuses_writes_waits_and_ends_in_order() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [way, ..] = WAYS;
    let setup = setup(&upstream, &redis.url(), "left").created();
    (way.refuse)(&redis);
    let gate = setup.start();
    assert_refusing(&gate, &way);
    (way.accept)(&redis);
    assert_whole(&gate, &way);
    (way.refuse)(&redis);
    assert_refusing(&gate, &way);
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
}

/// Gates cannot say that they run while their heartbeats are refused.
#[test]
fn the_doctor_does_not_take_refused_writes_for_gates_that_do_not_run() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let asks = setup(&upstream, &redis.url(), "asks");
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    let [way, ..] = WAYS;
    (way.refuse)(&redis);
    let seen = |said: &Value| said["environments"][0]["nodes"][0]["seenSecondsAgo"].as_u64().unwrap();
    wait_until("the last heartbeat to be long ago", || seen(&doctor(&asks).1) > 6);
    let (_, said) = doctor(&asks);
    let found = findings(&said);
    assert!(found.contains("the store refuses writes: its memory is full"), "{found}");
    assert!(!found.contains("no gate runs") && !found.contains("no heartbeat"), "{found}");
    assert_eq!(said["environments"][0]["nodes"][0]["state"], "unknown", "{said}");
    (way.accept)(&redis);
    wait_until("all to be well", || doctor(&asks).0 == 0);
    drop(gate.kill());
    wait_until("the gate to be missed", || findings(&doctor(&asks).1).contains("no gate runs on this store"));
    assert!(!findings(&doctor(&asks).1).contains("refuses writes"));
}

/// All answers wait behind the late one on the same connection; only who waited too long is refused.
#[test]
fn one_late_answer_of_the_redis_fails_its_own_call_alone() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let between = Between::to(redis.port());
    let gate = setup(&upstream, &between.url(), "left").start().ready();
    let connections = || redis.ask(&["INFO", "clients"]).concat().lines().next().map(str::to_owned);
    let made = || {
        let said = redis.ask(&["INFO", "stats"]).concat();
        let line = said.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    assert!(connections().is_some());
    for _ in 0..3 {
        let before = made();
        let seen = upstream.seen().len();
        between.hold(true);
        let late = swap();
        assert_eq!(told(&late.send(gate.production())), CLOSED);
        assert!(between.held() > 0);
        let (production, next) = (gate.production(), swap());
        let in_flight = spawn(move || told(&next.send(production)));
        wait_until("the next call to be in flight", || gate.metric("sluice_requests_in_flight") == 1);
        between.hold(false);
        assert_eq!(in_flight.join().unwrap(), "200 - executed");
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        // What was asked of the Redis here came over connections of its own.
        assert_eq!(made() - before, 1, "the gate has connected anew");
        wait_until("the late call to be free again", || told(&late.send(gate.production())) == "200 - executed");
        assert_eq!(upstream.seen().len(), seen + 3);
    }
    assert_eq!(logged(&gate, "the Redis is away or slow"), 0);
}

/// Many in a row are no accident.
#[test]
fn a_redis_that_does_not_answer_any_more_is_left_after_several_late_answers() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let between = Between::to(redis.port());
    let gate = setup(&upstream, &between.url(), "left").start().ready();
    between.swallow(true);
    wait_until("the connection to be given up", || logged(&gate, "the Redis is away or slow") == 1);
    assert_eq!(told(&swap().send(gate.production())), CLOSED);
    between.swallow(false);
    wait_until("money to move again", || gate.probe("/readyz/money").status == 200);
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}
