//! What a start makes of what it finds.

use super::*;

async fn written(folder: &Path, numbers: std::ops::RangeInclusive<u64>) -> PathBuf {
    let audit = open(folder).unwrap();
    audit.append(numbers.map(entry).collect()).await.unwrap();
    audit_file(folder, &node(), 1)
}

#[tokio::test]
async fn what_a_killed_process_left_half_written_is_cut_off_and_kept_aside() {
    let whole = tempfile::tempdir().unwrap();
    let path = written(whole.path(), 1..=3).await;
    let bytes = fs::read(&path).unwrap();
    let before_last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    let header = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    for length in (before_last + 1..bytes.len()).step_by(31).chain([0, 1, header - 1]) {
        let folder = tempfile::tempdir().unwrap();
        let path = audit_file(folder.path(), &node(), 1);
        fs::write(&path, &bytes[..length]).unwrap();
        let audit = open(folder.path()).unwrap();
        audit.append((1..=3).map(entry).collect()).await.unwrap();
        assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2, 3])]), "{length}");
        assert_eq!(folder.path().read_dir().unwrap().count(), if length == 0 { 2 } else { 3 });
    }
}

#[tokio::test]
async fn anything_else_that_is_wrong_ends_the_start_with_its_place() {
    let whole = tempfile::tempdir().unwrap();
    let path = written(whole.path(), 1..=3).await;
    let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let damaged = [
        [lines[0], &lines[1].replace("sending", "unknown"), lines[2], lines[3]].concat(),
        [lines[0], lines[2], lines[3]].concat(),
        [lines[0], lines[1], lines[3], lines[2]].concat(),
        [lines[1], lines[2], lines[3]].concat(),
        [lines[0], "\n", lines[1]].concat(),
        lines[0].replace("\"a\"", "\"b\"") + lines[1],
    ];
    for text in damaged {
        let folder = tempfile::tempdir().unwrap();
        fs::write(audit_file(folder.path(), &node(), 1), &text).unwrap();
        let fault = open(folder.path()).unwrap_err();
        assert!(matches!(fault, OpenFault::Damaged { .. }), "{fault}");
        assert!(fault.to_string().contains("sluice audit verify"), "{fault}");
        assert_eq!(fs::read_to_string(audit_file(folder.path(), &node(), 1)).unwrap(), text);
    }
}

#[tokio::test]
async fn a_file_that_was_only_begun_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 1..=2).await;
    fs::write(audit_file(folder.path(), &node(), 2), "{\"at\":").unwrap();
    let clock = Arc::new(Hand::default());
    let audit = AuditFiles::open(
        AuditSettings { rotate_bytes: 700, ..settings(folder.path()) },
        Arc::clone(&clock) as Arc<dyn Clock>,
    )
    .unwrap();
    audit.append((2..=4).map(entry).collect()).await.unwrap();
    let found = read_numbers(folder.path());
    assert_eq!(found.values().flatten().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(found.contains_key(&2), "{found:?}");
}

#[tokio::test]
async fn a_file_that_does_not_go_on_where_the_one_before_ends_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let small = AuditSettings { rotate_bytes: 700, ..settings(folder.path()) };
    let audit = AuditFiles::open(small, Arc::new(Hand::default())).unwrap();
    audit.append((1..=4).map(entry).collect()).await.unwrap();
    drop(audit);
    let first = audit_file(folder.path(), &node(), 1);
    let text = fs::read_to_string(&first).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&first, &text[..cut]).unwrap();
    assert!(matches!(open(folder.path()), Err(OpenFault::Damaged { path, .. }) if path == first));
}

#[test]
fn what_is_remembered_no_longer_is_looked_up_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let start = crate::adapters::audit::start::find_start(folder.path(), &node(), None).unwrap();
    let place = LogPosition { folder: AuditFolder::at(folder.path()), node: node(), rotate_bytes: 1 << 30 };
    let mut log =
        Log::new(Box::new(MachineDisk), Arc::new(Hand::default()), place, start.tip, start.remembered).unwrap();
    let count = written_entries::REMEMBERED as u64 + 10;
    let all: Vec<Prepared> = (1..=count).map(|number| prepare(&entry(number)).unwrap()).collect();
    assert!(log.append(&[&all]).iter().all(Result::is_ok));
    let before = log.extent().lines;
    let again = [prepare(&entry(3)).unwrap(), prepare(&entry(count)).unwrap()];
    let other = [prepare(&Outstanding { entry: Bytes::from_static(b"{}"), ..entry(4) }).unwrap()];
    let results = log.append(&[&again, &other]);
    assert!(matches!(results.as_slice(), [Ok(()), Err(_)]), "{results:?}");
    assert_eq!(log.extent().lines, before);
}
