//! Decides when the files of the configuration are read again.
//!
//! Files that are being written, or that belong together, are read once they stand still. Policies always are: half a set may
//! lack a limit. Another file that never stands still is not waited for: it would stop every reload of all others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use crate::adapters::file_stamp::{FileStamps, stamp_each};
use crate::adapters::policies::{LoadedPolicies, PolicyFolder};

/// A file that changed at so many checks in a row is restless. One that has no policies is read while it changes, each time after
/// so many checks.
const RESTLESS: u32 = 10;

/// Decides when changed files are read.
#[derive(Debug)]
pub(super) struct FileWatch {
    /// The stamps of the last read.
    read: Option<FileStamps>,
    /// The stamps of the last check.
    last: FileStamps,
    /// At how many checks in a row each file had changed.
    moves: BTreeMap<PathBuf, u32>,
    /// For how many checks changes have been waiting.
    waits: u32,
    /// The files without policies.
    others: BTreeSet<PathBuf>,
}

impl FileWatch {
    /// `seen`: the stamps of the files that are in use; none if they are not known. `others`: those without policies.
    pub fn new(seen: Option<FileStamps>, others: &[PathBuf]) -> FileWatch {
        let last = seen.clone().unwrap_or_default();
        FileWatch { read: seen, last, moves: BTreeMap::new(), waits: 0, others: others.iter().cloned().collect() }
    }

    /// Returns whether the files are to be read: they have changed since the last read, and not since the last check, but for
    /// restless ones without policies.
    pub fn is_due(&mut self, now: &FileStamps, is_asked: bool) -> bool {
        let moved = changed(&self.last, now);
        self.moves.retain(|path, _| moved.contains(path));
        for path in &moved {
            let moves = self.moves.entry(path.clone()).or_default();
            *moves = moves.saturating_add(1);
        }
        let (unread, is_unread) = match &self.read {
            Some(read) => (changed(read, now), read != now),
            None => (now.keys().cloned().collect(), true),
        };
        self.waits = if is_unread { self.waits.saturating_add(1) } else { 0 };
        let is_passed = |path: &PathBuf| self.others.contains(path) && self.is_restless(path);
        let is_still = moved.iter().all(is_passed);
        let has_news = self.read.is_none() || !unread.iter().all(is_passed);
        let is_due = is_asked || (is_unread && is_still && (has_news || self.waits >= RESTLESS));
        if is_due {
            (self.read, self.waits) = (Some(now.clone()), 0);
        }
        self.last.clone_from(now);
        is_due
    }

    fn is_restless(&self, path: &PathBuf) -> bool {
        self.moves.get(path).is_some_and(|moves| *moves >= RESTLESS)
    }

    /// Returns the files that change all the time.
    pub fn restless(&self) -> BTreeSet<PathBuf> {
        self.moves.keys().filter(|path| self.is_restless(path)).cloned().collect()
    }

    /// Notes the policies that were read, which are others than those of the stamps if they changed in between, and the
    /// files without policies.
    pub fn were_read(&mut self, policies: FileStamps, others: &[PathBuf]) {
        self.others = others.iter().cloned().collect();
        if let Some(read) = &mut self.read {
            read.retain(|path, _| self.others.contains(path));
            read.extend(policies);
        }
    }

    /// Forgets the last read, which was none: the files are read at the next check.
    pub fn forget(&mut self) {
        self.read = None;
    }
}

/// Returns the files of which the stamp is another one, or that are in one of both alone.
fn changed(before: &FileStamps, now: &FileStamps) -> BTreeSet<PathBuf> {
    let is_other = |path: &&PathBuf| before.get(*path) != now.get(*path);
    before.keys().chain(now.keys()).filter(is_other).cloned().collect()
}

/// Returns the stamps of all files that can be reloaded; fails where no file descriptor is left, which says nothing of them.
pub(super) fn stamp_files(folder: &PolicyFolder, files: &[PathBuf]) -> io::Result<FileStamps> {
    let mut stamps = folder.stamps()?;
    stamps.extend(stamp_each(files)?);
    Ok(stamps)
}

/// Returns the stamps of the files that a start has read; none where no file descriptor is left.
pub(super) fn stamps_at_start(folder: &PolicyFolder, set: &LoadedPolicies, files: &[PathBuf]) -> Option<FileStamps> {
    let others = stamp_each(files).ok()?;
    Some(folder.stamps_of(set).into_iter().chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Fingerprint;

    /// Files `a`, `b`, `c` and so on with these contents; an empty one is missing.
    fn seen(texts: &[&str]) -> FileStamps {
        let named = texts.iter().zip('a'..).filter(|(text, _)| !text.is_empty());
        named.map(|(text, name)| (PathBuf::from(name.to_string()), Fingerprint::of(&[text.as_bytes()]))).collect()
    }

    #[test]
    fn what_is_being_written_is_not_read_before_it_is_stable() {
        let mut watch = FileWatch::new(Some(seen(&["a"])), &[]);
        let looks = [
            ("a", false, false),
            ("a b", false, false),
            ("a b c", false, false),
            ("a b c", false, true),
            ("a b c", false, false),
            ("d", false, false),
            ("a b c", false, false),
            ("a b c", false, false),
            // After SIGHUP, files are read at once.
            ("e", true, true),
            ("e", false, false),
            ("f", false, false),
            ("f", false, true),
            // The file disappears, and comes back unchanged.
            ("", false, false),
            ("", false, true),
            ("", false, false),
            ("f", false, false),
            ("f", false, true),
            ("f", false, false),
        ];
        for (at, (now, is_asked, is_due)) in looks.into_iter().enumerate() {
            assert_eq!(watch.is_due(&seen(&[now]), is_asked), is_due, "{at}");
        }
        // A read that was none, and files of which nothing is known.
        watch.forget();
        for mut watch in [watch, FileWatch::new(None, &[])] {
            let looks = [0; 3].map(|_| watch.is_due(&seen(&["f"]), false));
            assert_eq!(looks.iter().filter(|is_due| **is_due).count(), 1);
        }
    }

    /// Their stamps say one content, another one is read, and then they are as before.
    #[test]
    fn policies_that_change_between_their_stamps_and_the_read_are_read_again() {
        let others = [PathBuf::from("b")];
        let mut watch = FileWatch::new(Some(seen(&["strict", "key"])), &others);
        assert!(watch.is_due(&seen(&["strict", "key"]), true));
        watch.were_read(seen(&["loose"]), &others);
        assert!(watch.is_due(&seen(&["strict", "key"]), false));
        watch.were_read(seen(&["strict"]), &others);
        assert!(!watch.is_due(&seen(&["strict", "key"]), false));
        // Policies and other files that the configuration names since.
        watch.were_read(seen(&["", "", "", "new"]), &[PathBuf::from("b"), PathBuf::from("c")]);
        let now = seen(&["", "key", "other", "new"]);
        assert!(watch.is_due(&now, true));
        watch.were_read(seen(&["", "", "", "new"]), &[PathBuf::from("b"), PathBuf::from("c")]);
        assert!(!watch.is_due(&now, false));
    }

    /// The checks at which files are read, of so many.
    fn reads(watch: &mut FileWatch, checks: u32, texts: impl Fn(u32) -> Vec<String>) -> Vec<u32> {
        let is_due = |check: &u32| {
            let texts = texts(*check);
            watch.is_due(&seen(&texts.iter().map(String::as_str).collect::<Vec<_>>()), false)
        };
        (1..=checks).filter(is_due).collect()
    }

    #[test]
    fn a_file_that_never_stands_still_is_read_now_and_then_and_hinders_no_other() {
        let start = seen(&["", "b", "c"]);
        let mut watch = FileWatch::new(Some(start), &[PathBuf::from("a")]);
        // Beside it, two files are written one after the other, at the checks 14 and 15.
        let texts = |check: u32| {
            let written = |at: u32, text: &str| if check < at { text.to_owned() } else { format!("{text} new") };
            vec![check.to_string(), written(14, "b"), written(15, "c")]
        };
        assert_eq!(reads(&mut watch, 26, texts), [10, 16, 26]);
        assert_eq!(watch.restless().iter().collect::<Vec<_>>(), [&PathBuf::from("a")]);
        // It stands still.
        let texts = |_| ["last", "b new", "c new"].map(str::to_owned).to_vec();
        assert_eq!(reads(&mut watch, 20, texts), [2]);
        assert!(watch.restless().is_empty());
    }

    /// A set that is written slowly may lack a limit until its last file is there.
    #[test]
    fn policies_are_read_only_once_they_stand_still() {
        let mut watch = FileWatch::new(Some(seen(&["a", "b"])), &[PathBuf::from("c")]);
        let growing = |check: u32| vec![check.min(60).to_string(), "b".to_owned(), check.to_string()];
        assert_eq!(reads(&mut watch, 60, growing), [0_u32; 0]);
        assert_eq!(watch.restless().len(), 2);
        let texts = |check: u32| vec!["60".to_owned(), "b".to_owned(), (60 + check).to_string()];
        assert_eq!(reads(&mut watch, 3, texts), [1]);
        // The files of a set that come one after the other.
        let mut watch = FileWatch::new(Some(seen(&["a", "b"])), &[]);
        let texts = |check: u32| vec![(check.min(50) / 2).to_string(), check.min(51).div_ceil(2).to_string()];
        assert_eq!(reads(&mut watch, 60, texts), [52]);
    }
}
