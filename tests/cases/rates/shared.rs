//! Rates that nodes share, through a real Redis: together they keep the limit, and nobody waits for one that is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{call, is_limited, list, parameter, passed, rate, token, wait_until, with};
use crate::support::clock::Watch;
use crate::support::cluster::Cluster;
use crate::support::tls::Authority;
use crate::support::{Caller, Gate, Redis, Setup, Upstream};

const TIMEOUT: Duration = Duration::from_millis(1000);

/// A node of two.
fn node(upstream: &Upstream, redis: &Redis, policies: &str) -> Gate {
    let millis = TIMEOUT.as_millis().to_string();
    let setup = with(Setup::of(upstream), policies).set("redis", "url", &redis.url());
    setup.set_raw("redis", "timeout_ms", &millis).set_raw("redis", "nodes", "2").start()
}

fn wait_up(gate: &Gate, is_up: bool) {
    wait_until("the Redis to come or to go", || gate.metric("sluice_redis_up") == u64::from(is_up));
}

fn shared(id: &str, quota: &str) -> String {
    rate(id, &format!("per = [\"caller\"]\nquota = \"{quota}\"\nshared = true"))
}

#[test]
fn two_nodes_share_one_burst_exactly() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let gates = [0, 1].map(|_| node(&upstream, &redis, &shared("both", "20/h")));
    gates.iter().for_each(|gate| wait_up(gate, true));
    let all: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = gates
            .iter()
            .flat_map(|g| [g, g])
            .map(|g| scope.spawn(|| passed(g.production(), &list("one"), 10)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(all, 20);
    let limited = list("one").send(gates[0].production());
    assert_eq!(parameter(&limited, "ratelimit", "both", "t"), limited.header("retry-after").unwrap().parse().ok());
    assert!((1..=180).contains(&parameter(&limited, "ratelimit", "both", "t").unwrap()), "{limited}");
    // Another caller has a bucket of its own, which the other node knows.
    assert_eq!(parameter(&list("two").send(gates[0].production()), "ratelimit", "both", "r"), Some(19));
    assert_eq!(parameter(&list("two").send(gates[1].production()), "ratelimit", "both", "r"), Some(18));
    assert_eq!(gates[0].metric("sluice_rate_by_part_total"), 0);
    // Who calls cannot be read there, and nothing stays for ever.
    let keys = redis.ask(&["KEYS", "*"]);
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in &keys {
        assert!(key.starts_with("{rates}:both:") && !key.contains("one"), "{key}");
        let left: i64 = redis.ask(&["PTTL", key])[0].parse().unwrap();
        assert!(left > 0 && left <= 3_600_010, "{key}: {left}");
    }
}

#[test]
fn two_nodes_share_one_burst_exactly_in_a_cluster() {
    let (upstream, cluster) = (Upstream::start(), Cluster::start());
    let gates = [0, 1].map(|_| {
        let setup = with(Setup::of(&upstream), &shared("both", "20/h")).set_raw("redis", "tls", "false");
        let setup = setup.set_raw("redis", "cluster", &cluster.addresses()).set_raw("redis", "timeout_ms", "1000");
        setup.set_raw("redis", "nodes", "2").start()
    });
    gates.iter().for_each(|gate| wait_up(gate, true));
    let take =
        |amount: usize| -> usize { gates.iter().map(|gate| passed(gate.production(), &list("one"), amount)).sum() };
    assert_eq!(take(5), 10);
    let slot = cluster.slot_of("rates");
    cluster.reshard(&slot, 2, || {});
    // A gate that asks the former shard is told so, and decides for itself what its part allows.
    list("two").send(gates[0].production());
    list("two").send(gates[1].production());
    gates.iter().for_each(|gate| wait_up(gate, true));
    wait_until("both to share again", || {
        let parts = gates.iter().map(|gate| gate.metric("sluice_rate_by_part_total")).sum::<u64>();
        gates.iter().for_each(|gate| drop(list("two").send(gate.production())));
        parts == gates.iter().map(|gate| gate.metric("sluice_rate_by_part_total")).sum::<u64>()
    });
    assert_eq!(take(10), 10);
}

#[test]
fn what_one_refuses_takes_nothing_from_another_here_or_there() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let policies = [
        shared("wide", "20/h"),
        rate("money", "ops = [\"@money\"]\nquota = \"3/h\"\nshared = true"),
        rate("here", "ops = [\"@read\"]\nquota = \"2/h\""),
        rate("there", "ops = [\"@change\"]\nquota = \"2/h\"\nshared = true"),
        rate("local", "ops = [\"@change\"]\nquota = \"9/h\""),
        rate("shade", "quota = \"1/h\"\nshared = true\nmode = \"shadow\""),
    ];
    let gate = node(&upstream, &redis, &policies.concat());
    wait_up(&gate, true);
    let at = gate.production();
    let one = token("one", &[]);
    assert_eq!(passed(at, &call("createSwap", &one,), 10), 3);
    assert_eq!(passed(at, &call("listUsers", &one), 10), 2);
    assert_eq!(passed(at, &call("cancelSwap", &one), 10), 2);
    // Of the twenty, seven are gone; of the nine, two.
    let limited = call("cancelSwap", &one).send(at);
    assert_eq!(limited.json()["error"]["details"]["rates"], serde_json::json!(["there"]));
    let metric = |rate: &str, outcome: &str, mode: &str| {
        gate.metric(&format!("sluice_rate_calls_total{{mode=\"{mode}\",outcome=\"{outcome}\",rate=\"{rate}\"}}"))
    };
    assert_eq!((metric("wide", "allowed", "enforce"), metric("local", "allowed", "enforce")), (7, 2));
    assert_eq!((metric("shade", "allowed", "shadow"), metric("here", "limited", "enforce")), (1, 8));
    let keys = redis.ask(&["KEYS", "{rates}:wide:*"]);
    let millis: i64 = redis.ask(&["PTTL", &keys[0]])[0].parse().unwrap();
    // Seven intervals of three minutes ahead, and no more.
    assert!(millis > 6 * 180_000 && millis <= 7 * 180_000 + 2, "{millis}");
}

/// The clock of the Redis went back: a mark from the future is worth one burst, not a lock-out.
#[test]
fn a_clock_that_goes_back_locks_nobody_out() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let gate = node(&upstream, &redis, &shared("slow", "3600/h burst 2"));
    wait_up(&gate, true);
    assert_eq!(list("one").send(gate.production()).status, 200);
    let key = redis.ask(&["KEYS", "*"]).remove(0);
    redis.ask(&["SET", &key, "99999999999999999"]);
    let limited = list("one").send(gate.production());
    assert!(is_limited(&limited) && limited.header("retry-after").unwrap() == "1", "{limited}");
    wait_until("a call to pass", || !is_limited(&list("one").send(gate.production())));
    // What is no mark at all is one that never was.
    redis.ask(&["SET", &key, "nonsense"]);
    assert_eq!(list("one").send(gate.production()).status, 200);
}

/// Calls as fast as they go through both nodes, with the Redis frozen in the middle.
#[test]
fn two_nodes_keep_the_limit_and_a_frozen_redis_holds_nobody_up() {
    const PER_SECOND: usize = 50;
    const BURST: usize = 50;
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let gates = [0, 1].map(|_| node(&upstream, &redis, &shared("both", "50/s burst 50")));
    gates.iter().for_each(|gate| wait_up(gate, true));
    let (ended, since) = (AtomicBool::new(false), Watch::start());
    let load = |gate: &Gate| {
        let (mut caller, call) = (Caller::connect(gate.production()), list("one"));
        let (mut times, mut longest) = (Vec::new(), Vec::new());
        while !ended.load(Ordering::SeqCst) {
            let answer = call.over(&mut caller);
            longest.push(answer.took);
            if !is_limited(&answer) {
                times.push(since.elapsed());
            }
        }
        (times, longest)
    };
    let loads: Vec<(Vec<Duration>, Vec<Duration>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = gates.iter().map(|gate| scope.spawn(|| load(gate))).collect();
        std::thread::park_timeout(Duration::from_secs(3));
        redis.freeze();
        std::thread::park_timeout(Duration::from_secs(5));
        redis.thaw();
        gates.iter().for_each(|gate| wait_up(gate, true));
        std::thread::park_timeout(Duration::from_secs(1));
        ended.store(true, Ordering::SeqCst);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let whole = since.elapsed();
    let allowed = |from: Duration, to: Duration| {
        loads.iter().flat_map(|(times, _)| times).filter(|at| **at >= from && **at < to).count()
    };
    let limit = |time: Duration| usize::try_from(time.as_millis()).unwrap() * PER_SECOND * 102 / 100_000;
    let before = Duration::from_secs(3);
    assert!(allowed(Duration::ZERO, before) <= limit(before) + BURST);
    // As it goes, and as it comes back, a node may allow its part without knowing of the other: half a burst each.
    let all = allowed(Duration::ZERO, whole);
    assert!(all <= limit(whole) + 2 * BURST, "{all} in {whole:?}");
    // While it was away, calls passed by the nodes' own parts.
    assert!(allowed(Duration::from_secs(5), Duration::from_secs(7)) > 0);
    for (gate, (_, took)) in gates.iter().zip(&loads) {
        assert!(gate.metric("sluice_rate_by_part_total") > 0);
        // The one that found out waited for its deadline; then none waited.
        assert!(took.iter().filter(|took| **took >= TIMEOUT).count() <= 1);
        let longest = took.iter().max().unwrap();
        assert!(*longest < TIMEOUT + Duration::from_millis(900), "{longest:?}");
    }
}

#[test]
fn a_redis_that_is_away_at_the_start_leaves_each_node_its_part() {
    let (upstream, mut redis) = (Upstream::start(), Redis::away());
    let gate = node(&upstream, &redis, &shared("both", "20/h"));
    assert_eq!(gate.probe("/readyz").status, 200);
    // Ten of twenty, as there are two nodes.
    assert_eq!(passed(gate.production(), &list("one"), 30), 10);
    assert_eq!(gate.metric("sluice_redis_up"), 0);
    assert_eq!(gate.metric("sluice_rate_by_part_total"), 30);
    redis.come();
    wait_up(&gate, true);
    assert_eq!(passed(gate.production(), &list("two"), 30), 20);
    // What it allowed meanwhile is charged: coming back is no new start.
    assert_eq!(passed(gate.production(), &list("one"), 30), 10);
    redis.go();
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn a_redis_that_is_started_again_is_used_again() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start());
    let gate = node(&upstream, &redis, &shared("both", "20/h"));
    wait_up(&gate, true);
    assert_eq!(passed(gate.production(), &list("one"), 15), 15);
    redis.go();
    // What it allowed counts in the node's part: going away is no new start.
    assert_eq!(passed(gate.production(), &list("one"), 10), 0);
    wait_up(&gate, false);
    redis.come();
    wait_up(&gate, true);
    // It knows of no script and no call any more.
    assert_eq!(parameter(&list("one").send(gate.production()), "ratelimit", "both", "r"), Some(19));
}

#[test]
fn the_password_of_the_redis_is_not_told() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    redis.ask(&["CONFIG", "SET", "requirepass", "the-password-of-the-redis"]);
    let url = redis.url().replace("redis://", "redis://:the-password-of-the-redis@");
    let setup = with(Setup::of(&upstream), &shared("both", "20/h")).set("log", "level", "trace");
    let gate = setup.set("redis", "url", &url).start();
    wait_up(&gate, true);
    assert_eq!(list("one").send(gate.production()).status, 200);
    let wrong = redis.url().replace("redis://", "redis://:the-password-of-another@");
    let setup = with(Setup::of(&upstream), &shared("both", "20/h")).set("log", "level", "trace");
    let refused = setup.set("redis", "url", &wrong).start();
    assert_eq!(passed(refused.production(), &list("one"), 12), 10);
    for gate in [&gate, &refused] {
        let told = format!("{:?} {} {}", gate.log.all(), gate.stderr(), gate.probe("/metrics").text());
        assert!(!told.contains("the-password-of"), "{told}");
    }
}

#[test]
fn a_redis_behind_tls_is_believed_by_its_authority_alone() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let redis = Redis::start_tls(&authority.certify(&["127.0.0.1"]));
    let start = |pem: &str| {
        let setup = with(Setup::of(&upstream), &shared("both", "20/h")).set("redis", "url", &redis.url());
        setup.file("ca.pem", pem).set("redis", "ca", "ca.pem").start()
    };
    let gate = start(&authority.pem());
    wait_up(&gate, true);
    assert_eq!(passed(gate.production(), &list("one"), 30), 20);
    let wary = start(&Authority::new().pem());
    wary.log.wait("the other to be refused", |lines| {
        lines.iter().find(|line| line["message"].as_str().is_some_and(|m| m.contains("cannot be reached"))).cloned()
    });
    assert_eq!(passed(wary.production(), &list("one"), 30), 10);
    assert_eq!(wary.metric("sluice_redis_up"), 0);
}
