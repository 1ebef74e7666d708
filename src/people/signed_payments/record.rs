//! The entries that say who agreed to a payment, as the audit log has them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::audit::{EntryKind, FlawPlace};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId};
use crate::ledger::{Number, Outstanding, StoreTime};
use crate::people::key_recovery::SignedRecovery;
use crate::people::signed_act::SignedAct;
use crate::policy::{Operands, causes_digest};
use crate::stations::claim::Owner;
use crate::stations::hold::{SignedAmounts, SignedVote};

/// The entries about sets, holds, votes and payments, by their numbers.
#[derive(Debug, Default)]
pub struct PaymentRecord {
    pub(super) entries: BTreeMap<(Environment, u64), PlacedEntry>,
}

/// An entry, and where it stands.
#[derive(Debug)]
pub(super) struct PlacedEntry {
    pub place: FlawPlace,
    pub at: StoreTime,
    pub says: PeopleEntry,
}

#[derive(Debug)]
pub(super) enum PeopleEntry {
    TookForce(Box<SetEntry>),
    Held(Box<HeldEntry>),
    Reopened(ReopenedEntry),
    Voted(Box<VotedEntry>),
    Withdrawn(WithdrawnEntry),
    /// A hold was rejected, cancelled or blocked, or expired.
    Ended(HoldId, EntryKind),
    Sent(Box<SentEntry>),
    /// An act of two people.
    Acted(Box<ActEntry>),
    /// A freeze was made.
    Frozen(String),
    /// The attempt of a hold was certainly not executed: its call may be sent again.
    NotExecuted(HoldId),
    /// Another entry of a hold.
    OfHold(HoldId),
    /// An entry of one of these kinds lacks what an auditor needs.
    Incomplete(EntryKind, Option<HoldId>),
}

#[derive(Debug, Deserialize)]
pub(super) struct SetEntry {
    pub policy: String,
    pub before: Option<String>,
    pub signed: Option<SignedAct>,
    /// The signatures of recovery keys.
    pub recovery: Option<SignedRecovery>,
}

/// The entry by which the second of two people did something.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActEntry {
    pub what: EntryKind,
    pub hold: Option<HoldId>,
    pub freeze: Option<String>,
    pub claim: Option<String>,
    pub attempt: Option<Number>,
    /// The digest of the record of upstream that people showed.
    pub shown: Option<Fingerprint>,
    pub signed: Option<SignedAct>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WrittenPerson {
    issuer: String,
    subject: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenDecision {
    /// The rules and limits that made it.
    pub by: Vec<String>,
    pub policy: String,
    /// The approvals that were complete.
    #[serde(default)]
    pub approved: Vec<String>,
    #[serde(default)]
    pub may_exceed: Vec<WrittenExcess>,
}

/// A limit that the call may exceed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenExcess {
    pub limit: String,
    pub up_to: String,
}

/// A reason that voters were shown.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WrittenCause {
    pub rule: Option<String>,
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct HeldEntry {
    pub hold: HoldId,
    pub claim: String,
    pub fingerprint: Fingerprint,
    pub owner: WrittenPerson,
    pub requester: Option<String>,
    pub decision: WrittenDecision,
    pub causes: Vec<WrittenCause>,
    operands: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReopenedEntry {
    pub hold: HoldId,
    pub approvals: Vec<String>,
    pub causes: Vec<WrittenCause>,
}

#[derive(Debug, Deserialize)]
pub(super) struct VotedEntry {
    pub hold: HoldId,
    pub by: WrittenPerson,
    pub causes: Fingerprint,
    pub figures: Option<Fingerprint>,
    pub signed: Option<SignedVote>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WithdrawnEntry {
    pub hold: HoldId,
    pub by: WrittenPerson,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SentEntry {
    pub hold: Option<HoldId>,
    pub claim: Option<String>,
    pub request_id: Option<String>,
    pub operation: String,
    pub fingerprint: Fingerprint,
    pub decision: WrittenDecision,
    operands: Value,
}

impl WrittenPerson {
    pub fn owner(&self) -> Owner {
        Owner::named(&self.issuer, &self.subject)
    }
}

impl HeldEntry {
    /// Returns what the operands say that it moves; `None` where they cannot be read.
    pub fn amounts(&self) -> Option<SignedAmounts> {
        amounts(&self.operands)
    }

    /// Returns whether a person asked for the payment, by name.
    pub fn is_asked_by(&self, person: &Owner) -> bool {
        let owner = self.owner.owner();
        let requester = self.requester.as_deref().map(|requester| owner.beside(requester));
        [Some(owner), requester].into_iter().flatten().any(|one| one.is_same_person(person))
    }
}

impl SentEntry {
    pub fn amounts(&self) -> Option<SignedAmounts> {
        amounts(&self.operands)
    }
}

fn amounts(operands: &Value) -> Option<SignedAmounts> {
    Some(SignedAmounts::stated_by(Operands::read(operands)?.movement.as_ref()))
}

/// Returns the digest of reasons that a vote names.
pub(super) fn digest(causes: &[WrittenCause]) -> Fingerprint {
    causes_digest(causes.iter().map(|cause| (cause.rule.as_deref(), cause.text.as_str())))
}

impl PaymentRecord {
    /// Takes an entry; one that is there already counts once.
    pub fn add(&mut self, outstanding: &Outstanding, entry: &Value, place: &FlawPlace) {
        let Some(says) = parse_entry(entry) else { return };
        let number = (outstanding.environment, outstanding.number.as_u64());
        let placed = || PlacedEntry { place: place.clone(), at: outstanding.at, says };
        self.entries.entry(number).or_insert_with(placed);
    }
}

fn parse_entry(entry: &Value) -> Option<PeopleEntry> {
    let kind = EntryKind::parse(entry.get("what")?.as_str()?)?;
    let hold = entry.get("hold").and_then(Value::as_str).and_then(HoldId::parse);
    let read = match kind {
        EntryKind::TookForce => form(entry).map(|set| PeopleEntry::TookForce(Box::new(set))),
        EntryKind::Held => form(entry).map(|held| PeopleEntry::Held(Box::new(held))),
        EntryKind::Reopened => form(entry).map(PeopleEntry::Reopened),
        EntryKind::Voted => form(entry).map(|voted| PeopleEntry::Voted(Box::new(voted))),
        EntryKind::Withdrawn => form(entry).map(PeopleEntry::Withdrawn),
        EntryKind::Sending => form(entry).map(|sent| PeopleEntry::Sent(Box::new(sent))),
        EntryKind::Frozen => return entry.get("freeze")?.as_str().map(|name| PeopleEntry::Frozen(name.to_owned())),
        // A rebuild may lift `restored` by itself; otherwise a person lifts a freeze, and gives a call up.
        EntryKind::Unfrozen | EntryKind::Executed | EntryKind::Undone | EntryKind::Abandoned
            if entry.get("saidBy").is_some()
                || kind == EntryKind::Abandoned
                || (kind == EntryKind::Unfrozen && entry.get("freeze").and_then(Value::as_str) != Some("restored")) =>
        {
            form(entry).map(|acted| PeopleEntry::Acted(Box::new(acted)))
        }
        EntryKind::Undone | EntryKind::NotExecuted => return hold.map(PeopleEntry::NotExecuted),
        EntryKind::Rejected | EntryKind::Expired | EntryKind::Cancelled | EntryKind::Blocked => {
            return Some(PeopleEntry::Ended(hold?, kind));
        }
        _ => return hold.map(PeopleEntry::OfHold),
    };
    Some(read.unwrap_or(PeopleEntry::Incomplete(kind, hold)))
}

fn form<T: DeserializeOwned>(entry: &Value) -> Option<T> {
    T::deserialize(entry).ok()
}
