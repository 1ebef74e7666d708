//! Comparison of the store's clock with a gate's monotonic clock.
//!
//! A clock that leaps would free windows, claims and holds, or stop them for good. So the time of a store goes on at the
//! pace of monotonic clocks, and a clock that differs from it by more than [`TOLERANCE`] and [`MAX_DRIFT_PPM`] counts as
//! leapt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::StoreTime;
use super::step::Step;

/// How much a clock may differ from a monotonic clock at any time.
pub const TOLERANCE: Duration = Duration::from_secs(2);
/// How many microseconds it may differ further, for each second that passes.
const MAX_DRIFT_PPM: u32 = 500;
/// A comparison that found nothing begins anew after this time, so that its tolerance stays small.
const RENEWED_AFTER: Duration = Duration::from_secs(3_600);

/// A time of the store, and the monotonic time at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnchor {
    time: StoreTime,
    at: Duration,
}

/// The times of the store between which it makes a commit, as the committing gate knows before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeBounds {
    #[serde(rename = "fromMicros")]
    pub from: StoreTime,
    #[serde(rename = "untilMicros")]
    pub until: StoreTime,
}

impl TimeBounds {
    pub fn contain(self, time: StoreTime) -> bool {
        self.from <= time && time < self.until
    }

    /// Returns bounds for a commit that no guard holds to them, as it writes a store anew: it may take that much longer, and the
    /// store has no time yet.
    pub fn for_rebuild(self, longest: Duration) -> TimeBounds {
        TimeBounds { from: StoreTime::default(), until: self.until.plus(longest) }
    }

    /// The guards of a commit that is made between them, or not at all.
    pub fn guards(self) -> [Step; 2] {
        [Step::After(self.from), Step::Before(self.until)]
    }
}

/// A clock that differs from what a monotonic clock expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLeap {
    pub is_ahead: bool,
    pub by: Duration,
}

impl ClockAnchor {
    pub fn new(time: StoreTime, at: Duration) -> ClockAnchor {
        ClockAnchor { time, at }
    }

    /// Returns the time that the store should have at a monotonic time.
    pub fn expected(&self, elapsed: Duration) -> StoreTime {
        self.time.plus(elapsed.saturating_sub(self.at))
    }

    /// Returns how much the store's clock may differ from the expected time.
    pub fn tolerance(&self, elapsed: Duration) -> Duration {
        let drift = elapsed.saturating_sub(self.at).saturating_mul(MAX_DRIFT_PPM) / 1_000_000;
        TOLERANCE.saturating_add(drift)
    }

    /// Compares a clock that was read between two monotonic times.
    pub fn leap(&self, clock: StoreTime, (from, to): (Duration, Duration)) -> Option<ClockLeap> {
        let tolerance = self.tolerance(to);
        let (earliest, latest) = (self.expected(from), self.expected(to));
        if clock > latest.plus(tolerance) {
            return Some(ClockLeap { is_ahead: true, by: clock.since(latest) });
        }
        let is_behind = clock < earliest.minus(tolerance);
        is_behind.then(|| ClockLeap { is_ahead: false, by: earliest.since(clock) })
    }

    pub fn is_old(&self, elapsed: Duration) -> bool {
        elapsed.saturating_sub(self.at) > RENEWED_AFTER
    }
}

impl ClockLeap {
    /// Returns the microseconds by which the clock is ahead; less than zero where it is behind.
    pub fn as_micros(self) -> i64 {
        let by = i64::try_from(self.by.as_micros()).unwrap_or(i64::MAX);
        if self.is_ahead { by } else { by.saturating_neg() }
    }

    pub fn of_micros(micros: i64) -> ClockLeap {
        ClockLeap { is_ahead: micros > 0, by: Duration::from_micros(micros.unsigned_abs()) }
    }

    /// Describes the leap in words for people.
    pub fn text(self) -> String {
        let by = self.by;
        let direction = if self.is_ahead { "ahead of" } else { "behind" };
        format!("{}.{:03} s {direction} what the gate's monotonic clock expects", by.as_secs(), by.subsec_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_may_differ_by_two_seconds_and_drift() {
        let anchor = ClockAnchor::new(StoreTime::of_micros(0), SECOND * 100);
        let leap = |clock: i64, from: u32, to: u32| {
            let found = anchor.leap(StoreTime::of_micros(clock * 1_000), (SECOND * from, SECOND * to));
            found.map(|leap| leap.as_micros() / 1_000)
        };
        for (clock, from, to, wanted) in [
            (0, 100, 100, None),
            (2_000, 100, 100, None),
            (2_001, 100, 100, Some(2_001)),
            (-2_000, 100, 100, None),
            (-2_001, 100, 100, Some(-2_001)),
            // An answer that was late says little of when its clock was read.
            (12_000, 100, 110, None),
            (-2_000, 100, 110, None),
            (12_006, 100, 110, Some(2_006)),
            // 1,000 s later the clocks may have drifted by 500 ms.
            (1_002_500, 1_100, 1_100, None),
            (1_002_501, 1_100, 1_100, Some(2_501)),
            (997_500, 1_100, 1_100, None),
            (997_499, 1_100, 1_100, Some(-2_501)),
        ] {
            assert_eq!(leap(clock, from, to), wanted, "{clock} {from} {to}");
        }
    }

    #[test]
    fn a_leap_is_written_with_its_direction() {
        for micros in [2_500_000, -86_400_000_000] {
            assert_eq!(ClockLeap::of_micros(micros).as_micros(), micros);
        }
        assert!(ClockLeap::of_micros(-2_500_000).text().starts_with("2.500 s behind"));
    }
}
