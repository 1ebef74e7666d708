//! Checkpoints: when they are made, and what they hold a start to.

use super::*;
use crate::audit::{GrowingTree, KeptCheckpoint, Tiles as _};

/// A key as `sluice audit key` writes it; made for this test alone.
pub(super) const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";

pub(super) fn signing(folder: &Path, every_entries: u64) -> AuditSettings {
    let key = SigningKey::of_pem(KEY.as_bytes()).unwrap();
    let every = Duration::from_secs(60);
    let checkpoints = Some(Checkpoints { key, every_entries, every, to_log: true, is_witnessed: false });
    AuditSettings { checkpoints, rotate_bytes: 1200, ..settings(folder) }
}

fn made(folder: &Path) -> Vec<(u64, u64)> {
    let key = SigningKey::of_pem(KEY.as_bytes()).unwrap();
    let text = fs::read_to_string(checkpoints_file(folder, &node())).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let checkpoints = whole.map(|line| KeptCheckpoint::read(line.as_bytes()).unwrap());
    checkpoints
        .map(|KeptCheckpoint { checkpoint, place }| {
            assert!(key.public().signed(&checkpoint));
            let end = place.unwrap().end;
            (end.sequence, end.lines)
        })
        .collect()
}

/// The newest file, and how many lines it has.
fn end(folder: &Path) -> (u64, u64) {
    let files = read_numbers(folder);
    let (sequence, numbers) = files.last_key_value().unwrap();
    (*sequence, numbers.len() as u64 + 1)
}

/// Until the thread has made one of all that is there.
async fn until_all_is_signed(folder: &Path) {
    let wait = async {
        while made(folder).last() != Some(&end(folder)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap();
}

#[tokio::test]
async fn they_are_made_after_so_many_entries_after_a_time_at_the_end_of_a_file_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let audit = AuditFiles::open(signing(folder.path(), 3), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    audit.append(vec![entry(2)]).await.unwrap();
    until_all_is_signed(folder.path()).await;
    assert_eq!(made(folder.path()), [(1, 3)]);
    audit.append((3..=8).map(entry).collect()).await.unwrap();
    until_all_is_signed(folder.path()).await;
    let (ended, lines) = made(folder.path())[1];
    assert!(ended == 1 && lines == read_numbers(folder.path())[&1].len() as u64 + 1, "{:?}", made(folder.path()));
    // One more is not enough by itself.
    audit.append(vec![entry(9)]).await.unwrap();
    assert_ne!(made(folder.path()).last(), Some(&end(folder.path())));
    clock.0.store(61, Ordering::Relaxed);
    until_all_is_signed(folder.path()).await;
    audit.append(vec![entry(10)]).await.unwrap();
    drop(audit);
    assert_eq!(made(folder.path()).last(), Some(&end(folder.path())));
}

#[tokio::test]
async fn a_start_is_held_to_what_was_signed() {
    let folder = tempfile::tempdir().unwrap();
    let start = || AuditFiles::open(signing(folder.path(), 100), Arc::new(Hand::default()));
    let audit = start().unwrap();
    audit.append((1..=2).map(entry).collect()).await.unwrap();
    drop(audit);
    let path = audit_file(folder.path(), &node(), 1);
    let whole = fs::read(&path).unwrap();
    // What was signed was acknowledged: an end that looks torn is none.
    for length in [whole.len() - 1, whole.len() - 20] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(start(), Err(OpenFault::Damaged { .. })), "{length}");
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(start(), Err(OpenFault::Damaged { .. })));
    fs::write(&path, &whole).unwrap();
    // A checkpoint that was being written when its process was killed is no harm.
    let checkpoints = checkpoints_file(folder.path(), &node());
    let text = fs::read_to_string(&checkpoints).unwrap();
    fs::write(&checkpoints, format!("{text}{{\"at\":")).unwrap();
    let audit = start().unwrap();
    audit.append(vec![entry(3)]).await.unwrap();
    drop(audit);
    assert_eq!(made(folder.path()).last(), Some(&(1, 4)));
}

/// A copy whose tree was copied after its journal: the lines of the larger tree are others than those that come now.
#[tokio::test]
async fn a_tree_that_is_ahead_of_its_journal_is_cut_back() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = |at: &Path| AuditFiles::open(signing(at, 1), Arc::new(Hand::default())).unwrap();
    let audit = start(folder.path());
    audit.append((1..=2).map(entry).collect()).await.unwrap();
    drop(audit);
    copy(folder.path(), other.path());
    let audit = start(folder.path());
    audit.append((3..=9).map(entry).collect()).await.unwrap();
    drop(audit);
    copy(&folder.path().join("audit-a.tree"), &other.path().join("audit-a.tree"));
    let audit = start(other.path());
    audit.append(vec![entry(3)]).await.unwrap();
    drop(audit);
    let tree = TreeFolder::of(other.path(), &node());
    let text = fs::read_to_string(checkpoints_file(other.path(), &node())).unwrap();
    let last = KeptCheckpoint::read(text.lines().last().unwrap().as_bytes()).unwrap().checkpoint;
    let again = GrowingTree::of_edge(last.size, |place, width| tree.tile(place, width)).unwrap();
    assert_eq!(again.root(), last.root);
    let widest = fs::read_dir(other.path().join("audit-a.tree/tile/0/000.p")).unwrap();
    let widest = widest.map(|file| file.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap()).max();
    assert_eq!(widest, Some(last.size));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let beside = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy(&file.path(), &beside),
            false => assert!(fs::copy(file.path(), beside).is_ok()),
        }
    }
}
