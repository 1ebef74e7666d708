//! The clocks of a world whose time is that of the test's runtime, which is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sluice::ports::Clock;
use tokio::time::Instant;

const BEGIN: i64 = 1_800_000_000_000_000;

/// A clock of the runtime's time, whose time of day can leap.
#[derive(Debug)]
pub struct PausedClock {
    since: Instant,
    ahead_secs: AtomicI64,
}

impl PausedClock {
    pub fn since(since: Instant) -> Arc<PausedClock> {
        Arc::new(PausedClock { since, ahead_secs: AtomicI64::new(0) })
    }

    /// Sets it ahead of the right time, or back.
    pub fn leap(&self, seconds: i64) {
        self.ahead_secs.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead_secs.load(Ordering::SeqCst) * 1_000_000;
        let elapsed = i64::try_from(self.since.elapsed().as_micros()).unwrap();
        Timestamp::from_microsecond(BEGIN + ahead + elapsed).unwrap()
    }

    fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}
