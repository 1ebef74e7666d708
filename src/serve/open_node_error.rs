//! The reasons why the node of a process cannot be opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::adapters::audit::OpenFault;
use crate::adapters::disk_trouble::is_trouble;
use crate::adapters::redis::NotReady;
use crate::adapters::store::embedded::OpenError;
use crate::adapters::store::seal_check::SealCheckError;
use crate::adapters::store::sealed::SealingKeyError;
use crate::config::StoreKind;
use crate::ledger::{InstallationId, StoreFault};
use crate::node::journalling::RecoverError;
use crate::node::membership::JoinError;
use crate::ports::AuditFault;

/// Why the node cannot be opened.
#[derive(Debug, Error)]
pub enum OpenNodeError {
    #[error(transparent)]
    Store(OpenError),
    #[error(transparent)]
    Unreadable(StoreFault),
    /// The embedded store is empty, and so is the journal.
    #[error(
        "the store of production is empty, and nobody created it: run `sluice store create` once for a new installation; if \
         this gate has paid before, `store.folder` and `audit.folder` are the wrong ones, or lost: see deploy/docs/recovery.md"
    )]
    Uncreated,
    #[error(
        "the store of production belongs to installation `{}`, and this gate to `{wanted}`: check `store.folder`, \
         `store.installation` and `audit.folder`",
        .store.as_str()
    )]
    OtherInstallation { store: InstallationId, wanted: String },
    #[error("the store lacks what the journal holds, and cannot be built from it: {0}")]
    Rebuild(StoreFault),
    #[error(transparent)]
    Redis(NotReady),
    #[error("`store.seal_key`: {0}")]
    SealKey(SealingKeyError),
    #[error("`store.seal_key`: {0}")]
    OtherSealKey(SealCheckError),
    #[error("`audit.checkpoint_key` is not an Ed25519 key in PEM; make one with `sluice audit key`")]
    CheckpointKey,
    #[error("{0}")]
    Witness(String),
    #[error("the key for personal names (`audit.operand_key`): {0}")]
    OperandKey(io::Error),
    #[error("the identity of this gate's journal: {0}")]
    JournalId(io::Error),
    #[error(transparent)]
    Audit(OpenFault),
    #[error(transparent)]
    Join(JoinError),
    #[error("the policies cannot be archived beside the audit log: {0}")]
    Archive(io::Error),
    /// Nothing is begun anew while a disk may be missing.
    #[error("`{}` lacks what this gate had there: is its disk mounted? Mount it, or put the files back; the gate goes on by itself", .0.display())]
    Gone(PathBuf),
    #[error("the disks of this gate could not be opened: {0}")]
    Attempt(String),
    /// After trouble of the disk, the folder has another journal than the one that this process knows.
    #[error("the audit folder has another journal now: start the gate again")]
    OtherJournal,
    #[error("the records of an earlier run cannot be recovered: {0}")]
    Recover(RecoverError),
}

impl OpenNodeError {
    /// Whether a disk is in trouble, which may pass. Anything else is for people to look at.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            OpenNodeError::Store(error) => error.may_pass(),
            OpenNodeError::Unreadable(fault) | OpenNodeError::Rebuild(fault) => {
                matches!(fault, StoreFault::Away(_) | StoreFault::InDoubt(_))
            }
            OpenNodeError::JournalId(error) | OpenNodeError::OperandKey(error) | OpenNodeError::Archive(error) => {
                is_trouble(error)
            }
            OpenNodeError::OtherSealKey(SealCheckError::File { error, .. }) => is_trouble(error),
            OpenNodeError::Audit(OpenFault::Disk { may_pass, .. }) => *may_pass,
            OpenNodeError::Join(JoinError::Store(fault)) | OpenNodeError::Recover(RecoverError::Store(fault)) => {
                matches!(fault, StoreFault::Away(_) | StoreFault::InDoubt(_))
            }
            OpenNodeError::Recover(RecoverError::Audit(AuditFault::Disk(_))) | OpenNodeError::Gone(_) => true,
            OpenNodeError::Recover(RecoverError::Unsettled(error)) => is_trouble(error),
            _ => false,
        }
    }

    /// Whether it is the audit folder that cannot be used. With a Redis as the store, the gate has nothing elsewhere.
    pub(super) fn is_of_audit(&self, kind: StoreKind) -> bool {
        kind == StoreKind::Redis
            || matches!(self, OpenNodeError::Audit(_) | OpenNodeError::JournalId(_) | OpenNodeError::Archive(_))
    }
}
