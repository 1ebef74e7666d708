//! The body of a write: read whole, up to its limit, within one deadline, where its caller has room for it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora::proxy::Session;
use tokio::time::timeout;

use super::Gate;
use crate::adapters::rate::RoomShare;
use crate::base::json::{Limits, TREE_BYTES_A_VALUE, count_values};
use crate::stations::admit::Caller;
use crate::stations::check::CheckRefusal;
use crate::stations::claim::Owner;
use crate::stations::reply::Refusal;

/// The values of a body that the call itself has memory for.
const FREE_VALUES: usize = 16;

/// Reads the body; the share holds its room until the body is no longer needed.
pub(super) async fn whole(
    gate: &Gate,
    session: &mut Session,
    caller: &Caller,
) -> Result<(Bytes, RoomShare<Owner>), Refusal> {
    let arriving = ArrivingBody {
        bytes: Vec::new(),
        room: gate.bodies.share_of(Owner::of(caller)),
        stated: stated_length(session),
        limit_bytes: gate.limits.body_bytes,
    };
    match timeout(gate.timeouts.body, read_pieces(session, arriving)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::BodySlow),
    }
}

fn stated_length(session: &Session) -> Option<usize> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_pieces(session: &mut Session, mut arriving: ArrivingBody) -> Result<(Bytes, RoomShare<Owner>), Refusal> {
    if session.get_header(EXPECT).is_some_and(|h| h.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.set_close_on_response_before_downstream_finish(false);
        session.write_continue_response().await.map_err(|_| Refusal::BodyBroken)?;
        session.set_close_on_response_before_downstream_finish(true);
    }
    while let Some(piece) = session.read_request_body().await.map_err(|_| Refusal::BodyBroken)? {
        arriving.add(&piece)?;
    }
    arriving.whole()
}

/// A body while it arrives. Memory and room are taken for bytes that came, not for a length that the caller states.
struct ArrivingBody {
    bytes: Vec<u8>,
    /// Covers the memory of `bytes`.
    room: RoomShare<Owner>,
    stated: Option<usize>,
    limit_bytes: usize,
}

impl ArrivingBody {
    fn add(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        let needed = self.bytes.len().saturating_add(piece.len());
        if needed > self.limit_bytes {
            return Err(Refusal::Check(CheckRefusal::TooLarge { limit_bytes: self.limit_bytes }));
        }
        if needed > self.room.units() {
            // Doubling keeps the copies few; no body needs more than its stated length or the limit.
            let most = self.stated.unwrap_or(self.limit_bytes).min(self.limit_bytes);
            let wanted = needed.saturating_mul(if self.bytes.is_empty() { 1 } else { 2 }).min(most).max(needed);
            if !self.room.grow(wanted.saturating_sub(self.room.units())) {
                return Err(Refusal::NoRoom);
            }
            self.bytes.reserve_exact(wanted.saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Takes the room of the tree that the body is read to, too; where the room is small, no more than a caller gets who
    /// is alone.
    fn whole(mut self) -> Result<(Bytes, RoomShare<Owner>), Refusal> {
        let values = count_values(&self.bytes).min(Limits::REQUEST.values).saturating_sub(FREE_VALUES);
        let most = self.room.most_alone().saturating_sub(self.room.units());
        if !self.room.grow(values.saturating_mul(TREE_BYTES_A_VALUE).min(most)) {
            return Err(Refusal::NoRoom);
        }
        Ok((Bytes::from(self.bytes), self.room))
    }
}
