//! Room for audit entries: no caller fills the journal with refused or held calls, no person with acts that move no money, and
//! sandbox leaves the disk to production.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Node;
use super::not_begun::NotBegun;
use crate::adapters::machine::disk_space;
use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Receipt, Step, StoreFault};
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
    /// Of people's acts that move no money.
    acts: ActRoom,
    /// Of exports, which anybody may make who may look: they take nothing from those who decide.
    exports: ActRoom,
    /// The folders that grow with each entry.
    folders: Vec<PathBuf>,
    /// The free space that is kept for production; zero where one environment alone is served.
    kept_bytes: u64,
    is_short: AtomicBool,
}

/// The most that the journal takes of an environment within an hour.
#[derive(Clone, Copy, Debug)]
pub struct JournalBounds {
    /// The entries about refused calls.
    pub refusals: usize,
    /// The bytes of held calls.
    pub held_bytes: usize,
    /// The entries of people's acts that move no money.
    pub acts: usize,
}

impl JournalBounds {
    /// Nothing is refused.
    pub const NONE: JournalBounds = JournalBounds { refusals: usize::MAX, held_bytes: usize::MAX, acts: usize::MAX };
}

/// The bytes for each entry of a person's act: some have a hold with its votes.
const ACT_BYTES: usize = 8 << 10;
/// Exports may leave this part of what all other acts may, besides them.
const EXPORTS_PART: usize = 4;

/// The entries of people's acts, and the bytes that they leave.
#[derive(Debug)]
struct ActRoom {
    entries: HourlyRoom,
    bytes: HourlyRoom,
}

/// The room for the entry of a person's act, until it is written.
#[derive(Debug)]
struct ActShare {
    entry: RoomShare<Owner>,
    bytes: RoomShare<Owner>,
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

    /// The seconds until the counted hour is over.
    fn secs_left(&self, environment: Environment, elapsed: Duration) -> u64 {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = counted.get(&environment).map_or(HOUR, |hour| elapsed.saturating_sub(hour.since));
        HOUR.saturating_sub(passed).as_secs().saturating_add(1)
    }

    /// Keeps a share until its hour is over.
    fn keep(&self, environment: Environment, caller: &Owner, share: RoomShare<Owner>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(CountedHour { shares, room, .. }) = counted.get_mut(&environment) else { return };
        shares.entry(caller.clone()).or_insert_with(|| room.share_of(caller.clone())).take_over(share);
    }
}

impl ActRoom {
    fn new(most: usize) -> ActRoom {
        let bytes = HourlyRoom::new(most.saturating_mul(ACT_BYTES));
        ActRoom { entries: HourlyRoom::new(most), bytes }
    }

    /// Takes room for what a person's act leaves in the journal; fails where there is none.
    fn share(&self, person: &Owner, commit: &Commit, elapsed: Duration) -> Result<ActShare, StoreFault> {
        let environment = commit.environment;
        let entry = self.entries.share(environment, person, 1, elapsed);
        let bytes = self.bytes.share(environment, person, left_bytes(commit), elapsed);
        match entry.zip(bytes) {
            Some((entry, bytes)) => Ok(ActShare { entry, bytes }),
            None => Err(StoreFault::NoRoomForEntry { retry_secs: self.entries.secs_left(environment, elapsed) }),
        }
    }

    /// Counts a person's act that was done.
    fn keep(&self, environment: Environment, person: &Owner, share: ActShare) {
        self.entries.keep(environment, person, share.entry);
        self.bytes.keep(environment, person, share.bytes);
    }
}

impl JournalRoom {
    pub fn new(most: JournalBounds, folders: Vec<PathBuf>, kept_bytes: u64) -> JournalRoom {
        JournalRoom {
            refusals: HourlyRoom::new(most.refusals),
            held_bytes: HourlyRoom::new(most.held_bytes),
            acts: ActRoom::new(most.acts),
            exports: ActRoom::new((most.acts / EXPORTS_PART).max(2)),
            folders,
            kept_bytes,
            is_short: AtomicBool::new(false),
        }
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
        let bytes = left_bytes(commit);
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

/// Returns how many bytes a commit leaves in the journal.
fn left_bytes(commit: &Commit) -> usize {
    let values = commit.steps.iter().filter_map(Step::value).map(Bytes::len);
    values.fold(commit.entry.len(), usize::saturating_add)
}

impl Node {
    /// Commits what a person does and what moves no money, within the person's hourly room for entries. Acts that protect are
    /// never committed in this way. Returns `None` where a guard did not hold.
    pub async fn commit_act(&self, person: &Owner, commit: Commit) -> Result<Option<Receipt>, StoreFault> {
        self.commit_within(&self.entries.acts, person, commit).await
    }

    /// Commits the entry of an export, within the person's hourly room for them.
    pub async fn commit_export(&self, person: &Owner, commit: Commit) -> Result<Option<Receipt>, StoreFault> {
        self.commit_within(&self.entries.exports, person, commit).await
    }

    async fn commit_within(
        &self,
        room: &ActRoom,
        person: &Owner,
        commit: Commit,
    ) -> Result<Option<Receipt>, StoreFault> {
        let environment = commit.environment;
        let share = room.share(person, &commit, self.clock.elapsed())?;
        let committed = self.commit(commit).await;
        if matches!(committed, Ok(Some(_)) | Err(StoreFault::InDoubt(_))) {
            room.keep(environment, person, share);
        }
        committed
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
        assert_eq!(room.secs_left(Environment::Sandbox, Duration::from_secs(3_611)), 3_600);
    }

    #[test]
    fn acts_of_a_person_leave_so_many_entries_and_bytes() {
        let most = JournalBounds { refusals: 2, held_bytes: 2, acts: 4 };
        let act = |room: &JournalRoom, who: &str, bytes: usize, seconds| {
            let entry = vec![b'x'; bytes].into();
            let node = crate::ledger::NodeId::parse("gate").unwrap();
            let commit = Commit { environment: Environment::Production, node, steps: Vec::new(), entry };
            let share = room.acts.share(&owner(who), &commit, Duration::from_secs(seconds));
            share.map(|share| room.acts.keep(Environment::Production, &owner(who), share))
        };
        let full = |retry_secs| Err(StoreFault::NoRoomForEntry { retry_secs });
        let room = JournalRoom::new(most, Vec::new(), 0);
        assert_eq!([10, 11].map(|at| act(&room, "a", 100, at)), [Ok(()), Ok(())]);
        assert_eq!((act(&room, "a", 100, 20), act(&room, "b", 100, 20)), (full(3_591), Ok(())));
        assert_eq!(act(&room, "a", 100, 3_610), Ok(()));
        let room = JournalRoom::new(most, Vec::new(), 0);
        assert_eq!((act(&room, "a", 2 * ACT_BYTES, 1), act(&room, "a", 1, 2)), (Ok(()), full(3_600)));
        let room = JournalRoom::new(most, Vec::new(), 0);
        assert_eq!(act(&room, "a", 2 * ACT_BYTES + 1, 1), full(3_601));
    }
}
