//! Chance that a seed repeats.

use std::sync::Mutex;

/// Numbers that follow from a seed.
#[derive(Debug)]
pub struct Dice(Mutex<u64>);

impl Dice {
    pub fn of(seed: u64) -> Dice {
        Dice(Mutex::new(seed))
    }

    pub fn below(&self, bound: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
