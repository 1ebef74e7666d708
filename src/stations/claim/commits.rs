//! The commits that begin a claim, hold it, refuse it and look after it.

use std::time::Duration;

use super::bookings::{Booking, Nonce};
use super::first_word::executed_key;
use super::freeze::{Freeze, in_the_way_of};
use super::owner::Owner;
use super::state::{Claim, ClaimState, Declined, SentRequest, entry};
use super::stored_form::encode_claim;
use super::terms::{Terms, keep};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::{HoldId, TraceId};
use crate::base::keyed::OperandKey;
use crate::catalog::Class;
use crate::ledger::{
    Commit, Conflict, ConflictCause, Index, Keep, Kind, NodeId, Record, RecordKey, Sender, Step, StoreTime, Versioned,
    WindowKey,
};
use crate::stations::check::Intent;
use crate::stations::decide::Grounds;

/// The state from which an attempt begins.
#[derive(Clone, Debug)]
pub enum AttemptSource<'a> {
    /// No claim exists.
    Nothing,
    /// The earlier attempts were not executed, as upstream or two people said.
    Again(Versioned<'a, Claim>),
    /// The call is held and is released, with the steps on its hold.
    Held { here: Versioned<'a, Claim>, hold: &'a HoldId, steps: Vec<Step> },
}

/// The node and the request that propose an attempt.
#[derive(Clone, Debug)]
pub struct Proposer<'a> {
    pub sender: &'a Sender,
    pub nonce: &'a Nonce,
    pub trace: &'a TraceId,
    pub terms: &'a Terms,
    /// The key under which personal operands are kept.
    pub operand_key: &'a OperandKey,
}

/// The reasons why an attempt cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginConflict {
    /// A claim of this name exists.
    Claimed(Record),
    Frozen,
    /// The clock of the gate's machine was not that of others at its start.
    ClockDoubted,
    /// The store was restored or set back: a missing claim proves nothing.
    Forgotten,
    /// The decision assumed stored facts that are otherwise: the call must be decided on again.
    StaleFacts(Vec<FactCorrection>),
    /// Another commit changed the claim or its hold.
    Raced,
    /// Somebody has shown that an earlier attempt was executed.
    SaidExecuted,
    /// The store rejected the commit without a fitting conflict.
    Inconsistent,
}

/// A stored fact that differs from the assumed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactCorrection {
    /// Whether this destination was paid before.
    Paid(String, bool),
    /// Whether this destination was first paid at this time or before.
    Known(String, StoreTime, bool),
    /// This window is full: it contains this much.
    Full(WindowKey, u64),
    /// The store's time.
    Time(StoreTime),
}

/// The commit that begins an attempt, the claim as it writes it, the reservations, and the entry without its operands.
pub(super) fn begin(
    intent: &Intent,
    grounds: &Grounds,
    by: &Proposer<'_>,
    from: AttemptSource<'_>,
) -> (Commit, Option<(RecordKey, Claim)>, Booking, Entry) {
    let mut steps = Vec::with_capacity(8);
    let booked = Booking::of(grounds, intent.operation().class, by.nonce);
    let state = ClaimState::Sending {
        sender: by.sender.clone(),
        booked: booked.clone(),
        lease: by.terms.lease,
        sent: SentRequest::of(intent),
    };
    let entry = intent.entry(EntryKind::Sending, by.trace).with("decision", grounds.to_json());
    let mut entry = entry.with("journal", by.sender.journal.as_str());
    let claim = match (from, intent.named()) {
        (AttemptSource::Held { here, hold, steps: of_hold }, _) => {
            let claim = Claim { state, ..here.value.clone() };
            steps.push(replace(here, &claim));
            steps.extend((!claim.attempts.is_empty()).then(|| Step::Absent(executed_key(here.key))));
            steps.extend(of_hold);
            entry = entry.claim(here.key, claim.request_id.as_ref()).with("hold", hold.as_str());
            Some((here.key.clone(), claim))
        }
        (AttemptSource::Again(here), _) => {
            let claim = Claim { attempts: here.value.attempts.clone(), ..made(intent, by.trace, state, None) };
            steps.extend([replace(here, &claim), Step::Absent(executed_key(here.key))]);
            Some((here.key.clone(), claim))
        }
        (AttemptSource::Nothing, Some(named)) => {
            let claim = made(intent, by.trace, state, None);
            steps.push(Step::Create { key: named.key.clone(), value: encode_claim(&claim), keep: Keep::Forever });
            Some((named.key.clone(), claim))
        }
        (AttemptSource::Nothing, None) => {
            steps.push(Step::Absent(intent.name().key));
            None
        }
    };
    if let Some((key, _)) = &claim {
        steps.push(Step::IndexAdd { index: Index::Sending, member: key.name.clone(), due: by.terms.lease });
    }
    let environment = intent.environment();
    let of_gate = (intent.operation().class == Class::Money).then(|| Freeze::GateClock(by.sender.node.clone()));
    let freezes = in_the_way_of(intent).into_iter().chain(of_gate);
    steps.extend(freezes.map(|freeze| Step::Absent(freeze.key(environment))));
    steps.extend(grounds.guards());
    steps.extend(grounds.reservations(&by.nonce.0));
    // The entry of its end repeats the call, but not its operands.
    let whole = entry.clone().with("operands", grounds.operands(intent, by.operand_key));
    let commit = Commit { environment, node: by.sender.node.clone(), steps, entry: whole.to_bytes() };
    (commit, claim, booked, entry)
}

/// Returns the claim of a held call, and the steps that write it. `again`: the claim that people called absent.
pub fn wait(
    intent: &Intent,
    hold: &HoldId,
    trace: &TraceId,
    again: Option<Versioned<'_, Claim>>,
) -> (Claim, Vec<Step>) {
    let mut claim = made(intent, trace, ClaimState::Held, Some(hold.clone()));
    let environment = intent.environment();
    let mut steps = match again {
        Some(here) => {
            claim.attempts = here.value.attempts.clone();
            vec![replace(here, &claim)]
        }
        None => vec![Step::Create { key: intent.name().key, value: encode_claim(&claim), keep: Keep::Forever }],
    };
    let freezes = in_the_way_of(intent).into_iter().filter(|freeze| *freeze != Freeze::Restored);
    // A store that was rebuilt forgets its holds when it is opened, whatever they move.
    steps.extend([Freeze::Restored].into_iter().chain(freezes).map(|freeze| Step::Absent(freeze.key(environment))));
    (claim, steps)
}

/// Returns the step that ends the claim of a held call; `None` where it is not held.
pub fn decline(here: Versioned<'_, Claim>, declined: Declined, terms: &Terms) -> Option<Step> {
    if here.value.state != ClaimState::Held {
        return None;
    }
    let claim = Claim { state: ClaimState::Declined(declined), ..here.value.clone() };
    let keep = keep(here, false, terms);
    Some(Step::Replace { key: here.key.clone(), version: here.version, value: encode_claim(&claim), keep })
}

fn replace(here: Versioned<'_, Claim>, claim: &Claim) -> Step {
    let (key, version) = (here.key.clone(), here.version);
    Step::Replace { key, version, value: encode_claim(claim), keep: Keep::Forever }
}

fn made(intent: &Intent, trace: &TraceId, state: ClaimState, hold: Option<HoldId>) -> Claim {
    Claim {
        owner: Owner::of(intent.caller()),
        requester: intent.caller().requester().map(str::to_owned),
        operation: intent.operation().id.clone(),
        fingerprint: intent.fingerprint(),
        request_id: intent.named().and_then(|named| named.request_id.clone()),
        trace: trace.clone(),
        moves: intent.operation().follow.as_ref().and_then(|_| intent.movement().cloned()),
        hold,
        attempts: Vec::new(),
        state,
    }
}

/// The commit for a refused call: its entry, unless a claim of its name exists. `again`: the claim that people called
/// absent, which stays.
pub fn refuse(
    intent: &Intent,
    grounds: &Grounds,
    (node, operand_key): (&NodeId, &OperandKey),
    trace: &TraceId,
    may_be_forgotten: bool,
    again: Option<Versioned<'_, Claim>>,
) -> Commit {
    let environment = intent.environment();
    let mut steps = vec![match again {
        Some(here) => Step::Version { key: here.key.clone(), version: here.version },
        None => Step::Absent(intent.name().key),
    }];
    if intent.named().is_some() && !may_be_forgotten {
        steps.push(Step::Absent(Freeze::Restored.key(environment)));
    }
    steps.extend(grounds.guards());
    let entry = intent
        .entry(EntryKind::Refused, trace)
        .with("decision", grounds.to_json())
        .with("operands", grounds.operands(intent, operand_key));
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Returns the conflict to tell: an existing claim comes before everything else.
pub fn standing(commit: &Commit, at: StoreTime, conflicts: Vec<Conflict>) -> BeginConflict {
    let (mut standing, mut learnt) = (BeginConflict::Inconsistent, Vec::new());
    for conflict in conflicts {
        match (commit.steps.get(conflict.step), conflict.found) {
            (Some(Step::Create { .. }), ConflictCause::Record(record)) => return BeginConflict::Claimed(record),
            (Some(Step::Absent(key)), ConflictCause::Record(record)) if key.kind == Kind::Claim => {
                return BeginConflict::Claimed(record);
            }
            (Some(Step::Absent(key)), ConflictCause::Record(_)) if key.kind == Kind::Agreement => {
                standing = BeginConflict::SaidExecuted;
            }
            (Some(Step::Absent(key)), ConflictCause::Record(_)) if *key == Freeze::Restored.key(key.environment) => {
                standing = BeginConflict::Forgotten;
            }
            (Some(Step::Absent(key)), ConflictCause::Record(_)) if standing == BeginConflict::Inconsistent => {
                let is_of_gate = matches!(Freeze::parse(&key.name), Some(Freeze::GateClock(_)));
                standing = if is_of_gate { BeginConflict::ClockDoubted } else { BeginConflict::Frozen };
            }
            (Some(Step::Member { member, .. }), _) => learnt.push(FactCorrection::Paid(member.clone(), false)),
            (Some(Step::NotMember { member, .. }), _) => learnt.push(FactCorrection::Paid(member.clone(), true)),
            (Some(Step::Since { member, at, .. }), _) => learnt.push(FactCorrection::Known(member.clone(), *at, false)),
            (Some(Step::NotSince { member, at, .. }), _) => {
                learnt.push(FactCorrection::Known(member.clone(), *at, true))
            }
            (Some(Step::Reserve { .. } | Step::After(_) | Step::Before(_)), ConflictCause::Time) => {
                learnt.push(FactCorrection::Time(at))
            }
            // The place of a hold is no fact of the decision.
            (Some(Step::Reserve { window, .. }), _) if !window.is_of_policy() => {}
            (Some(Step::Reserve { window, max, .. }), found) => {
                let used = if let ConflictCause::Used(used) = found { used } else { *max };
                learnt.push(FactCorrection::Full(window.clone(), used));
            }
            (Some(Step::Replace { .. } | Step::Version { .. }), _) => return BeginConflict::Raced,
            _ => {}
        }
    }
    match standing {
        BeginConflict::Inconsistent if !learnt.is_empty() => BeginConflict::StaleFacts(learnt),
        standing => standing,
    }
}

/// The commit for a lookup that proved nothing; the next one is after `due`.
pub fn look_again(here: Versioned<'_, Claim>, due: Duration, node: &NodeId) -> Option<Commit> {
    let mut claim = here.value.clone();
    let attempt = claim.in_doubt()?.number;
    let ClaimState::Unknown { looks, doubted, .. } = &mut claim.state else { return None };
    *looks = looks.saturating_add(1);
    doubted.get_or_insert(here.at);
    let entry = entry(EntryKind::Unknown, here.key, here.value, attempt).with("looks", *looks);
    let steps = vec![
        Step::Replace {
            key: here.key.clone(),
            version: here.version,
            value: encode_claim(&claim),
            keep: Keep::Forever,
        },
        Step::IndexAdd { index: Index::Unknown, member: here.key.name.clone(), due },
    ];
    Some(Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() })
}
