//! A follower of the journal for tests.

use std::sync::atomic::AtomicBool;

use super::super::follower::Follower;
use super::*;

/// A follower that notes what it is told. For one that doubts, each entry with an even number contradicts those before it.
#[derive(Debug, Default)]
pub(super) struct Noting {
    told: Mutex<Vec<String>>,
    pub(super) reached: Mutex<Highest>,
    /// Whether its disk fails.
    pub(super) fails: AtomicBool,
    doubts: bool,
}

impl Noting {
    pub(super) fn doubting() -> Noting {
        Noting { doubts: true, ..Noting::default() }
    }

    fn note(&self, what: &str, environment: Environment, number: u64) {
        self.reached.lock().unwrap().insert(environment, number);
        self.told.lock().unwrap().push(format!("{what} {number}"));
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl Follower for Noting {
    fn follow(&self, entries: &[Outstanding], _is_durable: bool) -> Result<Vec<Option<String>>, String> {
        if self.fails.load(Ordering::Relaxed) {
            return Err("its disk fails".to_owned());
        }
        entries.iter().for_each(|entry| self.note("entry", entry.environment, entry.number.as_u64()));
        let is_doubted = |entry: &Outstanding| self.doubts && entry.number.as_u64().is_multiple_of(2);
        Ok(entries.iter().map(|entry| is_doubted(entry).then(|| "it is even".to_owned())).collect())
    }

    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String> {
        self.note("forgets", environment, up_to);
        Ok(())
    }

    fn begin_anew(&self) -> Result<(), String> {
        Ok(())
    }

    fn restore(&self, _snapshot: &SnapshotFile) -> Result<Option<String>, String> {
        Ok(Some("no snapshot is needed".to_owned()))
    }

    fn reached(&self) -> Result<Highest, String> {
        Ok(self.reached.lock().unwrap().clone())
    }
}
