//! The watch of clocks: a store whose clock leapt, a machine that was paused, and one whose clock is not yet compared with
//! the dates of others.
//!
//! A leap counts if two gates see it, or the only one that runs. Then money closes until a person opens it, and the
//! store's time goes on as the gates' monotonic clocks say: neither the leap nor the return ends a window, a claim or a
//! hold. A gate that is alone with what it sees distrusts its own clock, and takes the time of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Node;
use super::not_begun::NotBegun;
use crate::adapters::store::embedded::Embedded;
use crate::base::ids::Environment;
use crate::ledger::{ClockLeap, StoreFault};
use crate::ports::Clock;
use crate::stations::check::Intent;
use crate::stations::claim::{self, Freeze};

/// The poll interval for the clock of an embedded store.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// How long a gate waits for another one that sees the same leap; longer than two heartbeats.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// How much two gates may differ about one leap.
const ALIKE: Duration = Duration::from_secs(2);
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
    /// Since when this gate sees a leap, by its monotonic clock.
    since: Mutex<BTreeMap<Environment, Duration>>,
    /// How long the machine had been paused, in microseconds, when this gate met its store last.
    paused: AtomicU64,
    /// The environments whose money waits until the clock of this machine is compared with a date of others.
    uncompared: watch::Sender<BTreeSet<Environment>>,
}

/// The gate's judgement of a leap that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeapVerdict {
    /// The store's clock leapt.
    Counts,
    /// Other gates have not been heard since.
    Open,
    /// No other gate sees it: this gate's own clock is wrong.
    OwnClock,
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

    /// Judges a leap that this gate sees, by what the other running gates see.
    fn judge(
        &self,
        environment: Environment,
        own: Option<ClockLeap>,
        others: &[Option<ClockLeap>],
        elapsed: Duration,
    ) -> Option<(ClockLeap, LeapVerdict)> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(leap) = own else {
            since.remove(&environment);
            return None;
        };
        let since = *since.entry(environment).or_insert(elapsed);
        let is_shared = others.iter().flatten().any(|other| is_alike(leap, *other));
        Some((leap, verdict(is_shared, others.is_empty(), elapsed.saturating_sub(since))))
    }
}

fn verdict(is_shared: bool, is_only: bool, seen_for: Duration) -> LeapVerdict {
    if is_shared || is_only {
        LeapVerdict::Counts
    } else if seen_for < HEARD_WITHIN {
        LeapVerdict::Open
    } else {
        LeapVerdict::OwnClock
    }
}

fn is_alike(one: ClockLeap, other: ClockLeap) -> bool {
    one.is_ahead == other.is_ahead && one.by.abs_diff(other.by) <= ALIKE
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
        (!may_begin).then_some(NotBegun::ClockDoubted)
    }

    /// Acts on a leap of the Redis' clock, as the last heartbeat found it. Returns whether this gate's own clock is wrong.
    pub async fn judge_clock(
        &self,
        environment: Environment,
        own: Option<ClockLeap>,
        others: &[Option<ClockLeap>],
    ) -> Result<bool, StoreFault> {
        let Some((leap, verdict)) = self.clocks.judge(environment, own, others, self.clock.elapsed()) else {
            return Ok(false);
        };
        match verdict {
            LeapVerdict::Open => {
                tracing::warn!(%environment, why = leap.text(), "the store's clock leapt, as this gate alone sees it");
                Ok(false)
            }
            LeapVerdict::OwnClock => {
                tracing::error!(
                    %environment,
                    why = leap.text(),
                    "no other gate sees this leap: this machine was paused, or its clock is wrong; the gate takes the store's time"
                );
                Ok(true)
            }
            LeapVerdict::Counts => self.close_for_clock(environment, leap).await.map(|()| false),
        }
    }

    /// Closes money, and has the store's time go on.
    async fn close_for_clock(&self, environment: Environment, leap: ClockLeap) -> Result<(), StoreFault> {
        let (before, _) = self.store.read(&Freeze::Clock.key(environment)).await?;
        let reason = format!("the store's clock was {}", leap.text());
        let commit = claim::clock_doubted(environment, before.map(|record| record.version), &reason, &self.id);
        // Where another gate was faster, the next heartbeat finds nothing more to do.
        if self.commit(commit).await?.is_some() {
            self.metrics.clock_leapt(environment.as_str());
            tracing::error!(
                %environment,
                why = leap.text(),
                "the clock of the store leapt: money is closed, and the store's time goes on without the leap; set the clock of \
                 its machine right, then `sluice unfreeze --clock`"
            );
        }
        Ok(())
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
            _ = trust.changed() => continue,
        }
        let leap = store.leap();
        let mut is_told = true;
        for environment in leap.iter().flat_map(|_| &environments) {
            // The store itself goes on without the leap: the freeze is all that is missing.
            let closed = match node.store.read(&Freeze::Clock.key(*environment)).await {
                Ok((Some(_), _)) => Ok(()),
                Ok((None, _)) => node.judge_clock(*environment, leap, &[]).await.map(drop),
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

    #[test]
    fn a_leap_counts_if_two_gates_see_it_or_the_only_one() {
        let (watch, seconds) = (ClockWatch::default(), Duration::from_secs);
        let leap = |seconds: i64| Some(ClockLeap::of_micros(seconds * 1_000_000));
        let verdict = |own, others: &[Option<ClockLeap>], at: u64| {
            watch.judge(Environment::Production, own, others, seconds(at)).map(|(_, verdict)| verdict)
        };
        assert_eq!(verdict(None, &[], 1), None);
        assert_eq!(verdict(leap(100), &[], 2), Some(LeapVerdict::Counts));
        assert_eq!(verdict(None, &[], 3), None);
        // Another gate has not been heard since: it may see the same.
        assert_eq!(verdict(leap(100), &[None], 4), Some(LeapVerdict::Open));
        assert_eq!(verdict(leap(100), &[None, leap(101)], 5), Some(LeapVerdict::Counts));
        assert_eq!(verdict(leap(100), &[leap(-100)], 6), Some(LeapVerdict::Open));
        assert_eq!(verdict(leap(100), &[None, leap(200)], 7), Some(LeapVerdict::OwnClock));
        // What was over and comes again is judged anew.
        assert_eq!(verdict(None, &[None], 8), None);
        assert_eq!(verdict(leap(100), &[None], 9), Some(LeapVerdict::Open));
    }

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
