//! The machine's own clock.
#![expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]

use jiff::Timestamp;

use crate::ports::Clock;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
