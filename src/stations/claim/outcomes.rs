//! The commits that end an attempt, or tell what became of it: one for each event.

use bytes::Bytes;

use super::bookings::Booking;
use super::past_attempts::{AttemptEnd, Executions, PastAttempt, with_end, with_latest, with_told};
use super::state::{
    Claim, ClaimEvent, ClaimState, DoubtCause, ImpossibleClaimEvent, KeyNaming, NextState, StoredAnswer, after, entry,
};
use super::stored_form::encode_claim;
use super::terms::{Terms, keep, keep_abandoned, keep_absent};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Index, Keep, NodeId, Number, RecordKey, Step, StoreTime, Versioned};

/// The claim has moved on, and the event changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded;

/// The effect of an event on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The claim moves on with its latest attempt.
    Moved(NextState),
    /// A proof that an earlier attempt was executed, whatever was said of it: the claim is executed.
    ProvedLate(Executions),
    /// The end of an earlier attempt is known; the claim stays as it is.
    Ended,
}

/// The commit for an event of an attempt. A proof of execution always has one; any other event has none where the claim
/// has moved on from it.
pub fn settle(
    here: Versioned<'_, Claim>,
    attempt: Number,
    event: ClaimEvent,
    node: &NodeId,
    terms: &Terms,
) -> Result<(Commit, Settled), Superseded> {
    if is_latest(&here, attempt) {
        let end = event.end();
        let outcome = LatestOutcome { attempt, status: status(&event), end };
        let next = after(&here.value.state, event, KeyNaming::of(here.key), here.value.hold.is_some());
        let next = next.map_err(|ImpossibleClaimEvent| Superseded)?;
        let commit = become_next(here, outcome, next.clone(), node, terms);
        return Ok((commit, Settled::Moved(next)));
    }
    let past = here.value.attempt(attempt).ok_or(Superseded)?;
    match (event, &past.end) {
        (ClaimEvent::Executed(_) | ClaimEvent::Found(_), AttemptEnd::Executed) => Err(Superseded),
        (ClaimEvent::Executed(answer) | ClaimEvent::Found(answer), _) => {
            let (commit, executions) = prove_late(here, past, answer, node, terms);
            Ok((commit, Settled::ProvedLate(executions)))
        }
        (
            event @ (ClaimEvent::Refused(_) | ClaimEvent::Undone { .. }),
            AttemptEnd::Unknown | AttemptEnd::Absent { .. } | AttemptEnd::Abandoned { .. },
        ) => end_late(here, past, &event, node, terms).map(|commit| (commit, Settled::Ended)),
        _ => Err(Superseded),
    }
}

/// The commit for a proof that an attempt was executed which the claim does not list; `None` where it lists the attempt.
/// `sent`: the attempt, the claim as it was sent, and when.
pub fn prove_unlisted(
    here: Versioned<'_, Claim>,
    sent: (Number, &Claim, StoreTime),
    answer: StoredAnswer,
    node: &NodeId,
    terms: &Terms,
) -> Option<(Commit, Executions)> {
    let past = sent_attempt(here.key, sent)?;
    if here.value.attempt(past.number).is_some() || is_latest(&here, past.number) {
        return None;
    }
    let claim = Claim { attempts: with_told(&here.value.attempts, &past), ..here.value.clone() };
    let here = Versioned { key: here.key, version: here.version, at: here.at, value: &claim };
    Some(prove_late(here, &past, answer, node, terms))
}

/// An attempt as its sender knows it. Nobody knows its reservations: they were given back, or lost.
fn sent_attempt(key: &RecordKey, (number, claim, at): (Number, &Claim, StoreTime)) -> Option<PastAttempt> {
    let end = AttemptEnd::Absent { said_by: Vec::new() };
    past(Versioned { key, version: number, at, value: claim }, number, end)
}

/// The commit for a lapsed lease: the sending node is silent. Guarded by the store's time.
pub fn lapse(here: Versioned<'_, Claim>, node: &NodeId, terms: &Terms) -> Option<Commit> {
    let ClaimState::Sending { lease, .. } = &here.value.state else { return None };
    let over = here.at.plus(*lease);
    let (mut commit, _) = settle(here, here.version, ClaimEvent::Doubted(DoubtCause::Lapsed), node, terms).ok()?;
    commit.steps.push(Step::After(over));
    Some(commit)
}

/// Returns whether this very outcome is stored already, by a commit that the store did not answer for. `by_path`: a
/// refusal leaves no claim.
pub fn is_settled(found: Option<(Number, &Claim)>, attempt: Number, event: &ClaimEvent, by_path: bool) -> bool {
    let Some((version, claim)) = found else {
        return match event {
            ClaimEvent::Undone { .. } => true,
            ClaimEvent::Refused(_) => by_path,
            ClaimEvent::Executed(_)
            | ClaimEvent::Found(_)
            | ClaimEvent::Doubted(_)
            | ClaimEvent::ShownAbsent { .. }
            | ClaimEvent::Abandoned { .. } => false,
        };
    };
    let is_being_sent = matches!(claim.state, ClaimState::Sending { .. }) && version == attempt;
    let end = claim.attempt(attempt).map(|past| &past.end);
    match event {
        // An attempt that left no trace was undone.
        ClaimEvent::Undone { .. } => !is_being_sent && end.is_none_or(AttemptEnd::is_proved_not_executed),
        ClaimEvent::Doubted(_) => end.is_some(),
        ClaimEvent::Refused(_) if by_path => !is_being_sent && end.is_none_or(AttemptEnd::is_proved_not_executed),
        ClaimEvent::Refused(_)
        | ClaimEvent::Executed(_)
        | ClaimEvent::Found(_)
        | ClaimEvent::ShownAbsent { .. }
        | ClaimEvent::Abandoned { .. } => end == event.end().as_ref(),
    }
}

/// The commit for an answer to an attempt whose claim has moved on: an entry that changes nothing.
pub fn late(key: &RecordKey, attempt: Number, event: &ClaimEvent, node: &NodeId) -> Commit {
    let entry = Entry::of(EntryKind::Late).claim(key, None).attempt(attempt).with("said", event.as_str());
    Commit { environment: key.environment, node: node.clone(), steps: Vec::new(), entry: entry.to_bytes() }
}

/// The commit for a proof of execution whose claim the store has lost: the claim as it was sent, executed.
pub fn restore_executed(
    key: &RecordKey,
    (attempt, claim, at): (Number, &Claim, StoreTime),
    answer: StoredAnswer,
    node: &NodeId,
    terms: &Terms,
) -> Commit {
    let here = Versioned { key, version: attempt, at, value: claim };
    let past = sent_attempt(key, (attempt, claim, at));
    // The windows may be lost with the claim. If they are not, the payment counts twice rather than not at all.
    let mut steps = past.iter().flat_map(|past| past.booked.executed_after_all(past.since)).collect::<Vec<_>>();
    let (status, keep) = (answer.status, keep(here, true, terms));
    let attempts = match past {
        Some(past) => with_latest(&[], PastAttempt { end: AttemptEnd::Executed, ..past }),
        None => Vec::new(),
    };
    let done = Claim { attempts, state: ClaimState::Done { executed: true, answer }, ..claim.clone() };
    steps.push(Step::Create { key: key.clone(), value: encode_claim(&done), keep });
    let entry = entry(EntryKind::Executed, key, claim, attempt).with("status", status).with("late", true);
    Commit { environment: key.environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// The commit for the outcome of a call that could not be claimed.
pub fn settle_unclaimed(
    environment: Environment,
    entry: Entry,
    attempt: Number,
    booked: &Booking,
    event: &ClaimEvent,
    node: &NodeId,
) -> Commit {
    let what = match event {
        ClaimEvent::Executed(_) | ClaimEvent::Found(_) => EntryKind::Executed,
        ClaimEvent::Refused(_) => EntryKind::NotExecuted,
        ClaimEvent::Undone { .. } | ClaimEvent::ShownAbsent { .. } => EntryKind::Undone,
        ClaimEvent::Doubted(_) | ClaimEvent::Abandoned { .. } => EntryKind::Unknown,
    };
    let steps = match what {
        EntryKind::Executed => booked.executed(),
        EntryKind::NotExecuted | EntryKind::Undone => booked.given_back(),
        _ => Vec::new(),
    };
    let entry = entry.with("what", what.as_str()).attempt(attempt);
    let entry = match event {
        ClaimEvent::Doubted(doubt) => entry.with("doubt", doubt.as_str()),
        event => with_status(entry, status(event)),
    };
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// An event of the latest attempt, as its end and its entry have it.
struct LatestOutcome {
    attempt: Number,
    status: Option<u16>,
    end: Option<AttemptEnd>,
}

fn is_latest(here: &Versioned<'_, Claim>, attempt: Number) -> bool {
    match &here.value.state {
        ClaimState::Sending { .. } => here.version == attempt,
        ClaimState::Unknown { .. } => here.value.in_doubt().is_some_and(|past| past.number == attempt),
        ClaimState::Held
        | ClaimState::Declined(_)
        | ClaimState::Absent
        | ClaimState::Abandoned
        | ClaimState::Done { .. } => false,
    }
}

/// The attempt that is being sent, as a past one.
fn past(here: Versioned<'_, Claim>, number: Number, end: AttemptEnd) -> Option<PastAttempt> {
    let ClaimState::Sending { sender, booked, .. } = &here.value.state else { return None };
    Some(PastAttempt { number, sender: sender.clone(), since: here.at, booked: booked.clone(), end })
}

/// The attempts after an outcome of the latest one.
fn attempts_after(here: Versioned<'_, Claim>, attempt: Number, end: Option<&AttemptEnd>) -> Vec<PastAttempt> {
    let all = &here.value.attempts;
    match (&here.value.state, end) {
        (ClaimState::Sending { .. }, Some(end)) => match past(here, attempt, end.clone()) {
            Some(past) => with_latest(all, past),
            None => all.clone(),
        },
        (_, Some(end)) => with_end(all, attempt, end),
        // Nothing was sent: the attempt leaves no trace.
        (_, None) => all.iter().filter(|past| past.number != attempt).cloned().collect(),
    }
}

fn become_next(
    here: Versioned<'_, Claim>,
    outcome: LatestOutcome,
    next: NextState,
    node: &NodeId,
    terms: &Terms,
) -> Commit {
    let LatestOutcome { attempt, status, end } = outcome;
    let member = here.key.name.clone();
    let attempts = attempts_after(here, attempt, end.as_ref());
    let none = Booking::default();
    let booked = match &here.value.state {
        ClaimState::Sending { booked, .. } => booked,
        _ => here.value.in_doubt().map_or(&none, |past| &past.booked),
    };
    let remove = |index| Step::IndexRemove { index, member: member.clone() };
    let replace = |state, keep| {
        let value: Bytes = encode_claim(&here.value.in_state(state, attempts.clone()));
        Step::Replace { key: here.key.clone(), version: here.version, value, keep }
    };
    let told = |what| with_status(entry(what, here.key, here.value, attempt), status);
    // A claim that is sent is not among those in doubt, and the other way round.
    let is_sent = matches!(here.value.state, ClaimState::Sending { .. });
    let mut steps =
        vec![remove(if is_sent || matches!(next, NextState::Unknown(_)) { Index::Sending } else { Index::Unknown })];
    let entry = match next {
        NextState::Absent => {
            // A proof that people, or upstream's answer, were wrong finds its attempt here. Of a payment that no list
            // shows no proof comes that upstream's own answer was wrong.
            let is_done_with = |past: &PastAttempt| past.end.is_proved_not_executed() && here.value.moves.is_none();
            steps.push(match attempts.iter().all(is_done_with) {
                true => Step::Delete { key: here.key.clone(), version: here.version },
                false => replace(ClaimState::Absent, keep_absent(here, terms)),
            });
            steps.extend(booked.given_back());
            told(EntryKind::Undone)
        }
        NextState::Held => {
            steps.push(replace(ClaimState::Held, Keep::Forever));
            steps.extend(booked.given_back());
            told(EntryKind::Undone)
        }
        NextState::Done { executed, answer } => {
            let keep = keep(here, executed, terms);
            steps.push(replace(ClaimState::Done { executed, answer }, keep));
            steps.extend(if executed { booked.executed() } else { booked.given_back() });
            told(if executed { EntryKind::Executed } else { EntryKind::NotExecuted })
        }
        NextState::Abandoned => {
            steps.push(replace(ClaimState::Abandoned, keep_abandoned(here, terms)));
            told(EntryKind::Abandoned)
        }
        NextState::Unknown(doubt) => {
            steps.push(Step::IndexAdd { index: Index::Unknown, member: member.clone(), due: terms.first_look });
            if let ClaimState::Sending { sent, .. } = &here.value.state {
                let unknown = ClaimState::Unknown {
                    doubt,
                    doubted: None,
                    sent: sent.clone(),
                    looks: 0,
                    said_absent: None,
                    said_abandoned: None,
                };
                steps.push(replace(unknown, Keep::Forever));
            }
            told(EntryKind::Unknown).with("doubt", doubt.as_str())
        }
    };
    Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// The commit for a proof that an attempt was executed of which something else was believed.
fn prove_late(
    here: Versioned<'_, Claim>,
    proved: &PastAttempt,
    answer: StoredAnswer,
    node: &NodeId,
    terms: &Terms,
) -> (Commit, Executions) {
    // A later attempt that is being sent goes on; from now on it is one that is in doubt.
    let all = match past(here, here.version, AttemptEnd::Unknown) {
        Some(sending) => with_latest(&here.value.attempts, sending),
        None => here.value.attempts.clone(),
    };
    let attempts = with_end(&all, proved.number, &AttemptEnd::Executed);
    let status = answer.status;
    let state = match &here.value.state {
        done @ ClaimState::Done { executed: true, .. } => done.clone(),
        _ => ClaimState::Done { executed: true, answer },
    };
    let claim = Claim { attempts, state, ..here.value.clone() };
    let executions = claim.executions();
    let remove = |index| Step::IndexRemove { index, member: here.key.name.clone() };
    let (value, keep) = (encode_claim(&claim), keep(here, true, terms));
    let replace = Step::Replace { key: here.key.clone(), version: here.version, value, keep };
    let mut steps = vec![remove(Index::Sending), remove(Index::Unknown), replace];
    steps.extend(proved.proved_executed());
    let entry = entry(EntryKind::Executed, here.key, here.value, proved.number).with("status", status);
    let entry = entry.with("late", true).with("executions", executions.as_str());
    (Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() }, executions)
}

/// The commit for a proof that an earlier attempt was not executed; the claim stays as it is.
fn end_late(
    here: Versioned<'_, Claim>,
    ended: &PastAttempt,
    event: &ClaimEvent,
    node: &NodeId,
    terms: &Terms,
) -> Result<Commit, Superseded> {
    let attempts = match event.end() {
        Some(end) => with_end(&here.value.attempts, ended.number, &end),
        None => here.value.attempts.iter().filter(|past| past.number != ended.number).cloned().collect(),
    };
    let mut claim = Claim { attempts, ..here.value.clone() };
    let keep = match &mut claim.state {
        // Its record's version is the attempt that is being sent.
        ClaimState::Sending { .. } => return Err(Superseded),
        ClaimState::Unknown { doubted, .. } => {
            doubted.get_or_insert(here.at);
            Keep::Forever
        }
        ClaimState::Held => Keep::Forever,
        ClaimState::Absent => keep_absent(here, terms),
        ClaimState::Declined(_) | ClaimState::Done { executed: false, .. } => keep(here, false, terms),
        ClaimState::Abandoned => keep_abandoned(here, terms),
        ClaimState::Done { executed: true, .. } => keep(here, true, terms),
    };
    let (key, version, value) = (here.key.clone(), here.version, encode_claim(&claim));
    let mut steps = vec![Step::Replace { key, version, value, keep }];
    steps.extend(ended.proved_not_executed());
    let entry = entry(EntryKind::Late, here.key, here.value, ended.number).with("said", event.as_str());
    Ok(Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() })
}

fn status(event: &ClaimEvent) -> Option<u16> {
    match event {
        ClaimEvent::Executed(StoredAnswer { status, .. })
        | ClaimEvent::Refused(StoredAnswer { status, .. })
        | ClaimEvent::Found(StoredAnswer { status, .. }) => Some(*status),
        ClaimEvent::Undone { status } => *status,
        ClaimEvent::Doubted(_) | ClaimEvent::ShownAbsent { .. } | ClaimEvent::Abandoned { .. } => None,
    }
}

fn with_status(entry: Entry, status: Option<u16>) -> Entry {
    match status {
        Some(status) => entry.with("status", status),
        None => entry,
    }
}
