//! Enrolment by recovery keys: what keys that lie offline sign, and when that puts a set in force.
//!
//! A statement names exactly one succession of sets, and ends at a moment of its own. It counts once, where enough different
//! recovery keys of the set in force signed it, and the next set only adds passkeys. The gate that puts the set in force
//! verifies all of that, and so does an auditor, from the entry and the archived sets.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::agreement::Succession;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::ids::Environment;
use crate::base::json;
use crate::base::json::written_as;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Record, RecordKey, Step, StoreTime};
use crate::policy::{Meaning, Signing, only_enrolled};
use crate::stations::claim::{Owner, WORD_LASTS};

/// The format of its records. No other is read.
const FORMAT: u64 = 1;
const STATEMENT: &str = "sluice-recovery-1";
const WORD: &str = "enrol";
/// The longest time from the moment when signatures are handed in to their end.
pub const MAX_VALIDITY: Duration = Duration::from_hours(7 * 24);

/// What recovery keys sign: the SHA-256 of this as JSON, with its members in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryStatement {
    pub statement: String,
    pub word: String,
    pub environment: Environment,
    pub installation: String,
    /// The digest of the set in force.
    pub from: String,
    /// The digest of the set that has passkeys besides.
    pub to: String,
    /// The moment from which it counts no more, as `2026-12-01T12:00:00Z`.
    pub until: String,
}

/// The signature of one recovery key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverySignature {
    /// The id of the key.
    pub key: String,
    #[serde(with = "written_as::base64url")]
    pub signature: Vec<u8>,
}

/// A statement and its signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedRecovery {
    pub statement: RecoveryStatement,
    pub signatures: Vec<RecoverySignature>,
}

/// The stored form of signatures that were handed in, until their set takes force.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandedInRecord {
    by: Owner,
    signed: SignedRecovery,
}

/// The stored form of a statement that was used.
#[derive(Serialize)]
struct UsedRecord<'u> {
    by: &'u Owner,
}

/// The succession that signatures are judged by.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryTerms<'t> {
    /// Where a signature counts.
    pub environments: &'t [Environment],
    pub at: StoreTime,
    /// The set in force, and how it lets people sign.
    pub before: (&'t Meaning, Option<&'t Signing>),
    pub then: &'t Meaning,
}

/// The reasons why signatures of recovery keys do not count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyRecoveryError {
    #[error("the set in force has no recovery keys")]
    NoKeys,
    #[error("they are for something else than enrolling passkeys (`{STATEMENT}`, `{WORD}`)")]
    OtherStatement,
    #[error("they are for {}", .0.as_str())]
    OtherEnvironment(Environment),
    #[error("they are for the installation `{0}`")]
    OtherInstallation(String),
    #[error("they are for a set in place of {0}, which is not in force")]
    OtherBefore(String),
    #[error("they are for the set {0}")]
    OtherSet(String),
    #[error("`{0}` is no moment such as `2026-12-01T12:00:00Z`")]
    NoMoment(String),
    #[error("they counted until {0}")]
    Expired(String),
    #[error("they would count until {0}, and the longest time is 7 days")]
    TooLong(String),
    #[error("the set in force has no recovery key `{0}`")]
    UnknownKey(String),
    #[error("the signature of `{0}` is not of this key, or for something else")]
    Signature(String),
    #[error("{given} of {needed} different recovery keys signed")]
    TooFew { given: usize, needed: usize },
    #[error("recovery keys only add passkeys, and the set changes something else: {0}")]
    MoreThanKeys(String),
    #[error("they were handed in before")]
    Used,
}

impl RecoveryStatement {
    pub fn new(
        (environment, installation): (Environment, &str),
        (from, to): (&str, &str),
        until: &str,
    ) -> RecoveryStatement {
        RecoveryStatement {
            statement: STATEMENT.to_owned(),
            word: WORD.to_owned(),
            environment,
            installation: installation.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            until: until.to_owned(),
        }
    }

    /// Returns what a key signs.
    pub fn digest(&self) -> [u8; 32] {
        plain_sha256(json::to_form(self).as_bytes())
    }

    /// Returns the moment from which it counts no more. Each moment has one text.
    pub fn end(&self) -> Result<StoreTime, KeyRecoveryError> {
        let moment = self.until.parse::<Timestamp>().ok().filter(|moment| moment.to_string() == self.until);
        let moment = moment.ok_or_else(|| KeyRecoveryError::NoMoment(self.until.clone()))?;
        Ok(StoreTime::of_micros(moment.as_microsecond()))
    }
}

impl SignedRecovery {
    /// Verifies that enough recovery keys of the set in force signed this succession, and that it only adds passkeys. Returns
    /// the ids of the keys.
    pub fn verify(&self, terms: RecoveryTerms<'_>) -> Result<BTreeSet<&str>, KeyRecoveryError> {
        let (before, signing) = terms.before;
        let recovery = signing.and_then(|signing| Some((&signing.installation, signing.recovery.as_ref()?)));
        let (installation, keys) = recovery.ok_or(KeyRecoveryError::NoKeys)?;
        self.is_of(terms, installation)?;
        let others = only_enrolled(before, terms.then).map_err(|others| others.join(", "));
        others.map_err(KeyRecoveryError::MoreThanKeys)?;
        let (digest, mut signers) = (self.statement.digest(), BTreeSet::new());
        for RecoverySignature { key, signature } in &self.signatures {
            let public = keys.keys.get(key).ok_or_else(|| KeyRecoveryError::UnknownKey(key.clone()))?;
            if !public.signed(&digest, signature) {
                return Err(KeyRecoveryError::Signature(key.clone()));
            }
            signers.insert(key.as_str());
        }
        let (given, needed) = (signers.len(), keys.needs);
        if given < needed { Err(KeyRecoveryError::TooFew { given, needed }) } else { Ok(signers) }
    }

    fn is_of(&self, terms: RecoveryTerms<'_>, installation: &str) -> Result<(), KeyRecoveryError> {
        let stated = &self.statement;
        if stated.statement != STATEMENT || stated.word != WORD {
            return Err(KeyRecoveryError::OtherStatement);
        }
        if !terms.environments.contains(&stated.environment) {
            return Err(KeyRecoveryError::OtherEnvironment(stated.environment));
        }
        if stated.installation != installation {
            return Err(KeyRecoveryError::OtherInstallation(stated.installation.clone()));
        }
        if stated.from != terms.before.0.version() {
            return Err(KeyRecoveryError::OtherBefore(stated.from.clone()));
        }
        if stated.to != terms.then.version() {
            return Err(KeyRecoveryError::OtherSet(stated.to.clone()));
        }
        let end = stated.end()?;
        if terms.at >= end {
            return Err(KeyRecoveryError::Expired(stated.until.clone()));
        }
        match end.since(terms.at) <= MAX_VALIDITY {
            true => Ok(()),
            false => Err(KeyRecoveryError::TooLong(stated.until.clone())),
        }
    }

    /// Returns the key of the record that says that the statement was used.
    pub fn used_key(&self, environment: Environment) -> RecordKey {
        let name = format!("recovered/{}", Fingerprint::of(&[&self.statement.digest()]).to_hex());
        RecordKey { environment, kind: Kind::Agreement, name }
    }

    /// Records that a person handed in signatures that count. Guarded: this statement was not used.
    pub fn hand_in(
        self,
        succession: Succession<'_>,
        before: Option<&Record>,
        (person, reason): (&Owner, &str),
        node: &NodeId,
    ) -> Commit {
        let environment = succession.environment;
        let used = Step::Create {
            key: self.used_key(environment),
            value: json::to_record(&UsedRecord { by: person }, FORMAT).into(),
            keep: Keep::For { whole: MAX_VALIDITY, spent: Duration::ZERO },
        };
        let entry = Entry::of(EntryKind::RecoverySigned).with("policy", succession.to).with("before", succession.from);
        let entry = entry.by(&person.issuer, &person.subject).with("reason", reason).with("recovery", self.clone());
        let value = json::to_record(&HandedInRecord { by: person.clone(), signed: self }, FORMAT).into();
        let (key, keep) = (handed_in_key(succession), Keep::For { whole: WORD_LASTS, spent: Duration::ZERO });
        let step = match before {
            None => Step::Create { key, value, keep },
            Some(record) => Step::Replace { key, version: record.version, value, keep },
        };
        Commit { environment, node: node.clone(), steps: vec![step, used], entry: entry.to_bytes() }
    }
}

/// Returns the key of the signatures that were handed in for a succession.
pub fn handed_in_key(succession: Succession<'_>) -> RecordKey {
    let Succession { environment, replaces, from, to } = succession;
    RecordKey { environment, kind: Kind::Agreement, name: format!("recovery/{replaces}/{from}/{to}") }
}

/// Returns the signatures that were handed in, and who did that. An unreadable or expired record has none.
pub fn handed_in(record: &Record) -> Option<(Owner, SignedRecovery)> {
    let Content::Whole(bytes) = &record.content else { return None };
    let HandedInRecord { by, signed } = json::from_record(bytes, FORMAT).ok()?;
    Some((by, signed))
}
