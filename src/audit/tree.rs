//! The Merkle tree over the lines of a journal, as RFC 6962 defines it, in tiles of 256 hashes.
//!
//! A tile at level *l* has the roots of subtrees of 256^*l* leaves each. What is not full yet at each level is all that a
//! tree needs to grow, and to tell its root.

mod proof;

use std::io;

use super::hash::Hash;

pub use proof::{Tiles, consistency_proof, inclusion_proof, is_consistent, is_included};

/// The hashes of a full tile.
pub const TILE_WIDTH: usize = 256;
/// The binary levels between two levels of tiles.
const TILE_HEIGHT: u32 = 8;

/// Returns the hash of a leaf.
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Hash::of(&[&[0], entry])
}

/// Returns the hash over two subtrees.
fn parent(left: Hash, right: Hash) -> Hash {
    Hash::of(&[&[1], left.as_bytes(), right.as_bytes()])
}

/// Returns the root over subtrees of equal size, of which there are at least one and a power of two.
fn perfect_root(mut row: Vec<Hash>) -> Option<Hash> {
    while row.len() > 1 {
        let (pairs, []) = row.as_chunks::<2>() else { return None };
        row = pairs.iter().map(|[left, right]| parent(*left, *right)).collect();
    }
    row.first().copied()
}

/// Returns the root over subtrees, of which each is at least as large as the one behind it.
fn root_of_peaks(peaks: Vec<Hash>) -> Hash {
    let mut peaks = peaks.into_iter().rev();
    let Some(last) = peaks.next() else { return Hash::of(&[]) };
    peaks.fold(last, |root, left| parent(left, root))
}

/// The place of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileIndex {
    pub level: u32,
    pub index: u64,
}

/// A tree that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowingTree {
    size: u64,
    /// The hashes of each level that no full tile has yet.
    levels: Vec<Vec<Hash>>,
}

impl GrowingTree {
    /// Returns a tree of that size, from the tiles at its right edge that are not full.
    pub fn of_edge(
        size: u64,
        mut partial: impl FnMut(TileIndex, usize) -> io::Result<Vec<Hash>>,
    ) -> io::Result<GrowingTree> {
        let (mut levels, mut level, mut left) = (Vec::new(), 0_u32, size);
        while left > 0 {
            let (index, width) = (left / TILE_WIDTH as u64, left % TILE_WIDTH as u64);
            let width = usize::try_from(width).unwrap_or_default();
            levels.push(if width > 0 { partial(TileIndex { level, index }, width)? } else { Vec::new() });
            (level, left) = (level.saturating_add(1), index);
        }
        Ok(GrowingTree { size, levels })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds the hash of a leaf; returns the tiles that became full.
    pub fn push(&mut self, leaf: Hash) -> Vec<(TileIndex, Vec<Hash>)> {
        self.size = self.size.saturating_add(1);
        let (mut hash, mut full, mut level) = (leaf, Vec::new(), 0_usize);
        let mut count = self.size;
        loop {
            if self.levels.len() <= level {
                self.levels.push(Vec::new());
            }
            let Some(row) = self.levels.get_mut(level) else { return full };
            row.push(hash);
            if row.len() < TILE_WIDTH {
                return full;
            }
            let row = std::mem::take(row);
            count /= TILE_WIDTH as u64;
            let place = TileIndex { level: u32::try_from(level).unwrap_or(u32::MAX), index: count.saturating_sub(1) };
            full.push((place, row.clone()));
            let Some(root) = perfect_root(row) else { return full };
            (hash, level) = (root, level.saturating_add(1));
        }
    }

    /// Returns the tiles at the right edge that are not full.
    pub fn edge(&self) -> Vec<(TileIndex, &[Hash])> {
        let mut count = self.size;
        let mut tiles = Vec::new();
        for (level, row) in (0..).zip(&self.levels) {
            count /= TILE_WIDTH as u64;
            if !row.is_empty() {
                tiles.push((TileIndex { level, index: count }, row.as_slice()));
            }
        }
        tiles
    }

    pub fn root(&self) -> Hash {
        let mut peaks = Vec::new();
        for row in self.levels.iter().rev() {
            let mut rest = row.as_slice();
            while !rest.is_empty() {
                let (largest, others) = rest.split_at(1 << rest.len().ilog2());
                peaks.extend(perfect_root(largest.to_vec()));
                rest = others;
            }
        }
        root_of_peaks(peaks)
    }
}

#[cfg(test)]
mod tests;
