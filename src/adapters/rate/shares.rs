//! Room that many users share, so that no user can take the room of another.
//!
//! A user may hold at most as much as stays free for the others. One user alone gets half of the room, two users get a
//! third each, and so on: however many users are at their limit, a further user still finds room.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The room.
#[derive(Debug)]
pub struct SharedRoom<K> {
    all: usize,
    of_one: usize,
    held: Mutex<HeldRoom<K>>,
    freed: Notify,
}

#[derive(Debug)]
struct HeldRoom<K> {
    all: usize,
    /// Users that hold nothing are not listed.
    by_user: HashMap<K, usize>,
}

/// A part of the room, held for one user; dropping it frees it.
#[derive(Debug)]
pub struct RoomShare<K: Eq + Hash> {
    room: Arc<SharedRoom<K>>,
    user: K,
    units: usize,
}

impl<K: Clone + Debug + Eq + Hash> SharedRoom<K> {
    pub fn new(all: usize) -> Arc<SharedRoom<K>> {
        SharedRoom::capped(all, all)
    }

    /// The room, of which no user gets more than `of_one`.
    pub fn capped(all: usize, of_one: usize) -> Arc<SharedRoom<K>> {
        let held = Mutex::new(HeldRoom { all: 0, by_user: HashMap::new() });
        Arc::new(SharedRoom { all, of_one, held, freed: Notify::new() })
    }

    /// Returns an empty share of this user, which can grow.
    pub fn share_of(self: &Arc<SharedRoom<K>>, user: K) -> RoomShare<K> {
        RoomShare { room: self.clone(), user, units: 0 }
    }
}

impl<K: Clone + Debug + Eq + Hash> RoomShare<K> {
    /// Takes more of the room; returns false and takes nothing where the user's part does not allow it.
    pub fn grow(&mut self, more: usize) -> bool {
        if more == 0 {
            return true;
        }
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = held.by_user.get(&self.user).copied().unwrap_or(0).saturating_add(more);
        let of_all = held.all.saturating_add(more);
        if of_user > self.room.all.saturating_sub(of_all).min(self.room.of_one) {
            return false;
        }
        held.all = of_all;
        held.by_user.insert(self.user.clone(), of_user);
        self.units = self.units.saturating_add(more);
        true
    }

    /// Waits until the user's part allows more, and takes it; more than [`RoomShare::most_alone`] is never allowed. Nothing
    /// is taken where the caller stops waiting.
    pub async fn grow_when_free(&mut self, more: usize) {
        let room = self.room.clone();
        loop {
            // From here on, no room that comes free is missed.
            let freed = room.freed.notified();
            if self.grow(more) {
                return;
            }
            freed.await;
        }
    }

    pub fn units(&self) -> usize {
        self.units
    }

    /// Takes another share of the same user over; one of another room is freed.
    pub fn take_over(&mut self, mut other: RoomShare<K>) {
        if Arc::ptr_eq(&self.room, &other.room) && self.user == other.user {
            self.units = self.units.saturating_add(std::mem::take(&mut other.units));
        }
    }

    /// The most that the user can hold while nobody else holds any.
    pub fn most_alone(&self) -> usize {
        (self.room.all / 2).min(self.room.of_one)
    }
}

impl<K: Eq + Hash> Drop for RoomShare<K> {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.all = held.all.saturating_sub(self.units);
        if let Some(of_user) = held.by_user.get_mut(&self.user) {
            *of_user = of_user.saturating_sub(self.units);
            if *of_user == 0 {
                held.by_user.remove(&self.user);
            }
        }
        drop(held);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn taken(
        room: &Arc<SharedRoom<&'static str>>,
        user: &'static str,
        units: usize,
    ) -> Option<RoomShare<&'static str>> {
        let mut share = room.share_of(user);
        share.grow(units).then_some(share)
    }

    #[test]
    fn a_user_alone_gets_half_and_every_further_user_still_finds_room() {
        let room = SharedRoom::new(12);
        let first = taken(&room, "a", 6).unwrap();
        assert!(taken(&room, "a", 1).is_none());
        let second = taken(&room, "b", 3).unwrap();
        assert!(taken(&room, "b", 1).is_none() && taken(&room, "a", 1).is_none());
        let _third = taken(&room, "c", 1).unwrap();
        assert!(taken(&room, "c", 1).is_none());
        drop(first);
        drop(second);
        assert!(taken(&room, "a", 5).is_some());
    }

    #[test]
    fn nobody_gets_more_than_the_cap() {
        let room = SharedRoom::capped(12, 2);
        let _first = taken(&room, "a", 2).unwrap();
        assert!(taken(&room, "a", 1).is_none() && taken(&room, "b", 3).is_none() && taken(&room, "b", 2).is_some());
    }

    #[test]
    fn a_share_waits_for_what_comes_free_and_keeps_nobody_else() {
        let room = SharedRoom::new(12);
        let first = taken(&room, "a", 6).unwrap();
        let (mut second, mut context) = (room.share_of("a"), Context::from_waker(Waker::noop()));
        let mut given_up = room.share_of("a");
        assert!(pin!(given_up.grow_when_free(6)).poll(&mut context).is_pending());
        let mut waiting = Box::pin(second.grow_when_free(6));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(taken(&room, "b", 3).is_some());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        drop(waiting);
        assert_eq!((given_up.units(), second.units()), (0, 6));
    }

    #[test]
    fn what_ends_comes_free_and_leaves_no_trace() {
        let room = SharedRoom::new(100);
        for _ in 0..10 {
            let mut share = room.share_of("a");
            assert!(share.grow(20) && share.grow(0) && share.grow(30) && !share.grow(1));
            assert_eq!(share.units(), 50);
        }
        let held = room.held.lock().unwrap();
        assert!(held.all == 0 && held.by_user.is_empty());
    }
}
