//! Which keys a table may have, in a bounded memory: what it does not know is certainly not in the table.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;

/// How many blocks there are: 16 MiB.
const BLOCKS: u64 = 1 << 18;
/// The bits of a block, which lie beside each other in memory.
const BLOCK_BITS: u64 = 512;
/// How many bits of its block a key sets.
const BITS: usize = 5;

/// A Bloom filter. Some millions of keys are told apart well.
pub(super) struct KeyFilter {
    words: Vec<u64>,
    hasher: RandomState,
}

impl KeyFilter {
    pub fn new() -> KeyFilter {
        let words = usize::try_from(BLOCKS.saturating_mul(BLOCK_BITS / 64)).unwrap_or(0);
        KeyFilter { words: vec![0; words], hasher: RandomState::default() }
    }

    pub fn add(&mut self, key: &[u8]) {
        for (at, bit) in self.bits(key) {
            if let Some(word) = self.words.get_mut(at) {
                *word |= bit;
            }
        }
    }

    /// Whether the key may have been added; false says that it was not.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.bits(key).iter().all(|(at, bit)| self.words.get(*at).is_none_or(|word| word & bit != 0))
    }

    /// Returns the words of a key's bits, and each bit in its word.
    fn bits(&self, key: &[u8]) -> [(usize, u64); BITS] {
        let hash = self.hasher.hash_one(key);
        // The lower bits choose the block, the upper ones the bits in it.
        let first = (hash % BLOCKS).saturating_mul(BLOCK_BITS);
        let mut rest = hash / BLOCKS;
        [(); BITS].map(|()| {
            let bit = first.saturating_add(rest % BLOCK_BITS);
            rest /= BLOCK_BITS;
            (usize::try_from(bit / 64).unwrap_or(usize::MAX), 1 << (bit % 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_every_key_and_few_others() {
        let mut filter = KeyFilter::new();
        let key = |nth: u32| nth.to_be_bytes();
        (0..50_000).for_each(|nth| filter.add(&key(nth)));
        assert!((0..50_000).all(|nth| filter.may_have(&key(nth))));
        let others = (50_000..100_000).filter(|nth| filter.may_have(&key(*nth))).count();
        assert!(others < 500, "{others}");
        assert!(!KeyFilter::new().may_have(b""));
    }
}
