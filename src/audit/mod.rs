//! The audit log: the lines of its files, and the verification that they still say what was written.
//!
//! A file has one JSON object a line, each written in exactly one way. Its first line names its node and its sequence
//! number; every other line is an entry with the number of its commit. Each line carries the hash of the line before
//! it, across files, so that a line cannot be changed, moved or removed alone. A [`Checkpoint`], signed and kept
//! elsewhere, reveals that everything after a line was rewritten.
//!
//! Nothing here opens a file: readers come in as arguments.

mod checkpoint;
mod entry;
mod flaw;
mod hash;
mod in_order;
mod line;
mod manifest;
mod numbers;
mod on_disk;
mod read;
mod snapshot_link;
mod steps;
mod tail;
mod verified;
mod verify;

pub use checkpoint::{Checkpoint, CheckpointKey, Statement};
pub use entry::{Entry, EntryKind};
pub use flaw::{Flaw, FlawKind, FlawPlace};
pub use hash::Hash;
pub use in_order::InOrder;
pub use line::{AuditLine, FORMAT, FileHeader, Highest, LineBody, LineFault, LineText, read_line};
pub use manifest::ArchivedFile;
pub use numbers::Numbers;
pub use on_disk::OnDisk;
pub use read::{LONGEST_LINE, LineReader, RawLine};
pub use snapshot_link::SnapshotLink;
pub use steps::{SplitEntry, UnusedNumbers, split_steps, unused_before, with_steps, with_values, without_values};
pub use tail::{ScanStop, Scanned, scan};
pub use verified::{CheckpointLine, Completeness, FileSource, KnownNumbers, VerifyReport};
pub use verify::verify;

#[cfg(test)]
mod tests;
