//! Follows the policies and the contract that the store names, and puts others in force there.
//!
//! A gate serves all its environments by one set: the one of the first environment, to which the others are brought.
//! What the store names is loaded from the store, so a gate that is new, renamed or restored decides like the others. If
//! this gate cannot run it, it serves reads by what it had and sends nothing.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use super::{InForce, Node, Snapshot};
use crate::adapters::policies::{Archive, FollowedSets, LoadedPolicies, PolicyFolder, Proposed};
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::ledger::{Number, RecordKey, Step, StoreFault};
use crate::people::activation;
use crate::people::activation::{ActivationProof, ActiveSet, Agreed, ArchivedSet, SetInForce};
use crate::people::succession::SetSuccession;

/// Why nothing is sent where the store has an answer that cannot be read.
const UNREAD: &str = "what the store has of the policies in force cannot be read, so this gate sends nothing";

/// The policies and the contract in the store, and those that run here.
#[derive(Debug)]
pub struct StoredPolicies {
    pub node: Arc<Node>,
    pub in_force: Arc<InForce>,
    /// The served environments; the first one leads.
    pub environments: Vec<Environment>,
    pub archive: Archive,
    /// The names that policies may use here.
    pub folder: PolicyFolder,
    /// This gate is configured so that a looser set needs two people.
    pub two_people: bool,
    /// This gate moves real money, and people can agree at its console.
    pub has_people: bool,
    /// The set that runs here, with its texts.
    pub running: Mutex<Arc<LoadedPolicies>>,
    /// The set from which the configuration lets this gate begin.
    pub root: Option<String>,
    /// The set that this gate believed last.
    pub followed: Mutex<FollowedSets>,
    /// The set in force is not noted as the one that was believed last: the disk is in trouble, or no descriptor is left.
    pub is_unnoted: AtomicBool,
    /// When the store had the texts of the set that runs here, by the monotonic clock.
    pub whole_at: Mutex<Option<Duration>>,
    /// Held by whoever reads the store and acts on it.
    pub turn: tokio::sync::Mutex<()>,
}

/// Why a set did not come into force.
#[derive(Debug, Error)]
pub enum NotActivated {
    #[error(transparent)]
    Store(#[from] StoreFault),
    #[error("the policies cannot be archived beside the audit log: {0}")]
    Archive(#[from] io::Error),
    #[error("another set came into force meanwhile")]
    Raced,
}

impl StoredPolicies {
    /// Whether this set takes force only if two people agree, should it be looser. Another contract decides what counts as
    /// money and as an outcome, so it takes two people wherever there are people, whoever may change policies alone. It is
    /// compared with the contract in force, whatever ran here before.
    pub fn takes_two(&self, active: Option<&ActiveSet>, in_force: &Snapshot, found: &LoadedPolicies) -> bool {
        let runs = in_force.catalog.digest().to_hex();
        let is_unknown = active.is_some_and(|active| active.set.contract != runs);
        let is_other_contract = is_unknown || found.catalog.binding() != in_force.catalog.binding();
        let is_set = self.two_people || active.is_some_and(|active| active.set.two_people);
        is_set || (self.has_people && is_other_contract)
    }

    /// Follows the store whenever a call meets another set there.
    pub async fn follow_when_asked(self: Arc<Self>) {
        loop {
            self.node.activations.asked().await;
            if let Err(fault) = self.follow().await {
                self.told_of(&fault);
            }
        }
    }

    /// Takes what the store names, and returns it; `None` where no set was ever in force. Where the store answers, and the
    /// answer cannot be read, this gate goes on with what it knows; if it knows nothing, it sends nothing and says why.
    pub async fn follow(&self) -> Result<Option<ActiveSet>, StoreFault> {
        let turn = self.turn.lock().await;
        let followed = self.follow_all().await;
        drop(turn);
        let mut has_looked = followed.is_ok();
        if let Err(StoreFault::Broken(why)) = &followed
            && !self.is_known(self.leading())
        {
            self.runs(Some(format!("{UNREAD}: {why}")));
            has_looked = true;
        }
        if has_looked {
            self.node.activations.looked(self.in_force.now());
        }
        followed
    }

    /// Reports why the store could not be followed, unless that is told already.
    pub fn told_of(&self, fault: &StoreFault) {
        if !matches!(fault, StoreFault::Broken(_)) || self.is_known(self.leading()) {
            self.node.told_of(fault);
        }
    }

    /// Puts a set in force after `before`. Guarded: `before` is in force still.
    pub async fn activate(
        &self,
        found: &LoadedPolicies,
        before: Option<&ActiveSet>,
        agreed: Option<&Agreed>,
    ) -> Result<(), NotActivated> {
        let turn = self.turn.lock().await;
        let (archive, set) = (self.archive.clone(), found.clone());
        // Policies that cannot be archived, and so cannot be shown to an auditor, do not come into force.
        let kept = tokio::task::spawn_blocking(move || archive.keep(&set)).await;
        kept.map_err(io::Error::other).flatten()?;
        let two_people = self.two_people || before.is_some_and(|before| before.set.two_people);
        let successions = before.map_or(0, |before| before.set.successions).saturating_add(1);
        let next = SetInForce { successions, ..set_in_force(found, two_people) };
        // Where a rebuild loses it, the folder would not propose it again.
        let guard = self.node.lasting(self.leading()).await?;
        let proof = agreed.and_then(|agreed| agreed.proof.as_ref());
        let by = (agreed, proof);
        let active = self.write((self.leading(), vec![guard]), before, found, next, by).await?;
        let active = active.ok_or(NotActivated::Raced)?;
        self.note_followed(&active.set, SetSuccession::new(("", ""), proof).marks())?;
        self.take(found.clone()).await?;
        self.node.activations.note_active(self.leading(), &active);
        self.runs(None);
        self.lead_others(&active.set, proof).await?;
        drop(turn);
        self.node.activations.looked(self.in_force.now());
        Ok(())
    }

    /// Returns what this gate's folder proposed last.
    pub fn proposed(&self) -> io::Result<Option<Proposed>> {
        self.archive.proposed()
    }

    pub fn propose(&self, version: &str, replaces: Number) -> io::Result<()> {
        self.archive.propose(&Proposed { version: version.to_owned(), replaces })
    }

    /// The texts of the set that runs are others now; its meaning is the same.
    pub fn rewritten(&self, found: LoadedPolicies) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
    }

    pub fn leading(&self) -> Environment {
        self.environments.first().copied().unwrap_or(Environment::Production)
    }

    pub(super) fn whole_at(&self) -> Option<Duration> {
        *self.whole_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_whole(&self, at: Option<Duration>) {
        *self.whole_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    pub(super) fn running(&self) -> Arc<LoadedPolicies> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn follow_all(&self) -> Result<Option<ActiveSet>, StoreFault> {
        let leading = self.leading();
        let Some(mut active) = self.read(leading).await? else {
            let running = self.running();
            let (version, believed) = (running.policies.version().to_owned(), self.followed().version);
            if believed != version && self.must_sign(leading).await? == Some(true) {
                self.runs(Some(format!(
                    "the store names no policies, and version {believed}, which ran here last and where `activation` is signed, \
                     cannot be read again, so this gate sends nothing; if you vouch for version {version}, remove \
                     `policies/followed.*` and `policies/in-force.*` beside the audit log, and restart this gate"
                )));
                return Ok(None);
            }
            let first_set = set_in_force(&running, self.two_people);
            let first = self.begin_with(leading, &running, first_set.clone()).await?;
            self.runs(None);
            self.lead_others(&first_set, None).await?;
            return Ok(first);
        };
        if self.two_people && !active.set.two_people {
            let next = SetInForce { two_people: true, ..active.set.clone() };
            let commit = activation::activate(
                leading,
                (Some(&active), active.set.version.as_str()),
                &next,
                Vec::new(),
                (None, None),
                &self.node.id,
            );
            if let Some(receipt) = self.node.commit(commit).await? {
                active = ActiveSet { number: receipt.number(), set: next };
            }
        }
        let mut believed = self.believe(leading, &active.set).await?;
        if believed.is_some()
            && let Some(back) = self.put_back(leading, &active).await?
        {
            (active, believed) = (back, None);
        }
        let is_running = self.running().policies.version() == active.set.version;
        let fault = match believed {
            Some(why) => Some(why),
            None if is_running => None,
            None => match self.load(leading, &active.set).await? {
                Ok(found) => self.take(found).await.err().map(|error| format!("it cannot be archived: {error}")),
                Err(why) => Some(why),
            },
        };
        self.node.activations.note_active(leading, &active);
        self.runs(fault.map(|why| {
            format!(
                "version {} of the policies is in force, and this gate cannot run it, so it sends nothing: {why}",
                active.set.version
            )
        }));
        if self.node.activations.fault().is_none() {
            self.lead_others(&active.set, None).await?;
            self.keep_archives().await;
        }
        Ok(Some(active))
    }

    /// Prepares the first record of an environment. Where a looser set needs two people it is written at once, so that no
    /// other gate can begin with another set.
    async fn begin_with(
        &self,
        environment: Environment,
        set: &LoadedPolicies,
        next: SetInForce,
    ) -> Result<Option<ActiveSet>, StoreFault> {
        if self.two_people {
            let active = self.write((environment, Vec::new()), None, set, next, (None, None)).await?;
            if let Some(active) = &active {
                self.node.activations.note_active(environment, active);
            }
            return Ok(active);
        }
        let archives = self.archives(environment, set).await?;
        self.node.activations.note_first(environment, next, archives);
        Ok(None)
    }

    /// Brings the other environments to this set. What was signed once holds for all. One whose record cannot be read does
    /// not stop the first.
    async fn lead_others(&self, set: &SetInForce, proof: Option<&ActivationProof>) -> Result<(), StoreFault> {
        for environment in self.environments.iter().skip(1) {
            let unread = match self.lead(*environment, set, proof).await {
                Err(StoreFault::Broken(why)) if !self.is_known(*environment) => Some(format!("{UNREAD}: {why}")),
                led => led.map(|()| None)?,
            };
            if self.node.activations.cannot_read(*environment, unread.clone())
                && let Some(why) = unread
            {
                tracing::error!(%environment, why, "the policies in force cannot be run here");
            }
        }
        Ok(())
    }

    async fn lead(
        &self,
        environment: Environment,
        set: &SetInForce,
        proof: Option<&ActivationProof>,
    ) -> Result<(), StoreFault> {
        let running = self.running();
        let active = match self.read(environment).await? {
            None => self.begin_with(environment, &running, set.clone()).await?,
            Some(active) if active.set == *set => Some(active),
            Some(before) => {
                let place = (environment, Vec::new());
                let kept = if proof.is_none() { self.stored_proof(set).await? } else { None };
                let proof = proof.or(kept.as_ref());
                self.write(place, Some(&before), &running, set.clone(), (None, proof)).await?
            }
        };
        if let Some(active) = active {
            self.node.activations.note_active(environment, &active);
        }
        Ok(())
    }

    /// Whether the set that runs here is in force as far as this gate knows, so that calls are decided by it.
    fn is_known(&self, environment: Environment) -> bool {
        self.node.activations.is_in_force(environment, self.running().policies.version())
    }

    /// Commits an activation; `None` where another set came into force meanwhile.
    pub(super) async fn write(
        &self,
        (environment, guards): (Environment, Vec<Step>),
        before: Option<&ActiveSet>,
        found: &LoadedPolicies,
        next: SetInForce,
        by: (Option<&Agreed>, Option<&ActivationProof>),
    ) -> Result<Option<ActiveSet>, StoreFault> {
        let mut archives = self.archives(environment, found).await?;
        let now = self.in_force.now();
        let from = before.map_or(now.policies.version(), |before| before.set.version.as_str());
        archives.extend(self.succession_step(environment, (from, &next), by.1).await?);
        let mut commit = activation::activate(environment, (before, from), &next, archives, by, &self.node.id);
        commit.steps.extend(guards);
        let receipt = self.node.commit(commit).await?;
        Ok(receipt.map(|receipt| ActiveSet { number: receipt.number(), set: next }))
    }

    /// Returns the steps that archive the texts which the store does not have yet.
    pub(super) async fn archives(
        &self,
        environment: Environment,
        set: &LoadedPolicies,
    ) -> Result<Vec<Step>, StoreFault> {
        let (version, digest) = (set.policies.version(), set.catalog.digest().to_hex());
        let mut steps = Vec::new();
        if !self.has(&activation::archived_key(environment, version)).await? {
            let texts = set.texts.iter().cloned().collect();
            steps.push(activation::archive(environment, version, &ArchivedSet { texts, contract: digest.clone() }));
        }
        if !self.has(&activation::contract_key(environment, &digest)).await? {
            steps.push(activation::archive_contract(environment, &digest, set.catalog.source()));
        }
        Ok(steps)
    }

    /// Returns the keys of the texts of the set that runs here, and of its contract.
    pub(super) fn archive_keys(&self, environment: Environment) -> [RecordKey; 2] {
        let set = self.running();
        let (version, digest) = (set.policies.version(), set.catalog.digest().to_hex());
        [activation::archived_key(environment, version), activation::contract_key(environment, &digest)]
    }

    async fn has(&self, key: &RecordKey) -> Result<bool, StoreFault> {
        Ok(self.node.store.read(key).await?.0.is_some())
    }

    async fn read(&self, environment: Environment) -> Result<Option<ActiveSet>, StoreFault> {
        let (record, _) = self.node.store.read(&activation::in_force_key(environment)).await?;
        record.map(|record| activation::active(&record).map_err(|why| self.node.unreadable(&why))).transpose()
    }

    /// Loads a set from the store; the inner error says why this gate cannot run it.
    pub(super) async fn load(
        &self,
        environment: Environment,
        wanted: &SetInForce,
    ) -> Result<Result<LoadedPolicies, String>, StoreFault> {
        let (record, _) = self.node.store.read(&activation::archived_key(environment, &wanted.version)).await?;
        let Some(record) = record else { return Ok(Err("the store has no texts of it".to_owned())) };
        let texts: BTreeMap<String, String> = match activation::archived(&record) {
            Ok(set) => set.texts,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let catalog = match self.contract(environment, &wanted.contract).await? {
            Ok(catalog) => catalog,
            Err(why) => return Ok(Err(why)),
        };
        let (folder, version) = (self.folder.with_catalog(catalog), wanted.version.clone());
        let texts = texts.into_iter().collect();
        let found = tokio::task::spawn_blocking(move || folder.read(texts)).await;
        Ok(match found {
            Ok(Ok(found)) if found.policies.version() == version => Ok(found),
            Ok(Ok(_)) => {
                Err("this software reads another meaning in its texts: run the version that made it".to_owned())
            }
            Ok(Err(findings)) => Err(in_one_line(&findings)),
            Err(error) => Err(format!("it could not be read: {error}")),
        })
    }

    async fn contract(
        &self,
        environment: Environment,
        digest: &str,
    ) -> Result<Result<Arc<Catalog>, String>, StoreFault> {
        let running = self.running().catalog.clone();
        if running.digest().to_hex() == digest {
            return Ok(Ok(running));
        }
        let (record, _) = self.node.store.read(&activation::contract_key(environment, digest)).await?;
        let Some(record) = record else { return Ok(Err("the store has no texts of its contract".to_owned())) };
        let source = match activation::contract(&record) {
            Ok(source) => source,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let built = tokio::task::spawn_blocking(move || source.build()).await;
        Ok(match built {
            Ok(Ok(catalog)) if catalog.digest().to_hex() == digest => Ok(Arc::new(catalog)),
            Ok(Ok(_)) => Err("the texts of its contract are not those of its digest".to_owned()),
            Ok(Err(findings)) => Err(format!("its contract cannot be read: {}", in_one_line(&findings))),
            Err(error) => Err(format!("its contract could not be read: {error}")),
        })
    }

    /// Runs a set from now on. Its archive is on disk first.
    async fn take(&self, found: LoadedPolicies) -> io::Result<()> {
        let (archive, set) = (self.archive.clone(), found.clone());
        tokio::task::spawn_blocking(move || archive.takes_force(&set)).await.map_err(io::Error::other).flatten()?;
        let before = self.in_force.now().policies.version().to_owned();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found.clone());
        let changes = self.in_force.replace(found.catalog, found.policies);
        let now = self.in_force.now();
        let version = now.policies.version();
        self.node.metrics.policies_read("changed");
        tracing::info!(version, before, changes = %changes, "policies came into force");
        Ok(())
    }

    fn runs(&self, fault: Option<String>) {
        self.node.metrics.policies_not_run(fault.is_some());
        if self.node.activations.cannot_run(fault.clone())
            && let Some(why) = fault
        {
            tracing::error!(why, "the policies in force cannot be run here");
        }
    }
}

fn set_in_force(set: &LoadedPolicies, two_people: bool) -> SetInForce {
    let (version, contract) = (set.policies.version().to_owned(), set.catalog.digest().to_hex());
    SetInForce { version, contract, two_people, successions: 0 }
}

fn in_one_line(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
