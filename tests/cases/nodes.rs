//! Two gates on one Redis are one gate to their callers.

use std::sync::{Arc, Barrier};
use std::thread::spawn;
use std::time::Duration;

use sluice::adapters::audit::LastHeard;
use sluice::base::ids::Environment;
use sluice::ledger::NodeId;

use super::claims::{assert_again, named, pay, swap, told};
use crate::support::clock::{Watch, wait_until};
use crate::support::shape::swap_record;
use crate::support::{Act, Answer, Between, Call, Caller, Gate, Redis, Setup, Upstream, get};

pub(super) const CLOSED: &str = "503 STORE_UNAVAILABLE unknown";
/// The store took the call, and answered too late for the gate to send it.
pub(super) const TOO_LATE: &str = "503 STORE_UNAVAILABLE not-executed";
pub(super) const EXECUTED: &str = "200 - executed";
/// How long a call waits for the Redis here.
const DEADLINE: Duration = Duration::from_millis(1_000);

pub(super) fn setup(upstream: &Upstream, url: &str, node: &str) -> Setup {
    let millis = DEADLINE.as_millis().to_string();
    let setup = Setup::of(upstream).set("store", "kind", "redis").set("store", "node", node);
    setup.set("redis", "url", url).set_raw("redis", "timeout_ms", &millis)
}

/// Whether the gate's log has these words.
pub(super) fn says(gate: &Gate, words: &str) -> bool {
    gate.log.all().iter().any(|line| line.to_string().contains(words))
}

/// Waits until the gate's log has these words: a line of the log is written a moment after what it tells.
pub(super) fn await_log(gate: &Gate, words: &str) {
    wait_until(&format!("the log to say: {words}"), || says(gate, words));
}

/// Pays once the store is there; money is never frozen meanwhile.
pub(super) fn paid(gate: &Gate) -> Call {
    let call = swap();
    wait_until("money to move", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, TOO_LATE, EXECUTED].contains(&answer.as_str()), "{answer}");
        answer == EXECUTED
    });
    call
}

/// The snapshot of what was before its journal is lost, and what the gate made of it.
pub(super) fn without_what_was_before(stopped: Setup) -> Setup {
    for found in std::fs::read_dir(stopped.path("sluice-audit")).unwrap() {
        let path = found.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("replica-") {
            std::fs::remove_dir_all(path).unwrap();
        } else if name.ends_with(".snapshot") {
            std::fs::remove_file(path).unwrap();
        }
    }
    stopped
}

pub(super) fn pair(upstream: &Upstream, redis: &Redis) -> [Gate; 2] {
    ["left", "right"].map(|node| setup(upstream, &redis.url(), node).start().ready())
}

/// How many entries the store keeps for journals that lack them.
pub(super) fn waiting(redis: &Redis) -> u64 {
    redis.ask(&["ZCARD", "sluice:{production}:q"]).concat().parse().unwrap()
}

/// Waits until every journal has every entry.
pub(super) fn all_have_it(redis: &Redis) {
    wait_until("all journals to have it", || waiting(redis) == 0);
}

/// The number of its last commit; 0 where it has none yet.
pub(super) fn commits(redis: &Redis) -> i64 {
    redis.head("sluice:{production}", "last")
}

/// Waits until the journals of these gates have all commits: an answer is told before the journal of its gate has it. After a
/// split, the store could else be rebuilt from the journal of a gate with the other history.
pub(super) fn have_all(redis: &Redis, nodes: &[&str]) {
    let kept = |node: &str| redis.ask(&["HGET", "sluice:{production}:k", node]).concat();
    let has_all = |node: &&str| kept(node).ends_with(&format!(" {}", commits(redis)));
    wait_until("journals to have all", || nodes.iter().all(has_all));
}

/// Waits until a gate has kept that another one ended before: started alone, it does not wait for that one.
pub(super) fn outlives(gate: &Gate, [node, other]: [&str; 2]) {
    let [node, other] = [node, other].map(|name| NodeId::parse(name).unwrap());
    wait_until("the other gate to be silent", || {
        let heard = LastHeard::read(&gate.path("sluice-audit"), &node, Environment::Production);
        let silent = heard.and_then(|heard| Some(heard.at.since(heard.stated.get(&other)?.at)));
        silent.is_some_and(|silent| silent > Duration::from_secs(7))
    });
}

pub(super) fn read(gate: &Gate) -> Answer {
    get("/v2/users").send(gate.production())
}

#[test]
fn what_was_paid_at_one_gate_is_told_at_the_other() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    for (first_at, again_at) in [(&left, &right), (&right, &left)] {
        let (paid, in_doubt) = (swap(), swap());
        upstream.next(Act::json(201, swap_record("paid")));
        let first = paid.send(first_at.production());
        assert_eq!(told(&first), "201 - executed");
        upstream.next(Act::silence().close());
        assert_eq!(told(&in_doubt.send(first_at.production())), "502 OUTCOME_UNKNOWN unknown");
        for gate in [again_at, first_at] {
            assert_again(&first, &paid.send(gate.production()));
            assert_eq!(told(&in_doubt.send(gate.production())), "409 OUTCOME_UNKNOWN unknown");
        }
    }
    assert_eq!(upstream.seen().len(), 4);
    let call = pay(named("one-name"));
    assert_eq!(told(&call.send(left.production())), "200 - executed");
    let other = pay(r#"{"requestId":"one-name","source":{"x":1},"destination":{}}"#);
    let refused = other.send(right.production());
    assert_eq!(refused.status, 422, "{refused}");
}

/// One to claim and one to settle; its repeat, one. What else is asked is nothing that a caller waits for.
#[test]
fn a_swap_costs_two_round_trips_and_its_repeat_one() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let monitor = redis.monitor();
    let asked_for = |call: &Call, mark: &str| {
        let before = monitor.all().len();
        let answer = call.send(gate.production());
        redis.ask(&["ECHO", mark]);
        let asked = monitor.wait("all that it was asked", |lines| {
            lines.iter().any(|line| line.contains(mark)).then(|| lines[before..].to_vec())
        });
        // What a script asks is no round trip.
        let asked = asked.iter().filter(|line| !line.contains(" lua]") && !line.contains("\"ECHO\""));
        let of_nobody = [
            "\"time\"",
            "\"kept\"",
            "\"outbox\"",
            "\"ZRANGEBYSCORE\"",
            "\"PING\"",
            "\"INFO\"",
            "\"SET\"",
            "\"last\"",
            "\"beat\"",
        ];
        let asked = asked.filter(|line| !of_nobody.iter().any(|one| line.contains(one)));
        (told(&answer), asked.cloned().collect::<Vec<_>>())
    };
    let call = swap();
    let (first, commits) = asked_for(&call, "first");
    assert_eq!((first.as_str(), commits.len()), ("200 - executed", 2), "{commits:?}");
    assert!(commits.iter().all(|line| line.contains("\"EVALSHA\"") && line.contains("\"commit\"")), "{commits:?}");
    let (again, asked) = asked_for(&call, "second");
    assert_eq!((again.as_str(), asked.len()), ("200 - executed again", 1), "{asked:?}");
}

#[test]
fn a_race_at_both_gates_has_one_effect() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &redis);
    let rounds = 40;
    for _ in 0..rounds {
        let (call, start) = (swap(), Arc::new(Barrier::new(4)));
        let callers = [0, 1, 0, 1].map(|at: usize| {
            let (call, address, start) = (call.clone(), gates[at].production(), Arc::clone(&start));
            spawn(move || {
                start.wait();
                call.header("Prefer", "wait=10").send(address)
            })
        });
        let told = callers.map(|caller| told(&caller.join().unwrap()));
        assert!(told.iter().all(|one| one.starts_with("200 - executed")), "{told:?}");
        assert_eq!(told.iter().filter(|one| *one == "200 - executed").count(), 1, "{told:?}");
    }
    assert_eq!(upstream.seen().len(), rounds);
}

#[test]
fn what_a_killed_gate_was_sending_is_in_doubt_at_the_other_after_its_lease() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let quick = |node: &str| {
        let setup = setup(&upstream, &redis.url(), node).timeout_ms("connect_ms", 200);
        let setup = setup.timeout_ms("tls_handshake_ms", 200).timeout_ms("write_ms", 200);
        setup.timeout_ms("answer_ms", 1_000).start().ready()
    };
    let (left, right) = (quick("left"), quick("right"));
    let call = swap();
    upstream.next(Act::silence().hang());
    let mut caller = Caller::connect(left.production());
    caller.send(call.bytes());
    upstream.wait_for(0);
    drop(left.kill());
    assert_eq!(told(&call.send(right.production())), "409 REQUEST_IN_PROGRESS unknown");
    let watch = Watch::start();
    while told(&call.send(right.production())) == "409 REQUEST_IN_PROGRESS unknown" {
        assert!(watch.elapsed() < Duration::from_secs(40), "the lease never lapses");
        std::thread::park_timeout(Duration::from_millis(250));
    }
    assert_eq!(told(&call.send(right.production())), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(upstream.seen().len(), 1);
}

/// Away by being killed, and by standing still with its connections open.
#[test]
fn while_the_redis_is_away_money_is_refused_in_time_and_reads_go_on() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &redis);
    let paid = swap();
    let first = paid.send(gates[0].production());
    for is_killed in [true, false, true, false] {
        let sent = upstream.seen().len();
        if is_killed {
            redis.go()
        } else {
            redis.freeze()
        }
        for gate in &gates {
            for call in [&swap(), &paid] {
                let watch = Watch::start();
                let answer = call.send(gate.production());
                assert_eq!(told(&answer), CLOSED, "{answer}");
                assert!(answer.header("retry-after").is_some());
                assert!(watch.elapsed() < DEADLINE * 3, "{:?}", watch.elapsed());
            }
        }
        assert_eq!(upstream.seen().len(), sent, "something was sent without its claim");
        assert!(gates.iter().all(|gate| read(gate).status == 200));
        if is_killed {
            redis.come()
        } else {
            redis.thaw()
        }
        let watch = Watch::start();
        for gate in &gates {
            wait_until("money to move again", || swap().send(gate.production()).status == 200);
            assert_again(&first, &paid.send(gate.production()));
        }
        assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
    }
}

#[test]
fn a_claim_whose_answer_is_lost_sends_nothing_and_is_free_again() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let between = Between::to(redis.port());
    let left = setup(&upstream, &between.url(), "left").start().ready();
    let right = setup(&upstream, &redis.url(), "right").start().ready();
    let call = swap();
    between.swallow(true);
    assert_eq!(told(&call.send(left.production())), CLOSED);
    assert!(between.swallowed() > 0);
    between.swallow(false);
    // The gate that made it undoes it; nobody needs to be asked.
    wait_until("the claim to be undone", || told(&call.send(right.production())) == "200 - executed");
    assert_eq!(upstream.seen().len(), 1);
}

/// Ends by itself, with these words.
fn assert_refuses(setup: Setup, words: &[&str]) {
    let gate = Gate::spawn(setup);
    assert!(!gate.wait_end().success());
    let said = gate.stderr();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn a_redis_that_may_forget_is_refused_unless_it_is_allowed_by_name() {
    let upstream = Upstream::start();
    let forgets = Redis::start();
    assert_refuses(setup(&upstream, &forgets.url(), "left"), &["appendonly yes", "redis.allow_unsafe"]);
    let evicts =
        Redis::start_with(&["--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    assert_refuses(setup(&upstream, &evicts.url(), "left"), &["noeviction", "allkeys-lru", "redis.allow_unsafe"]);
    let old = Redis::start_kept();
    let fsynced = setup(&upstream, &old.url(), "left").set("redis", "durability", "fsynced");
    assert_refuses(fsynced, &["7.2 or newer", "redis.durability"]);

    for redis in [&forgets, &evicts] {
        let gate = setup(&upstream, &redis.url(), "left").set_raw("redis", "allow_unsafe", "true").start().ready();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    }
    // In the sandbox alone nothing is worth as much.
    let sandbox = Setup::new().sandbox(&upstream).set("store", "kind", "redis").set("store", "node", "left");
    let gate = sandbox.set("redis", "url", &forgets.url()).start().ready();
    assert_eq!(told(&swap().send(gate.sandbox())), "200 - executed");
}

/// What it was paying when it was killed is in doubt all the same as soon as it is ready.
#[test]
fn a_gate_that_starts_without_its_redis_serves_reads_until_it_comes() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "left").start().ready();
    let (paid, cut_off) = (swap(), swap());
    let first = paid.send(gate.production());
    upstream.next(Act::silence().hang());
    let mut caller = Caller::connect(gate.production());
    caller.send(cut_off.bytes());
    upstream.wait_for(1);
    let setup = gate.kill();
    redis.go();
    let gate = setup.start();
    assert_eq!(read(&gate).status, 200);
    for call in [&swap(), &paid, &cut_off] {
        assert_eq!(told(&call.send(gate.production())), CLOSED);
    }
    let [reads, money, lives] = ["/readyz", "/readyz/money", "/livez"].map(|path| gate.probe(path));
    assert_eq!((reads.status, money.status, lives.status), (200, 503, 200));
    assert!(money.text().contains("store-away") && money.text().contains("does not answer"), "{money}");
    redis.come();
    let watch = Watch::start();
    wait_until("the gate to be ready", || gate.probe("/readyz/money").status == 200);
    assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
    assert_again(&first, &paid.send(gate.production()));
    assert_eq!(told(&cut_off.send(gate.production())), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    // Ready it stays while the Redis is away: reads go on at all gates.
    redis.go();
    wait_until("money to be refused", || told(&swap().send(gate.production())) == CLOSED);
    assert_eq!((gate.probe("/readyz").status, read(&gate).status), (200, 200));
    wait_until("the probe to say so", || gate.probe("/readyz/money").status == 503);
}

#[test]
fn a_gate_that_never_met_its_redis_ends_in_order() {
    let (upstream, redis) = (Upstream::start(), Redis::away());
    let gate = setup(&upstream, &redis.url(), "left").start();
    assert_eq!(read(&gate).status, 200);
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
}
