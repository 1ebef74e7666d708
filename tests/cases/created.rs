//! The store of production: people create it once, and a gate never makes an empty one in the place of a lost one.

use std::fs;
use std::process::Output;

use super::claims::{swap, told};
use super::nodes::{CLOSED, read, setup};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Gate, Redis, Setup, Upstream};

const EXECUTED: &str = "200 - executed";

fn create(setup: &Setup) -> Output {
    sluice(&["store", "create", "--config", setup.write().to_str().unwrap()]).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Creates the store, and returns its installation.
fn created(setup: &Setup) -> String {
    let output = create(setup);
    assert!(output.status.success(), "{}", said(&output));
    let said = said(&output);
    let id = said.lines().find_map(|line| line.strip_prefix("installation = \"")?.strip_suffix('"'));
    id.unwrap_or_else(|| panic!("no id: {said}")).to_owned()
}

/// Why a gate ends before it serves.
fn does_not_start(setup: Setup) -> (String, Setup) {
    let gate = Gate::spawn(setup);
    assert!(!gate.wait_end().success());
    (gate.stderr(), gate.end())
}

#[test]
fn an_embedded_store_of_production_is_created_once_and_by_people() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).uncreated();
    let (why, setup) = does_not_start(setup);
    assert!(why.contains("`sluice store create`"), "{why}");
    let id = created(&setup);
    assert_eq!(created(&setup), id, "to repeat it changes nothing");
    let gate = setup.start();
    let paid = swap();
    assert_eq!(told(&paid.send(gate.production())), EXECUTED);
    let setup = gate.end();
    assert_eq!(created(&setup), id);

    // The journal is the record of a lost store: it is built from it, and not created.
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();
    let refused = create(&setup);
    assert!(!refused.status.success() && said(&refused).contains("has entries of production"), "{}", said(&refused));
    let gate = setup.start();
    assert_eq!(told(&paid.send(gate.production())), "200 - executed again");
    let setup = gate.end();
    assert_eq!(created(&setup), id, "it is the same installation");

    // With both lost, nobody knows what was paid.
    for lost in ["sluice-data", "sluice-audit"] {
        fs::remove_dir_all(setup.path(lost)).unwrap();
    }
    let (why, _) = does_not_start(setup);
    assert!(why.contains("nobody created it"), "{why}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn an_embedded_store_of_another_installation_is_not_used() {
    let upstream = Upstream::start();
    let [gate, other] = [(), ()].map(|()| Setup::of(&upstream).start());
    let (setup, other) = (gate.end(), other.end());
    let file = "sluice-data/store.redb";
    fs::copy(other.path(file), setup.path(file)).unwrap();
    let (why, setup) = does_not_start(setup);
    assert!(why.contains("belongs to installation"), "{why}");
    let setup = other.set("store", "installation", &created(&setup).replace(|_: char| true, "0"));
    let (why, _) = does_not_start(setup);
    assert!(why.contains("belongs to installation"), "{why}");
}

#[test]
fn the_sandbox_needs_no_creation() {
    let upstream = Upstream::start();
    let gate = Setup::new().sandbox(&upstream).uncreated().start();
    assert_eq!(told(&swap().send(gate.sandbox())), EXECUTED);
}

#[test]
fn a_gate_before_an_empty_redis_serves_reads_until_the_store_is_created() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = setup(&upstream, &redis.url(), "left").uncreated().start();
    let call = swap();
    assert_eq!(told(&call.send(left.production())), CLOSED);
    assert_eq!(read(&left).status, 200);
    wait_until("the reason to be told", || left.probe("/readyz/money").text().contains("`sluice store create`"));
    let config = left.path("sluice.toml");
    let doctor = || said(&sluice(&["doctor", "--config", config.to_str().unwrap()]).output().unwrap());
    assert!(doctor().contains("nobody created it"), "{}", doctor());

    let of_people = setup(&upstream, &redis.url(), "people");
    let id = created(&of_people);
    wait_until("money to move", || told(&call.send(left.production())).starts_with(EXECUTED));
    let right = setup(&upstream, &redis.url(), "right").uncreated().set("store", "installation", &id).start();
    wait_until("money to move", || told(&call.send(right.production())) == "200 - executed again");

    // With the Redis and all journals lost, nobody knows what was paid.
    drop((left.end(), right.end()));
    redis.ask(&["FLUSHALL"]);
    let new = setup(&upstream, &redis.url(), "left").uncreated().set("store", "installation", &id).start();
    for _ in 0..3 {
        assert_eq!(told(&call.send(new.production())), CLOSED);
    }
    assert_eq!(read(&new).status, 200);
}

#[test]
fn a_gate_does_not_use_the_redis_of_another_installation() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let other = setup(&upstream, &redis.url(), "left").set("store", "installation", "one-installation").start();
    assert_eq!(told(&swap().send(other.production())), EXECUTED);
    let setup = setup(&upstream, &redis.url(), "right").set("store", "installation", "another-installation");
    let refused = create(&setup);
    assert!(said(&refused).contains("belongs to installation `one-installation`"), "{}", said(&refused));
    let (why, _) = does_not_start(setup);
    assert!(why.contains("another store"), "{why}");
}
