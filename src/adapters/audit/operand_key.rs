//! The key under which personal operands are digested in the audit log: the configured one, or one that is created once
//! and kept away from the files, in the folder of the store, readable only by its owner.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::adapters::random;
use crate::adapters::regular_file::read_regular_text;
use crate::base::keyed::OperandKey;
use crate::base::secret::Secret;

const FILE: &str = "operand.key";

/// Returns the key of a node; creates one in this folder if there is none.
pub fn operand_key(configured: Option<&Secret>, folder: &Path) -> io::Result<OperandKey> {
    if let Some(secret) = configured {
        return fit(secret, "`audit.operand_key`");
    }
    if let Some(kept) = kept_operand_key(folder)? {
        return Ok(kept);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Written whole under its name or not at all, and never in place of another key.
    let beside = folder.join(format!("{FILE}.{}", random::nonce().0));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(random::key().reveal().as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&beside, folder.join(FILE));
    fs::remove_file(&beside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::File::open(folder)?.sync_all()?;
    kept_operand_key(folder)?
        .ok_or_else(|| io::Error::other(format!("`{FILE}` has disappeared from the store's folder")))
}

/// Returns the key that a folder keeps.
pub fn kept_operand_key(folder: &Path) -> io::Result<Option<OperandKey>> {
    let path = folder.join(FILE);
    match read_regular_text(&path) {
        Ok(text) => fit(&Secret::new(text.trim().to_owned()), &format!("`{}`", path.display())).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))),
    }
}

fn fit(secret: &Secret, what: &str) -> io::Result<OperandKey> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, format!("{what} is too short to be a key"));
    OperandKey::of(secret.reveal().as_bytes()).ok_or_else(short)
}
