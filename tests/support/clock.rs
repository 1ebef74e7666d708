//! The one place where tests read the clock.
#![expect(clippy::disallowed_methods, reason = "deadlines are what this is for")]

use std::time::{Duration, Instant};

/// How long a test waits for anything before it fails.
pub const PATIENCE: Duration = Duration::from_secs(15);

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
