//! Export, import and backup of the whole embedded store. No gate may have it open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::ReadableDatabase as _;
use redb::ReadableTable as _;
use thiserror::Error;

use super::super::dump::{self, DumpHeader, DumpLine, DumpTally};
use super::super::dump_writer::DumpWriter;
use super::super::layout::Item;
use super::super::plan::{self, puts};
use super::database::{
    CACHE_BYTES, FILE, KeySpace, OpenError, OpenedDatabase, ReadTable, StoreTable, TABLE, locked, make,
    unless_it_panics,
};
use super::medium::{Medium, Trouble};
use super::{content_sum, journal_mark};
use crate::adapters::store::queries;
use crate::adapters::store::queries::StoreView as _;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::ledger::{CommitError, InstallationId, NodeId, Number, StoreFault, StoreTime};
use crate::stations::claim::{self, Freeze};

/// How many items are read at a time.
const STRIDE: usize = 1_000;

/// Why a store could not be exported, imported or copied.
#[derive(Debug, Error)]
pub enum TransferError {
    #[error(transparent)]
    Open(OpenError),
    /// The file cannot be read, so nothing can be copied from it.
    #[error("{0}; start its gate, which builds the store anew from its journal, end it in order, and try again")]
    Unreadable(OpenError),
    #[error(transparent)]
    Store(StoreFault),
    #[error("the store failed: {0}")]
    Database(String),
    /// A file outside the store failed.
    #[error("{0}")]
    File(io::Error),
    /// This line of the export is invalid.
    #[error("line {0} cannot be imported: {1}")]
    Line(u64, String),
    /// The export has no end line.
    #[error("line {0} is the last one, but no end line: the export was cut; use another copy of it, or export again")]
    Cut(u64),
    #[error(
        "this is no export of a store: name a file that `sluice store export`, or `sluice store backup --redis`, wrote; the \
         backup of an embedded store is put into an empty folder as `store.redb`"
    )]
    NoExport,
    /// The end line does not prove the lines before it.
    #[error(
        "the end line does not fit the lines before it: the export was altered; use another copy of it, or export again"
    )]
    Altered,
    #[error("`{}` already contains a store: name an empty folder", .0.display())]
    FolderInUse(PathBuf),
    #[error(
        "the Redis already contains a store, or a part of one that was not imported whole: name an empty one in \
         `redis.url`, or empty this one if nothing in it is needed"
    )]
    RedisInUse,
    #[error("the Redis holds no store of {0}: check `redis.url` and its database")]
    NoStore(Environment),
    #[error(
        "the Redis lost data of {0}, and no gate has built its store anew: start the gates, wait until `sluice doctor` \
         finds nothing, stop them, and try again"
    )]
    Lost(Environment),
    /// Gates use the Redis.
    #[error(
        "gates use the store in this Redis: {0}; stop all of them and try again, after one that was killed 5 seconds \
         later"
    )]
    Running(String),
    #[error(
        "the store changed while it was read, because a gate was started or the Redis was restarted: stop all gates and \
         try again"
    )]
    Changed,
}

/// Creates the store of an environment in a folder, for an installation if one is given. Returns the installation that it
/// belongs to then: the given one, or the one that it was created for before.
pub fn create(
    folder: &Path,
    environment: Environment,
    id: Option<&InstallationId>,
) -> Result<Option<InstallationId>, TransferError> {
    if id.is_none() && !folder.join(FILE).exists() {
        return Ok(None);
    }
    let medium: Arc<dyn Medium> = Arc::new(locked(folder, true).map_err(TransferError::Open)?);
    let opened =
        OpenedDatabase::new(&medium, &Arc::new(Trouble::default()), CACHE_BYTES).map_err(TransferError::Open)?;
    let write = opened.database.begin_write().map_err(failed)?;
    {
        let mut table = write.open_table(TABLE).map_err(failed)?;
        let map = KeySpace(&table);
        if let Some(id) = queries::created(&map, environment).map_err(TransferError::Store)? {
            return Ok(Some(id));
        }
        let Some(id) = id else { return Ok(None) };
        if queries::last(&map, environment).map_err(TransferError::Store)? > 0 {
            return Err(TransferError::FolderInUse(folder.to_owned()));
        }
        make(&mut table, puts(&Item::Created(environment, id.clone()))).map_err(TransferError::Store)?;
    }
    write.commit().map_err(failed)?;
    Ok(id.cloned())
}

/// Writes the whole store as lines of JSON; returns how many.
///
/// `told` hears how far it is.
pub fn export(folder: &Path, out: &mut dyn Write, told: &mut dyn FnMut(u64)) -> Result<u64, TransferError> {
    let medium: Arc<dyn Medium> = Arc::new(locked(folder, false).map_err(unreadable)?);
    journal_mark::check(folder).map_err(TransferError::Open)?;
    let opened = OpenedDatabase::new(&medium, &Arc::new(Trouble::default()), CACHE_BYTES).map_err(unreadable)?;
    read_whole(|| {
        let read = opened.database.begin_read().map_err(failed)?;
        write_out(&read.open_table(TABLE).map_err(failed)?, out, told)
    })
}

/// Reads a whole database; one whose pages make redb panic is damaged.
fn read_whole<T>(work: impl FnOnce() -> Result<T, TransferError>) -> Result<T, TransferError> {
    match unless_it_panics(work) {
        Err(why) => Err(unreadable(OpenError::Damaged(why))),
        Ok(Err(TransferError::Store(StoreFault::Broken(why)))) => Err(unreadable(OpenError::Damaged(why))),
        Ok(done) => done,
    }
}

fn unreadable(error: OpenError) -> TransferError {
    match error {
        OpenError::Empty(_) | OpenError::Damaged(_) => TransferError::Unreadable(error),
        error => TransferError::Open(error),
    }
}

/// Writes every item of a table.
pub(in crate::adapters::store) fn write_out(
    table: &ReadTable,
    out: &mut dyn Write,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let map = KeySpace(table);
    let mut writer = DumpWriter::begin(out, told, &header(&map)?).map_err(TransferError::File)?;
    let mut from = Vec::new();
    loop {
        let stride = map.range(&from, &[u8::MAX], STRIDE).map_err(TransferError::Store)?;
        for (key, value) in &stride {
            let item = Item::read(key, value).map_err(TransferError::Store)?;
            writer.item(&item).map_err(TransferError::File)?;
        }
        let Some((key, _)) = stride.into_iter().last() else { break };
        from = key;
        from.push(0);
    }
    writer.end().map_err(TransferError::File)
}

/// Imports an export into an empty store, all of it or nothing, and closes the store for money; returns how many lines.
pub fn import(
    folder: &Path,
    lines: &mut dyn BufRead,
    node: &NodeId,
    clock: StoreTime,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let medium: Arc<dyn Medium> = Arc::new(locked(folder, true).map_err(TransferError::Open)?);
    let opened =
        OpenedDatabase::new(&medium, &Arc::new(Trouble::default()), CACHE_BYTES).map_err(TransferError::Open)?;
    let write = opened.database.begin_write().map_err(failed)?;
    let count = {
        let mut table = write.open_table(TABLE).map_err(failed)?;
        if table.iter().map_err(failed)?.nth(1).is_some() {
            return Err(TransferError::FolderInUse(folder.to_owned()));
        }
        let put = &mut |item: Item| make(&mut table, puts(&item)).map_err(TransferError::Store);
        let count = take_in(lines, told, put)?;
        close_all(&mut table, node, clock)?;
        count
    };
    write.commit().map_err(failed)?;
    Ok(count)
}

/// Copies the file to a new one, reads the whole copy to check it, and closes the copy for money: a gate that starts
/// from the copy moves no money until a person opens the environment.
pub fn backup(folder: &Path, to: &Path, node: &NodeId, clock: StoreTime) -> Result<u64, TransferError> {
    let store = locked(folder, false).map_err(unreadable)?;
    journal_mark::check(folder).map_err(TransferError::Open)?;
    let mut from = store.file.try_clone().map_err(TransferError::File)?;
    let medium: Arc<dyn Medium> = Arc::new(store);
    // Opening and closing the file repairs what a crash left behind.
    drop(OpenedDatabase::new(&medium, &Arc::new(Trouble::default()), CACHE_BYTES).map_err(unreadable)?);
    let mut copy =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to).map_err(TransferError::File)?;
    let copied = read_whole(|| copied(&mut from, &mut copy, to, node, clock));
    if copied.is_err() {
        fs::remove_file(to).map_err(TransferError::File)?;
    }
    copied
}

fn copied(from: &mut File, copy: &mut File, to: &Path, node: &NodeId, clock: StoreTime) -> Result<u64, TransferError> {
    io::Seek::rewind(from).map_err(TransferError::File)?;
    let length = io::copy(from, copy).map_err(TransferError::File)?;
    let mut database = redb::Database::open(to).map_err(failed)?;
    if !database.check_integrity().map_err(failed)? {
        return Err(unreadable(OpenError::Damaged("its pages do not have their checksums".to_owned())));
    }
    let write = database.begin_write().map_err(failed)?;
    {
        let mut table = write.open_table(TABLE).map_err(failed)?;
        close_all(&mut table, node, clock)?;
    }
    write.commit().map_err(failed)?;
    drop(database);
    copy.sync_all().map_err(TransferError::File)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(TransferError::File)?;
    Ok(length)
}

fn header(map: &KeySpace<'_, ReadTable>) -> Result<DumpHeader, TransferError> {
    let mut last = Vec::new();
    for environment in Environment::ALL {
        let number = queries::last(map, environment).map_err(TransferError::Store)?;
        if number > 0 {
            last.push((environment, Number::new(number)));
        }
    }
    Ok(DumpHeader { time: queries::time(map).map_err(TransferError::Store)?, last })
}

/// Reads every item of an export, in order; returns how many lines it had, if none is missing.
pub(in crate::adapters::store) fn take_in(
    lines: &mut dyn BufRead,
    told: &mut dyn FnMut(u64),
    put: &mut dyn FnMut(Item) -> Result<(), TransferError>,
) -> Result<u64, TransferError> {
    let mut tally = DumpTally::default();
    let mut line = Vec::new();
    let end = loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(TransferError::File)? == 0 {
            return Err(if tally.items() == 0 { TransferError::NoExport } else { TransferError::Cut(tally.items()) });
        }
        let nth = tally.items().saturating_add(1);
        if nth == 1 && !dump::begins_header(&line) {
            return Err(TransferError::NoExport);
        }
        let wrong = |why| TransferError::Line(nth, why);
        let bytes = line.strip_suffix(b"\n").ok_or(TransferError::Cut(nth))?;
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let items: Vec<Item> = if tally.items() == 0 {
            DumpHeader::read(text).map_err(wrong)?.items().collect()
        } else {
            match dump::parse_line(text).map_err(wrong)? {
                DumpLine::Item(item) => vec![item],
                DumpLine::End => break text,
            }
        };
        for item in items {
            put(item)?;
        }
        tally.add(text);
        told(tally.items());
    };
    let count = tally.items();
    if end != tally.end() {
        return Err(TransferError::Altered);
    }
    match lines.fill_buf().map_err(TransferError::File)? {
        [] => Ok(count),
        _ => Err(TransferError::Line(count.saturating_add(2), "it stands behind the end line".to_owned())),
    }
}

/// Reads a whole export, and returns how many lines it has; fails where it is not what was written.
pub fn verify(lines: &mut dyn BufRead, told: &mut dyn FnMut(u64)) -> Result<u64, TransferError> {
    take_in(lines, told, &mut |_| Ok(()))
}

fn close_all(table: &mut StoreTable<'_>, node: &NodeId, clock: StoreTime) -> Result<(), TransferError> {
    // A gate sums the content up at its start: it is closed by then.
    content_sum::forget(table).map_err(TransferError::Store)?;
    Environment::ALL.into_iter().try_for_each(|environment| close(table, environment, node, clock))
}

/// Closes an environment for money until a person opens it.
fn close(
    table: &mut StoreTable<'_>,
    environment: Environment,
    node: &NodeId,
    clock: StoreTime,
) -> Result<(), TransferError> {
    let key = Freeze::Restored.key(environment);
    let before = queries::record(&KeySpace(table), &key, clock).map_err(TransferError::Store)?;
    let before = before.map(|record| record.version);
    let why = ("sluice store", "restored from an export or a backup");
    let commit = claim::restored(environment, before, Number::new(0), why, node);
    // A journal holds the whole commit. No key is at hand here, and none is needed: it only closes money.
    let commit = Seals::default().sealed_commit(commit).map_err(TransferError::Store)?;
    let planned = plan::plan(&KeySpace(table), clock, &commit).map_err(|error| match error {
        CommitError::Fault(fault) => TransferError::Store(fault),
        CommitError::Rejected { .. } => TransferError::Database("the environment is already frozen".to_owned()),
    })?;
    make(table, planned.changes).map_err(TransferError::Store)
}

fn failed(error: impl Into<redb::Error>) -> TransferError {
    let is_cut = |error: &io::Error| matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData);
    match error.into() {
        redb::Error::Corrupted(why) => unreadable(OpenError::Damaged(why)),
        redb::Error::Io(error) if is_cut(&error) => unreadable(OpenError::Damaged(error.to_string())),
        error => TransferError::Database(error.to_string()),
    }
}
