//! The one place where tests read the clock.
#![expect(clippy::disallowed_methods, reason = "deadlines are what this is for")]

use std::time::{Duration, Instant};

/// How long a test waits for anything before it fails: what takes long on a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    pub fn start() -> Watch {
        Watch(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// What is left of the patience.
    pub fn left(self) -> Duration {
        PATIENCE.saturating_sub(self.0.elapsed())
    }
}

/// Waits for what no thread of this process can tell of.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Watch::start();
    while !is_so() {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The time of day in so many seconds, as an answer tells it.
pub fn http_date(seconds: i64) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The time in so many milliseconds, as upstream states it.
pub fn upstream_time(milliseconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_millis(milliseconds)).to_string()
}

/// The milliseconds of a day.
pub const DAY: i64 = 86_400_000;
