//! A checkpoint as a gate keeps it beside its files: with the place in the files up to which it goes, for the next start.

use serde::{Deserialize, Serialize};

use super::checkpoint::Checkpoint;
use super::hash::Hash;
use super::line::{LineFault, parse_time, time};
use crate::base::json::{self, FormError, Limits};
use crate::ledger::StoreTime;

/// How far a file went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileExtent {
    pub sequence: u64,
    /// Lines of the file, its header among them.
    pub lines: u64,
    /// Their bytes.
    pub length: u64,
    /// The hash of the last of them.
    pub hash: Hash,
    pub at: StoreTime,
}

/// A checkpoint, and where it ends in the files. What others keep of it has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCheckpoint {
    pub checkpoint: Checkpoint,
    pub place: Option<CheckpointPlace>,
}

/// The lines that a checkpoint covers: from the first of a file on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPlace {
    /// The file with the first line of the log.
    pub begins: u64,
    pub end: FileExtent,
}

/// A line with a checkpoint; a line of the gate's log has other members beside.
#[derive(Debug, Serialize, Deserialize)]
struct CheckpointRecord {
    checkpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceRecord {
    at: String,
    begins: u64,
    hash: Hash,
    length: u64,
    lines: u64,
    sequence: u64,
}

impl KeptCheckpoint {
    /// Writes the line without its end.
    pub fn to_line(&self) -> Result<String, LineFault> {
        let place = self.place.as_ref().map(|CheckpointPlace { begins, end }| {
            let FileExtent { sequence, lines, length, hash, at } = *end;
            Ok(PlaceRecord { at: time(at)?, begins: *begins, hash, length, lines, sequence })
        });
        let record = CheckpointRecord { checkpoint: self.checkpoint.note.to_string(), place: place.transpose()? };
        Ok(json::to_form(&record))
    }

    /// Reads a line: of a file of checkpoints, of what a witness lists, or of the gate's log.
    pub fn read(bytes: &[u8]) -> Result<KeptCheckpoint, LineFault> {
        let record: CheckpointRecord = json::from_slice(bytes, Limits::ANSWER).map_err(|fault| match fault {
            FormError::Json(error) => LineFault::Json(error),
            fault => LineFault::Checkpoint(fault),
        })?;
        let place = record.place.map(|PlaceRecord { at, begins, hash, length, lines, sequence }| {
            let end = FileExtent { sequence, lines, length, hash, at: parse_time(&at)? };
            Ok(CheckpointPlace { begins, end })
        });
        Ok(KeptCheckpoint { checkpoint: Checkpoint::of_note(&record.checkpoint)?, place: place.transpose()? })
    }

    /// Whether a line that is not a checkpoint was meant to be one.
    pub fn is_meant(bytes: &[u8]) -> bool {
        const MEMBER: &[u8] = b"\"checkpoint\":";
        bytes.windows(MEMBER.len()).any(|part| part == MEMBER)
    }
}
