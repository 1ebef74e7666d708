//! Rate buckets in a Redis that nodes share; buckets of other rates stay in this process.
//!
//! One script checks and moves all shared buckets of a call in one round trip, by the clock of the Redis. While the
//! Redis is away or slow, each node allows its part of each shared rate, from its own buckets. Those also count the
//! calls that the Redis allows, so a failure of the Redis does not start the quota anew. Nor does its return: a node
//! adds the calls that it allowed meanwhile to the Redis. A Redis that comes back empty starts every shared quota anew.
//! A call whose answer from the Redis was lost may have been counted there: that errs towards fewer calls.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use async_trait::async_trait;

use super::Local;
use super::local::BucketState;
use super::unsynced::Owed;
use crate::adapters::clock::Stopwatch;
use crate::adapters::redis::Redis;
use crate::policy::Mark;
use crate::ports::{RateLimiter, Take};
use crate::telemetry::Metrics;

/// Returns for each bucket whether it has room, and how far its mark is then ahead, in microseconds as in `Quota`. The
/// node's unsynced calls are charged first, whether or not the call is allowed.
///
/// A mark further ahead than a quota allows was made before the clock went back, or by another quota: it is set to the
/// maximum, even if the call is refused, or it would stay so until the clock has caught up.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local marks, moved, room, refused = {}, {}, {}, false
for i, key in ipairs(KEYS) do
  local interval, burst = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2])
  local enforced, owed = ARGV[4 * i - 1] == '1', tonumber(ARGV[4 * i])
  local full = now + interval * burst
  local mark = tonumber(redis.call('GET', key) or now) or now
  local settled = math.min(math.max(mark, now) + owed * interval, full)
  if owed > 0 or mark > full then
    redis.call('SET', key, string.format('%.0f', settled), 'PX', math.ceil((settled - now) / 1000) + 1)
  end
  mark = settled
  marks[i], room[i] = mark, mark + interval <= full
  if room[i] then
    moved[i] = mark + interval
  elseif enforced then
    refused = true
  end
end
local said = {}
for i, key in ipairs(KEYS) do
  if room[i] and not refused then
    marks[i] = moved[i]
    redis.call('SET', key, string.format('%.0f', marks[i]), 'PX', math.ceil((marks[i] - now) / 1000) + 1)
  end
  said[2 * i - 1], said[2 * i] = room[i] and 1 or 0, marks[i] - now
end
return said
";

pub struct SharedRates {
    local: Local,
    redis: Arc<Redis>,
    script: Script,
    nodes: u64,
    /// This node's part of the shared buckets.
    part: Local,
    owed: Arc<Owed>,
    metrics: Metrics,
}

impl SharedRates {
    /// Creates buckets for so many rates, shared by so many nodes.
    pub fn new(rates: usize, redis: Arc<Redis>, nodes: u64, metrics: Metrics) -> SharedRates {
        let (local, part) = (Local::new(rates), Local::new(rates));
        SharedRates { local, redis, script: Script::new(SCRIPT), nodes, part, owed: Arc::default(), metrics }
    }

    async fn take_there(&self, takes: &[Take<'_>]) -> Vec<Mark> {
        let parts: Vec<Take<'_>> =
            takes.iter().map(|take| Take { quota: take.quota.part(self.nodes), ..*take }).collect();
        let owed = self.owed.take(&parts, &self.part);
        if let Some(marks) = self.ask(takes, &owed).await {
            if !is_refused(takes, marks.iter()) {
                self.part.note(&parts);
            }
            return marks;
        }
        self.metrics.rated_by_part();
        let marks: Vec<Mark> = self.part.take_now(&parts).into_iter().map(|taken| taken.mark).collect();
        let is_allowed = !is_refused(takes, marks.iter());
        self.owed.add(
            takes
                .iter()
                .zip(&marks)
                .zip(owed)
                .map(|((take, mark), owed)| (take.bucket, owed.saturating_add(u64::from(is_allowed && mark.has_room)))),
        );
        marks
    }

    async fn ask(&self, takes: &[Take<'_>], owed: &[u64]) -> Option<Vec<Mark>> {
        let mut script = self.script.prepare_invoke();
        for (take, owed) in takes.iter().zip(owed) {
            // One hash tag, so that a cluster keeps all keys of a call in one slot.
            script.key(format!("{{rates}}:{}:{}", take.rate.id, take.bucket));
            let interval_micros = u64::try_from(take.quota.interval().as_micros()).unwrap_or(u64::MAX);
            script.arg(interval_micros).arg(take.quota.burst()).arg(u8::from(take.rate.is_enforced())).arg(*owed);
        }
        let since = Stopwatch::start();
        let said = self.redis.ask_if_prompt(async |mut connection, _| script.invoke_async(&mut connection).await).await;
        self.metrics.rated_together(since.elapsed());
        let said: Vec<u64> = said.ok()?;
        let (pairs, rest) = said.as_chunks::<2>();
        let marks = takes.iter().zip(pairs);
        let marks = marks.map(|(take, [room, ahead])| take.quota.read(*room == 1, Duration::from_micros(*ahead)));
        (pairs.len() == takes.len() && rest.is_empty()).then(|| marks.collect())
    }
}

#[async_trait]
impl RateLimiter for SharedRates {
    async fn take(&self, takes: &[Take<'_>]) -> Vec<Option<Mark>> {
        let (there, here): (Vec<Take<'_>>, Vec<Take<'_>>) = takes.iter().partition(|take| take.rate.is_shared);
        let taken = self.local.take_now(&here);
        let is_refused_here = is_refused(&here, taken.iter().map(|taken| &taken.mark));
        let shared = if is_refused_here || there.is_empty() { Vec::new() } else { self.take_there(&there).await };
        if is_refused(&there, shared.iter()) {
            self.local.give_back(&here, &taken);
        }
        let (mut shared, mut local) = (shared.into_iter(), taken.into_iter().map(|taken: BucketState| taken.mark));
        takes.iter().map(|take| if take.rate.is_shared { shared.next() } else { local.next() }).collect()
    }

    fn followed_by(&self, places: &[Option<usize>]) -> Arc<dyn RateLimiter> {
        Arc::new(SharedRates {
            local: self.local.with_places(places),
            redis: self.redis.clone(),
            script: Script::new(SCRIPT),
            nodes: self.nodes,
            part: self.part.with_places(places),
            owed: self.owed.clone(),
            metrics: self.metrics.clone(),
        })
    }
}

fn is_refused<'m>(takes: &[Take<'_>], marks: impl Iterator<Item = &'m Mark>) -> bool {
    takes.iter().zip(marks).any(|(take, mark)| take.rate.is_enforced() && !mark.has_room)
}

impl std::fmt::Debug for SharedRates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("redis", &self.redis).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
