//! Verifies the embedded store beside a start: that reads its whole content, and reads need no store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::disk_trouble::{DiskTrouble, looks_usable, still_has_store};
use super::embedded_store::{belongs_here, lacks_commits, made_whole};
use super::open_node_error::OpenNodeError;
use crate::adapters::audit::{AuditFiles, FolderOrigin, audit_files, keep_original, origin};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::store::embedded::{Embedded, OpenError, Options};
use crate::adapters::store::opening::OpeningStore;
use crate::adapters::store::rebuild::keep_aside;
use crate::adapters::store::sealed::Seals;
use crate::audit::Highest;
use crate::config::Config;
use crate::ledger::StoreFault;
use crate::node::Node;
use crate::node::rollback_guard::{JournalAtStart, close_if_incomplete};

/// Says how far the journal reaches, beside the store that leans on it.
pub(super) const REACH_NOTE: &str = "journal-reach.json";

/// A store whose lock is taken, and whose content is not verified yet.
#[derive(Debug)]
pub(super) struct UnverifiedStore {
    store: Embedded,
    config: Config,
    journal: JournalAtStart,
    audit: Arc<AuditFiles>,
    seals: Seals,
    opening: Arc<OpeningStore>,
}

/// Opens the file of the configured store.
pub(super) fn open_store(config: &Config, seals: &Seals) -> Result<Embedded, OpenError> {
    let folder = &config.store.folder;
    let options = Options { seals: seals.clone(), trusts_clock: false, ..Options::default() };
    let open = || Embedded::open(folder, Arc::new(SystemClock), options.clone());
    let files = audit_files(&config.audit.folder).unwrap_or_default();
    // Without a journal, the damaged file is all that is left.
    if files.iter().any(|file| file.node == config.store.node) { or_empty(folder, open) } else { open() }
}

/// Opens a database; where its file is damaged, it stays under another name, and an empty one is opened: from then on, the
/// database counts as lost.
pub(super) fn or_empty<T>(folder: &Path, open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    match open() {
        Err(OpenError::Damaged(why)) => {
            let aside = keep_aside(folder).map_err(|fault| match fault {
                StoreFault::Broken(why) => OpenError::Damaged(why),
                fault => OpenError::Database(fault.to_string()),
            })?;
            tracing::error!(why, kept = %aside.display(), "a database is damaged; it is built anew from the journal");
            open()
        }
        opened => opened,
    }
}

impl UnverifiedStore {
    /// Checks what takes no time: that the store is of this installation, where it has all commits of its journal.
    pub(super) fn new(
        store: Embedded,
        config: &Config,
        runtime: &Handle,
        (audit, opening): (&Arc<AuditFiles>, Arc<OpeningStore>),
        seals: &Seals,
    ) -> Result<UnverifiedStore, OpenNodeError> {
        let stood = audit.stood();
        // A damaged file is found again when its content is verified.
        unless_damaged(lacks_commits(&store, runtime, stood).and_then(|lacks| match lacks {
            true => Ok(()),
            false => belongs_here(&store, config, runtime, stood),
        }))?;
        let journal = JournalAtStart {
            highest: stood.clone(),
            is_needed: store.needs_journal(),
            is_copy: match origin(&config.audit.folder, &config.store.node) {
                FolderOrigin::Original => false,
                FolderOrigin::Copy => true,
                FolderOrigin::Unmarked => stood.values().any(|highest| *highest > 0),
            },
            shortfall: audit.shortfall().map(str::to_owned),
        };
        let (config, audit, seals) = (config.clone(), audit.clone(), seals.clone());
        Ok(UnverifiedStore { store, config, journal, audit, seals, opening })
    }

    /// Verifies the whole content, or builds the store anew from the journal; then the store opens. Money closes where store
    /// and journal may not hold all that happened. While a disk is in trouble, it is tried again.
    pub(super) async fn verified(self, node: &Node, trouble: &mut DiskTrouble) -> Result<(), OpenNodeError> {
        let UnverifiedStore { store, config, journal, audit, seals, opening } = self;
        let verifying = Verifying { config, stood: journal.highest.clone(), seals, opening };
        let mut store = Some(store);
        loop {
            if trouble.is_none() {
                node.watched.starts(Some("its content is still being verified".to_owned()));
            }
            let since = Stopwatch::start();
            let (runtime, verifying, opened) = (Handle::current(), verifying.clone(), store.take());
            let verified = tokio::task::spawn_blocking(move || verifying.verify(opened, &runtime)).await;
            match verified.map_err(|error| OpenNodeError::Attempt(error.to_string()))? {
                Err(Some(error)) if error.may_pass() => trouble.wait(&error, since.elapsed()).await,
                Err(Some(error)) => return Err(error),
                Err(None) => trouble.wait_on().await,
                Ok(()) => break,
            }
        }
        let folder = &verifying.config.audit.folder;
        loop {
            match kept_closed(node, &journal, folder).await {
                Err(error) if error.may_pass() => trouble.wait(&error, Duration::ZERO).await,
                closed => break closed?,
            }
        }
        trouble.is_over();
        audit.notes_reach();
        Ok(())
    }
}

/// Closes money on disk where the journal may be an older one; only then it counts as the original.
async fn kept_closed(node: &Node, journal: &JournalAtStart, folder: &Path) -> Result<(), OpenNodeError> {
    close_if_incomplete(&*node.store, journal, &node.id).await.map_err(OpenNodeError::Unreadable)?;
    match journal.is_copy {
        true => keep_original(folder, &node.id).map_err(OpenNodeError::JournalId),
        false => Ok(()),
    }
}

/// The work of verifying a store.
#[derive(Clone, Debug)]
struct Verifying {
    config: Config,
    /// The highest numbers of the journal.
    stood: Highest,
    seals: Seals,
    opening: Arc<OpeningStore>,
}

impl Verifying {
    /// Verifies the store on a thread that may block; it is opened again where an earlier attempt closed it. No error means
    /// that the disk looks as before.
    fn verify(self, store: Option<Embedded>, runtime: &Handle) -> Result<(), Option<OpenNodeError>> {
        let folder = &self.config.store.folder;
        let store = match store {
            Some(store) => store,
            None if !looks_usable(folder) => return Err(None),
            None => {
                still_has_store(folder)?;
                open_store(&self.config, &self.seals).map_err(OpenNodeError::Store)?
            }
        };
        self.verify_opened(store, runtime).map_err(Some)
    }

    fn verify_opened(self, store: Embedded, runtime: &Handle) -> Result<(), OpenNodeError> {
        let Verifying { config, stood, seals, opening } = self;
        let since = Stopwatch::start();
        let store = made_whole(store, &config, runtime, &stood, &seals, || open_store(&config, &seals))?;
        store.takes_over();
        belongs_here(&store, &config, runtime, &stood)?;
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(millis, "the content of the store is verified");
        opening.opens(Arc::new(store));
        Ok(())
    }
}

fn unless_damaged(read: Result<(), OpenNodeError>) -> Result<(), OpenNodeError> {
    match read {
        Err(OpenNodeError::Unreadable(StoreFault::Broken(_))) => Ok(()),
        read => read,
    }
}
