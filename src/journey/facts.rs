//! What a decision may look at: as far as this node knows it without asking, the rest as a guess.
//!
//! Nothing is asked of the store before the commit. The commit guards each stored fact that a decision assumed; where one
//! is otherwise, the store says so, and the decision is made again with what was learnt.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Books;
use crate::base::ids::Environment;
use crate::commit::{StoreFault, StoreTime};
use crate::policy::{Facts, Policies};
use crate::stations::check::Intent;
use crate::stations::claim::Learnt;
use crate::stations::decide::{destinations, paid_name};

/// So long the time that a store told is carried on by this node's own clock.
const GOOD_FOR: Duration = Duration::from_secs(30);
/// As many paid destinations are remembered; then it begins anew.
const MOST_PAID: usize = 100_000;

/// What this node was told by the store, and remembers.
#[derive(Debug, Default)]
pub struct Heard {
    /// A time of the store's, and when it was told.
    time: Mutex<Option<(StoreTime, Duration)>>,
    /// What was paid once stays paid: names of destinations.
    paid: Mutex<HashSet<(Environment, String)>>,
}

impl Heard {
    /// The store's time, told at this moment.
    pub(super) fn time(&self, at: StoreTime, elapsed: Duration) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        if time.is_none_or(|(_, since)| since <= elapsed) {
            *time = Some((at, elapsed));
        }
    }

    fn now(&self, elapsed: Duration) -> Option<StoreTime> {
        let time = *self.time.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, since) = time?;
        let passed = elapsed.saturating_sub(since);
        (passed <= GOOD_FOR).then(|| at.plus(passed))
    }

    pub(super) fn is_paid(&self, environment: Environment, name: &str, is_paid: bool) {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_paid {
            paid.remove(&(environment, name.to_owned()));
            return;
        }
        if paid.len() >= MOST_PAID {
            paid.clear();
        }
        paid.insert((environment, name.to_owned()));
    }

    fn was_paid(&self, environment: Environment, name: String) -> bool {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).contains(&(environment, name))
    }
}

impl Books {
    /// What is known of a write before it is decided.
    pub fn facts(&self, intent: &Intent, policies: &Policies) -> Facts {
        let environment = intent.environment();
        let paid = destinations(intent, policies).into_iter().map(|destination| {
            let was_paid = self.heard.was_paid(environment, paid_name(&destination));
            (destination, was_paid)
        });
        Facts { now: self.about_now(), paid: paid.collect(), ..Facts::default() }
    }

    /// What is known of a read: it is decided without the store.
    pub fn facts_of_read(&self) -> Facts {
        Facts { now: self.about_now(), ..Facts::default() }
    }

    /// The store's time as it was told last, or this node's own.
    pub(super) fn about_now(&self) -> StoreTime {
        let told = self.heard.now(self.clock.elapsed());
        told.unwrap_or_else(|| StoreTime::of_micros(self.clock.now().as_microsecond()))
    }

    /// The store's time, and remembers it.
    pub async fn time(&self) -> Result<StoreTime, StoreFault> {
        let now = self.store.time().await?;
        self.heard.time(now, self.clock.elapsed());
        Ok(now)
    }

    /// Takes up what the store said instead.
    pub fn learn(&self, environment: Environment, facts: &mut Facts, learnt: Vec<Learnt>) {
        for one in learnt {
            match one {
                Learnt::Time(at) => {
                    self.heard.time(at, self.clock.elapsed());
                    facts.now = at;
                }
                Learnt::Full(window) => {
                    facts.exceeded.insert((window.limit, window.key));
                }
                Learnt::Paid(name, is_paid) => {
                    for (destination, assumed) in &mut facts.paid {
                        if paid_name(destination) == name {
                            *assumed = is_paid;
                        }
                    }
                    self.heard.is_paid(environment, &name, is_paid);
                }
            }
        }
    }
}
