//! The head of an answer that is asked for at a start, because it has upstream's date.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONNECTION, HOST};
use pingora::http::RequestHeader;
use pingora::protocols::http::v1::client::HttpSession;
use tokio::time::timeout;

use super::PinnedUpstream;
use super::bounded_head::BoundedHeads;
use super::exchange::read_head;

/// The whole question ends within this time.
const DEADLINE: Duration = Duration::from_secs(5);

impl PinnedUpstream {
    /// Asks for the root of upstream's paths, without a token and over a connection of its own; returns the head of the
    /// answer, whatever its status. Nothing is logged: calls log why upstream cannot be reached.
    pub async fn answer_head(&self) -> Option<HeaderMap> {
        timeout(DEADLINE, self.asked_head()).await.ok().flatten()
    }

    async fn asked_head(&self) -> Option<HeaderMap> {
        for attempt in 0..self.tries() {
            let peer = self.peer(attempt)?;
            let Ok(stream) = self.connector.new_stream(&peer).await else { continue };
            let mut session = HttpSession::new_with_options(BoundedHeads::over(stream, &self.answers), &peer);
            let path = format!("{}/", self.origin.base_path);
            let mut head = RequestHeader::build("HEAD", path.as_bytes(), Some(2)).ok()?;
            head.insert_header(HOST, self.origin.host.clone()).ok()?;
            head.insert_header(CONNECTION, "close").ok()?;
            session.write_request_header(Box::new(head)).await.ok()?;
            read_head(&mut session).await.ok()?;
            return session.resp_header().map(|head| head.headers.clone());
        }
        None
    }
}
