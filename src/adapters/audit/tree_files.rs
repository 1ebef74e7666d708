//! A growing tree, and its files: what is full is written once, and what is not full with each checkpoint.

use std::io;

use super::tree_folder::{LeafEntry, TreeFolder};
use crate::audit::{GrowingTree, Hash, TILE_WIDTH, TileIndex, Tiles as _, leaf_hash};

/// A tree, and what of it is not in files yet.
#[derive(Debug)]
pub(super) struct TreeFiles {
    folder: TreeFolder,
    tree: GrowingTree,
    /// The entries of the newest leaves, of which there is no full tile yet.
    entries: Vec<LeafEntry>,
    full: Vec<(TileIndex, Vec<Hash>)>,
    full_entries: Vec<(u64, Vec<LeafEntry>)>,
}

impl TreeFiles {
    /// Removes the files, and begins a tree.
    pub(super) fn empty(folder: TreeFolder) -> io::Result<TreeFiles> {
        folder.clear()?;
        Ok(TreeFiles::of(folder, GrowingTree::default(), Vec::new()))
    }

    fn of(folder: TreeFolder, tree: GrowingTree, entries: Vec<LeafEntry>) -> TreeFiles {
        TreeFiles { folder, tree, entries, full: Vec::new(), full_entries: Vec::new() }
    }

    /// Reads all files of a tree of that size and root, and fails where one differs.
    pub(super) fn of_edge(folder: TreeFolder, size: u64, root: Hash) -> io::Result<TreeFiles> {
        let mut again = GrowingTree::default();
        let mut entries = Vec::new();
        let (width, mut index, mut left) = (TILE_WIDTH as u64, 0_u64, size);
        while left > 0 {
            let count = usize::try_from(left.min(width)).unwrap_or(TILE_WIDTH);
            entries = folder.entries(index, count)?;
            for entry in &entries {
                for (place, row) in again.push(leaf_hash(entry)) {
                    folder.compare(place, &row)?;
                }
            }
            (index, left) = (index.saturating_add(1), left.saturating_sub(width));
        }
        for (place, row) in again.edge() {
            folder.compare(place, row)?;
        }
        if again.root() != root {
            return Err(io::Error::other("its files differ from the newest checkpoint"));
        }
        entries.truncate(usize::try_from(size % width).unwrap_or_default());
        folder.remove_beyond(size)?;
        Ok(TreeFiles::of(folder, again, entries))
    }

    pub(super) fn tree(&self) -> &GrowingTree {
        &self.tree
    }

    pub(super) fn push(&mut self, entry: LeafEntry) {
        let index = self.tree.size();
        self.entries.push(entry);
        self.full.extend(self.tree.push(leaf_hash(&entry)));
        if self.entries.len() == TILE_WIDTH {
            self.full_entries.push((index / TILE_WIDTH as u64, std::mem::take(&mut self.entries)));
        }
    }

    /// Writes what the files lack.
    pub(super) fn write(&mut self) -> io::Result<()> {
        for (index, entries) in &self.full_entries {
            self.folder.write_entries(*index, entries)?;
        }
        for (place, row) in &self.full {
            self.folder.write_tile(*place, row)?;
        }
        self.full_entries.clear();
        self.full.clear();
        if !self.entries.is_empty() {
            self.folder.write_entries(self.tree.size() / TILE_WIDTH as u64, &self.entries)?;
        }
        self.tree.edge().into_iter().try_for_each(|(place, row)| self.folder.write_tile(place, row))
    }
}

impl TreeFolder {
    /// Fails where a tile has other hashes.
    fn compare(&self, place: TileIndex, row: &[Hash]) -> io::Result<()> {
        if self.tile(place, row.len())? == row {
            return Ok(());
        }
        let TileIndex { level, index } = place;
        Err(io::Error::other(format!("tile {index} at level {level} was changed")))
    }
}
