//! Makes receipts of entries of this node's journal, by their numbers, while it is written.
//!
//! Nothing reads the journal whole for one receipt: the header of a file tells the numbers before it, entries of an
//! environment are in the order of their numbers, and a checkpoint tells how many lines the tree has up to its place.

use std::cmp::Ordering;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;

use super::archive::read_manifest;
use super::backwards::ReadBudget;
use super::folder::{AuditFile, audit_file, audit_files, checkpoints_file, manifest_file};
use super::line_search::LineSearch;
use super::salts::kept_salts;
use super::start::recent_checkpoint;
use super::tree_folder::TreeFolder;
use super::whole_journal::header;
use crate::adapters::rate::SharedRoom;
use crate::adapters::regular_file::open_regular;
use crate::audit::{
    Checkpoint, CheckpointPlace, FoundLine, Hash, KeptCheckpoint, LineBody, Origin, ProvedEntries, Salts, read_line,
};
use crate::base::ids::Environment;
use crate::config::AuditConfig;
use crate::ledger::{NodeId, Number, Outstanding};
use crate::stations::claim::Owner;

/// How much is read for one receipt.
const BUDGET: ReadBudget = ReadBudget { bytes: 64 * 1024 * 1024, time: Duration::from_secs(2) };
/// How long a receipt may take, with a disk that hangs.
const DEADLINE: Duration = Duration::from_secs(5);
/// How many receipts are made at one time, and for one person or caller.
const MAX_AT_ONCE: usize = 8;
const MAX_OF_ONE: usize = 2;

/// Why there is no receipt.
#[derive(Debug, Error)]
pub enum NoReceipt {
    /// Too many are being made.
    #[error("too many receipts are being made")]
    Busy,
    /// No entry was found that it may have.
    #[error("there is no entry for it")]
    NoEntries,
    /// The tree of this journal is not signed.
    #[error("this gate signs no checkpoints")]
    NoCheckpoints,
    /// A checkpoint will cover the entries after about this time.
    #[error("no checkpoint covers the entries yet")]
    NotCovered(Duration),
    /// The entries are in files that are not here any more, or never were.
    #[error("the entries are not in the files of this gate")]
    NotAtHand,
    /// The entries are from before the log of today's checkpoints.
    #[error("the entries are from before the log of the checkpoints")]
    BeforeLog,
    #[error("the journal cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Entries of one environment, by their numbers.
#[derive(Clone, Debug)]
pub struct EntryNumbers {
    pub environment: Environment,
    pub numbers: Vec<Number>,
}

/// The maker of receipts.
#[derive(Debug)]
pub struct JournalReceipts {
    folder: PathBuf,
    node: NodeId,
    /// The longest time from an entry to its checkpoint; `None` where none are signed.
    checkpoint_every: Option<Duration>,
    room: Arc<SharedRoom<Owner>>,
}

impl JournalReceipts {
    pub fn of(config: &AuditConfig, node: NodeId) -> JournalReceipts {
        let checkpoint_every = config.checkpoint_key.as_ref().map(|_| config.checkpoint_every);
        JournalReceipts::new(config.folder.clone(), node, checkpoint_every)
    }

    pub(super) fn new(folder: PathBuf, node: NodeId, checkpoint_every: Option<Duration>) -> JournalReceipts {
        JournalReceipts { folder, node, checkpoint_every, room: SharedRoom::capped(MAX_AT_ONCE, MAX_OF_ONE) }
    }

    /// Makes the receipt of those entries that it may have.
    pub async fn make(
        self: &Arc<Self>,
        who: Owner,
        sought: EntryNumbers,
        may_have: impl Fn(&Outstanding) -> bool + Send + 'static,
    ) -> Result<ProvedEntries, NoReceipt> {
        let mut room = self.room.share_of(who);
        if !room.grow(1) {
            return Err(NoReceipt::Busy);
        }
        let receipts = Arc::clone(self);
        let making = tokio::task::spawn_blocking(move || {
            let _room = room;
            receipts.make_within(&sought, &may_have, BUDGET)
        });
        let made = timeout(DEADLINE, making).await;
        made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(io::Error::other)?
    }

    /// Blocks.
    pub(super) fn make_within(
        &self,
        sought: &EntryNumbers,
        may_have: &dyn Fn(&Outstanding) -> bool,
        budget: ReadBudget,
    ) -> Result<ProvedEntries, NoReceipt> {
        let mut files = audit_files(&self.folder)?;
        files.retain(|file| file.node == self.node);
        let mut search = JournalSearch { receipts: self, files, budget: LineSearch::new(budget) };
        let mut numbers = sought.numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let mut found = Vec::new();
        for number in numbers {
            let entry = search.entry(sought.environment, number)?;
            if may_have(&entry.outstanding) {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(NoReceipt::NoEntries);
        }
        let log = self.signed_log()?;
        let lines = found.into_iter().map(|entry| search.line_in_tree(&log, entry)).collect::<Result<Vec<_>, _>>()?;
        if lines.iter().any(|line| line.index >= log.published.size) {
            return Err(self.not_covered());
        }
        let newest = (log.published.size, &log.published.note);
        ProvedEntries::prove(newest, lines, &log.tiles, &log.salts)?.ok_or_else(|| {
            let why = "the entries differ from what the tree of the journal has of them; see `sluice audit verify`";
            NoReceipt::Unreadable(io::Error::new(io::ErrorKind::InvalidData, why))
        })
    }

    fn not_covered(&self) -> NoReceipt {
        self.checkpoint_every.map_or(NoReceipt::NoCheckpoints, NoReceipt::NotCovered)
    }

    fn signed_log(&self) -> Result<SignedLog, NoReceipt> {
        let salts = kept_salts(&self.folder, &self.node)?.ok_or_else(|| self.not_covered())?;
        let (origin, tiles) = (Origin::new(self.node.clone(), &salts), TreeFolder::of(&self.folder, &self.node));
        // Where witnesses are asked, only what they signed is published.
        let published = tiles.published()?.filter(|checkpoint| checkpoint.origin == origin);
        let recent = recent_checkpoint(&self.folder, &self.node)?;
        let recent = recent.filter(|(checkpoint, _)| checkpoint.origin == origin);
        match (published, recent) {
            (Some(published), Some((_, place))) => {
                Ok(SignedLog { salts, origin, tiles, published, begins: place.begins })
            }
            _ => Err(self.not_covered()),
        }
    }
}

/// The tree of the journal, and its newest checkpoint.
struct SignedLog {
    salts: Salts,
    origin: Origin,
    tiles: TreeFolder,
    published: Checkpoint,
    /// The file with its first line.
    begins: u64,
}

/// An entry, and its place in the files.
struct LocatedEntry {
    sequence: u64,
    offset: u64,
    line: Vec<u8>,
    outstanding: Outstanding,
}

/// The search for the entries of one receipt.
struct JournalSearch<'r> {
    receipts: &'r JournalReceipts,
    /// In their order.
    files: Vec<AuditFile>,
    budget: LineSearch,
}

impl JournalSearch<'_> {
    fn entry(&mut self, environment: Environment, number: Number) -> Result<LocatedEntry, NoReceipt> {
        let Some((at, file)) = self.file_with(environment, number)? else { return Err(NoReceipt::NotAtHand) };
        let opened = open_regular(&file.path).map_err(not_there)?;
        let place = |line: &[u8]| match read_line(line).map(|line| line.body) {
            Ok(LineBody::Entry(entry)) if entry.environment == environment => Ok(Some(entry.number.cmp(&number))),
            Ok(LineBody::Entry(_) | LineBody::Header(_)) => Ok(None),
            Err(fault) => Err(io::Error::new(io::ErrorKind::InvalidData, fault.to_string())),
        };
        if let Some(line) = self.budget.last_up_to(&opened, &place)?
            && let Ok(LineBody::Entry(outstanding)) = read_line(&line.bytes).map(|line| line.body)
            && outstanding.number == number
        {
            return Ok(LocatedEntry { sequence: file.sequence, offset: line.offset, line: line.bytes, outstanding });
        }
        // The newest entries may not be written here yet; others are left out for good.
        let is_newest = at.saturating_add(1) == self.files.len();
        Err(if is_newest { self.receipts.not_covered() } else { NoReceipt::NotAtHand })
    }

    /// Returns the file that must have an entry, if it is there: the last one that begins before its number.
    fn file_with(&self, environment: Environment, number: Number) -> Result<Option<(usize, AuditFile)>, NoReceipt> {
        let (mut low, mut high) = (0, self.files.len());
        while low < high {
            let middle = low.midpoint(high);
            let Some(file) = self.files.get(middle) else { break };
            let before = match header(file) {
                Ok(header) => header.highest.get(&environment).copied().unwrap_or(0),
                // The newest file may be begun at this moment.
                Err(_) if middle.saturating_add(1) == self.files.len() => u64::MAX,
                Err(error) => return Err(not_there(error)),
            };
            if before < number.as_u64() {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        let at = low.checked_sub(1);
        Ok(at.and_then(|at| Some((at, self.files.get(at)?.clone()))))
    }

    /// Returns the line of an entry with the number of lines before it in the tree.
    fn line_in_tree(&mut self, log: &SignedLog, entry: LocatedEntry) -> Result<FoundLine, NoReceipt> {
        if entry.sequence < log.begins {
            return Err(NoReceipt::BeforeLog);
        }
        let before = self.checkpoint_before(log, &entry)?;
        let (mut index, mut from) = (0_u64, CountedPart::nothing_of(log.begins));
        if let Some((size, start)) = before {
            (index, from) = (size, start);
        }
        while from.sequence <= entry.sequence {
            let until = if from.sequence == entry.sequence { entry.offset } else { u64::MAX };
            index = index.saturating_add(self.lines_of(&from, until)?);
            from = CountedPart::nothing_of(from.sequence.saturating_add(1));
        }
        let line = String::from_utf8(entry.line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(FoundLine { index, line })
    }

    /// Returns the newest checkpoint that ends before an entry: how many lines it covers, and where it ends.
    fn checkpoint_before(&mut self, log: &SignedLog, entry: &LocatedEntry) -> io::Result<Option<(u64, CountedPart)>> {
        let file = match open_regular(checkpoints_file(&self.receipts.folder, &self.receipts.node)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let place = |line: &[u8]| {
            let Ok(KeptCheckpoint { checkpoint, place: Some(place) }) = KeptCheckpoint::read(line) else {
                return Ok(None);
            };
            // Former logs come before.
            let is_former = checkpoint.origin != log.origin;
            let end = (place.end.sequence, place.end.length);
            Ok(Some(if is_former { Ordering::Less } else { end.cmp(&(entry.sequence, entry.offset)) }))
        };
        let Some(line) = self.budget.last_up_to(&file, &place)? else { return Ok(None) };
        let Ok(KeptCheckpoint { checkpoint, place: Some(CheckpointPlace { end, .. }) }) =
            KeptCheckpoint::read(&line.bytes)
        else {
            return Ok(None);
        };
        let start = CountedPart { sequence: end.sequence, lines: end.lines, length: end.length, last: Some(end.hash) };
        Ok((checkpoint.origin == log.origin).then_some((checkpoint.size, start)))
    }

    /// Counts the lines of a file behind those that are counted already.
    fn lines_of(&mut self, part: &CountedPart, until: u64) -> Result<u64, NoReceipt> {
        let JournalReceipts { folder, node, .. } = self.receipts;
        match open_regular(audit_file(folder, node, part.sequence)) {
            Ok(file) => Ok(self.budget.lines_between(&file, part.length, until)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.is_whole(part)? {
                    return Ok(0);
                }
                // An archived file has as many as the manifest says.
                let archived = read_manifest(&manifest_file(folder, node))?;
                let file = archived.iter().rev().find(|file| file.node == *node && file.sequence == part.sequence);
                Ok(file.ok_or(NoReceipt::NotAtHand)?.lines.saturating_sub(part.lines))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a part has all lines of its file: the next file begins behind its last one.
    fn is_whole(&mut self, part: &CountedPart) -> io::Result<bool> {
        let JournalReceipts { folder, node, .. } = self.receipts;
        let Ok(next) = open_regular(audit_file(folder, node, part.sequence.saturating_add(1))) else {
            return Ok(false);
        };
        let first = self.budget.line_at(&next, 0)?;
        let first = first.and_then(|line| read_line(&line.bytes).ok());
        Ok(first.is_some_and(|line| part.last == Some(line.previous)))
    }
}

/// The part of a file whose lines are counted already.
struct CountedPart {
    sequence: u64,
    lines: u64,
    length: u64,
    /// The hash of the last of these lines.
    last: Option<Hash>,
}

impl CountedPart {
    fn nothing_of(sequence: u64) -> CountedPart {
        CountedPart { sequence, lines: 0, length: 0, last: None }
    }
}

/// A file that left for an archive meanwhile is not at hand.
fn not_there(error: io::Error) -> NoReceipt {
    if error.kind() == io::ErrorKind::NotFound { NoReceipt::NotAtHand } else { NoReceipt::Unreadable(error) }
}
