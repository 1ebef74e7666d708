//! Which entries stand in this node's files, so that none is written twice.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use super::folder::audit_files;
use crate::base::ids::Environment;
use crate::chain::{Body, Hash, Highest, Lines, read_line};
use crate::commit::NodeId;

/// How many of the newest are remembered with what they say; older ones are looked up in the files.
pub(super) const REMEMBERED: usize = 1 << 16;

pub(super) type Key = (Environment, u64);

#[derive(Debug, Default)]
pub(super) struct Remembered {
    contents: HashMap<Key, Hash>,
    order: VecDeque<Key>,
    /// No number above it was forgotten.
    forgotten: Highest,
}

impl Remembered {
    /// The files say more: up to these numbers.
    pub(super) fn forgetting(forgotten: Highest) -> Remembered {
        Remembered { forgotten, ..Remembered::default() }
    }

    pub(super) fn add(&mut self, key: Key, content: Hash) {
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

    /// What stands under that number in this node's files.
    pub(super) fn find(&self, key: Key, folder: &Path, node: &NodeId) -> io::Result<Option<Hash>> {
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

/// Reads the files, the newest first. A number so old comes again only after long trouble.
fn look_up((environment, number): Key, folder: &Path, node: &NodeId) -> io::Result<Option<Hash>> {
    let needle = format!("\"number\":{number},");
    let files = audit_files(folder)?;
    for file in files.iter().rev().filter(|file| file.node == *node) {
        let mut lines = Lines::of(BufReader::with_capacity(1 << 20, File::open(&file.path)?));
        while let Some(raw) = lines.following()? {
            // Nearly every line is passed by without being read.
            let is_near = raw.bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            let Some(line) = is_near.then(|| read_line(raw.bytes).ok()).flatten() else { continue };
            if let Body::Entry(entry) = &line.body
                && (entry.environment, entry.number.as_u64()) == (environment, number)
            {
                return Ok(Some(line.content));
            }
        }
    }
    Ok(None)
}
