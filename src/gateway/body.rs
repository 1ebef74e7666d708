//! The body of a write: read whole, up to its limit, within one deadline, where its caller has room for it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora::proxy::Session;
use tokio::time::timeout;

use super::Gate;
use crate::adapters::rate::RoomShare;
use crate::edge::arriving::ArrivingBody;
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
    match timeout(gate.timeouts.body, read_pieces(session, arriving)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::BodySlow),
    }
}

fn stated_length(session: &Session) -> Option<usize> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_pieces(
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
    let (bytes, room) = arriving.whole()?;
    Ok((Bytes::from(bytes), room))
}
