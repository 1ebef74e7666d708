//! Files that tell whether a seal key is the one that sealed before: one beside the store, one beside the journal.
//!
//! Each has a check value of every key by its id: a MAC with a key that is derived for it alone, which tells nothing of the key.
//! Another secret under the id of a key opens nothing of what is sealed there. Without the check, that looks like a store that
//! somebody changed and a journal that nobody can repeat, so that the gate forgets what it paid.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ring::hmac;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::redis::RedisStore;
use super::sealed::Seals;
use super::sealing_key::SealingKey;
use crate::adapters::audit::seal_keys_file;
use crate::adapters::regular_file::read_regular;
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::base::json;
use crate::config::{Config, StoreKind};
use crate::ledger::NodeId;

const FORMAT: u64 = 1;
/// The file in the folder of an embedded store.
const FILE: &str = "store.seal-keys";
/// The purpose for which the key of the MAC is derived; no record has it as its place.
const PURPOSE: &str = "check";

/// Why the keys are not those of a store or a journal.
#[derive(Debug, Error)]
pub enum SealCheckError {
    #[error(
        "the key with the id `{id}` is another one than the key of that id which sealed the store and the journal, says `{}`; \
         nothing was changed: put the right secret back; a new secret gets a new id, as the guide `rotate.md` says", .path.display()
    )]
    OtherKey { id: String, path: PathBuf },
    #[error(
        "the key with the id `{id}` is another one than that of `{node}`, a gate on the same Redis, or somebody changed there what that \
         gate says of itself; nothing was changed: give this gate the same secret; a new secret gets a new id, as the guide `rotate.md` \
         says"
    )]
    OtherThanGate { id: String, node: NodeId },
    #[error("`{path}` cannot be read: {error}", path = .path.display())]
    File { path: PathBuf, error: io::Error },
}

/// The check value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckedKey {
    id: String,
    check: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckedKeys {
    keys: Vec<CheckedKey>,
}

/// The keys of a gate, and the files that tell which ones sealed before.
#[derive(Clone, Debug)]
pub struct SealCheck {
    seals: Seals,
    files: Vec<PathBuf>,
}

impl SealCheck {
    pub fn of(config: &Config, seals: &Seals) -> SealCheck {
        let beside_journal = seal_keys_file(&config.audit.folder, &config.store.node);
        let is_embedded = config.store.kind == StoreKind::Embedded;
        let beside_store = is_embedded.then(|| config.store.folder.join(FILE));
        SealCheck { seals: seals.clone(), files: beside_store.into_iter().chain([beside_journal]).collect() }
    }

    /// Fails where one of the keys is another one than that of its id.
    pub fn compare(&self) -> Result<(), SealCheckError> {
        for path in &self.files {
            let known = known_keys(path).map_err(|error| SealCheckError::File { path: path.clone(), error })?;
            for key in &self.seals.keys {
                let is_other =
                    known.keys.iter().any(|one| one.id == key.id && Some(&one.check) != key.check().as_ref());
                if is_other {
                    return Err(SealCheckError::OtherKey { id: key.id.clone(), path: path.clone() });
                }
            }
        }
        Ok(())
    }

    /// Fails where no gate on a Redis states facts that these keys open, and one states some under the id of one of them. A gate whose
    /// keys sealed before knows them to be right.
    pub async fn compare_with(&self, redis: &RedisStore) -> Result<(), SealCheckError> {
        let is_known = self.files.iter().any(|path| {
            let known = known_keys(path).unwrap_or_default();
            !known.keys.is_empty() && self.seals.keys.iter().all(|key| known.keys.iter().any(|one| one.id == key.id))
        });
        if is_known || self.seals.keys.is_empty() {
            return Ok(());
        }
        for environment in Environment::ALL {
            // A store that cannot be asked now is told by whoever joins it.
            if let Ok(Some((node, id))) = redis.sealed_otherwise(environment).await {
                return Err(SealCheckError::OtherThanGate { id, node });
            }
        }
        Ok(())
    }

    /// Keeps the check values of keys that are not there yet, once the store could be used with them.
    pub fn keep(&self) {
        for path in &self.files {
            if let Err(error) = self.add(path) {
                tracing::warn!(file = %path.display(), %error, "which seal keys are in use cannot be noted");
            }
        }
    }

    fn add(&self, path: &Path) -> io::Result<()> {
        let mut known = known_keys(path)?;
        let before = known.keys.len();
        for key in &self.seals.keys {
            if known.keys.iter().all(|one| one.id != key.id) {
                let check = key.check().ok_or_else(|| io::Error::other("the check value could not be made"))?;
                known.keys.push(CheckedKey { id: key.id.clone(), check });
            }
        }
        if known.keys.len() == before {
            return Ok(());
        }
        let new = path.with_extension("seal-keys-new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(json::to_record(&known, FORMAT).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

/// Reads a file of check values. One that is damaged counts as none, for it stands for nothing else, and is written anew.
fn known_keys(path: &Path) -> io::Result<CheckedKeys> {
    match read_regular(path) {
        Ok(text) => Ok(json::from_record(&text, FORMAT).unwrap_or_else(|_| {
            tracing::warn!(file = %path.display(), "the check values of seal keys cannot be read");
            CheckedKeys::default()
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(CheckedKeys::default()),
        Err(error) => Err(error),
    }
}

impl SealingKey {
    /// Returns the value by which this key is known again.
    fn check(&self) -> Option<String> {
        let purpose = [PURPOSE.as_bytes()];
        let key = self.root.expand(&purpose, hmac::HMAC_SHA256).map(hmac::Key::from).ok()?;
        Some(hex(hmac::sign(&key, self.id.as_bytes()).as_ref()))
    }
}
