//! The store in a Redis: what is special of it.

use std::sync::Arc;
use std::time::Duration;

use sluice::adapters::redis::{NotReady, Redis as Connection};
use sluice::adapters::store::redis::RedisStore;
use sluice::base::secret::Secret;
use sluice::config::{Demands, Durability, RedisConfig, RedisPlace, TrustedTraits};
use sluice::ledger::{Commit, CommitError, Index, Number, Receipt, Step, StoreFault};
use sluice::ports::Store;
use sluice::telemetry::Metrics;

use super::asked::*;
use crate::support::clock::{PATIENCE, Watch};
use crate::support::scripted::{DIGEST, Scripted};
use crate::support::{Between, Redis};

/// On a busy machine all takes its time.
pub(super) const LONG: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(500);

pub(super) fn config(url: &str, timeout: Duration) -> RedisConfig {
    let place = RedisPlace::Url(Secret::new(url.to_owned()));
    RedisConfig { place, ca_pem: None, timeout, nodes: 2, fence: None, demands: None }
}

pub(super) fn demanding(url: &str, durability: Durability) -> RedisConfig {
    RedisConfig {
        demands: Some(Demands { durability, allow_unsafe: true, trusted: TrustedTraits::default() }),
        ..config(url, SHORT)
    }
}

pub(super) fn begin(config: &RedisConfig) -> Arc<Connection> {
    let connection = Arc::new(Connection::new(config, Metrics::new().unwrap()).unwrap());
    tokio::spawn(connection.clone().keep_connected());
    connection
}

pub async fn connected(url: &str) -> Arc<Connection> {
    let connection = begin(&config(url, LONG));
    connection.ready_within(PATIENCE).await.unwrap();
    connection
}

async fn opened(config: &RedisConfig) -> RedisStore {
    let connection = begin(config);
    connection.ready_within(PATIENCE).await.unwrap();
    RedisStore::new(connection)
}

pub(super) async fn tries(store: &RedisStore, name: &str) -> Result<Receipt, CommitError> {
    store.commit(commit(vec![create(name, "one"), add(Index::Sending, name, secs(30))])).await
}

/// As soon as the store answers again.
async fn answers_again(store: &RedisStore) {
    let watch = Watch::start();
    while store.time().await.is_err() {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for the store");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As soon as calls fail at once.
async fn is_given_up(store: &RedisStore) {
    let patience = Watch::start();
    loop {
        let watch = Watch::start();
        if store.time().await.is_err() && watch.elapsed() < SHORT / 2 {
            return;
        }
        assert!(patience.elapsed() < PATIENCE, "waited in vain for the store to be given up");
    }
}

pub(super) fn in_doubt<T: std::fmt::Debug>(outcome: Result<T, CommitError>) {
    assert!(matches!(outcome, Err(CommitError::Fault(StoreFault::InDoubt(_)))), "{outcome:?}");
}

fn away<T: std::fmt::Debug>(outcome: Result<T, CommitError>) {
    assert!(matches!(outcome, Err(CommitError::Fault(StoreFault::Away(_)))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_in_doubt_and_the_store_tells_the_truth() {
    let redis = Redis::start();
    let between = Between::to(redis.port());
    let store = opened(&config(&between.url(), SHORT)).await;
    let first = tries(&store, "before").await.unwrap();
    between.swallow(true);
    in_doubt(tries(&store, "lost").await);
    assert!(between.swallowed() > 0, "it was not even answered");
    // After several late answers it is known to be away: nothing is sent, nobody waits.
    is_given_up(&store).await;
    let watch = Watch::start();
    away(tries(&store, "after").await);
    assert!(matches!(store.read(&claim("lost")).await, Err(StoreFault::Away(_))));
    assert!(watch.elapsed() < SHORT);
    between.swallow(false);
    answers_again(&store).await;
    let found = store.read(&claim("lost")).await.unwrap().0.unwrap();
    assert_eq!(found.version.as_u64(), first.number().as_u64() + 1);
    assert_eq!(store.read(&claim("after")).await.unwrap().0, None);
    assert_eq!(outbox(&store).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_frozen_redis_finds_when_it_thaws_does_nothing() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), SHORT)).await;
    tries(&store, "before").await.unwrap();
    redis.freeze();
    let watch = Watch::start();
    in_doubt(tries(&store, "frozen").await);
    assert!(watch.elapsed() < SHORT * 2, "{:?}", watch.elapsed());
    redis.thaw();
    answers_again(&store).await;
    assert_eq!(store.read(&claim("frozen")).await.unwrap().0, None);
    assert_eq!(tries(&store, "after").await.unwrap().number().as_u64(), 2);
}

/// Over the shared connection, and over one that waits for replicas as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_late_answer_fails_its_own_call_alone() {
    let redis = Redis::start();
    for durability in [Durability::Acknowledged, Durability::Replicated { replicas: 0 }] {
        let between = Between::to(redis.port());
        let connection = begin(&demanding(&between.url(), durability));
        connection.ready_within(PATIENCE).await.unwrap();
        let mut connections = connection.connections();
        connections.mark_unchanged();
        let store = RedisStore::new(connection);
        let name = |name: &str| format!("{name}-{durability:?}");
        tries(&store, &name("before")).await.unwrap();
        between.hold(true);
        in_doubt(tries(&store, &name("late")).await);
        assert!(between.held() > 0, "it was not even answered");
        let (time, ()) = tokio::join!(store.time(), async { between.hold(false) });
        time.unwrap();
        tries(&store, &name("after")).await.unwrap();
        assert!(!connections.has_changed().unwrap(), "the connection was given up");
        assert_eq!(value(&store, &name("late")).await.unwrap(), "one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_killed_redis() {
    let mut redis = Redis::start_kept();
    let store = opened(&config(&redis.url(), SHORT)).await;
    let mut numbers = Vec::new();
    for round in 0..5 {
        for at in 0..20 {
            numbers.push(tries(&store, &format!("{round}-{at}")).await.unwrap().number().as_u64());
        }
        redis.go();
        let missed = tries(&store, &format!("missed-{round}")).await;
        assert!(matches!(missed, Err(CommitError::Fault(StoreFault::Away(_) | StoreFault::InDoubt(_)))), "{missed:?}");
        away(tries(&store, "missed").await);
        redis.come();
        let watch = Watch::start();
        answers_again(&store).await;
        assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    }
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    for round in 0..5 {
        assert_eq!(value(&store, &format!("{round}-19")).await.unwrap(), "one");
        assert_eq!(value(&store, &format!("missed-{round}")).await, None);
    }
    assert_eq!(store.due(ENVIRONMENT, Index::Sending, None, 999).await.unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_time_is_the_clock_of_the_redis_and_no_node_runs_back() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), LONG)).await;
    let clock = || {
        let told: Vec<i64> = redis.ask(&["TIME"]).iter().map(|part| part.parse().unwrap()).collect();
        at(told[0] * 1_000_000 + told[1])
    };
    let before = clock();
    let committed = tries(&store, "a").await.unwrap().at();
    let after = clock();
    assert!(before <= committed && committed <= after, "{before:?} {committed:?} {after:?}");

    // The clock was ahead once, and another node heard of it.
    let ahead = after.plus(secs(3600));
    redis.set_head("sluice:{production}", "time", ahead.as_micros());
    assert_eq!(store.time().await.unwrap(), ahead);
    assert_eq!(tries(&store, "b").await.unwrap().at(), ahead, "what was told in one environment holds in the other");
    let other = opened(&config(&redis.url(), LONG)).await;
    assert_eq!(other.read(&claim("b")).await.unwrap().1, ahead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_one_round_trip() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), LONG)).await;
    tries(&store, "a").await.unwrap();
    let calls = || {
        let statistics = redis.ask(&["INFO", "commandstats"]).concat();
        let calls = |command: &str| -> u64 {
            let line = statistics.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
        };
        // Within a script, commands count as calls as well.
        calls("evalsha") + calls("eval")
    };
    let before = calls();
    tries(&store, "b").await.unwrap();
    store.read(&claim("b")).await.unwrap();
    used(&store, rolling(secs(60), 2)).await;
    outbox(&store).await;
    assert_eq!(calls() - before, 4);
    store.due(ENVIRONMENT, Index::Sending, None, 9).await.unwrap();
    assert_eq!(calls() - before, 4);
    // One for each environment, side by side.
    store.time().await.unwrap();
    assert_eq!(calls() - before, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_takes_nothing_and_still_tells() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), LONG)).await;
    tries(&store, "a").await.unwrap();
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    away(tries(&store, "b").await);
    assert_eq!(value(&store, "a").await.unwrap(), "one");
    store.time().await.unwrap();
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(tries(&store, "b").await.unwrap().number().as_u64(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_format_and_what_is_no_store_are_refused() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), LONG)).await;
    tries(&store, "a").await.unwrap();
    redis.ask(&["SET", "sluice:{sandbox}:r:claim:a", "1 1 nonsense  wone"]);
    let broken = store.read(&claim("a")).await;
    assert!(matches!(broken, Err(StoreFault::Broken(_))), "{broken:?}");
    let refused = tries(&store, "a").await;
    assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Broken(_)))), "{refused:?}");
    for (format, remedy) in [(9, "a later version of Sluice wrote it"), (7, "an earlier version of Sluice wrote it")] {
        redis.set_head("sluice:{sandbox}", "format", format);
        for refused in [tries(&store, "b").await.map(drop), store.time().await.map(drop).map_err(CommitError::Fault)] {
            let Err(CommitError::Fault(StoreFault::Broken(why))) = refused else { panic!("{refused:?}") };
            assert!(why.contains(&format!("format {format}")) && why.contains(remedy), "{why}");
        }
    }
}

/// The rules that are written for people.
fn minimal_user() -> String {
    let rules = include_str!("../../../deploy/redis.acl").lines().find_map(|line| line.strip_prefix("user sluice "));
    format!("ACL SETUSER sluice {}", rules.unwrap().replace("PASSWORD", "secret"))
}

/// Also those of which only a rebuild, an import or a repair makes use.
#[test]
fn a_minimal_user_may_use_each_command_of_the_script() {
    let rules = minimal_user();
    let script = include_str!("../../../src/adapters/store/redis/script.lua");
    let calls = ["call('", "alter('", "write('"].into_iter().flat_map(|call| script.split(call).skip(1));
    let words = calls.map(|rest| rest.split('\'').next().unwrap()).filter(|word| word.to_uppercase() == *word);
    let lacks = |word: &&str| !rules.split_whitespace().any(|rule| rule == format!("+{}", word.to_lowercase()));
    assert_eq!(words.filter(lacks).collect::<Vec<_>>(), [""; 0]);
}

/// A text that cannot be packed into less than three quarters.
fn noise(length: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 1_u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..length).map(letter).collect()
}

/// Entries for a gate that does not run leave the outbox, the oldest first, once they are too large together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_has_bounded_bytes() {
    let redis = Redis::start();
    let store = opened(&config(&redis.url(), LONG)).await;
    let dead = format!("sluice:{{{ENVIRONMENT}}}:n");
    redis.ask(&["HSET", &dead, "dead", "instance 1 run  {}"]);
    let entry = bytes(&format!("{{\"at\":\"{}\"}}", noise(1 << 20)));
    for at in 1..=95 {
        store.commit(Commit { entry: entry.clone(), ..commit(vec![]) }).await.unwrap();
        store.kept(ENVIRONMENT, &journal(), Number::new(at)).await.unwrap();
    }
    let first = store.outbox(ENVIRONMENT, Number::new(0), 1).await.unwrap().remove(0).number.as_u64();
    // Up to 16 entries leave together.
    assert!((8..=32).contains(&first), "{first}");
    redis.ask(&["HDEL", &dead, "dead"]);
    store.kept(ENVIRONMENT, &journal(), Number::new(95)).await.unwrap();
    assert_eq!(outbox(&store).await, []);
    let root = format!("sluice:{{{ENVIRONMENT}}}");
    let (put, taken) = (redis.head(&root, "put"), redis.ask(&["HGET", &root, "taken"]).concat());
    assert!(put.to_string() == taken && taken.len() == 8, "{put} {taken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minimal_user_is_enough() {
    let redis = Redis::start();
    let rules = minimal_user();
    assert_eq!(redis.ask(&rules.split_whitespace().collect::<Vec<_>>()), ["OK"]);
    let url = format!("redis://sluice:secret@127.0.0.1:{}", redis.port());
    let store = opened(&demanding(&url, Durability::Acknowledged)).await;
    tries(&store, "a").await.unwrap();
    let span = rolling(secs(60), 2);
    does(&store, vec![reserve(span, "h", 1, 9), create_for("b", micros(1), micros(1))]).await;
    does(&store, vec![give_back("h")]).await;
    assert_eq!(used(&store, span).await, 0);
    store.kept(ENVIRONMENT, &journal(), Number::new(9)).await.unwrap();
    assert_eq!(outbox(&store).await, []);
    assert_eq!(store.sweep().await.unwrap(), 1);
    assert_eq!(store.due(ENVIRONMENT, Index::Sending, None, 9).await.unwrap().len(), 1);
}

/// Each command that it lacks is named before anything is asked; and one that it loses later does no half of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_do_less_is_refused_and_leaves_nothing_half_done() {
    let redis = Redis::start_with(&["--enable-debug-command", "yes"]);
    let rules = minimal_user();
    let rules: Vec<&str> = rules.split_whitespace().collect();
    let url = format!("redis://sluice:secret@127.0.0.1:{}", redis.port());
    let demanded = demanding(&url, Durability::Replicated { replicas: 1 });
    let commands = rules.iter().filter_map(|rule| rule.strip_prefix('+'));
    for command in commands.clone().filter(|command| !["select", "cluster|nodes"].contains(command)) {
        redis.ask(&["ACL", "DELUSER", "sluice"]);
        redis.ask(&rules);
        redis.ask(&["ACL", "SETUSER", "sluice", &format!("-{command}")]);
        let refused = begin(&demanded).ready_within(PATIENCE).await.unwrap_err().to_string().to_lowercase();
        assert!(refused.contains(command), "{command}: {refused}");
    }
    redis.ask(&rules);
    redis.ask(&["ACL", "SETUSER", "sluice", "resetkeys", "~sluice:*"]);
    let refused = begin(&demanded).ready_within(PATIENCE).await.unwrap_err().to_string();
    assert!(refused.contains("GET {rates}:x"), "{refused}");

    redis.ask(&rules);
    let store = opened(&demanding(&url, Durability::Acknowledged)).await;
    let entry = tries(&store, "a").await.unwrap().number();
    let span = rolling(secs(60), 2);
    for command in ["zadd", "zrem", "mset", "zremrangebyscore"] {
        let before = redis.ask(&["DEBUG", "DIGEST"]);
        assert_eq!(before.concat().len(), 40, "{before:?}");
        redis.ask(&["ACL", "SETUSER", "sluice", &format!("-{command}")]);
        let steps = vec![
            create_for("b", secs(1), secs(1)),
            reserve(span, "h", 1, 9),
            add(Index::Sending, "b", secs(30)),
            Step::IndexRemove { index: Index::Sending, member: "a".to_owned() },
        ];
        match command {
            "zremrangebyscore" => away(store.kept(ENVIRONMENT, &journal(), entry).await.map_err(CommitError::Fault)),
            _ => away(store.commit(commit(steps)).await),
        }
        assert_eq!(redis.ask(&["DEBUG", "DIGEST"]), before, "{command}");
        redis.ask(&["ACL", "SETUSER", "sluice", &format!("+{command}")]);
        answers_again(&store).await;
    }
    tries(&store, "b").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replicated_write_is_on_its_replicas_or_in_doubt() {
    let primary = Redis::start();
    let port = primary.port().to_string();
    let replica = Redis::start_with(&["--replicaof", &format!("127.0.0.1 {port}"), "--repl-diskless-sync-delay", "0"]);
    let is_linked = || primary.ask(&["INFO", "replication"]).concat().contains("state=online");
    crate::support::clock::wait_until("the replica", is_linked);
    let replicas = 1;
    let store = opened(&demanding(&primary.url(), Durability::Replicated { replicas })).await;
    let first = replicated(&store, "a").await;
    // Behind the head of the record, which is no text.
    let content = replica.ask(&["GETRANGE", &format!("sluice:{{sandbox}}:r:claim:{first}"), "33", "-1"]).concat();
    assert_eq!(content, "one");
    // A replica is no store.
    let unfit = begin(&demanding(&replica.url(), Durability::Acknowledged)).ready_within(PATIENCE).await;
    assert!(matches!(unfit, Err(NotReady::Unfit(_))), "{unfit:?}");
    replica.freeze();
    in_doubt(tries(&store, "b").await);
    // What is refused needs no replica.
    assert_eq!(stands(&store, vec![create(&first, "two")]).await.len(), 1);
    replica.thaw();
    assert_eq!(value(&store, "b").await.unwrap(), "one");
    replicated(&store, "c").await;
}

/// The name of the first write that its replica has in time: a replica on a busy machine may be late now and then.
async fn replicated(store: &RedisStore, name: &str) -> String {
    for attempt in 0..50 {
        let name = format!("{name}-{attempt}");
        match tries(store, &name).await {
            Ok(_) => return name,
            late => in_doubt(late),
        }
    }
    panic!("no write was on its replica in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_fsynced_or_in_doubt() {
    let real = Redis::start_kept();
    let refused = begin(&demanding(&real.url(), Durability::Fsynced)).ready_within(PATIENCE).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("7.2") && refused.contains("7.0"), "{refused}");

    let (server, at) = (Scripted::start(), 1_800_000_000_000_000_i64);
    server.says(
        "INFO",
        "redis_version:7.2.4\r\nrole:master\r\naof_enabled:1\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nrun_id:a\r\n\
         master_replid:b",
    );
    let allowed = ::redis::Script::new(include_str!("../../../src/adapters/redis/permissions.lua"));
    server.answers(&format!("EVALSHA {}", allowed.get_hash()), "*0\r\n");
    server.answers("EVALSHA", &format!("*4\r\n$4\r\ndone\r\n$1\r\n1\r\n$16\r\n{at}\r\n$40\r\n{DIGEST}\r\n"));
    server.answers("WAITAOF", "*2\r\n:1\r\n:0\r\n");
    let store = opened(&demanding(&server.url(), Durability::Fsynced)).await;
    assert_eq!(tries(&store, "a").await.unwrap().number().as_u64(), 1);
    for unsure in ["*2\r\n:0\r\n:0\r\n", "-ERR WAITAOF cannot be used\r\n", ":1\r\n"] {
        server.answers("WAITAOF", unsure);
        in_doubt(tries(&store, "a").await);
    }
    let asked = server.asked();
    let writes = asked.iter().filter(|words| words[0] == "EVALSHA" && words[1] != allowed.get_hash()).count();
    assert_eq!((writes, asked.iter().filter(|words| words.join(" ").starts_with("WAITAOF 1 0 ")).count()), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_together_in_records_and_in_the_outbox() {
    let redis = Redis::start();
    let (here, there) = (opened(&config(&redis.url(), LONG)).await, opened(&config(&redis.url(), LONG)).await);
    tries(&here, "a").await.unwrap();
    let refused = there.commit(commit(vec![create("a", "two")])).await;
    assert!(matches!(refused, Err(CommitError::Rejected { .. })), "{refused:?}");
    let other = sluice::ledger::NodeId::parse("node-2").unwrap();
    let number = there.commit(Commit { node: other.clone(), ..commit(vec![]) }).await.unwrap().number();
    assert_eq!(number.as_u64(), 2);
    for store in [&here, &there] {
        let of: Vec<_> = outbox(store).await.into_iter().map(|entry| entry.node).collect();
        assert_eq!(of, [node(), other.clone()]);
    }
}
