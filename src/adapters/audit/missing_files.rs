//! Files that are missing in the middle of a journal, and the numbers that were in them.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::archive::read_manifest;
use super::folder::{AuditFile, audit_files, manifest_file};
use super::whole_journal::header;
use crate::adapters::regular_file::{open_regular, read_regular_text};
use crate::audit::{Highest, LineBody, scan};
use crate::base::ids::Environment;
use crate::ledger::NodeId;

/// Files that follow each other and are all missing, although files before and behind them are there or archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFiles {
    pub first: u64,
    pub last: u64,
    /// The numbers of each environment that were in them: the first and the last.
    pub numbers: Vec<(Environment, u64, u64)>,
}

impl MissingFiles {
    pub fn text(&self) -> String {
        match self.first == self.last {
            true => format!("file {} of the journal is missing", self.first),
            false => format!("files {} to {} of the journal are missing", self.first, self.last),
        }
    }
}

/// Finds the gaps in the sequence of a node's files, behind those that its manifest names.
pub fn missing_files(folder: &Path, node: &NodeId) -> io::Result<Vec<MissingFiles>> {
    let archived = read_manifest(&manifest_file(folder, node))?.pop();
    let mut before = archived.map(|file| (file.sequence, BeforeGap::Archived(file.highest)));
    let mut gaps = Vec::new();
    for file in audit_files(folder)?.into_iter().filter(|file| file.node == *node) {
        let sequence = file.sequence;
        if let Some((last, known)) = &before
            && last.saturating_add(1) < sequence
        {
            let (was, is) = (known.highest()?, header(&file)?.highest);
            let numbers = is.into_iter().filter_map(|(environment, last)| {
                let first = was.get(&environment).copied().unwrap_or(0).saturating_add(1);
                (first <= last).then_some((environment, first, last))
            });
            let numbers = numbers.collect();
            gaps.push(MissingFiles { first: last.saturating_add(1), last: sequence.saturating_sub(1), numbers });
        }
        // A file that is archived may still be there.
        if before.as_ref().is_none_or(|(last, _)| *last < sequence) {
            before = Some((sequence, BeforeGap::File(file)));
        }
    }
    Ok(gaps)
}

/// What stands before a gap.
enum BeforeGap {
    Archived(Highest),
    File(AuditFile),
}

impl BeforeGap {
    /// Returns the highest numbers at its end.
    fn highest(&self) -> io::Result<Highest> {
        let file = match self {
            BeforeGap::Archived(highest) => return Ok(highest.clone()),
            BeforeGap::File(file) => file,
        };
        let mut highest = header(file)?.highest;
        scan(BufReader::with_capacity(1 << 20, open_regular(&file.path)?), |line| {
            if let LineBody::Entry(entry) = line.body {
                let known = highest.entry(entry.environment).or_default();
                *known = entry.number.as_u64().max(*known);
            }
        })?;
        Ok(highest)
    }
}

/// Returns the gaps for which money was closed before: the first and the last file of each.
pub fn told_gaps(folder: &Path, node: &NodeId) -> io::Result<Vec<(u64, u64)>> {
    let text = match read_regular_text(told_file(folder, node)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let gap =
        |line: &str| line.split_once(' ').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    Ok(text.lines().filter_map(gap).collect())
}

/// Keeps the gaps for which money was closed: once a person has opened it, the next start leaves it open.
pub fn keep_told_gaps(folder: &Path, node: &NodeId, gaps: &[MissingFiles]) -> io::Result<()> {
    let text: String = gaps.iter().map(|gap| format!("{} {}\n", gap.first, gap.last)).collect();
    let path = told_file(folder, node);
    let new = path.with_extension("gaps.new");
    fs::write(&new, text)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
}

/// `audit-<node>.gaps`
fn told_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.gaps"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{FileHeader, Hash, LineText};
    use crate::ledger::{Number, Outstanding, StoreTime};

    const PRODUCTION: Environment = Environment::Production;

    /// Writes a file with some entries behind a number.
    fn write(folder: &Path, node: &NodeId, sequence: u64, behind: u64, entries: u64) {
        let at = StoreTime::of_micros(1);
        let highest = Highest::from([(PRODUCTION, behind)]);
        let mut bytes = Vec::new();
        let header = FileHeader { node: node.clone(), sequence, at, highest, snapshot: None, anew: [].into() };
        let mut hash = LineText::of_header(&header).unwrap().put_behind(Hash::NOTHING, &mut bytes);
        for number in behind + 1..=behind + entries {
            let entry = bytes::Bytes::from_static(b"{}");
            let entry =
                Outstanding { environment: PRODUCTION, number: Number::new(number), at, node: node.clone(), entry };
            hash = LineText::of_entry(&entry).unwrap().put_behind(hash, &mut bytes);
        }
        fs::write(super::super::audit_file(folder, node, sequence), bytes).unwrap();
    }

    #[test]
    fn files_that_are_missing_in_the_middle_are_named_with_their_numbers() {
        let home = tempfile::tempdir().unwrap();
        let node = NodeId::parse("gate").unwrap();
        (0..6).for_each(|nth| write(home.path(), &node, nth + 1, nth * 10, 10));
        write(home.path(), &NodeId::parse("other").unwrap(), 9, 90, 1);
        let remove = |sequence| fs::remove_file(super::super::audit_file(home.path(), &node, sequence)).unwrap();
        let found = || missing_files(home.path(), &node).unwrap();
        // Those at the beginning may be elsewhere.
        remove(1);
        assert_eq!(found(), []);
        remove(3);
        remove(4);
        let gap = MissingFiles { first: 3, last: 4, numbers: vec![(PRODUCTION, 21, 40)] };
        assert_eq!(found(), std::slice::from_ref(&gap));
        assert_eq!(gap.text(), "files 3 to 4 of the journal are missing");
        assert_eq!(told_gaps(home.path(), &node).unwrap(), []);
        keep_told_gaps(home.path(), &node, std::slice::from_ref(&gap)).unwrap();
        assert_eq!(told_gaps(home.path(), &node).unwrap(), [(3, 4)]);
        // A journal that goes on without entries says so in a header: no file is missing.
        write(home.path(), &node, 7, 100, 1);
        assert_eq!(found().len(), 1);
    }
}
