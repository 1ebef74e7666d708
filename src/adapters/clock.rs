//! The machine's own clocks.
#![expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::ports::Clock;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

/// Where this process's own time begins.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        BEGIN.elapsed()
    }
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
