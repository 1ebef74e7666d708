//! Acts of two people: whether both signed exactly what the entry says, where the set in force wants that. And what recovery
//! keys signed.

use std::collections::BTreeMap;

use super::PeopleWalk;
use super::record::{ActEntry, PlacedEntry, SetEntry};
use super::report::{ActProof, UnprovedAct};
use crate::audit::EntryKind;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;
use crate::people::agreement::PEOPLE;
use crate::people::key_recovery::{KeyRecoveryError, RecoveryTerms, SignedRecovery};
use crate::people::signed_act::{PersonAct, SignedAct, SignedWord};
use crate::policy::SignableAct;
use crate::stations::hold::member_of;

impl ActEntry {
    pub fn kind(&self) -> SignableAct {
        match self.what {
            EntryKind::Unfrozen => SignableAct::Unfreezing,
            EntryKind::Undone => SignableAct::Absent,
            EntryKind::Abandoned => SignableAct::Abandoned,
            _ => SignableAct::Executed,
        }
    }

    /// Whether this is the act that the entry tells of. `frozen` tells when each freeze was made.
    fn tells_of(&self, act: &PersonAct, frozen: &BTreeMap<&str, u64>) -> bool {
        let is_attempt = |claim, attempt| self.claim.as_ref() == Some(claim) && self.attempt == Some(attempt);
        act.kind() == self.kind()
            && match act {
                PersonAct::Unfreezing { freeze, version } => {
                    let made = frozen.get(freeze.as_str()).copied().unwrap_or_default();
                    self.freeze.as_ref() == Some(freeze) && version.as_u64() >= made
                }
                PersonAct::Executed { claim, attempt, record } => {
                    is_attempt(claim, *attempt) && self.shown == Some(*record)
                }
                PersonAct::Absent { claim, attempt } | PersonAct::Abandoned { claim, attempt } => {
                    is_attempt(claim, *attempt)
                }
                PersonAct::Activation { .. } => false,
            }
    }

    pub fn in_words(&self) -> String {
        let of = self.freeze.as_ref().or(self.claim.as_ref()).map(String::as_str).unwrap_or_default();
        format!("{} of {of}", self.kind())
    }
}

impl<'w> PeopleWalk<'w> {
    /// Proves that people of the set in force signed that this one follows it, where they did; what they signed for production
    /// holds for the sandbox.
    pub(super) fn prove_activation(
        &mut self,
        set: &'w SetEntry,
        (number, entry): (u64, &PlacedEntry),
    ) -> Option<ActProof> {
        let (signed, from) = (set.signed.as_ref()?, self.in_force.clone()?);
        let act = PersonAct::Activation { from: from.clone(), to: set.policy.clone() };
        if signed.act != act || !self.is_proved || self.must_sign(SignableAct::Activation) != Some(true) {
            return None;
        }
        let signers = self.signers(signed, &[self.environment, Environment::Production]).ok()?;
        let act = format!("activation of the set {} in place of {from}", set.policy);
        let (environment, at, place) = (self.environment, entry.at, entry.place.clone());
        Some(ActProof { environment, number, at, place, act, signers, fault: None })
    }

    /// Proves that recovery keys of the set in force signed that this one follows it, and that it only adds passkeys; what they
    /// signed for production holds for the sandbox.
    pub(super) fn prove_recovery(
        &mut self,
        set: &SetEntry,
        signed: &SignedRecovery,
        (number, entry): (u64, &PlacedEntry),
    ) -> ActProof {
        let (signers, fault) = match self.recovery_signers(set, signed, entry.at) {
            Ok(signers) => (signers, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        let (environment, at, place) = (self.environment, entry.at, entry.place.clone());
        let act = format!("enrolment by recovery keys, of the set {}", set.policy);
        ActProof { environment, number, at, place, act, signers, fault }
    }

    fn recovery_signers(
        &mut self,
        set: &SetEntry,
        signed: &SignedRecovery,
        at: StoreTime,
    ) -> Result<Vec<(String, String)>, UnprovedAct> {
        let known = &self.sets.sets;
        let before = self.in_force.as_ref().and_then(|version| known.get(version)).filter(|_| self.is_proved);
        let before = before.ok_or_else(|| UnprovedAct::NotVouched(self.in_force.clone().unwrap_or_default()))?;
        let then = known.get(&set.policy).ok_or_else(|| UnprovedAct::UnknownSet(set.policy.clone()))?;
        let environments = [self.environment, Environment::Production];
        let (before, then) = ((&before.meaning, before.rules.signing.as_ref()), &then.meaning);
        let keys = signed.verify(RecoveryTerms { environments: &environments, at, before, then })?;
        if !self.recoveries.insert(signed.statement.digest()) {
            return Err(KeyRecoveryError::Used.into());
        }
        Ok(keys.into_iter().map(|key| ("recovery key".to_owned(), key.to_owned())).collect())
    }

    /// Proves an act; `None` where it needed no signatures.
    pub(super) fn prove_act(&mut self, acted: &'w ActEntry, (number, entry): (u64, &PlacedEntry)) -> Option<ActProof> {
        // Before any set was in force, no payment was made.
        self.in_force.as_ref()?;
        let takes_one = matches!(acted.kind(), SignableAct::Executed | SignableAct::Unfreezing);
        if takes_one && self.environment != Environment::Production {
            return None;
        }
        let signers = match (self.must_sign(acted.kind()), &acted.signed) {
            (Some(false), _) => return None,
            (None, _) => Err(UnprovedAct::NotVouched(self.in_force.clone().unwrap_or_default())),
            (Some(true), None) => Err(UnprovedAct::NotSigned),
            (Some(true), Some(signed)) if !acted.tells_of(&signed.act, &self.frozen) => Err(UnprovedAct::OtherAct),
            (Some(true), Some(signed)) => self.signers(signed, &[self.environment]),
        };
        let (signers, fault) = match signers {
            Ok(signers) => (signers, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        let (environment, at, place) = (self.environment, entry.at, entry.place.clone());
        Some(ActProof { environment, number, at, place, act: acted.in_words(), signers, fault })
    }

    /// An act whose entry cannot be read.
    pub(super) fn incomplete_act(&self, kind: EntryKind, (number, entry): (u64, &PlacedEntry)) -> ActProof {
        let (environment, at, place) = (self.environment, entry.at, entry.place.clone());
        let fault = Some(UnprovedAct::Incomplete);
        ActProof { environment, number, at, place, act: kind.as_str().to_owned(), signers: Vec::new(), fault }
    }

    /// Whether the set in force wants such an act signed; `None` where nothing proves that set.
    fn must_sign(&self, act: SignableAct) -> Option<bool> {
        let set = self.sets.sets.get(self.in_force.as_ref()?).filter(|_| self.is_proved)?;
        Some(set.rules.must_sign(act))
    }

    /// Returns those who signed an act in one of these environments, with keys of the set in force; fails where they are too
    /// few.
    fn signers(
        &mut self,
        signed: &'w SignedAct,
        environments: &[Environment],
    ) -> Result<Vec<(String, String)>, UnprovedAct> {
        let set = self.in_force.as_ref().and_then(|version| self.sets.sets.get(version));
        let signing = set.and_then(|set| set.rules.signing.as_ref());
        let signing = signing.ok_or_else(|| UnprovedAct::NotVouched(self.in_force.clone().unwrap_or_default()))?;
        let is_of = |policy: &str| self.proved.contains(policy);
        let all = signed.signers(signing).into_iter().filter(|word| is_of(&word.policy));
        let all: Vec<_> = all.filter(|_| environments.contains(&signed.environment)).collect();
        let fresh: Vec<_> = all.into_iter().filter(|word| self.nonces.insert(&word.nonce)).collect();
        if fresh.len() < PEOPLE {
            return Err(UnprovedAct::TooFew(fresh.len()));
        }
        let name = |credential: &str| signing.passkeys.get(credential).map_or("", |passkey| &passkey.name).to_owned();
        let member = |word: &&SignedWord| (member_of(&word.person), name(&word.credential));
        Ok(fresh.iter().map(member).collect())
    }
}
