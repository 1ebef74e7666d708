//! Any commits at all: every store tells and keeps the same.

use std::collections::BTreeSet;
use std::path::Path;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::*;
use sluice::adapters::store::embedded::{Embedded, Options, export, import};
use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::redis::RedisStore;
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, CommitError, Index, Keep, Kind, NodeId, Number, RecordKey, Step, WindowSpan};
use sluice::ports::{Clock, Store};
use tempfile::TempDir;

use super::asked::*;
use super::redis::connected;
use super::{BEGIN, Hand};
use crate::support::Redis;

#[derive(Clone, Debug)]
enum Act {
    Commit(Commit),
    /// The clock moves, back as well.
    Move(i64),
    Sweep,
    Drain(u64),
    Reopen,
}

const WINDOWS: [(&str, &str); 3] = [("a", "b"), ("", ""), ("ab", "")];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", ""]).prop_map(str::to_owned)
}

fn environment() -> impl Strategy<Value = Environment> {
    prop::sample::select(Environment::ALL.to_vec())
}

fn duration() -> impl Strategy<Value = std::time::Duration> {
    (0..40_u64).prop_map(micros)
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![Just(Keep::Forever), (duration(), duration()).prop_map(|(whole, spent)| Keep::For { whole, spent }),]
}

fn span() -> impl Strategy<Value = WindowSpan> {
    prop_oneof![
        (1..9_u64, 1..4_u32).prop_map(|(bucket, count)| rolling(micros(bucket), count)),
        (0..9_i64, 1..60_i64)
            .prop_map(|(from, length)| WindowSpan::Fixed { from: at(BEGIN + from), to: at(BEGIN + from + length) }),
    ]
}

fn step(environment: Environment) -> impl Strategy<Value = Step> {
    let key = move || {
        (name(), prop::sample::select(Kind::ALL.to_vec())).prop_map(move |(name, kind)| RecordKey {
            environment,
            kind,
            name,
        })
    };
    let version = || (1..12_u64).prop_map(Number::new);
    let value = || prop::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from);
    let index = || prop::sample::select(Index::ALL.to_vec());
    // Few, so that what is reserved is met again.
    let window = || prop::sample::select(WINDOWS.to_vec()).prop_map(|(limit, key)| self::window(limit, key));
    let time = || (0..60_i64).prop_map(|after| at(BEGIN + after));
    prop_oneof![
        1 => key().prop_map(Step::Absent),
        1 => (key(), version()).prop_map(|(key, version)| Step::Version { key, version }),
        1 => time().prop_map(Step::Before),
        1 => time().prop_map(Step::After),
        1 => (index(), name()).prop_map(|(index, member)| Step::Member { index, member }),
        1 => (index(), name()).prop_map(|(index, member)| Step::NotMember { index, member }),
        6 => (key(), value(), keep()).prop_map(|(key, value, keep)| Step::Create { key, value, keep }),
        4 => (key(), version(), value(), keep())
            .prop_map(|(key, version, value, keep)| Step::Replace { key, version, value, keep }),
        1 => (key(), version()).prop_map(|(key, version)| Step::Delete { key, version }),
        2 => (index(), name(), duration()).prop_map(|(index, member, due)| Step::IndexAdd { index, member, due }),
        1 => (index(), name(), time()).prop_map(|(index, member, at)| Step::Since { index, member, at }),
        1 => (index(), name(), time()).prop_map(|(index, member, at)| Step::NotSince { index, member, at }),
        2 => (index(), name(), duration()).prop_map(|(index, member, ago)| Step::IndexEarliest { index, member, ago }),
        1 => (index(), name()).prop_map(|(index, member)| Step::IndexRemove { index, member }),
        6 => (window(), span(), name(), 0..9_u64, 0..30_u64)
            .prop_map(|(window, span, holder, units, max)| Step::Reserve { window, span, holder, units, max }),
        2 => (window(), span(), name(), 0..9_u64)
            .prop_map(|(window, span, holder, units)| Step::Force { window, span, holder, units }),
        2 => (window(), span(), 0..9_u64, time())
            .prop_map(|(window, span, units, at)| Step::Book { window, span, units, at }),
        2 => (window(), span(), 0..9_u64, time())
            .prop_map(|(window, span, units, at)| Step::Unbook { window, span, units, at }),
        2 => (window(), name()).prop_map(|(window, holder)| Step::Settle { window, holder }),
        2 => (window(), name()).prop_map(|(window, holder)| Step::GiveBack { window, holder }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let commit = environment().prop_flat_map(|environment| {
        prop::collection::vec(step(environment), 0..4)
            .prop_map(move |steps| Act::Commit(Commit { environment, ..commit(steps) }))
    });
    prop_oneof![
        16 => commit,
        4 => (-3..12_i64).prop_map(Act::Move),
        1 => Just(Act::Sweep),
        1 => (1..20_u64).prop_map(Act::Drain),
        1 => Just(Act::Reopen),
    ]
}

async fn same(memory: &MemoryStore, other: &dyn Store) {
    assert_eq!(memory.time().await, other.time().await);
    for environment in Environment::ALL {
        for kind in Kind::ALL {
            for name in ["a", "b", "c", ""] {
                let key = RecordKey { environment, kind, name: name.to_owned() };
                assert_eq!(memory.read(&key).await, other.read(&key).await);
            }
        }
        for index in Index::ALL {
            for (until, count) in [(None, 9), (Some(at(BEGIN + 20)), 2)] {
                let due = other.due(environment, index, until, count).await;
                assert_eq!(memory.due(environment, index, until, count).await, due);
            }
        }
        for (limit, key) in WINDOWS {
            for span in [rolling(micros(3), 2), WindowSpan::Fixed { from: at(BEGIN), to: at(BEGIN + 30) }] {
                let used = other.used(environment, &window(limit, key), span).await;
                assert_eq!(memory.used(environment, &window(limit, key), span).await, used);
            }
        }
        let outbox = other.outbox(environment, Number::new(0), 999).await;
        assert_eq!(memory.outbox(environment, Number::new(0), 999).await, outbox);
    }
}

/// What passes while a store is closed is known by the time of day alone: so that is all that passes here.
#[derive(Debug)]
pub struct OfDay(pub Arc<Hand>);

impl Clock for OfDay {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

async fn run(acts: Vec<Act>) {
    let (clock, folder) = (Hand::at(BEGIN), TempDir::new().unwrap());
    let of_day = Arc::new(OfDay(clock.clone()));
    let memory = MemoryStore::new(of_day.clone());
    let open = || Embedded::open(folder.path(), of_day.clone(), Options::default()).unwrap();
    let mut embedded = open();
    let mut now = BEGIN;
    for act in acts {
        match act {
            Act::Commit(commit) => {
                assert_eq!(memory.commit(commit.clone()).await, embedded.commit(commit).await);
            }
            Act::Move(by) => {
                now += by;
                clock.set(now);
            }
            Act::Sweep => assert_eq!(memory.sweep().await, embedded.sweep().await),
            Act::Drain(number) => {
                let up_to = Number::new(number);
                memory.kept(Environment::Sandbox, &journal(), up_to).await.unwrap();
                embedded.kept(Environment::Sandbox, &journal(), up_to).await.unwrap();
            }
            Act::Reopen => {
                // What was told and not committed is forgotten with the process.
                let committed = commit(vec![]);
                assert_eq!(memory.commit(committed.clone()).await, embedded.commit(committed).await);
                drop(embedded);
                embedded = open();
            }
        }
    }
    same(&memory, &embedded).await;
    drop(embedded);
    moves(folder.path());
}

/// The same acts in a Redis. What it told it does not forget.
async fn run_there(acts: Vec<Act>) {
    let (clock, server) = (Hand::at(BEGIN), Redis::start());
    let memory = MemoryStore::new(Arc::new(OfDay(clock.clone())));
    let connection = connected(&server.url()).await;
    let open = || RedisStore::by_clock(connection.clone(), clock.clone());
    let mut there = open();
    // From here on neither goes back.
    assert_eq!(memory.time().await, there.time().await);
    let mut now = BEGIN;
    for act in acts {
        match act {
            Act::Commit(commit) => {
                let committed = memory.commit(commit.clone()).await;
                assert_eq!(committed, there.commit(commit).await);
                if let Err(CommitError::Fault(_)) = committed {
                    // What is senseless is not asked of a Redis, and tells no time there.
                    assert_eq!(memory.time().await, there.time().await);
                }
            }
            Act::Move(by) => {
                now += by;
                clock.set(now);
            }
            Act::Sweep => assert_eq!(memory.sweep().await, there.sweep().await),
            Act::Drain(number) => {
                let up_to = Number::new(number);
                memory.kept(Environment::Sandbox, &journal(), up_to).await.unwrap();
                there.kept(Environment::Sandbox, &journal(), up_to).await.unwrap();
            }
            Act::Reopen => {
                assert_eq!(memory.time().await, there.time().await);
                there = open();
            }
        }
    }
    same(&memory, &there).await;
    let left = server.ask(&["KEYS", "*"]);
    assert!(left.iter().all(|key| key.starts_with("sluice:{production}") || key.starts_with("sluice:{sandbox}")));
}

/// Exported and imported, it is the same but for the freezes.
fn moves(old: &Path) {
    let lines = |folder: &Path| {
        let mut out = Vec::new();
        export(folder, &mut out, &mut |_| ()).unwrap();
        out
    };
    let new = TempDir::new().unwrap();
    let exported = lines(old);
    let restorer = NodeId::parse("restorer").unwrap();
    import(new.path(), &mut exported.as_slice(), &restorer, at(BEGIN), &mut |_| ()).unwrap();
    let again = lines(new.path());
    // Without header and end.
    let items = |lines: &[u8]| {
        let lines: Vec<String> = String::from_utf8(lines.to_vec()).unwrap().lines().map(str::to_owned).collect();
        lines[1..lines.len() - 1].iter().cloned().collect::<BTreeSet<_>>()
    };
    let (old, new) = (items(&exported), items(&again));
    assert!(old.is_subset(&new), "{old:#?} {new:#?}");
    // Record, member and Entry in each environment.
    let more: Vec<&String> = new.difference(&old).collect();
    assert_eq!(more.len(), 6, "{more:#?}");
    assert!(more.iter().all(|line| line.contains("\"restored\"") || line.contains("\"restorer\"")), "{more:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_embedded_agree(acts in prop::collection::vec(act(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(acts));
    }

    #[test]
    fn memory_and_redis_agree(acts in prop::collection::vec(act(), 1..100)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run_there(acts));
    }
}

#[tokio::test]
async fn the_memory_store_counts_its_calls() {
    let memory = MemoryStore::new(Hand::at(BEGIN));
    does(&memory, vec![create("a", "one")]).await;
    assert_eq!(value(&memory, "a").await.unwrap(), "one");
    assert_eq!(memory.calls(), 2);
}
