//! Leaps of the store's clock: what this gate sees, what other gates say of it, and what follows.
//!
//! A leap counts, unless another gate says that there is none. Then money closes until a person opens it, and the store's time
//! goes on as the gates' monotonic clocks say: neither the leap nor the return ends a window, a claim or a hold.
//!
//! A gate that sees a leap asks the others. Only one that has read the clock of the store after it heard the question can deny
//! the leap: what a gate said before it ended or stood still proves nothing. A gate whose leap is denied distrusts its own
//! clock, and takes the time of the store; where that is far off, its money closes until people open it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Node;
use crate::adapters::random::nonce;
use crate::adapters::store::redis::ComparedClock;
use crate::base::ids::Environment;
use crate::ledger::{ClockLeap, StoreFault, StoreTime};
use crate::stations::claim::{self, ClockCorrection, Freeze};

/// How long a gate waits for what others say of a leap: they hear the question with one heartbeat, and answer with the next.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// How much two gates may differ about one leap.
const ALIKE: Duration = Duration::from_secs(2);
/// How much two readings of one clock may differ that gates made one soon after the other.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// A gate whose own clock differs more pays again only once people say so.
const MAX_OWN: Duration = Duration::from_secs(300);

/// The leaps of the store's clock that this gate sees.
#[derive(Debug, Default)]
pub struct LeapWatch {
    seen: Mutex<BTreeMap<Environment, SeenLeap>>,
    /// The questions of other gates that the store had with the last heartbeat.
    questions: Mutex<BTreeMap<Environment, Vec<String>>>,
    /// The environments in which other gates ran when this gate saw no leap last.
    shared: Mutex<BTreeSet<Environment>>,
}

/// A leap that this gate sees.
#[derive(Debug)]
struct SeenLeap {
    leap: ClockLeap,
    /// Since when it is seen, by the gate's monotonic clock.
    since: Duration,
    /// What others repeat once they have read the clock of the store after it leapt.
    question: String,
    counts: bool,
}

/// What a gate says of the clock of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClockTestimony {
    /// The clock that the gate compared last.
    #[serde(rename = "clockMicros")]
    pub clock: StoreTime,
    /// How it differs from what the gate's monotonic clock expects, where it leapt.
    pub leap_micros: Option<i64>,
    /// The questions that the store had before the gate read that clock.
    pub answers: Vec<String>,
}

/// The other gates.
#[derive(Clone, Debug, Default)]
pub struct OtherClocks {
    /// How many of them run, by this gate's time.
    pub running: usize,
    /// What they say who have compared the clock of the store. Where this gate's time is wrong it does not know who runs, so
    /// each word proves by itself that it is new.
    pub told: Vec<ClockTestimony>,
}

/// What a gate does with the time of a store whose clock it sees leap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeapConsequence {
    /// It goes on by its own clock.
    KeepsOwn,
    /// The store's time goes on from the latest one, and so does this gate: its own clock may be ahead.
    GoesOn,
    /// Its own clock is wrong.
    TakesTime,
    /// Its own clock is wrong, by so much that its money closes until people open it.
    TakesTimeAndCloses,
}

/// The gate's judgement of a leap that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeapVerdict {
    /// The store's clock leapt.
    Counts,
    /// Other gates have not been heard since.
    Open,
    /// Another gate has read the clock since, and it is right: this gate's own clock is wrong.
    OwnClock,
}

impl ClockTestimony {
    pub fn of(compared: ComparedClock, answers: Vec<String>) -> ClockTestimony {
        ClockTestimony { clock: compared.clock, leap_micros: compared.leap.map(ClockLeap::as_micros), answers }
    }

    /// Whether it is about the clock that shows this time, as it does now.
    fn is_about(&self, clock: StoreTime) -> bool {
        clock.since(self.clock).max(self.clock.since(clock)) <= READ_WITHIN
    }

    /// Whether it says that the clock leapt alike which shows this time.
    fn shares(&self, leap: ClockLeap, clock: StoreTime) -> bool {
        self.is_about(clock) && self.leap_micros.is_some_and(|micros| is_alike(leap, ClockLeap::of_micros(micros)))
    }

    /// Whether it says that the clock did not leap which shows this time: the gate read it after the question was asked.
    fn denies(&self, question: &str, clock: StoreTime) -> bool {
        self.leap_micros.is_none() && self.is_about(clock) && self.answers.iter().any(|answered| answered == question)
    }
}

impl LeapWatch {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<Environment, SeenLeap>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the question that this gate asks the others, while it sees a leap.
    pub fn question(&self, environment: Environment) -> Option<String> {
        self.seen().get(&environment).map(|seen| seen.question.clone())
    }

    /// Whether this gate waits for what others say of a leap.
    pub(super) fn waits_for_others(&self, elapsed: Duration) -> bool {
        self.seen().values().any(|seen| elapsed.saturating_sub(seen.since) < HEARD_WITHIN)
    }

    /// Notes the questions of other gates that the store had when this gate last read its clock.
    pub(super) fn hears(&self, environment: Environment, questions: Vec<String>) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, questions);
    }

    /// Returns those questions. The clock that is compared is asked for after them.
    pub(super) fn heard(&self, environment: Environment) -> Vec<String> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).cloned().unwrap_or_default()
    }

    /// Notes that this gate took the clock that others find right: another leap is judged anew.
    pub(super) fn is_settled(&self, environment: Environment) {
        self.seen().remove(&environment);
    }

    /// Judges a leap that this gate sees, by what the other running gates say. Returns how long it is seen, as well.
    fn judge(
        &self,
        environment: Environment,
        own: Option<ComparedClock>,
        others: &OtherClocks,
        elapsed: Duration,
    ) -> Option<(ClockLeap, LeapVerdict, Duration)> {
        let mut leaps = self.seen();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((clock, leap)) = own.and_then(|own| Some((own.clock, own.leap?))) else {
            leaps.remove(&environment);
            if others.running == 0 {
                shared.remove(&environment)
            } else {
                shared.insert(environment)
            };
            return None;
        };
        // One Redis has all environments, and this gate one monotonic clock.
        let counts_elsewhere =
            leaps.iter().any(|(other, seen)| *other != environment && seen.counts && is_alike(seen.leap, leap));
        let first = || SeenLeap { leap, since: elapsed, question: nonce().0, counts: false };
        let seen = leaps.entry(environment).or_insert_with(first);
        if !is_alike(seen.leap, leap) {
            // The clock leapt again: what was said of it before does not count.
            seen.question = nonce().0;
        }
        seen.leap = leap;
        let is_shared = counts_elsewhere || others.told.iter().any(|other| other.shares(leap, clock));
        let is_denied = others.told.iter().any(|other| other.denies(&seen.question, clock));
        let seen_for = elapsed.saturating_sub(seen.since);
        // To a gate whose own clock is ahead the others seem to have ended long ago.
        let is_only = others.running == 0 && !shared.contains(&environment);
        let verdict = verdict((is_shared, is_only), is_denied, seen_for);
        seen.counts = verdict == LeapVerdict::Counts;
        Some((leap, verdict, seen_for))
    }
}

fn verdict((is_shared, is_only): (bool, bool), is_denied: bool, seen_for: Duration) -> LeapVerdict {
    if is_shared || is_only {
        LeapVerdict::Counts
    } else if seen_for < HEARD_WITHIN {
        LeapVerdict::Open
    } else if is_denied {
        LeapVerdict::OwnClock
    } else {
        LeapVerdict::Counts
    }
}

fn is_alike(one: ClockLeap, other: ClockLeap) -> bool {
    one.is_ahead == other.is_ahead && one.by.abs_diff(other.by) <= ALIKE
}

impl Node {
    /// Acts on a leap of the store's clock, as this gate last found it. `correction` has the store's time go on without the
    /// leap, where the store does not do so by itself.
    pub async fn judge_clock(
        &self,
        environment: Environment,
        own: Option<ComparedClock>,
        others: &OtherClocks,
        correction: Option<i64>,
    ) -> Result<LeapConsequence, StoreFault> {
        let Some((leap, verdict, seen_for)) = self.clocks.leaps.judge(environment, own, others, self.clock.elapsed())
        else {
            return Ok(LeapConsequence::KeepsOwn);
        };
        match verdict {
            LeapVerdict::Open => {
                if seen_for.is_zero() {
                    tracing::warn!(%environment, why = leap.text(), "the store's clock leapt, as this gate alone sees it");
                }
                Ok(LeapConsequence::KeepsOwn)
            }
            LeapVerdict::OwnClock if leap.by > MAX_OWN => Ok(LeapConsequence::TakesTimeAndCloses),
            LeapVerdict::OwnClock => {
                tracing::error!(
                    %environment,
                    why = leap.text(),
                    "another gate sees no leap: this machine was paused, or its clock is wrong; the gate takes the store's time"
                );
                Ok(LeapConsequence::TakesTime)
            }
            LeapVerdict::Counts => {
                let reason = format!("the store's clock was {}", leap.text());
                self.close_for_clock(environment, &reason, correction).await?;
                Ok(if leap.is_ahead { LeapConsequence::KeepsOwn } else { LeapConsequence::GoesOn })
            }
        }
    }

    /// Closes money, and has the store's time go on.
    pub(super) async fn close_for_clock(
        &self,
        environment: Environment,
        reason: &str,
        correction: Option<i64>,
    ) -> Result<(), StoreFault> {
        let (before, _) = self.store.read(&Freeze::Clock.key(environment)).await?;
        let mut steps = Vec::new();
        if let Some(micros) = correction {
            let (corrected, _) = self.store.read(&ClockCorrection::key(environment)).await?;
            steps = ClockCorrection::set(environment, corrected.map(|record| record.version), micros);
        }
        let commit = claim::clock_doubted(environment, before.map(|record| record.version), reason, steps, &self.id);
        // Where another gate was faster, the next heartbeat finds nothing more to do.
        if self.commit(commit).await?.is_some() {
            self.metrics.clock_leapt(environment.as_str());
            tracing::error!(
                %environment,
                why = reason,
                "the clock of the store leapt: money is closed, and the store's time goes on without the leap; set the clock of \
                 its machine right, then `sluice unfreeze --clock --environment ENVIRONMENT --reason TEXT`"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: i64 = 1_000_000;

    /// What a gate says that read the clock of the store at this second, and how far it is ahead for it.
    fn told(clock: i64, leap: Option<i64>, answers: Vec<String>) -> ClockTestimony {
        let leap_micros = leap.map(|seconds| seconds * MICROS);
        ClockTestimony { clock: StoreTime::of_micros(clock * MICROS), leap_micros, answers }
    }

    /// What a gate judges at a second at which the clock of the store shows this one.
    fn judged(
        watch: &LeapWatch,
        environment: Environment,
        (clock, leap): (i64, Option<i64>),
        (running, told): (usize, Vec<ClockTestimony>),
        at: u64,
    ) -> Option<LeapVerdict> {
        let leap = leap.map(|seconds| ClockLeap::of_micros(seconds * MICROS));
        let own = ComparedClock { clock: StoreTime::of_micros(clock * MICROS), leap };
        let others = OtherClocks { running, told };
        let judged = watch.judge(environment, Some(own), &others, Duration::from_secs(at));
        judged.map(|(_, verdict, _)| verdict)
    }

    #[test]
    fn a_leap_counts_if_two_gates_see_it_or_the_only_one() {
        let watch = LeapWatch::default();
        let verdict = |leap, told: Vec<ClockTestimony>, at| {
            judged(&watch, Environment::Production, (1_000, leap), (told.len(), told), at)
        };
        let sees = |leap| told(1_000, leap, Vec::new());
        assert_eq!(verdict(None, vec![], 1), None);
        assert_eq!(verdict(Some(100), vec![], 2), Some(LeapVerdict::Counts));
        assert_eq!(verdict(None, vec![], 3), None);
        // Another gate has not been heard since: it may see the same.
        assert_eq!(verdict(Some(100), vec![sees(None)], 4), Some(LeapVerdict::Open));
        assert_eq!(verdict(Some(100), vec![sees(None), sees(Some(101))], 5), Some(LeapVerdict::Counts));
        assert_eq!(verdict(Some(100), vec![sees(Some(-100))], 6), Some(LeapVerdict::Open));
        // It is not heard any more.
        assert_eq!(verdict(Some(100), vec![sees(None), sees(Some(200))], 9), Some(LeapVerdict::Counts));
        // What was over and comes again is judged anew.
        assert_eq!(verdict(None, vec![sees(None)], 10), None);
        assert_eq!(verdict(Some(100), vec![sees(None)], 11), Some(LeapVerdict::Open));
    }

    #[test]
    fn only_a_gate_that_read_the_clock_behind_the_question_denies_a_leap() {
        let watch = LeapWatch::default();
        let at = Environment::Production;
        let asks = || {
            judged(&watch, at, (1_000, None), (1, vec![]), 0);
            assert_eq!(judged(&watch, at, (1_000, Some(100)), (1, vec![]), 1), Some(LeapVerdict::Open));
            watch.question(at).unwrap()
        };
        let former = asks();
        for (clock, leap, answer, wanted) in [
            (1_003, None, "", LeapVerdict::OwnClock),
            // It said so of an earlier leap, or before this one.
            (1_003, None, former.as_str(), LeapVerdict::Counts),
            (1_003, None, "another", LeapVerdict::Counts),
            // It read another clock.
            (903, None, "", LeapVerdict::Counts),
            (1_020, None, "", LeapVerdict::Counts),
            // It sees a leap itself.
            (1_003, Some(20), "", LeapVerdict::Counts),
        ] {
            let question = asks();
            let answers = vec![if answer.is_empty() { question } else { answer.to_owned() }];
            let other = vec![told(clock, leap, answers)];
            // Others may see the leap, and tell it later.
            assert_eq!(judged(&watch, at, (1_004, Some(100)), (1, other.clone()), 5), Some(LeapVerdict::Open));
            assert_eq!(
                judged(&watch, at, (1_005, Some(100)), (1, other), 6),
                Some(wanted),
                "{clock} {leap:?} {answer}"
            );
        }
        // The clock leaps again behind the answer.
        let other = vec![told(1_003, None, vec![asks()])];
        assert_eq!(judged(&watch, at, (1_009, Some(104)), (1, other), 6), Some(LeapVerdict::Counts));
    }

    #[test]
    fn a_leap_that_counts_in_one_environment_counts_in_the_others() {
        let watch = LeapWatch::default();
        let counted =
            judged(&watch, Environment::Production, (1_000, Some(100)), (1, vec![told(1_000, Some(100), vec![])]), 1);
        assert_eq!(counted, Some(LeapVerdict::Counts));
        let other = |leap| judged(&watch, Environment::Sandbox, (1_000, Some(leap)), (1, vec![]), 1);
        assert_eq!((other(50), other(101)), (Some(LeapVerdict::Open), Some(LeapVerdict::Counts)));
    }
}
