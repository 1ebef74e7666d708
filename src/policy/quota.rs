//! A number of calls in a period, and the arithmetic of a bucket: GCRA, the generic cell rate algorithm.
//!
//! A bucket is one number, its mark: the time at which it is full again. Each call moves the mark by one interval; a
//! call that would move it further ahead than a full bucket lasts is refused. Times are nanoseconds of any clock.

use std::fmt;
use std::time::Duration;

/// The shortest interval between two calls of a shared quota: the shared store counts in microseconds.
const SHORTEST_SHARED_NANOS: u64 = 100_000;
/// The longest time in which a bucket fills. A longer one is probably a mistake.
const LONGEST_FILL_NANOS: u64 = 366 * 86_400 * NANOS_PER_SEC;
const NANOS_PER_SEC: u64 = 1_000_000_000;
pub(super) const PERIODS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("day", 86_400)];

/// A number of calls in each period; `burst` of them at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    calls: u64,
    period_secs: u64,
    burst: u64,
    interval_nanos: u64,
}

/// The state of a bucket after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whether the bucket had room for the call, even if another bucket refused.
    pub has_room: bool,
    /// The calls that the bucket has room for now.
    pub left: u64,
    /// The time until it has room for one more; `None` if no time makes room.
    pub more_in: Option<Duration>,
    /// Whether more than four fifths are used.
    pub is_near: bool,
}

impl Quota {
    /// Parses `100/s`, `100/s burst 200`: a number of calls per `s`, `m`, `h` or `day`.
    pub fn parse(text: &str) -> Result<Quota, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let (rate, burst) = match words.as_slice() {
            [rate] => (*rate, None),
            [rate, "burst", burst] => (*rate, Some(*burst)),
            _ => return Err("it is not a number of calls per time, and a burst".to_owned()),
        };
        let (calls, unit) = rate.split_once('/').ok_or("the `/` and the period are missing")?;
        let calls = number(calls)?;
        let (_, period_secs) = PERIODS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("`{}` is not one of `s`, `m`, `h`, `day`", unit.escape_debug()))?;
        Quota::new(calls, period_secs, burst.map_or(Ok(calls), number)?)
    }

    /// Returns a quota of calls per minute.
    pub fn per_minute(calls: u64, burst: u64) -> Result<Quota, String> {
        Quota::new(calls, 60, burst)
    }

    fn new(calls: u64, period_secs: u64, burst: u64) -> Result<Quota, String> {
        // Rounded up, so that never too many calls pass.
        let interval_nanos = period_secs.saturating_mul(NANOS_PER_SEC).div_ceil(calls.max(1));
        if interval_nanos.checked_mul(burst).is_none_or(|fill| fill > LONGEST_FILL_NANOS) {
            return Err("the burst would take more than a year to refill".to_owned());
        }
        Ok(Quota { calls, period_secs, burst, interval_nanos })
    }

    /// Returns the quota in whole microseconds, for nodes that share it; `None` if it is too fast.
    pub fn for_sharing(self) -> Option<Quota> {
        let interval_nanos = self.interval_nanos.div_ceil(1_000).saturating_mul(1_000);
        (interval_nanos >= SHORTEST_SHARED_NANOS).then_some(Quota { interval_nanos, ..self })
    }

    /// Returns the part of one among several nodes that count separately. Never zero.
    pub fn part(self, nodes: u64) -> Quota {
        let nodes = nodes.max(1);
        let burst = (self.burst / nodes).max(1);
        Quota { burst, interval_nanos: self.interval_nanos.saturating_mul(nodes), ..self }
    }

    pub fn calls(self) -> u64 {
        self.calls
    }

    pub fn period_secs(self) -> u64 {
        self.period_secs
    }

    pub fn burst(self) -> u64 {
        self.burst
    }

    /// Returns how far one call moves the mark.
    pub fn interval(self) -> Duration {
        Duration::from_nanos(self.interval_nanos)
    }

    fn fill_nanos(self) -> u64 {
        self.interval_nanos.saturating_mul(self.burst)
    }

    /// Returns the mark as it is now. A mark too far ahead was made by another quota.
    fn settled(self, mark: u64, now: u64) -> u64 {
        mark.clamp(now, now.saturating_add(self.fill_nanos()))
    }

    /// Returns the mark after one more call, if there is room for it.
    pub fn after(self, mark: u64, now: u64) -> Option<u64> {
        let after = self.settled(mark, now).saturating_add(self.interval_nanos);
        (after <= now.saturating_add(self.fill_nanos())).then_some(after)
    }

    /// Returns the mark after one more call, which was made whether or not there was room.
    pub fn after_all(self, mark: u64, now: u64) -> u64 {
        self.after(mark, now).unwrap_or_else(|| now.saturating_add(self.fill_nanos()))
    }

    /// Returns how many calls still count, rounded up.
    pub fn used(self, mark: u64, now: u64) -> u64 {
        self.settled(mark, now).saturating_sub(now).div_ceil(self.interval_nanos.max(1))
    }

    /// Returns the mark after taking back the call that moved it to `after`. A bucket that has been full since then no
    /// longer counts the call; from then on, marks are not whole intervals apart.
    pub fn before(self, mark: u64, after: u64) -> u64 {
        let is_owed = mark.abs_diff(after).is_multiple_of(self.interval_nanos);
        if is_owed { mark.saturating_sub(self.interval_nanos) } else { mark }
    }

    /// Returns the state of a bucket whose mark is `ahead` of now.
    pub fn read(self, has_room: bool, ahead: Duration) -> Mark {
        let fill = self.fill_nanos();
        let ahead = u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX).min(fill);
        let free = fill.saturating_sub(ahead);
        let left = free.checked_div(self.interval_nanos).unwrap_or(0);
        let missing = self.interval_nanos.saturating_sub(free.checked_rem(self.interval_nanos).unwrap_or(0));
        let more_in = if left >= self.burst { Duration::ZERO } else { Duration::from_nanos(missing) };
        Mark { has_room, left, more_in: Some(more_in), is_near: ahead / 4 > fill / 5 }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = PERIODS.iter().find(|(_, secs)| *secs == self.period_secs).map_or("?", |(name, _)| name);
        write!(f, "{}/{unit} burst {}", self.calls, self.burst)
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|n| digits && (1..=1_000_000).contains(n));
    number.ok_or_else(|| format!("`{}` is not a whole number from 1 to 1000000", text.escape_debug()))
}

/// Returns the regular expression of a quota.
pub(super) fn pattern() -> String {
    let units = PERIODS.map(|(name, _)| name).join("|");
    format!("^[0-9]+/({units})( burst [0-9]+)?$")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOS_PER_SEC;

    fn quota(text: &str) -> Quota {
        Quota::parse(text).unwrap()
    }

    /// Returns whether each call at these times passes, and the mark at the end.
    fn passes(quota: Quota, times: &[u64]) -> (Vec<bool>, u64) {
        let mut mark = 0;
        let pass = |now: &u64| match quota.after(mark, *now) {
            Some(after) => {
                mark = after;
                true
            }
            None => false,
        };
        (times.iter().map(pass).collect(), mark)
    }

    #[test]
    fn a_quota_is_read_and_written() {
        for (text, written) in [
            ("100/s burst 200", "100/s burst 200"),
            ("100/s", "100/s burst 100"),
            ("1/m", "1/m burst 1"),
            ("5/h burst 1", "5/h burst 1"),
            ("1000/day", "1000/day burst 1000"),
        ] {
            assert_eq!(quota(text).to_string(), written);
        }
        for wrong in [
            "",
            "100",
            "/s",
            "100/",
            "100/sec",
            "100/S",
            "0/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "1e3/s",
            "100 / s",
            "100/s burst",
            "100/s burst 0",
            "100/s  burst 2",
            "100/s bursts 2",
            "100/s burst 2 x",
            "1000001/s",
            "1/day burst 400",
            "٣/s",
        ] {
            assert!(Quota::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_burst_is_exact_and_comes_back_one_by_one() {
        let quota = quota("10/s burst 3");
        let (passed, mark) = passes(quota, &[0, 0, 0, 0, SECOND / 10 - 1, SECOND / 10, SECOND / 10]);
        assert_eq!(passed, [true, true, true, false, false, true, false]);
        // After a long pause: the burst, and no more.
        let later = mark + 100 * SECOND;
        assert_eq!(passes(quota, &[later; 5]).0, [true, true, true, false, false]);
    }

    #[test]
    fn never_more_than_the_rate_and_the_burst() {
        for text in ["3/s burst 1", "7/s burst 7", "100/s burst 13", "1000/m"] {
            let quota = quota(text);
            let times: Vec<u64> = (0..20_000).map(|n| n * SECOND / 1_000).collect();
            let passed = passes(quota, &times).0.into_iter().filter(|p| *p).count() as u64;
            let meant = quota.calls() * 20 / quota.period_secs() + quota.burst();
            assert!(passed <= meant && passed * 100 >= meant * 97, "{text}: {passed} of {meant}");
        }
    }

    proptest::proptest! {
        /// Checks that between any two passing calls, no more pass than the burst plus the rate.
        #[test]
        fn no_window_holds_more(
            calls in 1_u64..5_000, period in 0_usize..4, burst in 1_u64..20,
            gaps in proptest::collection::vec(0_u64..300, 1..200),
        ) {
            let quota = Quota::new(calls, PERIODS[period].1, burst).unwrap();
            let interval = quota.interval_nanos;
            let (mut now, mut times) = (0, Vec::new());
            for gap in gaps {
                now += interval * gap / 100;
                times.push(now);
            }
            let passed = passes(quota, &times).0;
            let passed: Vec<u64> = times.iter().zip(passed).filter(|(_, passed)| *passed).map(|(at, _)| *at).collect();
            for (first, from) in passed.iter().enumerate() {
                for (count, to) in (1..).zip(&passed[first..]) {
                    proptest::prop_assert!(count <= burst + (to - from) / interval);
                }
            }
        }
    }

    #[test]
    fn waiting_as_long_as_is_told_lets_one_through() {
        for text in ["3/s burst 1", "7/m burst 5", "5/h burst 5", "1/day"] {
            let quota = quota(text);
            let (mut mark, mut now) = (0, 1_000);
            while let Some(after) = quota.after(mark, now) {
                (mark, now) = (after, now + 3);
            }
            let wait = quota.read(false, Duration::from_nanos(mark - now)).more_in.unwrap().as_nanos() as u64;
            assert!(quota.after(mark, now + wait).is_some(), "{text}");
            assert!(quota.after(mark, now + wait - 1).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_left_and_near_is_told() {
        let quota = quota("10/s burst 10");
        let read = |used: u32| quota.read(true, quota.interval() * used);
        assert_eq!((read(0).left, read(0).more_in), (10, Some(Duration::ZERO)));
        assert_eq!((read(1).left, read(1).more_in), (9, Some(quota.interval())));
        assert_eq!((read(10).left, read(10).more_in), (0, Some(quota.interval())));
        assert_eq!([7, 8, 9, 10].map(|used| read(used).is_near), [false, false, true, true]);
    }

    #[test]
    fn what_is_taken_back_is_given_once() {
        let quota = quota("10/s burst 3");
        let one = quota.after(0, 0).unwrap();
        let two = quota.after(one, 0).unwrap();
        assert_eq!(quota.before(two, one), one);
        // The bucket has been full since: nothing changes.
        let later = quota.after(one, 7 * SECOND + 5).unwrap();
        assert_eq!(quota.before(later, one), later);
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        for nodes in [0, 1, 2, 3, 1_000] {
            let (whole, part) = (quota("100/s burst 20"), quota("100/s burst 20").part(nodes));
            assert!(part.burst() >= 1 && part.burst() * nodes.max(1) <= whole.burst().max(nodes));
            assert_eq!(part.interval(), whole.interval() * u32::try_from(nodes.max(1)).unwrap());
        }
    }
}
