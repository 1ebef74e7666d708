//! The identity of a node's journal: a file beside its audit files, written once.
//!
//! A gate whose folder was lost gets another identity, so that nobody takes it for the gate that knows what was sent.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::folder::journal_id_file;
use crate::adapters::random::nonce;
use crate::adapters::regular_file::read_regular_text;
use crate::ledger::{JournalId, NodeId};

/// Returns the identity of a node's journal; makes one where there is none. The process holds the folder's lock.
pub fn journal_id(folder: &Path, node: &NodeId) -> io::Result<JournalId> {
    if let Some(kept) = kept_journal_id(folder, node)? {
        return Ok(kept);
    }
    let path = journal_id_file(folder, node);
    let id = JournalId::parse(&nonce().0).ok_or_else(|| io::Error::other("no random identity could be made"))?;
    let unfinished = path.with_extension("unfinished");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(id.as_str().as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    fs::File::open(folder)?.sync_all()?;
    Ok(id)
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
}
