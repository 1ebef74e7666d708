//! Why a process cannot start.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::bookkeeping::BooksError;
use crate::adapters::credential::CredentialError;
use crate::adapters::identity::KeyringError;
use crate::adapters::redis::RedisFault;
use crate::adapters::upstream::UpstreamError;
use crate::adapters::webhook::WebhookError;
use crate::base::ids::Environment;

/// See the module.
#[derive(Debug)]
pub enum StartError {
    Bind { what: String, address: SocketAddr, error: io::Error },
    NotOurs(SocketAddr),
    Upstream { environment: Environment, error: UpstreamError },
    Tls { listener: &'static str, why: String },
    Clients { listener: &'static str, why: String },
    Keys(KeyringError),
    Credential(CredentialError),
    Metrics(prometheus::Error),
    Redis(RedisFault),
    Runtime(io::Error),
    Books(BooksError),
    Policies(String),
    Console(String),
    Webhook(WebhookError),
    Traces(reqwest::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { what, address, error } => {
                write!(
                    f,
                    "cannot listen on {address} ({what}): {error}; stop what listens there or set another address"
                )
            }
            StartError::NotOurs(address) => write!(
                f,
                "a socket that listens on {address} was handed over, and no `listen` names that address: who connects \
                 there would wait for ever; name it, or do not hand it over"
            ),
            StartError::Upstream { environment, error } => write!(f, "{environment}: {error}"),
            StartError::Tls { listener, why } => {
                write!(f, "{listener}: certificate and key cannot be used: {why}")
            }
            StartError::Clients { listener, why } => {
                write!(f, "{listener}: callers' certificates cannot be verified: {why}")
            }
            StartError::Keys(error) => error.fmt(f),
            StartError::Credential(error) => error.fmt(f),
            StartError::Metrics(error) => write!(f, "the metrics cannot be set up: {error}"),
            StartError::Redis(error) => error.fmt(f),
            StartError::Books(error) => error.fmt(f),
            StartError::Policies(why) => f.write_str(why),
            StartError::Console(why) => write!(f, "the console cannot be set up: {why}"),
            StartError::Webhook(error) => error.fmt(f),
            StartError::Traces(error) => write!(f, "traces cannot be exported: {error}"),
            StartError::Runtime(error) => write!(f, "the runtime cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<KeyringError> for StartError {
    fn from(error: KeyringError) -> StartError {
        StartError::Keys(error)
    }
}

impl From<WebhookError> for StartError {
    fn from(error: WebhookError) -> StartError {
        StartError::Webhook(error)
    }
}

impl From<CredentialError> for StartError {
    fn from(error: CredentialError) -> StartError {
        StartError::Credential(error)
    }
}
