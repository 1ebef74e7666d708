//! The database file: opens it, checks its format, and reads it as an ordered map.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, Durability, ReadableDatabase as _, ReadableTable, StorageError, TableDefinition};
use thiserror::Error;

use super::super::layout::{self, FORMAT, Item};
use super::super::plan::{PlannedChange, puts};
use super::medium::{Access, InFolder, Medium, Trouble};
use crate::adapters::store::queries;
use crate::adapters::store::queries::{Pair, ShowPair, StoreView};
use crate::base::ids::Environment;
use crate::ledger::{StoreFault, StoreTime};

pub(in crate::adapters::store) const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("store");
/// The name of the database file in the store's folder.
pub const FILE: &str = "store.redb";

/// The memory that a database may use to keep pages; reading the whole file after a crash stays within it, too.
pub(in crate::adapters::store) const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error("the store in `{}` is in use by another process: stop that process, or name another folder", .0.display())]
    Locked(PathBuf),
    /// Another version of Sluice wrote the store.
    #[error(
        "the store has format {found}, and this version of Sluice knows format {FORMAT}: use the version that wrote it"
    )]
    OtherFormat { found: u64 },
    /// The gate that used the store did not end in order.
    #[error(
        "the gate of the store in `{}` was killed: its last commits may be in its journal alone; start that gate, end it in \
         order, and try again", .0.display()
    )]
    NeedsJournal(PathBuf),
    /// The folder contains no store.
    #[error("there is no store in `{}`: give the folder that contains `store.redb`", .0.display())]
    Missing(PathBuf),
    #[error("`{path}` cannot be opened: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    #[error("the store cannot be opened: {0}")]
    Database(String),
}

/// Opens the file in a folder and locks it for this process.
pub(in crate::adapters::store) fn locked(folder: &Path, create: bool) -> Result<InFolder, OpenError> {
    let path = folder.join(FILE);
    let failed = |error| OpenError::File(path.clone(), error);
    if create {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let opened = OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(&path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::Missing(folder.to_owned())),
        opened => opened.map_err(failed)?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // The name of a new file must be on disk before any commit is confirmed.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(InFolder { file, folder: folder.to_owned() })
}

/// A database over a medium, used until something fails on it.
#[derive(Debug)]
pub(in crate::adapters::store) struct OpenedDatabase {
    pub database: Arc<Database>,
    is_over: Arc<AtomicBool>,
}

impl OpenedDatabase {
    pub fn new(
        medium: &Arc<dyn Medium>,
        trouble: &Arc<Trouble>,
        cache_bytes: usize,
    ) -> Result<OpenedDatabase, OpenError> {
        trouble.mend(&**medium).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let access = Access { medium: Arc::clone(medium), trouble: Arc::clone(trouble), is_over: Arc::clone(&is_over) };
        let database = redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(access).map_err(failed)?;
        let opened = OpenedDatabase { database: Arc::new(database), is_over };
        match opened.format()? {
            Some(FORMAT) => {}
            Some(found) => return Err(OpenError::OtherFormat { found }),
            None => opened.begin()?,
        }
        Ok(opened)
    }

    /// Closes the database; nothing of it touches the file from now on.
    pub fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Returns the latest time of a commit.
    pub fn latest(&self) -> Result<StoreTime, OpenError> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(TABLE).map_err(failed)?;
        queries::time(&KeySpace(&table)).map_err(failed)
    }

    /// Returns the format version; `None` in a new file.
    fn format(&self) -> Result<Option<u64>, OpenError> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = match read.open_table(TABLE) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table.map_err(failed)?,
        };
        match KeySpace(&table).item(&layout::format()).map_err(failed)? {
            Some(Item::Format(format)) => Ok(Some(format)),
            _ => Err(OpenError::Database("its format version is unreadable".to_owned())),
        }
    }

    fn begin(&self) -> Result<(), OpenError> {
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut table = write.open_table(TABLE).map_err(failed)?;
            make(&mut table, puts(&Item::Format(FORMAT))).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }
}

fn failed(error: impl fmt::Display) -> OpenError {
    OpenError::Database(error.to_string())
}

/// A table as the ordered map on which commits are planned.
pub(in crate::adapters::store) struct KeySpace<'t, T>(pub &'t T);

impl<T: ReadableTable<&'static [u8], &'static [u8]>> StoreView for KeySpace<'_, T> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
        Ok(self.0.get(key).map_err(fault)?.map(|value| value.value().to_vec()))
    }

    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let found = self.0.range::<&[u8]>(from..to).map_err(fault)?;
        found
            .take(count)
            .map(|pair| pair.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).map_err(fault))
            .collect()
    }

    fn each_of_window(&self, window: &[u8], from: &[u8], show: &mut ShowPair<'_>) -> Result<(), StoreFault> {
        let end = layout::behind(window);
        if *from >= *end {
            return Ok(());
        }
        for pair in self.0.range::<&[u8]>(from..end.as_slice()).map_err(fault)? {
            let (key, value) = pair.map_err(fault)?;
            show(key.value().get(window.len()..).unwrap_or_default(), value.value())?;
        }
        Ok(())
    }

    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let found = self.0.range::<&[u8]>(from..to).map_err(fault)?;
        found
            .rev()
            .take(count)
            .map(|pair| pair.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).map_err(fault))
            .collect()
    }
}

/// The table as it stood when it was opened.
pub(in crate::adapters::store) type ReadTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;
pub(in crate::adapters::store) type StoreTable<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

pub(in crate::adapters::store) fn make(
    table: &mut StoreTable<'_>,
    changes: Vec<PlannedChange>,
) -> Result<(), StoreFault> {
    for change in changes {
        match change {
            PlannedChange::Put(key, value) => drop(table.insert(key.as_slice(), value.as_slice()).map_err(fault)?),
            PlannedChange::Remove(key) => drop(table.remove(key.as_slice()).map_err(fault)?),
        }
    }
    Ok(())
}

/// When a transaction comes to the disk of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters::store) enum SyncTime {
    /// Before it is confirmed.
    Now,
    /// With a later one.
    Later,
}

/// Makes one transaction.
pub(in crate::adapters::store) fn transact(
    database: &Database,
    synced: SyncTime,
    work: impl FnOnce(&mut StoreTable<'_>) -> Result<(), StoreFault>,
) -> Result<(), String> {
    let mut write = database.begin_write().map_err(|error| error.to_string())?;
    match synced {
        // What pages are free is written with it, so that a start after a crash need not read the whole file.
        SyncTime::Now => write.set_quick_repair(true),
        SyncTime::Later => write.set_durability(Durability::None).map_err(|error| error.to_string())?,
    }
    {
        let mut table = write.open_table(TABLE).map_err(|error| error.to_string())?;
        work(&mut table).map_err(|fault| fault.to_string())?;
    }
    write.commit().map_err(|error| error.to_string())
}

/// Returns the latest number of each environment.
pub(in crate::adapters::store) fn lasts(database: &Database) -> Result<Vec<(Environment, u64)>, String> {
    let read = database.begin_read().map_err(|error| error.to_string())?;
    let table = read.open_table(TABLE).map_err(|error| error.to_string())?;
    let last = |environment| queries::last(&KeySpace(&table), environment).map(|last| (environment, last));
    Environment::ALL.into_iter().map(last).collect::<Result<_, _>>().map_err(|fault| fault.to_string())
}

pub(in crate::adapters::store) fn fault(error: StorageError) -> StoreFault {
    match error {
        StorageError::Corrupted(why) => StoreFault::Broken(why),
        error => StoreFault::Away(error.to_string()),
    }
}
