//! Tokens that were believed already: by digest, until they expire or any key changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};

use crate::base::secret::Secret;
use crate::stations::admit::Believed;

/// Shards, so that threads seldom wait for each other.
const SHARDS: usize = 16;
/// The most tokens of a shard; a full shard is emptied.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Remembered {
    shards: [Mutex<HashMap<[u8; 32], Entry>>; SHARDS],
}

#[derive(Debug)]
struct Entry {
    /// Of the keys by which the token was believed.
    generation: u64,
    believed: Arc<Believed>,
}

impl Remembered {
    pub(super) fn find(&self, token: &Secret, generation: u64, now_secs: i64) -> Option<Arc<Believed>> {
        let key = key(token)?;
        let shard = self.shard(key)?;
        let entry = shard.get(&key)?;
        let holds = entry.generation == generation && now_secs < entry.believed.until_secs;
        holds.then(|| entry.believed.clone())
    }

    pub(super) fn keep(&self, token: &Secret, generation: u64, believed: Arc<Believed>) {
        let Some(key) = key(token) else { return };
        let Some(mut shard) = self.shard(key) else { return };
        if shard.len() >= MOST {
            shard.clear();
        }
        shard.insert(key, Entry { generation, believed });
    }

    fn shard(&self, key: [u8; 32]) -> Option<MutexGuard<'_, HashMap<[u8; 32], Entry>>> {
        let [first, ..] = key;
        let shard = self.shards.get(usize::from(first) % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Nothing rather than a key that tokens could share.
fn key(token: &Secret) -> Option<[u8; 32]> {
    digest(&SHA256, token.reveal().as_bytes()).as_ref().first_chunk().copied()
}
