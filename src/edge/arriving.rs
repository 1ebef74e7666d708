//! A request body while it arrives, within the room of who sends it.

use std::fmt::Debug;
use std::hash::Hash;

use crate::adapters::rate::RoomShare;
use crate::base::json::{Limits, TREE_BYTES_A_VALUE, count_values};
use crate::stations::check::CheckRefusal;
use crate::stations::reply::Refusal;

/// A body of which some bytes came. Memory and room are taken for bytes that came, not for a length that somebody states.
#[derive(Debug)]
pub struct ArrivingBody<K: Eq + Hash> {
    bytes: Vec<u8>,
    /// Covers the memory of `bytes`.
    room: RoomShare<K>,
    stated: Option<usize>,
    limit_bytes: usize,
}

/// The values of a body that the call itself has memory for.
const FREE_VALUES: usize = 16;

impl<K: Clone + Debug + Eq + Hash> ArrivingBody<K> {
    pub fn new(room: RoomShare<K>, stated: Option<usize>, limit_bytes: usize) -> ArrivingBody<K> {
        ArrivingBody { bytes: Vec::new(), room, stated, limit_bytes }
    }

    pub fn add(&mut self, piece: &[u8]) -> Result<(), Refusal> {
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

    /// Returns the body, and the share that holds its room until it is no longer needed. The tree that the body is read to
    /// has room, too; where the room is small, no more than a sender gets who is alone.
    pub fn whole(mut self) -> Result<(Vec<u8>, RoomShare<K>), Refusal> {
        let values = count_values(&self.bytes).min(Limits::REQUEST.values).saturating_sub(FREE_VALUES);
        let most = self.room.most_alone().saturating_sub(self.room.units());
        match self.room.grow(values.saturating_mul(TREE_BYTES_A_VALUE).min(most)) {
            true => Ok((self.bytes, self.room)),
            false => Err(Refusal::NoRoom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::rate::SharedRoom;

    /// Returns the room that a body of so many values holds once it is whole.
    fn held(room_units: usize, values: usize) -> usize {
        let room = SharedRoom::new(room_units);
        let mut body = ArrivingBody::new(room.share_of("ann"), None, 1 << 20);
        body.add(format!("[{}0]", "0,".repeat(values.saturating_sub(2))).as_bytes()).unwrap();
        body.whole().unwrap().1.units()
    }

    #[test]
    fn the_tree_of_a_body_has_room_until_the_body_is_gone() {
        assert_eq!(held(8 << 20, FREE_VALUES), 31);
        assert!(held(8 << 20, 1_016) >= 1_000 * TREE_BYTES_A_VALUE);
        // A body that fits is taken by a sender who is alone.
        assert_eq!(held(64 << 10, 1_016), 32 << 10);
    }

    #[test]
    fn a_body_beyond_its_limit_or_its_room_is_refused() {
        let room = SharedRoom::new(1 << 10);
        let mut long = ArrivingBody::new(room.share_of("ann"), None, 4);
        assert!(matches!(long.add(b"12345"), Err(Refusal::Check(CheckRefusal::TooLarge { limit_bytes: 4 }))));
        let mut large = ArrivingBody::new(room.share_of("ann"), None, 1 << 20);
        assert!(matches!(large.add(&[b' '; 1_000]), Err(Refusal::NoRoom)));
    }
}
