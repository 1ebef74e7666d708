//! A journal and the store that it belongs to: the first meeting, and later ones.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Node;
use super::membership::Membership;
use super::node_facts::came_with;
use super::recovery::cannot_remember;
use crate::adapters::audit::{keep_met_store, keep_original, met_store};
use crate::base::ids::Environment;
use crate::ledger::{JournalId, Number, StoreFault};
use crate::stations::claim::{self, Forgotten};

impl Membership {
    /// Whether the journal met no store yet. One whose folder is missing has met its store.
    pub(super) fn is_journal_new(&self, node: &Node, environment: Environment) -> bool {
        self.audit_folder.check().is_ok() && met_store(&self.audit_folder, &node.id, environment).is_none()
    }

    /// Reports a fault of the store, or of a file beside the journal, which says nothing of the store.
    pub(super) fn told_of(&self, node: &Node, fault: &StoreFault) {
        let (StoreFault::Away(why), begin) = (fault, self.of_folder()) else { return node.told_of(fault) };
        if !why.starts_with(&begin) {
            return node.told_of(fault);
        }
        // The watch of the audit log tells of a folder that is missing.
        if self.audit_folder.check().is_err() {
            return;
        }
        if self.folder_faults.is_new(why) {
            tracing::error!(why, "a file beside the journal cannot be written; the gate tries again each second");
        }
    }

    /// Writes a file beside the journal, in the folder that this gate opened.
    fn writes_beside(&self, what: &str, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), StoreFault> {
        match self.audit_folder.check().and_then(|()| write(&self.audit_folder)) {
            Ok(()) => {
                self.folder_faults.end();
                Ok(())
            }
            Err(error) => Err(StoreFault::Away(format!("{}{what} cannot be kept there: {error}", self.of_folder()))),
        }
    }

    fn of_folder(&self) -> String {
        format!("the audit folder `{}`: ", self.audit_folder.display())
    }

    /// Keeps the identity of the store beside the journal. A new journal meets its first store in `recover`.
    pub(super) fn meets_again(
        &self,
        node: &Node,
        environment: Environment,
        generation: &str,
    ) -> Result<(), StoreFault> {
        match met_store(&self.audit_folder, &node.id, environment) {
            Some(met) if met != generation => self.meets(node, environment, generation),
            Some(_) => Ok(()),
            None => Ok(()),
        }
    }

    /// Takes the folder for the original once the start has looked at whether it was put back together with the Redis.
    pub(super) fn counts_as_original(&self, node: &Node) -> Result<(), StoreFault> {
        match self.served.iter().all(|environment| self.knows_of_all(*environment)) {
            true => self.is_no_old_copy(node),
            false => Ok(()),
        }
    }

    /// A whole store has shown that the journal is not an old copy: from now on its folder is the original.
    pub(super) fn is_no_old_copy(&self, node: &Node) -> Result<(), StoreFault> {
        if self.is_copy.load(Ordering::Acquire) {
            self.writes_beside("that it is no old copy", |folder| keep_original(folder, &node.id))?;
            self.is_copy.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Entries that the store no longer has cannot be had: a journal that lacks them begins behind them. Without that, an
    /// empty journal would seem to hold all that a store ever had.
    async fn begins_behind_what_is_gone(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        let highest = node.audit.highest(environment);
        let last = node.store.last(environment).await?;
        if last <= highest || !node.store.outbox(environment, highest, 1).await?.is_empty() {
            return Ok(());
        }
        // Entries that came to this journal meanwhile may have left the outbox.
        if node.audit.highest(environment) != highest {
            return Ok(());
        }
        tracing::warn!(
            %environment,
            up_to = last.as_u64(),
            "this journal begins in the middle: the store no longer has the entries before; they are in the journals of other \
             gates"
        );
        let skipped = node.audit.skip(environment, last).await;
        skipped.map_err(|fault| StoreFault::Away(fault.to_string()))
    }

    fn meets(&self, node: &Node, environment: Environment, generation: &str) -> Result<(), StoreFault> {
        let keep = |folder: &Path| keep_met_store(folder, &node.id, environment, generation);
        self.writes_beside("the identity of the store", keep)
    }

    /// The first meeting of a journal and a store. Others wait for the journal that this node had before, not for this one.
    pub(super) async fn first_meets(
        &self,
        node: &Arc<Node>,
        environment: Environment,
        waits: &Forgotten,
    ) -> Result<(), StoreFault> {
        let Some(generation) = self.store.generation(environment) else { return Ok(()) };
        self.begins_behind_what_is_gone(node, environment).await?;
        if waits.nodes.contains_key(&node.id) {
            let why = came_with(&node.id, "a new journal: what its former one holds is not known");
            cannot_remember(node, environment, &why).await?;
            tracing::error!(
                %environment,
                "the store waits for the journal that this gate had before: give the gate its former `audit.folder`, or find out \
                 what it sent (upstream's records), then `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
            );
        }
        self.names_lost_journals(node, environment).await?;
        self.meets(node, environment, &generation)
    }

    /// Journals the journals that this node had before and did not hand over.
    async fn names_lost_journals(&self, node: &Arc<Node>, environment: Environment) -> Result<(), StoreFault> {
        let former = self.store.former_journals(environment).await?.into_iter();
        let lost: Vec<(JournalId, Number)> = former
            .filter(|former| former.sender.node == node.id && !former.is_retired && former.up_to.as_u64() > 0)
            .map(|former| (former.sender.journal, former.up_to))
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            %environment,
            "this gate came with a new journal, and did not hand over what its former one had; `sluice doctor` names the lost \
             journal"
        );
        node.commit(claim::journal_lost(environment, &node.sender(), &lost)).await.map(drop)
    }
}
