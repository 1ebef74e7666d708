//! The store's time: it never runs back, never stops, and ignores a clock that leaps.
//!
//! Within a process the time continues from the last reported time with the monotonic clock, and follows the time of
//! day only while that differs by no more than two clocks may. A leap is kept for the gate, which closes money.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ledger::{ClockAnchor, ClockLeap, StoreTime};
use crate::ports::Clock;

/// A longer time between the readings of two clocks means that the machine was paused in between.
const READ_WITHIN: Duration = Duration::from_millis(50);
/// A machine on which each reading takes longer goes on with the last one.
const MAX_READINGS: usize = 10;

#[derive(Debug)]
pub(super) struct Ticker {
    clock: Arc<dyn Clock>,
    told: Mutex<TickerState>,
}

#[derive(Clone, Copy, Debug)]
struct TickerState {
    time: StoreTime,
    /// The monotonic time at that moment.
    at: Duration,
    anchor: ClockAnchor,
    /// How far the store's time is ahead of the time of day, since a person accepted it.
    ahead: Duration,
    leap: Option<ClockLeap>,
    /// Whether the time of day was compared with that of others, or with the time before.
    is_settled: bool,
}

/// The time at which a store begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum TickerStart {
    /// The time of day, as it is.
    OfDay,
    /// The time that the store should have by now.
    Expected(StoreTime),
    /// Nobody knows how long the process was down: the time goes on from the last commit until the time of day is compared
    /// with that of others.
    Unknown,
}

impl Ticker {
    /// Creates a time that is never less than `since`.
    pub fn new(clock: Arc<dyn Clock>, since: StoreTime, start: TickerStart) -> Ticker {
        // A store without any commit has nothing that a wrong time could end.
        let is_settled = !matches!(start, TickerStart::Unknown) || since == StoreTime::default();
        let PairedClocks { of_day, at, .. } = PairedClocks::take(&*clock);
        let time = match start {
            TickerStart::Expected(expected) => since.max(expected),
            _ if is_settled => since.max(of_day),
            _ => since,
        };
        let anchor = ClockAnchor::new(time, at);
        let told = TickerState { time, at, anchor, ahead: Duration::ZERO, leap: None, is_settled };
        Ticker { clock, told: Mutex::new(told) }
    }

    /// Whether the time of day was compared.
    pub fn is_settled(&self) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).is_settled
    }

    /// Takes the time of day as right, unless it was compared already. Returns whether it does so now.
    pub fn settle(&self) -> bool {
        let is_new = !self.is_settled();
        if is_new {
            self.follow();
        }
        is_new
    }

    pub fn now(&self) -> StoreTime {
        self.look().time
    }

    /// Returns how the time of day differs from what the monotonic clock expects, if it leapt.
    pub fn leap(&self) -> Option<ClockLeap> {
        self.look().leap
    }

    /// Follows the time of day again, whatever it shows. A store whose time is ahead of it stays so.
    pub fn follow(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let PairedClocks { of_day, at, .. } = PairedClocks::take(&*self.clock);
        let time = told.steady(at).max(of_day);
        let anchor = ClockAnchor::new(time, at);
        *told = TickerState { time, at, anchor, ahead: time.since(of_day), leap: None, is_settled: true };
    }

    fn look(&self) -> TickerState {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.is_settled {
            let at = self.clock.elapsed().max(told.at);
            *told = TickerState { time: told.steady(at), at, ..*told };
            return *told;
        }
        let PairedClocks { from, of_day, at } = PairedClocks::take(&*self.clock);
        let steady = told.steady(at);
        let of_day = of_day.plus(told.ahead);
        let leap = told.anchor.leap(of_day, (from, at));
        if leap.is_some() && told.leap.is_none() {
            tracing::error!("the time of day leapt and is not followed: set the clock of this machine right");
        }
        let time = if leap.is_some() { steady } else { steady.max(of_day) };
        let is_renewed = leap.is_none() && told.anchor.is_old(at);
        let anchor = if is_renewed { ClockAnchor::new(time, at) } else { told.anchor };
        *told = TickerState { time, at: at.max(told.at), anchor, leap, ..*told };
        *told
    }
}

impl TickerState {
    fn steady(&self, elapsed: Duration) -> StoreTime {
        self.time.plus(elapsed.saturating_sub(self.at))
    }
}

/// The time of day, and the monotonic times right before and after it was read.
#[derive(Clone, Copy, Debug)]
struct PairedClocks {
    from: Duration,
    of_day: StoreTime,
    at: Duration,
}

impl PairedClocks {
    /// Reads both clocks. A machine that is paused in between makes them differ by the length of the pause, so they are
    /// read again.
    fn take(clock: &dyn Clock) -> PairedClocks {
        let read = || {
            let from = clock.elapsed();
            let of_day = StoreTime::of_micros(clock.now().as_microsecond());
            PairedClocks { from, of_day, at: clock.elapsed() }
        };
        let mut reading = read();
        for _ in 1..MAX_READINGS {
            if reading.at.saturating_sub(reading.from) <= READ_WITHIN {
                break;
            }
            reading = read();
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use jiff::Timestamp;

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// The time of day and the monotonic time, in microseconds.
    #[derive(Debug, Default)]
    struct Hands(AtomicI64, AtomicI64);

    impl Clock for Hands {
        fn now(&self) -> Timestamp {
            Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
        }

        fn elapsed(&self) -> Duration {
            Duration::from_micros(u64::try_from(self.1.load(Ordering::SeqCst)).unwrap())
        }
    }

    #[test]
    fn time_goes_on_whatever_the_time_of_day_does() {
        let hands = Arc::new(Hands::default());
        let set = |of_day: i64, elapsed: i64| {
            hands.0.store(of_day, Ordering::SeqCst);
            hands.1.store(elapsed, Ordering::SeqCst);
        };
        set(100 * HOUR, 0);
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(0), TickerStart::OfDay);
        let told = || ticker.now().as_micros();
        assert_eq!(told(), 100 * HOUR);
        for (of_day, elapsed, wanted) in [
            (100 * HOUR + 5, 5, 100 * HOUR + 5),
            // Set back: the time goes on with the monotonic clock.
            (7, 9, 100 * HOUR + 9),
            (8, 10 * HOUR, 110 * HOUR),
            // A little ahead: followed.
            (110 * HOUR + 60, 10 * HOUR + 1, 110 * HOUR + 60),
            // Far ahead: not followed, however often it is read.
            (111 * HOUR, 10 * HOUR + 3, 110 * HOUR + 62),
            (9_000 * HOUR, 10 * HOUR + 4, 110 * HOUR + 63),
            // Corrected.
            (110 * HOUR + 99, 10 * HOUR + 5, 110 * HOUR + 99),
        ] {
            set(of_day, elapsed);
            assert_eq!(told(), wanted, "{of_day} {elapsed}");
        }
    }

    #[test]
    fn a_start_tells_no_less_than_before() {
        let hands = Arc::new(Hands::default());
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(50), TickerStart::OfDay);
        assert_eq!(ticker.now().as_micros(), 50);
        hands.1.store(3, Ordering::SeqCst);
        assert_eq!(ticker.now().as_micros(), 53);
    }

    #[test]
    fn a_leap_is_kept_until_the_clock_returns_or_a_person_has_it_followed() {
        let hands = Arc::new(Hands::default());
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(0), TickerStart::OfDay);
        let set = |of_day: i64, elapsed: i64| {
            hands.0.store(of_day, Ordering::SeqCst);
            hands.1.store(elapsed, Ordering::SeqCst);
            (ticker.now().as_micros(), ticker.leap().map(ClockLeap::as_micros))
        };
        assert_eq!(set(5, 5), (5, None));
        assert_eq!(set(HOUR + 6, 6), (6, Some(HOUR)));
        assert_eq!(set(7, 7), (7, None));
        assert_eq!(set(8 - HOUR, 8), (8, Some(-HOUR)));
        // It stays ahead of a clock that was set back, and does not stop.
        ticker.follow();
        assert_eq!(set(9 - HOUR, 9), (9, None));
        assert_eq!(set(10, 10), (10, Some(HOUR)));
        ticker.follow();
        assert_eq!(set(11, 11), (11, None));
        assert_eq!(set(2 * HOUR, 12), (12, Some(2 * HOUR - 12)));
        ticker.follow();
        assert_eq!(set(2 * HOUR + 1, 13), (2 * HOUR + 1, None));
    }

    /// Clocks of a machine that is paused for a day, once, right before the reading of that number.
    #[derive(Debug)]
    struct PausedOnce {
        pause: usize,
        readings: AtomicUsize,
    }

    impl PausedOnce {
        /// Returns the microseconds since the start: each reading takes one.
        fn read(&self) -> i64 {
            self.at(self.readings.fetch_add(1, Ordering::SeqCst))
        }

        fn at(&self, reading: usize) -> i64 {
            let paused = if reading >= self.pause { 24 * HOUR } else { 0 };
            paused + i64::try_from(reading).unwrap()
        }
    }

    impl Clock for PausedOnce {
        fn now(&self) -> Timestamp {
            Timestamp::from_microsecond(100 * HOUR + self.read()).unwrap()
        }

        fn elapsed(&self) -> Duration {
            Duration::from_micros(u64::try_from(self.read()).unwrap())
        }
    }

    #[test]
    fn a_pause_between_the_readings_of_two_clocks_counts_once_and_is_no_leap() {
        for pause in 0..30 {
            let clock = Arc::new(PausedOnce { pause, readings: AtomicUsize::new(0) });
            let ticker = Ticker::new(clock.clone(), StoreTime::of_micros(0), TickerStart::OfDay);
            for round in 0..12 {
                if round == 5 {
                    ticker.follow();
                }
                let told = ticker.look();
                let expected = 100 * HOUR + clock.at(clock.readings.load(Ordering::SeqCst) - 1);
                let off = expected - told.time.as_micros();
                assert!((0..100).contains(&off), "pause before {pause}, round {round}: off by {off}");
                assert_eq!((told.leap.map(ClockLeap::as_micros), told.ahead.as_micros()), (None, 0), "{pause} {round}");
            }
        }
    }

    #[test]
    fn a_start_goes_on_from_the_expected_time() {
        let hands = Arc::new(Hands::default());
        hands.0.store(48 * HOUR, Ordering::SeqCst);
        let expected = TickerStart::Expected(StoreTime::of_micros(2 * HOUR));
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(HOUR), expected);
        assert_eq!(ticker.now().as_micros(), 2 * HOUR);
        assert_eq!(ticker.leap().map(ClockLeap::as_micros), Some(46 * HOUR));
    }
    #[test]
    fn a_start_after_an_unknown_time_goes_on_from_the_last_commit_until_the_time_of_day_is_compared() {
        let hands = Arc::new(Hands::default());
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(HOUR), TickerStart::Unknown);
        let set = |of_day: i64, elapsed: i64| {
            hands.0.store(of_day, Ordering::SeqCst);
            hands.1.store(elapsed, Ordering::SeqCst);
            (ticker.now().as_micros(), ticker.leap().map(ClockLeap::as_micros))
        };
        // Neither a clock that is 500 days ahead ends anything, nor one that was set back.
        assert_eq!(set(12_000 * HOUR, 5), (HOUR + 5, None));
        assert_eq!(set(0, 6), (HOUR + 6, None));
        assert_eq!(set(3 * HOUR, 7), (HOUR + 7, None));
        assert!(!ticker.is_settled() && ticker.settle() && ticker.is_settled() && !ticker.settle());
        assert_eq!(set(3 * HOUR + 1, 8), (3 * HOUR + 1, None));
        assert_eq!(set(9 * HOUR, 9), (3 * HOUR + 2, Some(6 * HOUR - 2)));
        // A store without any commit has nothing to lose.
        let first = Ticker::new(hands.clone(), StoreTime::of_micros(0), TickerStart::Unknown);
        assert!(first.is_settled() && first.now().as_micros() == 9 * HOUR);
    }
}
