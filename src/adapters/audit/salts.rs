//! The salts of a journal's lines in its tree: nobody can tell from the tree whether a guessed line is in the journal.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::folder::salt_file;
use crate::adapters::random;
use crate::adapters::regular_file::read_regular_text;
use crate::audit::{Hash, Salts};
use crate::base::digest::hex;
use crate::ledger::NodeId;

/// Returns the salts of a journal; `None` if it has none.
pub fn kept_salts(folder: &Path, node: &NodeId) -> io::Result<Option<Salts>> {
    let path = salt_file(folder, node);
    match read_regular_text(&path) {
        Ok(text) => match Hash::parse(text.trim_end()) {
            Some(secret) => Ok(Some(Salts::of(secret.as_bytes()))),
            None => {
                let why = format!("`{}` does not have the salt of the journal: restore it from a copy", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))),
    }
}

/// Returns the salts of a journal of which no line is in a tree yet; makes them if there are none.
pub(super) fn new_salts(folder: &Path, node: &NodeId) -> io::Result<Salts> {
    if let Some(salts) = kept_salts(folder, node)? {
        return Ok(salts);
    }
    let secret = random::bytes::<32>().ok_or_else(|| io::Error::other("the system gives no random bytes"))?;
    let path = salt_file(folder, node);
    let unfinished = path.with_extension("salt-unfinished");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    writeln!(file, "{}", hex(&secret))?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    fs::File::open(folder)?.sync_all()?;
    Ok(Salts::of(&secret))
}
