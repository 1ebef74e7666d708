//! One connection to the Redis, and those that are dedicated to single calls.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

use super::cluster::ClusterError;
use super::endpoint::EndpointError;
use super::faults::{CLOSING, lost, refuses_login};
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
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NotConnected {
    #[error("{0}")]
    Error(String),
    /// A Redis without a free place, one that expects TLS, or a proxy does so.
    #[error("{CLOSING}")]
    Closing,
    #[error(transparent)]
    Unfit(UnfitRedis),
}

impl NotConnected {
    /// Returns what there is to say where nobody names the primary.
    pub fn unnamed(error: EndpointError) -> NotConnected {
        match error {
            EndpointError::Refused => NotConnected::Unfit(UnfitRedis::SentinelCredentials),
            EndpointError::Cluster(ClusterError::Refused) => NotConnected::Unfit(UnfitRedis::Credentials),
            error => NotConnected::Error(error.to_string()),
        }
    }

    /// Returns what an error says of the Redis to which the connection was to lead.
    pub fn of(error: &RedisError) -> NotConnected {
        match error.kind() {
            _ if refuses_login(error) => NotConnected::Unfit(UnfitRedis::Credentials),
            _ if error.is_connection_dropped() && !error.is_connection_refusal() => NotConnected::Closing,
            ErrorKind::Io => NotConnected::Error("it cannot be reached".to_owned()),
            ErrorKind::Server(ServerErrorKind::BusyLoading) => NotConnected::Error("it is loading its data".to_owned()),
            kind => NotConnected::Error(lost(kind).into_owned()),
        }
    }
}

impl ConnectionStanding {
    pub fn unused(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
