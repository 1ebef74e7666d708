//! The audit chain: what a line of an audit file is, and whether files still say what was written.
//!
//! A file holds one JSON object a line, each written in exactly one way. Its first line says which node's file it is and
//! which in order; every other line is an Entry under the number of its commit. Each line carries the hash of the line
//! before it, over the end of one file into the next, so that a line cannot be changed, moved or taken out alone.
//! Whoever rewrites everything after it is found by a [`Checkpoint`], which is signed and kept elsewhere.
//!
//! Nothing here opens a file: what is read comes in as a reader.

mod checkpoint;
mod flaw;
mod hash;
mod line;
mod numbers;
mod read;
mod tail;
mod verify;

pub use checkpoint::{Checkpoint, PublicKey, Statement};
pub use flaw::{Flaw, Place, What};
pub use hash::Hash;
pub use line::{Body, FORMAT, Header, Highest, Line, LineFault, Text, read_line};
pub use numbers::Numbers;
pub use read::{LONGEST_LINE, Lines, Raw};
pub use tail::{Scanned, Stop, scan};
pub use verify::{CheckpointLine, Known, Report, Source, verify};

#[cfg(test)]
mod tests;
