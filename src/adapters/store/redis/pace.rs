//! The time of one environment's store, as this process was told it, and as its monotonic clock expects it.
//!
//! A heartbeat compares the clock of the Redis with the expected time. Every call states what it expects, so that the
//! script never follows a clock that leapt. A gate that has not joined yet expects nothing: it may have started while
//! the clock was leaping.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::script_args::Words;
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::ledger::{ClockAnchor, ClockLeap, StoreTime};
use crate::ports::Clock as _;

#[derive(Debug, Default)]
pub(super) struct StorePace {
    /// The latest time that this process was told.
    told: AtomicI64,
    state: Mutex<PaceState>,
}

#[derive(Debug, Default)]
struct PaceState {
    /// The latest reported time, and a stopwatch started at that moment.
    heard: Option<(StoreTime, Stopwatch)>,
    /// `None` until this gate has joined the others.
    anchor: Option<ClockAnchor>,
    last: Option<ClockReading>,
    leap: Option<ClockLeap>,
}

/// A heartbeat's view of the clock of the Redis.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    pub clock: StoreTime,
    /// The store's time at that moment.
    pub at: StoreTime,
    /// Changes when people have the clock followed again.
    pub epoch: u64,
    /// The monotonic times before and after.
    pub within: (Duration, Duration),
}

impl StorePace {
    fn state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn told(&self) -> StoreTime {
        StoreTime::of_micros(self.told.load(Ordering::SeqCst))
    }

    pub fn hear(&self, time: StoreTime) {
        self.told.fetch_max(time.as_micros(), Ordering::SeqCst);
        self.state().heard = Some((time, Stopwatch::start()));
    }

    /// Returns the time of the store now, as far as it was reported.
    pub fn now(&self) -> Option<StoreTime> {
        let state = self.state();
        state.heard.as_ref().map(|(time, since)| time.plus(since.elapsed()))
    }

    /// Adds the expected time, and how far the clock may differ from it; two empty words where none is expected.
    pub fn expected(&self, words: Words) -> Words {
        let (elapsed, anchor) = (SystemClock.elapsed(), self.state().anchor);
        match anchor {
            None => words.word("").word(""),
            Some(anchor) => {
                let tolerance = u64::try_from(anchor.tolerance(elapsed).as_micros()).unwrap_or(u64::MAX);
                words.time(anchor.expected(elapsed)).number(tolerance)
            }
        }
    }

    /// Compares the clock of the Redis with the expected time.
    pub fn compare(&self, reading: ClockReading) {
        let mut state = self.state();
        let has_changed = state.last.is_some_and(|last| last.epoch != reading.epoch);
        state.last = Some(reading);
        let Some(anchor) = state.anchor else { return };
        if has_changed {
            drop(state);
            return self.meet();
        }
        state.leap = anchor.leap(reading.clock, reading.within);
        if state.leap.is_none() && anchor.is_old(reading.within.1) {
            state.anchor = Some(reading.anchor());
        }
    }

    /// Takes the latest time of the store as right, and compares with it from now on.
    pub fn meet(&self) {
        let mut state = self.state();
        let Some(last) = state.last else { return };
        state.anchor = Some(last.anchor());
        state.leap = None;
        self.told.store(last.at.as_micros(), Ordering::SeqCst);
    }

    pub fn leap(&self) -> Option<ClockLeap> {
        self.state().leap
    }
}

impl ClockReading {
    /// The clock was read in the middle, as far as is known.
    fn anchor(&self) -> ClockAnchor {
        let (from, to) = self.within;
        ClockAnchor::new(self.at, from.saturating_add(to.saturating_sub(from) / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(clock: i64, at: i64, epoch: u64, elapsed: u64) -> ClockReading {
        let [clock, at] = [clock, at].map(|seconds| StoreTime::of_micros(seconds * 1_000_000));
        ClockReading { clock, at, epoch, within: (Duration::from_secs(elapsed), Duration::from_secs(elapsed)) }
    }

    #[test]
    fn a_gate_expects_a_time_from_its_joining_on_and_anew_when_people_say_so() {
        let pace = StorePace::default();
        pace.compare(reading(1_000, 1_000, 0, 50));
        // It has not joined: whatever leaps is not its own to judge.
        pace.compare(reading(100, 1_000, 0, 51));
        assert_eq!(pace.leap(), None);
        pace.meet();
        pace.compare(reading(1_001, 1_001, 0, 52));
        assert_eq!(pace.leap(), None);
        pace.compare(reading(9_000, 1_004, 0, 53));
        assert_eq!(pace.leap().map(ClockLeap::as_micros), Some(7_998_000_000));
        pace.compare(reading(1_003, 1_004, 0, 54));
        assert_eq!(pace.leap(), None);
        pace.compare(reading(9_000, 9_000, 1, 55));
        assert_eq!(pace.leap(), None);
        pace.compare(reading(9_010, 9_010, 1, 65));
        assert_eq!(pace.leap(), None);
    }
}
