//! Rate buckets in this process.
//!
//! All buckets of a call are checked, then moved, under the same locks: a call that one bucket refuses takes nothing
//! from any. Memory is bounded: full buckets are dropped, and if too many are not full, those that are nearest to full.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::adapters::clock::Stopwatch;
use crate::base::digest::Fingerprint;
use crate::policy::Mark;
use crate::ports::{RateLimiter, Take};

/// The shards of a rate, so that threads rarely wait for each other.
const SHARDS: usize = 16;
/// The most buckets in a shard.
pub(super) const MAX_BUCKETS: usize = 4096;
/// Below this count, full buckets are not searched for.
const MIN_SEARCHED: usize = 256;

#[derive(Debug)]
pub struct Local {
    since: Stopwatch,
    /// The shards by rate, so that many callers of one rate do not affect another.
    rates: Vec<Arc<Shards>>,
}

type Shards = [Mutex<Shard>; SHARDS];

/// Each bucket with its mark.
#[derive(Debug, Default)]
struct Shard {
    marks: HashMap<Fingerprint, u64>,
    /// The count from which full buckets are searched for.
    look_at: usize,
}

/// A rate and one of its shards. Locks are taken in this order.
type BucketPlace = (usize, usize);

/// The result of one take.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketState {
    pub mark: Mark,
    /// The bucket's new mark, if it was moved.
    after: Option<u64>,
}

impl Local {
    /// Creates buckets for so many rates.
    pub fn new(rates: usize) -> Local {
        Local { since: Stopwatch::start(), rates: (0..rates).map(|_| Arc::default()).collect() }
    }

    /// Returns buckets for other rates; each keeps the buckets of the previous rate at its index in `places`.
    pub(super) fn with_places(&self, places: &[Option<usize>]) -> Local {
        let shards = |place: &Option<usize>| place.and_then(|at| self.rates.get(at)).cloned().unwrap_or_default();
        Local { since: self.since, rates: places.iter().map(shards).collect() }
    }

    pub(super) fn take_now(&self, takes: &[Take<'_>]) -> Vec<BucketState> {
        self.take_at(takes, self.now())
    }

    pub(super) fn take_at(&self, takes: &[Take<'_>], now: u64) -> Vec<BucketState> {
        let mut held = self.lock(takes);
        let found: Vec<(u64, Option<u64>)> = takes
            .iter()
            .map(|take| {
                let mark = shard(&mut held, take).and_then(|s| s.marks.get(&take.bucket).copied()).unwrap_or(now);
                (mark, take.quota.after(mark, now))
            })
            .collect();
        let is_refused = takes.iter().zip(&found).any(|(take, (_, after))| take.rate.is_enforced() && after.is_none());
        let taken = takes.iter().zip(found).map(|(take, (mark, room))| {
            let after = room.filter(|_| !is_refused);
            if let (Some(after), Some(shard)) = (after, shard(&mut held, take)) {
                shard.put(take.bucket, after, now);
            }
            let ahead = std::time::Duration::from_nanos(after.unwrap_or(mark).saturating_sub(now));
            BucketState { mark: take.quota.read(room.is_some(), ahead), after }
        });
        taken.collect()
    }

    /// Returns calls that another bucket refused.
    pub(super) fn give_back(&self, takes: &[Take<'_>], taken: &[BucketState]) {
        let mut held = self.lock(takes);
        for (take, taken) in takes.iter().zip(taken) {
            let mark = shard(&mut held, take).and_then(|shard| shard.marks.get_mut(&take.bucket));
            if let (Some(mark), Some(after)) = (mark, taken.after) {
                *mark = take.quota.before(*mark, after);
            }
        }
    }

    /// Returns the calls of each bucket that still count.
    pub(super) fn used(&self, takes: &[Take<'_>]) -> Vec<u64> {
        let now = self.now();
        let mut held = self.lock(takes);
        let mark = |take: &Take<'_>| shard(&mut held, take).and_then(|s| s.marks.get(&take.bucket).copied());
        let marks: Vec<u64> = takes.iter().map(mark).map(|mark| mark.unwrap_or(now)).collect();
        takes.iter().zip(marks).map(|(take, mark)| take.quota.used(mark, now)).collect()
    }

    /// Counts calls that the Redis allowed.
    pub(super) fn note(&self, takes: &[Take<'_>]) {
        let now = self.now();
        let mut held = self.lock(takes);
        for take in takes {
            let Some(shard) = shard(&mut held, take) else { continue };
            let mark = shard.marks.get(&take.bucket).copied().unwrap_or(now);
            shard.put(take.bucket, take.quota.after_all(mark, now), now);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self, takes: &[Take<'_>]) -> Vec<(BucketPlace, MutexGuard<'_, Shard>)> {
        let mut places: Vec<BucketPlace> = takes.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        let lock = |place: BucketPlace| {
            let shard = self.rates.get(place.0)?.get(place.1)?;
            Some((place, shard.lock().unwrap_or_else(PoisonError::into_inner)))
        };
        places.into_iter().filter_map(lock).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.rates.iter().flat_map(|shards| shards.iter()).map(|shard| shard.lock().unwrap().marks.len()).sum()
    }
}

#[async_trait]
impl RateLimiter for Local {
    async fn take(&self, takes: &[Take<'_>]) -> Vec<Option<Mark>> {
        self.take_now(takes).into_iter().map(|taken| Some(taken.mark)).collect()
    }

    fn followed_by(&self, places: &[Option<usize>]) -> Arc<dyn RateLimiter> {
        Arc::new(self.with_places(places))
    }
}

impl Shard {
    fn put(&mut self, bucket: Fingerprint, mark: u64, now: u64) {
        if self.marks.len() >= self.look_at.max(MIN_SEARCHED) && !self.marks.contains_key(&bucket) {
            self.make_room(now);
        }
        self.marks.insert(bucket, mark);
    }

    /// Drops full buckets, which are like new ones; and if that is not enough, those nearest to full, which lose least.
    fn make_room(&mut self, now: u64) {
        self.marks.retain(|_, mark| *mark > now);
        if self.marks.len() >= MAX_BUCKETS {
            let mut marks: Vec<u64> = self.marks.values().copied().collect();
            let mut spare = MAX_BUCKETS / 8;
            let (_, last, _) = marks.select_nth_unstable(spare);
            let last = *last;
            self.marks.retain(|_, mark| {
                let goes = *mark <= last && spare > 0;
                spare = spare.saturating_sub(usize::from(goes));
                !goes
            });
        }
        self.look_at = self.marks.len().saturating_mul(2).clamp(MIN_SEARCHED, MAX_BUCKETS);
    }
}

fn place(take: &Take<'_>) -> BucketPlace {
    (take.at, usize::from(take.bucket.first_byte()) % SHARDS)
}

fn shard<'h>(held: &'h mut [(BucketPlace, MutexGuard<'_, Shard>)], take: &Take<'_>) -> Option<&'h mut Shard> {
    let wanted = place(take);
    held.iter_mut().find(|(place, _)| *place == wanted).map(|(_, shard)| &mut **shard)
}
