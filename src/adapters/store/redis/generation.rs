//! A node's knowledge of the store, sent with every call: a store that does not match refuses the call.
//!
//! The *generation* is a random word that a store gets at its creation: an empty store, or another one, does not have
//! it. The second value is the highest commit number that the store confirmed to this node: only this node raises it,
//! so commits of other nodes never hide that the store has lost some.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::membership::{HeartbeatReply, LAPSE};
use crate::base::ids::Environment;
use crate::ledger::{Commit, NodeId, Number, StoreTime};

/// Stands for the generation in the calls of a node that waits for a lost store.
const WAITS: &str = "-";
/// How often a node has a damaged store mended without a pause.
const MENDS_AT_ONCE: u32 = 8;
/// The pause after which it may do so once more.
const MEND_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Beliefs {
    pub node: NodeId,
    production: Mutex<Belief>,
    sandbox: Mutex<Belief>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Belief {
    /// The generation; `None` before this node has met the store.
    pub generation: Option<String>,
    /// Whether the store is lost: nothing is done with it until it is whole again.
    pub is_waiting: bool,
    /// When the store noted this node's latest heartbeat.
    pub noted: Option<StoreTime>,
    /// When this node returned after a silence, while others have not heard of that.
    pub returned: Option<StoreTime>,
    /// The highest number among this node's own commits.
    pub highest: u64,
    /// The highest number among all commits, as the store reported it.
    pub seen: u64,
    /// The latest reply to a heartbeat that found everything well.
    pub heard: Option<HeartbeatReply>,
    /// The run of the Redis with which this node compared its journal; `None` before that, and since a loss.
    pub compared: Option<String>,
    /// Why the store cannot be read, until it is mended.
    pub damage: Option<FoundDamage>,
    /// How often this node had it mended.
    pub mends: u64,
    pub mend_room: MendRoom,
}

/// How often a node may have the store mended soon: one that is damaged anew at once is rebuilt in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MendRoom {
    taken: u32,
    /// Until when the taken room was given back.
    since: Duration,
}

impl MendRoom {
    /// Takes room, at this monotonic time. Returns whether there was any.
    pub fn take(&mut self, now: Duration) -> bool {
        let returned = now.saturating_sub(self.since).as_secs() / MEND_PAUSE.as_secs();
        let returned = u32::try_from(returned).unwrap_or(u32::MAX);
        self.taken = self.taken.saturating_sub(returned);
        self.since = if self.taken == 0 { now } else { self.since.saturating_add(MEND_PAUSE.saturating_mul(returned)) };
        let has_room = self.taken < MENDS_AT_ONCE;
        self.taken = self.taken.saturating_add(u32::from(has_room));
        has_room
    }
}

/// What a node found in the store that no gate writes.
#[derive(Clone, Debug)]
pub(super) struct FoundDamage {
    /// The last number before the rebuild that came before it; `-` if each heartbeat sees whether it is still there.
    pub behind: String,
    pub why: String,
}

impl Beliefs {
    pub fn of(node: NodeId) -> Beliefs {
        Beliefs { node, production: Mutex::default(), sandbox: Mutex::default() }
    }

    pub fn at(&self, environment: Environment) -> MutexGuard<'_, Belief> {
        let place = match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        };
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what this node tells the store in a call: the generation that it knows, and the highest number of its
    /// own commits.
    pub fn known(&self, environment: Environment, run: &str) -> (String, u64) {
        let mut belief = self.at(environment);
        // Another Redis may have another history behind the same number.
        if belief.compared.as_ref().is_some_and(|compared| compared != run) {
            belief.compared = None;
            belief.is_waiting = true;
        }
        let generation = if belief.is_waiting { WAITS } else { belief.generation.as_deref().unwrap_or_default() };
        (generation.to_owned(), belief.highest)
    }

    pub fn committed(&self, commit: &Commit, number: Number) {
        if commit.node == self.node {
            self.at(commit.environment).has(number.as_u64());
        }
    }
}

impl Belief {
    /// Notes a heartbeat.
    pub fn notes(&mut self, at: StoreTime) {
        if self.noted.is_some_and(|before| at.since(before) >= LAPSE) {
            self.returned = Some(at);
        }
        self.noted = Some(at);
    }

    pub fn has(&mut self, number: u64) {
        self.highest = self.highest.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_damaged_again_and_again_is_mended_with_pauses() {
        let mut room = MendRoom::default();
        let at = Duration::from_millis;
        let mut mended = |millis: std::ops::Range<u64>| {
            millis.step_by(100).filter(|now| room.take(at(1_000_000 + now))).collect::<Vec<u64>>()
        };
        assert_eq!(mended(0..900), [0, 100, 200, 300, 400, 500, 600, 700]);
        let later = mended(900..30_000);
        assert!((5..=6).contains(&later.len()), "{later:?}");
        assert!(later.windows(2).all(|pair| pair[1] - pair[0] >= 4_900), "{later:?}");
        // After a while without damage it is mended at once again.
        assert_eq!(mended(100_000..100_800).len(), 8);
    }
}
