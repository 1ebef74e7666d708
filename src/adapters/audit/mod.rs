//! The audit log of this node, in files.
//!
//! One thread writes. What it confirms has been written and synced; what it does not confirm may be sent again, and is
//! never written twice. If the disk fails or hangs, callers get an error within their deadline; the thread keeps
//! trying, and resumes when the disk works.

mod archive;
mod backwards;
mod contradicting;
mod disk;
mod folder;
mod folder_copy;
mod follower;
mod following;
mod journal_id;
mod line_search;
mod line_tree;
mod lock;
mod log;
mod lost_entries;
mod last_heard;
mod met_store;
mod missing_files;
mod opening;
mod operand_key;
mod own_folder;
mod reach_note;
mod receipts;
mod salts;
mod written_entries;
mod signer;
mod signing;
mod snapshots;
mod start;
mod tree_files;
mod tree_folder;
mod whole_journal;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::timeout;

use self::folder_copy::OriginalMark;
use self::following::Following;
use self::line_tree::TreeStart;
use self::lock::{is_free, lock, signed};
use self::log::{Log, LogPosition, Prepared};
use self::reach_note::ReachNote;
use self::signer::CheckpointSigner;
use self::start::recent_checkpoint;
use self::writer::{Health, LogJob, LogRequest, LogWriter, Suspended, WriterSignals};
use crate::adapters::disk_trouble::is_trouble;
use crate::adapters::random;
use crate::audit::{FileHeader, Highest, LineText, OnDisk, SnapshotLink, unused_before};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, Outstanding};
use crate::ports::{AuditFault, AuditSink, Clock};

pub use archive::{ArchiveError, ArchivedFiles, archive, read_manifest};
pub use backwards::{FilePosition, ReadBudget, Skip, line_at, read_backwards};
pub use disk::{Disk, DiskFile, MachineDisk};
pub use folder::{
    AuditFile, audit_file, audit_files, checkpoint_files, checkpoints_file, journal_id_file, lock_file, manifest_files,
    named, seal_keys_file,
};
pub use folder_copy::{FolderOrigin, is_copy, keep_original, origin};
pub use follower::{Follower, catch_up};
pub use journal_id::{journal_id, kept_journal_id, put_back_journal_id};
pub use last_heard::{LastHeard, LastStated};
pub use line_tree::{JournalTree, NewCheckpoint};
pub use lock::is_live;
pub use lost_entries::{
    EntryRoom, another_history, entries_above, files_begin, has_own_within, may_have_lacking, newest_entries,
};
pub use met_store::{keep_met_store, met_store};
pub use missing_files::{MissingFiles, keep_told_gaps, missing_files, told_gaps};
pub use opening::OpeningAudit;
pub use operand_key::{kept_operand_key, operand_key};
pub use own_folder::{AuditFolder, is_missing_folder};
pub use receipts::{EntryNumbers, JournalReceipts, NoReceipt};
pub use salts::kept_salts;
pub use signing::{Checkpoints, SigningKey};
pub use snapshots::{
    RoomForJournal, SnapshotFile, UnfitSnapshot, free_bytes, is_snapshot_due, keep_snapshot, newest_snapshot,
};
pub use tree_folder::TreeFolder;
pub use whole_journal::{JournalPart, knows_environment, read_journal};

/// How often the log is looked for in its folder.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How the audit log of a node is kept.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// The folder; created if it does not exist.
    pub folder: AuditFolder,
    pub node: NodeId,
    /// The maximum length of a file; a file also ends with the day (UTC).
    pub rotate_bytes: u64,
    /// The deadline of one append.
    pub deadline: Duration,
    /// How many appends may wait in the queue; one more waits for a place, within its deadline.
    pub queue: usize,
    pub checkpoints: Option<Checkpoints>,
    /// Hears each entry that is on disk, in order.
    pub follower: Option<Arc<dyn Follower>>,
    /// The file outside of the folder that says how far the log reaches.
    pub note: Option<PathBuf>,
}

impl AuditSettings {
    /// Returns the default settings.
    pub fn of(folder: &Path, node: NodeId) -> AuditSettings {
        AuditSettings {
            folder: AuditFolder::at(folder),
            node,
            rotate_bytes: 128 * 1024 * 1024,
            deadline: Duration::from_secs(5),
            queue: 4096,
            checkpoints: None,
            follower: None,
            note: None,
        }
    }
}

/// Why the audit log cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenFault {
    /// Another process writes it.
    #[error(
        "another process writes the audit chain (it holds `{}`); stop that process, or use another `audit` folder or \
         node name",
        .path.display()
    )]
    Locked { path: PathBuf },
    /// The files differ from what was written.
    #[error(
        "the audit chain is damaged: `{}`{}: {why}; see `sluice audit verify`, restore the files from a copy, or begin \
         another folder and keep this one for the auditors",
        .path.display(),
        in_place(.place.as_ref())
    )]
    Damaged { path: PathBuf, place: Option<(u64, u64)>, why: String },
    /// `may_pass` where the disk is in trouble.
    #[error("the audit chain cannot be opened: `{}`: {why}", .path.display())]
    Disk { path: PathBuf, why: String, may_pass: bool },
}

impl OpenFault {
    fn disk(path: &Path, error: &io::Error) -> OpenFault {
        OpenFault::Disk { path: path.to_owned(), why: error.to_string(), may_pass: is_trouble(error) }
    }
}

/// Names the line and the byte in a sentence about a file.
fn in_place(place: Option<&(u64, u64)>) -> String {
    place.map_or(String::new(), |(line, offset)| format!(", line {line}, byte {offset}"))
}

/// The audit log of this node.
#[derive(Debug)]
pub struct AuditFiles {
    folder: AuditFolder,
    /// `None` while the log closes.
    jobs: Option<Sender<LogJob>>,
    places: Arc<Semaphore>,
    deadline: Duration,
    health: Arc<Health>,
    ended: Mutex<Receiver<()>>,
    /// The highest numbers in the files when they were opened.
    stood: Highest,
    /// Why the files ended before what was noted of them.
    shortfall: Option<String>,
    notes_reach: Arc<AtomicBool>,
    /// How far the files have every entry now.
    reached: watch::Receiver<Highest>,
    begun: watch::Receiver<Arc<FileHeader>>,
    gap: Arc<Notify>,
    /// Environments whose store lost its memory: their entries are refused until it is whole again.
    suspended: Suspended,
    instance: String,
    former: Option<String>,
    life: watch::Receiver<()>,
    tree: Option<JournalTree>,
}

impl AuditFiles {
    /// Opens the files and continues at their end. It may take seconds: the newest files are read.
    pub fn open(settings: AuditSettings, clock: Arc<dyn Clock>) -> Result<AuditFiles, OpenFault> {
        AuditFiles::on(Box::new(MachineDisk), settings, clock)
    }

    /// Opens the files on another disk.
    pub fn on(disk: Box<dyn Disk>, settings: AuditSettings, clock: Arc<dyn Clock>) -> Result<AuditFiles, OpenFault> {
        let AuditSettings { folder, node, rotate_bytes, deadline, queue, checkpoints, follower, note } = settings;
        let fault = |error: io::Error| OpenFault::disk(&folder, &error);
        folder.make().and_then(|()| folder.opens()).map_err(fault)?;
        let mut lock = lock(&lock_file(&folder, &node))?;
        is_free(&folder, &node)?;
        let recent = recent_checkpoint(&folder, &node).map_err(fault)?;
        let start = start::find_start(&folder, &node, recent.as_ref().map(|(_, place)| &place.end))?;
        let shortfall = note.as_ref().map(|note| reach_note::shortfall(note, &folder, &node, start.tip.as_ref()));
        let shortfall = shortfall.transpose()?.flatten();
        let notes_reach = Arc::new(AtomicBool::new(shortfall.is_none()));
        let note = note.map(|note| ReachNote::new(note, Arc::clone(&notes_reach)));
        let tip = start.tip.as_ref().map(|tip| (tip.header.sequence, tip.lines));
        let stood = start.tip.as_ref().map(|tip| tip.highest.clone()).unwrap_or_default();
        let place = LogPosition { folder: folder.clone(), node: node.clone(), rotate_bytes };
        let log =
            Log::new(disk, Arc::clone(&clock), place, start.tip, start.remembered).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::ResourceBusy => OpenFault::Locked { path: folder.to_path_buf() },
                    _ => fault(error),
                }
            })?;
        let following = follower.map(|follower| Following::start(follower, &folder, &node, &stood)).transpose()?;
        // Behind all that a disk refuses: a start that fails leaves the name of the process that wrote the files before.
        let instance = random::nonce().0;
        let former =
            signed(&mut lock, &instance).map_err(|error| OpenFault::disk(&lock_file(&folder, &node), &error))?;
        let begun = checkpoints.map(|checkpoints| {
            let start = TreeStart { folder: folder.clone(), node: node.clone(), recent, tip };
            let (thread, tree) = line_tree::start(&checkpoints, start)?;
            Ok((CheckpointSigner::new(&checkpoints, clock, thread), tree))
        });
        let (signer, tree) = begun.transpose().map_err(fault)?.unzip();
        let health = Arc::new(Health::new());
        let (reach, reached) = watch::channel(log.highest().clone());
        let gap = Arc::new(Notify::new());
        let suspended = Suspended::default();
        let (begin, begun) = watch::channel(Arc::clone(log.header()));
        let signals = WriterSignals { reach, begun: begin, gap: Arc::clone(&gap), suspended: Arc::clone(&suspended) };
        let mark = OriginalMark::new(folder.clone(), node.clone());
        let mut writer = LogWriter::new(log, signer, Arc::clone(&health), lock, signals, (following, mark));
        writer.note = note;
        let (jobs, waiting) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (alive, life) = watch::channel(());
        let run = move || {
            let _alive = alive;
            writer.run(&waiting);
            drop(end);
        };
        thread::Builder::new().name("audit".to_owned()).spawn(run).map_err(fault)?;
        Ok(AuditFiles {
            folder,
            jobs: Some(jobs),
            places: Arc::new(Semaphore::new(queue.max(1))),
            deadline,
            health,
            ended: Mutex::new(ended),
            stood,
            shortfall,
            notes_reach,
            reached,
            begun,
            gap,
            suspended,
            instance,
            former,
            life,
            tree,
        })
    }

    /// Completes when the writer thread has ended; while the log is open, only a panic ends it.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life.clone();
        async move { while life.changed().await.is_ok() {} }
    }

    /// Returns the folder that was opened.
    pub fn folder(&self) -> &AuditFolder {
        &self.folder
    }

    /// Looks each second whether the log is in its folder, as long as the process lives: money waits for one that is missing,
    /// also where nobody pays.
    pub async fn keep_in_place(self: Arc<AuditFiles>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if self.health.is_well() {
                drop(self.within_deadline(LogRequest::Append(Vec::new())).await);
            }
        }
    }

    /// Returns why the files, when they were opened, ended before what was noted of them.
    pub fn shortfall(&self) -> Option<&str> {
        self.shortfall.as_deref()
    }

    /// Notes from now on how far the files reach, also where they ended before what was noted.
    pub fn notes_reach(&self) {
        self.notes_reach.store(true, Ordering::Release);
    }

    /// Returns the highest number of each environment in the files when they were opened.
    pub fn stood(&self) -> &Highest {
        &self.stood
    }

    /// Tells the header of the newest file, whenever one begins.
    pub fn begun(&self) -> watch::Receiver<Arc<FileHeader>> {
        self.begun.clone()
    }

    /// Returns the tree of the journal, where checkpoints are signed.
    pub fn tree(&self) -> Option<&JournalTree> {
        self.tree.as_ref()
    }

    /// Names a snapshot in the header of the next file.
    pub async fn link(&self, snapshot: SnapshotLink) -> Result<(), AuditFault> {
        self.within_deadline(LogRequest::Link(snapshot)).await
    }

    /// Returns the name of this process, unique among all that ever wrote these files.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the name of the process that wrote the files before; it has ended, because only one can hold the lock.
    pub fn former(&self) -> Option<&str> {
        self.former.as_deref()
    }

    async fn queue(&self, asked: LogRequest) -> Result<(), AuditFault> {
        let ended = || AuditFault::Disk("the writer thread has ended".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ended())?;
        let (answer, answered) = oneshot::channel();
        let job = LogJob { asked, answer, _place: place };
        self.jobs.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    async fn within_deadline(&self, asked: LogRequest) -> Result<(), AuditFault> {
        let written = timeout(self.deadline, self.queue(asked)).await;
        written.unwrap_or_else(|_| {
            let millis = self.deadline.as_millis();
            if self.health.waits() {
                return Err(AuditFault::Store(format!("it did not give an entry before this one within {millis} ms")));
            }
            let why = format!("the disk does not answer within {millis} ms");
            self.health.fails(&why);
            Err(AuditFault::Disk(why))
        })
    }
}

#[async_trait]
impl AuditSink for AuditFiles {
    async fn append(&self, entries: Vec<Outstanding>) -> Result<OnDisk, AuditFault> {
        let prepared = entries.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        self.within_deadline(LogRequest::Append(prepared)).await.map(|()| OnDisk::new(&entries))
    }

    fn highest(&self, environment: Environment) -> Number {
        Number::new(self.reached.borrow().get(&environment).copied().unwrap_or(0))
    }

    async fn skip(&self, environment: Environment, up_to: Number) -> Result<(), AuditFault> {
        self.within_deadline(LogRequest::Skip(environment, up_to.as_u64())).await
    }

    async fn begin_again(&self, environment: Environment, behind: Number) -> Result<(), AuditFault> {
        self.within_deadline(LogRequest::BeginAgain(environment, behind.as_u64())).await
    }

    async fn suspend(&self, environment: Environment) -> Result<(), AuditFault> {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner).insert(environment);
        // When this is answered, all before it is on disk or refused.
        self.within_deadline(LogRequest::Append(Vec::new())).await
    }

    fn resume(&self, environment: Environment) {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
    }

    async fn gap(&self) {
        self.gap.notified().await;
    }

    fn is_well(&self) -> bool {
        self.health.is_well()
    }

    fn trouble(&self) -> Option<String> {
        self.health.trouble()
    }

    fn lacks_witnesses(&self) -> bool {
        self.tree.as_ref().is_some_and(JournalTree::lacks_witnesses)
    }
}

impl Drop for AuditFiles {
    /// Writes what was requested before, unless the disk hangs.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(self.deadline) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("the disk of the audit chain hangs: the shutdown does not wait for it");
        }
    }
}

fn prepare(entry: &Outstanding) -> Result<Prepared, AuditFault> {
    let number = entry.number.as_u64();
    let unfit =
        |why: String| AuditFault::Refused(format!("entry {number} of {} does not fit: {why}", entry.environment));
    let text = LineText::of_entry(entry).map_err(|fault| unfit(fault.to_string()))?;
    if text.length() > crate::audit::LONGEST_LINE {
        return Err(unfit("it is too long".to_owned()));
    }
    Ok(Prepared {
        outstanding: entry.clone(),
        environment: entry.environment,
        number,
        unused: unused_before(&entry.entry),
        content: text.content(),
        text,
    })
}

#[cfg(test)]
mod tests;
