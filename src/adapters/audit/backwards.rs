//! Reads a node's files backwards, a bounded part at a time, while they may be written.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use super::folder::{audit_file, audit_files};
use crate::adapters::clock::Stopwatch;
use crate::adapters::regular_file::open_regular;
use crate::audit::LONGEST_LINE;
use crate::ledger::NodeId;

/// How many bytes are read at a time.
const PIECE: usize = 256 * 1024;
/// How many bytes are read at a time of one line.
const LINE_PIECE: usize = 16 * 1024;

/// A position: the lines before this byte of this file, and those of the files before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    pub sequence: u64,
    pub offset: u64,
}

/// How much may be read in one call.
#[derive(Clone, Copy, Debug)]
pub struct ReadBudget {
    pub bytes: u64,
    pub time: Duration,
}

/// Shows each line before `from`, or before the end, the latest first, with the position at which to go on; until the
/// callback breaks or the budget is used up. Returns the position at which to go on; `None` at the very beginning.
///
/// `skips` may skip a whole file by its first line.
pub fn read_backwards(
    folder: &Path,
    node: &NodeId,
    from: Option<FilePosition>,
    budget: ReadBudget,
    skips: &dyn Fn(&[u8]) -> Skip,
    show: &mut dyn FnMut(&[u8], FilePosition) -> ControlFlow<()>,
) -> io::Result<Option<FilePosition>> {
    let mut files = audit_files(folder)?;
    files.retain(|file| file.node == *node && from.is_none_or(|from| file.sequence <= from.sequence));
    let (clock, mut left) = (Stopwatch::start(), budget.bytes);
    for file in files.into_iter().rev() {
        let opened = open_regular(&file.path)?;
        let length = opened.metadata()?.len();
        let end = match from {
            Some(place) if place.sequence == file.sequence => place.offset,
            _ => length,
        };
        if end > length || !is_boundary(&opened, end, length)? {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        match skips(&first_line(&opened)?) {
            Skip::No => {}
            Skip::This => continue,
            Skip::AndAllBefore => return Ok(None),
        }
        let mut reading = BackwardsReading { file: &opened, sequence: file.sequence, clock, left: &mut left, budget };
        if let Some(place) = reading.before(end, show)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Returns the line that begins at a position, without its end; `None` where the file is not there any more.
pub fn line_at(folder: &Path, node: &NodeId, place: FilePosition) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular(audit_file(folder, node, place.sequence)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut line, mut at) = (Vec::new(), place.offset);
    while line.len() <= LONGEST_LINE {
        let mut piece = [0; LINE_PIECE];
        let count = file.read_at(&mut piece, at)?;
        let read = piece.get(..count).unwrap_or_default();
        if let Some(end) = read.iter().position(|b| *b == b'\n') {
            line.extend_from_slice(read.get(..end).unwrap_or_default());
            return Ok(Some(line));
        }
        if count == 0 {
            return Ok(None);
        }
        line.extend_from_slice(read);
        at = at.saturating_add(count as u64);
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

/// Which files are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    No,
    This,
    AndAllBefore,
}

struct BackwardsReading<'r> {
    file: &'r File,
    sequence: u64,
    clock: Stopwatch,
    left: &'r mut u64,
    budget: ReadBudget,
}

impl BackwardsReading<'_> {
    /// Returns the position at which to go on in this file; `None` at its beginning.
    fn before(
        &mut self,
        end: u64,
        show: &mut dyn FnMut(&[u8], FilePosition) -> ControlFlow<()>,
    ) -> io::Result<Option<FilePosition>> {
        // The end of a line whose beginning is not read yet.
        let mut rest: Vec<u8> = Vec::new();
        let mut begin = end;
        while begin > 0 {
            let size = PIECE.min(usize::try_from(begin).unwrap_or(PIECE));
            begin = begin.saturating_sub(size as u64);
            let mut piece = vec![0; size];
            self.file.read_exact_at(&mut piece, begin)?;
            *self.left = self.left.saturating_sub(size as u64);
            piece.append(&mut rest);
            while let Some(last) = piece.len().checked_sub(1) {
                let before = piece.get(..last).and_then(|lines| lines.iter().rposition(|b| *b == b'\n'));
                let at = match before {
                    Some(before) => before.saturating_add(1),
                    None if begin == 0 => 0,
                    None => break,
                };
                let line = piece.split_off(at);
                let place = FilePosition { sequence: self.sequence, offset: begin.saturating_add(at as u64) };
                // A line without an end is still being written.
                let is_over = line.strip_suffix(b"\n").is_some_and(|line| show(line, place).is_break());
                if is_over || self.is_used_up() {
                    return Ok(Some(place));
                }
            }
            if piece.len() > LONGEST_LINE {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            rest = piece;
        }
        Ok(None)
    }

    fn is_used_up(&self) -> bool {
        *self.left == 0 || self.clock.elapsed() >= self.budget.time
    }
}

/// Whether a position lies between two lines; a position that a caller made up could be inside one.
fn is_boundary(file: &File, at: u64, length: u64) -> io::Result<bool> {
    let Some(before) = at.checked_sub(1).filter(|_| at < length) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, before)?;
    Ok(byte == *b"\n")
}

/// Reads enough bytes for the first line.
fn first_line(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; 4096];
    let read = file.read_at(&mut head, 0)?;
    head.truncate(read);
    let end = head.iter().position(|b| *b == b'\n').unwrap_or(head.len());
    head.truncate(end);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::folder::audit_file;
    use super::*;

    const PLENTY: ReadBudget = ReadBudget { bytes: u64::MAX, time: Duration::from_secs(60) };

    fn node() -> NodeId {
        NodeId::parse("a").unwrap()
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (at, text) in files.iter().enumerate() {
            fs::write(audit_file(folder.path(), &node(), at as u64 + 1), text).unwrap();
        }
        folder
    }

    /// Reads at most so many lines from a position.
    fn read(
        folder: &Path,
        from: Option<FilePosition>,
        budget: ReadBudget,
        most: usize,
    ) -> (Vec<String>, Option<FilePosition>) {
        let mut lines = Vec::new();
        let place = read_backwards(folder, &node(), from, budget, &|_| Skip::No, &mut |line, _| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            if lines.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (lines, place.unwrap())
    }

    #[test]
    fn lines_come_from_the_end_and_go_on_where_they_stopped() {
        let folder = folder(&["a\nbb\n", "", "ccc\nd\nhalf"]);
        fs::write(audit_file(folder.path(), &NodeId::parse("b").unwrap(), 1), "another's\n").unwrap();
        let (all, end) = read(folder.path(), None, PLENTY, usize::MAX);
        assert_eq!((all, end), (["d", "ccc", "bb", "a"].map(str::to_owned).to_vec(), None));
        let (mut one_by_one, mut from) = (Vec::new(), None);
        loop {
            let (lines, place) = read(folder.path(), from, PLENTY, 1);
            one_by_one.extend(lines);
            if place.is_none() {
                break;
            }
            from = place;
        }
        assert_eq!(one_by_one, ["d", "ccc", "bb", "a"]);
    }

    #[test]
    fn a_long_file_is_read_piece_by_piece_within_the_budget() {
        let lines: Vec<String> = (0..3_000).map(|n| format!("{n}:{}", "x".repeat(n % 700))).collect();
        let long = "y".repeat(3 * PIECE);
        let folder = folder(&[&format!("{}\n{long}\nlast\n", lines.join("\n"))]);
        let (all, _) = read(folder.path(), None, PLENTY, usize::MAX);
        assert_eq!((all.len(), &all[1], &all[3_001]), (3_002, &long, &lines[0]));
        let small = ReadBudget { bytes: 1, ..PLENTY };
        let (mut by_parts, mut from, mut parts) = (Vec::new(), None, 0);
        loop {
            let (lines, place) = read(folder.path(), from, small, usize::MAX);
            assert!(place.is_none() || !lines.is_empty(), "it goes on");
            by_parts.extend(lines);
            parts += 1;
            if place.is_none() {
                break;
            }
            from = place;
        }
        assert_eq!(by_parts, all);
        assert!(parts >= 3_000, "{parts}");
    }

    #[test]
    fn a_place_that_nobody_was_given_is_none() {
        let folder = folder(&["aa\nbb\n"]);
        for offset in [1, 4, 5, 7, u64::MAX] {
            let from = Some(FilePosition { sequence: 1, offset });
            let read = read_backwards(folder.path(), &node(), from, PLENTY, &|_| Skip::No, &mut |_, _| {
                ControlFlow::Continue(())
            });
            assert!(read.is_err(), "{offset}");
        }
        assert_eq!(read(folder.path(), Some(FilePosition { sequence: 1, offset: 3 }), PLENTY, 9).0, ["aa"]);
        assert_eq!(read(folder.path(), Some(FilePosition { sequence: 1, offset: 0 }), PLENTY, 9), (Vec::new(), None));
    }

    #[test]
    fn files_are_passed_over_by_their_first_lines() {
        let folder = folder(&["1\na\n", "2\nb\n", "3\nc\n", "4\nd\n"]);
        let skips = |line: &[u8]| match line {
            b"4" => Skip::This,
            b"2" => Skip::AndAllBefore,
            _ => Skip::No,
        };
        let mut lines = Vec::new();
        let place = read_backwards(folder.path(), &node(), None, PLENTY, &skips, &mut |line, _| {
            lines.push(line.to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!((lines, place.unwrap()), (vec![b"c".to_vec(), b"3".to_vec()], None));
    }
}
