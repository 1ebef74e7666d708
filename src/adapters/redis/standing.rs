//! One connection to the Redis, and those that are dedicated to single calls.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redis::Client;
use ::redis::aio::MultiplexedConnection;

use super::fitness::UnfitRedis;
use super::host::NamedPrimary;

/// A connection, as long as it is not lost.
pub(super) struct ConnectionStanding {
    pub client: Client,
    /// The primary as others named it, if its address may change.
    pub named: Option<NamedPrimary>,
    pub shared: MultiplexedConnection,
    pub run: String,
    /// Set from a late answer until the next check succeeds.
    pub is_late: AtomicBool,
    /// Dedicated connections that are idle.
    pub alone: Mutex<Vec<MultiplexedConnection>>,
}

/// Why a connection failed.
pub(super) enum NotConnected {
    Error(String),
    Unfit(UnfitRedis),
}

impl ConnectionStanding {
    pub fn unused(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
