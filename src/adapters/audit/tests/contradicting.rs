use super::super::follower::Follower;
use super::noting::Noting;
use super::*;

fn followed_by(folder: &Path, follower: &Arc<Noting>) -> AuditFiles {
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
    let audit = followed_by(folder.path(), &Arc::new(Noting::doubting()));
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
    let follower = Arc::new(Noting::doubting());
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
