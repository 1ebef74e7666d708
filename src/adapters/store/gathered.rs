//! Changes of many commits, gathered in memory in front of a table and written to it in the order of their keys.
//!
//! Most of what commits write is replaced or removed soon, and never comes to the table; the rest touches each of its
//! pages far less often. Who reads sees the table with these changes, as if they were made.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::quality::RandomState;

use super::embedded::{KeptSum, KeySpace, ReadTable, StoreTable, make};
use super::gathered_slots::GatheredSlots;
use super::key_filter::KeyFilter;
use super::leaving_changes::{ChangedKeys, GatheredChange, LeavingChanges};
use super::plan::PlannedChange;
use super::queries::{self, Pair, ShowPair, StoreView};
use super::{SWEEP_AFTER, layout};
use crate::ledger::StoreFault;

/// What a change takes in memory besides its key and its value, about.
const OVERHEAD: usize = 128;
/// How many keys of the table are read at a time.
const NOTED_AT_ONCE: usize = 10_000;

/// An ordered map that commits change.
pub(super) trait StoreMap: StoreView {
    fn make(&mut self, changes: Vec<PlannedChange>) -> Result<(), StoreFault>;
}

/// A table that is written at once, and its sum, if it has one.
pub(super) struct OpenTable<'w, 't, 's> {
    pub table: &'w mut StoreTable<'t>,
    pub sum: Option<KeptSum<'s>>,
}

impl StoreView for OpenTable<'_, '_, '_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
        KeySpace(&*self.table).get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        KeySpace(&*self.table).range(from, to, count)
    }

    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        KeySpace(&*self.table).range_back(from, to, count)
    }

    fn each_of_window(&self, window: &[u8], from: &[u8], show: &mut ShowPair<'_>) -> Result<(), StoreFault> {
        KeySpace(&*self.table).each_of_window(window, from, show)
    }
}

impl StoreMap for OpenTable<'_, '_, '_> {
    fn make(&mut self, changes: Vec<PlannedChange>) -> Result<(), StoreFault> {
        match &mut self.sum {
            Some(sum) => sum.make(self.table, changes),
            None => make(self.table, changes),
        }
    }
}

/// A table as it was last written, and the changes since.
pub(super) struct GatheredChanges {
    table: ReadTable,
    /// Changes that are written to the table meanwhile.
    leaving: Option<Arc<LeavingChanges>>,
    /// All keys that were ever written to the table, and the windows of slots.
    written: KeyFilter,
    /// Commits read slots in order.
    slots: RefCell<GatheredSlots>,
    /// All other changes, which commits read one by one.
    others: ChangedKeys,
    bytes: usize,
    /// How many bytes are gathered before they are written.
    enough: usize,
}

impl GatheredChanges {
    pub fn before(table: ReadTable, enough: usize) -> Result<GatheredChanges, StoreFault> {
        let mut written = KeyFilter::new();
        let mut from = Vec::new();
        loop {
            let some = KeySpace(&table).range(&from, &layout::END, NOTED_AT_ONCE)?;
            some.iter().for_each(|(key, _)| note(&mut written, key));
            let Some((key, _)) = some.into_iter().last() else { break };
            from = key;
            from.push(0);
        }
        let (slots, others) = (RefCell::default(), ChangedKeys::default());
        Ok(GatheredChanges { table, leaving: None, written, slots, others, bytes: 0, enough })
    }

    /// Whether they must be written before more are gathered.
    pub fn are_enough(&self) -> bool {
        self.bytes.saturating_add(self.slots.borrow().bytes()) >= self.enough
    }

    /// Passes all changes on to whoever writes them to the table, and has none then. INVARIANT: none are on their way.
    pub fn leave(&mut self) -> Result<Arc<LeavingChanges>, StoreFault> {
        self.drop_what_expired()?;
        let slots = self.slots.get_mut();
        let changed = slots.changes().map(|(key, value)| (key, value.cloned())).collect();
        slots.written(self.enough / 4);
        let next = ChangedKeys::with_capacity_and_hasher(self.others.len(), RandomState::default());
        let leaving = Arc::new(LeavingChanges { slots: changed, others: std::mem::replace(&mut self.others, next) });
        leaving.puts().for_each(|key| note(&mut self.written, key));
        self.bytes = 0;
        self.leaving = Some(Arc::clone(&leaving));
        Ok(leaving)
    }

    /// The changes that were on their way are in this table.
    pub fn goes_on(&mut self, table: ReadTable) {
        (self.table, self.leaving) = (table, None);
    }

    /// Slots that expired long ago, before they ever came to the table, do not come there.
    fn drop_what_expired(&mut self) -> Result<(), StoreFault> {
        let until = queries::time(self)?.minus(SWEEP_AFTER);
        let slots = self.slots.get_mut();
        let mut bytes = 0_usize;
        self.others.retain(|key, change| {
            let is_new = change.value.is_some() && !change.is_in_table;
            let expired = layout::expired_slot(key, until).filter(|_| is_new);
            let is_over = expired.is_some_and(|slot| slots.forget_new(slot));
            if is_over {
                bytes = bytes.saturating_add(key.len()).saturating_add(OVERHEAD);
            }
            !is_over
        });
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// Returns what stands behind the gathered changes.
    fn behind(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
        match self.leaving.as_ref().and_then(|leaving| leaving.get(key)) {
            Some(value) => Ok(value.cloned()),
            None => KeySpace(&self.table).get(key),
        }
    }

    /// Shows the slots of a window as they stand behind the gathered changes.
    fn show_behind(&self, window: &[u8], from: &[u8], show: &mut ShowPair<'_>) -> Result<(), StoreFault> {
        let leaving = self.leaving.as_ref().map(|leaving| leaving.slots_of(window, from));
        let Some(leaving) = leaving.filter(|leaving| !leaving.is_empty()) else {
            return KeySpace(&self.table).each_of_window(window, from, show);
        };
        let mut slots = BTreeMap::new();
        KeySpace(&self.table).each_of_window(window, from, &mut |times, value| {
            slots.insert(times.to_vec(), value.to_vec());
            Ok(())
        })?;
        for (times, value) in leaving {
            match value {
                Some(value) => drop(slots.insert(times.to_vec(), value.clone())),
                None => drop(slots.remove(times)),
            }
        }
        slots.iter().try_for_each(|(times, value)| show(times, value))
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let size = value.len();
        if is_slot(&key) {
            return self.slots.get_mut().change(&key, Some(value), || self.written.may_have(&key));
        }
        if let Some(change) = self.others.get_mut(&key) {
            let before = change.value.replace(value).map_or(0, |value| value.len());
            self.bytes = self.bytes.saturating_add(size).saturating_sub(before);
            return;
        }
        self.bytes = self.bytes.saturating_add(key.len()).saturating_add(size).saturating_add(OVERHEAD);
        let change = GatheredChange { value: Some(value), is_in_table: self.written.may_have(&key) };
        self.others.insert(key, change);
    }

    fn remove(&mut self, key: Vec<u8>) {
        if is_slot(&key) {
            return self.slots.get_mut().change(&key, None, || self.written.may_have(&key));
        }
        let former = self.others.remove(&key);
        if let Some(change) = &former {
            let size = change.value.as_ref().map_or(0, Vec::len);
            self.bytes = self.bytes.saturating_sub(key.len()).saturating_sub(size).saturating_sub(OVERHEAD);
        }
        if former.map_or_else(|| self.written.may_have(&key), |change| change.is_in_table) {
            self.bytes = self.bytes.saturating_add(key.len()).saturating_add(OVERHEAD);
            self.others.insert(key, GatheredChange { value: None, is_in_table: true });
        }
    }
}

impl StoreView for GatheredChanges {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
        let known = match is_slot(key) {
            true => self.slots.borrow().get(key),
            false => self.others.get(key).map(|change| change.value.clone()),
        };
        match known {
            Some(value) => Ok(value),
            None if self.written.may_have(key) => self.behind(key),
            None => Ok(None),
        }
    }

    /// It looks at every change: only commits that remove much ask for it.
    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        let is_within = |key: &[u8]| from <= key && key < to;
        let slots = self.slots.borrow();
        let mut changes: BTreeMap<Vec<u8>, Option<&Vec<u8>>> = BTreeMap::new();
        if let Some(leaving) = &self.leaving {
            changes.extend(leaving.all().filter(|(key, _)| is_within(key)).map(|(key, value)| (key.clone(), value)));
        }
        let others = self.others.iter().filter(|(key, _)| is_within(key));
        changes.extend(others.map(|(key, change)| (key.clone(), change.value.as_ref())));
        changes.extend(slots.changes().filter(|(key, _)| is_within(key)));
        // Each change takes away one pair at most.
        let found = KeySpace(&self.table).range(from, to, count.saturating_add(changes.len()))?;
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
        for (key, value) in changes {
            match value {
                Some(value) => drop(pairs.insert(key, value.clone())),
                None => drop(pairs.remove(&key)),
            }
        }
        Ok(pairs.into_iter().take(count).collect())
    }

    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        Ok(self.range(from, to, usize::MAX)?.into_iter().rev().take(count).collect())
    }

    fn each_of_window(&self, window: &[u8], from: &[u8], show: &mut ShowPair<'_>) -> Result<(), StoreFault> {
        let load = |show: &mut ShowPair<'_>| match self.written.may_have(window) {
            true => self.show_behind(window, from, show),
            false => Ok(()),
        };
        self.slots.borrow_mut().each_of_window(window, from, load, show)
    }
}

impl StoreMap for GatheredChanges {
    fn make(&mut self, changes: Vec<PlannedChange>) -> Result<(), StoreFault> {
        for change in changes {
            match change {
                PlannedChange::Put(key, value) => self.put(key, value),
                PlannedChange::Remove(key) => self.remove(key),
            }
        }
        Ok(())
    }
}

fn is_slot(key: &[u8]) -> bool {
    key.first() == Some(&layout::SLOTS)
}

/// Notes that the table has a key.
fn note(written: &mut KeyFilter, key: &[u8]) {
    written.add(key);
    if let Some(window) = layout::window_of_slot(key) {
        written.add(window);
    }
}
