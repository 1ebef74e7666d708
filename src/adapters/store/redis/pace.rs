//! The time of one environment's store, as this process was told it, and as its monotonic clock expects it.
//!
//! A heartbeat compares the clock of the Redis with the expected time. Every call states what it expects, so that the
//! script never follows a clock that leapt, nor a time that somebody wrote into the store.
//!
//! A gate that starts does not know for how long it was down. Until it has compared the clock of its machine with the dates
//! of others, it goes on from the last time that is known; then the time of day tells it whether the clock of the Redis is
//! right.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::call_head::ExpectedTime;
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::ledger::{ClockAnchor, ClockLeap, Number, StoreTime, TimeBounds};
use crate::ports::Clock as _;

/// How much the clock of the Redis and that of this machine may differ at a start, as `Date` and the clock may; and how far
/// a stored time may be ahead of what a gate expects. `script.lua` has the same.
pub const ALIKE_AT_START: Duration = Duration::from_secs(60);
/// How long a time that is ahead of what this gate expects may come from gates that follow people's word already.
const AHEAD_FOR: Duration = Duration::from_secs(15);
/// How long the journal may need until it has people's word to follow the clock again.
const JOURNALLED_WITHIN: Duration = Duration::from_secs(10);

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
    /// `None` where nothing is known of the store yet.
    anchor: Option<ClockAnchor>,
    /// Whether the time of day has shown that the clock of the Redis is right, or that it is not.
    is_settled: bool,
    /// The microseconds that are added to the clock of the Redis, until this gate has settled.
    shift: i64,
    last: Option<ClockReading>,
    leap: Option<ClockLeap>,
    /// Since when the clock is followed again, as the store says and the journal does not say yet.
    followed: Option<Duration>,
    /// Since when the stored time is ahead of all that gates tell.
    ahead: Option<Duration>,
    /// Since when the clock has another correction than the journal says, and the latest number then.
    corrected_otherwise: Option<(Duration, Number)>,
}

/// A heartbeat's view of the clock of the Redis.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    pub clock: StoreTime,
    /// The store's time at that moment.
    pub at: StoreTime,
    /// The stored time before that moment.
    pub stored: StoreTime,
    /// The microseconds in `clock` that the store adds to the clock of the Redis.
    pub correction: i64,
    /// Changes when people have the clock followed again.
    pub epoch: u64,
    /// The monotonic times before and after.
    pub within: (Duration, Duration),
}

/// A clock of the store that a gate compared with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedClock {
    pub clock: StoreTime,
    pub leap: Option<ClockLeap>,
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

    /// Whether this gate knows from where the time goes on.
    pub fn has_begun(&self) -> bool {
        self.state().anchor.is_some()
    }

    /// Goes on from a time, which the clock of the Redis then shows with a shift.
    pub fn begin(&self, from: StoreTime, clock: StoreTime) {
        let mut state = self.state();
        state.anchor = Some(ClockAnchor::new(from, SystemClock.elapsed()));
        state.shift = from.as_micros().saturating_sub(clock.as_micros());
        state.is_settled = false;
    }

    /// Goes by the time of day of this machine, with which others agree, or by the clock of the Redis if it is alike.
    pub fn begin_settled(&self, of_day: StoreTime, clock: StoreTime) {
        let is_alike = clock.since(of_day).max(of_day.since(clock)) <= ALIKE_AT_START;
        let mut state = self.state();
        state.anchor = Some(ClockAnchor::new(if is_alike { clock } else { of_day }, SystemClock.elapsed()));
        (state.shift, state.is_settled) = (0, true);
    }

    pub fn is_settled(&self) -> bool {
        self.state().is_settled
    }

    /// Compares the clock of the Redis with a time of day. If they are alike, the clock is right. If not, it leapt while this
    /// gate was down; or the time of day is wrong, where nobody said that it agrees: then the time goes on as it did.
    pub fn settle(&self, of_day: StoreTime, is_agreed: bool) {
        let mut state = self.state();
        let Some(last) = state.last else { return };
        let elapsed = SystemClock.elapsed();
        let passed = elapsed.saturating_sub(last.within.1);
        let clock = last.clock.plus(passed);
        let known = state.anchor.map(|anchor| anchor.expected(elapsed));
        // A clock that is a little ahead at each start goes no further ahead with each.
        let is_near = is_agreed && known.is_none_or(|known| known.since(of_day) <= ALIKE_AT_START);
        let expected = if is_near { of_day } else { known.map_or(of_day, |known| known.max(of_day)) };
        let is_alike = clock.since(expected).max(expected.since(clock)) <= ALIKE_AT_START;
        let right = match known {
            _ if is_alike => clock,
            Some(known) if !is_agreed => known,
            Some(_) => expected,
            // A store of which nothing is known has nothing that a wrong time could end.
            None => {
                if is_agreed {
                    of_day
                } else {
                    clock
                }
            }
        };
        state.anchor = Some(ClockAnchor::new(right, elapsed));
        (state.shift, state.is_settled, state.leap) = (0, true, None);
        // A time that was told before was not compared.
        self.told.store(right.as_micros(), Ordering::SeqCst);
    }

    /// Returns the microseconds that are added to the clock of the Redis.
    pub fn shift(&self) -> i64 {
        self.state().shift
    }

    /// Returns the expected time, how far the clock may differ from it, and the shift of a gate that has not settled; `None`
    /// where nothing is expected.
    pub fn expected(&self) -> Option<ExpectedTime> {
        let elapsed = SystemClock.elapsed();
        let (anchor, shift) = {
            let state = self.state();
            (state.anchor, (!state.is_settled).then_some(state.shift))
        };
        anchor.map(|anchor| {
            let tolerance = u64::try_from(anchor.tolerance(elapsed).as_micros()).unwrap_or(u64::MAX);
            ExpectedTime { at: anchor.expected(elapsed), tolerance, shift }
        })
    }

    /// Returns the times between which the script makes a commit of this gate: never before the latest time that the gate was
    /// told, and not after what it expects, or has heard, by more than a stored time may be ahead. `None` where it expects and
    /// heard nothing.
    pub fn bounds(&self, deadline: Duration) -> Option<TimeBounds> {
        let expected = self.expected().map(|expected| {
            let unshifted = expected.at.as_micros().saturating_sub(expected.shift.unwrap_or_default());
            expected.at.max(StoreTime::of_micros(unshifted)).plus(Duration::from_micros(expected.tolerance))
        });
        let latest = expected.max(self.now())?.max(self.told());
        Some(TimeBounds { from: self.told(), until: latest.plus(ALIKE_AT_START).plus(deadline) })
    }

    /// Compares the clock of the Redis with the expected time.
    pub fn compare(&self, reading: ClockReading) {
        let mut state = self.state();
        let has_changed = state.last.is_some_and(|last| last.epoch != reading.epoch);
        state.last = Some(reading);
        let (Some(anchor), true) = (state.anchor, state.is_settled) else { return };
        let (_, to) = reading.within;
        let is_ahead = reading.is_ahead_of(anchor);
        let ahead = state.ahead.filter(|_| is_ahead);
        state.ahead = ahead.or_else(|| is_ahead.then_some(to));
        if has_changed {
            state.followed = Some(to);
        }
        if state.followed.is_some_and(|since| to.saturating_sub(since) <= JOURNALLED_WITHIN) {
            state.leap = None;
            return;
        }
        state.followed = None;
        state.leap = anchor.leap(reading.clock, reading.within);
        if state.leap.is_none() && anchor.is_old(to) {
            state.anchor = Some(reading.anchor_behind(anchor));
        }
    }

    /// Whether the store says that people have the clock followed again.
    pub fn says_followed(&self) -> bool {
        self.state().followed.is_some()
    }

    /// Whether somebody else than a gate wrote the stored time.
    pub fn has_foreign_time(&self) -> bool {
        let state = self.state();
        let (ahead, last) = (state.ahead, state.last.map(|last| last.within.1));
        ahead.zip(last).is_some_and(|(since, now)| now.saturating_sub(since) >= AHEAD_FOR)
    }

    /// Returns the correction with which the time of the store goes on: as this gate expects it where the clock leapt ahead,
    /// and from the latest time where the clock is behind, as this gate's own may be ahead.
    pub fn correction(&self) -> Option<i64> {
        let state = self.state();
        let (anchor, last) = (state.anchor?, state.last?);
        let uncorrected = last.clock.as_micros().saturating_sub(last.correction);
        let is_behind = state.leap.is_some_and(|leap| !leap.is_ahead);
        let right = if is_behind { last.at } else { anchor.expected(last.middle()) };
        Some(right.as_micros().saturating_sub(uncorrected))
    }

    /// Expects the time to go on from the latest one, with which the clock is being corrected.
    pub fn go_on_from_latest(&self) {
        let mut state = self.state();
        if let Some(last) = state.last {
            (state.anchor, state.leap) = (Some(ClockAnchor::new(last.at, last.middle())), None);
        }
    }

    /// Whether the clock of the store has had another correction than this one of the journal for a while, and the journal has
    /// all that the store had before. `latest` is the latest number of the store, `kept` that of the journal.
    pub fn is_corrected_otherwise(&self, journalled: i64, latest: Number, kept: Number) -> bool {
        let mut state = self.state();
        let Some(last) = state.last.filter(|last| last.correction != journalled) else {
            state.corrected_otherwise = None;
            return false;
        };
        let (since, behind) = *state.corrected_otherwise.get_or_insert((last.within.1, latest));
        let is_sure = last.within.1.saturating_sub(since) > JOURNALLED_WITHIN && kept >= behind;
        if is_sure {
            state.corrected_otherwise = None;
        }
        is_sure
    }

    /// Takes the latest time of the store as right, and compares with it from now on; not a time that is ahead of the clock and
    /// of what was expected alike. Returns whether it did: not where the clock has another correction than this one of the
    /// journal.
    pub fn meet(&self, journalled: i64) -> bool {
        self.go_on(journalled, |last, anchor| anchor.map_or_else(|| last.anchor(), |before| last.anchor_behind(before)))
    }

    /// Takes the clock that another gate finds right: what this one expected, and told the store, was wrong. Returns whether
    /// it did, as `meet`.
    pub fn take_clock(&self, journalled: i64) -> bool {
        self.go_on(journalled, |last, _| ClockAnchor::new(last.clock, last.middle()))
    }

    fn go_on(&self, journalled: i64, from: impl FnOnce(ClockReading, Option<ClockAnchor>) -> ClockAnchor) -> bool {
        let mut state = self.state();
        let Some(last) = state.last.filter(|last| last.correction == journalled) else { return false };
        let anchor = from(last, state.anchor);
        state.anchor = Some(anchor);
        (state.leap, state.followed) = (None, None);
        // A stored time that no gate told is still to be put right.
        state.ahead = state.ahead.filter(|_| last.is_ahead_of(anchor));
        (state.is_settled, state.shift) = (true, 0);
        self.told.store(anchor.expected(last.middle()).as_micros(), Ordering::SeqCst);
        true
    }

    /// Returns the latest clock that was compared; `None` while none is.
    pub fn compared(&self) -> Option<ComparedClock> {
        let state = self.state();
        let is_compared = state.is_settled && state.anchor.is_some() && state.followed.is_none();
        state.last.filter(|_| is_compared).map(|last| ComparedClock { clock: last.clock, leap: state.leap })
    }
}

impl ClockReading {
    /// The monotonic time at which the clock was read, as far as is known.
    fn middle(&self) -> Duration {
        let (from, to) = self.within;
        from.saturating_add(to.saturating_sub(from) / 2)
    }

    /// The store's time may be ahead of its clock where it waits for it.
    fn anchor(&self) -> ClockAnchor {
        let is_near = self.at.since(self.clock) <= ALIKE_AT_START;
        let time = if is_near { self.clock } else { self.at };
        ClockAnchor::new(time, self.middle())
    }

    /// Returns the anchor that follows another one. A time that is ahead of the clock, and of what was expected too, is not
    /// gone on from: somebody wrote it.
    fn anchor_behind(&self, before: ClockAnchor) -> ClockAnchor {
        let at = self.at.min(before.expected(self.middle()).max(self.clock));
        ClockReading { at, ..*self }.anchor()
    }

    /// Whether the stored time is further ahead of what is expected than any gate tells.
    fn is_ahead_of(&self, anchor: ClockAnchor) -> bool {
        let (_, to) = self.within;
        self.stored > anchor.expected(to).plus(anchor.tolerance(to)).plus(ALIKE_AT_START)
    }
}

#[cfg(test)]
mod tests;
