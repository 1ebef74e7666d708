//! What the pure parts and the journeys need of the world, as traits; `adapters` fulfil them.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;

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
