//! The entries in this node's files, so that none is written twice.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader};
use std::path::Path;

use super::folder::audit_files;
use crate::adapters::regular_file::open_regular;
use crate::audit::{Hash, Highest, LineBody, LineReader, read_line};
use crate::base::ids::Environment;
use crate::ledger::NodeId;

/// How many of the newest entries are remembered with their hash; older ones are looked up in the files.
pub(super) const REMEMBERED: usize = 1 << 16;

pub(super) type EntryKey = (Environment, u64);

#[derive(Debug, Default)]
pub(super) struct RecentEntries {
    contents: HashMap<EntryKey, Hash>,
    order: VecDeque<EntryKey>,
    /// No number above these was forgotten.
    forgotten: Highest,
}

impl RecentEntries {
    /// Returns an empty list: up to these numbers the files must be searched.
    pub(super) fn forgetting(forgotten: Highest) -> RecentEntries {
        RecentEntries { forgotten, ..RecentEntries::default() }
    }

    pub(super) fn add(&mut self, key: EntryKey, content: Hash) {
        if self.contents.insert(key, content).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED {
            let Some(oldest) = self.order.pop_front() else { return };
            self.contents.remove(&oldest);
            let (environment, number) = oldest;
            let highest = self.forgotten.entry(environment).or_default();
            *highest = number.max(*highest);
        }
    }

    /// Returns the hash of the entry with that number in this node's files.
    pub(super) fn find(&self, key: EntryKey, folder: &Path, node: &NodeId) -> io::Result<Option<Hash>> {
        let (environment, number) = key;
        if let Some(content) = self.contents.get(&key) {
            return Ok(Some(*content));
        }
        if self.forgotten.get(&environment).is_none_or(|highest| number > *highest) {
            return Ok(None);
        }
        look_up(key, folder, node)
    }
}

/// Searches the files, the newest first. So old a number returns only after a long fault.
fn look_up((environment, number): EntryKey, folder: &Path, node: &NodeId) -> io::Result<Option<Hash>> {
    let needle = format!("\"number\":{number},");
    let files = audit_files(folder)?;
    for file in files.iter().rev().filter(|file| file.node == *node) {
        let mut lines = LineReader::of(BufReader::with_capacity(1 << 20, open_regular(&file.path)?));
        while let Some(raw) = lines.following()? {
            // Most lines are skipped without being parsed.
            let is_near = raw.bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            let Some(line) = is_near.then(|| read_line(raw.bytes).ok()).flatten() else { continue };
            if let LineBody::Entry(entry) = &line.body
                && (entry.environment, entry.number.as_u64()) == (environment, number)
            {
                return Ok(Some(line.content()));
            }
        }
    }
    Ok(None)
}
