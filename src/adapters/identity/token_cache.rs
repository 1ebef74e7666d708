//! A cache of verified tokens, by digest, until they expire or any key changes.
//!
//! Its memory is bounded: where it is full, a new token takes the place of the one that was used longest ago.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use ring::digest::{SHA256, digest};

use crate::base::secret::Secret;
use crate::stations::admit::VerifiedToken;

/// The number of shards, so that threads rarely wait for each other.
const SHARDS: usize = 16;
/// The most tokens in a shard: 65,536 in all, of about 500 bytes each.
const MAX_TOKENS: usize = 4096;

type TokenShard = LruCache<[u8; 32], RememberedToken>;

#[derive(Debug)]
pub(super) struct RememberedTokens {
    shards: [Mutex<TokenShard>; SHARDS],
}

#[derive(Debug)]
struct RememberedToken {
    /// The generation of the keys that verified the token.
    generation: u64,
    believed: Arc<VerifiedToken>,
}

impl Default for RememberedTokens {
    fn default() -> RememberedTokens {
        // An unbounded one reserves no memory; `keep` bounds it.
        RememberedTokens { shards: std::array::from_fn(|_| Mutex::new(LruCache::unbounded())) }
    }
}

impl RememberedTokens {
    pub(super) fn find(&self, token: &Secret, generation: u64, now_secs: i64) -> Option<Arc<VerifiedToken>> {
        let key = key(token)?;
        let mut shard = self.shard(key)?;
        let entry = shard.get(&key)?;
        let holds = entry.generation == generation && now_secs < entry.believed.until_secs;
        holds.then(|| entry.believed.clone())
    }

    pub(super) fn keep(&self, token: &Secret, generation: u64, believed: Arc<VerifiedToken>) {
        let Some(key) = key(token) else { return };
        let Some(mut shard) = self.shard(key) else { return };
        shard.put(key, RememberedToken { generation, believed });
        if shard.len() > MAX_TOKENS {
            shard.pop_lru();
        }
    }

    fn shard(&self, key: [u8; 32]) -> Option<MutexGuard<'_, TokenShard>> {
        let [first, ..] = key;
        let shard = self.shards.get(usize::from(first) % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the digest of a token; `None` rather than a key that tokens could share.
fn key(token: &Secret) -> Option<[u8; 32]> {
    digest(&SHA256, token.reveal().as_bytes()).as_ref().first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_forgets_the_token_that_was_used_longest_ago() {
        let (remembered, believed) = (RememberedTokens::default(), Arc::new(VerifiedToken::of_anyone()));
        let token = |at: usize| Secret::new(format!("token {at}"));
        let is_known = |at: usize| remembered.find(&token(at), 0, 0).is_some();
        let all = MAX_TOKENS * SHARDS;
        for at in 0..2 * all {
            remembered.keep(&token(at), 0, believed.clone());
            assert!(is_known(0), "{at}");
        }
        let kept: usize = remembered.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert_eq!(kept, all);
        assert!(!is_known(1));
        // A full shard keeps nearly all of its own.
        let last = (2 * all - all / 2..2 * all).filter(|at| is_known(*at)).count();
        assert!(last > all / 2 - all / 100, "{last}");
        assert!(remembered.find(&token(0), 1, 0).is_none());
    }
}
