//! The body of a write: read whole, up to its limit, within one deadline, where its caller has room for it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora::proxy::Session;
use tokio::time::timeout;

use super::Gate;
use crate::adapters::rate::RoomShare;
use crate::edge::arriving::ArrivingBody;
use crate::edge::guard::Unreadable;
use crate::stations::admit::Caller;
use crate::stations::claim::Owner;
use crate::stations::reply::Refusal;

/// Reads the body; the share holds its room until the body is no longer needed.
pub(super) async fn whole(
    gate: &Gate,
    session: &mut Session,
    caller: &Caller,
) -> Result<(Bytes, RoomShare<Owner>), Refusal> {
    let limit_bytes = gate.limits.body_bytes;
    let room = gate.bodies.share_of(Owner::of(caller));
    let arriving = ArrivingBody::new(room, stated_length(session), limit_bytes);
    match timeout(gate.timeouts.body, read_pieces(gate, session, arriving)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::BodySlow),
    }
}

/// Returns whether nothing stands behind the head of a request that takes no body. Over HTTP/2 a body needs no header that
/// announces it, and a stated length of 0 is not the end yet.
pub(super) async fn is_empty(gate: &Gate, session: &mut Session) -> bool {
    if !session.is_http2() || stated_length(session) != Some(0) {
        return session.is_body_empty();
    }
    let read_on = async { while let Ok(Some(_)) = session.read_request_body().await {} };
    timeout(gate.timeouts.body, read_on).await.is_ok() && !has_trailers(gate, session)
}

fn stated_length(session: &Session) -> Option<usize> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_pieces(
    gate: &Gate,
    session: &mut Session,
    mut arriving: ArrivingBody<Owner>,
) -> Result<(Bytes, RoomShare<Owner>), Refusal> {
    if session.get_header(EXPECT).is_some_and(|h| h.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.set_close_on_response_before_downstream_finish(false);
        session.write_continue_response().await.map_err(|_| Refusal::BodyBroken)?;
        session.set_close_on_response_before_downstream_finish(true);
    }
    while let Some(piece) = session.read_request_body().await.map_err(|_| Refusal::BodyBroken)? {
        arriving.add(&piece)?;
    }
    if has_trailers(gate, session) {
        return Err(Refusal::BodyBroken);
    }
    let (bytes, room) = arriving.whole()?;
    Ok((Bytes::from(bytes), room))
}

/// Returns whether trailers stand behind a body that was read to its end. Over HTTP/1.1 the guard refuses them; over HTTP/2
/// the engine leaves them unread, and so the stream has not ended.
fn has_trailers(gate: &Gate, session: &mut Session) -> bool {
    if !session.is_http2() {
        return false;
    }
    if stated_length(session) == Some(0) {
        // The engine takes this length for the end.
        session.req_header_mut().remove_header(&CONTENT_LENGTH);
    }
    let has_trailers = !session.is_body_done();
    if has_trailers {
        gate.metrics.unreadable(gate.environment.as_str(), Unreadable::Trailers.as_str());
    }
    has_trailers
}
