use std::sync::atomic::AtomicBool;

use super::super::follower::Follower;
use super::*;

/// A follower for which some entries contradict those before them, and whose disk can fail.
#[derive(Debug, Default)]
struct Doubting {
    reached: Mutex<Highest>,
    fails: AtomicBool,
}

impl Follower for Doubting {
    fn follow(&self, entries: &[Outstanding], _is_durable: bool) -> Result<Vec<Option<String>>, String> {
        if self.fails.load(Ordering::Relaxed) {
            return Err("its disk fails".to_owned());
        }
        let mut reached = self.reached.lock().unwrap();
        for entry in entries {
            reached.insert(entry.environment, entry.number.as_u64());
        }
        let is_even = |entry: &Outstanding| entry.number.as_u64().is_multiple_of(2);
        Ok(entries.iter().map(|entry| is_even(entry).then(|| "it is even".to_owned())).collect())
    }

    fn skip(&self, _environment: Environment, _up_to: u64) -> Result<(), String> {
        Ok(())
    }

    fn begin_anew(&self) -> Result<(), String> {
        Ok(())
    }

    fn restore(&self, _snapshot: &SnapshotFile) -> Result<(), String> {
        Err("no snapshot is needed".to_owned())
    }

    fn reached(&self) -> Result<Highest, String> {
        Ok(self.reached.lock().unwrap().clone())
    }
}

fn followed_by(folder: &Path, follower: &Arc<Doubting>) -> AuditFiles {
    let follower: Arc<dyn Follower> = Arc::clone(follower) as _;
    AuditFiles::open(AuditSettings { follower: Some(follower), ..settings(folder) }, Arc::new(Hand::default())).unwrap()
}

fn contradiction(appended: Result<OnDisk, AuditFault>) -> u64 {
    match appended {
        Err(AuditFault::Contradicted { number, .. }) => number.as_u64(),
        other => panic!("{other:?}"),
    }
}

/// The outbox may bring an entry to disk before the answer to its commit reaches the one who sends money by it.
#[tokio::test]
async fn an_entry_that_contradicts_is_refused_to_everybody_who_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let audit = followed_by(folder.path(), &Arc::default());
    let brought = audit.append(vec![entry(1), entry(2), entry(3)]).await;
    assert_eq!(contradiction(brought), 2);
    assert_eq!(contradiction(audit.append(vec![entry(2)]).await), 2);
    audit.append(vec![entry(1)]).await.unwrap();
    audit.append(vec![entry(3)]).await.unwrap();
    // Both at once.
    let (one, other) = tokio::join!(audit.append(vec![entry(4)]), audit.append(vec![entry(4)]));
    assert_eq!((contradiction(one), contradiction(other)), (4, 4));
}

#[tokio::test]
async fn an_entry_that_the_replica_missed_is_judged_before_anybody_acts_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let follower = Arc::new(Doubting::default());
    let audit = followed_by(folder.path(), &follower);
    audit.append(vec![entry(1)]).await.unwrap();
    follower.fails.store(true, Ordering::Relaxed);
    let unjudged = audit.append(vec![entry(2), entry(3)]).await;
    assert!(matches!(unjudged, Err(AuditFault::Disk(_))), "{unjudged:?}");
    assert_eq!(audit.highest(Environment::Production).as_u64(), 3);
    follower.fails.store(false, Ordering::Relaxed);
    assert_eq!(contradiction(audit.append(vec![entry(2)]).await), 2);
    audit.append(vec![entry(3)]).await.unwrap();
}
