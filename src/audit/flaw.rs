//! The flaws of a set of audit files, with their places.

use std::fmt;

use super::checkpoint::Origin;
use super::line::LineFault;
use crate::base::ids::Environment;
use crate::ledger::NodeId;

/// One flaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub what: FlawKind,
    pub place: FlawPlace,
    /// The number of its entry.
    pub number: Option<(Environment, u64)>,
}

/// The place of a flaw, as exactly as possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlawPlace {
    pub file: Option<String>,
    pub line: Option<u64>,
    /// The offset of the line in bytes.
    pub offset: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// Sluice did not write the line.
    Line(LineFault),
    /// The file ends inside of the line.
    Unfinished,
    /// The line does not name the hash of the line before it.
    Detached,
    /// The first line is not a header.
    NoHeader,
    /// A header is in the place of an entry.
    HeaderInside,
    /// The file belongs to another node or sequence.
    Misnamed {
        node: NodeId,
        sequence: u64,
    },
    /// The header does not name the hash of the last line of the file before.
    Severed,
    /// The header's highest numbers differ from the files before.
    Highest,
    Missing {
        node: NodeId,
        first: u64,
        last: u64,
    },
    /// The same file of the same node was given twice.
    Twice {
        node: NodeId,
        sequence: u64,
    },
    /// The number occurs twice in the files of this node.
    Again,
    /// The number occurs elsewhere with another entry.
    Otherwise {
        file: String,
        line: u64,
    },
    /// These numbers are missing.
    Gap {
        environment: Environment,
        first: u64,
        last: u64,
    },
    CheckpointLine(LineFault),
    /// No given key made the signature.
    CheckpointSignature {
        key: String,
    },
    /// A witness did not make the signature that has its name.
    WitnessSignature {
        name: String,
    },
    /// The lines up to here are not those of the tree that a checkpoint has.
    OtherTree,
    /// The log has fewer lines than it had.
    CutOff {
        node: NodeId,
        lines: u64,
        signed: u64,
    },
    /// Two checkpoints of one log contradict each other.
    Forked {
        origin: Origin,
        size: u64,
    },
    /// A log has checkpoints, and neither its files nor its salt are at hand.
    OtherLog {
        origin: Origin,
    },
    /// A header names the snapshot with another hash.
    SnapshotChanged,
}

impl FlawKind {
    /// The word for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            FlawKind::Line(LineFault::Hash) => "changed",
            FlawKind::Line(LineFault::Newer(_)) => "newer-format",
            FlawKind::Line(_) => "unreadable",
            FlawKind::Unfinished => "unfinished",
            FlawKind::Detached => "detached",
            FlawKind::NoHeader => "no-header",
            FlawKind::HeaderInside => "header-inside",
            FlawKind::Misnamed { .. } => "misnamed",
            FlawKind::Severed => "severed",
            FlawKind::Highest => "highest",
            FlawKind::Missing { .. } => "missing-files",
            FlawKind::Twice { .. } => "file-twice",
            FlawKind::Again => "number-twice",
            FlawKind::Otherwise { .. } => "number-otherwise",
            FlawKind::Gap { .. } => "gap",
            FlawKind::CheckpointLine(_) => "checkpoint-unreadable",
            FlawKind::CheckpointSignature { .. } => "checkpoint-signature",
            FlawKind::WitnessSignature { .. } => "witness-signature",
            FlawKind::OtherTree => "rewritten",
            FlawKind::CutOff { .. } => "cut-off",
            FlawKind::Forked { .. } => "forked",
            FlawKind::OtherLog { .. } => "other-log",
            FlawKind::SnapshotChanged => "snapshot-changed",
        }
    }
}

impl fmt::Display for FlawKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlawKind::Line(fault) => fault.fmt(f),
            FlawKind::Unfinished => f.write_str("the file ends inside of this line: it was cut off, or its process was killed"),
            FlawKind::Detached => {
                f.write_str("it does not follow the line before it: lines were moved, inserted, removed or changed")
            }
            FlawKind::NoHeader => f.write_str("the file does not begin with its header"),
            FlawKind::HeaderInside => f.write_str("the header of another file is inside this one"),
            FlawKind::Misnamed { node, sequence } => write!(f, "by its header it is file {sequence} of `{node}`"),
            FlawKind::Severed => f.write_str(
                "it does not continue where the file before it ends: lines there were cut off or changed, or this is another file",
            ),
            FlawKind::Highest => f.write_str("its header states other highest numbers than the files before it contain"),
            FlawKind::Missing { node, first, last } if first == last => write!(f, "file {first} of `{node}` is missing"),
            FlawKind::Missing { node, first, last } => write!(f, "files {first} to {last} of `{node}` are missing"),
            FlawKind::Twice { node, sequence } => write!(f, "file {sequence} of `{node}` exists twice"),
            FlawKind::Again => f.write_str("the files of the node already contain this number"),
            FlawKind::Otherwise { file, line } => write!(f, "this number has another entry in {file}, line {line}"),
            FlawKind::Gap { environment, first, last } if first == last => {
                write!(f, "number {first} of {environment} is missing")
            }
            FlawKind::Gap { environment, first, last } => {
                write!(f, "numbers {first} to {last} of {environment} are missing")
            }
            FlawKind::CheckpointLine(fault) => write!(f, "the checkpoint cannot be used: {fault}"),
            FlawKind::CheckpointSignature { key } => {
                write!(f, "the checkpoint is not signed by one of the given keys; it names the key {key}")
            }
            FlawKind::WitnessSignature { name } => {
                write!(f, "the checkpoint has a wrong signature of the witness `{name}`")
            }
            FlawKind::OtherTree => f.write_str(
                "the lines up to here are not those that a checkpoint covers: the files were rewritten, or the salt beside them was \
                 changed",
            ),
            FlawKind::CutOff { node, lines, signed } => {
                write!(f, "the journal of `{node}` has {lines} lines, but a checkpoint says that it had {signed}: its end was cut off")
            }
            FlawKind::Forked { origin, size } => {
                write!(f, "two signed checkpoints of the log `{origin}` have other lines under the same number {size}: somebody was shown another journal")
            }
            FlawKind::OtherLog { origin } => write!(
                f,
                "the log `{origin}` was signed, and its files or its salt are not among those given: its journal was removed, or a new log \
                 was begun; if people know why it ended, accept it with `--former-log {origin}`"
            ),
            FlawKind::SnapshotChanged => {
                f.write_str("the snapshot was changed after it was written: no rebuild takes it")
            }
        }
    }
}

impl fmt::Display for FlawPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(file) = &self.file else { return f.write_str("all files") };
        f.write_str(file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some((environment, number)) = self.number {
            write!(f, ", number {number} of {environment}")?;
        }
        write!(f, ": {}", self.what)
    }
}
