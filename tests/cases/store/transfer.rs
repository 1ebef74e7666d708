//! Export, import and backup, by the command line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use sluice::adapters::store::embedded::{Embedded, FILE, Options};
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, Content, Index, Keep, Kind, Number, RecordKey, Step};
use sluice::ports::Store;
use tempfile::TempDir;

use super::asked::*;
use super::{BEGIN, Hand, key};

/// Later than the machine's own clock, so that the times of these stores are those of [`Hand`].
const LATER: i64 = BEGIN + 10_000_000_000_000_000;

pub(super) fn store(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("store").args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub(super) fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(super) fn open(folder: &Path, clock: &Arc<Hand>) -> Embedded {
    Embedded::open(folder, clock.clone(), Options::default()).unwrap()
}

/// Something of everything.
pub(super) async fn fill(folder: &Path, clock: &Arc<Hand>) {
    let plain: Arc<dyn Store> = Arc::new(open(folder, clock));
    let sealed = Sealed::new(Arc::clone(&plain), Seals::new(vec![key("k1", 1)]));
    does(&*plain, vec![create("plain", "as it is"), create_for("short", secs(1), secs(100))]).await;
    does(&sealed, vec![create("sealed", "IBAN DE89"), add(Index::Sending, "sealed", secs(30))]).await;
    does(&*plain, vec![reserve(rolling(secs(60), 10), "h1", 7, 10), create_for("gone", secs(1), secs(0))]).await;
    does(&*plain, vec![force(rolling(secs(60), 10), "h2", 9)]).await;
    does(&*plain, vec![settle("h1"), create("ü\0\n\"", "{}")]).await;
    let elsewhere = Commit { environment: Environment::Production, ..commit(vec![add(Index::Unknown, "x", secs(9))]) };
    plain.commit(elsewhere).await.unwrap();
    plain.kept(ENVIRONMENT, &journal(), Number::new(2)).await.unwrap();
    clock.advance(secs(2));
    plain.sweep().await.unwrap();
}

/// Everything that can be seen but the freeze.
async fn seen(store: &dyn Store) -> String {
    let mut seen = Vec::new();
    for name in ["plain", "short", "sealed", "gone", "ü\0\n\"", "none"] {
        seen.push(format!("{:?}", store.read(&claim(name)).await.unwrap()));
    }
    for environment in Environment::ALL {
        for index in [Index::Sending, Index::Unknown] {
            seen.push(format!("{:?}", store.due(environment, index, None, 99).await.unwrap()));
        }
        let mut outbox = store.outbox(environment, Number::new(0), 99).await.unwrap();
        outbox.retain(|entry| entry.node == node());
        seen.push(format!("{outbox:?}"));
    }
    seen.push(used(store, rolling(secs(60), 10)).await.to_string());
    seen.join("\n")
}

async fn is_closed(store: &dyn Store) {
    for environment in Environment::ALL {
        let key = RecordKey { environment, kind: Kind::Freeze, name: "restored".to_owned() };
        let record = store.read(&key).await.unwrap().0.unwrap();
        let Content::Whole(value) = record.content else { panic!() };
        let value = Seals::default().open(&key, value).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&value).unwrap();
        assert_eq!(value["format"], 1);
        let members = store.due(environment, Index::Frozen, None, 9).await.unwrap();
        assert_eq!(members.iter().map(|(_, member)| member.as_str()).collect::<Vec<_>>(), ["restored"]);
    }
}

#[tokio::test]
async fn an_import_is_what_was_exported_and_closed_for_money() {
    let home = TempDir::new().unwrap();
    let (old, new, file) = (home.path().join("old"), home.path().join("new"), home.path().join("export"));
    let clock = Hand::at(LATER);
    fill(&old, &clock).await;
    assert!(done(&store(&["export", "--folder", text(&old), "--to", text(&file)])).contains("lines"));
    let exported = fs::read_to_string(&file).unwrap();
    assert_eq!(done(&store(&["export", "--folder", text(&old)])), exported);
    assert!(!exported.contains("IBAN"));
    assert!(exported.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    let again = store(&["export", "--folder", text(&old), "--to", text(&file)]);
    assert!(refused(&again).contains("cannot be written"));

    let told = done(&store(&["import", "--folder", text(&new), "--input", text(&file), "--node", "node-9"]));
    assert!(told.contains("Money is closed in every environment") && told.contains("sluice unfreeze"), "{told}");
    let before = seen(&open(&old, &clock)).await;
    let store_new: Arc<dyn Store> = Arc::new(open(&new, &clock));
    assert_eq!(seen(&*store_new).await, before);
    is_closed(&*store_new).await;
    let node = sluice::ledger::NodeId::parse("node-9").unwrap();
    let last = outbox(&*store_new).await.pop().unwrap();
    assert_eq!((last.number.as_u64(), last.node), (6, node));
    let sealed = Sealed::new(Arc::clone(&store_new), Seals::new(vec![key("k1", 1)]));
    assert_eq!(value(&sealed, "sealed").await.unwrap(), "IBAN DE89");
    // What holders hold can still be given back, and ages are what they were.
    does(&*store_new, vec![give_back("h2")]).await;
    assert_eq!(used(&*store_new, rolling(secs(60), 10)).await, 7);
    clock.advance(secs(100));
    assert_eq!(store_new.sweep().await.unwrap(), 1);
    drop((sealed, store_new));

    let full = store(&["import", "--folder", text(&new), "--input", text(&file)]);
    assert!(refused(&full).contains("empty folder"));
    // A store that was restored before is restored again.
    let third = home.path().join("third");
    let second_file = home.path().join("second");
    done(&store(&["export", "--folder", text(&new), "--to", text(&second_file)]));
    done(&store(&["import", "--folder", text(&third), "--input", text(&second_file)]));
    is_closed(&open(&third, &clock)).await;
}

#[tokio::test]
async fn a_cut_or_changed_export_is_refused_whole() {
    let home = TempDir::new().unwrap();
    let (old, file) = (home.path().join("old"), home.path().join("export"));
    fill(&old, &Hand::at(LATER)).await;
    let exported = done(&store(&["export", "--folder", text(&old)]));
    let lines: Vec<&str> = exported.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n") + "\n";
    let mut wrong = vec![
        String::new(),
        lines[..lines.len() - 1].join("\n"),
        exported[..exported.len() - 20].to_owned(),
        exported.replace("\"units\":9", "\"units\":8"),
        exported.replace("\"kind\":\"claim\"", "\"kind\":\"other\""),
        exported.replacen("\"export\":3", "\"export\":2", 1),
        exported.replacen("\"export\":3", "\"export\":4", 1),
        exported.replacen("\"format\":3", "\"format\":2", 1),
        exported.clone() + lines[1] + "\n",
        exported.clone() + "\n",
    ];
    wrong.extend((0..lines.len()).map(without));
    let new = home.path().join("new");
    for text_of_export in wrong {
        fs::write(&file, &text_of_export).unwrap();
        let output = store(&["import", "--folder", text(&new), "--input", text(&file)]);
        assert!(!refused(&output).contains("IBAN"), "{output:?}");
    }
    // After all that the store is still empty.
    fs::write(&file, &exported).unwrap();
    done(&store(&["import", "--folder", text(&new), "--input", text(&file)]));
}

#[test]
fn what_is_no_export_is_told_so() {
    let home = TempDir::new().unwrap();
    let (file, new) = (home.path().join("file"), home.path().join("new"));
    for content in [b"".as_slice(), b"\n", b"\0\xff\x12", b"redb\x1a\n\xa9\r\n", b"{}\n", b"{\"item\":\"end\"}\n"] {
        std::fs::write(&file, content).unwrap();
        let output = store(&["import", "--folder", text(&new), "--input", text(&file)]);
        let why = refused(&output);
        assert!(why.contains("this is no export of a store: name a file that `sluice store export`"), "{why}");
    }
}

#[tokio::test]
async fn a_backup_is_a_store_that_starts_closed() {
    let home = TempDir::new().unwrap();
    let (old, new) = (home.path().join("old"), home.path().join("new"));
    let clock = Hand::at(LATER);
    fill(&old, &clock).await;
    let before = seen(&open(&old, &clock)).await;
    fs::create_dir(&new).unwrap();
    let copy = new.join(FILE);
    let arguments = ["backup", "--folder", text(&old), "--to", text(&copy)];
    assert!(done(&store(&arguments)).contains("bytes"));
    assert!(refused(&store(&arguments)).contains("exists"));
    let restored = open(&new, &clock);
    assert_eq!(seen(&restored).await, before);
    is_closed(&restored).await;
    // The store itself is as it was.
    let old = open(&old, &clock);
    assert_eq!(old.due(ENVIRONMENT, Index::Frozen, None, 9).await.unwrap(), []);
    assert_eq!(does(&old, vec![]).await.number().as_u64(), 6);
}

#[tokio::test]
async fn a_store_in_use_and_one_that_is_not_there_are_told() {
    let home = TempDir::new().unwrap();
    let (used, none, file) = (home.path().join("used"), home.path().join("none"), home.path().join("file"));
    let _open = open(&used, &Hand::at(BEGIN));
    for what in ["export", "backup"] {
        let output = store(&[what, "--folder", text(&used), "--to", text(&file)]);
        assert!(refused(&output).contains("stop that process"), "{output:?}");
        let output = store(&[what, "--folder", text(&none), "--to", text(&file)]);
        assert!(refused(&output).contains("there is no store"), "{output:?}");
        assert!(!none.exists() && !file.exists());
    }
    std::fs::write(&file, "").unwrap();
    let output = store(&["import", "--folder", text(&used), "--input", text(&file)]);
    assert!(refused(&output).contains("stop that process"));
}

/// Beside the values of claims, a freeze that was there comes along.
#[tokio::test]
async fn a_freeze_of_before_stays() {
    let home = TempDir::new().unwrap();
    let (old, new, file) = (home.path().join("old"), home.path().join("new"), home.path().join("export"));
    let clock = Hand::at(LATER);
    let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Freeze, name: "all".to_owned() };
    let freeze = Step::Create { key: key.clone(), value: bytes("{}"), keep: Keep::Forever };
    does(&open(&old, &clock), vec![freeze, add(Index::Frozen, "all", secs(0))]).await;
    done(&store(&["export", "--folder", text(&old), "--to", text(&file)]));
    done(&store(&["import", "--folder", text(&new), "--input", text(&file)]));
    let new = open(&new, &clock);
    assert!(new.read(&key).await.unwrap().0.is_some());
    assert_eq!(new.due(ENVIRONMENT, Index::Frozen, None, 9).await.unwrap().len(), 2);
}
