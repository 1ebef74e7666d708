//! A read under way, over a connection that others may have used before.

use std::time::Duration;

use bytes::Bytes;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use super::answer_head::AnswerHead;
use super::exchange::write_request;
use super::line::UpstreamLine;
use crate::stations::forward::Outgoing;

pub struct OpenRead {
    pub(super) line: UpstreamLine,
    /// The connections among which it waits afterwards.
    pub(super) pool: u64,
    pub(super) is_reused: bool,
    pub(super) write_time: Duration,
}

impl OpenRead {
    /// Whether another request used the connection before.
    pub fn is_reused(&self) -> bool {
        self.is_reused
    }

    pub async fn write(&mut self, outgoing: &Outgoing) -> Result<()> {
        let late = |_| Err(Error::explain(ErrorType::WriteTimedout, "a read was not written in time"));
        timeout(self.write_time, write_request(&mut self.line, outgoing)).await.unwrap_or_else(late)
    }

    /// Reads the next head, which may be an interim one. It can be given up and taken up again.
    pub async fn head(&mut self) -> Result<AnswerHead> {
        self.line.head().await
    }

    /// Reads the next piece of the body; `None` at its end. It can be given up and taken up again.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        self.line.piece().await
    }

    /// Whether the whole answer is read.
    pub fn is_over(&self) -> bool {
        self.line.is_over()
    }
}

impl std::fmt::Debug for OpenRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenRead").field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}
