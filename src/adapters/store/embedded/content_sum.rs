//! The sum of a whole store: every record with its version, every member of an index, every window and every entry.
//!
//! While no gate runs, somebody may change the file: put an older record back, plant a record or a member of an index, or
//! remove one. The sum shows it at the next start, and the store is built anew from the journal.
//!
//! Each item adds the HMAC of its key and value, modulo 2^256. A transaction adds what it writes and subtracts what was
//! there before. The sum is sealed, and bound to the numbers of the latest commits: without the seal key nobody can make the
//! sum of another content, or learn from sums how items combine. Without a seal key, the sum shows changes by whoever does
//! not make it anew.

use redb::{CommitError, ReadableTable};
use ring::hmac;

use super::database::{KeySpace, StoreTable, TABLE, fault, make, table_fault, transaction_fault, unless_it_panics};
use super::{Embedded, away};
use crate::adapters::store::layout::{self, broken};
use crate::adapters::store::plan::PlannedChange;
use crate::adapters::store::queries::{self, StoreView as _};
use crate::adapters::store::sealed::Seals;
use crate::adapters::store::sealed_place::SEALED;
use crate::adapters::store::sealed_sum::OpenedSum;
use crate::base::ids::Environment;
use crate::ledger::StoreFault;

const CHANGED: &str = "somebody changed the store while no gate served from it";
const PLAIN_SUM: &str = "the sum of the store has no seal, although `store.seal_key` is set: the store is from before the key, and is \
                         taken over as `rotate.md` says, or somebody changed it while no gate served from it";

/// What a store's sum says of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentVerdict {
    /// The content is what gates made of it.
    Whole,
    /// There is no sum: the store is new, or was imported, or somebody removed the sum.
    Unsummed,
    /// Somebody changed the content, or the sum.
    Changed,
    /// The file cannot be read whole: its disk lost some of it, or somebody changed it.
    Damaged,
}

/// A sum, and the key with which it is made.
#[derive(Clone, Debug)]
pub(super) struct ContentSum {
    key: hmac::Key,
    /// Whether the key is the one that seals now, and no former one.
    is_current: bool,
    /// The least significant part first.
    parts: [u64; 4],
}

impl ContentSum {
    /// Returns the sum of a table as it stands there; `None` where there is none, or none that the keys prove.
    fn stored(
        view: &KeySpace<'_, impl ReadableTable<&'static [u8], &'static [u8]>>,
        seals: &Seals,
    ) -> Result<Option<Self>, StoreFault> {
        let Some(sealed) = view.get(&layout::content_sum())? else { return Ok(None) };
        let Some(OpenedSum { key, is_current, sum }) = seals.open_sum(&numbers(view)?, sealed.into())? else {
            return Ok(None);
        };
        let (parts, _) = sum.as_chunks::<8>();
        let parts: Vec<u64> = parts.iter().map(|part| u64::from_le_bytes(*part)).collect();
        let parts = parts.try_into().map_err(|_| broken("the sum of the content"))?;
        Ok(Some(ContentSum { key, is_current, parts }))
    }

    /// Sums a table up.
    fn of(table: &impl ReadableTable<&'static [u8], &'static [u8]>, key: hmac::Key) -> Result<ContentSum, StoreFault> {
        let mut sum = ContentSum { key, is_current: true, parts: [0; 4] };
        for pair in table.iter().map_err(fault)? {
            let (key, value) = pair.map_err(fault)?;
            sum.add(key.value(), value.value());
        }
        Ok(sum)
    }

    /// Makes changes, and keeps up with them.
    pub fn make(&mut self, table: &mut StoreTable<'_>, changes: Vec<PlannedChange>) -> Result<(), StoreFault> {
        for change in changes {
            match change {
                PlannedChange::Put(key, value) => {
                    let before = table.insert(key.as_slice(), value.as_slice()).map_err(fault)?;
                    if let Some(before) = before {
                        self.subtract(&key, before.value());
                    }
                    self.add(&key, &value);
                }
                PlannedChange::Remove(key) => {
                    if let Some(before) = table.remove(key.as_slice()).map_err(fault)? {
                        self.subtract(&key, before.value());
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&self, table: &mut StoreTable<'_>, seals: &Seals) -> Result<(), StoreFault> {
        let bytes: Vec<u8> = self.parts.iter().flat_map(|part| part.to_le_bytes()).collect();
        let sealed = seals.seal_sum(&numbers(&KeySpace(table))?, &bytes.into())?;
        make(table, vec![PlannedChange::Put(layout::content_sum(), sealed.to_vec())])
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let Some(item) = self.of_item(key, value) else { return };
        let mut carries = false;
        for (part, item) in self.parts.iter_mut().zip(item) {
            let (sum, first) = part.overflowing_add(item);
            let (sum, second) = sum.overflowing_add(u64::from(carries));
            (*part, carries) = (sum, first || second);
        }
    }

    fn subtract(&mut self, key: &[u8], value: &[u8]) {
        let Some(item) = self.of_item(key, value) else { return };
        let mut borrows = false;
        for (part, item) in self.parts.iter_mut().zip(item) {
            let (rest, first) = part.overflowing_sub(item);
            let (rest, second) = rest.overflowing_sub(u64::from(borrows));
            (*part, borrows) = (rest, first || second);
        }
    }

    /// Returns what an item adds; `None` for one that the sum leaves out.
    fn of_item(&self, key: &[u8], value: &[u8]) -> Option<[u64; 4]> {
        if !layout::is_summed(key) {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(key.len() as u64).to_be_bytes());
        context.update(key);
        context.update(value);
        let tag = context.sign();
        let (parts, _) = tag.as_ref().as_chunks::<8>();
        let parts: Vec<u64> = parts.iter().map(|part| u64::from_le_bytes(*part)).collect();
        parts.try_into().ok()
    }
}

/// The sum of a table that is being written. A table without one, or with one that the sealing key did not make, gets none:
/// the next start notices.
pub(in crate::adapters::store) struct KeptSum<'s> {
    sum: Option<ContentSum>,
    seals: &'s Seals,
}

impl<'s> KeptSum<'s> {
    pub fn of(table: &StoreTable<'_>, seals: &'s Seals) -> Result<KeptSum<'s>, StoreFault> {
        let sum = match ContentSum::stored(&KeySpace(table), seals) {
            Err(StoreFault::Broken(_)) => None,
            sum => sum?,
        };
        Ok(KeptSum { sum: sum.filter(|sum| sum.is_current), seals })
    }

    pub fn make(&mut self, table: &mut StoreTable<'_>, changes: Vec<PlannedChange>) -> Result<(), StoreFault> {
        match &mut self.sum {
            Some(sum) => sum.make(table, changes),
            None => make(table, changes),
        }
    }

    pub fn write(self, table: &mut StoreTable<'_>) -> Result<(), StoreFault> {
        match self.sum {
            Some(sum) => sum.write(table, self.seals),
            None => forget(table),
        }
    }
}

/// Removes the sum of a table that is changed without the seal keys.
pub(super) fn forget(table: &mut StoreTable<'_>) -> Result<(), StoreFault> {
    make(table, vec![PlannedChange::Remove(layout::content_sum())])
}

/// The numbers of the latest commits, as a name.
fn numbers(view: &KeySpace<'_, impl ReadableTable<&'static [u8], &'static [u8]>>) -> Result<String, StoreFault> {
    let last = |environment| queries::last(view, environment).map(|last| last.to_string());
    let last: Result<Vec<String>, StoreFault> = Environment::ALL.into_iter().map(last).collect();
    last.map(|last| last.join("/"))
}

impl Embedded {
    /// Compares the whole content with its sum, which is sealed with the current key from then on. Nothing else uses the
    /// store yet.
    pub fn verify_content(&self) -> Result<ContentVerdict, StoreFault> {
        // Whether the sum opens says nothing of the file.
        let read = self.of_file(|| {
            let table = self.latest()?;
            numbers(&KeySpace(&table))?;
            Ok((KeySpace(&table).get(&layout::content_sum())?, table))
        })?;
        let Some((sum, table)) = read else { return Ok(ContentVerdict::Damaged) };
        if sum.is_none() {
            let all = self.of_file(|| ContentSum::of(&table, Seals::default().sum_key()?))?;
            return Ok(if all.is_some() { ContentVerdict::Unsummed } else { ContentVerdict::Damaged });
        }
        let Some(stored) = ContentSum::stored(&KeySpace(&table), &self.shared.seals)? else {
            return Ok(ContentVerdict::Changed);
        };
        match self.of_file(|| ContentSum::of(&table, stored.key))? {
            Some(all) if all.parts == stored.parts => {}
            Some(_) => return Ok(ContentVerdict::Changed),
            None => return Ok(ContentVerdict::Damaged),
        }
        if !stored.is_current {
            self.adopt_content()?;
        }
        Ok(ContentVerdict::Whole)
    }

    /// Reads the file, or writes it; returns `None` where it is damaged, and says how in the log.
    fn of_file<T>(&self, work: impl FnOnce() -> Result<T, StoreFault>) -> Result<Option<T>, StoreFault> {
        let work = || unless_it_panics(work).unwrap_or_else(|why| Err(StoreFault::Broken(why)));
        match self.trouble.told_from_damage(work) {
            Ok(done) => Ok(Some(done)),
            Err(StoreFault::Broken(why)) => {
                tracing::error!(why, "the file of the store is damaged");
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Whether the file takes a transaction: pages that hold no content may be damaged as well. Nothing else uses the store yet.
    pub fn takes_transactions(&self) -> Result<bool, StoreFault> {
        let taken = self.of_file(|| {
            let database = self.shared.database().ok_or_else(|| away("its file cannot be opened"))?;
            let mut write = database.begin_write().map_err(transaction_fault)?;
            write.set_quick_repair(true);
            drop(write.open_table(TABLE).map_err(table_fault)?);
            write.commit().map_err(|error| match error {
                CommitError::Storage(error) => fault(error),
                error => away(&error.to_string()),
            })
        })?;
        Ok(taken.is_some())
    }

    /// Whether the sum has no seal although there is a key: the store is from before the key, or somebody changed it.
    pub fn is_sum_plain(&self) -> bool {
        let sum = self.latest().and_then(|table| KeySpace(&table).get(&layout::content_sum()));
        self.shared.seals.is_sealing() && sum.is_ok_and(|sum| sum.is_some_and(|sum| !sum.starts_with(SEALED)))
    }

    /// Says how the content is not as gates with the configured key left it.
    pub fn told_of_change(&self) -> &'static str {
        if self.is_sum_plain() { PLAIN_SUM } else { CHANGED }
    }

    /// Takes the content as it is, and keeps its sum from now on. Nothing else uses the store yet.
    pub fn adopt_content(&self) -> Result<(), StoreFault> {
        let failed = |error: &dyn std::fmt::Display| away(&error.to_string());
        let database = self.shared.database().ok_or_else(|| away("its file cannot be opened"))?;
        let write = database.begin_write().map_err(|error| failed(&error))?;
        {
            let mut table = write.open_table(TABLE).map_err(|error| failed(&error))?;
            let sum = ContentSum::of(&table, self.shared.seals.sum_key()?)?;
            sum.write(&mut table, &self.shared.seals)?;
        }
        write.commit().map_err(|error| failed(&error))
    }
}
