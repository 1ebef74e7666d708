//! Why a Redis cannot be used, and why it does not answer.

use std::borrow::Cow;

use ::redis::{ErrorKind, RedisError};
use thiserror::Error;

use super::fitness::UnfitRedis;

/// Why a Redis that accepts connections is of no use.
pub(super) const CLOSING: &str = "it ends each new connection at once: it has reached its `maxclients`, it expects TLS (`rediss://`), or a \
                                  proxy before it reaches no Redis";

/// Why the store cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotReady {
    #[error(transparent)]
    Unfit(UnfitRedis),
    #[error(
        "the Redis of `redis.url`, `redis.sentinels` or `redis.cluster` does not answer, or not in time \
         (`redis.timeout_ms`); without it nobody knows what was paid"
    )]
    Away,
    #[error("the Redis of `redis.url`, `redis.sentinels` or `redis.cluster` cannot be used: {CLOSING}")]
    Closing,
}

impl NotReady {
    /// Whether it stays so until somebody changes settings.
    pub fn is_misconfiguration(&self) -> bool {
        matches!(self, NotReady::Unfit(unfit) if unfit.is_misconfiguration())
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The command was not sent: the Redis is away, or too many calls wait for it.
    Away(Cow<'static, str>),
    /// The command was sent, and may have been executed.
    Lost(String),
    /// The Redis answered with an error: its first word, and the rest.
    Refused(String, String),
}

/// Returns in words why an answer was lost.
pub(super) fn lost(kind: ErrorKind) -> Cow<'static, str> {
    match kind {
        ErrorKind::UnexpectedReturnType => "its answer belongs to another call, or was changed on its way".into(),
        ErrorKind::Parse => "its answer is none that a Redis gives".into(),
        ErrorKind::Io => "the connection broke".into(),
        kind => format!("{kind:?}").into(),
    }
}

/// Whether an error says that the user or the password is refused.
pub(super) fn refuses_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| ["WRONGPASS", "NOAUTH"].contains(&code))
}

/// Why a Redis cannot be used at all. It does not repeat a URL, which may contain a password.
#[derive(Debug, Error)]
#[error("the address or the CA certificates of `[redis]` cannot be used")]
pub struct RedisFault;
