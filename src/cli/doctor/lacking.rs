//! How many entries a journal lacks: numbers that a rebuild left free are none.

use super::MAX_BEHIND;
use crate::adapters::store::redis::{HeartbeatReply, RedisStore};
use crate::audit::{UnusedNumbers, unused_before};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault};
use crate::ports::Store as _;

/// How many entries are read at a time.
const BATCH: usize = 256;

/// The numbers without an entry, as far as entries that wait for journals explain them.
#[derive(Debug, Default)]
pub(super) struct LackingEntries {
    last: Number,
    unused: Vec<UnusedNumbers>,
}

impl LackingEntries {
    /// Reads what waits for the journals that seem to lack many entries.
    pub async fn read(
        store: &RedisStore,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<LackingEntries, StoreFault> {
        let mut lacking = LackingEntries { last: heard.last, unused: Vec::new() };
        let behind = heard.members.iter().map(|member| member.kept).filter(|kept| lacking.of(*kept) >= MAX_BEHIND);
        let Some(mut behind) = behind.min() else { return Ok(lacking) };
        loop {
            let entries = store.outbox(environment, behind, BATCH).await?;
            let Some(newest) = entries.last() else { return Ok(lacking) };
            behind = newest.number;
            lacking.unused.extend(entries.iter().filter_map(|entry| unused_before(&entry.entry)));
        }
    }

    /// Returns how many entries a journal lacks that has those up to a number.
    pub fn of(&self, kept: Number) -> u64 {
        let (kept, last) = (kept.as_u64(), self.last.as_u64());
        let unused = self.unused.iter().map(|unused| unused.last.min(last).saturating_sub(unused.behind.max(kept)));
        last.saturating_sub(kept).saturating_sub(unused.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_rebuild_left_free_are_not_lacking() {
        let unused = |behind, last| UnusedNumbers { behind, last, begins: 0 };
        let lacking =
            LackingEntries { last: Number::new(9_010), unused: vec![unused(10, 4_000), unused(4_005, 9_000)] };
        let of = |kept| lacking.of(Number::new(kept));
        // 4001 to 4005, and 9001 to 9010.
        assert_eq!((of(8), of(10), of(4_000), of(4_003), of(9_000), of(9_010)), (17, 15, 15, 12, 10, 0));
        // It has entries of another history there.
        assert_eq!((of(2_000), of(9_100)), (15, 0));
        assert_eq!(LackingEntries { last: Number::new(9), unused: Vec::new() }.of(Number::new(4)), 5);
    }
}
