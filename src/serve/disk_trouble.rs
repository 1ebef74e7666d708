//! Disks that cannot be used at a start: tells people of them, and looks whether they can be used again.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::open_node_error::OpenNodeError;
use crate::adapters::clock::Stopwatch;
use crate::adapters::disk_trouble::{is_trouble, takes_writes};
use crate::adapters::store::awaited::Openness;
use crate::adapters::store::embedded::{FILE, OpenError};
use crate::config::{Config, StoreKind};
use crate::node::StoreWatch;

/// How long to wait before the next attempt, at least: a failed attempt that took long is not repeated at once.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log repeats what is wrong.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Whether the disk of a folder takes writes again; what else may be wrong is found as it is used.
pub(super) fn looks_usable(folder: &Path) -> bool {
    takes_writes(folder).map_or_else(|error| !is_trouble(&error), |()| true)
}

/// Fails where the store that was in a folder is not there any more, under any of its names.
pub(super) fn still_has_store(folder: &Path) -> Result<(), OpenNodeError> {
    match has_store(folder) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenNodeError::Gone(folder.to_owned())),
        Err(error) => Err(OpenNodeError::Store(OpenError::File(folder.to_owned(), error))),
    }
}

/// Whether a folder has a store, under any of its names.
pub(super) fn has_store(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if entry?.file_name().to_string_lossy().starts_with(FILE) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells people of a disk in trouble: loudly at first, and from time to time while it lasts.
#[derive(Debug)]
pub(super) struct DiskTrouble {
    watched: Arc<StoreWatch>,
    /// Whether the store opens soon: calls wait for that alone.
    open: watch::Sender<Openness>,
    place: String,
    told: Option<(String, Stopwatch)>,
}

impl DiskTrouble {
    pub fn of(config: &Config, watched: Arc<StoreWatch>, open: watch::Sender<Openness>) -> DiskTrouble {
        let folder = |folder: &Path| folder.display().to_string();
        let place = match config.store.kind {
            StoreKind::Embedded => format!("`{}` and `{}`", folder(&config.audit.folder), folder(&config.store.folder)),
            StoreKind::Redis => format!("`{}`", folder(&config.audit.folder)),
        };
        DiskTrouble { watched, open, place, told: None }
    }

    /// Tells it, and waits for the next attempt.
    pub async fn wait(&mut self, error: &OpenNodeError, took: Duration) {
        self.tell(error);
        tokio::time::sleep(took.max(RETRY_INTERVAL)).await;
    }

    /// As `wait`, for an error that may pass; any other is returned.
    pub async fn wait_if_it_may_pass(&mut self, error: OpenNodeError) -> Result<(), OpenNodeError> {
        if !error.may_pass() {
            return Err(error);
        }
        self.wait(&error, Duration::ZERO).await;
        Ok(())
    }

    /// Whether there is no trouble yet.
    pub fn is_none(&self) -> bool {
        self.told.is_none()
    }

    /// Waits for the next attempt where the disk looks as before.
    pub async fn wait_on(&mut self) {
        self.repeat();
        tokio::time::sleep(RETRY_INTERVAL).await;
    }

    fn tell(&mut self, error: &OpenNodeError) {
        let why = format!("a disk of this gate is in trouble: {error}");
        self.open.send_replace(Openness::InTrouble);
        self.watched.starts(Some(why.clone()));
        if self.told.as_ref().is_some_and(|(told, _)| *told == why) {
            return self.repeat();
        }
        let remedy = format!(
            "make room on the disk of {}, mount it for writing, or repair it; the gate goes on by itself then",
            self.place
        );
        tracing::error!(
            why,
            remedy,
            "a disk is in trouble: reads are served, everything else gets 503; the gate tries again each second"
        );
        self.told = Some((why, Stopwatch::start()));
    }

    fn repeat(&mut self) {
        if let Some((why, since)) = &mut self.told
            && since.elapsed() >= TOLD_EVERY
        {
            *since = Stopwatch::start();
            tracing::warn!(why, "a disk is still in trouble: reads are served, everything else gets 503");
        }
    }

    pub fn is_over(&mut self) {
        if self.told.take().is_some() {
            self.open.send_replace(Openness::Soon);
            tracing::warn!("the disk can be used again");
        }
    }
}
