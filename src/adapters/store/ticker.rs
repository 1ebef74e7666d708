//! The store's time: it never runs back, never stops, and ignores a clock that jumps far ahead.
//!
//! Within a process the time continues from the last reported time with the monotonic clock, and follows the time of
//! day only while that is ahead by at most [`LEAP`]: a clock set years ahead would otherwise expire every record.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ledger::StoreTime;
use crate::ports::Clock;

/// The largest jump ahead of the time of day that is followed.
const LEAP: Duration = Duration::from_secs(3_600);

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
    /// Whether the jump of the time of day has been logged.
    is_warned: bool,
}

impl Ticker {
    /// Creates a time that is never less than `since`. How long the process was down is unknown, so here the time of
    /// day is used as it is.
    pub fn new(clock: Arc<dyn Clock>, since: StoreTime) -> Ticker {
        let time = since.max(StoreTime::of_micros(clock.now().as_microsecond()));
        let told = TickerState { time, at: clock.elapsed(), is_warned: false };
        Ticker { clock, told: Mutex::new(told) }
    }

    pub fn now(&self) -> StoreTime {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.clock.elapsed();
        let steady = told.time.plus(elapsed.saturating_sub(told.at));
        let of_day = StoreTime::of_micros(self.clock.now().as_microsecond());
        let is_far = of_day > steady.plus(LEAP);
        if is_far && !told.is_warned {
            tracing::error!("the time of day jumped far ahead and is ignored: correct it, or restart the gate");
        }
        let time = if is_far { steady } else { steady.max(of_day) };
        *told = TickerState { time, at: elapsed.max(told.at), is_warned: is_far };
        time
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

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
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(0));
        let told = || ticker.now().as_micros();
        assert_eq!(told(), 100 * HOUR);
        for (of_day, elapsed, wanted) in [
            (100 * HOUR + 5, 5, 100 * HOUR + 5),
            // Set back: the time goes on with the monotonic clock.
            (7, 9, 100 * HOUR + 9),
            (8, 10 * HOUR, 110 * HOUR),
            // A little ahead: followed.
            (110 * HOUR + 60, 10 * HOUR + 1, 110 * HOUR + 60),
            (111 * HOUR, 10 * HOUR + 2, 111 * HOUR),
            // Far ahead: not followed, however often it is read.
            (9_000 * HOUR, 10 * HOUR + 3, 111 * HOUR + 1),
            (9_000 * HOUR, 10 * HOUR + 4, 111 * HOUR + 2),
            // Corrected.
            (111 * HOUR + 9, 10 * HOUR + 5, 111 * HOUR + 9),
        ] {
            set(of_day, elapsed);
            assert_eq!(told(), wanted, "{of_day} {elapsed}");
        }
    }

    #[test]
    fn a_start_tells_no_less_than_before() {
        let hands = Arc::new(Hands::default());
        let ticker = Ticker::new(hands.clone(), StoreTime::of_micros(50));
        assert_eq!(ticker.now().as_micros(), 50);
        hands.1.store(3, Ordering::SeqCst);
        assert_eq!(ticker.now().as_micros(), 53);
    }
}
