//! Makes inputs from seeds, and keeps those that reach something new.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sluice::adapters::clock::Stopwatch;

use crate::counters;

/// A parser, and the property that it must have. It fails by a panic.
pub type Target = fn(&[u8]);

/// The longest input.
const MAX_BYTES: usize = 8 * 1024;
/// An input that takes longer is a failure: somebody could stop a gate with it.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Bytes at which parsers decide.
const INTERESTING: &[u8] = b"\0\t\n\r \"#%&'()*+,-./:;<=>?@[\\]^_`{|}~019afAFzZ\x7f\x80\xc3\xff";

#[derive(Debug)]
pub enum Outcome {
    Passed { runs: u64, kept: usize, edges: usize },
    Failed { input: Vec<u8>, why: String },
}

pub struct Engine {
    target: Target,
    kept: Vec<Vec<u8>>,
    /// Words of the seeds, to be put elsewhere.
    words: Vec<Vec<u8>>,
    /// For each counter, the sizes that were seen, as bits.
    seen: Vec<u8>,
    dice: Dice,
}

thread_local! {
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Engine {
    pub fn new(target: Target, seeds: Vec<Vec<u8>>, seed: u64) -> Engine {
        let words: HashSet<Vec<u8>> = seeds
            .iter()
            .flat_map(|text| text.split(|byte| !byte.is_ascii_alphanumeric()))
            .filter(|word| (2..=32).contains(&word.len()))
            .map(<[u8]>::to_vec)
            .collect();
        let mut words: Vec<Vec<u8>> = words.into_iter().collect();
        words.sort();
        Engine { target, kept: seeds, words, seen: vec![0; counters::count()], dice: Dice(seed) }
    }

    pub fn run(&mut self, time: Duration) -> Outcome {
        std::panic::set_hook(Box::new(|info| WHY.with_borrow_mut(|why| *why = info.to_string())));
        let began = Stopwatch::start();
        if self.kept.is_empty() {
            self.kept.push(Vec::new());
        }
        let mut runs = 0;
        for seed in self.kept.clone() {
            if let Err(why) = self.feed(&seed) {
                return Outcome::Failed { input: seed, why };
            }
            self.learn();
            runs += 1;
        }
        while began.elapsed() < time {
            for _ in 0..64 {
                let input = self.made();
                if let Err(why) = self.feed(&input) {
                    return Outcome::Failed { input, why };
                }
                if self.learn() {
                    self.kept.push(input);
                }
                runs += 1;
            }
        }
        let edges = self.seen.iter().filter(|sizes| **sizes != 0).count();
        Outcome::Passed { runs, kept: self.kept.len(), edges }
    }

    fn feed(&self, input: &[u8]) -> Result<(), String> {
        counters::with(|all| all.fill(0));
        let began = Stopwatch::start();
        let target = self.target;
        if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
            return Err(WHY.with_borrow(Clone::clone));
        }
        let took = began.elapsed();
        if took > MAX_TIME { Err(format!("it took {took:?}")) } else { Ok(()) }
    }

    /// Returns whether the last input reached an edge anew, or more often by an order of size.
    fn learn(&mut self) -> bool {
        counters::with(|all| {
            let mut is_new = false;
            for (count, seen) in all.iter().zip(&mut self.seen).filter(|(count, _)| **count != 0) {
                let size = 1 << count.ilog2().min(7);
                is_new |= *seen & size == 0;
                *seen |= size;
            }
            is_new
        })
    }

    /// Changes one of the kept inputs a few times; the newest are taken more often.
    fn made(&mut self) -> Vec<u8> {
        let recent = self.kept.len().saturating_sub(16);
        let at = if self.dice.below(2) == 0 {
            recent + self.dice.below(self.kept.len() - recent)
        } else {
            self.dice.below(self.kept.len())
        };
        let mut input = self.kept[at].clone();
        for _ in 0..=self.dice.below(4) {
            self.change(&mut input);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.dice.below(input.len() + 1);
        let end = (at + 1 + self.dice.below(16)).min(input.len());
        let byte = INTERESTING[self.dice.below(INTERESTING.len())];
        match self.dice.below(11) {
            0 if at < input.len() => input[at] = byte,
            1 if at < input.len() => input[at] ^= 1 << self.dice.below(8),
            2 => input.insert(at, byte),
            3 if at < end => drop(input.drain(at..end)),
            4 if at < end => {
                let part = input[at..end].to_vec();
                let to = self.dice.below(input.len() + 1);
                input.splice(to..to, part);
            }
            5 if !self.words.is_empty() => {
                let word = self.words[self.dice.below(self.words.len())].clone();
                input.splice(at..at, word);
            }
            6 => {
                let other = self.kept[self.dice.below(self.kept.len())].clone();
                let from = self.dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            7 => input.truncate(at),
            8 => {
                let number = [0, 1, 9, 255, 256, 65_535, 1 << 31, (1 << 53) - 1, u64::MAX][self.dice.below(9)];
                input.splice(at..at, number.to_string().into_bytes());
            }
            9 => {
                let count = 1 << self.dice.below(8);
                input.splice(at..at, std::iter::repeat_n(byte, count));
            }
            _ if at < input.len() => input[at] = self.dice.below(256) as u8,
            _ => input.push(byte),
        }
    }
}

/// Numbers that look random and are the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % most as u64) as usize
    }
}
