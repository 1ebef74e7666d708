//! Receipts of entries by their numbers, from a journal of many files.

use super::checkpoints::{KEY, signing};
use super::*;
use crate::audit::{ArchivedFile, Hash, ProvedEntries};

const PLENTY: ReadBudget = ReadBudget { bytes: u64::MAX, time: Duration::from_secs(60) };
const EVERY: Duration = Duration::from_secs(60);

fn entry_of(environment: Environment, number: u64) -> Outstanding {
    Outstanding { environment, ..entry(number) }
}

/// A journal of many files: 60 entries of production, and one of sandbox behind every third.
async fn journal(folder: &Path) {
    let audit = AuditFiles::open(signing(folder, 4), Arc::new(Hand::default())).unwrap();
    for number in 1..=60 {
        audit.append(vec![entry_of(Environment::Production, number)]).await.unwrap();
        if number % 3 == 0 {
            audit.append(vec![entry_of(Environment::Sandbox, number / 3)]).await.unwrap();
        }
    }
    drop(audit);
    assert!(audit_files(folder).unwrap().len() > 8);
}

fn maker(folder: &Path) -> JournalReceipts {
    JournalReceipts::new(folder.to_owned(), node(), Some(EVERY))
}

fn make(folder: &Path, environment: Environment, numbers: &[u64]) -> Result<ProvedEntries, NoReceipt> {
    let numbers = numbers.iter().copied().map(Number::new).collect();
    maker(folder).make_within(&EntryNumbers { environment, numbers }, &|_| true, PLENTY)
}

/// Asserts that a receipt proves exactly these entries, by a checkpoint of the journal's key.
fn assert_proves(receipt: &ProvedEntries, environment: Environment, numbers: &[u64]) {
    let key = SigningKey::of_pem(KEY.as_bytes()).unwrap();
    let read = ProvedEntries::read(receipt.to_text().as_bytes()).unwrap();
    let (checkpoint, entries) = read.proved().unwrap();
    assert!(key.public().signed(&checkpoint));
    let found: Vec<(Environment, u64)> =
        entries.iter().map(|entry| (entry.environment, entry.number.as_u64())).collect();
    assert_eq!(found, numbers.iter().map(|number| (environment, *number)).collect::<Vec<_>>());
}

/// The numbers of production in each file.
fn numbers_by_file(folder: &Path) -> Vec<Vec<u64>> {
    let files = audit_files(folder).unwrap();
    let numbers = files.iter().map(|file| {
        let mut numbers = Vec::new();
        scan(fs::read(&file.path).unwrap().as_slice(), |line| match line.body {
            LineBody::Entry(entry) if entry.environment == Environment::Production => {
                numbers.push(entry.number.as_u64());
            }
            _ => {}
        })
        .unwrap();
        numbers
    });
    numbers.collect()
}

#[tokio::test]
async fn each_entry_of_each_file_is_proved_alone_and_with_others() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    for number in 1..=60 {
        let receipt = make(folder.path(), Environment::Production, &[number]).unwrap();
        assert_proves(&receipt, Environment::Production, &[number]);
    }
    for number in 1..=20 {
        let receipt = make(folder.path(), Environment::Sandbox, &[number]).unwrap();
        assert_proves(&receipt, Environment::Sandbox, &[number]);
    }
    // Of several files, in any order, each once.
    let receipt = make(folder.path(), Environment::Production, &[60, 1, 33, 1]).unwrap();
    assert_proves(&receipt, Environment::Production, &[1, 33, 60]);
    let some = EntryNumbers { environment: Environment::Production, numbers: (1..=60).map(Number::new).collect() };
    let third = |entry: &Outstanding| entry.number.as_u64().is_multiple_of(20);
    let receipt = maker(folder.path()).make_within(&some, &third, PLENTY).unwrap();
    assert_proves(&receipt, Environment::Production, &[20, 40, 60]);
    let none = maker(folder.path()).make_within(&some, &|_| false, PLENTY);
    assert!(matches!(none, Err(NoReceipt::NoEntries)), "{none:?}");
}

#[tokio::test]
async fn who_asks_too_early_or_for_too_much_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let early = make(folder.path(), Environment::Production, &[1]);
    assert!(matches!(early, Err(NoReceipt::NotAtHand)), "{early:?}");
    let audit = AuditFiles::open(signing(folder.path(), 1_000), Arc::new(Hand::default())).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    for number in [1, 2] {
        let early = make(folder.path(), Environment::Production, &[number]);
        assert!(matches!(early, Err(NoReceipt::NotCovered(EVERY))), "{early:?}");
    }
    let unsigned = JournalReceipts::new(folder.path().to_owned(), node(), None);
    let sought = EntryNumbers { environment: Environment::Production, numbers: vec![Number::new(1)] };
    let unsigned = unsigned.make_within(&sought, &|_| true, PLENTY);
    assert!(matches!(unsigned, Err(NoReceipt::NoCheckpoints)), "{unsigned:?}");
    drop(audit);
    assert_proves(&make(folder.path(), Environment::Production, &[1]).unwrap(), Environment::Production, &[1]);
    let nothing = ReadBudget { bytes: 0, ..PLENTY };
    let over = maker(folder.path()).make_within(&sought, &|_| true, nothing);
    assert!(matches!(&over, Err(NoReceipt::Unreadable(why)) if why.kind() == io::ErrorKind::TimedOut), "{over:?}");
}

#[tokio::test]
async fn of_a_journal_whose_files_were_cut_only_what_is_there_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let by_file = numbers_by_file(folder.path());
    let (cut, gone) = (&by_file[3], &by_file[5]);
    let path = |sequence| audit_file(folder.path(), &node(), sequence);
    // The last entry of a file is cut off in its middle, and another file is gone.
    let text = fs::read_to_string(path(4)).unwrap();
    let last = text.find(&format!("\"number\":{},", cut.last().unwrap())).unwrap();
    fs::write(path(4), &text[..last]).unwrap();
    fs::remove_file(path(6)).unwrap();
    for missing in [cut.last().unwrap(), &gone[0], gone.last().unwrap()] {
        let found = make(folder.path(), Environment::Production, &[*missing]);
        assert!(matches!(found, Err(NoReceipt::NotAtHand)), "{missing}: {found:?}");
    }
    for there in [1, cut[0], by_file[4][0], by_file[6][0], 60] {
        let receipt = make(folder.path(), Environment::Production, &[there]).unwrap();
        assert_proves(&receipt, Environment::Production, &[there]);
    }
    // One that is not there is not left out of a receipt in silence.
    assert!(make(folder.path(), Environment::Production, &[1, gone[0]]).is_err());
    // A line that was changed is not believed, whatever its place.
    let text = fs::read_to_string(path(2)).unwrap();
    fs::write(path(2), text.replace("\"what\":\"sending\"", "\"what\":\"refused\"")).unwrap();
    let changed = make(folder.path(), Environment::Production, &[by_file[1][0]]);
    assert!(matches!(changed, Err(NoReceipt::Unreadable(_))), "{changed:?}");
}

/// Few checkpoints are known, and lines are counted over files: of one that is archived, the manifest knows how many.
#[tokio::test]
async fn lines_of_files_in_an_archive_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let by_file = numbers_by_file(folder.path());
    let checkpoints = checkpoints_file(folder.path(), &node());
    let text = fs::read_to_string(&checkpoints).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&checkpoints, format!("{}\n{}\n", lines[0], lines[lines.len() - 1])).unwrap();
    let wanted = by_file[7][1];
    let receipt = make(folder.path(), Environment::Production, &[wanted]).unwrap();
    assert_proves(&receipt, Environment::Production, &[wanted]);
    let archived = audit_file(folder.path(), &node(), 3);
    let count = fs::read_to_string(&archived).unwrap().lines().count() as u64;
    fs::remove_file(&archived).unwrap();
    let lost = make(folder.path(), Environment::Production, &[wanted]);
    assert!(matches!(lost, Err(NoReceipt::NotAtHand)), "{lost:?}");
    let manifest = |lines| {
        let (length, sha256, last, highest) = (0, Hash::NOTHING, Hash::NOTHING, BTreeMap::new());
        let file = ArchivedFile { node: node(), sequence: 3, lines, length, sha256, last, highest };
        fs::write(super::super::folder::manifest_file(folder.path(), &node()), format!("{}\n", file.line())).unwrap();
    };
    manifest(count);
    let receipt = make(folder.path(), Environment::Production, &[wanted]).unwrap();
    assert_proves(&receipt, Environment::Production, &[wanted]);
    // With a wrong count, another line is in that place: nothing is given out that does not verify.
    manifest(count + 1);
    let wrong = make(folder.path(), Environment::Production, &[wanted]);
    assert!(matches!(wrong, Err(NoReceipt::Unreadable(_))), "{wrong:?}");
}

#[tokio::test]
async fn entries_from_before_the_log_have_no_receipt_and_those_of_a_new_log_have_one() {
    let (folder, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    journal(folder.path()).await;
    let by_file = numbers_by_file(folder.path());
    for name in ["audit-a.salt", "audit-a.checkpoints.jsonl"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    fs::remove_dir_all(folder.path().join("audit-a.tree")).unwrap();
    let (first, kept) = (audit_file(folder.path(), &node(), 1), aside.path().join("first"));
    fs::rename(&first, &kept).unwrap();
    let audit = AuditFiles::open(signing(folder.path(), 1), Arc::new(Hand::default())).unwrap();
    audit.append(vec![entry_of(Environment::Production, 61)]).await.unwrap();
    drop(audit);
    fs::rename(&kept, &first).unwrap();
    let before = make(folder.path(), Environment::Production, &[by_file[0][0]]);
    assert!(matches!(before, Err(NoReceipt::BeforeLog)), "{before:?}");
    for number in [by_file[1][0], 40, 61] {
        let receipt = make(folder.path(), Environment::Production, &[number]).unwrap();
        assert_proves(&receipt, Environment::Production, &[number]);
    }
}

/// Nobody takes the room of others, and nobody gets more than a part of it.
#[tokio::test]
async fn few_are_made_at_one_time_and_everybody_has_a_share() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path()).await;
    let receipts = Arc::new(maker(folder.path()));
    let (wait, go) = std::sync::mpsc::channel::<()>();
    let go = Arc::new(std::sync::Mutex::new(go));
    let ask = |who: &str, waits: bool| {
        let (receipts, go) = (Arc::clone(&receipts), Arc::clone(&go));
        let who = crate::stations::claim::Owner::named("main", who);
        let sought = EntryNumbers { environment: Environment::Production, numbers: vec![Number::new(7)] };
        tokio::spawn(async move {
            let wait = move |_: &Outstanding| {
                if waits {
                    go.lock().unwrap().recv().unwrap_err();
                }
                true
            };
            receipts.make(who, sought, wait).await
        })
    };
    let slow: Vec<_> = (0..2).map(|_| ask("greedy", true)).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let more = ask("greedy", false).await.unwrap();
    assert!(matches!(more, Err(NoReceipt::Busy)), "{more:?}");
    assert_proves(&ask("another", false).await.unwrap().unwrap(), Environment::Production, &[7]);
    drop(wait);
    for one in slow {
        assert_proves(&one.await.unwrap().unwrap(), Environment::Production, &[7]);
    }
    assert!(ask("greedy", false).await.unwrap().is_ok());
}
