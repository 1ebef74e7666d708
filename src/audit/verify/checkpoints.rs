//! Compares the lines that were read with signed checkpoints.

use std::collections::BTreeMap;
use std::io;

use super::super::checkpoint::{Checkpoint, Origin};
use super::super::flaw::{FlawKind, FlawPlace};
use super::super::hash::Hash;
use super::super::kept_checkpoint::KeptCheckpoint;
use super::super::note::{NoteKey, NoteVerdict};
use super::super::read_tree::ReadTree;
use super::super::verified::WitnessedLines;
use super::{FileReading, Verification};
use crate::ledger::NodeId;

/// The statements of checkpoints on a log at a number of lines.
pub(super) struct SignedSize {
    root: Hash,
    place: FlawPlace,
    /// When each witness signed.
    witnessed: BTreeMap<NoteKey, u64>,
}

impl Verification<'_> {
    /// Takes the checkpoints that a given key signed.
    pub(super) fn take_checkpoints(&mut self) {
        let known = self.known;
        for line in &known.checkpoints {
            let KeptCheckpoint { checkpoint, place } = match &line.read {
                Ok(kept) => kept,
                Err(fault) => {
                    self.flaw(line.place.clone(), FlawKind::CheckpointLine(fault.clone()));
                    continue;
                }
            };
            if !known.keys.is_empty() && !known.keys.iter().any(|key| key.signed(checkpoint)) {
                if line.is_beside || self.own_logs.contains(&checkpoint.origin) {
                    self.flaw(line.place.clone(), FlawKind::CheckpointSignature { key: checkpoint.keys() });
                } else {
                    self.skipped_logs.insert(checkpoint.origin.clone());
                }
                continue;
            }
            if let Some(place) = place {
                self.begins.entry(checkpoint.origin.clone()).or_insert(place.begins);
            }
            self.take(checkpoint, &line.place);
        }
        if known.keys.is_empty() && !known.checkpoints.is_empty() {
            self.note("no public key was given: whether checkpoints are signed was not looked at".to_owned());
        }
    }

    fn take(&mut self, checkpoint: &Checkpoint, place: &FlawPlace) {
        let Checkpoint { origin, size, root, note } = checkpoint;
        let new = || SignedSize { root: *root, place: place.clone(), witnessed: BTreeMap::new() };
        let same = self.signed.entry(origin.clone()).or_default().entry(*size).or_insert_with(new);
        if same.root != *root {
            return self.flaw(place.clone(), FlawKind::Forked { origin: origin.clone(), size: *size });
        }
        let mut wrong = Vec::new();
        for key in &self.known.witnesses {
            match note.verdict(key) {
                NoteVerdict::Signed { at } => drop(same.witnessed.insert(key.clone(), at.unwrap_or_default())),
                NoteVerdict::Wrong => wrong.push(key.name().to_owned()),
                NoteVerdict::Absent => {}
            }
        }
        for name in wrong {
            self.flaw(place.clone(), FlawKind::WitnessSignature { name });
        }
    }

    /// Tells of logs that were signed and are not among the files.
    pub(super) fn other_logs(&mut self) {
        let others = self.signed.iter().filter(|(origin, _)| !self.own_logs.contains(origin));
        let others: Vec<(Origin, FlawPlace)> = others
            .filter_map(|(origin, sizes)| Some((origin.clone(), sizes.last_key_value()?.1.place.clone())))
            .collect();
        for (origin, place) in others {
            if self.known.former_logs.contains(&origin) {
                self.note(format!("the former log `{origin}` is accepted: its lines were not looked at"));
            } else {
                self.flaw(place, FlawKind::OtherLog { origin });
            }
        }
        for origin in std::mem::take(&mut self.skipped_logs) {
            self.note(format!("the log `{origin}` has another key than those given, and was not looked at"));
        }
    }

    /// Returns the tree of the files before one, to which the lines from there on are added.
    pub(super) fn tree(
        &mut self,
        node: &NodeId,
        first: u64,
        reading: &mut FileReading,
    ) -> io::Result<Option<ReadTree>> {
        let known = self.known;
        let Some(tree) = known.trees.get(node) else { return Ok(None) };
        let origin = Origin::new(node.clone(), &tree.salts);
        if !self.signed.contains_key(&origin) {
            return Ok(None);
        }
        let begins = self.begins.get(&origin).copied().unwrap_or(1);
        let before =
            known.archived.iter().filter(|file| file.node == *node && (begins..first).contains(&file.sequence));
        // Two folders may have the same manifest.
        let before: BTreeMap<u64, u64> = before.map(|file| (file.sequence, file.lines)).collect();
        let lines = before.values().fold(0_u64, |lines, of_file| lines.saturating_add(*of_file));
        let sizes = self.signed.get(&origin).into_iter().flatten().map(|(size, _)| *size).filter(|size| *size < lines);
        for size in sizes.collect::<Vec<_>>() {
            match ReadTree::behind(origin.clone(), begins, size, tree) {
                Ok(then) if self.compare(&then, &FlawPlace::default(), reading) => {}
                Ok(_) => return Ok(None),
                Err(error) => return Ok(self.without_tree(node, &error)),
            }
        }
        match ReadTree::behind(origin, begins, lines, tree) {
            Ok(tree) => Ok(self.compare(&tree, &FlawPlace::default(), reading).then_some(tree)),
            Err(error) => Ok(self.without_tree(node, &error)),
        }
    }

    fn without_tree(&mut self, node: &NodeId, error: &io::Error) -> Option<ReadTree> {
        self.note(format!("the tree of `{node}` cannot be read: {error}"));
        self.flaw(FlawPlace::default(), FlawKind::OtherTree);
        None
    }

    /// Adds a line to the tree, and compares it with the checkpoints that were made then.
    pub(super) fn add_to_tree(&mut self, (sequence, line): (u64, Hash), place: &FlawPlace, reading: &mut FileReading) {
        if let Some(mut tree) = reading.tree.take() {
            // Behind the first difference, everything differs.
            let is_same = !tree.add(sequence, line) || self.compare(&tree, place, reading);
            reading.tree = is_same.then_some(tree);
        }
    }

    /// Returns whether no checkpoint says otherwise.
    fn compare(&mut self, tree: &ReadTree, place: &FlawPlace, reading: &mut FileReading) -> bool {
        let signed = self.signed.get(tree.origin()).and_then(|sizes| sizes.get(&tree.size()));
        let Some(signed) = signed else { return true };
        if signed.root != tree.root() {
            self.flaw(place.clone(), FlawKind::OtherTree);
            return false;
        }
        self.report.checkpoints = self.report.checkpoints.saturating_add(1);
        for (witness, at) in &signed.witnessed {
            let last = reading.witnessed.entry(witness.clone()).or_default();
            *last = (tree.size(), *at).max(*last);
        }
        true
    }

    /// Looks at what the checkpoints say beyond the last line.
    pub(super) fn ended(&mut self, node: &NodeId, reading: &FileReading) {
        let last = reading.tree.as_ref().and_then(|tree| {
            let (size, _) = self.signed.get(tree.origin())?.last_key_value()?;
            Some((tree.size(), *size))
        });
        match last {
            Some((lines, signed)) if signed > lines => {
                self.flaw(reading.end.clone(), FlawKind::CutOff { node: node.clone(), lines, signed });
            }
            None if self.signed.keys().all(|origin| origin.node != *node) => self.note(format!(
                "`{node}` has no checkpoint: whether lines or files at its end were cut off cannot be told"
            )),
            Some(_) | None => {}
        }
        let Some(needed) = self.known.witnesses_needed.checked_sub(1) else { return };
        // A witness that signed more lines signed these as well.
        let mut signed: Vec<(u64, u64)> = reading.witnessed.values().copied().collect();
        signed.sort_unstable_by(|one, other| other.cmp(one));
        match (signed.get(needed), &reading.tree) {
            (Some((lines, at)), Some(tree)) => {
                let behind = tree.size().saturating_sub(*lines);
                self.report.witnessed.insert(node.clone(), WitnessedLines { lines: *lines, behind, at: *at });
            }
            _ => drop(self.report.unwitnessed.insert(node.clone())),
        }
    }
}
