//! The tree of a journal in files, as C2SP's `tlog-tiles` names them: any server of static files can serve the folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::folder::tree_folder;
use super::own_folder::AuditFolder;
use crate::adapters::regular_file::read_regular;
use crate::audit::{Checkpoint, Hash, TILE_WIDTH, TileIndex, Tiles};
use crate::ledger::NodeId;

/// The bytes of a leaf's entry.
pub(super) type LeafEntry = [u8; 32];

/// The folder of a tree.
#[derive(Clone, Debug)]
pub struct TreeFolder {
    folder: PathBuf,
    audit: AuditFolder,
}

impl TreeFolder {
    pub fn of(audit_folder: &Path, node: &NodeId) -> TreeFolder {
        TreeFolder::inside(&AuditFolder::at(audit_folder), node)
    }

    /// Returns the tree of a log that writes.
    pub(super) fn inside(audit: &AuditFolder, node: &NodeId) -> TreeFolder {
        TreeFolder { folder: tree_folder(audit, node), audit: audit.clone() }
    }

    /// Writes hashes of a tile: all, or those that there are.
    pub(super) fn write_tile(&self, place: TileIndex, row: &[Hash]) -> io::Result<()> {
        let bytes: Vec<u8> = row.iter().flat_map(Hash::as_bytes).copied().collect();
        self.write_row(&place.level.to_string(), place.index, row.len(), &bytes)
    }

    /// Writes entries of the leaves of a tile.
    pub(super) fn write_entries(&self, index: u64, entries: &[LeafEntry]) -> io::Result<()> {
        const LENGTH: [u8; 2] = [0, 32];
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| LENGTH.into_iter().chain(*entry)).collect();
        self.write_row("entries", index, entries.len(), &bytes)
    }

    /// Reads entries of the leaves of a tile, which has at least `width`.
    pub(super) fn entries(&self, index: u64, width: usize) -> io::Result<Vec<LeafEntry>> {
        let bytes = self.read_row("entries", index, (width, 34))?;
        let (entries, _) = bytes.as_chunks::<34>();
        let entries: Vec<LeafEntry> =
            entries.iter().take(width).filter_map(|entry| entry.strip_prefix(&[0, 32])?.try_into().ok()).collect();
        if entries.len() < width { Err(self.damaged("entries", index)) } else { Ok(entries) }
    }

    /// Removes what is of a larger tree: its lines may be others. Such tiles come with a copy whose tree was copied last.
    pub(super) fn remove_beyond(&self, size: u64) -> io::Result<()> {
        let width = TILE_WIDTH as u64;
        let (mut level, mut count) = (0_u32, size);
        // Above the root of the tree there is nothing.
        loop {
            let names = if level == 0 { vec!["0".to_owned(), "entries".to_owned()] } else { vec![level.to_string()] };
            for name in names {
                self.remove_row_beyond(&name, count)?;
            }
            if count < width {
                break;
            }
            (level, count) = (level.saturating_add(1), count / width);
        }
        while self.folder.join("tile").join(level.saturating_add(1).to_string()).exists() {
            level = level.saturating_add(1);
            fs::remove_dir_all(self.folder.join("tile").join(level.to_string()))?;
        }
        Ok(())
    }

    /// Removes the tiles of a level behind so many hashes.
    fn remove_row_beyond(&self, level: &str, count: u64) -> io::Result<()> {
        let (mut index, open) = (count / TILE_WIDTH as u64, count % TILE_WIDTH as u64);
        loop {
            let path = self.path(level, index);
            let mut is_there = path.exists();
            if is_there {
                fs::remove_file(&path)?;
            }
            for file in fs::read_dir(partial(&path)).into_iter().flatten() {
                let file = file?;
                let is_wider = file
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u64>().ok())
                    .is_none_or(|found| found > open);
                if is_wider || index > count / TILE_WIDTH as u64 {
                    is_there = true;
                    fs::remove_file(file.path())?;
                }
            }
            if !is_there && index > count / TILE_WIDTH as u64 {
                return Ok(());
            }
            index = index.saturating_add(1);
        }
    }

    /// Publishes a checkpoint.
    pub(super) fn publish(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.write(&self.folder.join("checkpoint"), checkpoint.note.to_string().as_bytes())
    }

    /// Returns the checkpoint that was published last, if it can be read.
    pub fn published(&self) -> io::Result<Option<Checkpoint>> {
        let note = read_if_there(&self.folder.join("checkpoint"))?;
        Ok(note.and_then(|note| Checkpoint::of_note(std::str::from_utf8(&note).ok()?).ok()))
    }

    /// Removes all tiles.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.folder.join("tile")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write_row(&self, level: &str, index: u64, width: usize, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(level, index);
        if width < TILE_WIDTH {
            return self.write(&partial(&path).join(width.to_string()), bytes);
        }
        self.write(&path, bytes)?;
        match fs::remove_dir_all(partial(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the full tile, or the widest of those that are not, which has at least `width` hashes or entries of a length.
    fn read_row(&self, level: &str, index: u64, (width, length): (usize, usize)) -> io::Result<Vec<u8>> {
        let path = self.path(level, index);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
        let whole = |bytes: Vec<u8>, count: usize| {
            let is_whole = bytes.len() == count.saturating_mul(length);
            if is_whole { Ok(bytes) } else { Err(self.damaged(level, index)) }
        };
        if let Some(full) = read_if_there(&path).map_err(named)? {
            return whole(full, TILE_WIDTH);
        }
        let widest = fs::read_dir(partial(&path)).map(|files| {
            let widths = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
            widths.filter(|found: &usize| *found >= width).max()
        });
        if let Some(widest) = widest.ok().flatten()
            && let Some(part) = read_if_there(&partial(&path).join(widest.to_string())).map_err(named)?
        {
            return whole(part, widest);
        }
        // The tile became full meanwhile, or is missing.
        let full = read_if_there(&path).map_err(named)?.ok_or_else(|| self.damaged(level, index))?;
        whole(full, TILE_WIDTH)
    }

    fn path(&self, level: &str, index: u64) -> PathBuf {
        let mut parts = vec![format!("{:03}", index % 1_000)];
        let mut rest = index / 1_000;
        while rest > 0 {
            parts.push(format!("x{:03}", rest % 1_000));
            rest /= 1_000;
        }
        parts.iter().rev().fold(self.folder.join("tile").join(level), |path, part| path.join(part))
    }

    /// Writes a file whole or not at all.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        self.audit.make_inside(&self.folder)?;
        fs::create_dir_all(folder)?;
        let mut name = path.as_os_str().to_owned();
        name.push(".unfinished");
        let unfinished = PathBuf::from(name);
        let mut file = File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        File::open(folder)?.sync_all()
    }

    fn damaged(&self, level: &str, index: u64) -> io::Error {
        let folder = self.folder.display();
        let why = format!("the tree in `{folder}` does not have the hashes of tile {index} at level {level}");
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl Tiles for TreeFolder {
    fn tile(&self, place: TileIndex, width: usize) -> io::Result<Vec<Hash>> {
        let level = place.level.to_string();
        let bytes = self.read_row(&level, place.index, (width, 32))?;
        let (hashes, _) = bytes.as_chunks::<32>();
        let row: Vec<Hash> = hashes.iter().take(width).map(|hash| Hash::of_bytes(*hash)).collect();
        if row.len() < width { Err(self.damaged(&level, place.index)) } else { Ok(row) }
    }
}

/// Returns the content of a file; `None` if there is none.
fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The folder of the tiles with an index that are not full.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".p");
    PathBuf::from(name)
}
