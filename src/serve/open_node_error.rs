//! The reasons why the node of a process cannot be opened.

use std::io;

use thiserror::Error;

use crate::adapters::audit::OpenFault;
use crate::adapters::redis::NotReady;
use crate::adapters::store::embedded::OpenError;
use crate::adapters::store::seal_check::SealCheckError;
use crate::adapters::store::sealed::SealingKeyError;
use crate::ledger::{InstallationId, StoreFault};
use crate::node::journalling::RecoverError;
use crate::node::membership::JoinError;

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
    Rebuild(String),
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
    #[error("the records of an earlier run cannot be recovered: {0}")]
    Recover(RecoverError),
}
