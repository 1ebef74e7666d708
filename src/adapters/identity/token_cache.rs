//! A cache of verified tokens, by digest, until they expire or any key changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, digest};

use crate::base::secret::Secret;
use crate::stations::admit::VerifiedToken;

/// The number of shards, so that threads rarely wait for each other.
const SHARDS: usize = 16;
/// The most tokens in a shard; a full shard is emptied.
const MAX_TOKENS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct RememberedTokens {
    shards: [Mutex<HashMap<[u8; 32], RememberedToken>>; SHARDS],
}

#[derive(Debug)]
struct RememberedToken {
    /// The generation of the keys that verified the token.
    generation: u64,
    believed: Arc<VerifiedToken>,
}

impl RememberedTokens {
    pub(super) fn find(&self, token: &Secret, generation: u64, now_secs: i64) -> Option<Arc<VerifiedToken>> {
        let key = key(token)?;
        let shard = self.shard(key)?;
        let entry = shard.get(&key)?;
        let holds = entry.generation == generation && now_secs < entry.believed.until_secs;
        holds.then(|| entry.believed.clone())
    }

    pub(super) fn keep(&self, token: &Secret, generation: u64, believed: Arc<VerifiedToken>) {
        let Some(key) = key(token) else { return };
        let Some(mut shard) = self.shard(key) else { return };
        if shard.len() >= MAX_TOKENS {
            shard.clear();
        }
        shard.insert(key, RememberedToken { generation, believed });
    }

    fn shard(&self, key: [u8; 32]) -> Option<MutexGuard<'_, HashMap<[u8; 32], RememberedToken>>> {
        let [first, ..] = key;
        let shard = self.shards.get(usize::from(first) % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the digest of a token; `None` rather than a key that tokens could share.
fn key(token: &Secret) -> Option<[u8; 32]> {
    digest(&SHA256, token.reveal().as_bytes()).as_ref().first_chunk().copied()
}
