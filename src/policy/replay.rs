//! Decides recorded calls again by another policy set, limits included.
//!
//! Requests come in the order of their numbers. A window holds what the new set allows: a call counts from its decision
//! on, and no longer once the record says that it was certainly not executed. A call that was refused then and would
//! pass now counts as executed, because nothing says otherwise. A hold counts nothing until the record says that it was
//! released; people approved it then, and are assumed to approve it again.
//!
//! A decision that depends on a fact that was not recorded is reported as undecided, and never guessed.

use std::collections::BTreeMap;

use super::body_facts::{NOT_KEPT, NOT_KNOWN_PAID, Stated};
use super::limit::{NOT_VALUED, Reservation};
use super::operands::Operands;
use super::request::{Facts, PolicyRequest};
use super::rule::Effect;
use super::rules::{Cause, Rules, Verdict};
use crate::base::ids::{Environment, OperationId};
use crate::base::keyed::OperandKey;
use crate::base::word_enum::word_enum;
use crate::catalog::Catalog;
use crate::ledger::{StoreTime, WindowKey, WindowSpan};

/// A recorded decision.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    pub environment: Environment,
    /// The number of its commit.
    pub number: u64,
    pub at: StoreTime,
    pub operation: OperationId,
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    /// The hold in which it waited, or from which it was released.
    pub hold: Option<String>,
    pub operands: Operands,
}

/// The result for a recorded request.
#[derive(Clone, Debug)]
pub enum Replayed {
    Decided(Verdict),
    Undecided(Undecided),
}

word_enum! {
    /// Why a request cannot be decided.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Undecided {
        /// Its names are digested under another key.
        OtherKey = "its personal names are digested under another key",
        NoSuchOperation = "the contract has no such operation",
        /// A rule reads a field of the body that no rule read then.
        NotKept = "a rule reads a field of the body that no rule read then",
        /// A rule asks whether its destination was paid before, and none did then.
        NotKnownPaid = "a rule asks whether its destination was paid before, and none did then",
        /// The set says nothing of the value that a currency had then.
        NotValued = "a limit has its maximum in a currency whose value at that time is not known",
    }
}

/// A policy set and its windows, on the way through a record.
#[derive(Debug)]
pub struct Replay<'c> {
    rules: Rules,
    catalog: &'c Catalog,
    key_id: String,
    windows: BTreeMap<(Environment, WindowKey), BTreeMap<u64, Share>>,
    /// The windows that a call counts in, by its number.
    held: BTreeMap<(Environment, u64), Vec<WindowKey>>,
    /// The numbers of calls that waited then but count already, by their holds.
    early: BTreeMap<(Environment, String), u64>,
}

/// A call's share of a window: from when to when it counts.
#[derive(Clone, Copy, Debug)]
struct Share {
    begin: i64,
    end: i64,
    units: u64,
}

impl<'c> Replay<'c> {
    pub fn of(rules: &Rules, catalog: &'c Catalog, key: &OperandKey) -> Replay<'c> {
        let rules = rules.keyed(key);
        Replay {
            rules,
            catalog,
            key_id: key.id(),
            windows: BTreeMap::new(),
            held: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }

    /// Decides the next call, and counts it if it passes.
    pub fn decide(&mut self, recorded: &RecordedCall) -> Replayed {
        let replayed = self.verdict(recorded, |effect| effect == Effect::Allow);
        if let Replayed::Decided(verdict) = &replayed
            && verdict.effect == Effect::Allow
        {
            self.reserve(recorded, &verdict.reservations);
            if let Some(hold) = &recorded.hold {
                self.early.insert((recorded.environment, hold.clone()), recorded.number);
            }
        }
        replayed
    }

    /// Releases a hold: it counts from now on under the number of its attempt, and not twice. It was decided when it
    /// was requested.
    pub fn release(&mut self, recorded: &RecordedCall) {
        let early = recorded.hold.clone().and_then(|hold| self.early.remove(&(recorded.environment, hold)));
        if let Some(number) = early {
            self.give_back(recorded.environment, number);
        }
        if let Replayed::Decided(verdict) = self.verdict(recorded, |effect| effect != Effect::Deny)
            && verdict.effect != Effect::Deny
        {
            self.reserve(recorded, &verdict.reservations);
        }
    }

    /// Returns the verdict of these rules; `passes` decides which effects count.
    fn verdict(&self, recorded: &RecordedCall, passes: impl Fn(Effect) -> bool) -> Replayed {
        if recorded.operands.key != self.key_id {
            return Replayed::Undecided(Undecided::OtherKey);
        }
        let Some(operation) = self.catalog.operation(&recorded.operation) else {
            return Replayed::Undecided(Undecided::NoSuchOperation);
        };
        let Operands { now, roles, path_parameters, movement, paid, body, .. } = &recorded.operands;
        let asked = PolicyRequest {
            environment: recorded.environment,
            operation,
            issuer: &recorded.issuer,
            subject: &recorded.subject,
            requester: recorded.requester.as_deref(),
            roles,
            path: "",
            path_parameters,
            body: Stated::Kept(body),
            movement: movement.as_ref(),
        };
        let mut facts = Facts { now: *now, paid: paid.clone(), ..Facts::default() };
        let mut verdict = self.rules.decide(&asked, &facts);
        // Windows are read only for a call that passes; full ones may then stop it, step by step.
        while passes(verdict.effect) {
            let full = verdict.reservations.iter().filter(|share| self.is_full(recorded, share));
            let full = full.map(|share| ((share.window.limit.clone(), share.window.key.clone()), share.max));
            let full: Vec<_> = full.collect();
            let known = facts.exceeded.len();
            facts.exceeded.extend(full);
            if facts.exceeded.len() == known {
                break;
            }
            verdict = self.rules.decide(&asked, &facts);
        }
        match undecided(&verdict) {
            Some(why) => Replayed::Undecided(why),
            None => Replayed::Decided(verdict),
        }
    }

    /// Takes a call back: the record says that it was not executed.
    pub fn give_back(&mut self, environment: Environment, attempt: u64) {
        for window in self.held.remove(&(environment, attempt)).unwrap_or_default() {
            if let Some(shares) = self.windows.get_mut(&(environment, window)) {
                shares.remove(&attempt);
            }
        }
    }

    /// Returns the value of the call by these rules.
    pub fn value(&self, recorded: &RecordedCall, verdict: &Verdict) -> Option<u64> {
        verdict.value.map(|value| value.as_u64()).or(recorded.operands.value)
    }

    fn is_full(&self, recorded: &RecordedCall, reservation: &Reservation) -> bool {
        let Reservation { window, span, units, max, .. } = reservation;
        let Some((from, to)) = reach(*span, recorded.at) else { return true };
        let shares = self.windows.get(&(recorded.environment, window.clone()));
        let counting = shares.into_iter().flat_map(BTreeMap::values).filter(|s| s.end > from && s.begin < to);
        counting.fold(*units, |sum, share| sum.saturating_add(share.units)) > *max
    }

    fn reserve(&mut self, recorded: &RecordedCall, reservations: &[Reservation]) {
        let RecordedCall { environment, number, at, .. } = recorded;
        for Reservation { window, span, units, .. } in reservations {
            let Some((begin, end)) = slot(*span, *at) else { continue };
            let shares = self.windows.entry((*environment, window.clone())).or_default();
            shares.retain(|_, share| reach(*span, *at).is_none_or(|(from, _)| share.end > from));
            shares.insert(*number, Share { begin, end, units: *units });
            self.held.entry((*environment, *number)).or_default().push(window.clone());
        }
    }
}

/// Returns the missing fact, if only a missing fact denies.
fn undecided(verdict: &Verdict) -> Option<Undecided> {
    let why = |text: &str| match text {
        // A description may follow.
        text if text.starts_with(NOT_KEPT.0) => Some(Undecided::NotKept),
        text if text.starts_with(NOT_KNOWN_PAID.0) => Some(Undecided::NotKnownPaid),
        text if text.starts_with(NOT_VALUED.0) => Some(Undecided::NotValued),
        _ => None,
    };
    let found = verdict.reasons.iter().find_map(|reason| why(&reason.text))?;
    let is_certain = verdict.reasons.iter().any(|reason| reason.cause != Cause::Gate && why(&reason.text).is_none());
    (!is_certain).then_some(found)
}

/// Returns the reach of a window, in microseconds.
fn reach(span: WindowSpan, now: StoreTime) -> Option<(i64, i64)> {
    match span {
        WindowSpan::Rolling { count, .. } => {
            let (begin, end) = slot(span, now)?;
            let length = end.checked_sub(begin)?;
            Some((begin.saturating_sub(length.saturating_mul(i64::from(count))), i64::MAX))
        }
        WindowSpan::Fixed { from, to } => Some((from.as_micros(), to.as_micros())),
    }
}

/// Returns from when to when a share counts that is taken now.
fn slot(span: WindowSpan, now: StoreTime) -> Option<(i64, i64)> {
    match span {
        WindowSpan::Rolling { bucket, .. } => {
            let length = i64::try_from(bucket.as_micros()).ok()?;
            let begin = now.as_micros().saturating_sub(now.as_micros().checked_rem_euclid(length)?);
            Some((begin, begin.saturating_add(length)))
        }
        WindowSpan::Fixed { from, to } => Some((from.as_micros(), to.as_micros())),
    }
}
