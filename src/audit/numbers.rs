//! Sets of numbers with few gaps, at most one bit a number, so that years of entries fit into memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The numbers of a chunk.
const CHUNK: u64 = 1 << 16;
/// A chunk with more is kept as bits, which are smaller then.
const MAX_LISTED: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(BTreeMap<u64, Chunk>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunk {
    /// A sorted list.
    Few(Vec<u16>),
    Many(Box<Bits>),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits {
    count: u64,
    words: Vec<u64>,
}

impl Numbers {
    /// Returns whether the number is new.
    pub fn insert(&mut self, number: u64) -> bool {
        let (chunk, low) = split(number);
        self.0.entry(chunk).or_insert_with(|| Chunk::Few(Vec::new())).insert(low)
    }

    pub fn contains(&self, number: u64) -> bool {
        let (chunk, low) = split(number);
        self.0.get(&chunk).is_some_and(|chunk| chunk.contains(low))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The gaps from 1 to the highest of the set.
    pub fn gaps(&self) -> Vec<RangeInclusive<u64>> {
        let mut gaps = Vec::new();
        let mut expected: u64 = 1;
        let mut meet = |first: u64, end: u64| {
            if first > expected {
                gaps.push(expected..=first.saturating_sub(1));
            }
            expected = expected.max(end.saturating_add(1));
        };
        for (chunk, held) in &self.0 {
            let base = chunk.saturating_mul(CHUNK);
            match held {
                Chunk::All => meet(base, base.saturating_add(CHUNK - 1)),
                Chunk::Few(few) => few.iter().map(|low| base.saturating_add(u64::from(*low))).for_each(|n| meet(n, n)),
                Chunk::Many(_) => {
                    let lows = (0..=u16::MAX).filter(|low| held.contains(*low));
                    lows.map(|low| base.saturating_add(u64::from(low))).for_each(|n| meet(n, n));
                }
            }
        }
        gaps
    }
}

impl Chunk {
    fn insert(&mut self, low: u16) -> bool {
        let is_new = match self {
            Chunk::All => false,
            Chunk::Few(few) => match few.binary_search(&low) {
                Ok(_) => false,
                Err(at) => {
                    few.insert(at, low);
                    true
                }
            },
            Chunk::Many(bits) => bits.insert(low),
        };
        match self {
            Chunk::Few(few) if few.len() > MAX_LISTED => {
                let mut bits = Bits { count: 0, words: vec![0; 1024] };
                for low in few {
                    bits.insert(*low);
                }
                *self = Chunk::Many(Box::new(bits));
            }
            Chunk::Many(bits) if bits.count == CHUNK => *self = Chunk::All,
            _ => {}
        }
        is_new
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Chunk::All => true,
            Chunk::Few(few) => few.binary_search(&low).is_ok(),
            Chunk::Many(bits) => bits.words.get(usize::from(low >> 6)).is_some_and(|word| word & bit(low) != 0),
        }
    }
}

impl Bits {
    fn insert(&mut self, low: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(low >> 6)) else { return false };
        let is_new = *word & bit(low) == 0;
        *word |= bit(low);
        self.count = self.count.saturating_add(u64::from(is_new));
        is_new
    }
}

fn bit(low: u16) -> u64 {
    1 << (low & 63)
}

fn split(number: u64) -> (u64, u16) {
    (number / CHUNK, u16::try_from(number % CHUNK).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the numbers one by one.
    fn missing(set: &BTreeSet<u64>) -> Vec<u64> {
        let last = set.last().copied().unwrap_or(0);
        (1..=last).filter(|n| !set.contains(n)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn it_is_a_set_and_knows_its_gaps(numbers in prop::collection::vec(1_u64..70_000, 0..40),
                                          runs in prop::collection::vec((1_u64..70_000, 0_u64..9000), 0..4)) {
            let (mut set, mut naive) = (Numbers::default(), BTreeSet::new());
            for number in runs.into_iter().flat_map(|(first, count)| first..first + count).chain(numbers) {
                prop_assert_eq!(set.insert(number), naive.insert(number));
            }
            prop_assert_eq!(set.gaps().into_iter().flatten().collect::<Vec<_>>(), missing(&naive));
            prop_assert!((1..70_000).step_by(7).all(|n| set.contains(n) == naive.contains(&n)));
        }
    }

    #[test]
    fn a_full_chunk_and_the_highest_number_are_cheap() {
        let mut numbers = Numbers::default();
        assert!((1..CHUNK * 2).all(|number| numbers.insert(number)));
        assert!(numbers.0.values().skip(1).all(|chunk| *chunk == Chunk::All));
        assert!(!numbers.insert(CHUNK) && numbers.insert(u64::MAX));
        assert_eq!(numbers.gaps(), [CHUNK * 2..=u64::MAX - 1]);
    }
}
