//! Turns to read the audit log: few at one time, and at most half of them one person's. Exports, which take long, have turns
//! of their own.
//!
//! A search waits first for a turn of its person and then for one of all, so one person's searches wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, error_json};

/// How many searches of the audit log run at one time.
const MAX_READERS: usize = 4;
/// How many exports are made at one time.
const MAX_EXPORTS: usize = 2;
/// How long a search waits for its turn.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// The turns.
#[derive(Debug)]
pub(super) struct JournalReaders {
    all: Arc<Semaphore>,
    most_of_person: usize,
    /// Of those who read or wait.
    of_person: Mutex<HashMap<Owner, Arc<Semaphore>>>,
    wait: Duration,
}

/// A turn; dropping it lets the next one read.
#[derive(Debug)]
pub(super) struct JournalTurn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl JournalReaders {
    pub fn new() -> JournalReaders {
        JournalReaders::of_turns(MAX_READERS)
    }

    pub fn for_exports() -> JournalReaders {
        JournalReaders::of_turns(MAX_EXPORTS)
    }

    fn of_turns(most: usize) -> JournalReaders {
        let all = Arc::new(Semaphore::new(most));
        JournalReaders { all, most_of_person: most / 2, of_person: Mutex::default(), wait: TURN_WAIT }
    }

    /// Waits for a turn, or refuses.
    pub async fn turn(&self, person: &Owner) -> Result<JournalTurn, Box<Reply>> {
        let own = self.of(person);
        let turn = timeout(self.wait, async {
            let own = own.acquire_owned().await.ok()?;
            let all = self.all.clone().acquire_owned().await.ok()?;
            Some(JournalTurn { _own: own, _all: all })
        });
        turn.await.ok().flatten().ok_or_else(|| {
            let message = "too many searches or exports of the audit log are running; try again shortly.";
            Box::new(error_json(Code::Overloaded, message, None))
        })
    }

    fn of(&self, person: &Owner) -> Arc<Semaphore> {
        let mut all = self.of_person.lock().unwrap_or_else(PoisonError::into_inner);
        // Permits, and those who wait for one, keep theirs.
        all.retain(|_, own| Arc::strong_count(own) > 1);
        all.entry(person.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.most_of_person))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers() -> JournalReaders {
        JournalReaders { wait: Duration::from_millis(50), ..JournalReaders::new() }
    }

    fn person(name: &str) -> Owner {
        Owner::named("people", name)
    }

    #[tokio::test]
    async fn one_person_gets_half_and_others_the_rest() {
        let readers = readers();
        let vera = [readers.turn(&person("vera")).await.unwrap(), readers.turn(&person("vera")).await.unwrap()];
        assert_eq!(readers.turn(&person("vera")).await.unwrap_err().status, 503);
        let others = [readers.turn(&person("walt")).await.unwrap(), readers.turn(&person("xena")).await.unwrap()];
        assert_eq!(readers.turn(&person("yuri")).await.unwrap_err().status, 503);
        drop(others);
        assert!(readers.turn(&person("yuri")).await.is_ok() && readers.turn(&person("vera")).await.is_err());
        drop(vera);
        assert!(readers.turn(&person("vera")).await.is_ok());
        assert_eq!(readers.of_person.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_person_makes_one_export_at_a_time_and_takes_no_search_from_anybody() {
        let exporters = JournalReaders { wait: Duration::from_millis(50), ..JournalReaders::for_exports() };
        let _vera = exporters.turn(&person("vera")).await.unwrap();
        assert_eq!(exporters.turn(&person("vera")).await.unwrap_err().status, 503);
        let _walt = exporters.turn(&person("walt")).await.unwrap();
        assert_eq!(exporters.turn(&person("xena")).await.unwrap_err().status, 503);
        assert!(readers().turn(&person("vera")).await.is_ok());
    }

    #[tokio::test]
    async fn who_waits_reads_when_another_ends() {
        let readers = JournalReaders::new();
        let first = readers.turn(&person("vera")).await.unwrap();
        let _second = readers.turn(&person("vera")).await.unwrap();
        let who = person("vera");
        let mut waiting = Box::pin(readers.turn(&who));
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err());
        drop(first);
        assert!(waiting.await.is_ok());
    }
}
