//! One node's files, written by one thread: lines are on disk before it says so, or they are not there.
//!
//! After a write or a sync that failed, nothing behind the last good sync is trusted: the file is opened again and cut
//! back to there before anything else is written.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, DiskFile, write_all};
use super::folder::audit_file;
use super::remembered::{Key, Remembered};
use crate::base::ids::Environment;
use crate::chain::{Hash, Header, Highest, Statement, Text};
use crate::commit::{NodeId, StoreTime};
use crate::ports::Clock;

/// What a full or failing disk is tried with.
const PROBE: [u8; 4096] = [b' '; 4096];

/// An Entry, ready to be written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) environment: Environment,
    pub(super) number: u64,
    pub(super) text: Text,
}

/// Where the files are, and how they grow.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) node: NodeId,
    pub(super) rotate_bytes: u64,
}

/// Why entries are not on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another Entry stands under one of their numbers.
    Clash(String),
    Disk(String),
}

/// For each list of entries.
pub(super) type Results = Vec<Result<(), Refusal>>;

/// How far the newest file is synced.
#[derive(Clone, Debug)]
pub(super) struct Tip {
    pub(super) sequence: u64,
    pub(super) lines: u64,
    pub(super) length: u64,
    pub(super) hash: Hash,
    /// Days since 1970 when it was begun.
    pub(super) day: i64,
    pub(super) highest: Highest,
}

#[derive(Debug)]
pub(super) struct Log {
    disk: Box<dyn Disk>,
    clock: Arc<dyn Clock>,
    place: Place,
    tip: Tip,
    /// `None` after a failure, until it is opened again.
    file: Option<Box<dyn DiskFile>>,
    /// A file that could not be begun.
    leftover: Option<PathBuf>,
    remembered: Remembered,
    /// Files that ended since they were last asked for.
    ended: Vec<Statement>,
}

/// Lines that are to be written and synced together.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    /// As it is afterwards.
    tip: Tip,
    added: Vec<(Key, Hash)>,
}

impl Log {
    /// Goes on behind `tip`; `None` begins the first file.
    pub(super) fn new(
        disk: Box<dyn Disk>,
        clock: Arc<dyn Clock>,
        place: Place,
        tip: Option<Tip>,
        remembered: Remembered,
    ) -> io::Result<Log> {
        let is_new = tip.is_none();
        let nothing = Tip { sequence: 0, lines: 0, length: 0, hash: Hash::NOTHING, day: 0, highest: Highest::new() };
        let tip = tip.unwrap_or(nothing);
        let mut log = Log { disk, clock, place, tip, file: None, leftover: None, remembered, ended: Vec::new() };
        if is_new {
            log.begin()?
        } else {
            log.ready()?
        }
        Ok(log)
    }

    /// Each list of entries is on disk, or its fault says why it is not.
    pub(super) fn append(&mut self, lists: &[&[Prepared]]) -> Results {
        let (fresh, mut results) = match self.fresh(lists) {
            Ok(found) => found,
            Err(error) => return lists.iter().map(|_| Err(Refusal::Disk(error.to_string()))).collect(),
        };
        if let Err(error) = self.write(&fresh) {
            let fault = Refusal::Disk(self.failed(&error));
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(fault.clone());
            }
        }
        results
    }

    /// Whether something could be written now.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        let tried = self.try_to_write();
        if tried.is_err() {
            self.file = None;
        }
        tried
    }

    /// How far the newest file went.
    pub(super) fn statement(&self) -> Statement {
        let Tip { sequence, lines, length, hash, .. } = self.tip;
        Statement {
            node: self.place.node.clone(),
            sequence,
            lines,
            length,
            hash,
            highest: self.tip.highest.clone(),
            at: StoreTime::of_micros(self.clock.now().as_microsecond()),
        }
    }

    /// The last statements on files that were ended since this was last asked.
    pub(super) fn take_ended(&mut self) -> Vec<Statement> {
        std::mem::take(&mut self.ended)
    }

    /// What is not on disk yet, and for each list whether it may stand there at all.
    fn fresh<'p>(&self, lists: &[&'p [Prepared]]) -> io::Result<(Vec<&'p Prepared>, Results)> {
        let mut seen: HashMap<Key, Hash> = HashMap::new();
        let mut fresh = Vec::new();
        let mut results = Vec::with_capacity(lists.len());
        for list in lists {
            let mut new = Vec::new();
            let mut result = Ok(());
            for entry in *list {
                let key = (entry.environment, entry.number);
                let stands = match seen.get(&key) {
                    Some(content) => Some(*content),
                    None => self.remembered.find(key, &self.place.folder, &self.place.node)?,
                };
                match stands {
                    None => {
                        seen.insert(key, entry.text.content());
                        new.push(entry);
                    }
                    Some(content) if content == entry.text.content() => {}
                    Some(_) => result = Err(Refusal::Clash(clash(entry))),
                }
            }
            if result.is_ok() {
                fresh.append(&mut new);
            } else {
                for entry in new {
                    seen.remove(&(entry.environment, entry.number));
                }
            }
            results.push(result);
        }
        Ok((fresh, results))
    }

    fn write(&mut self, entries: &[&Prepared]) -> io::Result<()> {
        self.ready()?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut batch = self.batch();
        for entry in entries {
            if self.is_full(&batch.tip, entry.text.length()) {
                self.flush(batch)?;
                self.rotate()?;
                batch = self.batch();
            }
            batch.put(entry);
        }
        self.flush(batch)
    }

    fn batch(&self) -> Batch {
        Batch { bytes: Vec::new(), tip: self.tip.clone(), added: Vec::new() }
    }

    /// A file with an Entry in it ends with the day, or where another line would make it too long.
    fn is_full(&self, tip: &Tip, more: usize) -> bool {
        let too_long = tip.length.saturating_add(more as u64) > self.place.rotate_bytes;
        tip.lines > 1 && (too_long || self.today() > tip.day)
    }

    fn today(&self) -> i64 {
        self.clock.now().as_second().div_euclid(24 * 60 * 60)
    }

    fn flush(&mut self, batch: Batch) -> io::Result<()> {
        if batch.bytes.is_empty() {
            return Ok(());
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = file.length()?;
        if length != self.tip.length {
            return Err(io::Error::other(format!("it has {length} bytes where {} were written", self.tip.length)));
        }
        write_all(file.as_mut(), &batch.bytes)?;
        file.sync()?;
        self.tip = batch.tip;
        for (key, content) in batch.added {
            self.remembered.add(key, content);
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let ended = self.statement();
        self.begin()?;
        self.ended.push(ended);
        Ok(())
    }

    /// Begins the next file; it is the newest once its header is on disk.
    fn begin(&mut self) -> io::Result<()> {
        let sequence = self.tip.sequence.saturating_add(1);
        let path = audit_file(&self.place.folder, &self.place.node, sequence);
        let created = self.disk.create(&path);
        if !matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            self.leftover = Some(path.clone());
        }
        let mut file = created.map_err(|error| named(&path, &error))?;
        let at = StoreTime::of_micros(self.clock.now().as_microsecond());
        let header = Header { node: self.place.node.clone(), sequence, at, highest: self.tip.highest.clone() };
        let text = Text::of_header(&header).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        let hash = text.put_behind(self.tip.hash, &mut bytes);
        write_all(file.as_mut(), &bytes).and_then(|()| file.sync()).map_err(|error| named(&path, &error))?;
        let length = bytes.len() as u64;
        self.tip = Tip { sequence, lines: 1, length, hash, day: self.today(), highest: header.highest };
        self.file = Some(file);
        self.leftover = None;
        Ok(())
    }

    fn failed(&mut self, error: &io::Error) -> String {
        self.file = None;
        // Where this fails too, it is done before the next line is written.
        if let Err(also) = self.ready() {
            return format!("{error}; then {also}");
        }
        named(&self.path(), error).to_string()
    }

    /// The newest file is open, and ends where it was last synced.
    fn ready(&mut self) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let path = self.path();
        self.reopen(&path).map_err(|error| named(&path, &error))
    }

    fn reopen(&mut self, path: &Path) -> io::Result<()> {
        if let Some(leftover) = &self.leftover {
            self.disk.remove(leftover)?;
            self.leftover = None;
        }
        let mut file = self.disk.open(path)?;
        let length = file.length()?;
        if length < self.tip.length {
            return Err(io::Error::other(format!("it has {length} bytes where {} were synced", self.tip.length)));
        }
        file.cut(self.tip.length)?;
        file.sync()?;
        self.file = Some(file);
        Ok(())
    }

    /// What is written here has no end of a line: a crash in between leaves what is cut off at the next start.
    fn try_to_write(&mut self) -> io::Result<()> {
        self.file = None;
        self.ready()?;
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        write_all(file.as_mut(), &PROBE)?;
        file.sync()?;
        file.cut(self.tip.length)?;
        file.sync()
    }

    fn path(&self) -> PathBuf {
        audit_file(&self.place.folder, &self.place.node, self.tip.sequence)
    }
}

impl Batch {
    fn put(&mut self, entry: &Prepared) {
        let Batch { bytes, tip, added } = self;
        let before = bytes.len();
        tip.hash = entry.text.put_behind(tip.hash, bytes);
        tip.lines = tip.lines.saturating_add(1);
        tip.length = tip.length.saturating_add(bytes.len().saturating_sub(before) as u64);
        let highest = tip.highest.entry(entry.environment).or_default();
        *highest = entry.number.max(*highest);
        added.push(((entry.environment, entry.number), entry.text.content()));
    }
}

fn clash(entry: &Prepared) -> String {
    let Prepared { environment, number, .. } = entry;
    format!(
        "number {number} of {environment} stands on disk with another Entry; a store that was set back gives numbers \
         again: begin another folder for the audit chain, and keep this one"
    )
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
