//! The sessions that the store showed lately. They are looked up without a use of what their address may err, so that
//! nobody's invented cookies keep people out who share the address.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::base::digest::Fingerprint;
use crate::people::session::SessionId;

/// The most sessions that are remembered; of more, those that asked longest ago are forgotten.
const MAX_REMEMBERED: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct BelievedSessions(Mutex<Believed>);

#[derive(Debug, Default)]
struct Believed {
    /// By their digests: when each was shown, in the order of all that were.
    shown: HashMap<Fingerprint, u64>,
    count: u64,
}

impl BelievedSessions {
    /// Whether the store showed the session when it was used last.
    pub fn contains(&self, id: &SessionId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shown.contains_key(&digest(id))
    }

    pub fn add(&self, id: &SessionId) {
        let mut believed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        believed.count = believed.count.saturating_add(1);
        let now = believed.count;
        believed.shown.insert(digest(id), now);
        if believed.shown.len() > MAX_REMEMBERED {
            let mut all: Vec<u64> = believed.shown.values().copied().collect();
            let (_, middle, _) = all.select_nth_unstable(MAX_REMEMBERED / 2);
            let middle = *middle;
            believed.shown.retain(|_, shown| *shown > middle);
        }
    }

    /// The store does not show it any more.
    pub fn remove(&self, id: &SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shown.remove(&digest(id));
    }
}

fn digest(id: &SessionId) -> Fingerprint {
    Fingerprint::of(&[b"believed session", id.secret().reveal().as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_the_latest_are_remembered() {
        let (believed, of) = (BelievedSessions::default(), |nth: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&nth.to_be_bytes());
            SessionId::of_bytes(&bytes)
        });
        (0..5_000).for_each(|nth| believed.add(&of(nth)));
        assert!(!believed.contains(&of(0)) && believed.contains(&of(4_999)));
        believed.remove(&of(4_999));
        assert!(!believed.contains(&of(4_999)) && believed.contains(&of(4_998)));
    }
}
