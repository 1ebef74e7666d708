//! The lease of an attempt: how long its first byte may still leave.

use std::time::Duration;

/// A span on the node's own monotonic clock, begun before the commit that makes the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    until: Duration,
}

impl Lease {
    /// Begins now, by the monotonic clock.
    pub fn starting(now: Duration, length: Duration) -> Lease {
        Lease { until: now.saturating_add(length) }
    }

    /// Whether a first byte may leave at this moment of the same clock.
    pub fn is_live(self, now: Duration) -> bool {
        now < self.until
    }
}
