//! Reads what proofs are checked with: checkpoints, and the keys that signed them.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;

use super::super::{read_named_file, read_named_text};
use crate::adapters::regular_file::open_regular;
use crate::audit::{CheckpointKey, CheckpointLine, FlawPlace, KeptCheckpoint, LineReader, NoteKey, NoteKeyKind};

/// Reads checkpoints. With `strict`, they lie beside the files, and every line must be one; otherwise other lines (of the
/// gate's log) are skipped.
pub(super) fn checkpoint_lines(path: &Path, strict: bool) -> anyhow::Result<Vec<CheckpointLine>> {
    let unreadable = || format!("`{}` cannot be read", path.display());
    let mut lines = LineReader::of(BufReader::new(open_regular(path).with_context(unreadable)?));
    let mut found = Vec::new();
    while let Some(raw) = lines.following().with_context(unreadable)? {
        let read = KeptCheckpoint::read(raw.bytes);
        // The last line may be incomplete: its process is writing it, or was killed while it did.
        let is_meant = read.is_ok() || (raw.is_whole && (strict || KeptCheckpoint::is_meant(raw.bytes)));
        if is_meant {
            let place =
                FlawPlace { file: Some(path.display().to_string()), line: Some(raw.line), offset: Some(raw.offset) };
            found.push(CheckpointLine { place, read, is_beside: strict });
        }
    }
    Ok(found)
}

/// Reads the public key of a journal.
pub(in crate::cli) fn read_checkpoint_key(path: &Path) -> anyhow::Result<CheckpointKey> {
    let pem = read_named_file(path)?;
    let key = CheckpointKey::of_pem(&pem);
    key.ok_or_else(|| anyhow!("`{}` is not a public key written by `sluice audit key`", path.display()))
}

/// Reads the keys of witnesses: the text itself, or a file with it. One key under two names would count twice.
pub(super) fn read_witness_keys(witnesses: &[String]) -> anyhow::Result<Vec<NoteKey>> {
    let mut keys: Vec<NoteKey> = Vec::new();
    for witness in witnesses {
        let key = read_witness_key(witness)?;
        if let Some(other) = keys.iter().find(|other| other.is_alike(&key)) {
            bail!("`{}` and `{}` are one witness: they have the same key", other.name(), key.name());
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Returns how many of these witnesses must have signed: all, where no number is given.
pub(super) fn witnesses_needed(number: Option<u8>, witnesses: &[NoteKey]) -> anyhow::Result<usize> {
    let needed = number.map_or(witnesses.len(), usize::from);
    if needed > witnesses.len() {
        bail!("`--witnessed {needed}` needs as many different `--witness-key`");
    }
    Ok(needed)
}

/// Reads the key of a witness: the text itself, or a file with it.
fn read_witness_key(witness: &str) -> anyhow::Result<NoteKey> {
    let text = match Path::new(witness).is_file() {
        true => read_named_text(Path::new(witness))?,
        false => witness.to_owned(),
    };
    let key = NoteKey::parse(text.trim()).filter(|key| key.kind() == NoteKeyKind::Witness);
    key.ok_or_else(|| {
        anyhow!("`{witness}` is neither the key of a witness nor a file with one; `sluice witness` prints its key")
    })
}

/// Seconds since 1970 as people write times.
pub(super) fn shown_time(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    at.map_or_else(|| format!("second {seconds}"), |at| at.to_string())
}
