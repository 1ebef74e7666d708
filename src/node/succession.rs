//! Believes that a set in the store follows the one that ran here last: by signatures, and by no other gate's word.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::stored_policies::StoredPolicies;
use crate::adapters::policies::FollowedSets;
use crate::adapters::policies::LoadedPolicies;
use crate::base::ids::Environment;
use crate::ledger::{Step, StoreFault, StoreTime};
use crate::people::activation::{self, ActivationProof, ActiveSet, SetInForce};
use crate::people::succession::{
    MAX_SUCCESSIONS, SetSuccession, SigningSet, SuccessionFault, SuccessionTerms, succession_key,
};
use crate::policy::ArchivedRules;

/// A succession, and when it was written.
type WrittenSuccession = (SetSuccession, StoreTime);

impl StoredPolicies {
    /// Takes note of the set that the store names, if it follows the one that was believed last; or returns why it is not
    /// believed.
    pub(super) async fn believe(
        &self,
        environment: Environment,
        set: &SetInForce,
    ) -> Result<Option<String>, StoreFault> {
        let known = self.followed();
        let is_same = known.version == set.version;
        if is_same && known.successions == Some(set.successions) && known.root == self.root {
            return Ok(None);
        }
        let is_root = known.root != self.root && self.root.as_ref() == Some(&set.version);
        // The way to a set that ran here already is not asked for.
        let is_old = is_same && known.successions.is_none_or(|last| set.successions <= last);
        let led = match is_root || is_old {
            true => Ok(self.marks_before(environment, set.successions.saturating_add(1), &known).await?),
            false => self.led(environment, set, &known).await?,
        };
        let marks = match led {
            Ok(marks) => marks,
            // Nothing changes with it.
            Err(_) if is_same => BTreeSet::new(),
            Err(fault) => {
                return Ok(Some(format!(
                    "version {} ran here last, where `activation` is signed, and {fault}; if you vouch for version {}, \
                     name it as `policies_root`, and restart this gate",
                    known.version, set.version
                )));
            }
        };
        // What cannot be read here says nothing of signatures: the next set is led from the one that was noted before.
        if self.signing_set(environment, &set.version).await?.is_none() {
            return Ok(None);
        }
        match self.note_followed(set, marks) {
            Ok(()) => Ok(None),
            // Nothing changes with it, and the next look notes it: what stops money is the audit log on the same disk.
            Err(error) if is_same => {
                if !self.is_unnoted.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the policies in force cannot be noted beside the audit log yet; they stay in force");
                }
                Ok(None)
            }
            Err(error) => Ok(Some(format!("it cannot be noted in the archive: {error}"))),
        }
    }

    /// Puts the set that was believed last in force again, where the configuration names it anew: people have found out that
    /// nobody agreed to the one in its place. A gate that never met the store with it says nothing. Returns `None` where that is not so.
    pub(super) async fn put_back(
        &self,
        environment: Environment,
        instead: &ActiveSet,
    ) -> Result<Option<ActiveSet>, StoreFault> {
        let (known, running) = (self.followed(), self.running());
        let version = running.policies.version();
        let is_met = known.successions.is_some();
        if !is_met || known.root == self.root || self.root.as_deref() != Some(version) || known.version != version {
            return Ok(None);
        }
        let successions = instead.set.successions.saturating_add(1);
        let next = SetInForce {
            version: version.to_owned(),
            contract: running.catalog.digest().to_hex(),
            two_people: instead.set.two_people,
            successions,
        };
        let place = (environment, Vec::new());
        let Some(active) = self.write(place, Some(instead), &running, next, (None, None)).await? else {
            return Ok(None);
        };
        let instead = instead.set.version.as_str();
        tracing::warn!(version, before = instead, "the policies that the configuration vouches for are in force again");
        if let Err(error) = self.note_followed(&active.set, []) {
            tracing::error!(%error, "the policies in force cannot be noted beside the audit log");
        }
        Ok(Some(active))
    }

    /// Notes the set that is believed, and the signatures that led to it.
    pub(super) fn note_followed(
        &self,
        set: &SetInForce,
        marks: impl IntoIterator<Item = String>,
    ) -> std::io::Result<()> {
        let mut followed = self.followed();
        (followed.version, followed.successions) = (set.version.clone(), Some(set.successions));
        followed.root = self.root.clone();
        followed.used.extend(marks);
        self.archive.follow(&followed)?;
        self.is_unnoted.store(false, Ordering::Relaxed);
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = followed;
        Ok(())
    }

    pub(super) fn followed(&self) -> FollowedSets {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the set that was believed last takes another in its place only by signatures; `None` where it is not at hand.
    pub(super) async fn must_sign(&self, environment: Environment) -> Result<Option<bool>, StoreFault> {
        let believed = self.signing_set(environment, &self.followed().version).await?;
        Ok(believed.map(|set| set.must_sign()))
    }

    /// Returns the step that writes a succession; `None` where the set is the same.
    pub(super) async fn succession_step(
        &self,
        environment: Environment,
        (from, next): (&str, &SetInForce),
        proof: Option<&ActivationProof>,
    ) -> Result<Option<Step>, StoreFault> {
        if from == next.version {
            return Ok(None);
        }
        let key = succession_key(environment, next.successions);
        let (before, _) = self.node.store.read(&key).await?;
        let succession = SetSuccession::new((from, next.version.as_str()), proof);
        Ok(Some(succession.write(key, before.map(|record| record.version))))
    }

    /// Returns the signatures by which the leading environment got a set.
    pub(super) async fn stored_proof(&self, set: &SetInForce) -> Result<Option<ActivationProof>, StoreFault> {
        let (record, _) = self.node.store.read(&succession_key(self.leading(), set.successions)).await?;
        let read = record.as_ref().and_then(SetSuccession::read);
        Ok(read.filter(|(succession, _)| succession.to == set.version).and_then(|(succession, _)| succession.proof()))
    }

    /// Verifies the successions that lead to a set from one that is believed. Returns the marks of their signatures, and of
    /// those before them that this gate did not know.
    async fn led(
        &self,
        environment: Environment,
        set: &SetInForce,
        known: &FollowedSets,
    ) -> Result<Result<BTreeSet<String>, SuccessionFault>, StoreFault> {
        if self.must_sign(environment).await? == Some(false) {
            return Ok(Ok(BTreeSet::new()));
        }
        let Some((first, way)) = self.way(environment, set, known).await? else {
            return Ok(Err(SuccessionFault::NoWay));
        };
        let environments = [environment, Environment::Production];
        let mut marks = self.marks_before(environment, first, known).await?;
        let (mut before, mut used) = (None::<SigningSet>, known.used.union(&marks).cloned().collect::<BTreeSet<_>>());
        for (succession, at) in way {
            let from = match before.take() {
                Some(before) => Some(before),
                None => self.signing_set(environment, &succession.from).await?,
            };
            let Some(from) = from else { return Ok(Err(SuccessionFault::UnknownSet(succession.from))) };
            if !from.must_sign() {
                break;
            }
            let then = self.signing_set(environment, &succession.to).await?;
            let Some(then) = then else { return Ok(Err(SuccessionFault::UnknownSet(succession.to))) };
            let terms = SuccessionTerms { environments: &environments, at, before: &from, then: &then, used: &used };
            if let Err(fault) = succession.verify(terms) {
                return Ok(Err(fault));
            }
            used.extend(succession.marks());
            marks.extend(succession.marks());
            before = Some(then);
        }
        Ok(Ok(marks))
    }

    /// Returns the marks of the signatures of all successions before this one, where this gate did not follow them itself:
    /// what once put a set in force does not do so again, whenever a gate begins.
    async fn marks_before(
        &self,
        environment: Environment,
        first: u64,
        known: &FollowedSets,
    ) -> Result<BTreeSet<String>, StoreFault> {
        let mut marks = BTreeSet::new();
        if known.successions.is_some() && known.root == self.root {
            return Ok(marks);
        }
        for nth in (1..first).rev().take(MAX_SUCCESSIONS) {
            let (record, _) = self.node.store.read(&succession_key(environment, nth)).await?;
            let read = record.as_ref().and_then(SetSuccession::read);
            marks.extend(read.iter().flat_map(|(succession, _)| succession.marks()));
        }
        Ok(marks)
    }

    /// Returns the successions from a set that is believed to this one, in their order, and the number of the first; `None`
    /// where the store has none.
    async fn way(
        &self,
        environment: Environment,
        set: &SetInForce,
        known: &FollowedSets,
    ) -> Result<Option<(u64, Vec<WrittenSuccession>)>, StoreFault> {
        let (mut way, mut to) = (Vec::new(), set.version.clone());
        let root = self.root.as_ref().filter(|_| known.root != self.root);
        for nth in (1..=set.successions).rev().take(MAX_SUCCESSIONS) {
            let (record, _) = self.node.store.read(&succession_key(environment, nth)).await?;
            let Some((succession, at)) = record.as_ref().and_then(SetSuccession::read) else { return Ok(None) };
            if succession.to != to {
                return Ok(None);
            }
            to = succession.from.clone();
            way.push((succession, at));
            // The same set may have been in force before; its former successions are behind this gate.
            let is_next = known.successions.is_none_or(|last| nth <= last.saturating_add(1));
            if (to == known.version && is_next) || Some(&to) == root {
                way.reverse();
                return Ok(Some((nth, way)));
            }
        }
        Ok(None)
    }

    /// Returns what a set says of signatures: the one that runs here, or else one of the archive beside the journal, or of the
    /// store. Its version is the digest of its meaning, so nobody is believed.
    async fn signing_set(&self, environment: Environment, version: &str) -> Result<Option<SigningSet>, StoreFault> {
        let signing = |set: &LoadedPolicies| SigningSet {
            meaning: set.policies.meaning.clone(),
            signing: set.policies.rules.signing.clone(),
        };
        let running = self.running();
        if running.policies.version() == version {
            return Ok(Some(signing(&running)));
        }
        let archived = self.archive.meaning(version).ok().flatten();
        let archived = archived.and_then(|text| ArchivedRules::read(&text).ok()).filter(|set| set.version() == version);
        if let Some(ArchivedRules { meaning, rules, .. }) = archived {
            return Ok(Some(SigningSet { meaning, signing: rules.signing }));
        }
        let (record, _) = self.node.store.read(&activation::archived_key(environment, version)).await?;
        let Some(stored) = record.and_then(|record| activation::archived(&record).ok()) else { return Ok(None) };
        let wanted =
            SetInForce { version: version.to_owned(), contract: stored.contract, two_people: false, successions: 0 };
        let loaded = self.load(environment, &wanted).await?.ok();
        Ok(loaded.map(|set| signing(&set)))
    }
}
