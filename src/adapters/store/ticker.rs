//! The store's time: a clock that never runs back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::commit::StoreTime;
use crate::ports::Clock;

/// Stands still while the clock under it is behind what was told already.
#[derive(Debug)]
pub(super) struct Ticker {
    clock: Arc<dyn Clock>,
    told: AtomicI64,
}

impl Ticker {
    /// Never tells less than `since`.
    pub fn new(clock: Arc<dyn Clock>, since: StoreTime) -> Ticker {
        Ticker { clock, told: AtomicI64::new(since.as_micros()) }
    }

    pub fn now(&self) -> StoreTime {
        let now = self.clock.now().as_microsecond();
        StoreTime::of_micros(self.told.fetch_max(now, Ordering::SeqCst).max(now))
    }
}
