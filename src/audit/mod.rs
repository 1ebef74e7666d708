//! The audit log: the lines of its files, and the verification that they still say what was written.
//!
//! A file has one JSON object a line, each written in exactly one way. Its first line names its node and its sequence
//! number; every other line is an entry with the number of its commit. Each line carries the hash of the line before
//! it, across files, so that a line cannot be changed, moved or removed alone. A [`Checkpoint`], signed and kept
//! elsewhere, reveals that everything after a line was rewritten; it has the root of a Merkle tree over all lines, so that
//! witnesses can see that a journal only grows, and one line can be proved without the others.
//!
//! Nothing here opens a file: readers come in as arguments.

mod checkpoint;
mod entry;
mod flaw;
mod hash;
mod in_order;
mod kept_checkpoint;
mod line;
mod manifest;
mod note;
mod numbers;
mod on_disk;
mod read;
mod read_tree;
mod receipt;
mod salts;
mod snapshot_link;
mod steps;
mod tail;
mod tree;
mod verified;
mod verify;
mod witness_exchange;

pub use checkpoint::{Checkpoint, CheckpointKey, Origin, parse_root, parse_size};
pub use entry::{Entry, EntryKind};
pub use flaw::{Flaw, FlawKind, FlawPlace};
pub use hash::Hash;
pub use in_order::InOrder;
pub use kept_checkpoint::{CheckpointPlace, FileExtent, KeptCheckpoint};
pub use line::{AuditLine, FORMAT, FileHeader, Highest, LineBody, LineFault, LineText, read_line};
pub use manifest::ArchivedFile;
pub use note::{Note, NoteKey, NoteKeyKind, NoteSignature, NoteVerdict, parse_signatures};
pub use numbers::Numbers;
pub use on_disk::OnDisk;
pub use read::{LONGEST_LINE, LineReader, RawLine};
pub use receipt::{FoundLine, ProvedEntries};
pub use salts::{Salts, salted};
pub use snapshot_link::SnapshotLink;
pub use steps::{
    SplitEntry, UnusedNumbers, split_steps, steps_in, unused_before, with_steps, with_values, without_values,
};
pub use tail::{ScanStop, Scanned, scan};
pub use tree::{
    GrowingTree, TILE_WIDTH, TileIndex, Tiles, consistency_proof, inclusion_proof, is_consistent, is_included,
    leaf_hash,
};
pub use verified::{CheckpointLine, Completeness, FileSource, KnownNumbers, KnownTree, VerifyReport, WitnessedLines};
pub use verify::verify;
pub use witness_exchange::{SIZE_TYPE, WitnessAnswer, WitnessRequest};

#[cfg(test)]
mod tests;
