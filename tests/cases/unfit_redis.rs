//! A Redis that answers and is not used: the log, the probe of money and the doctor say why, and what to do.

use super::claims::{swap, told};
use super::doctor::{findings, json as doctor};
use super::nodes::{EXECUTED, await_log, setup};
use super::sentinels::setup as behind_sentinels;
use crate::support::clock::wait_until;
use crate::support::sentinels::Sentinels;
use crate::support::{Gate, Redis, Setup, Upstream};

/// A user who may do all that a gate needs.
const RIGHTS: [&str; 4] = ["on", ">secret", "~*", "+@all"];

fn as_user(upstream: &Upstream, redis: &Redis, node: &str) -> Setup {
    setup(upstream, &redis.url().replace("://", "://sluice:secret@"), node)
}

fn user(redis: &Redis, rules: &[&str]) {
    redis.ask(&[["ACL", "SETUSER", "sluice"].as_slice(), rules].concat());
}

fn pays(gate: &Gate) -> bool {
    told(&swap().send(gate.production())) == EXECUTED
}

/// The log, the probe and the doctor say it.
fn is_named(gate: &Gate, asks: &Setup, level: &str, words: &str) {
    wait_until("the probe to say why", || {
        pays(gate);
        gate.probe("/readyz/money").text().contains(words)
    });
    let is_it = |line: &serde_json::Value| line["level"] == level && line.to_string().contains(words);
    assert!(gate.log.all().iter().any(is_it), "{}", gate.stderr());
    let (_, report) = doctor(asks);
    let found = findings(&report);
    assert!(found.contains(words) && !found.contains("check its process"), "{report}");
}

/// It is named, and the gate pays again by itself after it is mended.
fn is_told(gate: &Gate, asks: &Setup, level: &str, words: &str, mend: impl FnOnce()) {
    is_named(gate, asks, level, words);
    mend();
    wait_until("money to move again", || pays(gate));
}

#[test]
fn a_redis_that_refuses_its_user_is_named_with_the_settings() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    user(&redis, &RIGHTS);
    let (gate, asks) = (as_user(&upstream, &redis, "left").start().ready(), as_user(&upstream, &redis, "asks"));
    let words = "the Redis refuses the user or the password: compare those of `redis.url`";
    let cut = || drop(redis.ask(&["CLIENT", "KILL", "USER", "sluice"]));
    user(&redis, &["resetpass", ">other"]);
    cut();
    is_told(&gate, &asks, "ERROR", words, || user(&redis, &["resetpass", ">secret"]));
    user(&redis, &["off"]);
    cut();
    is_told(&gate, &asks, "ERROR", words, || user(&redis, &["on"]));
}

/// They answer, and name nobody: neither the network nor their processes are to blame.
#[test]
fn sentinels_that_refuse_the_password_are_named_with_the_settings() {
    let (upstream, sentinels) = (Upstream::start(), Sentinels::start(1));
    let accept = |password: &str| (0..3).for_each(|at| sentinels.accept(at, password));
    let with = |node: &str| behind_sentinels(&upstream, &sentinels, node).set("redis", "sentinel_password", "secret");
    accept("other");
    let (gate, asks) = (with("left").start(), with("asks"));
    let words =
        "the Sentinels refuse the user or the password: compare `redis.sentinel_user` and `redis.sentinel_password`";
    is_named(&gate, &asks, "ERROR", words);
    accept("secret");
    // These Sentinels have no password for each other, so that no majority lets money move.
    await_log(&gate, "the Redis is connected");
}

#[test]
fn a_redis_without_a_free_place_is_told_from_one_that_is_away() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    user(&redis, &RIGHTS);
    let (gate, asks) = (as_user(&upstream, &redis, "left").start().ready(), as_user(&upstream, &redis, "asks"));
    let own = std::net::TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    let mut own = Line(own);
    own.says("CONFIG SET maxclients 1");
    own.says("CLIENT KILL USER sluice");
    is_told(&gate, &asks, "WARN", "it has reached its `maxclients`", || own.says("CONFIG SET maxclients 1000"));
}

/// Its words come before those of the whole store: the probe says what to change.
#[test]
fn a_redis_that_keeps_nothing_and_rights_that_are_taken_are_told_by_the_probe() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    user(&redis, &RIGHTS);
    let (gate, asks) = (as_user(&upstream, &redis, "left").start().ready(), as_user(&upstream, &redis, "asks"));
    let setting = |value: &str| drop(redis.ask(&["CONFIG", "SET", "appendonly", value]));
    setting("no");
    redis.ask(&["CLIENT", "KILL", "USER", "sluice"]);
    is_told(&gate, &asks, "ERROR", "the Redis keeps nothing on disk", || setting("yes"));
    // A right that a script lacks in its midst has an error of its own.
    user(&redis, &["-time"]);
    let words = "lacks permissions that a store needs: TIME; use those of `deploy/redis.acl`";
    is_told(&gate, &asks, "ERROR", words, || user(&redis, &["+time"]));
}

/// One connection that stays open.
struct Line(std::net::TcpStream);

impl Line {
    fn says(&mut self, words: &str) {
        use std::io::{BufRead as _, BufReader, Write as _};
        self.0.write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&self.0).read_line(&mut answer).unwrap();
        assert!(!answer.starts_with('-'), "{words}: {answer}");
    }
}
