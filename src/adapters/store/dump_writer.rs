//! Writes an export: its header, its items, and the end line that proves that none is missing.

use std::io::{self, Write};

use super::dump::{self, DumpHeader, DumpTally};
use super::layout::Item;

pub(super) struct DumpWriter<'w> {
    out: &'w mut dyn Write,
    /// Hears how many lines were written.
    told: &'w mut dyn FnMut(u64),
    tally: DumpTally,
}

impl<'w> DumpWriter<'w> {
    pub fn begin(
        out: &'w mut dyn Write,
        told: &'w mut dyn FnMut(u64),
        header: &DumpHeader,
    ) -> io::Result<DumpWriter<'w>> {
        let mut writer = DumpWriter { out, told, tally: DumpTally::default() };
        writer.line(&header.line())?;
        Ok(writer)
    }

    pub fn item(&mut self, item: &Item) -> io::Result<()> {
        dump::format_line(item).map_or(Ok(()), |line| self.line(&line))
    }

    /// Writes the end line; returns how many lines stand before it.
    pub fn end(self) -> io::Result<u64> {
        let lines = self.tally.items();
        writeln!(self.out, "{}", self.tally.end())?;
        self.out.flush()?;
        Ok(lines)
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.tally.add(line);
        (self.told)(self.tally.items());
        Ok(())
    }
}
