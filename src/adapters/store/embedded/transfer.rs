//! The embedded store as a whole: written out, taken in, copied. No gate may have it open.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use redb::ReadableDatabase as _;
use redb::ReadableTable as _;

use super::super::dump::{self, Header, Line, Tally};
use super::super::layout::Item;
use super::super::look::{self, View as _};
use super::super::plan::{self, puts};
use super::database::{Map, OpenError, Opened, TABLE, Table, locked, make};
use super::medium::{Medium, Trouble};
use crate::base::ids::Environment;
use crate::commit::{CommitError, NodeId, Number, StoreFault, StoreTime};
use crate::stations::claim::{self, Freeze};

/// How much is read in one go.
const STRIDE: usize = 1_000;

/// Why a store could not be written out, taken in or copied.
#[derive(Debug)]
pub enum TransferError {
    Open(OpenError),
    Store(StoreFault),
    Database(String),
    /// What is read or written beside the store.
    File(io::Error),
    /// The export is wrong in this line.
    Line(u64, String),
    /// The export is cut or changed.
    Incomplete,
    NotEmpty,
    /// The Redis cannot be used.
    Redis(String),
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::Open(error) => error.fmt(f),
            TransferError::Store(fault) => fault.fmt(f),
            TransferError::Database(why) => write!(f, "the store failed: {why}"),
            TransferError::File(error) => error.fmt(f),
            TransferError::Line(line, why) => write!(f, "line {line} cannot be taken in: {why}"),
            TransferError::Incomplete => f.write_str("the export was cut or changed: export it again"),
            TransferError::Redis(why) => f.write_str(why),
            TransferError::NotEmpty => f.write_str("there is a store with content already: name an empty folder"),
        }
    }
}

impl std::error::Error for TransferError {}

/// Writes everything out as lines of JSON; says how many.
///
/// `told` hears how far it is.
pub fn export(folder: &Path, out: &mut dyn Write, told: &mut dyn FnMut(u64)) -> Result<u64, TransferError> {
    let medium: Arc<dyn Medium> = Arc::new(locked(folder, false).map_err(TransferError::Open)?);
    let opened = Opened::new(&medium, &Arc::new(Trouble::default())).map_err(TransferError::Open)?;
    let read = opened.database.begin_read().map_err(failed)?;
    let table = read.open_table(TABLE).map_err(failed)?;
    let map = Map(&table);

    let mut tally = Tally::default();
    let mut write = |line: &str, tally: &mut Tally| {
        tally.add(line);
        told(tally.items());
        writeln!(out, "{line}").map_err(TransferError::File)
    };
    write(&header(&map)?.line(), &mut tally)?;
    let mut from = Vec::new();
    loop {
        let stride = map.range(&from, &[u8::MAX], STRIDE).map_err(TransferError::Store)?;
        for (key, value) in &stride {
            if let Some(line) = dump::line(&Item::read(key, value).map_err(TransferError::Store)?) {
                write(&line, &mut tally)?;
            }
        }
        let Some((key, _)) = stride.into_iter().last() else { break };
        from = key;
        from.push(0);
    }
    let count = tally.items();
    writeln!(out, "{}", tally.end()).and_then(|()| out.flush()).map_err(TransferError::File)?;
    Ok(count)
}

/// Takes an export into an empty store, all of it or nothing, and closes the store for money; says how many lines.
pub fn import(
    folder: &Path,
    lines: &mut dyn BufRead,
    node: &NodeId,
    clock: StoreTime,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let medium: Arc<dyn Medium> = Arc::new(locked(folder, true).map_err(TransferError::Open)?);
    let opened = Opened::new(&medium, &Arc::new(Trouble::default())).map_err(TransferError::Open)?;
    let write = opened.database.begin_write().map_err(failed)?;
    let count = {
        let mut table = write.open_table(TABLE).map_err(failed)?;
        if table.iter().map_err(failed)?.nth(1).is_some() {
            return Err(TransferError::NotEmpty);
        }
        let put = &mut |item: Item| make(&mut table, puts(&item)).map_err(TransferError::Store);
        let count = take_in(lines, told, put)?;
        close_all(&mut table, node, clock)?;
        count
    };
    write.commit().map_err(failed)?;
    Ok(count)
}

/// Copies the file to a new one, reads the copy to its end to see that it is whole, and closes the copy for money: who
/// goes back to it begins with what was so then.
pub fn backup(folder: &Path, to: &Path, node: &NodeId, clock: StoreTime) -> Result<u64, TransferError> {
    let store = locked(folder, false).map_err(TransferError::Open)?;
    let mut from = store.file.try_clone().map_err(TransferError::File)?;
    let medium: Arc<dyn Medium> = Arc::new(store);
    // Opened and closed: what a crash left behind is repaired.
    drop(Opened::new(&medium, &Arc::new(Trouble::default())).map_err(TransferError::Open)?);
    let mut copy =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to).map_err(TransferError::File)?;
    let copied = copied(&mut from, &mut copy, to, node, clock);
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
        return Err(TransferError::Database("what was copied is damaged".to_owned()));
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

fn header(map: &Map<'_, redb::ReadOnlyTable<&'static [u8], &'static [u8]>>) -> Result<Header, TransferError> {
    let mut last = Vec::new();
    for environment in Environment::ALL {
        let number = look::last(map, environment).map_err(TransferError::Store)?;
        if number > 0 {
            last.push((environment, Number::new(number)));
        }
    }
    Ok(Header { time: look::time(map).map_err(TransferError::Store)?, last })
}

/// Every item of an export, in its order; says how many lines it had, if all of them are there.
pub(in crate::adapters::store) fn take_in(
    lines: &mut dyn BufRead,
    told: &mut dyn FnMut(u64),
    put: &mut dyn FnMut(Item) -> Result<(), TransferError>,
) -> Result<u64, TransferError> {
    let mut tally = Tally::default();
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line).map_err(TransferError::File)? == 0 {
            return Err(TransferError::Incomplete);
        }
        let text = line.trim_end_matches('\n');
        let wrong = |why| TransferError::Line(tally.items().saturating_add(1), why);
        let items: Vec<Item> = if tally.items() == 0 {
            Header::read(text).map_err(wrong)?.items().collect()
        } else {
            match dump::read(text).map_err(wrong)? {
                Line::Item(item) => vec![item],
                Line::End => break,
            }
        };
        for item in items {
            put(item)?;
        }
        tally.add(text);
        told(tally.items());
    }
    let count = tally.items();
    if line.trim_end_matches('\n') == tally.end() { Ok(count) } else { Err(TransferError::Incomplete) }
}

fn close_all(table: &mut Table<'_>, node: &NodeId, clock: StoreTime) -> Result<(), TransferError> {
    Environment::ALL.into_iter().try_for_each(|environment| close(table, environment, node, clock))
}

/// Closes an environment for money until somebody opens it.
fn close(
    table: &mut Table<'_>,
    environment: Environment,
    node: &NodeId,
    clock: StoreTime,
) -> Result<(), TransferError> {
    let key = Freeze::Restored.key(environment);
    let before = look::record(&Map(table), &key, clock).map_err(TransferError::Store)?;
    let before = before.map(|record| record.version);
    let why = ("sluice store", "restored from an export or a backup");
    let commit = claim::restored(environment, before, Number::new(0), why, node);
    let planned = plan::plan(&Map(table), clock, &commit).map_err(|error| match error {
        CommitError::Fault(fault) => TransferError::Store(fault),
        CommitError::Stood { .. } => TransferError::Database("its freeze stands in the way".to_owned()),
    })?;
    make(table, planned.changes).map_err(TransferError::Store)
}

fn failed(error: impl fmt::Display) -> TransferError {
    TransferError::Database(error.to_string())
}
