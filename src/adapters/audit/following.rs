//! Hands entries over to the follower of the journal, once they are on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::OpenFault;
use super::contradicting::ContradictingEntries;
use super::follower::{Follower, catch_up};
use super::log::Prepared;
use crate::adapters::clock::Stopwatch;
use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::NodeId;

/// How long the follower may keep entries in memory alone; the journal has them.
const DURABLE_EVERY: Duration = Duration::from_secs(5);

/// The follower, and how far it is known to follow.
#[derive(Debug)]
pub(super) struct Following {
    follower: Arc<dyn Follower>,
    folder: PathBuf,
    node: NodeId,
    /// Whether it missed entries, and must read them from the files.
    is_behind: bool,
    why: String,
    /// Whether all that it took is on disk.
    is_durable: bool,
    durable: Stopwatch,
    contradicting: ContradictingEntries,
}

impl Following {
    /// Lets the follower catch up with the files. A follower that knows more than the files says that they were cut; its other
    /// faults are those of its disk.
    pub(super) fn start(
        follower: Arc<dyn Follower>,
        folder: &Path,
        node: &NodeId,
        stood: &Highest,
    ) -> Result<Following, OpenFault> {
        let failed = |why: String| OpenFault::Disk { path: folder.to_owned(), why: named(&why), may_pass: true };
        for (environment, reached) in follower.reached().map_err(failed)? {
            let has = stood.get(&environment).copied().unwrap_or(0);
            if reached > has {
                let why = format!("it ends at number {has} of {environment}, but it had entries up to {reached}");
                return Err(OpenFault::Damaged { path: folder.to_owned(), place: None, why });
            }
        }
        // This process never sends the commits of an earlier one.
        catch_up(&*follower, folder, node, &mut |_, _| {}).map_err(failed)?;
        let (folder, node) = (folder.to_owned(), node.clone());
        Ok(Following {
            follower,
            folder,
            node,
            is_behind: false,
            why: String::new(),
            is_durable: true,
            durable: Stopwatch::start(),
            contradicting: ContradictingEntries::default(),
        })
    }

    /// Hands over entries that came to disk, in order.
    pub(super) fn hand_over(&mut self, entries: &[&Prepared]) -> Result<(), String> {
        if self.follower.take_in()? || self.is_behind {
            // The files have these entries already.
            return self.reads_files();
        }
        if entries.is_empty() {
            return Ok(());
        }
        let is_durable = self.durable.elapsed() >= DURABLE_EVERY;
        let all: Vec<_> = entries.iter().map(|entry| entry.outstanding.clone()).collect();
        let followed = self.follower.follow(&all, is_durable);
        self.followed(followed.as_ref().err(), is_durable);
        for (entry, why) in entries.iter().zip(followed?) {
            if let Some(why) = why {
                self.contradicting.add(entry.environment, entry.number, why);
            }
        }
        Ok(())
    }

    /// Returns the first of these entries that contradicts those before it, and why. All are on disk and handed over.
    pub(super) fn contradicting(&self, entries: &[Prepared]) -> Option<(u64, String)> {
        entries.iter().find_map(|Prepared { environment, number, .. }| {
            let why = self.contradicting.why(*environment, *number)?;
            Some((*number, format!("entry {number} of {environment}: {why}")))
        })
    }

    fn reads_files(&mut self) -> Result<(), String> {
        let Following { follower, folder, node, contradicting, .. } = self;
        let done = catch_up(&**follower, folder, node, &mut |entry, why| {
            contradicting.add(entry.environment, entry.number.as_u64(), why);
        });
        self.followed(done.as_ref().err(), true);
        done
    }

    fn followed(&mut self, fault: Option<&String>, is_durable: bool) {
        self.is_behind = fault.is_some();
        self.why = fault.map(|why| named(why)).unwrap_or_default();
        self.is_durable = is_durable && fault.is_none();
        if self.is_durable {
            self.durable = Stopwatch::start();
        }
    }

    /// Hands over what was missed before, and brings to disk what was handed over. Returns why it cannot follow.
    pub(super) fn catch_up(&mut self) -> Result<(), String> {
        if self.follower.take_in()? {
            return self.reads_files().map_err(|why| named(&why));
        }
        let is_due = self.durable.elapsed() >= DURABLE_EVERY;
        if let Some(why) = self.is_behind.then_some(&self.why).filter(|_| !is_due) {
            return Err(why.clone());
        }
        if !is_due || (self.is_durable && !self.is_behind) {
            return Ok(());
        }
        self.durable = Stopwatch::start();
        let done = if self.is_behind {
            self.reads_files()
        } else {
            let followed = self.follower.follow(&[], true).map(drop);
            self.followed(followed.as_ref().err(), true);
            followed
        };
        done.map_err(|why| named(&why))
    }

    pub(super) fn skip(&mut self, environment: Environment, up_to: u64) {
        if let Err(why) = self.follower.skip(environment, up_to) {
            tracing::error!(why, "the replica of the store could not follow the journal");
            self.is_behind = true;
        }
    }

    pub(super) fn end(&mut self) {
        if let Err(why) = self.follower.follow(&[], true) {
            tracing::warn!(why, "the replica of the store catches up at the next start");
        }
    }
}

fn named(why: &str) -> String {
    format!("the replica of the store beside the journal: {why}")
}
