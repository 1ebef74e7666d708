//! Export, import and backup of a store in a Redis.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::process::Output;

use bytes::Bytes;
use sluice::adapters::store::embedded::TransferError;
use sluice::adapters::store::redis::{RedisStore, export, import};
use sluice::adapters::store::sealed::Seals;
use sluice::base::ids::Environment;
use sluice::config::Durability;
use sluice::ledger::{Commit, Index, Keep, Kind, RecordKey, Step};
use sluice::ports::Store;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::asked::*;
use super::redis::{begin, demanding};
use super::transfer::{done, fill, open, refused, store, text};
use super::{BEGIN, Hand};
use crate::support::clock::PATIENCE;
use crate::support::{Redis, Setup};

/// Later than the machine's own clock, and exact in a Redis.
const LATER: i64 = BEGIN + 1_000_000_000_000_000;

/// A configuration whose store is this Redis.
fn configured(redis: &Redis) -> Setup {
    let setup = Setup::new().environment("production", "http://127.0.0.1:9");
    let setup = setup.set("store", "kind", "redis").set("store", "node", "node-7").set("redis", "url", &redis.url());
    setup.write();
    setup
}

fn at_redis(what: &str, setup: &Setup, arguments: &[&str]) -> Output {
    store(&[&[what, "--redis", "--config", text(&setup.path("sluice.toml"))], arguments].concat())
}

/// Something of everything in both environments, as an export.
async fn filled(home: &Path) -> String {
    let (clock, folder) = (Hand::at(LATER), home.join("old"));
    fill(&folder, &clock).await;
    let old = open(&folder, &clock);
    let key = |name: &str| RecordKey { environment: Environment::Production, kind: Kind::Hold, name: name.to_owned() };
    let keep = Keep::For { whole: secs(1), spent: secs(1_000) };
    let steps = vec![
        Step::Create { key: key("a:b"), value: Bytes::from(vec![0, 255, 10, 13, 34]), keep: Keep::Forever },
        Step::Create { key: key("spent"), value: bytes("gone soon"), keep },
        Step::Reserve {
            window: window("a:b", "c d:1"),
            span: rolling(secs(60), 10),
            holder: "h 9".into(),
            units: 3,
            max: 9,
        },
        Step::Force { window: window("fixed", ""), span: rolling(secs(60), 1), holder: "h".into(), units: 1 << 52 },
        add(Index::Paid, "payee\0", secs(5)),
        add(Index::Paid, "also at that time", secs(5)),
    ];
    old.commit(Commit { environment: Environment::Production, ..commit(steps) }).await.unwrap();
    clock.advance(secs(2));
    old.sweep().await.unwrap();
    drop(old);
    done(&store(&["export", "--folder", text(&folder)]))
}

/// The lines but those that each import adds: what closes money, and what a Redis knows of its nodes.
fn content(export: &str) -> BTreeSet<&str> {
    let is_content = |line: &&str| {
        let added =
            ["\"header\"", "\"end\"", "\"committed\"", "\"created\"", "\"name\":\"restored\"", "\"index\":\"frozen\""];
        !added.iter().any(|part| line.contains(part)) && !line.contains("\"node\":\"node-7\"")
    };
    export.lines().filter(is_content).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_item_moves_from_any_store_into_any_other() {
    let (home, redis, other) = (TempDir::new().unwrap(), Redis::start_kept(), Redis::start_kept());
    let first = filled(home.path()).await;
    let kinds = ["record", "member", "spent", "reserved", "outstanding", "kept"];
    for (environment, kind) in Environment::ALL.iter().flat_map(|one| kinds.map(|kind| (one, kind))) {
        let has = |line: &&str| {
            line.contains(&format!("\"{environment}\"")) && line.contains(&format!("\"item\":\"{kind}\""))
        };
        assert!(kind == "kept" || first.lines().any(|line| has(&line)), "no {kind} of {environment}");
    }
    let file = |name: &str| home.path().join(name);
    let (one, two, three) = (file("1"), file("2"), file("3"));
    fs::write(&one, &first).unwrap();

    let (here, there) = (configured(&redis), configured(&other));
    done(&at_redis("import", &here, &["--input", text(&one)]));
    let told = done(&at_redis("backup", &here, &["--to", text(&two)]));
    assert!(told.contains("lines and an end line, verified"), "{told}");
    let second = fs::read_to_string(&two).unwrap();
    assert_eq!(content(&second), content(&first));
    assert_eq!(second.matches("\"name\":\"restored\"").count(), 2, "money is closed in both environments");
    assert!(!second.contains("IBAN"), "sealed values stay sealed");
    let created = |export: &str| -> BTreeSet<String> {
        export.lines().filter(|line| line.contains("\"created\"")).map(str::to_owned).collect()
    };
    assert_eq!(created(&second).len(), 2, "the installation, in both environments");

    done(&at_redis("import", &there, &["--input", text(&two)]));
    let third = done(&at_redis("export", &there, &[]));
    assert_eq!(content(&third), content(&first));
    assert_eq!(created(&third), created(&second), "it stays the same installation");
    fs::write(&three, &third).unwrap();

    let folder = file("new");
    done(&store(&["import", "--folder", text(&folder), "--input", text(&three), "--node", "node-7"]));
    let fourth = done(&store(&["export", "--folder", text(&folder)]));
    assert_eq!(content(&fourth), content(&first));
    assert_eq!(created(&fourth), created(&second));
    // What holders hold can still be given back.
    let new = open(&folder, &Hand::at(LATER));
    does(&new, vec![give_back("h2")]).await;
    assert_eq!(used(&new, rolling(secs(60), 10)).await, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_cut_or_altered_leaves_the_redis_empty() {
    let (home, redis) = (TempDir::new().unwrap(), Redis::start_kept());
    let setup = configured(&redis);
    let whole = filled(home.path()).await;
    let file = home.path().join("export");
    let lines: Vec<&str> = whole.lines().collect();
    let wrong = [
        (String::new(), "this is no export of a store"),
        (whole[..whole.len() - 20].to_owned(), "line 2"),
        (lines[..lines.len() - 1].join("\n") + "\n", "was cut"),
        ([&lines[..3], &lines[4..]].concat().join("\n") + "\n", "was altered"),
        (whole.replace("\"units\":9", "\"units\":8"), "was altered"),
        (whole.replace("\"item\":\"member\"", "\"item\":\"number\""), "cannot be imported"),
        (whole.clone() + lines[1] + "\n", "stands behind the end line"),
    ];
    for (text_of_export, why) in wrong {
        fs::write(&file, &text_of_export).unwrap();
        let refused = refused(&at_redis("import", &setup, &["--input", text(&file)]));
        assert!(
            refused.contains(why) && refused.contains(text(&file)) && !refused.contains("IBAN"),
            "{why}: {refused}"
        );
        assert_eq!(redis.ask(&["DBSIZE"]), ["0"]);
    }
    fs::write(&file, &whole).unwrap();
    done(&at_redis("import", &setup, &["--input", text(&file)]));
}

fn connected(runtime: &Runtime, redis: &Redis) -> RedisStore {
    runtime.block_on(async {
        let connection = begin(&demanding(&redis.url(), Durability::Acknowledged));
        connection.ready_within(PATIENCE).await.unwrap();
        RedisStore::new(connection)
    })
}

/// Whatever happens while it is read, an export that is not one moment of the store has no end line.
/// A gate sends a heartbeat at the time of the store.
const BEATS: &str = "local root = 'sluice:{production}' local head = redis.call('GET', root .. ':a') \
    local now = string.format('%d', (struct.unpack('<d', head, 9))) \
    return redis.call('HSET', root .. ':n', 'node-8', 'i ' .. now .. ' r  {}')";

#[test]
fn a_store_that_changes_while_it_is_read_is_not_exported() {
    let (home, runtime) = (TempDir::new().unwrap(), Runtime::new().unwrap());
    let whole = runtime.block_on(filled(home.path()));
    let changes: [fn(&mut Redis); 4] = [
        |redis| redis.set_head("sluice:{sandbox}", "last", 99),
        |redis| drop(redis.ask(&["EVAL", BEATS, "0"])),
        |redis| redis.set_head("sluice:{production}", "lost", 1),
        |redis| {
            redis.go();
            redis.come();
        },
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let mut redis = Redis::start_kept();
        let store = connected(&runtime, &redis);
        let count = import(
            &store,
            runtime.handle(),
            &mut BufReader::new(whole.as_bytes()),
            (&node(), &Seals::default()),
            &mut |_| (),
        );
        assert!(count.unwrap() > 10);
        let mut out = Vec::new();
        let unchanged = export(&store, runtime.handle(), &mut out, &mut |_| ()).unwrap();
        assert!(String::from_utf8(out).unwrap().lines().last().unwrap().contains("\"end\""));
        let mut out = Vec::new();
        let exported = export(&store, runtime.handle(), &mut out, &mut |line| {
            // In the middle.
            if line == unchanged / 2 {
                change(&mut redis);
            }
        });
        let error = exported.unwrap_err();
        let is_told = match nth {
            0 => matches!(error, TransferError::Changed),
            1 => matches!(&error, TransferError::Running(gates) if gates == "`node-8`"),
            2 => matches!(error, TransferError::Lost(Environment::Production)),
            _ => matches!(error, TransferError::Changed | TransferError::Store(_)),
        };
        assert!(is_told, "{nth}: {error}");
        assert!(!String::from_utf8(out).unwrap().contains("\"item\":\"end\""), "{nth}");
    }
}

/// Earlier layouts had their head elsewhere.
#[test]
fn a_store_of_an_earlier_layout_is_refused_by_its_format() {
    let (runtime, redis) = (Runtime::new().unwrap(), Redis::start_kept());
    let store = connected(&runtime, &redis);
    redis.ask(&["HSET", "sluice:{production}", "format", "5"]);
    let refused = runtime.block_on(store.time()).unwrap_err().to_string();
    assert!(refused.contains("format 5; an earlier version of Sluice wrote it"), "{refused}");
}
