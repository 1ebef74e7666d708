//! The body of a write: read whole, up to its limit, within one deadline.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use pingora::proxy::Session;
use tokio::time::timeout;

use crate::stations::check::CheckRefusal;
use crate::stations::reply::Refusal;

/// The most that is read of a body after it was refused, so that its sender reads the refusal.
const DRAINED_BYTES: usize = 256 * 1024;

pub(super) async fn whole(session: &mut Session, limit_bytes: usize, deadline: Duration) -> Result<Bytes, Refusal> {
    match timeout(deadline, read(session, limit_bytes)).await {
        Ok(body) => body,
        Err(_) => Err(Refusal::BodySlow),
    }
}

/// Reads on for a while, so that closing the connection does not destroy the answer on its way.
pub(super) async fn drain(session: &mut Session, deadline: Duration) {
    let drained = timeout(deadline, async {
        let mut read = 0_usize;
        while read < DRAINED_BYTES {
            match session.read_request_body().await {
                Ok(Some(piece)) => read = read.saturating_add(piece.len()),
                Ok(None) | Err(_) => return,
            }
        }
    });
    if drained.await.is_err() {
        tracing::debug!("a refused body was still arriving when draining ended");
    }
}

async fn read(session: &mut Session, limit_bytes: usize) -> Result<Bytes, Refusal> {
    if session.get_header(EXPECT).is_some_and(|h| h.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.set_close_on_response_before_downstream_finish(false);
        session.write_continue_response().await.map_err(|_| Refusal::BodyBroken)?;
        session.set_close_on_response_before_downstream_finish(true);
    }
    let mut whole = BytesMut::new();
    while let Some(piece) = session.read_request_body().await.map_err(|_| Refusal::BodyBroken)? {
        if whole.len().saturating_add(piece.len()) > limit_bytes {
            return Err(Refusal::Check(CheckRefusal::TooLarge { limit_bytes }));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
