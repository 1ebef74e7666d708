//! The memory for answers that are read whole: all of an environment together have a bound, and each caller has a share.
//!
//! A short answer, as each one about money is, needs no room. A longer one waits, before it is read further, until its
//! caller's share allows all of it. It never holds a part while it waits for the rest: answers cannot block each other for
//! good. Only a head that is longer than usual keeps its room meanwhile; a caller alone has room for both, and its answer has
//! a deadline.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::base::ids::Environment;
use crate::config::MAX_ANSWER_HEAD_BYTES;
use crate::stations::claim::Owner;
use crate::telemetry::Metrics;

/// Up to this many bytes, an answer needs no room. It is counted as memory of its call.
const FREE_BYTES: usize = 16 * 1024;
/// Room is counted in pieces of this many bytes.
const UNIT: usize = 1024;

/// The room of one environment.
#[derive(Clone, Debug)]
pub(super) struct AnswerRoom {
    room: Arc<SharedRoom<Arc<Owner>>>,
    /// The longest answer that is read.
    longest: usize,
    environment: Environment,
    metrics: Metrics,
}

/// The room of one head or body, which is taken once.
#[derive(Debug)]
pub(super) struct AnswerShare {
    of: AnswerRoom,
    caller: Arc<Owner>,
    part: RoomShare<Arc<Owner>>,
    /// The metrics count that it waits.
    has_waited: bool,
}

/// A body that is being read, with its room.
#[derive(Debug)]
pub(super) struct AnswerBuffer {
    bytes: BytesMut,
    room: AnswerShare,
}

/// A whole body, which keeps its room while it lives.
struct RoomedAnswer {
    bytes: Bytes,
    _part: RoomShare<Arc<Owner>>,
}

impl AnswerRoom {
    /// Room of `all` bytes. A caller alone gets half of it, at least a longest head and a longest body; beside one that has
    /// its half, each other one finds room for a longest body.
    pub fn new(all: usize, longest: usize, environment: Environment, metrics: Metrics) -> AnswerRoom {
        let least = units(longest.max(MAX_ANSWER_HEAD_BYTES)).saturating_mul(4);
        AnswerRoom { room: SharedRoom::new((all / UNIT).max(least)), longest, environment, metrics }
    }

    /// Returns the room of one head or body of an answer to this caller, which is not taken yet.
    pub fn share_of(&self, caller: &Arc<Owner>) -> AnswerShare {
        let (caller, part) = (caller.clone(), self.room.share_of(caller.clone()));
        AnswerShare { of: self.clone(), caller, part, has_waited: false }
    }
}

impl AnswerShare {
    /// Waits until the caller's share allows so many bytes. What was taken is kept until it is given back.
    pub async fn take(&mut self, bytes: usize) {
        let wanted = units(bytes);
        if self.part.units() > 0 || self.part.grow(wanted) {
            return;
        }
        if !std::mem::replace(&mut self.has_waited, true) {
            self.of.metrics.answer_waits(self.of.environment);
        }
        self.part.grow_when_free(wanted).await;
    }

    pub fn give_back(&mut self) {
        *self = self.of.share_of(&self.caller);
    }
}

impl AnswerBuffer {
    pub fn new(room: AnswerShare) -> AnswerBuffer {
        AnswerBuffer { bytes: BytesMut::new(), room }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The longest body that is read.
    pub fn longest(&self) -> usize {
        self.room.of.longest
    }

    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// Appends as much of a piece as needs no room.
    pub fn push_beginning(&mut self, piece: &[u8]) {
        let free = FREE_BYTES.saturating_sub(self.bytes.len());
        self.push(piece.get(..free).unwrap_or(piece));
    }

    /// Waits until more may be read of an answer whose head says that it is `stated` bytes long. Nothing is lost where the
    /// caller stops waiting.
    pub async fn may_grow(&mut self, stated: Option<usize>) {
        if self.bytes.len() > FREE_BYTES {
            let longest = self.longest();
            self.room.take(stated.unwrap_or(longest).clamp(self.bytes.len(), longest.max(self.bytes.len()))).await;
        }
    }

    /// Copies the beginning of the body: as much as needs no room.
    pub fn beginning(&self) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(..FREE_BYTES).unwrap_or(&self.bytes))
    }

    /// Takes the body out.
    pub fn take(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.bytes).freeze();
        let next = self.room.of.share_of(&self.room.caller);
        let part = std::mem::replace(&mut self.room, next).part;
        if part.units() == 0 {
            return bytes;
        }
        Bytes::from_owner(RoomedAnswer { bytes, _part: part })
    }
}

impl AsRef<[u8]> for RoomedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// The room for a longest head, by units.
    const HEAD: usize = MAX_ANSWER_HEAD_BYTES / UNIT;

    fn waits(body: &mut AnswerBuffer, stated: Option<usize>) -> bool {
        let growing = std::pin::pin!(body.may_grow(stated));
        growing.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Returns the room for answers of so many units, of which a caller alone gets half with a head.
    fn room_of(longest: usize) -> AnswerRoom {
        AnswerRoom::new(0, longest * UNIT, Environment::Production, Metrics::new().unwrap())
    }

    fn body_of(room: &AnswerRoom, caller: &str, bytes: usize) -> AnswerBuffer {
        let mut body = AnswerBuffer::new(room.share_of(&Arc::new(Owner::named("main", caller))));
        body.push(&vec![b'x'; bytes]);
        body
    }

    #[test]
    fn long_answers_wait_for_room_and_short_ones_never() {
        let room = room_of(140);
        let long = || body_of(&room, "ann", FREE_BYTES + 1);
        let (mut first, mut second, mut third) = (long(), long(), long());
        assert!(!waits(&mut first, None) && !waits(&mut second, Some(100 * UNIT)));
        assert!(waits(&mut third, None), "half of the room is 280");
        assert!(!waits(&mut body_of(&room, "ann", FREE_BYTES), None), "a short answer needs none");
        assert!(!waits(&mut third, Some(40 * UNIT)), "its length is known");
        assert!(waits(&mut long(), None));
        // A body keeps its room until the last copy of it is gone.
        let whole = first.take();
        let copy = whole.clone();
        drop((first, whole));
        assert!(waits(&mut long(), None));
        assert_eq!(copy.len(), FREE_BYTES + 1);
        drop(copy);
        assert!(!waits(&mut long(), None));
    }

    #[test]
    fn the_long_answers_of_one_caller_leave_room_for_those_of_another() {
        let room = room_of(HEAD);
        let mut held: Vec<_> = (0..8).map(|_| body_of(&room, "ann", FREE_BYTES + 1)).collect();
        assert_eq!(held.iter_mut().map(|body| waits(body, None)).filter(|waits| *waits).count(), 6);
        let mut others = body_of(&room, "ben", FREE_BYTES + 1);
        assert!(!waits(&mut others, None), "a longest answer of another caller has room");
        assert!(!waits(&mut body_of(&room, "eve", FREE_BYTES + 1), Some(20 * UNIT)));
    }

    #[test]
    fn a_longest_head_and_a_longest_body_of_one_answer_have_room() {
        let room = room_of(140);
        let mut head = room.share_of(&Arc::new(Owner::named("main", "ann")));
        let taken = std::pin::pin!(head.take(MAX_ANSWER_HEAD_BYTES)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(taken.is_ready());
        let mut body = body_of(&room, "ann", FREE_BYTES + 1);
        assert!(!waits(&mut body, None) && waits(&mut body_of(&room, "ann", FREE_BYTES + 1), None));
        head.give_back();
        assert!(!waits(&mut body_of(&room, "ann", FREE_BYTES + 1), Some(20 * UNIT)));
    }
}
