//! A journal that goes on with another history than it had.

use super::super::follower::{Follower, catch_up};
use super::noting::Noting;
use super::*;

fn opens_followed(folder: &Path) -> (Arc<Noting>, AuditFiles) {
    let follower: Arc<Noting> = Arc::default();
    let following: Arc<dyn Follower> = Arc::clone(&follower) as _;
    let settings = AuditSettings { follower: Some(following), ..settings(folder) };
    (follower, AuditFiles::open(settings, Arc::new(Hand::default())).unwrap())
}

#[tokio::test]
async fn a_follower_forgets_what_is_of_another_history_also_when_it_reads_the_files_later() {
    let folder = tempfile::tempdir().unwrap();
    let (follower, audit) = opens_followed(folder.path());
    let production = Environment::Production;
    audit.append(vec![entry(1), entry(2), entry(3)]).await.unwrap();
    let refused = audit.begin_again(production, Number::new(2)).await;
    assert!(matches!(&refused, Err(AuditFault::Disk(why)) if why.contains("has entries up to 3")), "{refused:?}");
    audit.begin_again(production, Number::new(3)).await.unwrap();
    assert_eq!(audit.highest(production), Number::new(3));
    audit.append(vec![entry(4)]).await.unwrap();
    audit.begin_again(production, Number::new(6)).await.unwrap();
    audit.append(vec![entry(7)]).await.unwrap();
    let all = ["entry 1", "entry 2", "entry 3", "forgets 3", "entry 4", "forgets 6", "entry 7"];
    assert_eq!(follower.take(), all);
    drop(audit);
    let reads_behind = |number: u64| {
        let later = Noting::default();
        if number > 0 {
            later.reached.lock().unwrap().insert(production, number);
        }
        catch_up(&later, folder.path(), &node(), &mut |_, _| {}).unwrap();
        later.take()
    };
    assert_eq!(reads_behind(0), all);
    assert_eq!(reads_behind(2), all[2..]);
    assert_eq!(reads_behind(3), all[3..]);
    assert_eq!(reads_behind(4), all[5..]);
    assert_eq!(reads_behind(7), [""; 0]);
}

/// Two tasks may find at the same time that the store lost entries, and the later one tells it behind the next entries.
#[tokio::test]
async fn entries_are_passed_over_once_and_a_follower_forgets_nothing_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let (follower, audit) = opens_followed(folder.path());
    let production = Environment::Production;
    audit.append(vec![entry(1)]).await.unwrap();
    audit.skip(production, Number::new(4)).await.unwrap();
    audit.append(vec![entry(5)]).await.unwrap();
    audit.skip(production, Number::new(4)).await.unwrap();
    audit.skip(production, Number::new(5)).await.unwrap();
    audit.append(vec![entry(6)]).await.unwrap();
    assert_eq!(audit.highest(production), Number::new(6));
    assert_eq!(follower.take(), ["entry 1", "forgets 4", "entry 5", "entry 6"]);
}
