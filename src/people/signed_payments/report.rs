//! The result: for each payment that needed signed approvals, who agreed to what, or why that is not proved.

use std::collections::BTreeSet;

use jiff::Timestamp;
use thiserror::Error;

use crate::audit::{EntryKind, FlawPlace};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;
use crate::people::key_recovery::KeyRecoveryError;
use crate::stations::hold::SignedAmounts;

/// What entries and archived sets prove of people.
#[derive(Debug, Default)]
pub struct PeopleReport {
    /// The payments that needed signed approvals, and those of which it is not known.
    pub payments: Vec<PaymentProof>,
    /// How many others were sent: the log says that they needed no signed approval.
    pub others: u64,
    /// Sets that took force in place of another set than the one in force.
    pub breaks: Vec<(FlawPlace, SetBreak)>,
    /// The acts of two people that must be signed, and those of which it is not known; the sets that two people signed in force;
    /// and what recovery keys signed.
    pub acts: Vec<ActProof>,
}

/// One act of two people, or of recovery keys.
#[derive(Debug)]
pub struct ActProof {
    pub environment: Environment,
    pub number: u64,
    pub at: StoreTime,
    pub place: FlawPlace,
    pub act: String,
    /// Each person, as in groups, and the name of the passkey; or `recovery key`, and its id.
    pub signers: Vec<(String, String)>,
    /// Why it is not proved.
    pub fault: Option<UnprovedAct>,
}

/// The reasons why nothing proves who did something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnprovedAct {
    #[error("nothing proves the set in force, {0}: you do not vouch for it (`--root`) as the next one")]
    NotVouched(String),
    #[error("the set in force wants the signatures of two people, and the entry has none")]
    NotSigned,
    #[error("its entry lacks a part that the proof needs, or has another form")]
    Incomplete,
    #[error("the signatures are for another act")]
    OtherAct,
    #[error("{0} of 2 signatures are proved with keys of the set in force")]
    TooFew(usize),
    #[error("the set that took force, {0}, is in none of the folders of archived sets, or was changed there")]
    UnknownSet(String),
    #[error("the signatures of recovery keys do not count: {0}")]
    Recovery(#[from] KeyRecoveryError),
}

/// A set took force in place of another than the one in force: an activation between them is missing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the set {took} took force in place of {before}, but {in_force} was in force: an entry between is missing or changed"
)]
pub struct SetBreak {
    pub took: String,
    pub before: String,
    pub in_force: String,
}

/// One payment.
#[derive(Debug)]
pub struct PaymentProof {
    pub environment: Environment,
    /// The number of the entry before it was sent, and where that stands.
    pub number: u64,
    pub at: StoreTime,
    pub place: FlawPlace,
    pub operation: String,
    pub request_id: Option<String>,
    pub hold: Option<String>,
    pub fingerprint: Option<Fingerprint>,
    /// The version of the set in force.
    pub policy: String,
    pub amounts: Option<SignedAmounts>,
    /// The reasons that the people were shown, with their figures.
    pub reasons: Vec<String>,
    /// The people whose signatures are verified.
    pub signers: Vec<VerifiedSigner>,
    /// Votes with a signature that counts for nothing, and why.
    pub refused: Vec<(FlawPlace, String, VoteFault)>,
    /// Why it is not proved.
    pub fault: Option<Unproved>,
}

/// A person whose signature is verified.
#[derive(Clone, Debug)]
pub struct VerifiedSigner {
    /// As in groups.
    pub person: String,
    /// The name of the passkey.
    pub passkey: String,
    pub at: StoreTime,
    pub place: FlawPlace,
    pub(super) approvals: BTreeSet<std::sync::Arc<str>>,
}

/// The reasons why nothing proves who agreed to a payment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unproved {
    #[error("its entry `{}` lacks a part that the proof needs, or has another form", .0.as_str())]
    Incomplete(EntryKind),
    #[error("it was decided by the set {decided}, but {in_force} was in force")]
    OtherSet { decided: String, in_force: String },
    #[error("nothing proves the set in force, {0}: you do not vouch for it (`--root`) as the next one")]
    NotVouched(String),
    #[error("the set in force, {0}, is in none of the folders of archived sets, or was changed there")]
    UnknownSet(String),
    #[error("it was held, and its entry names no hold")]
    WithoutHold,
    #[error("the entry that held it is missing")]
    NotHeld,
    #[error("its hold had ended before: `{}`", .0.as_str())]
    Ended(EntryKind),
    #[error("it was sent before, by entry {0}, and the log does not say that it was not executed then")]
    SentBefore(u64),
    #[error("other bytes were sent than were held: their fingerprints differ")]
    OtherBytes,
    #[error("its amounts are not those that were held")]
    OtherAmounts,
    #[error("`{0}` held it when it was sent, and was not among the reasons that people were shown")]
    OtherReasons(String),
    #[error("it may exceed the limit `{limit}` up to {up_to}, and people were not shown that")]
    BeyondShown { limit: String, up_to: String },
    #[error("the approval `{approval}` is not complete: {given} of {needed} signatures are proved")]
    TooFew { approval: String, given: u64, needed: u64 },
    #[error("its approval had expired: it was sent at {}, and could be until {}", moment(*.sent), moment(*.until))]
    Expired { sent: StoreTime, until: StoreTime },
    #[error("no set says until when it could be sent: none of the reasons that people were shown asks for an approval")]
    NoExpiry,
}

/// The reasons why a signed vote counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VoteFault {
    #[error("its signature was used for an earlier vote")]
    Again,
    #[error("its person asked for the payment")]
    Asked,
    #[error("its person is counted already")]
    SamePerson,
    #[error("it is for other reasons than those that were shown last")]
    OtherReasons,
    #[error("it is for other amounts")]
    OtherAmounts,
    #[error("commit {0}, which it names as what was shown, is none of this hold")]
    NotShown(u64),
    #[error("nothing proves the set that it names, {0}")]
    OtherSet(String),
    #[error("its signature does not verify with the keys of the set of then: {0}")]
    Then(String),
    #[error("its signature does not verify with the keys of the set in force when the payment was sent: {0}")]
    Now(String),
    #[error("the entry lacks a part that the proof needs")]
    Incomplete,
}

/// Returns a time as text.
pub fn moment(at: StoreTime) -> String {
    Timestamp::from_microsecond(at.as_micros()).map_or_else(|_| String::new(), |at| at.to_string())
}

impl PeopleReport {
    /// Returns how many payments are not proved.
    pub fn unproved(&self) -> usize {
        self.payments.iter().filter(|payment| payment.fault.is_some()).count()
    }

    /// Returns how many acts are not proved.
    pub fn unproved_acts(&self) -> usize {
        self.acts.iter().filter(|act| act.fault.is_some()).count()
    }

    pub fn is_proved(&self) -> bool {
        self.unproved() == 0 && self.unproved_acts() == 0 && self.breaks.is_empty()
    }
}
