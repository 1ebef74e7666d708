//! The embedded store and its file: kept over kills, locked, of a known format.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use sluice::adapters::clock::SystemClock;
use sluice::adapters::store::embedded::{self, Embedded, FILE, OpenError, Options};
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::ledger::{Index, Keep, Kind, RecordKey, Step};
use sluice::ports::{Clock, Store as _};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::asked::*;
use super::{BEGIN, Hand};

/// Names the folder to the process that is killed.
const FOLDER: &str = "SLUICE_TEST_STORE_FOLDER";

fn open(folder: &Path, clock: Arc<dyn Clock>) -> Embedded {
    Embedded::open(folder, clock, Options::default()).unwrap()
}

/// Started again as a process of its own by the tests below: commits without end, and says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Arc::new(open(Path::new(&folder), Arc::new(SystemClock)));
    let first = does(&*store, vec![]).await.number().as_u64();
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for at in 0.. {
                let name = format!("{first}-{who}-{at}");
                let steps = vec![create(&name, &"x".repeat(700)), add(Index::Sending, &name, secs(30))];
                let number = does(&*store, steps).await.number();
                println!("committed {number} {name}");
            }
        });
    }
    tasks.join_all().await;
}

fn committing(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["cases::store::embedded::commits_until_it_is_killed", "--exact", "--nocapture"]);
    command.env(FOLDER, folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[tokio::test]
async fn what_was_acknowledged_outlives_kill_9() {
    let folder = TempDir::new().unwrap();
    let mut acknowledged = BTreeMap::new();
    for round in 0..6 {
        let mut child = committing(folder.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.unwrap();
            let mut words = line.split(' ');
            if words.next() == Some("committed") {
                let number: u64 = words.next().unwrap().parse().unwrap();
                acknowledged.insert(number, words.next().unwrap().to_owned());
                seen += 1;
                // Not always at the same place; what it still says after that counts as well.
                if seen == 20 + round * 37 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(seen >= 20, "it ended by itself");
    }

    let store = open(folder.path(), Arc::new(SystemClock));
    for (number, name) in &acknowledged {
        let record = store.read(&claim(name)).await.unwrap().0.unwrap();
        assert_eq!(record.version.as_u64(), *number);
    }
    let last = does(&store, vec![]).await.number().as_u64();
    let outbox = outbox(&store).await;
    assert_eq!(outbox.iter().map(|entry| entry.number.as_u64()).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
    // Nothing is there by halves: as many members as claims, and every commit but those that only began a round.
    let members = store.due(ENVIRONMENT, Index::Sending, None, usize::MAX).await.unwrap();
    assert_eq!(members.len() as u64, last - 7);
    for (_, name) in members {
        assert!(store.read(&claim(&name)).await.unwrap().0.is_some());
    }
}

fn as_a_kill_leaves_it(folder: &Path) -> TempDir {
    let left = TempDir::new().unwrap();
    for file in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
    }
    left
}

#[tokio::test]
async fn what_the_journal_keeps_waits_for_no_disk_and_a_killed_store_says_that_it_may_lack_it() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path(), Arc::new(SystemClock));
    // The first one is on disk: it says that the store has been used.
    store.commit_for_journal(commit(vec![create("first", "one")])).await.unwrap();
    store.commit_for_journal(commit(vec![create("a", "one")])).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap(), "one");
    let left = as_a_kill_leaves_it(folder.path());
    let of_left = open(left.path(), Arc::new(SystemClock));
    assert_eq!((value(&of_left, "first").await.as_deref(), value(&of_left, "a").await), (Some("one"), None));
    drop(of_left);
    let refused = embedded::export(left.path(), &mut Vec::new(), &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("may be in its journal alone") && refused.contains("end it in order"), "{refused}");
    let copy = left.path().join("copy");
    let refused = embedded::backup(left.path(), &copy, &node(), at(BEGIN)).unwrap_err().to_string();
    assert!(refused.contains("may be in its journal alone") && !copy.exists(), "{refused}");

    drop(store);
    assert_eq!(value(&open(folder.path(), Arc::new(SystemClock)), "a").await.unwrap(), "one");
    let mut exported = Vec::new();
    embedded::export(folder.path(), &mut exported, &mut |_| {}).unwrap();
    assert!(String::from_utf8(exported).unwrap().contains("\"a\""));
}

#[tokio::test]
async fn what_no_journal_keeps_is_on_disk_when_it_is_confirmed() {
    let folder = TempDir::new().unwrap();
    let store = Sealed::new(Arc::new(open(folder.path(), Arc::new(SystemClock))), Seals::default());
    let key = |name: &str, kind| RecordKey { kind, ..claim(name) };
    let session = key("session", Kind::Session);
    let create = |key: &RecordKey| Step::Create { key: key.clone(), value: bytes("one"), keep: Keep::Forever };
    store.commit_for_journal(commit(vec![create(&key("first", Kind::Claim))])).await.unwrap();
    store.commit_for_journal(commit(vec![create(&session)])).await.unwrap();
    store.commit_for_journal(commit(vec![create(&key("last", Kind::Claim))])).await.unwrap();
    let left = as_a_kill_leaves_it(folder.path());
    let left = open(left.path(), Arc::new(SystemClock));
    assert!(left.read(&session).await.unwrap().0.is_some());
    assert!(left.read(&key("last", Kind::Claim)).await.unwrap().0.is_none());
}

#[tokio::test]
async fn one_process_has_it_until_it_ends() {
    let folder = TempDir::new().unwrap();
    let mut child = committing(folder.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("committed")).unwrap().unwrap();
    let again = || Embedded::open(folder.path(), Arc::new(SystemClock), Options::default());
    let refused = again().unwrap_err();
    assert!(matches!(refused, OpenError::Locked(_)));
    let text = refused.to_string();
    assert!(text.contains(&folder.path().display().to_string()) && text.contains("stop that process"), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
    let store = again().unwrap();
    assert!(matches!(again(), Err(OpenError::Locked(_))));
    drop(store);
    again().unwrap();
}

#[tokio::test]
async fn time_never_runs_back_over_restarts() {
    let folder = TempDir::new().unwrap();
    let first = does(&open(folder.path(), Hand::at(BEGIN)), vec![]).await;
    let store = open(folder.path(), Hand::at(BEGIN - 3_600_000_000));
    assert_eq!(store.time().await.unwrap(), first.at());
    let second = does(&store, vec![]).await;
    assert_eq!((second.at(), second.number().as_u64()), (first.at(), 2));
    drop(store);
    let store = open(folder.path(), Hand::at(BEGIN + 7));
    assert_eq!(store.time().await.unwrap(), at(BEGIN + 7));
}

#[tokio::test]
async fn another_format_is_refused() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path(), Hand::at(BEGIN)));
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("store");
    let database = redb::Database::open(folder.path().join(FILE)).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(table).unwrap().insert(b"f".as_slice(), 4_u64.to_be_bytes().as_slice()).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = Embedded::open(folder.path(), Hand::at(BEGIN), Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::OtherFormat { found: 4 }));
    assert!(refused.to_string().contains("format 4"), "{refused}");
}

#[tokio::test]
async fn what_is_no_store_is_not_overwritten() {
    let folder = TempDir::new().unwrap();
    let missing = Embedded::open_existing(folder.path(), Hand::at(BEGIN), Options::default());
    assert!(matches!(missing, Err(OpenError::Missing(_))));
    let file = folder.path().join(FILE);
    assert!(!file.exists());
    std::fs::write(&file, "something else entirely").unwrap();
    let refused = Embedded::open(folder.path(), Hand::at(BEGIN), Options::default());
    assert!(matches!(refused, Err(OpenError::Damaged(_))), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else entirely");
}

#[tokio::test]
async fn its_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("made/for/it");
    let store = open(&folder, Hand::at(BEGIN));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join(FILE))), (0o700, 0o600));
    drop(store);
}
