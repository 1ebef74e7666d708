//! Finds lines of a file whose lines are in order, and counts lines, within a budget: nothing reads a journal whole for one
//! question.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::backwards::ReadBudget;
use crate::adapters::clock::Stopwatch;

/// How many bytes are read at a time.
const PIECE: usize = 8 * 1024;

/// A line without its end, and the bytes before it in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

impl FileLine {
    /// Where the next line begins.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64).saturating_add(1)
    }
}

/// The search of one question, with one budget over all files that are read for it.
#[derive(Debug)]
pub(super) struct LineSearch {
    left: u64,
    budget: ReadBudget,
    clock: Stopwatch,
}

impl LineSearch {
    pub(super) fn new(budget: ReadBudget) -> LineSearch {
        LineSearch { left: budget.bytes, budget, clock: Stopwatch::start() }
    }

    /// Reads what there is at a place, within the budget.
    fn read(&mut self, file: &File, at: u64) -> io::Result<Vec<u8>> {
        if self.left == 0 || self.clock.elapsed() >= self.budget.time {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the search takes too long"));
        }
        let mut piece = vec![0; PIECE];
        let count = file.read_at(&mut piece, at)?;
        piece.truncate(count);
        self.left = self.left.saturating_sub(count as u64);
        Ok(piece)
    }

    /// Returns the first whole line that begins at a byte or behind it.
    fn line_from(&mut self, file: &File, at: u64) -> io::Result<Option<FileLine>> {
        // The byte before says whether a line begins here.
        let Some(before) = at.checked_sub(1) else { return self.line_at(file, 0) };
        let mut from = before;
        loop {
            let piece = self.read(file, from)?;
            if piece.is_empty() {
                return Ok(None);
            }
            if let Some(end) = piece.iter().position(|b| *b == b'\n') {
                let begin = from.saturating_add(end as u64).saturating_add(1);
                return self.line_at(file, begin);
            }
            from = from.saturating_add(piece.len() as u64);
        }
    }

    /// Returns the line that begins at a byte; `None` where it has no end.
    pub(super) fn line_at(&mut self, file: &File, offset: u64) -> io::Result<Option<FileLine>> {
        let mut bytes = Vec::new();
        loop {
            let piece = self.read(file, offset.saturating_add(bytes.len() as u64))?;
            if piece.is_empty() {
                return Ok(None);
            }
            match piece.iter().position(|b| *b == b'\n') {
                Some(end) => {
                    bytes.extend_from_slice(piece.get(..end).unwrap_or_default());
                    return Ok(Some(FileLine { offset, bytes }));
                }
                None => bytes.extend_from_slice(&piece),
            }
        }
    }

    /// Returns the last line that is not behind what is sought. The callback tells where a line is; `None` for a line that does
    /// not say. The others must be in order.
    pub(super) fn last_up_to(
        &mut self,
        file: &File,
        place_of: &dyn Fn(&[u8]) -> io::Result<Option<Ordering>>,
    ) -> io::Result<Option<FileLine>> {
        let (mut low, mut high, mut last) = (0, file.metadata()?.len(), None);
        while low < high {
            let middle = low.midpoint(high);
            match self.first_that_says(file, (middle, high), place_of)? {
                Some((line, Ordering::Less | Ordering::Equal)) => {
                    low = line.end();
                    last = Some(line);
                }
                Some((_, Ordering::Greater)) | None => high = middle,
            }
        }
        Ok(last)
    }

    /// Returns the first line of those that begin in a part and say where they are.
    fn first_that_says(
        &mut self,
        file: &File,
        (from, until): (u64, u64),
        place_of: &dyn Fn(&[u8]) -> io::Result<Option<Ordering>>,
    ) -> io::Result<Option<(FileLine, Ordering)>> {
        let mut next = self.line_from(file, from)?;
        while let Some(line) = next.filter(|line| line.offset < until) {
            if let Some(place) = place_of(&line.bytes)? {
                return Ok(Some((line, place)));
            }
            next = self.line_at(file, line.end())?;
        }
        Ok(None)
    }

    /// Counts the lines that end in a part of a file.
    pub(super) fn lines_between(&mut self, file: &File, from: u64, until: u64) -> io::Result<u64> {
        let (mut lines, mut at) = (0_u64, from);
        while at < until {
            let piece = self.read(file, at)?;
            if piece.is_empty() {
                break;
            }
            let wanted = usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len());
            let ends = piece.iter().take(wanted).filter(|b| **b == b'\n').count();
            lines = lines.saturating_add(ends as u64);
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    const PLENTY: ReadBudget = ReadBudget { bytes: u64::MAX, time: Duration::from_secs(60) };

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn number(line: &[u8]) -> Option<u64> {
        std::str::from_utf8(line).unwrap().split(':').next()?.parse().ok()
    }

    fn found(file: &File, wanted: u64, budget: ReadBudget) -> io::Result<Option<u64>> {
        let place = |line: &[u8]| Ok(number(line).map(|number| number.cmp(&wanted)));
        Ok(LineSearch::new(budget).last_up_to(file, &place)?.and_then(|line| number(&line.bytes)))
    }

    #[test]
    fn each_line_is_found_among_short_long_and_strange_ones() {
        let mut text = String::from("header\n");
        for n in 1..=800_u64 {
            let length = if n % 97 == 0 { 40_000 } else { n % 300 };
            text.push_str(&format!("{}:{}\n", n * 2, "x".repeat(usize::try_from(length).unwrap())));
            text.push_str(if n % 3 == 0 { "another's\n" } else { "" });
        }
        text.push_str(&"another's\n".repeat(10_000));
        text.push_str("9999:half");
        let file = file(&text);
        assert_eq!(found(&file, 1, PLENTY).unwrap(), None);
        for wanted in 2..=1_600 {
            assert_eq!(found(&file, wanted, PLENTY).unwrap(), Some(wanted / 2 * 2), "{wanted}");
        }
        assert_eq!(found(&file, 9_999, PLENTY).unwrap(), Some(1_600), "a line without an end is none");
        let lines = |from, until| LineSearch::new(PLENTY).lines_between(&file, from, until).unwrap();
        assert_eq!(lines(0, u64::MAX), text.matches('\n').count() as u64);
        let at = text.find("\n500:").unwrap() as u64 + 1;
        assert_eq!(lines(0, at) + lines(at, u64::MAX), lines(0, u64::MAX));
        assert_eq!(lines(7, 7), 0);
    }

    #[test]
    fn a_search_reads_little_of_a_long_file_and_never_more_than_its_budget() {
        let text: String = (0..200_000).map(|n| format!("{n}:{}\n", "x".repeat(60))).collect();
        let file = file(&text);
        let little = ReadBudget { bytes: 3 * 1024 * 1024, ..PLENTY };
        for wanted in [0, 1, 77_777, 199_999] {
            assert_eq!(found(&file, wanted, little).unwrap(), Some(wanted));
        }
        let none = ReadBudget { bytes: 0, ..PLENTY };
        assert_eq!(found(&file, 5, none).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let no_time = ReadBudget { time: Duration::ZERO, ..PLENTY };
        assert_eq!(found(&file, 5, no_time).unwrap_err().kind(), io::ErrorKind::TimedOut);
        // Lines that say nothing cost their length, and no more than the budget.
        let strange = self::file(&"another's\n".repeat(1_000_000));
        assert_eq!(found(&strange, 5, little).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
