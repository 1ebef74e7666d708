//! The audit chain of this node, in files.
//!
//! One thread writes. What it says is on disk has been written and synced; what it does not say may be asked again, and
//! is never written twice. A disk that fails or hangs is answered with a fault in time, tried again by itself, and
//! used again when it works.

mod backwards;
mod disk;
mod folder;
mod log;
mod operand_key;
mod remembered;
mod signer;
mod start;
mod told;
mod writer;

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use self::log::{Log, Place, Prepared};
use self::signer::Signer;
use self::writer::{Health, Job, Writer};
use crate::adapters::random;
use crate::chain::{Highest, Text};
use crate::commit::{NodeId, Outstanding};
use crate::ports::{AuditFault, AuditSink, Clock};

pub use backwards::{Budget, Place as ReadPlace, Skip, read_backwards};
pub use disk::{Disk, DiskFile, MachineDisk};
pub use folder::{AuditFile, audit_file, audit_files, checkpoint_files, checkpoints_file, lock_file, named};
pub use operand_key::{kept_operand_key, operand_key};
pub use signer::{Checkpoints, SigningKey};
pub use told::entries_above;

/// How the chain of a node is kept.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Made if it is not there.
    pub folder: PathBuf,
    pub node: NodeId,
    /// A file ends before it is longer, and with the day (UTC).
    pub rotate_bytes: u64,
    /// How long an append takes at most.
    pub deadline: Duration,
    /// How many appends wait at most; one more waits for a place, within its deadline.
    pub queue: usize,
    pub checkpoints: Option<Checkpoints>,
}

impl AuditSettings {
    /// As shipped.
    pub fn of(folder: &Path, node: NodeId) -> AuditSettings {
        AuditSettings {
            folder: folder.to_owned(),
            node,
            rotate_bytes: 128 * 1024 * 1024,
            deadline: Duration::from_secs(5),
            queue: 4096,
            checkpoints: None,
        }
    }
}

/// Why the chain cannot be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenFault {
    /// Another process writes it.
    Locked {
        path: PathBuf,
    },
    /// What stands there is not what was written.
    Damaged {
        path: PathBuf,
        place: Option<(u64, u64)>,
        why: String,
    },
    Disk {
        path: PathBuf,
        why: String,
    },
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFault::Locked { path } => write!(
                f,
                "another process writes the audit chain (it holds `{}`); end it, or give this one another folder or node name",
                path.display()
            ),
            OpenFault::Damaged { path, place, why } => {
                write!(f, "the audit chain is damaged: `{}`", path.display())?;
                if let Some((line, offset)) = place {
                    write!(f, ", line {line}, byte {offset}")?;
                }
                write!(
                    f,
                    ": {why}; see `sluice audit verify`, put the files back from a copy, or begin another folder and keep \
                     this one for the auditors"
                )
            }
            OpenFault::Disk { path, why } => {
                write!(f, "the audit chain cannot be opened: `{}`: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenFault {}

/// The audit chain of this node.
#[derive(Debug)]
pub struct AuditFiles {
    /// `None` while it ends.
    jobs: Option<Sender<Job>>,
    places: Arc<Semaphore>,
    deadline: Duration,
    health: Arc<Health>,
    ended: Mutex<Receiver<()>>,
    /// The highest numbers that stood in the files when they were opened.
    stood: Highest,
    instance: String,
    former: Option<String>,
    life: watch::Receiver<()>,
}

impl AuditFiles {
    /// Goes on where the files end. It may take seconds: the newest files are read.
    pub fn open(settings: AuditSettings, clock: Arc<dyn Clock>) -> Result<AuditFiles, OpenFault> {
        AuditFiles::on(Box::new(MachineDisk), settings, clock)
    }

    /// The same, written to another disk.
    pub fn on(disk: Box<dyn Disk>, settings: AuditSettings, clock: Arc<dyn Clock>) -> Result<AuditFiles, OpenFault> {
        let AuditSettings { folder, node, rotate_bytes, deadline, queue, checkpoints } = settings;
        let fault = |error: io::Error| OpenFault::Disk { path: folder.clone(), why: error.to_string() };
        fs::create_dir_all(&folder).map_err(fault)?;
        let mut lock = lock(&lock_file(&folder, &node))?;
        let instance = random::nonce().0;
        let former = signed(&mut lock, &instance).map_err(fault)?;
        let start = start::look(&folder, &node)?;
        let signer = checkpoints
            .map(|checkpoints| Signer::new(checkpoints, Arc::clone(&clock), checkpoints_file(&folder, &node)));
        let stood = start.tip.as_ref().map(|tip| tip.highest.clone()).unwrap_or_default();
        let place = Place { folder: folder.clone(), node, rotate_bytes };
        let log = Log::new(disk, clock, place, start.tip, start.remembered).map_err(fault)?;
        let health = Arc::new(Health::new());
        let writer = Writer { log, signer, health: Arc::clone(&health), lock };
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
            jobs: Some(jobs),
            places: Arc::new(Semaphore::new(queue.max(1))),
            deadline,
            health,
            ended: Mutex::new(ended),
            stood,
            instance,
            former,
            life,
        })
    }

    /// Until its thread has ended, which it does by itself only if it has died.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life.clone();
        async move { while life.changed().await.is_ok() {} }
    }

    /// The highest number of each environment that stood in the files when they were opened.
    pub fn stood(&self) -> &Highest {
        &self.stood
    }

    /// The name of this process among all that ever wrote these files.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The process that wrote them before: it has ended, for no two do at one time.
    pub fn former(&self) -> Option<&str> {
        self.former.as_deref()
    }

    async fn queue(&self, entries: Vec<Prepared>) -> Result<(), AuditFault> {
        let ended = || AuditFault::Disk("its thread has ended".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ended())?;
        let (answer, answered) = oneshot::channel();
        let job = Job { entries, answer, _place: place };
        self.jobs.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

#[async_trait]
impl AuditSink for AuditFiles {
    async fn append(&self, entries: Vec<Outstanding>) -> Result<(), AuditFault> {
        let prepared = entries.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let written = timeout(self.deadline, self.queue(prepared)).await;
        written.unwrap_or_else(|_| {
            let why = format!("the disk does not answer within {} ms", self.deadline.as_millis());
            self.health.fails(&why);
            Err(AuditFault::Disk(why))
        })
    }

    fn is_well(&self) -> bool {
        self.health.is_well()
    }
}

impl Drop for AuditFiles {
    /// What was asked for is still written, unless the disk hangs.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(self.deadline) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("the audit chain hangs, and is not waited for");
        }
    }
}

fn prepare(entry: &Outstanding) -> Result<Prepared, AuditFault> {
    let number = entry.number.as_u64();
    let unfit =
        |why: String| AuditFault::Refused(format!("entry {number} of {} does not fit: {why}", entry.environment));
    let text = Text::of_entry(entry).map_err(|fault| unfit(fault.to_string()))?;
    if text.length() > crate::chain::LONGEST_LINE {
        return Err(unfit("it is too long".to_owned()));
    }
    Ok(Prepared { environment: entry.environment, number, text })
}

fn lock(path: &Path) -> Result<File, OpenFault> {
    let fault = |error: io::Error| OpenFault::Disk { path: path.to_owned(), why: error.to_string() };
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path).map_err(fault)?;
    // `is_live` holds the lock for a moment.
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
    }
    Err(OpenFault::Locked { path: path.to_owned() })
}

/// Who holds the lock from now on stands in it; who held it before is told.
fn signed(lock: &mut File, instance: &str) -> io::Result<Option<String>> {
    let mut former = String::new();
    lock.take(64).read_to_string(&mut former)?;
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(instance.as_bytes())?;
    Ok((!former.is_empty()).then_some(former))
}

/// Whether a process writes the files of a node.
pub fn is_live(folder: &Path, node: &NodeId) -> bool {
    let lock = File::open(lock_file(folder, node));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests;
