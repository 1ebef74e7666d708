//! The set in force of each environment, as this gate last read it from the store: the guard of every beginning.
//!
//! A decision may begin only under the version that the store names. Where the two differ, this gate has to look at the
//! store again, and the call is decided on again by what is in force now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::Snapshot;
use crate::base::ids::Environment;
use crate::ledger::{Number, Step};
use crate::people::activation::{ActiveSet, SetInForce, first, in_force_key};

/// The longest that a call waits until this gate has looked at the store again.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// The store's record of an environment.
#[derive(Clone, Debug)]
enum KnownSet {
    Active {
        version: String,
        number: Number,
    },
    /// No set is in force yet: the first commit that needs one creates its record, with these archives.
    First {
        set: SetInForce,
        archives: Vec<Step>,
    },
}

/// The steps by which a beginning guards the set in force.
#[derive(Debug)]
pub(super) struct SetGuard {
    pub steps: Vec<Step>,
    /// The beginning writes the record itself.
    pub is_first: bool,
}

/// The sets in force, and why this gate cannot run them, if it cannot.
#[derive(Debug)]
pub struct Activations {
    known: Mutex<BTreeMap<Environment, KnownSet>>,
    /// Why this gate cannot run the set in force.
    fault: Mutex<Option<String>>,
    /// Why it is not known which set is in force, where that is so for an environment other than the first.
    unread: Mutex<BTreeMap<Environment, String>>,
    is_guarded: bool,
    /// Wakes the worker that follows the store.
    asked: Notify,
    /// How often the worker has looked, and what was in force here afterwards.
    looked: watch::Sender<(u64, Option<Arc<Snapshot>>)>,
}

impl Default for Activations {
    fn default() -> Activations {
        Activations::new(true)
    }
}

impl Activations {
    fn new(is_guarded: bool) -> Activations {
        Activations {
            known: Mutex::default(),
            fault: Mutex::default(),
            unread: Mutex::default(),
            is_guarded,
            asked: Notify::new(),
            looked: watch::channel((0, None)).0,
        }
    }

    /// For a store of tests, which says nothing of sets.
    pub fn unguarded() -> Activations {
        Activations::new(false)
    }

    pub fn note_active(&self, environment: Environment, active: &ActiveSet) {
        let known = KnownSet::Active { version: active.set.version.clone(), number: active.number };
        self.note(environment, known);
    }

    pub fn note_first(&self, environment: Environment, set: SetInForce, archives: Vec<Step>) {
        self.note(environment, KnownSet::First { set, archives });
    }

    fn note(&self, environment: Environment, known: KnownSet) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, known);
    }

    /// The beginning of that number wrote the record.
    pub(super) fn began(&self, environment: Environment, version: &str, number: Number) {
        self.note(environment, KnownSet::Active { version: version.to_owned(), number });
    }

    /// Returns the guard of a decision by this version; `None` where another version is in force, or none is known.
    pub(super) fn guard(&self, environment: Environment, decided_by: &str) -> Option<SetGuard> {
        if !self.is_guarded {
            return Some(SetGuard { steps: Vec::new(), is_first: false });
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&environment)? {
            KnownSet::Active { version, number } if version == decided_by => {
                let step = Step::Version { key: in_force_key(environment), version: *number };
                Some(SetGuard { steps: vec![step], is_first: false })
            }
            KnownSet::First { set, archives } if set.version == decided_by => {
                let steps = [vec![first(environment, set)], archives.clone()].concat();
                Some(SetGuard { steps, is_first: true })
            }
            KnownSet::Active { .. } | KnownSet::First { .. } => None,
        }
    }

    /// Returns the guard of a signed act, whose signature is judged by this version; `None` where another version is in force.
    /// Before the first set is in force, or while none is known, there is nothing to guard.
    pub(super) fn guard_of_act(&self, environment: Environment, judged_by: &str) -> Option<Vec<Step>> {
        match self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&environment) {
            Some(KnownSet::Active { version, number }) if self.is_guarded => {
                (version == judged_by).then(|| vec![Step::Version { key: in_force_key(environment), version: *number }])
            }
            _ => Some(Vec::new()),
        }
    }

    /// Whether decisions by this version are those of the set in force, as far as this gate knows.
    pub fn is_in_force(&self, environment: Environment, version: &str) -> bool {
        if !self.is_guarded {
            return true;
        }
        match self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&environment) {
            Some(KnownSet::Active { version: active, .. }) => active == version,
            Some(KnownSet::First { set, .. }) => set.version == version,
            None => false,
        }
    }

    /// Returns the commit that put the set in force, as far as this gate knows; 0 where none did yet.
    pub fn number(&self, environment: Environment) -> Number {
        match self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&environment) {
            Some(KnownSet::Active { number, .. }) => *number,
            Some(KnownSet::First { .. }) | None => Number::new(0),
        }
    }

    /// Notes why this gate cannot run the set in force. Returns whether that is news.
    pub fn cannot_run(&self, why: Option<String>) -> bool {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *fault != why;
        *fault = why;
        is_news
    }

    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes why it is not known which set is in force in an environment. Returns whether that is news.
    pub(super) fn cannot_read(&self, environment: Environment, why: Option<String>) -> bool {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match why.clone() {
            Some(why) => unread.insert(environment, why),
            None => unread.remove(&environment),
        };
        before != why
    }

    /// Returns the environments of which it is not known which set is in force, each with the reason.
    pub fn unread(&self) -> BTreeMap<Environment, String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until somebody asks for a look at the store.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The worker has looked at the store, and this is in force here now.
    pub fn looked(&self, now: Arc<Snapshot>) {
        self.looked.send_modify(|(times, snapshot)| {
            *times = times.wrapping_add(1);
            *snapshot = Some(now);
        });
    }

    /// Has the store looked at, and returns what is in force here afterwards; `None` where the store does not answer in
    /// time, or names a set that this gate cannot run, or another contract than the one that the call was checked by.
    pub async fn look_again(&self, environment: Environment, checked_by: &Snapshot) -> Option<Arc<Snapshot>> {
        let mut looked = self.looked.subscribe();
        let before = looked.borrow_and_update().0;
        self.asked.notify_one();
        let is_new = looked.wait_for(|(times, _)| *times != before);
        match tokio::time::timeout(LOOK_TIMEOUT, is_new).await {
            // Another look would find the same.
            Ok(Ok(_)) if self.fault().is_some() || self.unread().contains_key(&environment) => None,
            Ok(Ok(seen)) => seen.1.clone().filter(|now| now.catalog.digest() == checked_by.catalog.digest()),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::StoreTime;

    #[test]
    fn a_beginning_guards_the_set_by_which_it_was_decided_on() {
        let (activations, environment) = (Activations::default(), Environment::Production);
        let steps = |version: &str| activations.guard(environment, version).map(|guard| (guard.steps, guard.is_first));
        let is_in_force = |version: &str| activations.is_in_force(environment, version);
        assert_eq!((steps("a"), is_in_force("a")), (None, false), "nothing is known");

        let set = |version: &str| SetInForce {
            version: version.to_owned(),
            contract: "c".to_owned(),
            two_people: true,
            successions: 0,
        };
        let archives = vec![Step::After(StoreTime::default())];
        activations.note_first(environment, set("a"), archives.clone());
        let created = [vec![first(environment, &set("a"))], archives].concat();
        assert_eq!((steps("a"), is_in_force("a")), (Some((created, true)), true));
        assert_eq!((steps("b"), is_in_force("b")), (None, false));

        activations.note_active(environment, &ActiveSet { number: Number::new(7), set: set("b") });
        let guard = Step::Version { key: in_force_key(environment), version: Number::new(7) };
        assert_eq!((steps("b"), is_in_force("b")), (Some((vec![guard], false)), true));
        assert_eq!((steps("a"), is_in_force("a")), (None, false), "it was replaced");
        assert!(activations.guard(Environment::Sandbox, "b").is_none(), "each environment has its own");
    }

    #[test]
    fn a_signed_act_guards_the_set_by_which_its_signature_was_judged() {
        let (activations, environment) = (Activations::default(), Environment::Production);
        let guard = |version: &str| activations.guard_of_act(environment, version);
        assert_eq!(guard("a"), Some(Vec::new()), "nothing is known");
        let set = SetInForce { version: "b".to_owned(), contract: "c".to_owned(), two_people: true, successions: 0 };
        activations.note_active(environment, &ActiveSet { number: Number::new(7), set });
        let step = Step::Version { key: in_force_key(environment), version: Number::new(7) };
        assert_eq!((guard("b"), guard("a")), (Some(vec![step]), None));
    }
}
