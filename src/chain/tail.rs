//! Reading a file of one's own again: up to where it is good, and what comes after.

use std::io::{self, BufRead};

use super::hash::Hash;
use super::line::{Body, Header, Line, read_line};
use super::read::Lines;

/// A file, read from its beginning up to where it ends or is no longer good.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// `None` where the first line is not good already.
    pub header: Option<Header>,
    /// The hash that the header names.
    pub previous: Hash,
    /// Of the last good line.
    pub hash: Hash,
    /// Good lines, the header among them.
    pub lines: u64,
    /// Bytes of good lines.
    pub length: u64,
    pub stop: Option<Stop>,
}

/// Where a file stopped to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub line: u64,
    pub offset: u64,
    pub why: String,
    /// Nothing that follows is a line: so looks what a write left that did not end.
    pub is_torn: bool,
}

/// Reads it, and shows every good Entry.
pub fn scan(reader: impl BufRead, mut each: impl FnMut(Line)) -> io::Result<Scanned> {
    let mut lines = Lines::of(reader);
    let mut scanned =
        Scanned { header: None, previous: Hash::NOTHING, hash: Hash::NOTHING, lines: 0, length: 0, stop: None };
    while let Some(raw) = lines.following()? {
        let read = read_line(raw.bytes).map_err(|fault| fault.to_string());
        if let Some(stop) = &mut scanned.stop {
            stop.is_torn = stop.is_torn && !(raw.is_whole && read.is_ok());
            continue;
        }
        let good = if raw.is_whole { read } else { Err("it has no end".to_owned()) };
        // A whole line that does not follow was not torn.
        match good.map_err(|why| (why, true)).and_then(|line| fits(&scanned, line).map_err(|why| (why, false))) {
            Ok(line) => {
                scanned.hash = line.hash;
                scanned.lines = raw.line;
                scanned.length = raw.end();
                match line.body {
                    Body::Header(header) => {
                        scanned.previous = line.previous;
                        scanned.header = Some(header);
                    }
                    Body::Entry(_) => each(line),
                }
            }
            Err((why, is_torn)) => {
                scanned.stop = Some(Stop { line: raw.line, offset: raw.offset, why, is_torn });
            }
        }
    }
    Ok(scanned)
}

/// Whether the line may follow.
fn fits(before: &Scanned, line: Line) -> Result<Line, String> {
    match (&before.header, &line.body) {
        (None, Body::Header(_)) => Ok(line),
        (None, Body::Entry(_)) => Err("the file does not begin with its header".to_owned()),
        (Some(_), Body::Header(_)) => Err("a header stands inside of the file".to_owned()),
        (Some(_), Body::Entry(_)) if line.previous != before.hash => {
            Err("it does not follow the line before it".to_owned())
        }
        (Some(_), Body::Entry(_)) => Ok(line),
    }
}
