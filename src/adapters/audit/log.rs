//! One node's log files, written by one thread: an entry counts as written once its line is on disk.
//!
//! After a failed write or sync, nothing after the last good sync is trusted: the file is reopened and truncated to
//! that point before anything else is written.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, DiskFile, write_all};
use super::folder::audit_file;
use super::line_tree::TreeNews;
use super::own_folder::{AuditFolder, named};
use super::written_entries::{EntryKey, RecentEntries};
use crate::audit::{FileExtent, FileHeader, Hash, Highest, LineText, SnapshotLink, UnusedNumbers};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding, StoreTime};
use crate::ports::Clock;

/// In seconds.
const DAY: i64 = 24 * 60 * 60;
/// The bytes that test a full or failing disk.
const PROBE: [u8; 4096] = [b' '; 4096];

/// An entry, ready to be written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) outstanding: Outstanding,
    pub(super) environment: Environment,
    pub(super) number: u64,
    /// The numbers before it that it explains.
    pub(super) unused: Option<UnusedNumbers>,
    pub(super) text: LineText,
    /// The hash of the content of `text`.
    pub(super) content: Hash,
}

impl Prepared {
    /// Whether it is the next entry behind that number.
    pub(super) fn follows(&self, highest: u64) -> bool {
        self.number == highest.saturating_add(1) || self.unused.is_some_and(|unused| unused.explains_behind(highest))
    }
}

/// The folder of the files, and the limits of their growth.
#[derive(Clone, Debug)]
pub(super) struct LogPosition {
    pub(super) folder: AuditFolder,
    pub(super) node: NodeId,
    pub(super) rotate_bytes: u64,
}

/// Why entries are not on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryRefusal {
    /// The log already has another entry with one of their numbers.
    Clash(String),
    /// The log went on without one of them.
    TooLate(String),
    /// The entries are on disk, and contradict those before them.
    Contradicted {
        number: u64,
        why: String,
    },
    Disk(String),
}

/// One result for each list of entries.
pub(super) type Results = Vec<Result<(), EntryRefusal>>;

/// How far the newest file is synced.
#[derive(Clone, Debug)]
pub(super) struct Tip {
    pub(super) lines: u64,
    pub(super) length: u64,
    pub(super) hash: Hash,
    pub(super) header: Arc<FileHeader>,
    pub(super) highest: Highest,
}

#[derive(Debug)]
pub(super) struct Log {
    disk: Box<dyn Disk>,
    clock: Arc<dyn Clock>,
    place: LogPosition,
    tip: Tip,
    /// The snapshot that the next header names.
    snapshot: Option<SnapshotLink>,
    /// `None` after a failure, until the file is reopened.
    file: Option<Box<dyn DiskFile>>,
    /// A file that could not be begun.
    leftover: Option<PathBuf>,
    remembered: RecentEntries,
    /// The events since `take_news` was last called.
    news: Vec<TreeNews>,
}

/// Lines that are to be written and synced together.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    /// The tip after the batch.
    tip: Tip,
    added: Vec<(EntryKey, Hash)>,
    lines: Vec<TreeNews>,
}

impl Log {
    /// Continues after `tip`; `None` begins the first file.
    pub(super) fn new(
        disk: Box<dyn Disk>,
        clock: Arc<dyn Clock>,
        place: LogPosition,
        tip: Option<Tip>,
        remembered: RecentEntries,
    ) -> io::Result<Log> {
        let is_new = tip.is_none();
        let tip = tip.unwrap_or_else(|| Tip::before_the_first(&place.node));
        let snapshot = tip.header.snapshot;
        let mut log =
            Log { disk, clock, place, tip, snapshot, file: None, leftover: None, remembered, news: Vec::new() };
        if is_new {
            log.begin(BTreeSet::new())?
        } else {
            log.ready()?
        }
        Ok(log)
    }

    /// Writes lists of entries; each list is on disk, or its result says why not.
    pub(super) fn append(&mut self, lists: &[&[Prepared]]) -> Results {
        let (fresh, mut results) = match self.fresh(lists) {
            Ok(found) => found,
            Err(error) => return lists.iter().map(|_| Err(EntryRefusal::Disk(error.to_string()))).collect(),
        };
        if let Err(error) = self.write(&fresh) {
            let fault = EntryRefusal::Disk(self.failed(&error));
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(fault.clone());
            }
        }
        results
    }

    /// Names a snapshot from the next header on.
    pub(super) fn link(&mut self, snapshot: SnapshotLink) {
        self.snapshot = Some(snapshot);
    }

    /// Returns the header of the newest file.
    pub(super) fn header(&self) -> &Arc<FileHeader> {
        &self.tip.header
    }

    /// Tests whether something could be written now.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        let tried = self.try_to_write();
        if tried.is_err() {
            self.file = None;
        }
        tried
    }

    /// Returns how far the log has every entry.
    pub(super) fn highest(&self) -> &Highest {
        &self.tip.highest
    }

    /// Returns why an entry can be written no more: the journal went on without it.
    pub(super) fn passed_over(&self, entry: &Prepared) -> Result<(), EntryRefusal> {
        let Prepared { environment, number, .. } = entry;
        let is_new = self.tip.highest.get(environment).is_none_or(|highest| number > highest);
        if is_new {
            return Ok(());
        }
        match self.remembered.find((*environment, *number), &self.place.folder, &self.place.node) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(EntryRefusal::TooLate(format!(
                "number {number} of {environment} comes too late: this journal went on without it, so nothing is sent for it"
            ))),
            Err(error) => Err(EntryRefusal::Disk(error.to_string())),
        }
    }

    /// Goes on behind a number, in a new file whose header says so. Returns whether entries were passed over: another task
    /// may have done it before, or brought them.
    pub(super) fn skip(&mut self, environment: Environment, up_to: u64) -> io::Result<bool> {
        if self.tip.highest.get(&environment).is_some_and(|highest| *highest >= up_to) {
            return Ok(false);
        }
        self.go_on(environment, up_to, BTreeSet::new()).map(|()| true)
    }

    /// Goes on behind a number with another history than the entries before, in a new file whose header says so.
    pub(super) fn begin_again(&mut self, environment: Environment, behind: u64) -> io::Result<()> {
        if let Some(highest) = self.tip.highest.get(&environment).filter(|highest| **highest > behind) {
            return Err(io::Error::other(format!("this journal has entries up to {highest} of {environment} already")));
        }
        self.go_on(environment, behind, BTreeSet::from([environment]))
    }

    fn go_on(&mut self, environment: Environment, behind: u64, anew: BTreeSet<Environment>) -> io::Result<()> {
        self.ready()?;
        let before = self.tip.highest.insert(environment, behind);
        let rotated = self.rotate(anew);
        if rotated.is_err() {
            match before {
                Some(before) => self.tip.highest.insert(environment, before),
                None => self.tip.highest.remove(&environment),
            };
        }
        rotated
    }

    /// Returns how far the newest file goes.
    pub(super) fn extent(&self) -> FileExtent {
        let Tip { lines, length, hash, .. } = self.tip;
        let at = StoreTime::of_micros(self.clock.now().as_microsecond());
        FileExtent { sequence: self.tip.header.sequence, lines, length, hash, at }
    }

    /// Returns what happened since the previous call.
    pub(super) fn take_news(&mut self) -> Vec<TreeNews> {
        std::mem::take(&mut self.news)
    }

    /// Returns the entries that are not on disk yet, and for each list whether the log can take it.
    fn fresh<'p>(&self, lists: &[&'p [Prepared]]) -> io::Result<(Vec<&'p Prepared>, Results)> {
        let mut seen: HashMap<EntryKey, Hash> = HashMap::new();
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
                        seen.insert(key, entry.content);
                        new.push(entry);
                    }
                    Some(content) if content == entry.content => {}
                    Some(_) => result = Err(EntryRefusal::Clash(clash(entry))),
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
            return self.stays_in_place();
        }
        let mut batch = self.batch();
        for entry in entries {
            if self.is_full(&batch.tip, entry.text.length()) {
                self.flush(batch)?;
                self.rotate(BTreeSet::new())?;
                batch = self.batch();
            }
            batch.put(entry);
        }
        self.flush(batch)
    }

    /// Opens the newest file again where it is not at its path any more.
    fn stays_in_place(&mut self) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|file| file.length().is_err()) {
            self.file = None;
        }
        self.ready()
    }

    fn batch(&self) -> Batch {
        Batch { bytes: Vec::new(), tip: self.tip.clone(), added: Vec::new(), lines: Vec::new() }
    }

    /// Whether a file ends before this line: with the day, or if the line would make it too long. A file has at least
    /// one entry.
    fn is_full(&self, tip: &Tip, more: usize) -> bool {
        let too_long = tip.length.saturating_add(more as u64) > self.place.rotate_bytes;
        tip.lines > 1 && (too_long || self.today() > tip.day())
    }

    fn today(&self) -> i64 {
        self.clock.now().as_second().div_euclid(DAY)
    }

    fn flush(&mut self, batch: Batch) -> io::Result<()> {
        if batch.bytes.is_empty() {
            return Ok(());
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = file.length()?;
        if length != self.tip.length {
            return Err(io::Error::other(format!("the file has {length} bytes, but {} were written", self.tip.length)));
        }
        write_all(file.as_mut(), &batch.bytes)?;
        file.sync()?;
        self.tip = batch.tip;
        self.news.extend(batch.lines);
        for (key, content) in batch.added {
            self.remembered.add(key, content);
        }
        Ok(())
    }

    fn rotate(&mut self, anew: BTreeSet<Environment>) -> io::Result<()> {
        let (ended, before) = (self.extent(), self.news.len());
        self.begin(anew)?;
        self.news.insert(before, TreeNews::Ended(ended));
        Ok(())
    }

    /// Begins the next file; it is the newest once its header is on disk.
    fn begin(&mut self, anew: BTreeSet<Environment>) -> io::Result<()> {
        let sequence = self.tip.header.sequence.saturating_add(1);
        let path = audit_file(&self.place.folder, &self.place.node, sequence);
        self.place.folder.check()?;
        let created = self.disk.create(&path);
        if !matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            self.leftover = Some(path.clone());
        }
        let mut file = created.map_err(|error| named(&path, &error))?;
        let at = StoreTime::of_micros(self.clock.now().as_microsecond());
        let (node, highest) = (self.place.node.clone(), self.tip.highest.clone());
        let header = FileHeader { node, sequence, at, highest, snapshot: self.snapshot, anew };
        let text = LineText::of_header(&header).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        let hash = text.put_behind(self.tip.hash, &mut bytes);
        write_all(file.as_mut(), &bytes).and_then(|()| file.sync()).map_err(|error| named(&path, &error))?;
        let length = bytes.len() as u64;
        self.news.push(TreeNews::Line(hash));
        self.tip = Tip { lines: 1, length, hash, highest: header.highest.clone(), header: Arc::new(header) };
        self.file = Some(file);
        self.leftover = None;
        Ok(())
    }

    fn failed(&mut self, error: &io::Error) -> String {
        self.file = None;
        // If this fails too, it is repeated before the next line is written.
        match self.ready() {
            // It says what is missing, and how to bring it back.
            Err(also) if also.kind() == io::ErrorKind::NotFound => return also.to_string(),
            Err(also) => return format!("{error}; then {also}"),
            Ok(()) => {}
        }
        named(&self.path(), error).to_string()
    }

    /// Ensures that the newest file is open, and ends where it was last synced.
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
            return Err(io::Error::other(format!("the file has {length} bytes, but {} were synced", self.tip.length)));
        }
        file.cut(self.tip.length)?;
        file.sync()?;
        self.place.folder.opens()?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes bytes without a line end: after a crash the next start truncates them.
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
        audit_file(&self.place.folder, &self.place.node, self.tip.header.sequence)
    }
}

impl Tip {
    fn before_the_first(node: &NodeId) -> Tip {
        let (at, highest) = (StoreTime::default(), Highest::new());
        let header = FileHeader {
            node: node.clone(),
            sequence: 0,
            at,
            highest: highest.clone(),
            snapshot: None,
            anew: [].into(),
        };
        Tip { lines: 0, length: 0, hash: Hash::NOTHING, header: Arc::new(header), highest }
    }

    /// Returns the day when the file was begun, in days since 1970.
    fn day(&self) -> i64 {
        self.header.at.as_micros().div_euclid(DAY.saturating_mul(1_000_000))
    }
}

impl Batch {
    fn put(&mut self, entry: &Prepared) {
        let Batch { bytes, tip, added, lines } = self;
        let before = bytes.len();
        tip.hash = entry.text.put_behind(tip.hash, bytes);
        lines.push(TreeNews::Line(tip.hash));
        tip.lines = tip.lines.saturating_add(1);
        tip.length = tip.length.saturating_add(bytes.len().saturating_sub(before) as u64);
        let highest = tip.highest.entry(entry.environment).or_default();
        *highest = entry.number.max(*highest);
        added.push(((entry.environment, entry.number), entry.content));
    }
}

fn clash(entry: &Prepared) -> String {
    let Prepared { environment, number, .. } = entry;
    format!(
        "number {number} of {environment} is on disk with another entry: a store that was set back gives numbers \
         again: begin another folder for the audit chain, and keep this one"
    )
}
