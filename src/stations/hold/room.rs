//! The room for open holds of an environment, and each caller's share of it.
//!
//! Windows of the store count it, so it holds over all gates: one for the environment and one for each caller, in holds
//! and in bytes. A caller may have as much as stays free for the others: alone half of the room, beside a second caller
//! a third, and so on. So a caller at its limit takes nothing from another.

use super::state::Hold;
use super::stored_form::encode_hold;
use crate::ledger::{Commit, Conflict, ConflictCause, Step, WindowKey, WindowSpan};
use crate::stations::claim::Owner;

/// The names of the windows. No limit of a policy has parentheses in its name.
const HOLDS: &str = "(holds)";
const BYTES: &str = "(hold-bytes)";
/// The key of an environment's windows; a caller's key has a slash.
const ENVIRONMENT: &str = "";
/// An open hold counts until it ends.
const ALWAYS: WindowSpan = WindowSpan::ALWAYS;
/// The part of the room that a caller leaves to those whose holds are made at the same moment.
const SPARE: u64 = 64;

/// The room for the open holds of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRoom {
    pub holds: u64,
    pub bytes: u64,
}

/// The holds and bytes that an environment has, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldUse {
    pub holds: u64,
    pub bytes: u64,
}

/// The reasons why there is no place for a further hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The room of the environment is full.
    Environment,
    /// The caller has its share.
    Caller,
    /// The caller's holds of this hour have filled its share of the journal.
    Hour,
}

/// The answer of the store to the steps that take a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceConflict {
    /// The environment has more holds than was assumed: the place is taken anew.
    Stale(HoldUse),
    Full(NoPlace),
}

impl HoldRoom {
    /// Returns the steps that take the place of a hold, where the environment has this many. Without a place the store
    /// refuses them, so that an existing claim is still answered first.
    pub(super) fn place(self, hold: &Hold, used: HoldUse) -> Vec<Step> {
        let (owner, holder) = (caller_key(&hold.owner()), hold.id.as_str());
        let length = encode_hold(hold).len() as u64;
        let counts = [(HOLDS, 1, self.holds, used.holds), (BYTES, length, self.bytes, used.bytes)];
        let mut steps = Vec::with_capacity(4);
        for (limit, units, all, used) in counts {
            // Guarded: the environment has at most this afterwards, so that the caller's share is right.
            let together = used.saturating_add(units).saturating_add(all / SPARE).min(all);
            for (key, max) in [(ENVIRONMENT, together), (owner.as_str(), all.saturating_sub(together))] {
                let window = WindowKey { limit: limit.to_owned(), key: key.to_owned() };
                steps.push(Step::Reserve { window, span: ALWAYS, holder: holder.to_owned(), units, max });
            }
        }
        steps
    }

    /// Returns what the conflicts of a commit say of its place; `None` if nothing.
    pub fn conflict(self, commit: &Commit, conflicts: &[Conflict], assumed: HoldUse) -> Option<PlaceConflict> {
        let mut now = assumed;
        let mut full = None;
        for conflict in conflicts {
            let Some(Step::Reserve { window, units, .. }) = commit.steps.get(conflict.step) else { continue };
            let ConflictCause::Used(used) = conflict.found else { continue };
            let (all, known) = match window.limit.as_str() {
                HOLDS => (self.holds, &mut now.holds),
                BYTES => (self.bytes, &mut now.bytes),
                _ => continue,
            };
            if window.key != ENVIRONMENT {
                full = full.or(Some(NoPlace::Caller));
            } else if used.saturating_add(*units) > all {
                full = Some(NoPlace::Environment);
            } else {
                *known = used;
            }
        }
        match full {
            Some(NoPlace::Environment) => Some(PlaceConflict::Full(NoPlace::Environment)),
            // The caller's share was computed for a use that may be too high.
            _ if now != assumed => Some(PlaceConflict::Stale(now)),
            full => full.map(PlaceConflict::Full),
        }
    }
}

/// Returns the steps that give the place of a hold back. A hold that gave it back before gives nothing.
pub(super) fn give_back(hold: &Hold) -> Vec<Step> {
    let owner = caller_key(&hold.owner());
    let windows = [HOLDS, BYTES].into_iter().flat_map(|limit| [(limit, ENVIRONMENT), (limit, owner.as_str())]);
    let window = |(limit, key): (&str, &str)| WindowKey { limit: limit.to_owned(), key: key.to_owned() };
    windows.map(|of| Step::GiveBack { window: window(of), holder: hold.id.to_string() }).collect()
}

/// Returns the windows of an environment's use: its holds, and their bytes.
pub fn windows_of_environment() -> [(WindowKey, WindowSpan); 2] {
    [HOLDS, BYTES].map(|limit| (WindowKey { limit: limit.to_owned(), key: ENVIRONMENT.to_owned() }, ALWAYS))
}

fn caller_key(owner: &Owner) -> String {
    format!("{}/{}", owner.issuer, owner.subject)
}
