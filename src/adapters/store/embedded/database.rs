//! The database file: opens it, checks its format, and reads it as an ordered map.

use std::cell::Cell;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable, StorageError, TableDefinition,
    TableError, TransactionError,
};
use thiserror::Error;

use super::super::layout::{self, FORMAT, Item};
use super::super::plan::{PlannedChange, puts};
use super::medium::{Access, InFolder, Medium, OfFile, Trouble};
use crate::adapters::disk_trouble::is_trouble;
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
    /// A file system that crashed or a copy that failed left the name alone.
    #[error("the file of the store in `{}` is empty: what it held is lost", .0.display())]
    Empty(PathBuf),
    #[error("`{path}` cannot be opened: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    #[error("the store cannot be opened: {0}")]
    Database(String),
    /// Its bytes are not those of a store: the disk lost or changed some, or somebody did.
    #[error("the file of the store is damaged: {0}")]
    Damaged(String),
}

impl OpenError {
    /// Whether the disk is in trouble, which may pass: nobody configured something wrong, and nothing is damaged.
    pub fn may_pass(&self) -> bool {
        match self {
            OpenError::File(_, error) => is_trouble(error),
            OpenError::Database(_) => true,
            OpenError::Locked(_)
            | OpenError::OtherFormat { .. }
            | OpenError::NeedsJournal(_)
            | OpenError::Missing(_)
            | OpenError::Empty(_)
            | OpenError::Damaged(_) => false,
        }
    }
}

impl OfFile for OpenError {
    fn told_from_damage(self, disk: String) -> OpenError {
        match self {
            OpenError::Damaged(_) => OpenError::Database(disk),
            error => error,
        }
    }
}

/// Opens the file in a folder and locks it for this process. Whoever creates none leaves an empty one as it is: redb would
/// make a database of it.
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
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("this is not a regular file")));
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // Whoever had the lock may have put another file in its place.
    if fs::metadata(&path).map(|now| (now.dev(), now.ino())).ok() != Some((metadata.dev(), metadata.ino())) {
        return Err(OpenError::Locked(folder.to_owned()));
    }
    if !create && metadata.len() == 0 {
        return Err(OpenError::Empty(folder.to_owned()));
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
    /// Opens the database; one that is damaged is an error, where redb panics, too.
    pub fn new(
        medium: &Arc<dyn Medium>,
        trouble: &Arc<Trouble>,
        cache_bytes: usize,
    ) -> Result<OpenedDatabase, OpenError> {
        trouble.told_from_damage(|| {
            unless_it_panics(|| OpenedDatabase::within(medium, trouble, cache_bytes))
                .unwrap_or_else(|why| Err(OpenError::Damaged(why)))
        })
    }

    fn within(
        medium: &Arc<dyn Medium>,
        trouble: &Arc<Trouble>,
        cache_bytes: usize,
    ) -> Result<OpenedDatabase, OpenError> {
        trouble.mend(&**medium).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let access = Access { medium: Arc::clone(medium), trouble: Arc::clone(trouble), is_over: Arc::clone(&is_over) };
        let database =
            redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(access).map_err(unopened)?;
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
        let latest = || queries::time(&KeySpace(&latest_table(&self.database)?));
        unless_it_panics(latest).unwrap_or_else(|why| Err(StoreFault::Broken(why))).map_err(unread)
    }

    /// Returns the format version; `None` in a new file.
    fn format(&self) -> Result<Option<u64>, OpenError> {
        let read = self.database.begin_read().map_err(|error| unread(transaction_fault(error)))?;
        let table = match read.open_table(TABLE) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table.map_err(|error| unread(table_fault(error)))?,
        };
        match KeySpace(&table).item(&layout::format()).map_err(unread)? {
            Some(Item::Format(format)) => Ok(Some(format)),
            _ => Err(OpenError::Damaged("its format version is unreadable".to_owned())),
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

thread_local! {
    /// Whether a panic of this thread is told by `unless_it_panics`, and not on standard error.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a database, and says how it panicked: redb does so on some damaged pages. The database is not used again.
pub(in crate::adapters::store) fn unless_it_panics<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if !IS_TOLD.get() {
                before(panicked);
            }
        }));
    });
    let was_told = IS_TOLD.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    IS_TOLD.set(was_told);
    done.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        format!("reading or writing it panicked: {text}")
    })
}

fn unopened(error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::Storage(error) => unread(fault(error)),
        DatabaseError::UpgradeRequired(found) => OpenError::OtherFormat { found: u64::from(found) },
        error => failed(error),
    }
}

fn unread(fault: StoreFault) -> OpenError {
    match fault {
        StoreFault::Broken(why) => OpenError::Damaged(why),
        fault => failed(fault),
    }
}

/// Returns the table in its latest complete transaction.
pub(in crate::adapters::store) fn latest_table(database: &Database) -> Result<ReadTable, StoreFault> {
    database.begin_read().map_err(transaction_fault)?.open_table(TABLE).map_err(table_fault)
}

pub(super) fn transaction_fault(error: TransactionError) -> StoreFault {
    match error {
        TransactionError::Storage(error) => fault(error),
        error => StoreFault::Away(error.to_string()),
    }
}

pub(super) fn table_fault(error: TableError) -> StoreFault {
    match error {
        TableError::Storage(error) => fault(error),
        error => StoreFault::Broken(error.to_string()),
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
        // The file is shorter than its content, or begins otherwise.
        StorageError::Io(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
        {
            StoreFault::Broken(error.to_string())
        }
        error => StoreFault::Away(error.to_string()),
    }
}
