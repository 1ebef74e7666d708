//! The set of policies and the contract in force: one record for each environment, which every beginning guards.
//!
//! An activation is one commit: it replaces the record that it was judged against, and archives the texts of the set and
//! of its contract, so that every gate can run them. A record that does not exist yet is created by the first commit
//! that needs it: an activation, or the first call that is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::key_recovery::SignedRecovery;
use super::signed_act::SignedAct;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json;
use crate::catalog::ContractSource;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step};
use crate::stations::claim::Owner;

/// The format of these records. No other is read.
const FORMAT: u64 = 2;
/// How long a gate that restarts does not tell again that a set waits.
const KEPT_WAITING: Duration = Duration::from_hours(24 * 366);

/// The stored form of the set in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetInForce {
    /// The version of the policies.
    pub version: String,
    /// The digest of their contract.
    pub contract: String,
    /// Whether a looser set needs two people, on every gate. Nothing makes it false again.
    pub two_people: bool,
    /// How many successions led to it.
    pub successions: u64,
}

/// The stored form of a set that was in force: its files, and the contract that it was read for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedSet {
    pub texts: BTreeMap<String, String>,
    pub contract: String,
}

/// The record of the set in force, and the commit that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveSet {
    pub number: Number,
    pub set: SetInForce,
}

/// The stored form of a set that began to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitingSet {
    version: String,
    replaces: String,
}

/// Why an activation takes force: the record of it, which the activation removes, and the people who agreed.
#[derive(Clone, Debug)]
pub struct Agreed {
    pub key: RecordKey,
    pub version: Number,
    pub people: Vec<Owner>,
    pub proof: Option<ActivationProof>,
}

/// The signatures that let a set take force.
#[derive(Clone, Debug)]
pub enum ActivationProof {
    People(SignedAct),
    RecoveryKeys(SignedRecovery),
}

/// A record of the set in force, or of an archived one, that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of the policies in force cannot be read: {0}")]
pub struct UnreadableSet(String);

/// The key of the set in force.
pub fn in_force_key(environment: Environment) -> RecordKey {
    RecordKey { environment, kind: Kind::InForce, name: "set".to_owned() }
}

pub fn archived_key(environment: Environment, version: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::PolicySet, name: version.to_owned() }
}

pub fn contract_key(environment: Environment, digest: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Contract, name: digest.to_owned() }
}

/// Reads the record of the set in force.
pub fn active(record: &Record) -> Result<ActiveSet, UnreadableSet> {
    Ok(ActiveSet { number: record.version, set: stored(record)? })
}

/// Reads an archived set.
pub fn archived(record: &Record) -> Result<ArchivedSet, UnreadableSet> {
    stored(record)
}

/// Reads an archived contract.
pub fn contract(record: &Record) -> Result<ContractSource, UnreadableSet> {
    stored(record)
}

fn stored<T: for<'r> Deserialize<'r>>(record: &Record) -> Result<T, UnreadableSet> {
    match &record.content {
        Content::Whole(bytes) => json::from_record(bytes, FORMAT).map_err(|fault| UnreadableSet(fault.to_string())),
        Content::Spent => Err(UnreadableSet("it has no content".to_owned())),
    }
}

/// Archives a set.
pub fn archive(environment: Environment, version: &str, set: &ArchivedSet) -> Step {
    create(archived_key(environment, version), set)
}

/// Puts texts into the store again that it lost.
pub fn archived_again(environment: Environment, version: &str, archives: Vec<Step>, node: &NodeId) -> Commit {
    let entry = Entry::of(EntryKind::Remembered).with("policy", version);
    Commit { environment, node: node.clone(), steps: archives, entry: entry.to_bytes() }
}

/// Archives a contract.
pub fn archive_contract(environment: Environment, digest: &str, source: &ContractSource) -> Step {
    create(contract_key(environment, digest), source)
}

/// Writes the record of the first set in force. Guarded: there is none.
pub fn first(environment: Environment, set: &SetInForce) -> Step {
    create(in_force_key(environment), set)
}

fn create(key: RecordKey, value: &impl Serialize) -> Step {
    Step::Create { key, value: json::to_record(value, FORMAT).into(), keep: Keep::Forever }
}

/// Says once that a set waits for two people in place of the one in force, so that webhooks are told.
pub fn waits(environment: Environment, (number, from): (Number, &str), to: &str, node: &NodeId) -> Commit {
    let name = Fingerprint::of(&[number.as_u64().to_string().as_bytes(), from.as_bytes(), to.as_bytes()]).to_hex();
    let key = RecordKey { environment, kind: Kind::Waiting, name };
    let waiting = WaitingSet { version: to.to_owned(), replaces: from.to_owned() };
    let keep = Keep::For { whole: KEPT_WAITING, spent: Duration::ZERO };
    let step = Step::Create { key, value: json::to_record(&waiting, FORMAT).into(), keep };
    let entry = Entry::of(EntryKind::Waits).with("policy", to).with("before", from);
    Commit { environment, node: node.clone(), steps: vec![step], entry: entry.to_bytes() }
}

/// Puts a set in force. Guarded: `before` is in force, and the agreement is the one that was read. `archives` has the
/// steps for texts that the store does not have yet.
pub fn activate(
    environment: Environment,
    (before, from): (Option<&ActiveSet>, &str),
    next: &SetInForce,
    archives: Vec<Step>,
    (agreed, proof): (Option<&Agreed>, Option<&ActivationProof>),
    node: &NodeId,
) -> Commit {
    let (key, keep) = (in_force_key(environment), Keep::Forever);
    let mut steps = vec![match before {
        None => first(environment, next),
        Some(before) => {
            Step::Replace { key, version: before.number, value: json::to_record(next, FORMAT).into(), keep }
        }
    }];
    steps.extend(archives);
    let mut entry = Entry::of(EntryKind::TookForce).with("policy", next.version.as_str());
    entry = entry.with("contract", next.contract.as_str());
    if from != next.version {
        entry = entry.with("before", from);
    }
    match proof {
        Some(ActivationProof::People(signed)) => entry = entry.with("signed", signed),
        Some(ActivationProof::RecoveryKeys(signed)) => {
            // A moment that cannot be read was refused before.
            steps.extend(signed.statement.end().ok().map(Step::Before));
            entry = entry.with("recovery", signed);
        }
        None => {}
    }
    if let Some(Agreed { key, version, people, .. }) = agreed {
        steps.push(Step::Delete { key: key.clone(), version: *version });
        let people = people.iter().map(|person| json!({ "issuer": person.issuer, "subject": person.subject }));
        let people: Vec<_> = people.collect();
        if !people.is_empty() {
            entry = entry.with("agreed", people);
        }
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}
