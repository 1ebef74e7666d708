//! Room for audit entries: no caller fills the journal with refused or held calls, and sandbox leaves the disk to production.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::not_begun::NotBegun;
use crate::adapters::machine::disk_space;
use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Step};
use crate::stations::check::Intent;
use crate::stations::claim::Owner;
use crate::stations::hold::NoPlace;

/// After this time, entries count anew.
const HOUR: Duration = Duration::from_secs(3_600);
/// How often the free space is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The room for audit entries at this gate.
#[derive(Debug)]
pub struct JournalRoom {
    /// The entries about refused calls.
    refusals: HourlyRoom,
    /// The bytes of held calls: they stay in the journal when the hold has ended.
    held_bytes: HourlyRoom,
    /// The folders that grow with each entry.
    folders: Vec<PathBuf>,
    /// The free space that is kept for production; zero where one environment alone is served.
    kept_bytes: u64,
    is_short: AtomicBool,
}

/// The most of something that an environment may have within an hour, and each caller's share of it.
#[derive(Debug)]
struct HourlyRoom {
    most: usize,
    counted: Mutex<BTreeMap<Environment, CountedHour>>,
}

/// The room that callers of one environment took, since a moment of the gate's monotonic clock.
#[derive(Debug)]
struct CountedHour {
    since: Duration,
    shares: HashMap<Owner, RoomShare<Owner>>,
    room: Arc<SharedRoom<Owner>>,
}

impl HourlyRoom {
    fn new(most: usize) -> HourlyRoom {
        HourlyRoom { most, counted: Mutex::default() }
    }

    /// Takes this much for a caller and this hour; returns false and takes nothing where its share does not allow it.
    fn take(&self, environment: Environment, caller: &Owner, units: usize, elapsed: Duration) -> bool {
        self.share(environment, caller, units, elapsed).map(|share| self.keep(environment, caller, share)).is_some()
    }

    /// Takes this much for a caller until the share is dropped; `None` where the caller's part does not allow it.
    fn share(
        &self,
        environment: Environment,
        caller: &Owner,
        units: usize,
        elapsed: Duration,
    ) -> Option<RoomShare<Owner>> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = || CountedHour { since: elapsed, shares: HashMap::new(), room: SharedRoom::new(self.most) };
        let hour = counted.entry(environment).or_insert_with(begins);
        if elapsed.saturating_sub(hour.since) >= HOUR {
            *hour = begins();
        }
        let mut share = hour.room.share_of(caller.clone());
        share.grow(units).then_some(share)
    }

    /// Keeps a share until its hour is over.
    fn keep(&self, environment: Environment, caller: &Owner, share: RoomShare<Owner>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(CountedHour { shares, room, .. }) = counted.get_mut(&environment) else { return };
        shares.entry(caller.clone()).or_insert_with(|| room.share_of(caller.clone())).take_over(share);
    }
}

impl JournalRoom {
    pub fn new(refusals: usize, held_bytes: usize, folders: Vec<PathBuf>, kept_bytes: u64) -> JournalRoom {
        let (refusals, held_bytes) = (HourlyRoom::new(refusals), HourlyRoom::new(held_bytes));
        JournalRoom { refusals, held_bytes, folders, kept_bytes, is_short: AtomicBool::new(false) }
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
        let has_room = self.refusals.take(environment, &Owner::of(intent.caller()), 1, elapsed);
        (!has_room).then_some(NotBegun::NoRoomForRefusal)
    }

    /// Takes room for what the commit of a hold leaves in the journal; fails where there is none.
    pub fn share_of_hold(
        &self,
        intent: &Intent,
        commit: &Commit,
        elapsed: Duration,
    ) -> Result<RoomShare<Owner>, NotBegun> {
        let values = commit.steps.iter().filter_map(Step::value).map(Bytes::len);
        let bytes = values.fold(commit.entry.len(), usize::saturating_add);
        let share = self.held_bytes.share(intent.environment(), &Owner::of(intent.caller()), bytes, elapsed);
        share.ok_or(NotBegun::NoPlaceForHold(NoPlace::Hour))
    }

    /// Counts a hold that was made.
    pub fn keeps(&self, intent: &Intent, share: RoomShare<Owner>) {
        self.held_bytes.keep(intent.environment(), &Owner::of(intent.caller()), share);
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
    fn a_caller_leaves_others_room_within_each_hour() {
        let room = HourlyRoom::new(4);
        let take = |environment, who, seconds| room.take(environment, &owner(who), 1, Duration::from_secs(seconds));
        assert!(take(Environment::Sandbox, "a", 10) && take(Environment::Sandbox, "a", 11));
        assert!(!take(Environment::Sandbox, "a", 12), "the share is full");
        assert!(take(Environment::Sandbox, "b", 12), "another caller has room");
        assert!(take(Environment::Production, "a", 12), "so has another environment");
        assert!(!take(Environment::Sandbox, "a", 3_609));
        assert!(take(Environment::Sandbox, "a", 3_610), "an hour is over");
    }
}
