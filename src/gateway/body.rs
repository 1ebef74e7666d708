//! The body of a write: read whole, up to its limit, within one deadline, where there is room.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora::proxy::Session;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::Gate;
use crate::stations::check::CheckRefusal;
use crate::stations::reply::Refusal;

/// Reads the body; the permit holds its room until the body is no longer needed.
pub(super) async fn whole<'g>(gate: &'g Gate, session: &mut Session) -> Result<(Bytes, SemaphorePermit<'g>), Refusal> {
    let limit_bytes = gate.limits.body_bytes;
    let most = stated_length(session).unwrap_or(limit_bytes).min(limit_bytes);
    let room = gate.bodies.try_acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).map_err(|_| Refusal::NoRoom)?;
    match timeout(gate.timeouts.body, read_pieces(session, most, limit_bytes)).await {
        Ok(Ok(body)) => Ok((body, room)),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(Refusal::BodySlow),
    }
}

fn stated_length(session: &Session) -> Option<usize> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads into one allocation of `most` bytes.
async fn read_pieces(session: &mut Session, most: usize, limit_bytes: usize) -> Result<Bytes, Refusal> {
    if session.get_header(EXPECT).is_some_and(|h| h.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.set_close_on_response_before_downstream_finish(false);
        session.write_continue_response().await.map_err(|_| Refusal::BodyBroken)?;
        session.set_close_on_response_before_downstream_finish(true);
    }
    let mut whole = BytesMut::with_capacity(most);
    while let Some(piece) = session.read_request_body().await.map_err(|_| Refusal::BodyBroken)? {
        if whole.len().saturating_add(piece.len()) > limit_bytes {
            return Err(Refusal::Check(CheckRefusal::TooLarge { limit_bytes }));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
