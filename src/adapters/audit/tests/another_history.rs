//! A journal that goes on with another history than it had.

use super::super::follower::{Follower, catch_up};
use super::*;

/// A follower that notes what it is told.
#[derive(Debug, Default)]
struct Noting {
    told: Mutex<Vec<String>>,
    reached: Mutex<Highest>,
}

impl Noting {
    fn note(&self, what: &str, environment: Environment, number: u64) {
        self.reached.lock().unwrap().insert(environment, number);
        self.told.lock().unwrap().push(format!("{what} {number}"));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl Follower for Noting {
    fn follow(&self, entries: &[Outstanding], _is_durable: bool) -> Result<Vec<Option<String>>, String> {
        entries.iter().for_each(|entry| self.note("entry", entry.environment, entry.number.as_u64()));
        Ok(vec![None; entries.len()])
    }

    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String> {
        self.note("forgets", environment, up_to);
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

#[tokio::test]
async fn a_follower_forgets_what_is_of_another_history_also_when_it_reads_the_files_later() {
    let folder = tempfile::tempdir().unwrap();
    let follower: Arc<Noting> = Arc::default();
    let following: Arc<dyn Follower> = Arc::clone(&follower) as _;
    let settings = AuditSettings { follower: Some(following), ..settings(folder.path()) };
    let audit = AuditFiles::open(settings, Arc::new(Hand::default())).unwrap();
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
