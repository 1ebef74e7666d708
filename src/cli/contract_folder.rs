//! The files of a contract folder. Links between its folders lead to no endless walk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::adapters::regular_file::read_regular;
use crate::catalog::SchemaFiles;

/// How deep folders may lie in each other.
const MAX_DEPTH: usize = 16;
/// The most files and folders of a contract.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes of its files together.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A file or folder below a contract folder.
struct ContractEntry {
    path: PathBuf,
    /// The name from the contract folder on, with `/` between its parts.
    name: String,
    is_folder: bool,
}

/// Reads the JSON files of a contract folder and its subfolders.
pub(super) fn schema_files(folder: &Path) -> io::Result<SchemaFiles> {
    let (mut files, mut bytes) = (SchemaFiles::default(), 0_usize);
    for entry in entries(folder)?.into_iter().filter(|entry| !entry.is_folder && entry.name.ends_with(".json")) {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", entry.name));
        let content = read_regular(&entry.path).map_err(failed)?;
        bytes = bytes.saturating_add(content.len());
        if bytes > MAX_BYTES {
            return Err(io::Error::other(format!("its files have more than {} MiB", MAX_BYTES >> 20)));
        }
        files.insert(&entry.name, content);
    }
    Ok(files)
}

/// Returns a folder with all its subfolders and files.
pub(super) fn folders_of(folder: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = folder else { return Vec::new() };
    let below = entries(folder).unwrap_or_default().into_iter().map(|entry| entry.path);
    std::iter::once(folder.to_owned()).chain(below).collect()
}

fn entries(folder: &Path) -> io::Result<Vec<ContractEntry>> {
    let mut found = Vec::new();
    gather(folder, "", &mut vec![identity(folder)?], &mut found)?;
    Ok(found)
}

/// `above` has the folders around this one: a link back to one of them leads to nothing new.
fn gather(folder: &Path, prefix: &str, above: &mut Vec<(u64, u64)>, found: &mut Vec<ContractEntry>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if found.len() >= MAX_ENTRIES || above.len() > MAX_DEPTH {
            let why = format!("it has more than {MAX_ENTRIES} files, or folders deeper than {MAX_DEPTH}");
            return Err(io::Error::other(why));
        }
        let (name, is_folder) = (format!("{prefix}{name}"), path.is_dir());
        found.push(ContractEntry { path: path.clone(), name: name.clone(), is_folder });
        if is_folder && !above.contains(&identity(&path)?) {
            above.push(identity(&path)?);
            gather(&path, &format!("{name}/"), above, found)?;
            above.pop();
        }
    }
    Ok(())
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}
