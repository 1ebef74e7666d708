//! The snapshot that goes with a rebuild, to the gates whose journals cannot follow it.
//!
//! A journal cannot follow where it begins later than the one from which the store is rebuilt, where it has another history
//! behind an earlier rebuild, or where the outbox lacks entries behind its end. Its gate takes the snapshot in, so that it
//! knows all that the store has: a later loss needs no other journal.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Node;
use super::membership::Membership;
use super::node_facts::NodeFacts;
use crate::adapters::audit::SnapshotFile;
use crate::adapters::store::redis::snapshot_parts::{ShownSnapshot, TakenPart};
use crate::adapters::store::redis::{LAPSE, Member};
use crate::adapters::store::snapshot::SnapshotSource as _;
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, StoreFault, StoreTime};

/// How often the next part is asked for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How often the right to rebuild is kept while the snapshot is written.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The journal from which a store is rebuilt.
#[derive(Clone, Copy, Debug)]
pub(super) struct RebuildingJournal<'j> {
    pub node: &'j NodeId,
    /// The numbers behind which it begins, and up to which it reaches.
    pub begin: Number,
    pub up_to: Number,
    /// The number behind which the rebuilt store has every entry for others.
    pub shown_behind: Number,
}

impl RebuildingJournal<'_> {
    /// Returns the gates that cannot follow with what they have.
    pub(super) fn not_followed_by<'m>(self, came: impl Iterator<Item = &'m Member>) -> BTreeSet<NodeId> {
        let cannot_follow = |member: &&Member| {
            let Some(facts) = NodeFacts::read(&member.told) else { return false };
            let has_another_history = facts.knows_up_to < member.kept || member.kept > self.up_to;
            facts.journal_begins > self.begin || has_another_history || member.kept < self.shown_behind
        };
        came.filter(|member| member.node != *self.node)
            .filter(cannot_follow)
            .map(|member| member.node.clone())
            .collect()
    }
}

impl Membership {
    /// Shows what the store is rebuilt from to other gates, before anything else is done with it.
    pub(super) async fn show_snapshot(
        &self,
        node: &Node,
        environment: Environment,
        up_to: Number,
        to: BTreeSet<NodeId>,
    ) -> Result<(), StoreFault> {
        if to.is_empty() {
            return Ok(());
        }
        let path = self.snapshot_path(node, environment, "shown");
        let (replica, seals, id, of) = (self.replica.clone(), self.seals.clone(), node.id.clone(), path.clone());
        let mut writing = tokio::task::spawn_blocking(move || {
            let mut out = BufWriter::with_capacity(1 << 20, created(&of)?);
            let written = replica.content().map_err(io::Error::other)?.write(&id, up_to.as_u64(), &seals, &mut out);
            written.map_err(io::Error::other)?;
            out.flush().and_then(|()| File::open(&of))
        });
        let written = loop {
            tokio::select! {
                written = &mut writing => break written.map_err(io::Error::other).and_then(|written| written),
                () = tokio::time::sleep(KEEP_INTERVAL) => {
                    self.store.goes_on_rebuilding(environment, &self.instance).await?;
                }
            }
        };
        let shown = match written {
            Ok(file) => {
                let shown = ShownSnapshot { instance: &self.instance, node: &node.id, up_to, file };
                self.store.show_snapshot(environment, shown, to.clone()).await
            }
            Err(error) => {
                tracing::warn!(%environment, %error, "the snapshot for other gates cannot be written: their journals begin behind this rebuild");
                Ok(BTreeSet::new())
            }
        };
        drop(fs::remove_file(&path));
        for other in to.difference(&shown?) {
            tracing::warn!(%environment, node = %other, "this gate did not take the snapshot of the rebuilt store: its journal begins behind the rebuild");
        }
        Ok(())
    }

    /// Takes the snapshot that is shown to this gate while the store is rebuilt. Returns whether there was one.
    pub(super) async fn take_snapshot(
        &self,
        node: &Node,
        environment: Environment,
        since: StoreTime,
    ) -> Result<bool, StoreFault> {
        let path = self.snapshot_path(node, environment, "taken");
        let (mut file, mut by, mut count, mut idle) = (None, String::new(), 0_u64, Duration::ZERO);
        loop {
            let Some(part) = self.store.take_part(environment, since, (&by, count)).await? else {
                if file.is_none() || idle >= LAPSE {
                    return Ok(file.is_some());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
                idle = idle.saturating_add(POLL_INTERVAL);
                continue;
            };
            idle = Duration::ZERO;
            let failed = |error: io::Error| StoreFault::Away(format!("`{}`: {error}", path.display()));
            if part.nth == 1 {
                file = Some(created(&path).map_err(failed)?);
            }
            let Some(file) = &mut file else { return Ok(true) };
            file.write_all(&part.bytes).map_err(failed)?;
            (by, count) = (part.by.clone(), part.nth);
            if part.bytes.is_empty() {
                self.has_snapshot(environment, &path, part).await?;
                self.store.take_part(environment, since, (&by, count)).await?;
                return Ok(true);
            }
        }
    }

    /// Keeps a snapshot until the entry of the rebuild comes.
    async fn has_snapshot(&self, environment: Environment, path: &Path, last: TakenPart) -> Result<(), StoreFault> {
        let (replica, path) = (self.replica.clone(), path.to_owned());
        let checking = tokio::task::spawn_blocking(move || {
            let file = SnapshotFile { node: last.node, sequence: last.up_to.as_u64(), path };
            replica.takes_snapshot(environment, last.up_to, file)
        });
        let checked = checking.await.map_err(|error| StoreFault::Away(error.to_string()))?;
        checked.map_err(|fault| StoreFault::Away(format!("the snapshot of the rebuilt store is refused: {fault}")))?;
        tracing::info!(%environment, up_to = last.up_to.as_u64(), "this gate has the snapshot of the rebuilt store: its journal knows all that the store has");
        Ok(())
    }

    fn snapshot_path(&self, node: &Node, environment: Environment, state: &str) -> PathBuf {
        self.audit_folder.join(format!("rebuilt-{}-{environment}.{state}", node.id))
    }
}

fn created(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
