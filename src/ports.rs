//! What the pure parts and the journeys need of the world, as traits; `adapters` fulfil them.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::base::digest::Fingerprint;
use crate::policy::{Mark, Quota, Rate};
use crate::stations::forward::{Outgoing, Sent};

/// The time of day.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The API behind the gate, in one environment.
#[async_trait]
pub trait Upstream: fmt::Debug + Send + Sync {
    /// Sends once, never again, and says what is known afterwards. It ends by its own deadlines.
    async fn send(&self, outgoing: Outgoing) -> Sent;
}

/// What a call takes from one bucket of a rate.
#[derive(Clone, Copy, Debug)]
pub struct Take<'r> {
    pub rate: &'r Rate,
    /// The place of the rate among all.
    pub at: usize,
    pub quota: Quota,
    pub bucket: Fingerprint,
}

/// The buckets of all rates that have a quota.
#[async_trait]
pub trait RateLimiter: fmt::Debug + Send + Sync {
    /// Takes one call from every bucket that has room; but from none at all if an enforced one has none. What each
    /// says, in the order of the takes: nothing where it was not asked, because another had refused already.
    async fn take(&self, takes: &[Take<'_>]) -> Vec<Option<Mark>>;
}
