//! What the pure parts and the journeys need of the world, as traits; `adapters` fulfil them.

use std::fmt;

use jiff::Timestamp;

/// The time of day.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}
