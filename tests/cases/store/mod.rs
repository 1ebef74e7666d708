//! Stores: one contract for all of them, and what is special of each.
//!
//! A store is one more line in [`contract`]; the suite does not know which it runs against.

mod asked;
mod believed;
mod bounded;
mod embedded;
mod faults;
mod ledger;
mod lost_answers;
mod property;
pub(super) mod redis;
mod sealed;
mod suite;
mod transfer;
mod transfer_redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::redis::RedisStore;
use sluice::adapters::store::sealed::{Sealed, SealingKey, Seals};
use sluice::base::secret::Secret;
use sluice::ports::{Clock, Store};
use tempfile::TempDir;

use crate::support::Redis;

/// When tests begin: a whole hour.
pub const BEGIN: i64 = 1_800_000_000_000_000;

/// A clock that is moved by hand.
#[derive(Debug)]
pub struct Hand(AtomicI64);

impl Hand {
    pub fn at(micros: i64) -> Arc<Hand> {
        Arc::new(Hand(AtomicI64::new(micros)))
    }

    pub fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.load(Ordering::SeqCst) - BEGIN).unwrap_or(0))
    }
}

/// A store under test, empty, with the clock that it goes by.
pub struct Subject {
    pub store: Arc<dyn Store>,
    pub clock: Arc<Hand>,
    _kept: Kept,
}

/// What a store stands on, for as long as it is tried.
pub enum Kept {
    Nothing,
    Folder { _folder: TempDir },
    Redis { _redis: Redis },
}

async fn memory() -> Subject {
    let clock = Hand::at(BEGIN);
    Subject { store: Arc::new(MemoryStore::new(clock.clone())), clock, _kept: Kept::Nothing }
}

async fn embedded() -> Subject {
    let (clock, folder) = (Hand::at(BEGIN), TempDir::new().unwrap());
    let store = Embedded::open(folder.path(), clock.clone(), Options::default()).unwrap();
    Subject { store: Arc::new(store), clock, _kept: Kept::Folder { _folder: folder } }
}

async fn sealed() -> Subject {
    seal(memory().await)
}

async fn redis() -> Subject {
    let (clock, redis) = (Hand::at(BEGIN), Redis::start());
    let store = RedisStore::by_clock(redis::connected(&redis.url()).await, clock.clone());
    Subject { store: Arc::new(store), clock, _kept: Kept::Redis { _redis: redis } }
}

async fn sealed_redis() -> Subject {
    seal(redis().await)
}

fn seal(subject: Subject) -> Subject {
    Subject { store: Arc::new(Sealed::new(subject.store, Seals::new(vec![key("k1", 1)]))), ..subject }
}

pub fn key(id: &str, byte: u8) -> SealingKey {
    SealingKey::new(id, &Secret::new(format!("{byte:02x}").repeat(32))).unwrap()
}

macro_rules! contract {
    ($($theme:ident: $($case:ident)*;)*) => {
        contract!(@ memory $($theme: $($case)*;)*);
        contract!(@ embedded $($theme: $($case)*;)*);
        contract!(@ sealed $($theme: $($case)*;)*);
        contract!(@ redis $($theme: $($case)*;)*);
        contract!(@ sealed_redis $($theme: $($case)*;)*);
    };
    (@ $store:ident $($theme:ident: $($case:ident)*;)*) => {
        mod $store {
            $(mod $theme {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::super::super::suite::$theme::$case(&super::super::super::$store().await).await;
                })*
            })*
        }
    };
}

mod contract {
    contract! {
        records: create_read_replace_delete absent_and_version nothing_is_written_where_a_guard_fails
            every_obstacle_is_told_in_order environments_and_kinds_are_apart two_writes_in_one_place_are_refused
            another_environments_record_is_refused any_name_and_any_value_is_kept;
        racing: one_creator_wins one_replacer_wins numbers_have_no_gap windows_hold_under_crowds;
        time: never_runs_back before_and_after;
        indexes: members_are_due_in_order a_member_moves_and_goes membership_guards a_member_keeps_its_earliest_time a_part_of_an_index
            what_has_ended_leaves_its_index;
        windows: a_fixed_span_ends a_rolling_window_forgets_whole_buckets max_is_exact many_slots_are_summed_up_exactly
            force_passes_the_limit a_late_booking_counts_in_its_own_time
            units_that_are_taken_away_leave_their_own_slot
            settle_and_give_back_once one_reservation_for_each_holder windows_are_apart senseless_spans_are_refused
            what_is_given_back_late_counts_no_longer nothing_counts_beyond_the_most windows_are_found;
        keeping: whole_then_spent_then_gone sweeping_changes_nothing_that_is_seen a_name_is_free_again_when_it_is_gone
            sweeping_is_bounded;
        outbox: entries_of_all_nodes_wait_in_order_until_they_are_kept;
    }
}
