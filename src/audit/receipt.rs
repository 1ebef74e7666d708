//! Receipts: entries of a journal, and the proof that the journal has them.
//!
//! A receipt tells nothing of other entries, and needs nothing else of the journal: the signed checkpoint has the root of the
//! tree, and each line its path to that root.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::checkpoint::{Checkpoint, parse_root};
use super::hash::Hash;
use super::line::{LineBody, read_line};
use super::note::Note;
use super::salts::{Salts, salted};
use super::tree::{Tiles, inclusion_proof, is_included, leaf_hash};
use crate::base::json::{self, FormError};
use crate::ledger::Outstanding;

const FORMAT: u64 = 1;

/// Entries, and the proof that a journal has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvedEntries {
    checkpoint: String,
    lines: Vec<ProvedLine>,
}

/// A line of a journal, and its path to the root of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvedLine {
    index: u64,
    line: String,
    /// Hashes in Base64, from the leaf on.
    path: Vec<String>,
    /// 64 hexadecimal digits.
    salt: Hash,
}

/// A line that was found, before it is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// The number of lines before it in the tree.
    pub index: u64,
    /// Without its end.
    pub line: String,
}

impl ProvedEntries {
    /// Proves lines by the checkpoint of this size; `None` where the tree has others in their places.
    pub fn prove(
        (size, note): (u64, &Note),
        lines: Vec<FoundLine>,
        tiles: &dyn Tiles,
        salts: &Salts,
    ) -> io::Result<Option<ProvedEntries>> {
        let lines = lines.into_iter().map(|FoundLine { index, line }| {
            let path = inclusion_proof(tiles, size, index)?;
            let path = path.iter().map(|hash| STANDARD.encode(hash.as_bytes())).collect();
            Ok(ProvedLine { index, line, path, salt: Hash::of_bytes(salts.salt(index)) })
        });
        let lines = lines.collect::<io::Result<_>>()?;
        let receipt = ProvedEntries { checkpoint: note.to_string(), lines };
        Ok(receipt.proved().is_some().then_some(receipt))
    }

    /// Writes the receipt, without an end.
    pub fn to_text(&self) -> String {
        json::to_record(self, FORMAT)
    }

    pub fn read(text: &[u8]) -> Result<ProvedEntries, FormError> {
        json::from_record(text, FORMAT)
    }

    /// Returns the checkpoint and the entries, if the entries are under the checkpoint. Whoever asks must check who signed it.
    pub fn proved(&self) -> Option<(Checkpoint, Vec<Outstanding>)> {
        let checkpoint = Checkpoint::of_note(&self.checkpoint).ok()?;
        let entries = self.lines.iter().map(|ProvedLine { index, line, path, salt }| {
            let line = read_line(line.as_bytes()).ok()?;
            let path: Vec<Hash> = path.iter().map(|hash| parse_root(hash)).collect::<Option<_>>()?;
            let leaf = leaf_hash(&salted(salt.as_bytes(), line.hash));
            let LineBody::Entry(entry) = line.body else { return None };
            is_included(leaf, *index, checkpoint.size, checkpoint.root, &path).then_some(entry)
        });
        let entries = entries.collect::<Option<Vec<_>>>()?;
        (!entries.is_empty()).then_some((checkpoint, entries))
    }
}
