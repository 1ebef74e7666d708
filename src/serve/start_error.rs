//! The reasons why a process does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use super::open_node_error::OpenNodeError;
use crate::adapters::credential::CredentialError;
use crate::adapters::identity::KeyringError;
use crate::adapters::redis::RedisFault;
use crate::adapters::upstream::UpstreamError;
use crate::adapters::webhook::WebhookError;
use crate::base::ids::Environment;
use crate::edge::TlsError;

/// The reason why a process does not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("cannot listen on {address} ({what}): {error}; stop what listens there or set another address")]
    Bind { what: String, address: SocketAddr, error: io::Error },
    #[error(
        "the process inherited a socket that listens on {0}, but no `listen` setting names that address, so its \
         connections would not be served; name the address in a `listen` setting, or do not pass the socket"
    )]
    NotOurs(SocketAddr),
    #[error("{environment}: {error}")]
    Upstream { environment: Environment, error: UpstreamError },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(#[from] KeyringError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error("the metrics cannot be set up: {0}")]
    Metrics(prometheus::Error),
    #[error(transparent)]
    Redis(RedisFault),
    #[error(
        "this process may have {started} more threads, and a gate needs {needed}: {error}; raise its limits (`LimitNPROC`, \
         `TasksMax` and `LimitAS` of systemd, `ulimit -u` and `ulimit -v` of a shell, `pids` of a container)"
    )]
    Threads { started: usize, needed: usize, error: io::Error },
    #[error("this process may have {limit} file descriptors, and a gate needs {needed} at the very least; {remedy}")]
    Descriptors { limit: usize, needed: usize, remedy: &'static str },
    #[error("the async runtime cannot start: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    Node(OpenNodeError),
    #[error("{0}")]
    Policies(String),
    #[error("the console cannot be set up: {0}")]
    Console(String),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("traces cannot be exported: {0}")]
    Traces(reqwest::Error),
}
