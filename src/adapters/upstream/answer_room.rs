//! The memory for answers that are read whole: all of an environment together have a bound.
//!
//! A short answer, as each one about money is, needs no room. A longer one waits, before it is read further, until there
//! is room for all of it. It never holds a part while it waits for the rest: answers cannot block each other for good. Only a
//! head that is longer than usual keeps its room meanwhile; its answer has a deadline.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use crate::base::ids::Environment;
use crate::telemetry::Metrics;

/// Up to this many bytes, an answer needs no room. It is counted as memory of its call.
const FREE_BYTES: usize = 16 * 1024;
/// Room is counted in pieces of this many bytes.
const UNIT: usize = 1024;

/// The room of one environment.
#[derive(Clone, Debug)]
pub(super) struct AnswerRoom {
    free: Arc<Semaphore>,
    /// All units.
    units: usize,
    /// The longest answer that is read.
    longest: usize,
    environment: Environment,
    metrics: Metrics,
}

/// The room of one long head.
#[derive(Debug)]
pub(super) struct HeadRoom {
    of: AnswerRoom,
    wanted: u32,
    waits: Option<PollSemaphore>,
    part: Option<OwnedSemaphorePermit>,
}

/// A body that is being read, with its room.
#[derive(Debug)]
pub(super) struct AnswerBuffer {
    bytes: BytesMut,
    part: Option<OwnedSemaphorePermit>,
}

/// A whole body, which keeps its room while it lives.
struct RoomedAnswer {
    bytes: Bytes,
    _part: OwnedSemaphorePermit,
}

impl AnswerRoom {
    /// Room of `all` bytes, at least for the longest answer.
    pub fn new(all: usize, longest: usize, environment: Environment, metrics: Metrics) -> AnswerRoom {
        let units = units(all.max(longest)).min(Semaphore::MAX_PERMITS);
        AnswerRoom { free: Arc::new(Semaphore::new(units)), units, longest, environment, metrics }
    }

    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the room of a head that is longer than usual, which is not taken yet.
    pub fn head(&self, longest: usize) -> HeadRoom {
        let wanted = u32::try_from(units(longest).min(self.units)).unwrap_or(u32::MAX);
        HeadRoom { of: self.clone(), wanted, waits: None, part: None }
    }
}

impl HeadRoom {
    /// Waits until there is room for the longest head. It is kept until it is given back.
    pub fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.part.is_some() {
            return Poll::Ready(());
        }
        if self.waits.is_none() {
            if let Ok(part) = self.of.free.clone().try_acquire_many_owned(self.wanted) {
                self.part = Some(part);
                return Poll::Ready(());
            }
            self.of.metrics.answer_waits(self.of.environment);
        }
        let waits = self.waits.get_or_insert_with(|| PollSemaphore::new(self.of.free.clone()));
        self.part = ready!(waits.poll_acquire_many(cx, self.wanted));
        self.waits = None;
        Poll::Ready(())
    }

    pub fn give_back(&mut self) {
        (self.waits, self.part) = (None, None);
    }
}

impl AnswerBuffer {
    pub fn new() -> AnswerBuffer {
        AnswerBuffer { bytes: BytesMut::new(), part: None }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
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
    pub async fn may_grow(&mut self, room: &AnswerRoom, stated: Option<usize>) {
        if self.part.is_some() || self.bytes.len() <= FREE_BYTES {
            return;
        }
        let whole = stated.unwrap_or(room.longest).clamp(self.bytes.len(), room.longest.max(self.bytes.len()));
        let wanted = u32::try_from(units(whole)).unwrap_or(u32::MAX);
        self.part = match room.free.clone().try_acquire_many_owned(wanted) {
            Ok(part) => Some(part),
            Err(_) => {
                room.metrics.answer_waits(room.environment);
                room.free.clone().acquire_many_owned(wanted).await.ok()
            }
        };
    }

    /// Copies the beginning of the body: as much as needs no room.
    pub fn beginning(&self) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(..FREE_BYTES).unwrap_or(&self.bytes))
    }

    /// Takes the body out.
    pub fn take(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.bytes).freeze();
        match self.part.take() {
            Some(part) => Bytes::from_owner(RoomedAnswer { bytes, _part: part }),
            None => bytes,
        }
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
    use std::future::Future as _;
    use std::task::Waker;

    use super::*;

    fn waits(body: &mut AnswerBuffer, room: &AnswerRoom, stated: Option<usize>) -> bool {
        let growing = std::pin::pin!(body.may_grow(room, stated));
        growing.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn body_of(bytes: usize) -> AnswerBuffer {
        let mut body = AnswerBuffer::new();
        body.push(&vec![b'x'; bytes]);
        body
    }

    #[test]
    fn long_answers_wait_for_room_and_short_ones_never() {
        let room = AnswerRoom::new(64 * UNIT, 40 * UNIT, Environment::Production, Metrics::new().unwrap());
        let (mut first, mut second) = (body_of(FREE_BYTES + 1), body_of(FREE_BYTES + 1));
        assert!(!waits(&mut first, &room, None));
        assert!(waits(&mut second, &room, None), "room for 64 is not room for twice 40");
        assert!(!waits(&mut body_of(FREE_BYTES), &room, None), "a short answer needs none");
        assert!(!waits(&mut second, &room, Some(20 * UNIT)), "its length is known");
        assert!(waits(&mut body_of(FREE_BYTES + 1), &room, None));
        // A body keeps its room until the last copy of it is gone.
        let whole = first.take();
        let copy = whole.clone();
        drop((first, whole));
        assert!(waits(&mut body_of(FREE_BYTES + 1), &room, None));
        assert_eq!(copy.len(), FREE_BYTES + 1);
        drop(copy);
        assert!(!waits(&mut body_of(FREE_BYTES + 1), &room, None));
    }
}
