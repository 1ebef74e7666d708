//! Lines out of a reader, each with its place, none longer than a bound.

use std::io::{self, BufRead, Read as _};

/// No line is longer; whatever is was not written by Sluice.
pub const LONGEST_LINE: usize = 8 * 1024 * 1024;

/// The lines of a reader.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    bytes: Vec<u8>,
    line: u64,
    offset: u64,
}

/// One line, as it stands.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'l> {
    /// Without its end.
    pub bytes: &'l [u8],
    /// From 1.
    pub line: u64,
    /// Bytes before it.
    pub offset: u64,
    /// Its end is there.
    pub is_whole: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn of(reader: R) -> Lines<R> {
        Lines { reader, bytes: Vec::new(), line: 0, offset: 0 }
    }

    /// What follows; a line that is too long comes in pieces that are not whole.
    pub fn following(&mut self) -> io::Result<Option<Raw<'_>>> {
        self.offset = self.offset.saturating_add(self.bytes.len() as u64);
        self.bytes.clear();
        (&mut self.reader).take(LONGEST_LINE as u64).read_until(b'\n', &mut self.bytes)?;
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.line = self.line.saturating_add(1);
        let whole = self.bytes.strip_suffix(b"\n");
        Ok(Some(Raw {
            bytes: whole.unwrap_or(&self.bytes),
            line: self.line,
            offset: self.offset,
            is_whole: whole.is_some(),
        }))
    }
}

impl Raw<'_> {
    /// Where the next line begins.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64).saturating_add(u64::from(self.is_whole))
    }
}
