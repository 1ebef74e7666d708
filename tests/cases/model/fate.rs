//! What chance decides, all of it from one seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice::ports::Clock;
use tokio::time::Instant;

/// Chance (splitmix64).
#[derive(Debug)]
pub struct Fate {
    state: Mutex<u64>,
    /// How much goes wrong, in a thousand.
    pub trouble: u64,
    /// How often the store lost its memory: what was on its way to it before does not reach it.
    pub losses: AtomicU64,
}

impl Fate {
    pub fn new(seed: u64) -> Fate {
        let fate = Fate { state: Mutex::new(seed), trouble: 0, losses: AtomicU64::default() };
        let trouble = [0, 5, 20, 60][fate.below(4) as usize];
        Fate { trouble, ..fate }
    }

    /// Nothing goes wrong.
    pub fn calm() -> Fate {
        Fate { state: Mutex::new(1), trouble: 0, losses: AtomicU64::default() }
    }

    pub fn next(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn chance(&self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }

    pub fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// One life of a node: when it is over, nothing that it called ever returns.
#[derive(Debug, Default)]
pub struct Life {
    over: AtomicBool,
    /// Until when the machine of the node is paused.
    paused_until: Mutex<Option<Instant>>,
    /// For how long it was paused in this life, in microseconds.
    paused: AtomicU64,
}

impl Life {
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Pauses the machine of the node: nothing that it called returns meanwhile.
    pub fn pause(&self, time: Duration) {
        *self.paused_until.lock().unwrap() = Some(Instant::now() + time);
        self.paused.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// Waits until the machine of the node runs.
    pub async fn wakes(&self) {
        let until = *self.paused_until.lock().unwrap();
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// A moment at which a node may take its time, be paused, or end.
    pub async fn moment(&self, fate: &Fate) {
        self.wakes().await;
        if !self.is_over() {
            tokio::time::sleep(fate.millis(8)).await;
            if fate.chance(fate.trouble / 4) {
                self.end();
            }
        }
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }
}

/// The time of the model, which runs only where everybody waits. Its time of day leaps, ahead and back, by a seed.
#[derive(Debug)]
pub struct ModelClock {
    begin: Instant,
    /// `None` where the time of day does not leap.
    leaps: Option<Leaps>,
    /// Whether the time of day is right from now on.
    is_right: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Leaps {
    seed: u64,
    /// The time of day is right or wrong for so long.
    part_millis: u128,
    /// One part of so many is wrong in one way.
    ways: u64,
}

const SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

impl ModelClock {
    pub fn new() -> ModelClock {
        ModelClock { begin: Instant::now(), leaps: None, is_right: AtomicBool::new(false) }
    }

    /// It leaps every few seconds.
    pub fn leaping(seed: u64) -> ModelClock {
        ModelClock { leaps: Some(Leaps { seed, part_millis: 7_000, ways: 6 }), ..ModelClock::new() }
    }

    /// It leaps every few minutes, and stays wrong long enough for gates to see it.
    pub fn leaping_seldom(seed: u64) -> ModelClock {
        ModelClock { leaps: Some(Leaps { seed, part_millis: 40_000, ways: 24 }), ..ModelClock::new() }
    }

    /// Somebody set the clock right.
    pub fn is_set_right(&self) {
        self.is_right.store(true, Ordering::SeqCst);
    }

    /// How far the time of day is from what it should be.
    pub fn leap(&self) -> jiff::SignedDuration {
        let Some(Leaps { seed, part_millis, ways }) = self.leaps else { return jiff::SignedDuration::ZERO };
        let part = u64::try_from(self.elapsed().as_millis() / part_millis).unwrap();
        let state = Mutex::new(seed ^ part.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let fate = Fate { state, trouble: 0, losses: AtomicU64::default() };
        match fate.below(ways) {
            // The store begins at the right time.
            _ if part == 0 || self.is_right.load(Ordering::SeqCst) => jiff::SignedDuration::ZERO,
            0 => jiff::SignedDuration::from_hours(48),
            1 => jiff::SignedDuration::from_hours(24 * 450),
            2 => jiff::SignedDuration::from_hours(-48),
            6 => SECOND * 90,
            7 => SECOND * -5,
            // As much as two clocks may differ: it is followed.
            8 => SECOND,
            _ => jiff::SignedDuration::ZERO,
        }
    }

    /// The time that it should be.
    pub fn true_time(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_800_000_000).unwrap() + self.elapsed()
    }
}

impl Clock for ModelClock {
    fn now(&self) -> jiff::Timestamp {
        self.true_time() + self.leap()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// The clock of one life of a node. It goes on while the machine is paused, and knows for how long that was.
#[derive(Debug)]
pub struct NodeClock {
    pub clock: Arc<ModelClock>,
    pub life: Arc<Life>,
}

impl Clock for NodeClock {
    fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn paused(&self) -> Duration {
        Duration::from_micros(self.life.paused.load(Ordering::SeqCst))
    }
}
