//! A Redis that others manage: it forbids `CONFIG` and does not report everything.

use super::claims::{assert_again, swap, told};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Between, Gate, Redis, Setup, Upstream};

const UNREPORTED: [&str; 5] = ["run_id", "master_replid", "maxmemory", "maxmemory_policy", "aof_enabled"];

fn on(upstream: &Upstream, url: &str, trusted: &str) -> Setup {
    let setup = Setup::of(upstream).set("store", "kind", "redis").set("store", "node", "left").set("redis", "url", url);
    if trusted.is_empty() { setup } else { setup.set_raw("redis", "trusted", trusted) }
}

fn assert_refused(setup: Setup, words: &[&str]) {
    let gate = Gate::spawn(setup);
    assert!(!gate.wait_end().success());
    let said = gate.stderr();
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
}

#[test]
fn what_a_managed_redis_does_not_report_is_trusted_by_name_alone() {
    let upstream = Upstream::start();
    let mut redis =
        Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always", "--rename-command", "CONFIG", ""]);
    let between = Between::hiding(redis.port(), &UNREPORTED);
    for (trusted, unreported, remedy) in [
        ("", "`maxmemory`", r#"redis.trusted = ["eviction"]"#),
        (r#"["eviction"]"#, "`aof_enabled`", r#"redis.trusted = ["persistence"]"#),
        (r#"["eviction", "persistence"]"#, "`run_id`", r#"redis.trusted = ["run"]"#),
    ] {
        assert_refused(on(&upstream, &between.url(), trusted), &["does not report", unreported, remedy]);
    }
    let setup = on(&upstream, &between.url(), r#"["eviction", "persistence", "run"]"#);
    let file = setup.write();
    let checked = sluice(&["check", "--config", file.to_str().unwrap()]).output().unwrap();
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    for word in ["keeps every write", "evicts no record", "loses nothing when it restarts"] {
        assert!(checked.contains(word), "{word}: {checked}");
    }
    let gate = setup.start().ready();
    let first = swap();
    let paid = first.send(gate.production());
    assert_eq!(told(&paid), "200 - executed");
    // It comes back with what it knew, and nobody can tell.
    redis.go();
    redis.come();
    wait_until("money to move", || told(&swap().send(gate.production())) == "200 - executed");
    assert_again(&paid, &first.send(gate.production()));
    let before = upstream.seen().len();
    assert_again(&paid, &first.send(gate.production()));
    assert_eq!(upstream.seen().len(), before);
}

#[test]
fn a_managed_redis_that_forgot_is_noticed_though_it_hides_its_run() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let between = Between::hiding(redis.port(), &["run_id", "master_replid"]);
    // It reports that it keeps nothing on disk: it may have a log of its own.
    assert_refused(
        on(&upstream, &between.url(), r#"["run"]"#),
        &["appendonly yes", r#"redis.trusted = ["persistence"]"#],
    );
    let gate = on(&upstream, &between.url(), r#"["run", "persistence"]"#).start().ready();
    let first = swap();
    let paid = first.send(gate.production());
    assert_eq!(told(&paid), "200 - executed");
    redis.go();
    redis.come();
    // The gate rebuilds it from its journal.
    wait_until("money to move", || told(&swap().send(gate.production())) == "200 - executed");
    let before = upstream.seen().len();
    let again = first.send(gate.production());
    assert!(again.status != 200 || again.header("sluice-replayed").is_some(), "{again}");
    assert_eq!(upstream.seen().len(), before);
}

#[test]
fn a_redis_that_reports_that_it_evicts_is_refused_whatever_is_trusted() {
    let upstream = Upstream::start();
    let evicts =
        Redis::start_with(&["--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let all = r#"["eviction", "persistence", "run"]"#;
    assert_refused(on(&upstream, &evicts.url(), all), &["allkeys-lru", "noeviction"]);
}
