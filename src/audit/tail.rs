//! Reads a node's own file again: up to where it is good, and what follows.

use std::io::{self, BufRead};

use super::hash::Hash;
use super::line::{AuditLine, FileHeader, LineBody, read_line};
use super::read::LineReader;

/// A file, read from its beginning up to where it ends or is no longer good.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// `None` where the first line is bad already.
    pub header: Option<FileHeader>,
    /// The hash that the header names.
    pub previous: Hash,
    /// The hash of the last good line.
    pub hash: Hash,
    /// Good lines, the header among them.
    pub lines: u64,
    /// Bytes of good lines.
    pub length: u64,
    pub stop: Option<ScanStop>,
}

/// The place where a file stopped being good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanStop {
    pub line: u64,
    pub offset: u64,
    pub why: String,
    /// No line follows: the mark of an interrupted write.
    pub is_torn: bool,
}

/// Reads the file, and shows every good entry.
pub fn scan(reader: impl BufRead, mut each: impl FnMut(AuditLine)) -> io::Result<Scanned> {
    let mut lines = LineReader::of(reader);
    let mut scanned =
        Scanned { header: None, previous: Hash::NOTHING, hash: Hash::NOTHING, lines: 0, length: 0, stop: None };
    while let Some(raw) = lines.following()? {
        let read = read_line(raw.bytes).map_err(|fault| fault.to_string());
        if let Some(stop) = &mut scanned.stop {
            stop.is_torn = stop.is_torn && !(raw.is_whole && read.is_ok());
            continue;
        }
        let good = if raw.is_whole { read } else { Err("it has no end".to_owned()) };
        // A complete line that does not link was not torn.
        match good.map_err(|why| (why, true)).and_then(|line| fits(&scanned, line).map_err(|why| (why, false))) {
            Ok(line) => {
                scanned.hash = line.hash;
                scanned.lines = raw.line;
                scanned.length = raw.end();
                match line.body {
                    LineBody::Header(header) => {
                        scanned.previous = line.previous;
                        scanned.header = Some(header);
                    }
                    LineBody::Entry(_) => each(line),
                }
            }
            Err((why, is_torn)) => {
                scanned.stop = Some(ScanStop { line: raw.line, offset: raw.offset, why, is_torn });
            }
        }
    }
    Ok(scanned)
}

/// Checks that the line links to the one before.
fn fits(before: &Scanned, line: AuditLine) -> Result<AuditLine, String> {
    match (&before.header, &line.body) {
        (None, LineBody::Header(_)) => Ok(line),
        (None, LineBody::Entry(_)) => Err("the file does not begin with its header".to_owned()),
        (Some(_), LineBody::Header(_)) => Err("a header is inside of the file".to_owned()),
        (Some(_), LineBody::Entry(_)) if line.previous != before.hash => {
            Err("it does not follow the line before it".to_owned())
        }
        (Some(_), LineBody::Entry(_)) => Ok(line),
    }
}
