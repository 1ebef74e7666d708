//! Puts entries into the order of their numbers. A file has them in the order in which they came to disk.

use std::collections::BTreeMap;

use super::line::FileHeader;
use super::steps::unused_before;
use crate::base::ids::Environment;
use crate::ledger::Outstanding;

/// The most entries that wait; then a gap before them is passed.
const MAX_WAITING: usize = 16_384;

/// Entries that wait for those before them.
#[derive(Debug, Default)]
pub struct InOrder {
    /// The last number of each environment that was given out.
    last: BTreeMap<Environment, u64>,
    waiting: BTreeMap<(Environment, u64), Outstanding>,
}

impl InOrder {
    /// Entries up to these numbers are left out.
    pub fn behind(last: BTreeMap<Environment, u64>) -> InOrder {
        InOrder { last, waiting: BTreeMap::new() }
    }

    /// Takes an entry, and returns all entries that it completes.
    pub fn add(&mut self, entry: Outstanding) -> Vec<Outstanding> {
        let environment = entry.environment;
        let last = self.last.entry(environment).or_default();
        if entry.number.as_u64() <= *last {
            return Vec::new();
        }
        let mut ready = Vec::new();
        let is_next = last.checked_add(1) == Some(entry.number.as_u64());
        if is_next || unused_before(&entry.entry).is_some_and(|unused| unused.explains_behind(*last)) {
            *last = entry.number.as_u64();
            ready.push(entry);
        } else {
            self.waiting.insert((environment, entry.number.as_u64()), entry);
            if self.waiting.len() > MAX_WAITING {
                // A file has what is missing nowhere near: whoever makes the entries sees the gap.
                let first = self.waiting.range((environment, 0)..).next().map(|((_, number), _)| *number);
                *last = first.unwrap_or_default().saturating_sub(1).max(*last);
            }
        }
        while let Some(next) = last.checked_add(1).and_then(|next| self.waiting.remove(&(environment, next))) {
            *last = next.number.as_u64();
            ready.push(next);
        }
        ready
    }

    /// Goes on behind the end of a file as the next one's header says, if anything before it is missing or is of another
    /// history. Returns the entries up to there that waited for others: they happened all the same.
    pub fn go_on(&mut self, environment: Environment, header: &FileHeader) -> Option<Vec<Outstanding>> {
        let up_to = *header.highest.get(&environment)?;
        let last = self.last.entry(environment).or_default();
        let is_another_history = *last == up_to && header.anew.contains(&environment);
        if *last >= up_to && !is_another_history {
            return None;
        }
        *last = up_to;
        let behind = self.waiting.split_off(&(environment, up_to.saturating_add(1)));
        let mut waited = std::mem::replace(&mut self.waiting, behind);
        // Entries of another environment still wait.
        let of_this = waited.split_off(&(environment, 0));
        self.waiting.append(&mut waited);
        Some(of_this.into_values().collect())
    }

    /// Returns the entries before which numbers are missing, in their order.
    pub fn rest(self) -> impl Iterator<Item = Outstanding> {
        self.waiting.into_values()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::audit::Highest;
    use crate::ledger::{NodeId, Number, StoreTime};

    const PRODUCTION: Environment = Environment::Production;

    fn entry(environment: Environment, number: u64) -> Outstanding {
        let (node, at) = (NodeId::parse("gate").unwrap(), StoreTime::default());
        Outstanding { environment, number: Number::new(number), at, node, entry: Bytes::from_static(b"{}") }
    }

    fn numbers(entries: Vec<Outstanding>) -> Vec<u64> {
        entries.into_iter().map(|entry| entry.number.as_u64()).collect()
    }

    #[test]
    fn what_waited_behind_a_gap_is_given_out_before_the_gap_is_passed() {
        let mut order = InOrder::default();
        assert_eq!(numbers(order.add(entry(PRODUCTION, 1))), [1]);
        for number in [3, 5, 9] {
            assert_eq!(numbers(order.add(entry(PRODUCTION, number))), [0; 0]);
            assert_eq!(numbers(order.add(entry(Environment::Sandbox, number))), [0; 0]);
        }
        let header = |anew: &[Environment]| FileHeader {
            node: NodeId::parse("gate").unwrap(),
            sequence: 2,
            at: StoreTime::default(),
            highest: Highest::from([(PRODUCTION, 7)]),
            snapshot: None,
            anew: anew.iter().copied().collect(),
        };
        assert_eq!(order.go_on(Environment::Sandbox, &header(&[])), None);
        assert_eq!(order.go_on(PRODUCTION, &header(&[])).map(numbers), Some(vec![3, 5]));
        assert_eq!(order.go_on(PRODUCTION, &header(&[])), None);
        assert_eq!(order.go_on(PRODUCTION, &header(&[Environment::Sandbox])), None);
        assert_eq!(order.go_on(PRODUCTION, &header(&[PRODUCTION])).map(numbers), Some(vec![]));
        assert_eq!(numbers(order.add(entry(PRODUCTION, 8))), [8, 9]);
        assert_eq!(order.go_on(PRODUCTION, &header(&[PRODUCTION])), None, "the next file is the one behind it");
        assert_eq!(order.rest().map(|entry| entry.number.as_u64()).collect::<Vec<_>>(), [3, 5, 9]);
    }

    #[test]
    fn no_more_entries_wait_than_memory_is_meant_for() {
        let mut order = InOrder::default();
        let most = u64::try_from(MAX_WAITING).unwrap();
        for number in 5..5 + most {
            assert_eq!(numbers(order.add(entry(PRODUCTION, number))), [0; 0]);
        }
        let given = numbers(order.add(entry(PRODUCTION, 5 + most)));
        assert_eq!(given, (5..=5 + most).collect::<Vec<_>>());
        assert_eq!(numbers(order.add(entry(PRODUCTION, 6 + most))), [6 + most]);
        assert_eq!(order.rest().count(), 0);
    }
}
