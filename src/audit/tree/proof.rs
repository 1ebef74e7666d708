//! Proofs that a tree has a leaf, and that it grew from another one.

use std::io;
use std::ops::Range;

use super::{Hash, TILE_HEIGHT, TILE_WIDTH, TileIndex, parent, perfect_root, root_of_peaks};

/// The tiles of a tree.
pub trait Tiles {
    /// Returns the first hashes of a tile.
    fn tile(&self, place: TileIndex, width: usize) -> io::Result<Vec<Hash>>;
}

impl<F: Fn(TileIndex, usize) -> io::Result<Vec<Hash>>> Tiles for F {
    fn tile(&self, place: TileIndex, width: usize) -> io::Result<Vec<Hash>> {
        self(place, width)
    }
}

/// A tree as its tiles have it.
struct TiledTree<'t> {
    size: u64,
    tiles: &'t dyn Tiles,
}

impl TiledTree<'_> {
    /// Returns the root over a range of leaves that does not go beyond the tree.
    fn root(&self, range: Range<u64>) -> io::Result<Hash> {
        let (mut peaks, mut at) = (Vec::new(), range.start);
        while at < range.end {
            // The largest perfect subtree that begins here, and does not go beyond the end.
            let left = range.end.saturating_sub(at).ilog2();
            let height = if at == 0 { left } else { left.min(at.trailing_zeros()) };
            peaks.push(self.perfect(height, at >> height)?);
            at = at.saturating_add(1 << height);
        }
        Ok(root_of_peaks(peaks))
    }

    /// Returns the root of the perfect subtree of a height, by its index among those.
    fn perfect(&self, height: u32, index: u64) -> io::Result<Hash> {
        let (level, rest) = (height / TILE_HEIGHT, height % TILE_HEIGHT);
        let (first, count) = (index << rest, 1_u64 << rest);
        let width = TILE_WIDTH as u64;
        let (tile, from) = (first / width, first % width);
        let at_level = self.size.checked_shr(level.saturating_mul(TILE_HEIGHT)).unwrap_or_default();
        let has = at_level.saturating_sub(tile.saturating_mul(width)).min(width);
        let missing = || io::Error::other(format!("the tile {tile} at level {level} lacks hashes"));
        let [has, from, count] = [has, from, count].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let row = self.tiles.tile(TileIndex { level, index: tile }, has)?;
        let row = row.get(from..from.saturating_add(count)).ok_or_else(missing)?;
        perfect_root(row.to_vec()).ok_or_else(missing)
    }
}

/// The largest power of two below `size`, which is at least 2.
fn split(size: u64) -> u64 {
    1 << size.saturating_sub(1).ilog2()
}

/// Returns the path from a leaf to the root of a tree of that size.
pub fn inclusion_proof(tiles: &dyn Tiles, size: u64, leaf: u64) -> io::Result<Vec<Hash>> {
    let tree = TiledTree { size, tiles };
    let (mut range, mut path) = (0..size, Vec::new());
    while range.end.saturating_sub(range.start) > 1 {
        let middle = range.start.saturating_add(split(range.end.saturating_sub(range.start)));
        let (inside, beside) = match leaf < middle {
            true => (range.start..middle, middle..range.end),
            false => (middle..range.end, range.start..middle),
        };
        path.push(tree.root(beside)?);
        range = inside;
    }
    path.reverse();
    Ok(path)
}

/// Returns the proof that a tree of size `old` grew to size `new`.
pub fn consistency_proof(tiles: &dyn Tiles, old: u64, new: u64) -> io::Result<Vec<Hash>> {
    if old == 0 || old == new {
        return Ok(Vec::new());
    }
    let tree = TiledTree { size: new, tiles };
    let (mut range, mut path) = (0..new, Vec::new());
    // The old tree ends inside of the range, or with it.
    while old < range.end {
        let middle = range.start.saturating_add(split(range.end.saturating_sub(range.start)));
        let (inside, beside) = match old <= middle {
            true => (range.start..middle, middle..range.end),
            false => (middle..range.end, range.start..middle),
        };
        path.push(tree.root(beside)?);
        range = inside;
    }
    if range.start > 0 {
        path.push(tree.root(range)?);
    }
    path.reverse();
    Ok(path)
}

/// Whether a tree of that size and root has the leaf at an index.
pub fn is_included(leaf: Hash, index: u64, size: u64, root: Hash, path: &[Hash]) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last, mut hash) = (index, size.saturating_sub(1), leaf);
    for beside in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            hash = parent(*beside, hash);
            while at.is_multiple_of(2) && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = parent(hash, *beside);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && hash == root
}

/// Whether the second tree has all leaves of the first one, in their order.
pub fn is_consistent(old: (u64, Hash), new: (u64, Hash), path: &[Hash]) -> bool {
    let ((old_size, old_root), (new_size, new_root)) = (old, new);
    if old_size == new_size {
        return path.is_empty() && old_root == new_root;
    }
    if old_size == 0 {
        return path.is_empty();
    }
    if old_size > new_size {
        return false;
    }
    let mut path = path.iter().copied();
    let first = if old_size.is_power_of_two() { Some(old_root) } else { path.next() };
    let Some(first) = first else { return false };
    let (mut at, mut last) = (old_size.saturating_sub(1), new_size.saturating_sub(1));
    while at % 2 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let (mut before, mut after) = (first, first);
    for beside in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            (before, after) = (parent(beside, before), parent(beside, after));
            while at.is_multiple_of(2) && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            after = parent(after, beside);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && before == old_root && after == new_root
}
