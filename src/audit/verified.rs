//! The proofs against which audit files are verified, and the result.

use std::collections::BTreeSet;
use std::io::{self, BufRead};

use super::checkpoint::{Checkpoint, CheckpointKey};
use super::flaw::{Flaw, FlawPlace};
use super::line::{Highest, LineFault};
use super::manifest::ArchivedFile;
use crate::ledger::{NodeId, StoreTime};

/// A file to verify.
pub trait FileSource {
    fn name(&self) -> &str;

    /// The node and the sequence number in its name.
    fn named(&self) -> Option<(&NodeId, u64)>;

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>>;
}

/// A line of a file of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointLine {
    pub place: FlawPlace,
    pub read: Result<Checkpoint, LineFault>,
}

/// The facts that files are verified against.
#[derive(Clone, Debug, Default)]
pub struct KnownNumbers {
    pub checkpoints: Vec<CheckpointLine>,
    /// Without keys, signatures are not checked.
    pub keys: Vec<CheckpointKey>,
    /// Nodes that are writing: their last line may be unfinished.
    pub live: BTreeSet<NodeId>,
    /// Entries this late behind a gap may have come before the gap's entries.
    pub unsettled: Option<StoreTime>,
    /// Files that a manifest says are in an archive.
    pub archived: Vec<ArchivedFile>,
    /// Snapshots whose bytes are not those that a header names.
    pub changed_snapshots: Vec<String>,
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// The first flaws.
    pub flaws: Vec<Flaw>,
    pub flaw_count: u64,
    /// Facts worth knowing, and checks that could not be made.
    pub notes: Vec<String>,
    pub files: u64,
    pub entries: u64,
    pub bytes: u64,
    pub highest: Highest,
    /// How many checkpoints hold.
    pub checkpoints: u64,
    /// The nodes whose files no checkpoint covers.
    pub unsigned: BTreeSet<NodeId>,
    /// Whether checkpoints were verified with public keys; without, whoever can write the files could make them.
    pub keys_given: bool,
}

/// How far a verification without flaws proves that nothing is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Up to the newest signed checkpoint of each node.
    UpToCheckpoints,
    /// Nothing proves it: whoever can write the files could have made the checkpoints, too.
    UnverifiedCheckpoints,
    /// Nothing proves it: the files of some nodes, or of all, have no checkpoint.
    Unproven,
}

impl VerifyReport {
    pub fn completeness(&self) -> Completeness {
        if self.checkpoints == 0 || !self.unsigned.is_empty() {
            Completeness::Unproven
        } else if self.keys_given {
            Completeness::UpToCheckpoints
        } else {
            Completeness::UnverifiedCheckpoints
        }
    }
}
