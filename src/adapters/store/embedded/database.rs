//! The database in its file: opened, checked, seen as an ordered map.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, ReadableDatabase as _, ReadableTable, StorageError, TableDefinition};

use super::super::layout::{self, FORMAT, Item};
use super::super::look::{self, Pair, View};
use super::super::plan::{Change, puts};
use super::medium::{Access, InFolder, Medium, Trouble};
use crate::commit::{StoreFault, StoreTime};

pub(super) const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("store");
/// The file in the store's folder.
pub const FILE: &str = "store.redb";

/// Why a store cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    Locked(PathBuf),
    /// A later version of Sluice wrote it.
    Newer {
        found: u64,
    },
    /// There is no store in the folder.
    Missing(PathBuf),
    File(PathBuf, io::Error),
    Database(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked(folder) => write!(
                f,
                "the store in `{}` is in use by another process: stop that process, or name another folder",
                folder.display()
            ),
            OpenError::Newer { found } => write!(
                f,
                "the store has format {found}, and this version of Sluice knows formats up to {FORMAT}: use the version \
                 that wrote it, or a later one"
            ),
            OpenError::Missing(folder) => write!(f, "there is no store in `{}`: name its folder", folder.display()),
            OpenError::File(path, error) => write!(f, "`{}` cannot be opened: {error}", path.display()),
            OpenError::Database(why) => write!(f, "the store cannot be opened: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// The file of a folder, locked for this process.
pub(super) fn locked(folder: &Path, create: bool) -> Result<InFolder, OpenError> {
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
    // The name of a new file is on disk before anything is promised to be.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(InFolder { file, folder: folder.to_owned() })
}

/// A database over a medium, for as long as nothing fails on it.
#[derive(Debug)]
pub(super) struct Opened {
    pub database: Arc<Database>,
    is_over: Arc<AtomicBool>,
}

impl Opened {
    pub fn new(medium: &Arc<dyn Medium>, trouble: &Arc<Trouble>) -> Result<Opened, OpenError> {
        trouble.mend(&**medium).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let access = Access { medium: Arc::clone(medium), trouble: Arc::clone(trouble), is_over: Arc::clone(&is_over) };
        let database = redb::Builder::new().create_with_backend(access).map_err(failed)?;
        let opened = Opened { database: Arc::new(database), is_over };
        match opened.format()? {
            Some(FORMAT) => {}
            Some(found) => return Err(OpenError::Newer { found }),
            None => opened.begin()?,
        }
        Ok(opened)
    }

    /// Nothing of it touches the file from now on.
    pub fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// The latest time of a commit.
    pub fn latest(&self) -> Result<StoreTime, OpenError> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(TABLE).map_err(failed)?;
        look::time(&Map(&table)).map_err(failed)
    }

    /// None in a new file.
    fn format(&self) -> Result<Option<u64>, OpenError> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = match read.open_table(TABLE) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table.map_err(failed)?,
        };
        match Map(&table).item(&layout::format()).map_err(failed)? {
            Some(Item::Format(format)) => Ok(Some(format)),
            _ => Err(OpenError::Database("it does not say which format it has".to_owned())),
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

/// A table as the ordered map that commits are planned on.
pub(super) struct Map<'t, T>(pub &'t T);

impl<T: ReadableTable<&'static [u8], &'static [u8]>> View for Map<'_, T> {
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

pub(super) type Table<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

pub(super) fn make(table: &mut Table<'_>, changes: Vec<Change>) -> Result<(), StoreFault> {
    for change in changes {
        match change {
            Change::Put(key, value) => drop(table.insert(key.as_slice(), value.as_slice()).map_err(fault)?),
            Change::Remove(key) => drop(table.remove(key.as_slice()).map_err(fault)?),
        }
    }
    Ok(())
}

pub(super) fn fault(error: StorageError) -> StoreFault {
    match error {
        StorageError::Corrupted(why) => StoreFault::Broken(why),
        error => StoreFault::Away(error.to_string()),
    }
}
