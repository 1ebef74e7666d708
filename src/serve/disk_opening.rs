//! Opens all of a node that lies on disks, again and again while one of them is in trouble: full, read-only or failing.
//!
//! Reads need none of it, so they are served meanwhile, and everything else is refused. What was opened stays open for the
//! next attempt: the locks are kept, and each file is opened as in a start without trouble.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::disk_trouble::{DiskTrouble, has_store, looks_usable, still_has_store};
use super::embedded_start::{REACH_NOTE, UnverifiedStore, open_store, or_empty};
use super::lock_wait::LockWait;
use super::node_settings::audit_settings;
use super::open_node_error::OpenNodeError;
use super::start_policies::archived;
use crate::adapters::audit::{
    AuditFiles, AuditFolder, Follower, OpenFault, journal_id, kept_journal_id, kept_operand_key, operand_key,
};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::policies::{Archive, LoadedPolicies};
use crate::adapters::store::embedded::{Embedded, OpenError};
use crate::adapters::store::opening::OpeningStore;
use crate::adapters::store::replica::Replica;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::Seals;
use crate::adapters::supervisor::Supervisor;
use crate::base::keyed::OperandKey;
use crate::config::{Config, StoreKind};
use crate::ledger::JournalId;

/// The disks of a node that are to be opened, and what is open already.
#[derive(Debug)]
pub(super) struct DiskOpening {
    pub config: Config,
    pub seals: Seals,
    pub seal_check: SealCheck,
    pub runtime: Handle,
    pub supervisor: Supervisor,
    /// The policies of the folder, which the archive beside the audit log must have.
    pub policies: Option<LoadedPolicies>,
    pub audit_folder: AuditFolder,
    pub store: Arc<OpeningStore>,
    pub embedded: Option<Embedded>,
    pub replica: Option<Arc<Replica>>,
    pub audit: Option<Arc<AuditFiles>>,
}

/// The parts of a node that lie on its disks.
#[derive(Debug)]
pub(super) struct OpenedDisks {
    pub audit: Arc<AuditFiles>,
    pub unverified: Option<UnverifiedStore>,
    pub replica: Option<Arc<Replica>>,
}

/// The keys that a node keeps for itself on its disks.
#[derive(Debug)]
pub(super) struct NodeKeys {
    pub journal: JournalId,
    pub operand_key: OperandKey,
}

impl DiskOpening {
    /// Opens what is not open yet. It may wait for another process that ends, and read for long.
    pub fn attempt(&mut self) -> Result<OpenedDisks, OpenNodeError> {
        let (config, seals) = (self.config.clone(), self.seals.clone());
        let node = &config.store.node;
        self.seal_check.compare().map_err(OpenNodeError::OtherSealKey)?;
        // With a Redis, the next process is another node with its own folder, so there is nothing to wait for.
        let wait = if config.store.kind == StoreKind::Embedded { config.store.wait } else { Duration::ZERO };
        let supervisor = self.supervisor.clone();
        let waiting = LockWait { supervisor: &supervisor, wait };
        let is_locked = |error: &OpenError| matches!(error, OpenError::Locked(_));
        // The store's lock comes first: an earlier process holds it until it has ended.
        if config.store.kind == StoreKind::Embedded && self.embedded.is_none() {
            let opened = waiting.open("store", &config.store.folder, || open_store(&config, &seals), is_locked);
            self.embedded = Some(opened.map_err(OpenNodeError::Store)?);
        }
        // With a Redis, this gate keeps what its journal makes of the store.
        if config.store.kind == StoreKind::Redis && self.replica.is_none() {
            let folder = config.audit.folder.join(format!("replica-{node}"));
            let open = || or_empty(&folder, || Replica::open(&folder, seals.clone()));
            let replica = waiting.open("replica of the store", &folder, open, is_locked);
            self.replica = Some(Arc::new(replica.map_err(OpenNodeError::Store)?));
        }
        let audit = match &self.audit {
            Some(audit) => audit.clone(),
            None => {
                let mut settings = audit_settings(&config)?;
                settings.folder = self.audit_folder.clone();
                settings.note = self.embedded.is_some().then(|| config.store.folder.join(REACH_NOTE));
                settings.follower = self.replica.clone().map(|replica| -> Arc<dyn Follower> { replica });
                let open = || AuditFiles::open(settings.clone(), Arc::new(SystemClock));
                let is_locked = |fault: &OpenFault| matches!(fault, OpenFault::Locked { .. });
                let audit = waiting.open("audit log", &config.audit.folder, open, is_locked);
                self.audit.insert(Arc::new(audit.map_err(OpenNodeError::Audit)?)).clone()
            }
        };
        if let Some(policies) = &self.policies {
            archived(policies, &Archive::beside(&self.audit_folder, node)).map_err(OpenNodeError::Archive)?;
            self.policies = None;
        }
        let unverified = self
            .embedded
            .take()
            .map(|store| UnverifiedStore::new(store, &config, &self.runtime, (&audit, self.store.clone()), &seals));
        Ok(OpenedDisks { audit, unverified: unverified.transpose()?, replica: self.replica.clone() })
    }

    /// Returns what the node keeps for itself; makes it where there is none.
    pub fn keys(&self) -> Result<NodeKeys, OpenNodeError> {
        let Config { audit, store, .. } = &self.config;
        let operand_key = operand_key(audit.operand_key.as_ref(), &store.folder).map_err(OpenNodeError::OperandKey)?;
        let journal = journal_id(&audit.folder, &store.node).map_err(OpenNodeError::JournalId)?;
        Ok(NodeKeys { journal, operand_key })
    }

    /// Returns what the node keeps for itself where its disks are not open yet; `None` where it never ran.
    pub fn kept_keys(&self) -> Result<Option<NodeKeys>, OpenNodeError> {
        let Config { audit, store, .. } = &self.config;
        let key = match &audit.operand_key {
            Some(_) => operand_key(audit.operand_key.as_ref(), &store.folder).map(Some),
            None => kept_operand_key(&store.folder),
        };
        let journal = kept_journal_id(&audit.folder, &store.node).map_err(OpenNodeError::JournalId)?;
        let both = journal.zip(key.map_err(OpenNodeError::OperandKey)?);
        Ok(both.map(|(journal, operand_key)| NodeKeys { journal, operand_key }))
    }

    /// Opens the disks as soon as they are in no trouble any more. `journal` is the journal that this process knows.
    pub async fn keep_trying(
        mut self,
        first: OpenNodeError,
        journal: &JournalId,
        trouble: &mut DiskTrouble,
        notes: impl Fn(&OpenNodeError),
    ) -> Result<OpenedDisks, OpenNodeError> {
        let had_store =
            self.config.store.kind == StoreKind::Embedded && has_store(&self.config.store.folder).unwrap_or(true);
        let (mut error, mut took) = (first, Duration::ZERO);
        loop {
            notes(&error);
            trouble.wait(&error, took).await;
            let (since, journal) = (Stopwatch::start(), journal.clone());
            let is_of_audit = error.is_of_audit(self.config.store.kind);
            let attempt = tokio::task::spawn_blocking(move || {
                let opened = self.again(is_of_audit, &journal, had_store);
                (self, opened)
            });
            let (disks, opened) = attempt.await.map_err(|error| OpenNodeError::Attempt(error.to_string()))?;
            self = disks;
            took = since.elapsed();
            match opened {
                Ok(opened) => return Ok(opened),
                Err(None) => {}
                Err(Some(again)) if again.may_pass() => error = again,
                Err(Some(other)) => return Err(other),
            }
        }
    }

    /// Tries again where the disks look as if they could be used; no error means that they look as before.
    fn again(
        &mut self,
        is_of_audit: bool,
        journal: &JournalId,
        had_store: bool,
    ) -> Result<OpenedDisks, Option<OpenNodeError>> {
        let Config { audit, store, .. } = &self.config;
        if !looks_usable(if is_of_audit { &audit.folder } else { &store.folder }) {
            return Err(None);
        }
        // Nothing is begun anew in the folder on which a disk is to be mounted again.
        match kept_journal_id(&audit.folder, &store.node) {
            Ok(Some(found)) if found == *journal => {}
            Ok(Some(_)) => return Err(Some(OpenNodeError::OtherJournal)),
            Ok(None) => return Err(Some(OpenNodeError::Gone(audit.folder.clone()))),
            Err(error) => return Err(Some(OpenNodeError::JournalId(error))),
        }
        if had_store && self.embedded.is_none() {
            still_has_store(&store.folder).map_err(Some)?;
        }
        self.attempt().map_err(Some)
    }
}
