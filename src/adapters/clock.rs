//! The machine's clocks.
#![expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::ports::Clock;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        // This clock also runs while the machine sleeps, which leases need.
        time_of(ClockId::Boottime)
    }

    fn paused(&self) -> Duration {
        // The clock that stands still is read first, so that the difference is never too small.
        let running = time_of(ClockId::Monotonic);
        time_of(ClockId::Boottime).saturating_sub(running)
    }
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
