//! Reads lines, each with its place, none longer than a bound.

use std::io::{self, BufRead, Read as _};

/// The longest line that Sluice writes.
pub const LONGEST_LINE: usize = 512 * 1024 * 1024;

/// The lines of a reader.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    bytes: Vec<u8>,
    line: u64,
    offset: u64,
}

/// One line as it is in the file.
#[derive(Clone, Copy, Debug)]
pub struct RawLine<'l> {
    /// Without its end.
    pub bytes: &'l [u8],
    /// From 1.
    pub line: u64,
    /// Bytes before it.
    pub offset: u64,
    /// The line has its end.
    pub is_whole: bool,
}

impl<R: BufRead> LineReader<R> {
    pub fn of(reader: R) -> LineReader<R> {
        LineReader { reader, bytes: Vec::new(), line: 0, offset: 0 }
    }

    /// The next line; a line that is too long comes in pieces that are not whole.
    pub fn following(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.offset = self.offset.saturating_add(self.bytes.len() as u64);
        self.bytes.clear();
        (&mut self.reader).take(LONGEST_LINE as u64).read_until(b'\n', &mut self.bytes)?;
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.line = self.line.saturating_add(1);
        let whole = self.bytes.strip_suffix(b"\n");
        Ok(Some(RawLine {
            bytes: whole.unwrap_or(&self.bytes),
            line: self.line,
            offset: self.offset,
            is_whole: whole.is_some(),
        }))
    }
}

impl RawLine<'_> {
    /// The offset of the next line.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64).saturating_add(u64::from(self.is_whole))
    }
}
