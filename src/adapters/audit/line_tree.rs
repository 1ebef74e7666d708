//! Keeps the tree of a journal's lines, and signs checkpoints of it, in a thread of its own: no payment waits for it.
//!
//! The thread can read from the files again all that it has in memory. After a fault it forgets all, and goes on from the
//! newest checkpoint.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use super::folder::{audit_file, audit_files, checkpoints_file, salt_file};
use super::own_folder::AuditFolder;
use super::salts::{kept_salts, new_salts};
use super::signing::Checkpoints;
use super::tree_files::TreeFiles;
use super::tree_folder::TreeFolder;
use crate::adapters::regular_file::open_regular;
use crate::audit::{
    Checkpoint, CheckpointPlace, FileExtent, Hash, KeptCheckpoint, LineReader, Note, NoteKeyKind, Origin, Salts,
    read_line,
};
use crate::ledger::NodeId;

/// The time to the next attempt after a fault.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The events of the files that the tree of the lines needs, in order.
#[derive(Clone, Debug)]
pub(super) enum TreeNews {
    /// The hash of the next line.
    Line(Hash),
    /// A file ended.
    Ended(FileExtent),
}

/// Work for the thread.
#[derive(Debug)]
pub(super) enum TreeWork {
    /// The hashes of lines that are on disk.
    Lines(Vec<Hash>),
    /// All lines up to here have come: a checkpoint is due.
    Due(FileExtent),
    /// Witnesses signed a checkpoint.
    Witnessed(Box<Checkpoint>),
    End,
}

/// The thread, and the way to it.
#[derive(Debug)]
pub(super) struct TreeThread {
    pub(super) work: Sender<TreeWork>,
    /// Ends with the thread.
    pub(super) ended: Receiver<()>,
    /// How many lines were handed over to it.
    pub(super) handed: Arc<AtomicU64>,
}

/// A checkpoint that was just made.
#[derive(Clone, Debug)]
pub struct NewCheckpoint {
    pub checkpoint: Checkpoint,
    /// How many of the lines that were handed over it covers.
    pub covers: u64,
}

/// The tree of this node's journal, as those see it who bring its checkpoints to witnesses.
#[derive(Clone, Debug)]
pub struct JournalTree {
    newest: watch::Receiver<Option<Arc<NewCheckpoint>>>,
    work: Sender<TreeWork>,
    folder: TreeFolder,
    handed: Arc<AtomicU64>,
    /// Whether money waits for witnesses.
    is_closed: Arc<AtomicBool>,
}

impl JournalTree {
    /// Returns the newest checkpoint of this process.
    pub fn newest(&self) -> Option<Arc<NewCheckpoint>> {
        self.newest.borrow().clone()
    }

    /// Returns how many lines this process wrote that checkpoints must cover.
    pub fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    pub fn folder(&self) -> &TreeFolder {
        &self.folder
    }

    /// Keeps and publishes a checkpoint that witnesses signed.
    pub fn keep(&self, witnessed: Checkpoint) {
        // At the end of the process nobody takes it any more: the next start brings a newer one.
        drop(self.work.send(TreeWork::Witnessed(Box::new(witnessed))));
    }

    /// Closes money until witnesses sign, or opens it.
    pub fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Release);
    }

    pub(super) fn lacks_witnesses(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// The point from which the tree goes on.
#[derive(Debug)]
pub(super) struct TreeStart {
    pub(super) folder: AuditFolder,
    pub(super) node: NodeId,
    pub(super) recent: Option<(Checkpoint, CheckpointPlace)>,
    /// The newest file, and how many lines of it are on disk.
    pub(super) tip: Option<(u64, u64)>,
}

/// Starts the thread.
pub(super) fn start(checkpoints: &Checkpoints, start: TreeStart) -> io::Result<(TreeThread, JournalTree)> {
    let (work, waiting) = mpsc::channel();
    let (tell, newest) = watch::channel(None);
    let (end, ended) = mpsc::channel();
    let handed = Arc::<AtomicU64>::default();
    let folder = TreeFolder::inside(&start.folder, &start.node);
    let keeper = TreeKeeper {
        checkpoints: checkpoints.clone(),
        tell,
        start,
        tree: None,
        covers: 0,
        told: None,
        again_after: AGAIN_AFTER,
    };
    let run = move || {
        keeper.run(&waiting);
        drop(end);
    };
    thread::Builder::new().name("checkpoints".to_owned()).spawn(run)?;
    let tree = JournalTree { newest, work: work.clone(), folder, handed: handed.clone(), is_closed: Arc::default() };
    Ok((TreeThread { work, ended, handed }, tree))
}

struct TreeKeeper {
    checkpoints: Checkpoints,
    tell: watch::Sender<Option<Arc<NewCheckpoint>>>,
    start: TreeStart,
    /// `None` until it was read, and after a fault.
    tree: Option<LineTree>,
    /// How many lines have come.
    covers: u64,
    /// The fault that was logged last.
    told: Option<String>,
    again_after: Duration,
}

impl TreeKeeper {
    fn run(mut self, waiting: &Receiver<TreeWork>) {
        let mut due = None;
        // Lines that the process before left are read before their files can leave for an archive.
        let opened = LineTree::open(&self.start).map(|tree| self.tree = Some(tree));
        self.tell_fault(opened);
        loop {
            let work = match (waiting.recv_timeout(self.again_after), due.take()) {
                (Ok(work), before) => {
                    due = before;
                    work
                }
                (Err(RecvTimeoutError::Timeout), Some(again)) => TreeWork::Due(again),
                (Err(RecvTimeoutError::Timeout), None) => continue,
                (Err(RecvTimeoutError::Disconnected), _) => return,
            };
            match work {
                TreeWork::Lines(lines) => {
                    self.covers = self.covers.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
                    match &mut self.tree {
                        Some(tree) => lines.into_iter().for_each(|line| tree.push(line)),
                        // The next checkpoint reads them from the files.
                        None => due = None,
                    }
                }
                TreeWork::Due(extent) => {
                    let made = self.checkpoint(&extent);
                    if made.is_err() {
                        (self.tree, due) = (None, Some(extent));
                    }
                    self.tell_fault(made);
                }
                TreeWork::Witnessed(checkpoint) => {
                    let kept = self.keep(Checkpoint::clone(&checkpoint), None).and_then(|()| self.publish(&checkpoint));
                    self.tell_fault(kept);
                }
                TreeWork::End => return,
            }
        }
    }

    /// Logs a fault once, and how long it takes to the next attempt: each one reads the whole tree.
    fn tell_fault(&mut self, done: io::Result<()>) {
        match done {
            Ok(()) => (self.told, self.again_after) = (None, AGAIN_AFTER),
            Err(error) => {
                let (error, folder) = (error.to_string(), self.start.folder.display());
                self.again_after = self.again_after.saturating_mul(2).min(LONGEST_PAUSE);
                if self.told.as_ref() != Some(&error) {
                    tracing::error!(%folder, error, "a checkpoint of the audit chain could not be written");
                    self.told = Some(error);
                }
            }
        }
    }

    fn checkpoint(&mut self, extent: &FileExtent) -> io::Result<()> {
        self.start.tip = Some((extent.sequence, extent.lines));
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(LineTree::open(&self.start)?),
        };
        tree.files.write()?;
        let origin = Origin::new(self.start.node.clone(), &tree.salts);
        let text = Checkpoint::text(&origin, tree.files.tree());
        let key = self.checkpoints.key.named(&origin.to_string(), NoteKeyKind::Log);
        let key = key.ok_or_else(|| io::Error::other("the name of the log is not the name of a key"))?;
        let note = Note { signatures: vec![self.checkpoints.key.sign(&key, &text, 0)], text };
        let (size, root) = (tree.files.tree().size(), tree.files.tree().root());
        let checkpoint = Checkpoint { origin, size, root, note };
        let place = CheckpointPlace { begins: tree.begins, end: extent.clone() };
        self.keep(checkpoint.clone(), Some(place.clone()))?;
        self.start.recent = Some((checkpoint.clone(), place));
        if !self.checkpoints.is_witnessed {
            self.publish(&checkpoint)?;
        }
        self.tell.send_replace(Some(Arc::new(NewCheckpoint { checkpoint, covers: self.covers })));
        Ok(())
    }

    fn publish(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        TreeFolder::inside(&self.start.folder, &self.start.node).publish(checkpoint)
    }

    /// Adds a checkpoint to the file of all.
    fn keep(&self, checkpoint: Checkpoint, place: Option<CheckpointPlace>) -> io::Result<()> {
        if self.checkpoints.to_log {
            tracing::info!(checkpoint = %checkpoint.note, "audit checkpoint");
        }
        let path = checkpoints_file(&self.start.folder, &self.start.node);
        self.start.folder.check()?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        cut_torn(&mut file)?;
        let line = KeptCheckpoint { checkpoint, place }.to_line().map_err(io::Error::other)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()?;
        File::open(&self.start.folder)?.sync_all()
    }
}

/// The tree of a journal, and the salts of its lines.
struct LineTree {
    files: TreeFiles,
    begins: u64,
    salts: Salts,
    /// A checkpoint that its lines must agree with.
    known: Option<Checkpoint>,
}

impl LineTree {
    /// Goes on from the newest checkpoint. What the files of the tree lack is made again from the lines.
    fn open(start: &TreeStart) -> io::Result<LineTree> {
        let TreeStart { folder, node, recent, .. } = start;
        folder.check()?;
        let salt = salt_file(folder, node);
        let salts = match (kept_salts(folder, node)?, recent) {
            (Some(salts), _) => salts,
            (None, None) => {
                tracing::info!(%node, "the journal gets a new salt, and begins a new log for its checkpoints");
                new_salts(folder, node)?
            }
            (None, Some(_)) => {
                return Err(io::Error::other(format!("`{}` is missing: restore it from a copy", salt.display())));
            }
        };
        let tiles = TreeFolder::inside(folder, node);
        let Some((checkpoint, place)) = recent else {
            let mut all = audit_files(folder)?.into_iter().filter(|file| file.node == *node);
            let begins = all.next().map_or(1, |file| file.sequence);
            let published = tiles.published()?.filter(|known| known.origin == Origin::new(node.clone(), &salts));
            if published.is_some() && (begins > 1 || start.tip.is_none()) {
                // Lines of archived files stand in the tree alone.
                let checkpoints = checkpoints_file(folder, node);
                let why = format!(
                    "`{}` has no checkpoint, and the tree beside it has one: restore it, or move it, the tree and `{}` away for another log",
                    checkpoints.display(),
                    salt.display()
                );
                return Err(io::Error::other(why));
            }
            if published.is_some() {
                tracing::warn!(
                    file = %checkpoints_file(folder, node).display(),
                    "somebody removed the checkpoints of the audit log: restore the file from a copy, and verify the log with copies kept elsewhere"
                );
            }
            return LineTree::made_again(start, (salts, begins), published, tiles);
        };
        if checkpoint.origin != Origin::new(node.clone(), &salts) {
            let why =
                format!("`{}` has another salt than the newest checkpoint: restore it from a copy", salt.display());
            return Err(io::Error::other(why));
        }
        match TreeFiles::of_edge(tiles.clone(), checkpoint.size, checkpoint.root) {
            Ok(files) => {
                let known = Some(checkpoint.clone());
                let mut tree = LineTree { files, begins: place.begins, salts, known };
                tree.read_lines(start, (place.end.sequence, place.end.lines))?;
                Ok(tree)
            }
            Err(why) => {
                tracing::warn!(%why, "the tree of the journal is made again from its lines");
                LineTree::made_again(start, (salts, place.begins), Some(checkpoint.clone()), tiles)
            }
        }
    }

    /// Makes the tree from all lines.
    fn made_again(
        start: &TreeStart,
        (salts, begins): (Salts, u64),
        known: Option<Checkpoint>,
        tiles: TreeFolder,
    ) -> io::Result<LineTree> {
        let last = start.tip.map_or(begins, |(last, _)| last);
        let missing = (begins..=last).find(|sequence| !audit_file(&start.folder, &start.node, *sequence).exists());
        if let (Some(sequence), Some(_)) = (missing, start.tip) {
            // Lines of archived files stand in the tree alone.
            let why = format!(
                "the tree of the journal is damaged, and file {sequence} is not there to make it again: put it back"
            );
            return Err(io::Error::other(why));
        }
        let mut tree = LineTree { files: TreeFiles::empty(tiles)?, begins, salts, known };
        tree.read_lines(start, (begins, 0))?;
        Ok(tree)
    }

    fn push(&mut self, line: Hash) {
        let entry = self.salts.leaf(self.files.tree().size(), line);
        self.files.push(entry);
    }

    /// Adds the lines of the files behind a line, up to the last one on disk.
    fn read_lines(&mut self, start: &TreeStart, (first, behind): (u64, u64)) -> io::Result<()> {
        let Some((last, last_lines)) = start.tip else { return Ok(()) };
        if (first, behind) == (last, last_lines) {
            return Ok(());
        }
        for sequence in first..=last {
            let path = audit_file(&start.folder, &start.node, sequence);
            let named = |error: io::Error| {
                let why = format!("`{}`, which the tree of the journal needs, cannot be read: {error}", path.display());
                io::Error::new(error.kind(), why)
            };
            let mut lines = LineReader::of(BufReader::with_capacity(1 << 20, open_regular(&path).map_err(named)?));
            let most = if sequence == last { last_lines } else { u64::MAX };
            while let Some(raw) = lines.following().map_err(named)? {
                if raw.line > most {
                    break;
                }
                if !raw.is_whole {
                    return Err(named(io::Error::other("it ends inside of a line")));
                }
                if sequence > first || raw.line > behind {
                    let line = read_line(raw.bytes).map_err(|fault| named(io::Error::other(fault.to_string())))?;
                    self.push(line.hash);
                }
                if !self.agrees() {
                    return Err(named(io::Error::other(
                        "its lines differ from those that the newest checkpoint covers",
                    )));
                }
            }
            self.files.write()?;
        }
        let size = self.files.tree().size();
        match self.known.as_ref().map(|checkpoint| checkpoint.size).filter(|signed| *signed > size) {
            Some(signed) => {
                Err(io::Error::other(format!("the files have {size} lines, and the newest checkpoint covers {signed}")))
            }
            None => Ok(()),
        }
    }

    /// Whether the known checkpoint does not say otherwise.
    fn agrees(&self) -> bool {
        let tree = self.files.tree();
        self.known.as_ref().is_none_or(|known| known.size != tree.size() || known.root == tree.root())
    }
}

/// Truncates a line that a killed process did not finish.
fn cut_torn(file: &mut File) -> io::Result<()> {
    const LONGEST: u64 = 64 * 1024;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let whole = end.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    if whole < end.len() && (whole > 0 || from == 0) {
        file.set_len(from.saturating_add(whole as u64))?;
    }
    Ok(())
}
