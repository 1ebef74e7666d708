//! Changes of many commits, gathered in memory in front of a table and written to it in the order of their keys.
//!
//! Most of what commits write is replaced or removed soon, and never comes to the table; the rest touches each of its
//! pages far less often. Who reads sees the table with these changes, as if they were made.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::embedded::{KeptSum, KeySpace, ReadTable, StoreTable, make};
use super::gathered_slots::GatheredSlots;
use super::key_filter::KeyFilter;
use super::layout;
use super::plan::PlannedChange;
use super::queries::{Pair, ShowPair, StoreView};
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

/// The change of one key.
struct GatheredChange {
    /// `None` where the key is removed.
    value: Option<Vec<u8>>,
    /// Whether the table may have the key.
    is_in_table: bool,
}

/// A table as it was last written, and the changes since.
pub(super) struct GatheredChanges {
    /// `None` while the table is written.
    table: Option<ReadTable>,
    /// All keys that were ever written to the table, and the windows of slots.
    written: KeyFilter,
    /// Commits read slots in order.
    slots: RefCell<GatheredSlots>,
    /// All other changes, which commits read one by one.
    others: HashMap<Vec<u8>, GatheredChange>,
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
        let (slots, others) = (RefCell::default(), HashMap::new());
        Ok(GatheredChanges { table: Some(table), written, slots, others, bytes: 0, enough })
    }

    /// Whether they must be written before more are gathered.
    pub fn are_enough(&self) -> bool {
        self.bytes.saturating_add(self.slots.borrow().bytes()) >= self.enough
    }

    /// Forgets the table; until the next one comes, it can be written.
    pub fn release(&mut self) {
        self.table = None;
    }

    pub fn goes_on(&mut self, table: ReadTable) {
        self.table = Some(table);
    }

    /// Writes all changes, and has none then.
    pub fn write(&mut self, table: &mut StoreTable<'_>) -> Result<(), StoreFault> {
        let slots = self.slots.get_mut();
        let changed = slots.changes().map(|(key, value)| (key, value.cloned()));
        let others = self.others.drain().map(|(key, change)| (key, change.value));
        let mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = changed.chain(others).collect();
        slots.written(self.enough / 4);
        changes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.bytes = 0;
        for (key, value) in changes {
            match value {
                Some(value) => {
                    note(&mut self.written, &key);
                    make(table, vec![PlannedChange::Put(key, value)])?;
                }
                None => make(table, vec![PlannedChange::Remove(key)])?,
            }
        }
        Ok(())
    }

    fn table(&self) -> Result<KeySpace<'_, ReadTable>, StoreFault> {
        self.table.as_ref().map(KeySpace).ok_or_else(|| StoreFault::Away("the store is being written".to_owned()))
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
            None if self.written.may_have(key) => self.table()?.get(key),
            None => Ok(None),
        }
    }

    /// It looks at every change: only commits that remove much ask for it.
    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        let is_within = |key: &[u8]| from <= key && key < to;
        let slots = self.slots.borrow();
        let others = self.others.iter().filter(|(key, _)| is_within(key));
        let mut changes: BTreeMap<Vec<u8>, Option<&Vec<u8>>> =
            others.map(|(key, change)| (key.clone(), change.value.as_ref())).collect();
        changes.extend(slots.changes().filter(|(key, _)| is_within(key)));
        // Each change takes away one pair at most.
        let found = self.table()?.range(from, to, count.saturating_add(changes.len()))?;
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
            true => self.table()?.each_of_window(window, from, show),
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
