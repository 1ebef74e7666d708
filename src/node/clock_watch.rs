//! The watch of clocks: a store whose clock leapt, a machine that was paused, and one whose clock is not yet compared with
//! the dates of others.
//!
//! The leaps themselves are in `clock_leaps`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Node;
use super::clock_leaps::{LeapWatch, OtherClocks};
use super::not_begun::NotBegun;
use crate::adapters::store::embedded::Embedded;
use crate::adapters::store::redis::ComparedClock;
use crate::base::ids::Environment;
use crate::ledger::{StoreFault, StoreTime};
use crate::ports::Clock;
use crate::stations::check::Intent;
use crate::stations::claim::Freeze;

/// The poll interval for the clock of an embedded store.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// A shorter pause of the machine does not count.
const SHORT_PAUSE: Duration = Duration::from_millis(500);
/// How long a call waits, right after a start, until the clock of the machine is compared.
const COMPARED_WITHIN: Duration = Duration::from_secs(2);

/// What the dates of others say of the clock of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateTrust {
    /// Nobody has told a date yet.
    #[default]
    Waiting,
    /// No date is asked for, and none was told: nobody knows.
    Unasked,
    Agrees,
    Differs,
}

/// The gate's knowledge of clocks.
#[derive(Debug, Default)]
pub struct ClockWatch {
    trust: watch::Sender<DateTrust>,
    /// The environments whose store goes by a clock that was compared with that of this machine.
    settled: watch::Sender<BTreeSet<Environment>>,
    /// The environments whose money was closed for a leap, as the journal had it since people opened it last.
    closed: Mutex<BTreeSet<Environment>>,
    /// The leaps of the store's clock that this gate sees.
    pub leaps: LeapWatch,
    /// How long the machine had been paused, in microseconds, when this gate met its store last.
    paused: AtomicU64,
    /// The environments in which the money of this gate is to be closed, as its own clock was wrong by minutes.
    to_close: Mutex<BTreeSet<Environment>>,
    /// The environments whose money waits until the clock of this machine is compared with a date of others.
    uncompared: watch::Sender<BTreeSet<Environment>>,
}

impl ClockWatch {
    /// Returns a watch by which money of these environments waits until the clock of this machine is compared.
    pub fn comparing(environments: BTreeSet<Environment>) -> ClockWatch {
        let trust = if environments.is_empty() { DateTrust::Unasked } else { DateTrust::Waiting };
        let (trust, uncompared) = (watch::Sender::new(trust), watch::Sender::new(environments));
        ClockWatch { trust, uncompared, ..ClockWatch::default() }
    }

    /// Returns what is known of the clock of this machine.
    pub fn trust(&self) -> watch::Receiver<DateTrust> {
        self.trust.subscribe()
    }

    /// Returns what is known of the clock of this machine for an environment whose money waits, or does not wait, for it.
    pub(super) fn trust_in(&self, environment: Environment) -> DateTrust {
        match *self.trust.borrow() {
            DateTrust::Waiting if !self.uncompared.borrow().contains(&environment) => DateTrust::Unasked,
            trust => trust,
        }
    }

    /// Notes what the dates of others say.
    pub(super) fn is_told(&self, trust: DateTrust) {
        self.trust.send_replace(trust);
    }

    /// Notes that the store of an environment goes by a clock that was compared.
    pub(super) fn settles(&self, environment: Environment) {
        self.settled.send_if_modified(|settled| settled.insert(environment));
    }

    /// Waits until the stores of all environments whose money waits go by a clock that was compared.
    pub(super) async fn all_settled(&self) {
        let (mut settled, waiting) = (self.settled.subscribe(), self.uncompared());
        // The sender lives as long as this watch.
        settled.wait_for(|settled| waiting.is_subset(settled)).await.ok();
    }

    /// Returns the environments whose money waits until the clock is compared.
    pub fn uncompared(&self) -> BTreeSet<Environment> {
        self.uncompared.borrow().clone()
    }

    /// Notes that the clock was compared: it agreed, or a freeze stops this gate's money from now on.
    pub(super) fn is_compared(&self) {
        self.uncompared.send_replace(BTreeSet::new());
    }

    /// Notes whether the journal has money closed for a leap; returns whether it had at any time since people opened it.
    pub(super) fn is_closed(&self, environment: Environment, is_closed: bool) -> bool {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if is_closed {
            closed.insert(environment);
        }
        closed.contains(&environment)
    }

    /// Notes that people opened money behind a leap.
    pub(super) fn is_opened(&self, environment: Environment) {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
    }

    fn to_close(&self) -> MutexGuard<'_, BTreeSet<Environment>> {
        self.to_close.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nothing begin until the journal has that the money of this gate is closed.
    pub(super) fn must_close(&self, environment: Environment) {
        self.to_close().insert(environment);
    }

    pub(super) fn is_to_close(&self, environment: Environment) -> bool {
        self.to_close().contains(&environment)
    }

    pub(super) fn has_closed(&self, environment: Environment) {
        self.to_close().remove(&environment);
    }

    /// Waits until the clock is compared; returns whether it was in time.
    pub(super) async fn compares_in_time(&self, environment: Environment) -> bool {
        let mut uncompared = self.uncompared.subscribe();
        let compared = uncompared.wait_for(|waiting| !waiting.contains(&environment));
        matches!(tokio::time::timeout(COMPARED_WITHIN, compared).await, Ok(Ok(_)))
    }

    /// Whether the machine was paused, and this gate has not met its store since.
    pub fn has_slept(&self, clock: &dyn Clock) -> bool {
        let met = Duration::from_micros(self.paused.load(Ordering::SeqCst));
        clock.paused().saturating_sub(met) > SHORT_PAUSE
    }

    /// Notes that this gate met its store.
    pub fn meets_store(&self, clock: &dyn Clock) {
        let paused = u64::try_from(clock.paused().as_micros()).unwrap_or(u64::MAX);
        self.paused.store(paused, Ordering::SeqCst);
    }
}

impl Node {
    /// Returns why the clocks of this gate let nothing begin now.
    pub(super) async fn stop_by_clocks(&self, intent: &Intent) -> Option<NotBegun> {
        if self.clocks.has_slept(&*self.clock) {
            self.told_of(&StoreFault::Away("this machine was paused, and has not met the store since".to_owned()));
            return Some(NotBegun::StoreAway);
        }
        // The store's time may still be that of the last commit: whatever begins now would end too early.
        let may_begin = self.clocks.compares_in_time(intent.environment()).await;
        let is_to_close = self.clocks.is_to_close(intent.environment());
        (is_to_close || !may_begin).then_some(NotBegun::ClockDoubted)
    }
}

/// Watches the clock of an embedded store, and pauses of the machine, as long as the process lives.
pub async fn watch_own_clock(node: Arc<Node>, store: Arc<Embedded>, environments: Vec<Environment>) {
    let mut trust = node.clocks.trust();
    loop {
        if matches!(*trust.borrow_and_update(), DateTrust::Agrees | DateTrust::Unasked) {
            store.settles_clock();
        }
        if store.is_clock_settled() {
            environments.iter().for_each(|environment| node.clocks.settles(*environment));
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            Ok(()) = trust.changed() => continue,
        }
        let leap = store.leap();
        let mut is_told = true;
        for environment in leap.iter().flat_map(|_| &environments) {
            // The store itself goes on without the leap: the freeze is all that is missing.
            let closed = match node.store.read(&Freeze::Clock.key(*environment)).await {
                Ok((Some(_), _)) => Ok(()),
                Ok((None, _)) => {
                    let own = ComparedClock { clock: StoreTime::of_micros(node.clock.now().as_microsecond()), leap };
                    node.judge_clock(*environment, Some(own), &OtherClocks::default(), None).await.map(drop)
                }
                Err(fault) => Err(fault),
            };
            if let Err(fault) = closed {
                node.told_of(&fault);
                is_told = false;
            }
        }
        if is_told {
            node.clocks.meets_store(&*node.clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[derive(Debug)]
    struct PausedClock(AtomicU64);

    impl Clock for PausedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        fn paused(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn a_machine_that_was_paused_meets_its_store_again_before_it_pays() {
        let (watch, clock) = (ClockWatch::default(), PausedClock(AtomicU64::new(90_000)));
        watch.meets_store(&clock);
        assert!(!watch.has_slept(&clock));
        clock.0.store(90_500, Ordering::SeqCst);
        assert!(!watch.has_slept(&clock));
        clock.0.store(90_501, Ordering::SeqCst);
        assert!(watch.has_slept(&clock));
        watch.meets_store(&clock);
        assert!(!watch.has_slept(&clock));
    }
}
