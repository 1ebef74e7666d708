//! A snapshot of the store goes from a gate that knows all of it to gates whose journals lack something: with a rebuild, or
//! when a gate joins (`what_was_before`).
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
use crate::adapters::audit::{AuditFolder, SnapshotFile};
use crate::adapters::store::redis::snapshot_parts::{ShownSnapshot, TakenPart};
use crate::adapters::store::redis::{LAPSE, Member};
use crate::adapters::store::replica::TakenSnapshot;
use crate::adapters::store::snapshot::SnapshotSource as _;
use crate::base::ids::Environment;
use crate::base::word_enum::word_enum;
use crate::ledger::{NodeId, Number, StoreFault, StoreTime};

/// How often the next part is asked for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How often the right to rebuild is kept while the snapshot is written.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

word_enum! {
    /// Why a snapshot goes to other gates.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum SnapshotOccasion {
        /// A lost store is rebuilt from it.
        Rebuild = "rebuilt",
        /// A gate came whose journal begins in the middle.
        Joining = "joined",
    }
}

/// The journal from which a store is rebuilt.
#[derive(Clone, Copy, Debug)]
pub(super) struct RebuildingJournal<'j> {
    pub node: &'j NodeId,
    /// The numbers behind which it begins, and up to which it reaches.
    pub begin: Number,
    pub up_to: Number,
    /// The number behind which the rebuilt store has every entry for others.
    pub shown_behind: Number,
    /// Whether its replica left entries out that it has.
    pub has_left_out: bool,
}

impl RebuildingJournal<'_> {
    /// Returns the gates that cannot follow with what they have.
    ///
    /// `differs` says whether a gate's journal has other entries behind some number.
    pub(super) fn not_followed_by<'m>(
        self,
        came: impl Iterator<Item = &'m Member>,
        differs: impl Fn(&Member) -> bool,
    ) -> BTreeSet<NodeId> {
        let cannot_follow = |member: &&Member| {
            let Some(facts) = NodeFacts::read(&member.told) else { return false };
            let has_another_history = facts.knows_up_to < member.kept || member.kept > self.up_to;
            let has_left_out = self.has_left_out || facts.left_out.is_some();
            facts.journal_begins > self.begin
                || has_another_history
                || has_left_out
                || member.kept < self.shown_behind
                || differs(member)
        };
        came.filter(|member| member.node != *self.node)
            .filter(cannot_follow)
            .map(|member| member.node.clone())
            .collect()
    }
}

impl Membership {
    /// Shows what this gate's journal knows to other gates: what the store is rebuilt from, before anything else is done with
    /// it, or what was before their journals begin.
    pub(super) async fn show_snapshot(
        &self,
        node: &Node,
        environment: Environment,
        occasion: SnapshotOccasion,
        to: BTreeSet<NodeId>,
    ) -> Result<(), StoreFault> {
        if to.is_empty() {
            return Ok(());
        }
        let path = self.snapshot_path(node, environment, occasion, "shown");
        let (replica, seals, id, of) = (self.replica.clone(), self.seals.clone(), node.id.clone(), path.clone());
        let folder = self.audit_folder.clone();
        let mut writing = tokio::task::spawn_blocking(move || {
            let mut out = BufWriter::with_capacity(1 << 20, created(&folder, &of)?);
            let content = replica.content().map_err(io::Error::other)?;
            let up_to = content.last(environment).map_err(io::Error::other)?;
            content.write(&id, up_to.as_u64(), &seals, &mut out).map_err(io::Error::other)?;
            out.flush().and_then(|()| File::open(&of)).map(|file| (up_to, file))
        });
        let written = loop {
            tokio::select! {
                written = &mut writing => break written.map_err(io::Error::other).and_then(|written| written),
                () = tokio::time::sleep(KEEP_INTERVAL), if occasion == SnapshotOccasion::Rebuild => {
                    self.store.goes_on_rebuilding(environment, &self.instance).await?;
                }
            }
        };
        let shown = match written {
            Ok((up_to, file)) => {
                let shown = ShownSnapshot { instance: &self.instance, node: &node.id, up_to, file };
                self.store.show_snapshot(environment, shown, to.clone()).await
            }
            Err(error) => {
                tracing::warn!(%environment, %error, "the snapshot for other gates cannot be written: their journals go on without what was before");
                Ok(BTreeSet::new())
            }
        };
        drop(fs::remove_file(&path));
        for other in to.difference(&shown?) {
            tracing::warn!(%environment, node = %other, "this gate did not take the snapshot: its journal goes on without what was before");
        }
        Ok(())
    }

    /// Takes the snapshot that is shown to this gate, since a loss of the store or of a whole store. Returns whether there was
    /// one.
    pub(super) async fn take_snapshot(
        &self,
        node: &Node,
        environment: Environment,
        since: Option<StoreTime>,
    ) -> Result<bool, StoreFault> {
        let occasion = since.map_or(SnapshotOccasion::Joining, |_| SnapshotOccasion::Rebuild);
        let path = self.snapshot_path(node, environment, occasion, "taken");
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
                file = Some(created(&self.audit_folder, &path).map_err(failed)?);
            }
            let Some(file) = &mut file else { return Ok(true) };
            file.write_all(&part.bytes).map_err(failed)?;
            (by, count) = (part.by.clone(), part.nth);
            if part.bytes.is_empty() {
                self.has_snapshot(environment, occasion, &path, part).await?;
                self.store.take_part(environment, since, (&by, count)).await?;
                return Ok(true);
            }
        }
    }

    /// Keeps a snapshot until it can be taken in.
    async fn has_snapshot(
        &self,
        environment: Environment,
        occasion: SnapshotOccasion,
        path: &Path,
        last: TakenPart,
    ) -> Result<(), StoreFault> {
        let (replica, path) = (self.replica.clone(), path.to_owned());
        let begin = self.replica.begin(environment)?;
        if occasion == SnapshotOccasion::Joining && last.up_to < begin {
            return Err(StoreFault::Away(format!(
                "the snapshot of another gate ends at {}, and this journal begins behind {begin}",
                last.up_to
            )));
        }
        let checking = tokio::task::spawn_blocking(move || {
            let file = SnapshotFile { node: last.node, sequence: last.up_to.as_u64(), path };
            let is_of_rebuild = occasion == SnapshotOccasion::Rebuild;
            replica.takes_snapshot(TakenSnapshot { environment, up_to: last.up_to, file, is_of_rebuild })
        });
        let checked = checking.await.map_err(|error| StoreFault::Away(error.to_string()))?;
        checked.map_err(|fault| StoreFault::Away(format!("the snapshot of another gate is refused: {fault}")))?;
        tracing::info!(%environment, up_to = last.up_to.as_u64(), "this gate has the snapshot of another gate: its journal knows all that the store has");
        Ok(())
    }

    fn snapshot_path(&self, node: &Node, environment: Environment, occasion: SnapshotOccasion, state: &str) -> PathBuf {
        self.audit_folder.join(format!("{}-{}-{environment}.{state}", occasion.as_str(), node.id))
    }
}

fn created(folder: &AuditFolder, path: &Path) -> io::Result<File> {
    folder.check()?;
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
