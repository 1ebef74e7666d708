//! Room for audit entries: no caller fills the journal with refused calls, and sandbox leaves the disk to production.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::not_begun::NotBegun;
use crate::adapters::machine::disk_space;
use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::base::ids::Environment;
use crate::stations::check::Intent;
use crate::stations::claim::Owner;

/// After this time, the entries of refused calls count anew.
const HOUR: Duration = Duration::from_secs(3_600);
/// How often the free space is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The room for audit entries at this gate.
#[derive(Debug)]
pub struct JournalRoom {
    /// The most entries about refused calls of an environment within an hour.
    refusals: usize,
    counted: Mutex<BTreeMap<Environment, RefusalHour>>,
    /// The folders that grow with each entry.
    folders: Vec<PathBuf>,
    /// The free space that is kept for production; zero where one environment alone is served.
    kept_bytes: u64,
    is_short: AtomicBool,
}

/// The entries about refused calls of one environment, since a moment of the gate's monotonic clock.
#[derive(Debug)]
struct RefusalHour {
    since: Duration,
    shares: HashMap<Owner, RoomShare<Owner>>,
    room: Arc<SharedRoom<Owner>>,
}

impl JournalRoom {
    pub fn new(refusals: usize, folders: Vec<PathBuf>, kept_bytes: u64) -> JournalRoom {
        JournalRoom { refusals, counted: Mutex::default(), folders, kept_bytes, is_short: AtomicBool::new(false) }
    }

    /// Whether the rest of the disk is kept from this environment.
    pub fn is_kept_from(&self, environment: Environment) -> bool {
        environment == Environment::Sandbox && self.is_short.load(Ordering::Relaxed)
    }

    /// Takes room for the entry about a refused call; returns why it must not be written, if there is none.
    pub fn refusal_stop(&self, intent: &Intent, elapsed: Duration) -> Option<NotBegun> {
        let environment = intent.environment();
        if self.is_kept_from(environment) {
            return Some(NotBegun::AuditAway);
        }
        let has_room = self.take(environment, &Owner::of(intent.caller()), elapsed);
        (!has_room).then_some(NotBegun::NoRoomForRefusal)
    }

    /// Takes room for one entry about a refused call of this caller; returns false where its share is full.
    fn take(&self, environment: Environment, caller: &Owner, elapsed: Duration) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = || RefusalHour { since: elapsed, shares: HashMap::new(), room: SharedRoom::new(self.refusals) };
        let hour = counted.entry(environment).or_insert_with(begins);
        if elapsed.saturating_sub(hour.since) >= HOUR {
            *hour = begins();
        }
        let RefusalHour { shares, room, .. } = hour;
        shares.entry(caller.clone()).or_insert_with(|| room.share_of(caller.clone())).grow(1)
    }

    /// Measures the free space as long as the process lives.
    pub async fn keep_measuring(self: Arc<Self>) {
        if self.kept_bytes == 0 {
            return;
        }
        loop {
            let (folders, kept) = (self.folders.clone(), self.kept_bytes);
            let measured = spawn_blocking(move || {
                let mut disks = folders.iter().filter_map(|folder| disk_space(folder).ok());
                disks.any(|disk| disk.free_bytes < kept)
            });
            if let Ok(is_short) = measured.await {
                self.found(is_short);
            }
            sleep(MEASURE_INTERVAL).await;
        }
    }

    fn found(&self, is_short: bool) {
        if self.is_short.swap(is_short, Ordering::Relaxed) == is_short {
            return;
        }
        let kept_bytes = self.kept_bytes;
        if is_short {
            tracing::error!(
                kept_bytes,
                "the free disk is less than `audit.production_bytes`: writes of sandbox are refused, so that production has \
                 room for its entries; make room"
            );
        } else {
            tracing::info!(kept_bytes, "the disk has room again: writes of sandbox are taken");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(subject: &str) -> Owner {
        Owner { issuer: "main".to_owned(), subject: subject.to_owned(), opaque: true }
    }

    #[test]
    fn a_caller_leaves_others_room_for_entries_about_refused_calls() {
        let room = JournalRoom::new(4, Vec::new(), 0);
        let take = |environment, who, seconds| room.take(environment, &owner(who), Duration::from_secs(seconds));
        assert!(take(Environment::Sandbox, "a", 10) && take(Environment::Sandbox, "a", 11));
        assert!(!take(Environment::Sandbox, "a", 12), "the share is full");
        assert!(take(Environment::Sandbox, "b", 12), "another caller has room");
        assert!(take(Environment::Production, "a", 12), "so has another environment");
        assert!(!take(Environment::Sandbox, "a", 3_609));
        assert!(take(Environment::Sandbox, "a", 3_610), "an hour is over");
    }
}
