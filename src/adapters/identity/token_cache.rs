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
/// The most tokens in a shard: 65,536 in all.
const MAX_TOKENS: usize = 4096;
/// The most bytes of a shard: 500 for each token, of which it takes some itself. Long lists of roles leave room for fewer.
const MAX_BYTES: usize = MAX_TOKENS * 500;
const BYTES_A_TOKEN: usize = 400;

#[derive(Debug)]
struct TokenShard {
    tokens: LruCache<[u8; 32], RememberedToken>,
    /// What `tokens` take.
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct RememberedTokens {
    shards: [Mutex<TokenShard>; SHARDS],
}

#[derive(Debug)]
struct RememberedToken {
    /// The generation of the keys that verified the token.
    generation: u64,
    believed: Arc<VerifiedToken>,
    bytes: usize,
}

impl Default for RememberedTokens {
    fn default() -> RememberedTokens {
        // An unbounded one reserves no memory; `keep` bounds it.
        let empty = || TokenShard { tokens: LruCache::unbounded(), bytes: 0 };
        RememberedTokens { shards: std::array::from_fn(|_| Mutex::new(empty())) }
    }
}

impl RememberedTokens {
    pub(super) fn find(&self, token: &Secret, generation: u64, now_secs: i64) -> Option<Arc<VerifiedToken>> {
        let key = key(token)?;
        let mut shard = self.shard(key)?;
        let entry = shard.tokens.get(&key)?;
        let holds = entry.generation == generation && now_secs < entry.believed.until_secs;
        holds.then(|| entry.believed.clone())
    }

    pub(super) fn keep(&self, token: &Secret, generation: u64, believed: Arc<VerifiedToken>) {
        let Some(key) = key(token) else { return };
        let bytes = believed.kept_bytes().saturating_add(BYTES_A_TOKEN);
        let Some(mut shard) = self.shard(key) else { return };
        shard.put(key, RememberedToken { generation, believed, bytes });
    }

    fn shard(&self, key: [u8; 32]) -> Option<MutexGuard<'_, TokenShard>> {
        let [first, ..] = key;
        let shard = self.shards.get(usize::from(first) % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TokenShard {
    fn put(&mut self, key: [u8; 32], token: RememberedToken) {
        self.bytes = self.bytes.saturating_add(token.bytes);
        if let Some(before) = self.tokens.put(key, token) {
            self.bytes = self.bytes.saturating_sub(before.bytes);
        }
        while self.tokens.len() > MAX_TOKENS || self.bytes > MAX_BYTES {
            let Some((_, forgotten)) = self.tokens.pop_lru() else { return };
            self.bytes = self.bytes.saturating_sub(forgotten.bytes);
        }
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
        let kept: usize = remembered.shards.iter().map(|shard| shard.lock().unwrap().tokens.len()).sum();
        assert_eq!(kept, all);
        assert!(!is_known(1));
        // A full shard keeps nearly all of its own.
        let last = (2 * all - all / 2..2 * all).filter(|at| is_known(*at)).count();
        assert!(last > all / 2 - all / 100, "{last}");
        assert!(remembered.find(&token(0), 1, 0).is_none());
    }

    #[test]
    fn tokens_of_many_roles_take_no_more_memory_than_others() {
        let remembered = RememberedTokens::default();
        let (of_many_roles, plain) =
            (Arc::new(VerifiedToken::of_anyone_with_roles(880)), Arc::new(VerifiedToken::of_anyone()));
        assert!(of_many_roles.kept_bytes() > 30_000, "{}", of_many_roles.kept_bytes());
        let bytes = || remembered.shards.iter().map(|shard| shard.lock().unwrap().bytes).sum::<usize>();
        for at in 0..4_000 {
            remembered.keep(&Secret::new(format!("token {at}")), 0, of_many_roles.clone());
        }
        assert!((1 << 20..=MAX_BYTES * SHARDS).contains(&bytes()), "{}", bytes());
        assert!(remembered.find(&Secret::new("token 3999".to_owned()), 0, 0).is_some(), "the newest is kept");
        // What is forgotten is given back, and a token that comes again counts once.
        for at in 0..2 * MAX_TOKENS * SHARDS {
            remembered.keep(&Secret::new(format!("plain {at}")), 0, plain.clone());
            remembered.keep(&Secret::new("plain 0".to_owned()), 0, plain.clone());
        }
        let weight = plain.kept_bytes() + BYTES_A_TOKEN;
        let kept: usize = remembered.shards.iter().map(|shard| shard.lock().unwrap().tokens.len()).sum();
        assert_eq!((kept, bytes()), (MAX_TOKENS * SHARDS, MAX_TOKENS * SHARDS * weight));
    }
}
