//! A request body while it arrives, within the room of who sends it.

use std::fmt::Debug;
use std::hash::Hash;

use crate::adapters::rate::RoomShare;

/// A body of which some bytes came. Memory and room are taken for bytes that came, not for a length that somebody states.
#[derive(Debug)]
pub struct ArrivingBody<K: Eq + Hash> {
    bytes: Vec<u8>,
    /// Covers the memory of `bytes`.
    room: RoomShare<K>,
    stated: Option<usize>,
    limit_bytes: usize,
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOverflow {
    /// The body is longer than its limit.
    Limit,
    /// Its sender, or all of them, have too many bodies here.
    Room,
}

impl<K: Clone + Debug + Eq + Hash> ArrivingBody<K> {
    pub fn new(room: RoomShare<K>, stated: Option<usize>, limit_bytes: usize) -> ArrivingBody<K> {
        ArrivingBody { bytes: Vec::new(), room, stated, limit_bytes }
    }

    pub fn add(&mut self, piece: &[u8]) -> Result<(), BodyOverflow> {
        let needed = self.bytes.len().saturating_add(piece.len());
        if needed > self.limit_bytes {
            return Err(BodyOverflow::Limit);
        }
        if needed > self.room.units() {
            // Doubling keeps the copies few; no body needs more than its stated length or the limit.
            let most = self.stated.unwrap_or(self.limit_bytes).min(self.limit_bytes);
            let wanted = needed.saturating_mul(if self.bytes.is_empty() { 1 } else { 2 }).min(most).max(needed);
            if !self.room.grow(wanted.saturating_sub(self.room.units())) {
                return Err(BodyOverflow::Room);
            }
            self.bytes.reserve_exact(wanted.saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the body, and the share that holds its room until it is no longer needed.
    pub fn whole(self) -> (Vec<u8>, RoomShare<K>) {
        (self.bytes, self.room)
    }
}
