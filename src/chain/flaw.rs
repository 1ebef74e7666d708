//! What is wrong with a set of audit files, and where.

use std::fmt;

use super::line::LineFault;
use crate::base::ids::Environment;
use crate::commit::NodeId;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub what: What,
    pub place: Place,
    /// The number of the Entry that it is about.
    pub number: Option<(Environment, u64)>,
}

/// As exactly as it can be said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: Option<String>,
    pub line: Option<u64>,
    /// Bytes before the line.
    pub offset: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The line is not one that Sluice wrote.
    Line(LineFault),
    /// The file ends inside of the line.
    Unfinished,
    /// The line does not name the hash of the line before it.
    Detached,
    /// The first line is no header.
    NoHeader,
    /// A header stands where an Entry belongs.
    HeaderInside,
    /// The file is that of another place.
    Misnamed {
        node: NodeId,
        sequence: u64,
    },
    /// The header does not name the hash of the last line of the file before.
    Severed,
    /// The header tells other numbers than stand in the files before.
    Highest,
    Missing {
        node: NodeId,
        first: u64,
        last: u64,
    },
    /// The same file of the same node was given already.
    Twice {
        node: NodeId,
        sequence: u64,
    },
    /// The number stands in the files of this node already.
    Again,
    /// The number stands elsewhere with another Entry.
    Otherwise {
        file: String,
        line: u64,
    },
    /// These numbers stand nowhere.
    Gap {
        environment: Environment,
        first: u64,
        last: u64,
    },
    CheckpointLine(LineFault),
    /// Not signed by a key that was given.
    CheckpointSignature {
        key: String,
    },
    /// The file has fewer lines than it had.
    CutOff {
        lines: u64,
        signed: u64,
    },
    /// The line is another than was signed.
    Rewritten,
}

impl What {
    /// For programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            What::Line(LineFault::Hash) => "changed",
            What::Line(LineFault::Newer(_)) => "newer-format",
            What::Line(_) => "unreadable",
            What::Unfinished => "unfinished",
            What::Detached => "detached",
            What::NoHeader => "no-header",
            What::HeaderInside => "header-inside",
            What::Misnamed { .. } => "misnamed",
            What::Severed => "severed",
            What::Highest => "highest",
            What::Missing { .. } => "missing-files",
            What::Twice { .. } => "file-twice",
            What::Again => "number-twice",
            What::Otherwise { .. } => "number-otherwise",
            What::Gap { .. } => "gap",
            What::CheckpointLine(_) => "checkpoint-unreadable",
            What::CheckpointSignature { .. } => "checkpoint-signature",
            What::CutOff { .. } => "cut-off",
            What::Rewritten => "rewritten",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Line(fault) => fault.fmt(f),
            What::Unfinished => f.write_str("the file ends inside of this line: it was cut off, or its process was killed"),
            What::Detached => {
                f.write_str("it does not follow the line before it: lines were moved, put in, taken out or changed")
            }
            What::NoHeader => f.write_str("the file does not begin with its header"),
            What::HeaderInside => f.write_str("the header of a file stands inside of this one"),
            What::Misnamed { node, sequence } => write!(f, "by its header it is file {sequence} of `{node}`"),
            What::Severed => f.write_str(
                "it does not go on where the file before it ends: lines there were cut off or changed, or this is another file",
            ),
            What::Highest => f.write_str("its header tells other numbers than stand in the files before it"),
            What::Missing { node, first, last } if first == last => write!(f, "file {first} of `{node}` is missing"),
            What::Missing { node, first, last } => write!(f, "files {first} to {last} of `{node}` are missing"),
            What::Twice { node, sequence } => write!(f, "file {sequence} of `{node}` is there a second time"),
            What::Again => f.write_str("this number stands in the files of the node already"),
            What::Otherwise { file, line } => write!(f, "this number has another Entry in {file}, line {line}"),
            What::Gap { environment, first, last } if first == last => {
                write!(f, "number {first} of {environment} is missing")
            }
            What::Gap { environment, first, last } => {
                write!(f, "numbers {first} to {last} of {environment} are missing")
            }
            What::CheckpointLine(fault) => write!(f, "the checkpoint cannot be used: {fault}"),
            What::CheckpointSignature { key } => {
                write!(f, "the checkpoint is not signed by a key that was given; it names the key {key}")
            }
            What::CutOff { lines, signed } => {
                write!(f, "the file has {lines} lines; a checkpoint says that it had {signed}: its end was cut off")
            }
            What::Rewritten => f.write_str("it is not the line that a checkpoint names: the file was written anew"),
        }
    }
}

impl fmt::Display for Place {
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
