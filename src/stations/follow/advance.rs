//! The commits that move a payment forward, and correct the limits that count it.
//!
//! Each is guarded by the version of the record that it replaces, and makes the windows hold exactly what the record then
//! says. So repeated, late and reordered pages, kills and two gates at once change nothing twice.

use std::cmp::Ordering;
use std::time::Duration;

use super::comparison::{RecordProblem, problem_of};
use super::listing::{AnsweredName, ListedRecord, answered_name};
use super::payment::{FollowedPayment, ForeignRecord, encode, followed_key, foreign_key, foreign_name};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::{Environment, OperationId};
use crate::base::money::MicroUsd;
use crate::catalog::{Follow, StateMeaning};
use crate::ledger::{Commit, Index, Keep, NodeId, Number, Step, Versioned};
use crate::policy::{Rules, counts_calls};
use crate::stations::claim::{AttemptEnd, BookedWindow, Claim, ClaimState, Freeze, PastAttempt, is_older_than};

/// A record as one page shows it.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    pub environment: Environment,
    pub operation: &'a OperationId,
    pub follow: &'a Follow,
    pub record: &'a ListedRecord,
    /// The value of what it moves, where that is not what was counted.
    pub value: Option<MicroUsd>,
    /// Whether people know already, from the answer to the call, that it is not as it was sent.
    pub is_told: bool,
    /// The rules in force, which name whoever hears of payments that fail or come back.
    pub rules: &'a Rules,
    pub node: &'a NodeId,
    /// How long the record of the payment is kept.
    pub keep: Duration,
}

/// The changes by a sighting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowChange {
    /// The new state and what it means.
    pub moved: Option<(String, StateMeaning)>,
    pub problem: Option<RecordProblem>,
    /// Whether limits count other units than before.
    pub windows: Option<&'static str>,
}

/// The commit for the first sighting of a payment; `None` where the claim says that no attempt was executed.
pub fn begin(claim: Versioned<'_, Claim>, seen: &Sighting<'_>) -> Option<(Commit, FollowChange)> {
    let of = claim.value;
    let executed = || of.attempts.iter().rev().filter(|attempt| attempt.end == AttemptEnd::Executed);
    let its_own = executed().find(|attempt| attempt.can_have_made(seen.record.created));
    let executed = its_own.or_else(|| executed().next())?;
    let first = FollowedPayment {
        operation: of.operation.clone(),
        id: seen.record.id.clone(),
        is_named: named(of, seen.follow).is_some(),
        claim: claim.key.name.clone(),
        request_id: of.request_id.clone(),
        owner: of.owner.clone(),
        trace: of.trace.clone(),
        hold: of.hold.clone(),
        attempt: executed.number,
        since: executed.since,
        asked: of.moves.clone(),
        state: String::new(),
        updated: None,
        windows: executed.booked.windows.clone(),
        is_given_back: false,
        problem: None,
    };
    let (next, change) = after(&first, seen);
    let key = followed_key(seen.environment, &claim.key.name);
    let create = Step::Create { key, value: encode(&next), keep: keep(seen) };
    // The windows are those of the claim as it was read.
    let guard = Step::Version { key: claim.key.clone(), version: claim.version };
    Some((commit(&first, &next, &change, vec![create, guard], seen), change))
}

/// The commit for another sighting of the same record; `None` where it changes nothing.
pub fn advance(here: Versioned<'_, FollowedPayment>, seen: &Sighting<'_>) -> Option<(Commit, FollowChange)> {
    let (next, change) = after(here.value, seen);
    if next == *here.value {
        return None;
    }
    let (key, version, value) = (here.key.clone(), here.version, encode(&next));
    let replace = Step::Replace { key, version, value, keep: keep(seen) };
    Some((commit(here.value, &next, &change, vec![replace], seen), change))
}

/// Returns the payment as it is after a sighting.
fn after(before: &FollowedPayment, seen: &Sighting<'_>) -> (FollowedPayment, FollowChange) {
    let Sighting { follow, record, .. } = seen;
    let mut change = FollowChange::default();
    let mut next = before.clone();
    // No state is listed before the first.
    if follow.rank(&record.state) > follow.rank(&before.state)
        && let Some(state) = follow.state(&record.state)
    {
        next.state = state.name.clone();
        change.moved = Some((state.name.clone(), state.meaning));
    }
    // The content of a later page stands.
    let is_stale = before.updated.is_some_and(|seen| record.updated.is_none_or(|updated| updated < seen));
    if !is_stale {
        next.updated = record.updated;
        let older = is_older_than(before.since, record.created).then_some(RecordProblem::OlderRecord);
        let problem = older.or_else(|| before.asked.as_ref().and_then(|asked| problem_of(asked, &record.moves)));
        // One alert for each record is enough. An older record lowers nothing, whatever was found before.
        if before.problem.is_none() || (older.is_some() && before.problem != older) {
            (next.problem, change.problem) = (problem, problem.filter(|_| !seen.is_told));
        }
        if let Some(value) = seen.value {
            // Where two contents of one time differ, the larger amount counts: they may come in turns.
            let is_again = before.updated.is_some() && before.updated == record.updated && change.moved.is_none();
            let may_lower = !is_again && next.may_lower();
            let amounts = next.windows.iter_mut().filter(|counted| !counts_calls(&counted.window));
            amounts.for_each(|counted| {
                counted.units = if may_lower { value.as_u64() } else { counted.units.max(value.as_u64()) };
            });
        }
    }
    next.is_given_back = next.may_lower() && follow.state(&next.state).is_some_and(|state| state.is_nothing_left);
    change.windows = match (before.is_given_back, next.is_given_back) {
        (false, true) => Some("given-back"),
        (true, false) => Some("counted-again"),
        (false, false) if next.windows != before.windows => Some("corrected"),
        (false, false) | (true, true) => None,
    };
    (next, change)
}

fn commit(
    before: &FollowedPayment,
    next: &FollowedPayment,
    change: &FollowChange,
    mut steps: Vec<Step>,
    seen: &Sighting<'_>,
) -> Commit {
    steps.push(Step::Absent(Freeze::Restored.key(seen.environment)));
    steps.extend(corrections(before, next));
    if let Some(problem) = change.problem {
        let record = seen.record.as_foreign(seen.operation, problem);
        steps.extend(listed_as_foreign(seen.environment, &record, keep(seen)));
    }
    let mut entry = Entry::of(EntryKind::Followed)
        .with("claim", next.claim.as_str())
        .operation(&next.operation)
        .owner(&next.owner.issuer, &next.owner.subject)
        .trace(&next.trace)
        .attempt(next.attempt)
        .with("record", seen.record.id.as_str())
        .with("state", next.state.as_str());
    if let Some(id) = &next.request_id {
        entry = entry.with("requestId", id.as_str());
    }
    if let Some(hold) = &next.hold {
        entry = entry.with("hold", hold.as_str());
    }
    if let Some((_, meaning)) = &change.moved {
        entry = entry.with("meaning", meaning.as_str());
        if matches!(meaning, StateMeaning::Failed | StateMeaning::Returned) {
            let alert = seen.rules.alerted(next.windows.iter().map(|counted| counted.window.limit.as_str()));
            let alert = (!alert.is_empty()).then(|| alert.into_iter().collect::<Vec<_>>());
            entry = entry.with("alert", alert);
        }
    }
    if let Some(windows) = change.windows {
        let value = next.windows.iter().find(|counted| !counts_calls(&counted.window)).map(|counted| counted.units);
        let value = if next.is_given_back { value.map(|_| 0) } else { value };
        entry = entry.with("windows", windows).with("counted", value);
    }
    if let Some(problem) = change.problem {
        entry = entry.with("problem", problem.as_str());
    }
    Commit { environment: seen.environment, node: seen.node.clone(), steps, entry: entry.to_bytes() }
}

/// The steps that make each window count what the payment says after the change, in the time of its send.
fn corrections(before: &FollowedPayment, next: &FollowedPayment) -> Vec<Step> {
    let counts = |of: &FollowedPayment, units: u64| if of.is_given_back { 0 } else { units };
    let correction = |(was, is): (&BookedWindow, &BookedWindow)| {
        let (from, to) = (counts(before, was.units), counts(next, is.units));
        let (window, span, at) = (is.window.clone(), is.span, next.since);
        match from.cmp(&to) {
            Ordering::Equal => None,
            Ordering::Less => Some(Step::Book { window, span, units: to.saturating_sub(from), at }),
            Ordering::Greater => Some(Step::Unbook { window, span, units: from.saturating_sub(to), at }),
        }
    };
    before.windows.iter().zip(&next.windows).filter_map(correction).collect()
}

/// The commit for a record that is foreign.
pub fn foreign(environment: Environment, record: &ForeignRecord, keep: Keep, node: &NodeId) -> Commit {
    let mut steps = listed_as_foreign(environment, record, keep);
    steps.push(Step::Absent(Freeze::Restored.key(environment)));
    let mut entry = Entry::of(EntryKind::Foreign)
        .operation(&record.operation)
        .with("record", record.id.as_str())
        .with("state", record.state.as_str())
        .with("problem", record.problem.as_str());
    if let Some(id) = &record.request_id {
        entry = entry.with("requestId", id.as_str());
    }
    let shown = &record.moves.source;
    entry = entry
        .with("amount", shown.amount.as_deref())
        .with("currency", shown.currency.as_deref())
        .with("chain", shown.chain.as_deref());
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

fn listed_as_foreign(environment: Environment, record: &ForeignRecord, keep: Keep) -> Vec<Step> {
    let name = foreign_name(&record.operation, &record.id, record.problem);
    vec![
        Step::Create { key: foreign_key(environment, &name), value: encode(record), keep },
        Step::IndexAdd { index: Index::Foreign, member: name, due: Duration::ZERO },
    ]
}

fn keep(seen: &Sighting<'_>) -> Keep {
    Keep::For { whole: seen.keep, spent: Duration::ZERO }
}

/// The meaning of a record for the claim that has its requestId.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The payment is followed from now on.
    Follow,
    /// The attempt is being sent, or in doubt: others settle it.
    Later,
    /// Upstream's answer named another record: this one stands beside it.
    Second,
    /// The record proves that this attempt was executed, although its claim says otherwise.
    Proves(Number),
    Foreign(RecordProblem),
    /// The record says the same as the claim, or nothing is known to compare it with.
    Nothing,
}

/// Judges a record by the claim with its requestId.
pub fn verdict_on(claim: &Claim, seen: &Sighting<'_>) -> ClaimVerdict {
    let made = seen.record.created;
    match &claim.state {
        ClaimState::Sending { .. } => return ClaimVerdict::Later,
        // Everybody who reads the list can use the requestId of a record that is there.
        _ if claim.is_behind(made) => return ClaimVerdict::Foreign(RecordProblem::OlderRecord),
        ClaimState::Unknown { .. } => return ClaimVerdict::Later,
        // Whoever has upstream's key may make another record with this requestId.
        ClaimState::Done { executed: true, .. } => {
            let problem = claim.moves.as_ref().and_then(|asked| problem_of(asked, &seen.record.moves));
            let mut executed = claim.attempts.iter().filter(|attempt| attempt.end == AttemptEnd::Executed).peekable();
            let is_earlier = executed.peek().is_some() && !executed.any(|attempt| attempt.can_have_made(made));
            return match named(claim, seen.follow) {
                Some(name) if name != seen.record.id => ClaimVerdict::Second,
                // It may be one of an earlier attempt.
                None if is_earlier => ClaimVerdict::Second,
                None if problem == Some(RecordProblem::OtherPayee) => ClaimVerdict::Foreign(RecordProblem::OtherPayee),
                Some(_) | None => ClaimVerdict::Follow,
            };
        }
        ClaimState::Held
        | ClaimState::Declined(_)
        | ClaimState::Absent
        | ClaimState::Abandoned
        | ClaimState::Done { executed: false, .. } => {}
    }
    let fits = |attempt: &&PastAttempt| attempt.end != AttemptEnd::Executed && attempt.can_have_made(made);
    let Some(latest) = claim.attempts.iter().rev().find(fits) else {
        return ClaimVerdict::Foreign(RecordProblem::NeverSent);
    };
    // A refused call may leave a record that says the same.
    if seen.follow.state(&seen.record.state).is_some_and(|state| state.is_nothing_left) {
        return ClaimVerdict::Nothing;
    }
    match claim.moves.as_ref().map(|asked| problem_of(asked, &seen.record.moves)) {
        Some(None) => ClaimVerdict::Proves(latest.number),
        Some(Some(problem)) => ClaimVerdict::Foreign(problem),
        None => ClaimVerdict::Nothing,
    }
}

/// Returns the attempt that a second record of an executed call proves: an earlier one of which people, or upstream's answer,
/// had said that nothing happened, where the record moves what was asked for.
pub fn proved_by_second(claim: &Claim, seen: &Sighting<'_>) -> Option<Number> {
    let is_done = matches!(claim.state, ClaimState::Done { executed: true, .. });
    let is_nothing_left = seen.follow.state(&seen.record.state).is_none_or(|state| state.is_nothing_left);
    let moves_the_same = problem_of(claim.moves.as_ref()?, &seen.record.moves).is_none();
    let is_called_unexecuted = |past: &&PastAttempt| match past.end {
        AttemptEnd::Absent { .. } | AttemptEnd::Abandoned { .. } | AttemptEnd::NotExecuted { .. } => true,
        AttemptEnd::Executed | AttemptEnd::Unknown => false,
    };
    let fits = |past: &&PastAttempt| is_called_unexecuted(past) && past.can_have_made(seen.record.created);
    let open = claim.attempts.iter().rev().find(fits)?;
    (is_done && !is_nothing_left && moves_the_same).then_some(open.number)
}

/// Returns the problem of a record that stands beside the one of the payment.
pub fn problem_beside(claim: Option<&Claim>, record: &ListedRecord) -> RecordProblem {
    let is_older = claim.is_some_and(|claim| claim.is_behind(record.created));
    if is_older { RecordProblem::OlderRecord } else { RecordProblem::SecondRecord }
}

/// The steps that list a second record: with them its proof is made once.
pub fn second_record(seen: &Sighting<'_>) -> Vec<Step> {
    let record = seen.record.as_foreign(seen.operation, RecordProblem::SecondRecord);
    listed_as_foreign(seen.environment, &record, keep(seen))
}

/// Upstream's name of the payment, where its answer to the call told one. A record that is older than the call names none.
fn named(claim: &Claim, follow: &Follow) -> Option<String> {
    match &claim.state {
        ClaimState::Done { executed: true, answer } => {
            let AnsweredName { name, made } = answered_name(follow, &answer.body)?;
            (!made.is_some_and(|made| claim.is_behind(made))).then_some(name)
        }
        _ => None,
    }
}
