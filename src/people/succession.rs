//! The successions of sets, as the store keeps them: which set each one replaced, and the signatures that let it take force.
//!
//! A gate takes no other gate's word for a set. Where the set that it ran last wants `activation` signed, another one counts
//! only if signatures lead to it: of two people for each step, or of recovery keys, each with the keys of the set before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::activation::ActivationProof;
use super::agreement::PEOPLE;
use super::key_recovery::{KeyRecoveryError, RecoveryTerms, SignedRecovery};
use super::signed_act::{PersonAct, SignedAct};
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Content, Keep, Kind, Number, Record, RecordKey, Step, StoreTime};
use crate::policy::{Meaning, SignableAct, Signing};

/// The format of its records. No other is read.
const FORMAT: u64 = 1;
/// The most successions that a gate follows at once.
pub const MAX_SUCCESSIONS: usize = 1_000;

/// The stored form of a succession.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSuccession {
    pub from: String,
    pub to: String,
    /// The signatures of two people.
    pub signed: Option<SignedAct>,
    /// The signatures of recovery keys.
    pub recovery: Option<SignedRecovery>,
}

/// A set, as far as signatures of another one in its place go.
#[derive(Clone, Debug)]
pub struct SigningSet {
    pub meaning: Meaning,
    pub signing: Option<Signing>,
}

/// The ground by which a succession is judged.
#[derive(Clone, Copy, Debug)]
pub struct SuccessionTerms<'t> {
    /// Where a signature counts.
    pub environments: &'t [Environment],
    /// When the succession was written.
    pub at: StoreTime,
    pub before: &'t SigningSet,
    pub then: &'t SigningSet,
    /// The signatures that this gate took for earlier successions.
    pub used: &'t BTreeSet<String>,
}

/// The reasons why a set is not believed to follow another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SuccessionFault {
    #[error("the store has no succession of sets that leads from there to it")]
    NoWay,
    #[error("the texts of version {0} are neither here nor in the store, or cannot be read")]
    UnknownSet(String),
    #[error("nobody signed that version {to} follows version {from}")]
    NotSigned { from: String, to: String },
    #[error("the signatures for version {0} are for something else")]
    OtherAct(String),
    #[error("{given} of {PEOPLE} people signed that version {to} follows version {from}")]
    TooFew { given: usize, from: String, to: String },
    #[error("the signatures of recovery keys for version {to} do not count: {why}")]
    Recovery { to: String, why: KeyRecoveryError },
}

/// Returns the key of a succession; the first one has number 1.
pub fn succession_key(environment: Environment, nth: u64) -> RecordKey {
    RecordKey { environment, kind: Kind::Agreement, name: format!("succession/{nth}") }
}

impl SigningSet {
    /// Whether another set takes its place only by signatures.
    pub fn must_sign(&self) -> bool {
        self.signing.as_ref().is_some_and(|signing| signing.acts.contains(&SignableAct::Activation))
    }
}

impl SetSuccession {
    pub fn new((from, to): (&str, &str), proof: Option<&ActivationProof>) -> SetSuccession {
        let (signed, recovery) = match proof {
            Some(ActivationProof::People(signed)) => (Some(signed.clone()), None),
            Some(ActivationProof::RecoveryKeys(signed)) => (None, Some(signed.clone())),
            None => (None, None),
        };
        SetSuccession { from: from.to_owned(), to: to.to_owned(), signed, recovery }
    }

    /// Reads a record, and when it was written.
    pub fn read(record: &Record) -> Option<(SetSuccession, StoreTime)> {
        let Content::Whole(bytes) = &record.content else { return None };
        Some((json::from_record(bytes, FORMAT).ok()?, record.at))
    }

    /// Writes it, over a record that a history has which is not this one.
    pub fn write(&self, key: RecordKey, before: Option<Number>) -> Step {
        let (value, keep) = (json::to_record(self, FORMAT).into(), Keep::Forever);
        match before {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version, value, keep },
        }
    }

    /// Returns the signatures as what let the set take force.
    pub fn proof(&self) -> Option<ActivationProof> {
        let people = || self.signed.clone().map(ActivationProof::People);
        self.recovery.clone().map(ActivationProof::RecoveryKeys).or_else(people)
    }

    /// Returns what tells its signatures from those of any other succession.
    pub fn marks(&self) -> BTreeSet<String> {
        let people = self.signed.iter().flat_map(|signed| signed.by.iter().map(|word| word.nonce.clone()));
        people.chain(self.recovery.iter().map(recovery_mark)).collect()
    }

    /// Verifies the signatures of two people, or of recovery keys, by the keys of the set before.
    pub fn verify(&self, terms: SuccessionTerms<'_>) -> Result<(), SuccessionFault> {
        let (from, to) = (self.from.clone(), self.to.clone());
        match (&terms.before.signing, &self.signed, &self.recovery) {
            (_, _, Some(recovery)) => {
                let SuccessionTerms { environments, at, .. } = terms;
                let before = (&terms.before.meaning, terms.before.signing.as_ref());
                let verified =
                    recovery.verify(RecoveryTerms { environments, at, before, then: &terms.then.meaning }).map(|_| ());
                let is_used = terms.used.contains(&recovery_mark(recovery));
                let verified = verified.and(if is_used { Err(KeyRecoveryError::Used) } else { Ok(()) });
                verified.map_err(|why| SuccessionFault::Recovery { to, why })
            }
            (Some(signing), Some(signed), None) => {
                if signed.act != (PersonAct::Activation { from: from.clone(), to: to.clone() })
                    || !terms.environments.contains(&signed.environment)
                {
                    return Err(SuccessionFault::OtherAct(to));
                }
                let signers = signed.signers(signing).into_iter();
                let given = signers.filter(|word| word.policy == from && !terms.used.contains(&word.nonce)).count();
                if given < PEOPLE { Err(SuccessionFault::TooFew { given, from, to }) } else { Ok(()) }
            }
            _ => Err(SuccessionFault::NotSigned { from, to }),
        }
    }
}

fn recovery_mark(signed: &SignedRecovery) -> String {
    hex(&signed.statement.digest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::webauthn::tests::soft_key::SoftKey;
    use crate::people::signed_act::tests::{signing, word};
    use crate::policy::ArchivedRules;

    #[test]
    fn a_succession_counts_by_two_signatures_with_keys_of_the_set_before_and_once() {
        let (a, b, c) = (SoftKey::es256(), SoftKey::eddsa(), SoftKey::es256());
        let of = |keys: &[(&str, &SoftKey)]| SigningSet {
            meaning: ArchivedRules::read(b"{}").unwrap().meaning,
            signing: Some(signing(keys)),
        };
        let (before, then) = (of(&[("a", &a), ("b", &b)]), of(&[("a", &a), ("c", &c)]));
        let act = |to: &str| PersonAct::Activation { from: "1".to_owned(), to: to.to_owned() };
        let signed = |act: &PersonAct, by: &[(&str, &SoftKey, &str)]| {
            let by = by.iter().map(|(who, key, nonce)| Some(word(who, key, act, nonce, &signing(&[(*who, *key)]))));
            SignedAct::of(Environment::Production, act, by.collect::<Vec<_>>()).map(ActivationProof::People)
        };
        let verify = |proof: Option<ActivationProof>, environments: &[Environment], used: &[&str]| {
            let used = used.iter().map(|mark| (*mark).to_owned()).collect();
            let terms = SuccessionTerms {
                environments,
                at: StoreTime::of_micros(1),
                before: &before,
                then: &then,
                used: &used,
            };
            SetSuccession::new(("1", "2"), proof.as_ref()).verify(terms)
        };
        let here = [Environment::Production];
        let both = || signed(&act("2"), &[("a", &a, "n1"), ("b", &b, "n2")]);
        assert_eq!(verify(both(), &here, &[]), Ok(()));
        let few = |given| Err(SuccessionFault::TooFew { given, from: "1".to_owned(), to: "2".to_owned() });
        assert_eq!(verify(both(), &here, &["n1"]), few(1), "it was used before");
        assert_eq!(verify(signed(&act("2"), &[("a", &a, "n1")]), &here, &[]), few(1));
        let of_next = signed(&act("2"), &[("a", &a, "n1"), ("c", &c, "n2")]);
        assert_eq!(verify(of_next, &here, &[]), few(1), "a key of the next set");
        let other = Err(SuccessionFault::OtherAct("2".to_owned()));
        assert_eq!(verify(signed(&act("3"), &[("a", &a, "n1"), ("b", &b, "n2")]), &here, &[]), other);
        assert_eq!(verify(both(), &[Environment::Sandbox], &[]), other);
        assert!(matches!(verify(None, &here, &[]), Err(SuccessionFault::NotSigned { .. })));
    }
}
