//! Gathered changes on their way to a table: one thread writes them, while another reads them in front of the table.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use foldhash::quality::RandomState;

use super::embedded::{StoreTable, fault};
use super::layout;
use crate::ledger::StoreFault;

/// The change of one key.
pub(super) struct GatheredChange {
    /// `None` where the key is removed.
    pub value: Option<Vec<u8>>,
    /// Whether the table may have the key.
    pub is_in_table: bool,
}

/// Changes that commits read one by one.
pub(super) type ChangedKeys = HashMap<Vec<u8>, GatheredChange, RandomState>;

/// Changes that do not change any more.
pub(super) struct LeavingChanges {
    pub slots: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub others: ChangedKeys,
}

impl LeavingChanges {
    /// Returns what becomes of a key, if it changes.
    pub fn get(&self, key: &[u8]) -> Option<Option<&Vec<u8>>> {
        match self.others.get(key) {
            Some(change) => Some(change.value.as_ref()),
            None => self.slots.get(key).map(Option::as_ref),
        }
    }

    /// Returns the slots of a window that change, from a key on: what follows the window in their keys.
    pub fn slots_of(&self, window: &[u8], from: &[u8]) -> Vec<(&[u8], Option<&Vec<u8>>)> {
        let end = layout::behind(window);
        if *from >= *end {
            return Vec::new();
        }
        let slots = self.slots.range::<[u8], _>((Bound::Included(from), Bound::Excluded(end.as_slice())));
        slots.map(|(key, value)| (key.get(window.len()..).unwrap_or_default(), value.as_ref())).collect()
    }

    /// Returns every change, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&Vec<u8>, Option<&Vec<u8>>)> {
        let others = self.others.iter().map(|(key, change)| (key, change.value.as_ref()));
        others.chain(self.slots.iter().map(|(key, value)| (key, value.as_ref())))
    }

    /// Returns the keys that the table has afterwards.
    pub fn puts(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.all().filter(|(_, value)| value.is_some()).map(|(key, _)| key)
    }

    /// Writes all changes, in the order of their keys.
    pub fn write(&self, table: &mut StoreTable<'_>) -> Result<(), StoreFault> {
        let mut changes: Vec<(&Vec<u8>, Option<&Vec<u8>>)> = self.all().collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in changes {
            match value {
                Some(value) => drop(table.insert(key.as_slice(), value.as_slice()).map_err(fault)?),
                None => drop(table.remove(key.as_slice()).map_err(fault)?),
            }
        }
        Ok(())
    }
}
