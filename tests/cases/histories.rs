//! Two gates whose journals hold different entries under one number, because a Redis was split while a third gate did not
//! follow.

use serde_json::json;

use super::claims::{swap, told};
use super::console::{console, lift};
use super::nodes::{EXECUTED, paid, says, setup};
use super::replicated::journalled;
use crate::support::clock::wait_until;
use crate::support::{Between, Redis, Upstream};

const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";

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

fn is_not_paid_again(durability: &str) {
    let (upstream, old, new) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let follows = |replica: &Redis, primary: &Redis| {
        replica.ask(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    };
    follows(&new, &old);
    // Each side has a replica of its own, and `redis.replicas` is 1.
    let (of_old, of_new) = (Redis::start_kept(), Redis::start_kept());
    follows(&of_old, &old);
    let setup = |upstream: &Upstream, url: &str, node: &str| {
        console(setup(upstream, url, node).set("redis", "durability", durability))
    };
    let (former, promoted) = (Between::to(old.port()), Between::to(old.port()));
    let left = setup(&upstream, &former.url(), "left").start().ready();
    let follower = setup(&upstream, &former.url(), "follower").start().ready();
    let right = setup(&upstream, &promoted.url(), "right").start().ready();
    let mut before = vec![paid(&left), paid(&right)];
    wait_until("all to be journalled", || journalled(&follower) == 2);
    let in_step = || new.ask(&["INFO", "replication"]).concat().contains("master_link_status:up");
    wait_until("the replica to follow", in_step);
    let commits = |redis: &Redis| redis.ask(&["HGET", "sluice:{production}", "last"]);
    wait_until("the replica to have all", || commits(&old) == commits(&new));

    new.ask(&["REPLICAOF", "NO", "ONE"]);
    follows(&of_new, &new);
    promoted.lead(new.port());
    let lost = swap();
    assert_eq!(told(&lost.send(left.production())), EXECUTED);
    wait_until("the follower to have it", || journalled(&follower) == 3);
    drop(left.kill());
    before.extend((0..3).map(|_| paid(&right)));
    former.lead(new.port());
    let sent = upstream.seen().len();
    wait_until("money to be closed", || told(&lost.send(follower.production())).starts_with("503 FROZEN"));
    for gate in [&follower, &right] {
        wait_until("the payment to be known", || told(&lost.send(gate.production())) == AGAIN);
        assert_eq!(told(&swap().send(gate.production())), FROZEN);
        before.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), AGAIN));
    }
    assert!(says(&follower, "two Redis were used"), "{:#?}", follower.log.all());
    assert_eq!(upstream.seen().len(), sent);

    assert_eq!(lift(&right, json!("restored")).json()["changed"], true);
    let after = [paid(&follower), paid(&right)];
    // The follower's journal goes on, and a later start finds nothing new.
    let follower = follower.end().start().ready();
    for call in before.iter().chain(&after).chain([&lost]) {
        assert_eq!(told(&call.send(follower.production())), AGAIN);
    }
    assert_eq!(upstream.seen().len(), sent + 2);
}
