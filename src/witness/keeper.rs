//! The memory of a witness: the last checkpoint of each log that it signed, in one file each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

use crate::adapters::audit::SigningKey;
use crate::audit::{
    Checkpoint, CheckpointKey, Hash, Note, NoteKey, NoteKeyKind, NoteVerdict, Origin, WitnessAnswer, WitnessRequest,
    is_consistent,
};
use crate::base::digest::hex;
use crate::ports::Clock;

/// Why a witness cannot start.
#[derive(Debug, Error)]
pub enum WitnessError {
    #[error(
        "`{0}` cannot be the name of a witness: use up to 256 characters without spaces and `+`, such as `witness.example.com`"
    )]
    Name(String),
    #[error("another witness uses `{path}`: give each a folder of its own", path = .0.display())]
    Busy(PathBuf),
    #[error(
        "`{path}` is not a checkpoint that this witness signed: {1}; use the key and the name that the folder was made with. If the \
         folder is damaged, make a witness with a new name and an empty folder: a copy could have forgotten what was signed",
        path = .0.display()
    )]
    Damaged(PathBuf, &'static str),
    #[error("`{path}`: {1}", path = .0.display())]
    File(PathBuf, io::Error),
}

/// The most logs that a witness remembers.
const MOST_LOGS: usize = 10_000;

/// A witness.
#[derive(Debug)]
pub struct Witness {
    key: NoteKey,
    signing: SigningKey,
    /// The keys of the logs whose checkpoints it signs.
    logs: Vec<CheckpointKey>,
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    signed: Mutex<BTreeMap<Origin, Checkpoint>>,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl Witness {
    /// Opens a folder, which is made if it is not there.
    pub fn open(
        name: &str,
        signing: SigningKey,
        logs: Vec<CheckpointKey>,
        folder: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Witness, WitnessError> {
        let key = signing.named(name, NoteKeyKind::Witness).ok_or_else(|| WitnessError::Name(name.to_owned()))?;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| WitnessError::File(path, error)
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let lock_path = folder.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        lock.try_lock().map_err(|_| WitnessError::Busy(folder.to_owned()))?;
        let mut signed = BTreeMap::new();
        for found in fs::read_dir(folder).map_err(failed(folder))? {
            let path = found.map_err(failed(folder))?.path();
            if path.extension().is_none_or(|extension| extension != "checkpoint") {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            let Ok(checkpoint) = Checkpoint::of_note(&text) else {
                return Err(WitnessError::Damaged(path, "it cannot be read"));
            };
            if !matches!(checkpoint.note.verdict(&key), NoteVerdict::Signed { .. }) {
                return Err(WitnessError::Damaged(path, "it lacks the signature of this key and name"));
            }
            if path != file_of(folder, &checkpoint.origin) {
                return Err(WitnessError::Damaged(path, "it has the name of another log"));
            }
            signed.insert(checkpoint.origin.clone(), checkpoint);
        }
        let signed = Mutex::new(signed);
        Ok(Witness { key, signing, logs, folder: folder.to_owned(), clock, signed, _lock: lock })
    }

    /// Returns the key that people give to gates and auditors.
    pub fn key(&self) -> &NoteKey {
        &self.key
    }

    /// Returns the last checkpoint of the log whose name has this digest.
    pub fn signed_by_digest(&self, digest: &str) -> Option<Checkpoint> {
        let is_it = |one: &Checkpoint| Hash::of(&[one.origin.to_string().as_bytes()]).to_string() == digest;
        self.signed().into_iter().find(is_it)
    }

    /// Returns the last checkpoint of each log.
    pub fn signed(&self) -> Vec<Checkpoint> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Signs a checkpoint that has all lines of the last one. It is remembered before anybody gets the signature.
    pub fn add(&self, request: &str) -> WitnessAnswer {
        let Some(WitnessRequest { old, proof, note }) = WitnessRequest::parse(request) else {
            return WitnessAnswer::Unreadable("the request is not one of `add-checkpoint`");
        };
        if Note::parse(&note).is_none() {
            return WitnessAnswer::Unreadable("the checkpoint is not a signed note");
        }
        if note.split('\n').next().and_then(Origin::parse).is_none() {
            return WitnessAnswer::UnknownLog;
        }
        let Ok(mut checkpoint) = Checkpoint::of_note(&note) else {
            return WitnessAnswer::Unreadable("the note is not a checkpoint");
        };
        let name = checkpoint.origin.to_string();
        let keys = self.logs.iter().filter_map(|key| key.as_note_key(&name, NoteKeyKind::Log));
        let verdicts: Vec<(NoteKey, NoteVerdict)> =
            keys.map(|key| (key.clone(), checkpoint.note.verdict(&key))).collect();
        if verdicts.iter().any(|(_, verdict)| *verdict == NoteVerdict::Wrong) {
            return WitnessAnswer::Unsigned;
        }
        let signers = verdicts.into_iter().filter(|(_, verdict)| matches!(verdict, NoteVerdict::Signed { .. }));
        let signers: Vec<NoteKey> = signers.map(|(key, _)| key).collect();
        if old > checkpoint.size {
            return WitnessAnswer::Unreadable("the old size is larger than the checkpoint's");
        }
        // Nobody else compares or writes meanwhile.
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = signed.get(&checkpoint.origin);
        match before {
            None if signers.is_empty() => return WitnessAnswer::UnknownLog,
            None if signed.len() >= MOST_LOGS => {
                tracing::error!(
                    logs = signed.len(),
                    "the witness takes no more logs: remove files of former ones from its folder"
                );
                return WitnessAnswer::Failed;
            }
            Some(before) if !self.may_sign(&signers, before) => return WitnessAnswer::Unsigned,
            _ => {}
        }
        let last = signed.get(&checkpoint.origin).map_or((0, Hash::of(&[])), |last| (last.size, last.root));
        if old != last.0 {
            return WitnessAnswer::OtherSize(last.0);
        }
        if !is_consistent(last, (checkpoint.size, checkpoint.root), &proof)
            || (checkpoint.size == 0 && checkpoint.root != Hash::of(&[]))
        {
            tracing::error!(
                log = %checkpoint.origin,
                signed = last.0,
                size = checkpoint.size,
                "a log lacks lines that this witness has signed: it was rewritten, or set back"
            );
            return WitnessAnswer::Inconsistent;
        }
        let at = u64::try_from(self.clock.now().as_second()).unwrap_or_default();
        let signature = self.signing.sign(&self.key, &checkpoint.note.text, at);
        let line = signature.to_string();
        // Signatures that nobody verified would be believed, or make the note too long.
        let own = signers.iter().filter_map(|key| checkpoint.note.signatures.iter().find(|own| key.made(own)).cloned());
        checkpoint.note.signatures = own.chain([signature]).collect();
        if let Err(error) = self.remember(&checkpoint) {
            tracing::error!(folder = %self.folder.display(), %error, "the witness cannot write its folder, and signs nothing");
            return WitnessAnswer::Failed;
        }
        if !signed.contains_key(&checkpoint.origin) {
            tracing::info!(log = %checkpoint.origin, size = checkpoint.size, "the witness signs a log for the first time");
        }
        signed.insert(checkpoint.origin.clone(), checkpoint);
        WitnessAnswer::Signed(line)
    }

    /// Whether one of these keys signed the last checkpoint of a log. If no key signed it that is known still, any may follow.
    fn may_sign(&self, signers: &[NoteKey], before: &Checkpoint) -> bool {
        let has_signed = |key: &NoteKey| matches!(before.note.verdict(key), NoteVerdict::Signed { .. });
        let name = before.origin.to_string();
        let mut known = self.logs.iter().filter_map(|key| key.as_note_key(&name, NoteKeyKind::Log));
        signers.iter().any(has_signed) || (!signers.is_empty() && !known.any(|key| has_signed(&key)))
    }

    fn remember(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        let path = file_of(&self.folder, &checkpoint.origin);
        let unfinished = path.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(checkpoint.note.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        File::open(&self.folder)?.sync_all()
    }
}

/// The file of a log: a digest of its name, which may be too long for a file.
fn file_of(folder: &Path, origin: &Origin) -> PathBuf {
    let digest = Hash::of(&[origin.to_string().as_bytes()]);
    folder.join(format!("{}.checkpoint", hex(digest.as_bytes().get(..16).unwrap_or_default())))
}

#[cfg(test)]
mod tests;
