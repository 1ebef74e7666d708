//! Puts entries into the order of their numbers. A file has them in the order in which they came to disk.

use std::collections::BTreeMap;

use super::steps::unused_before;
use crate::base::ids::Environment;
use crate::ledger::Outstanding;

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
        }
        while let Some(next) = last.checked_add(1).and_then(|next| self.waiting.remove(&(environment, next))) {
            *last = next.number.as_u64();
            ready.push(next);
        }
        ready
    }

    /// Goes on behind a number; returns whether anything before it was missing.
    pub fn skip(&mut self, environment: Environment, up_to: u64) -> bool {
        let last = self.last.entry(environment).or_default();
        let is_new = *last < up_to;
        *last = up_to.max(*last);
        is_new
    }

    /// Returns the entries before which numbers are missing, in their order.
    pub fn rest(self) -> impl Iterator<Item = Outstanding> {
        self.waiting.into_values()
    }
}
