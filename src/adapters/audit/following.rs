//! Hands entries over to the follower of the journal, once they are on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
}

impl Following {
    /// Lets the follower catch up with the files. A follower that knows more than the files says that they were cut.
    pub(super) fn start(
        follower: Arc<dyn Follower>,
        folder: &Path,
        node: &NodeId,
        stood: &Highest,
    ) -> Result<Following, String> {
        for (environment, reached) in follower.reached()? {
            let has = stood.get(&environment).copied().unwrap_or(0);
            if reached > has {
                return Err(format!("it ends at number {has} of {environment}, but it had entries up to {reached}"));
            }
        }
        catch_up(&*follower, folder, node, &|_| None)?;
        let (folder, node) = (folder.to_owned(), node.clone());
        Ok(Following {
            follower,
            folder,
            node,
            is_behind: false,
            why: String::new(),
            is_durable: true,
            durable: Stopwatch::start(),
        })
    }

    /// Hands over entries that came to disk, in order; returns those that contradict the ones before, with the reason.
    pub(super) fn hand_over(&mut self, entries: &[&Prepared]) -> Result<Vec<(Environment, u64, String)>, String> {
        if self.is_behind {
            // The files have these entries already: their contradictions must not be passed over.
            let mut first = Highest::new();
            for entry in entries {
                let number = first.entry(entry.environment).or_insert(entry.number);
                *number = entry.number.min(*number);
            }
            catch_up(&*self.follower, &self.folder, &self.node, &|environment| first.get(&environment).copied())?;
            self.is_behind = false;
        }
        let is_durable = self.durable.elapsed() >= DURABLE_EVERY;
        let all: Vec<_> = entries.iter().map(|entry| entry.outstanding.clone()).collect();
        let found = self.follower.follow(&all, is_durable);
        self.is_behind = found.is_err();
        self.why = found.as_ref().err().map(|why| named(why)).unwrap_or_default();
        self.is_durable = is_durable;
        if is_durable && found.is_ok() {
            self.durable = Stopwatch::start();
        }
        let found = entries.iter().zip(found?);
        Ok(found.filter_map(|(entry, why)| Some((entry.environment, entry.number, why?))).collect())
    }

    /// Hands over what was missed before, and brings to disk what was handed over. Returns why it cannot follow.
    pub(super) fn catch_up(&mut self) -> Result<(), String> {
        let is_due = self.durable.elapsed() >= DURABLE_EVERY;
        if let Some(why) = self.is_behind.then_some(&self.why).filter(|_| !is_due) {
            return Err(why.clone());
        }
        if !is_due || (self.is_durable && !self.is_behind) {
            return Ok(());
        }
        self.durable = Stopwatch::start();
        let done = match self.is_behind {
            true => catch_up(&*self.follower, &self.folder, &self.node, &|_| None),
            false => self.follower.follow(&[], true).map(drop),
        };
        self.is_behind = done.is_err();
        self.is_durable = done.is_ok();
        self.why = done.as_ref().err().map(|why| named(why)).unwrap_or_default();
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
