//! The head of an answer that is asked for at a start, because it has upstream's date.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderValue};
use http::{HeaderMap, Method};
use tokio::time::timeout;

use super::PinnedUpstream;
use super::exchange::read_head;
use super::line::UpstreamLine;
use crate::stations::claim::Owner;

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
            let room = self.answers.share_of(&Arc::new(Owner::of_the_gate()));
            let mut line = UpstreamLine::new(stream, room);
            let path = format!("{}/", self.origin.base_path);
            let headers = [(HOST, self.origin.host.clone()), (CONNECTION, HeaderValue::from_static("close"))];
            line.write(&Method::HEAD, &path, &headers.into_iter().collect(), None).await.ok()?;
            return read_head(&mut line).await.ok().map(|head| head.headers);
        }
        None
    }
}
