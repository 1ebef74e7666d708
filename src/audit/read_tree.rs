//! The tree of a node's lines, as its files are read.

use std::io;

use super::checkpoint::Origin;
use super::hash::Hash;
use super::salts::Salts;
use super::tree::{GrowingTree, leaf_hash};
use super::verified::KnownTree;

#[derive(Clone, Debug)]
pub(super) struct ReadTree {
    origin: Origin,
    /// The file with the first line.
    begins: u64,
    salts: Salts,
    tree: GrowingTree,
}

impl ReadTree {
    /// Returns the tree behind so many lines of files that are not at hand.
    pub(super) fn behind(origin: Origin, begins: u64, lines: u64, known: &KnownTree) -> io::Result<ReadTree> {
        let tree = GrowingTree::of_edge(lines, |place, width| known.tiles.tile(place, width))?;
        Ok(ReadTree { origin, begins, salts: known.salts.clone(), tree })
    }

    pub(super) fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Adds a line of a file. Returns whether the log has it.
    pub(super) fn add(&mut self, sequence: u64, line: Hash) -> bool {
        let is_of_log = sequence >= self.begins;
        if is_of_log {
            let entry = self.salts.leaf(self.tree.size(), line);
            self.tree.push(leaf_hash(&entry));
        }
        is_of_log
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn root(&self) -> Hash {
        self.tree.root()
    }
}
