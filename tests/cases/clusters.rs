//! A Redis Cluster: slots that move, shards that fail over and gates that nobody confirms pay nothing twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;

use super::claims::{assert_again, swap, told};
use super::nodes::CLOSED;
use super::rules::{allow, limit, swap_of};
use super::sentinels::{CALLERS, Over, Told, caller, pays};
use crate::support::clock::{Watch, wait_until};
use crate::support::cluster::Cluster;
use crate::support::shape::fresh_id;
use crate::support::split::{GATES, Network};
use crate::support::tls::Authority;
use crate::support::{Gate, Setup, Upstream, get};

const NODES: [&str; 2] = ["left", "right"];

fn in_cluster(setup: Setup, cluster: &Cluster, node: &str) -> Setup {
    let setup = setup.set("store", "kind", "redis").set("store", "node", node);
    let setup = setup.set_raw("redis", "cluster", &cluster.addresses()).set_raw("redis", "tls", "false");
    let setup = setup.set("redis", "durability", "replicated").set_raw("redis", "fence_ms", "4000");
    setup.set_raw("redis", "timeout_ms", "500")
}

fn pair(upstream: &Upstream, cluster: &Cluster) -> [Gate; 2] {
    NODES.map(|node| in_cluster(Setup::of(upstream), cluster, node).start())
}

fn assert_sent_once(upstream: &Upstream) {
    let mut sent = BTreeMap::<String, usize>::new();
    for seen in upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")) {
        *sent.entry(seen.text()).or_default() += 1;
    }
    assert!(sent.values().all(|count| *count == 1), "paid twice");
}

#[test]
fn a_slot_that_moves_and_a_primary_that_dies_under_load_pay_nothing_twice() {
    let (upstream, mut cluster) = (Upstream::start(), Cluster::start());
    let gates = pair(&upstream, &cluster);
    let slot = cluster.slot_of("production");
    let first = cluster.owner(&slot);
    assert_ne!(first, cluster.owner(&cluster.slot_of("sandbox")), "one shard has all environments");
    let (is_over, paid) = (AtomicBool::new(false), AtomicUsize::new(0));
    let told: Vec<Told> = scope(|scope| {
        let (gates, is_over, paid) = (&gates, &is_over, &paid);
        let over = Over(is_over);
        let callers: Vec<_> = (0..CALLERS).map(|at| scope.spawn(move || caller(gates, at, is_over, paid))).collect();
        let goes_on = |what: &str| {
            let watch = Watch::start();
            let before = paid.load(Ordering::SeqCst);
            gates.iter().for_each(|gate| wait_until("money to move again", || pays(gate)));
            println!("{what}: money moves after {:?}", watch.elapsed());
            wait_until("the load to go on", || paid.load(Ordering::SeqCst) > before + 50);
        };
        goes_on("start");
        for to in [0, first] {
            cluster.reshard(&slot, to, || {
                let answer = swap().send(gates[0].production());
                assert!(answer.status != 200, "a payment while the slot moves: {answer}");
                assert_eq!(get("/v2/users").send(gates[0].production()).status, 200);
            });
            assert_eq!(cluster.owner(&slot), to);
            goes_on("the slot has moved");
        }
        cluster.all[first].go();
        wait_until("the failover", || cluster.owner(&slot) != first);
        goes_on("failover");
        // It comes back as a replica.
        cluster.all[first].come();
        cluster.is_whole();
        goes_on("the former primary is back");
        drop(over);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_sent_once(&upstream);
    let sent = upstream.posts();
    for told in &told {
        for (call, first) in &told.executed {
            assert_again(first, &call.send(gates[0].production()));
        }
        for call in &told.in_doubt {
            let again = call.send(gates[1].production());
            assert!(["unknown", "executed"].contains(&again.outcome().as_str()), "{again}");
        }
    }
    assert_eq!(upstream.posts(), sent);
}

#[test]
fn a_limit_is_exact_while_its_slot_moves() {
    let (upstream, cluster) = (Upstream::start(), Cluster::start());
    let rules =
        allow("op = \"createSwap\"") + &limit("few", "window = \"rolling 24h\"\nmax = \"40 calls\"\nover = \"deny\"");
    let gates = NODES.map(|node| {
        let setup = Setup::of(&upstream).file("policies/everything.toml", &rules);
        in_cluster(setup, &cluster, node).start()
    });
    let slot = cluster.slot_of("production");
    let executed: usize = scope(|scope| {
        let gates = &gates;
        let spend = move |at: usize| {
            let (mut executed, mut turn) = (0, at);
            loop {
                let call = swap_of(&fresh_id(), "1");
                let mut answer = String::new();
                wait_until("an answer", || {
                    turn += 1;
                    answer = told(&call.send(gates[turn % 2].production()));
                    let repeated = ["STORE_UNAVAILABLE", "REQUEST_IN_PROGRESS", "UPSTREAM_UNAVAILABLE"];
                    !repeated.iter().any(|code| answer.contains(code))
                });
                if answer.contains("LIMIT_EXCEEDED") {
                    return executed;
                }
                executed += 1;
            }
        };
        let spenders: Vec<_> = (0..4).map(|at| scope.spawn(move || spend(at))).collect();
        wait_until("the load", || upstream.seen().len() > 10);
        cluster.reshard(&slot, 0, || {});
        spenders.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(executed, 40);
    assert_sent_once(&upstream);
    assert!(upstream.seen().len() <= 40);
}

/// Its primary still takes writes, but another may have taken its place for all that the gate knows.
#[test]
fn a_gate_whose_primary_no_majority_names_does_not_pay() {
    let (upstream, cluster) = (Upstream::start(), Cluster::start());
    let [left, _right] = pair(&upstream, &cluster);
    wait_until("money to move", || pays(&left));
    let kept = swap();
    assert_eq!(told(&kept.send(left.production())), "200 - executed");
    for node in &cluster.all {
        node.ask(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    let owner = cluster.owner(&cluster.slot_of("production"));
    let others: Vec<usize> = (0..3).filter(|at| *at != owner).collect();
    others.iter().for_each(|at| cluster.all[*at].freeze());
    wait_until("the fence to close", || told(&swap().send(left.production())) == CLOSED);
    wait_until("the probe to name the fence", || {
        let readiness = left.probe("/readyz/money");
        readiness.status == 503 && readiness.text().contains("fence")
    });
    others.iter().for_each(|at| cluster.all[*at].thaw());
    wait_until("money to move again", || pays(&left));
    let again = kept.send(left.production());
    assert_eq!(again.header("sluice-replayed").as_deref(), Some("true"), "{again}");
    assert_sent_once(&upstream);
}

/// In a cluster that must be whole, no environment has a store then.
#[test]
fn a_shard_that_is_away_takes_its_environment_with_it_and_comes_back_with_it() {
    let (upstream, sandbox, mut cluster) = (Upstream::start(), Upstream::start(), Cluster::start());
    let slot = cluster.slot_of("production");
    let setup = || Setup::of(&upstream).sandbox(&sandbox);
    let gate = in_cluster(setup(), &cluster, "left").start();
    let pays_in_sandbox = |gate: &Gate| swap().send(gate.sandbox()).status == 200;
    wait_until("money to move", || pays(&gate) && pays_in_sandbox(&gate));
    let kept = swap();
    let paid = kept.send(gate.production());
    assert_eq!(told(&paid), "200 - executed");
    let shard = [cluster.owner(&slot), 3, 4];
    for needs_all in ["yes", "no"] {
        for node in &cluster.all {
            node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", needs_all]);
        }
        shard.iter().for_each(|at| cluster.all[*at].go());
        wait_until("money to wait", || told(&swap().send(gate.production())) == CLOSED);
        if needs_all == "yes" {
            wait_until("money of the sandbox to wait", || told(&swap().send(gate.sandbox())) == CLOSED);
        } else {
            wait_until("money of the sandbox to move", || pays_in_sandbox(&gate));
            assert_eq!(told(&swap().send(gate.production())), CLOSED);
        }
        for address in [gate.production(), gate.sandbox()] {
            assert_eq!(get("/v2/users").send(address).status, 200);
        }
        // A gate that starts now serves reads.
        let late = in_cluster(setup(), &cluster, &format!("late-{needs_all}")).uncreated().start();
        assert_eq!(get("/v2/users").send(late.production()).status, 200);
        assert_eq!(told(&swap().send(late.production())), CLOSED);
        shard.iter().for_each(|at| cluster.all[*at].come());
        cluster.is_whole();
        for gate in [&gate, &late] {
            wait_until("money to move again", || pays(gate) && pays_in_sandbox(gate));
            assert_again(&paid, &kept.send(gate.production()));
        }
    }
    assert_sent_once(&upstream);
    assert_sent_once(&sandbox);
}

#[test]
fn a_cluster_is_reached_over_tls_and_by_login_alone() {
    let authority = Authority::new();
    let (upstream, mut cluster) = (Upstream::start(), Cluster::start_tls(&authority));
    for node in &cluster.all {
        let rules = format!("ACL SETUSER sluice {}", user_of_acl());
        assert_eq!(node.ask(&rules.split_whitespace().collect::<Vec<_>>()), ["OK"]);
    }
    let setup = |node: &str, ca: &Authority, password: &str| {
        let setup = in_cluster(Setup::of(&upstream), &cluster, node).set_raw("redis", "tls", "true");
        let setup = setup.file("redis-ca.pem", &ca.pem()).set("redis", "ca", "redis-ca.pem");
        setup.set("redis", "user", "sluice").set("redis", "password", password)
    };
    let gate = setup("left", &authority, "PASSWORD").start();
    wait_until("money to move", || pays(&gate));
    let kept = swap();
    let paid = kept.send(gate.production());
    assert_eq!(told(&paid), "200 - executed");
    for wrong in [setup("other", &Authority::new(), "PASSWORD"), setup("other", &authority, "guessed")] {
        let stranger = wrong.uncreated().start();
        assert_eq!(told(&swap().send(stranger.production())), CLOSED);
        assert_eq!(get("/v2/users").send(stranger.production()).status, 200);
    }
    let slot = cluster.slot_of("production");
    let first = cluster.owner(&slot);
    cluster.all[first].go();
    wait_until("the failover", || cluster.owner(&slot) != first);
    wait_until("money to move again", || pays(&gate));
    assert_again(&paid, &kept.send(gate.production()));
    assert_sent_once(&upstream);
}

/// The gates' user and its rules, as they are written for people.
fn user_of_acl() -> &'static str {
    let users = include_str!("../../deploy/redis.acl").lines().find_map(|line| line.strip_prefix("user sluice "));
    users.unwrap()
}

/// The former primary keeps its gates and a replica at first, and takes writes for longer than the others wait for it.
#[test]
fn a_split_between_the_nodes_pays_at_the_side_of_the_majority_alone() {
    let (upstream, network) = (Upstream::start(), Network::default());
    let cluster = Cluster::start_in(&network);
    let gates = pair(&upstream, &cluster);
    gates.iter().for_each(|gate| wait_until("money to move", || pays(gate)));
    let kept = swap();
    let paid = kept.send(gates[0].production());
    let slot = cluster.slot_of("production");
    let former = cluster.owner(&slot);
    let minority = [former, 4];
    let others: Vec<usize> = (0..6).filter(|at| !minority.contains(at)).collect();
    cluster.all[former].ask(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);

    minority.iter().for_each(|node| network.cut_off(*node, &others));
    network.cut(GATES, &others);
    wait_until("the others to promote one", || cluster.owner(&slot) != former);
    assert_eq!(cluster.owner_by(former, &slot), former, "it has heard of it");
    assert_eq!(cluster.all[former].ask(&["SET", "{production}:still", "takes writes"]), ["OK"]);
    // Until the fence closes, what the gates commit is known to the former primary and its replica alone.
    let mut late = Vec::new();
    for gate in &gates {
        wait_until("the fence to close", || {
            let call = swap();
            let answer = told(&call.send(gate.production()));
            late.push(call);
            answer == CLOSED
        });
    }
    let sent = upstream.posts();
    for gate in &gates {
        assert_eq!(told(&swap().send(gate.production())), CLOSED);
    }
    assert_eq!(upstream.posts(), sent, "a payment at the side of the minority");
    wait_until("the probe to say so", || gates[0].probe("/readyz/money").text().contains("fence"));

    // Gates reach both sides, which do not reach each other.
    network.join(GATES);
    gates.iter().for_each(|gate| wait_until("money to move again", || pays(gate)));
    assert_again(&paid, &kept.send(gates[1].production()));
    assert_eq!(cluster.owner_by(former, &slot), former, "it has heard of it");
    network.heal();
    wait_until("the former primary to follow", || cluster.owner_by(former, &slot) != former);
    for gate in &gates {
        wait_until("money to move again", || pays(gate));
        assert_again(&paid, &kept.send(gate.production()));
        late.iter().for_each(|call| drop(call.send(gate.production())));
    }
    assert_sent_once(&upstream);
}
