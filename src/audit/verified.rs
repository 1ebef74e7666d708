//! The proofs against which audit files are verified, and the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufRead};
use std::sync::Arc;

use super::checkpoint::{CheckpointKey, Origin};
use super::flaw::{Flaw, FlawPlace};
use super::kept_checkpoint::KeptCheckpoint;
use super::line::{Highest, LineFault};
use super::manifest::ArchivedFile;
use super::note::NoteKey;
use super::salts::Salts;
use super::tree::Tiles;
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
    pub read: Result<KeptCheckpoint, LineFault>,
    /// Whether it lies beside the files; otherwise it may be of a log of others.
    pub is_beside: bool,
}

/// The facts that files are verified against.
#[derive(Clone, Debug, Default)]
pub struct KnownNumbers {
    pub checkpoints: Vec<CheckpointLine>,
    /// Without keys, signatures are not checked.
    pub keys: Vec<CheckpointKey>,
    /// The keys of witnesses, and how many of them must have signed.
    pub witnesses: Vec<NoteKey>,
    pub witnesses_needed: usize,
    /// Logs that ended for a reason that people know.
    pub former_logs: BTreeSet<Origin>,
    /// The trees of nodes.
    pub trees: BTreeMap<NodeId, KnownTree>,
    /// Nodes that are writing: their last line may be unfinished.
    pub live: BTreeSet<NodeId>,
    /// Entries this late behind a gap may have come before the gap's entries.
    pub unsettled: Option<StoreTime>,
    /// Files that a manifest says are in an archive.
    pub archived: Vec<ArchivedFile>,
    /// Snapshots whose bytes are not those that a header names.
    pub changed_snapshots: Vec<String>,
}

/// The salts and tiles beside the files of a node, which tell its tree.
#[derive(Clone)]
pub struct KnownTree {
    pub salts: Salts,
    /// The tiles, which stand for files in an archive.
    pub tiles: Arc<dyn Tiles + Send + Sync>,
}

impl fmt::Debug for KnownTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownTree").finish_non_exhaustive()
    }
}

/// How far enough witnesses signed what a node wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessedLines {
    /// Lines of the tree.
    pub lines: u64,
    /// Lines behind them.
    pub behind: u64,
    /// When the last of the witnesses signed, in seconds since 1970.
    pub at: u64,
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
    /// How far enough witnesses signed, by node.
    pub witnessed: BTreeMap<NodeId, WitnessedLines>,
    /// The nodes of which no checkpoint has enough signatures of witnesses, though they were asked for.
    pub unwitnessed: BTreeSet<NodeId>,
    /// Whether checkpoints were verified with public keys; without, whoever can write the files could make them.
    pub keys_given: bool,
}

/// How far a verification without flaws proves that nothing is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Up to the newest checkpoint of each node that enough witnesses signed: nobody was shown another history.
    UpToWitnessed,
    /// Witnesses were asked for, and too few signed.
    Unwitnessed,
    /// Up to the newest signed checkpoint of each node.
    UpToCheckpoints,
    /// Nothing proves it: whoever can write the files could have made the checkpoints, too.
    UnverifiedCheckpoints,
    /// Nothing proves it: the files of some nodes, or of all, have no checkpoint.
    Unproven,
}

impl VerifyReport {
    /// Whether signed checkpoints of each node cover its files.
    pub fn is_complete_up_to_checkpoints(&self) -> bool {
        self.checkpoints > 0 && self.unsigned.is_empty() && self.keys_given
    }

    pub fn completeness(&self) -> Completeness {
        if !self.unwitnessed.is_empty() {
            Completeness::Unwitnessed
        } else if !self.witnessed.is_empty() {
            Completeness::UpToWitnessed
        } else if self.is_complete_up_to_checkpoints() {
            Completeness::UpToCheckpoints
        } else if self.checkpoints == 0 || !self.unsigned.is_empty() {
            Completeness::Unproven
        } else {
            Completeness::UnverifiedCheckpoints
        }
    }
}
