//! A read under way, over a connection that others may have used before.

use std::time::Duration;

use bytes::Bytes;
use pingora::http::ResponseHeader;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use super::exchange::write_request;
use crate::stations::forward::Outgoing;

pub struct OpenRead {
    pub(super) session: HttpSession,
    pub(super) peer: HttpPeer,
    pub(super) reused: bool,
    pub(super) write_time: Duration,
}

impl OpenRead {
    /// Whether another request used the connection before.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    pub async fn write(&mut self, outgoing: &Outgoing) -> Result<()> {
        let late = |_| Err(Error::explain(ErrorType::WriteTimedout, "a read was not written in time"));
        timeout(self.write_time, write_request(&mut self.session, outgoing)).await.unwrap_or_else(late)
    }

    /// Reads the next head, which may be an interim one. It can be given up and taken up again.
    pub async fn head(&mut self) -> Result<ResponseHeader> {
        self.session.read_response().await?;
        let head = self.session.resp_header();
        head.cloned().ok_or_else(|| Error::explain(ErrorType::InternalError, "an answer without its head"))
    }

    /// Reads the next piece of the body; `None` at its end. It can be given up and taken up again.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        self.session.read_body_bytes().await
    }

    /// Whether the whole answer is read.
    pub fn is_over(&mut self) -> bool {
        self.session.is_body_done()
    }
}

impl std::fmt::Debug for OpenRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenRead").field("reused", &self.reused).finish_non_exhaustive()
    }
}
