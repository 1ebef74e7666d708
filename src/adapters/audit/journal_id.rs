//! The identity of a node's journal: a file beside its audit files, written once.
//!
//! A gate whose folder was lost gets another identity, so that nobody takes it for the gate that knows what was sent.

use std::fs;
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::folder::{audit_files, journal_id_file};
use crate::adapters::random::nonce;
use crate::adapters::regular_file::{open_regular, read_regular_text};
use crate::audit::LineReader;
use crate::ledger::{JournalId, NodeId};

/// Returns the identity of a node's journal; makes one where there is no journal yet. The process holds the folder's lock.
pub fn journal_id(folder: &Path, node: &NodeId) -> io::Result<JournalId> {
    if let Some(kept) = kept_journal_id(folder, node)? {
        return Ok(kept);
    }
    // With another identity it would be another journal, whose entries nobody compares with those of this one.
    if has_entries(folder, node)? {
        return Err(io::Error::other(format!(
            "`{}` is missing, and the folder has audit files of this gate: restore the file, for example from a backup; or move \
             all files of the gate out of the folder, then it begins another journal, and `sluice doctor` says what people do \
             about the former one",
            journal_id_file(folder, node).display()
        )));
    }
    let id = JournalId::parse(&nonce().0).ok_or_else(|| io::Error::other("no random identity could be made"))?;
    write_journal_id(folder, node, &id)?;
    Ok(id)
}

/// Puts the identity of a journal that is in use back where somebody removed or spoilt it; returns whether that was so. An
/// empty folder may stand in the place of a disk that is not mounted, and gets nothing; another identity is another journal's.
pub fn put_back_journal_id(folder: &Path, node: &NodeId, id: &JournalId) -> io::Result<bool> {
    if matches!(kept_journal_id(folder, node), Ok(Some(_))) || !has_entries(folder, node)? {
        return Ok(false);
    }
    write_journal_id(folder, node, id)?;
    Ok(true)
}

/// Whether the node's files have more than the first line of the first one.
fn has_entries(folder: &Path, node: &NodeId) -> io::Result<bool> {
    let mut lines = 0_u64;
    for file in audit_files(folder)?.into_iter().filter(|file| file.node == *node) {
        let mut reader = LineReader::of(BufReader::new(open_regular(file.path)?));
        while reader.following()?.is_some() {
            lines = lines.saturating_add(1);
            if lines > 1 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn write_journal_id(folder: &Path, node: &NodeId, id: &JournalId) -> io::Result<()> {
    let path = journal_id_file(folder, node);
    let unfinished = path.with_extension("unfinished");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(id.as_str().as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    fs::File::open(folder)?.sync_all()
}

/// Returns the identity of a node's journal, if it has one.
pub fn kept_journal_id(folder: &Path, node: &NodeId) -> io::Result<Option<JournalId>> {
    let path = journal_id_file(folder, node);
    match read_regular_text(&path) {
        Ok(text) => JournalId::parse(text.trim()).map(Some).ok_or_else(|| {
            io::Error::other(format!(
                "`{}` does not contain the identity of this gate's journal: restore the file, or remove it; then the gate \
                 counts as another one, and two people must declare the former one gone",
                path.display()
            ))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_stays_and_a_lost_one_is_another() {
        let (home, node) = (tempfile::tempdir().unwrap(), NodeId::parse("gate-1").unwrap());
        let first = journal_id(home.path(), &node).unwrap();
        assert_eq!(journal_id(home.path(), &node).unwrap(), first);
        assert_ne!(journal_id(home.path(), &NodeId::parse("gate-2").unwrap()).unwrap(), first);
        fs::remove_file(journal_id_file(home.path(), &node)).unwrap();
        assert_ne!(journal_id(home.path(), &node).unwrap(), first);
        fs::write(journal_id_file(home.path(), &node), "gate-1").unwrap();
        assert!(journal_id(home.path(), &node).unwrap_err().to_string().contains("declare the former one gone"));
    }

    /// A file without entries is that of a first start.
    #[test]
    fn a_journal_with_entries_gets_no_other_identity_and_one_in_use_gets_its_own_back() {
        let (home, node) = (tempfile::tempdir().unwrap(), NodeId::parse("gate-1").unwrap());
        let (folder, file) = (home.path(), home.path().join("audit-gate-1-00000001.jsonl"));
        fs::write(&file, "first line\n").unwrap();
        let (id, path) = (journal_id(folder, &node).unwrap(), journal_id_file(folder, &node));
        fs::remove_file(&path).unwrap();
        assert!(!put_back_journal_id(folder, &node, &id).unwrap());
        fs::write(&file, "first line\nentry\n").unwrap();
        let told = journal_id(folder, &node).unwrap_err().to_string();
        assert!(told.contains(&path.display().to_string()) && told.contains("restore the file"), "{told}");
        for spoilt in [None, Some(""), Some("no identity")] {
            drop(fs::remove_file(&path));
            spoilt.map_or(Ok(()), |text| fs::write(&path, text)).unwrap();
            assert!(put_back_journal_id(folder, &node, &id).unwrap());
            assert!(!put_back_journal_id(folder, &node, &id).unwrap());
            assert_eq!(journal_id(folder, &node).unwrap(), id);
        }
        fs::write(&path, "a1".repeat(16)).unwrap();
        assert!(!put_back_journal_id(folder, &node, &id).unwrap());
    }
}
