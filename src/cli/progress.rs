//! The progress of long work: one line on standard error, where that is a terminal, which is gone when the work is done.

use std::io::{IsTerminal as _, Write, stderr, stdout};

const MEGA: u64 = 1_000_000;
/// Reading is long if it is more than this many bytes.
const LONG_READING: u64 = 64 * MEGA;

/// The progress line of one piece of work.
#[derive(Debug)]
pub(super) struct ProgressLine {
    /// All that is to be done, if that is known.
    total: Option<u64>,
    /// The unit of what is shown, in what is counted.
    unit: u64,
    words: &'static str,
    /// How much is done between two updates.
    interval: u64,
    next: u64,
    is_shown: bool,
    was_shown: bool,
}

impl ProgressLine {
    /// Counts up to a number that is not known.
    pub fn counting(words: &'static str, interval: u64) -> ProgressLine {
        let is_shown = stderr().is_terminal();
        ProgressLine { total: None, unit: 1, words, interval, next: interval, is_shown, was_shown: false }
    }

    /// Counts up to this number.
    pub fn up_to(total: u64, words: &'static str, interval: u64) -> ProgressLine {
        ProgressLine { total: Some(total), ..ProgressLine::counting(words, interval) }
    }

    /// Counts bytes that are read, if they are many.
    pub fn reading(total: u64) -> ProgressLine {
        let line = ProgressLine::up_to(total, "MB", MEGA);
        ProgressLine { unit: MEGA, is_shown: line.is_shown && total > LONG_READING, ..line }
    }

    /// Shows nothing if the command prints to the terminal while it works.
    pub fn unless_printing(self) -> ProgressLine {
        ProgressLine { is_shown: self.is_shown && !stdout().is_terminal(), ..self }
    }

    /// Shows how much is done, if it is enough more than before.
    pub fn show(&mut self, done: u64) {
        self.show_on(&mut stderr(), done);
    }

    fn show_on(&mut self, out: &mut impl Write, done: u64) {
        if !self.is_shown || done < self.next {
            return;
        }
        self.next = done.saturating_add(self.interval);
        self.was_shown = true;
        let shown = |count: u64| count.checked_div(self.unit).unwrap_or(count);
        let of = self.total.map_or_else(String::new, |total| format!(" of {}", shown(total)));
        // Progress is only for show: a failure to write it does not matter.
        write!(out, "\r\x1b[K{}{of} {}", shown(done), self.words).and_then(|()| out.flush()).ok();
    }

    /// Removes the line.
    pub fn end(self) {}

    fn remove_from(&mut self, out: &mut impl Write) {
        if std::mem::take(&mut self.was_shown) {
            write!(out, "\r\x1b[K").and_then(|()| out.flush()).ok();
        }
    }
}

impl Drop for ProgressLine {
    /// An error message does not stand behind the line.
    fn drop(&mut self) {
        self.remove_from(&mut stderr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a terminal gets while so much is done, and at the end.
    fn written(line: ProgressLine, steps: &[u64]) -> String {
        let (mut line, mut out) = (ProgressLine { is_shown: true, ..line }, Vec::new());
        for done in steps {
            line.show_on(&mut out, *done);
        }
        line.remove_from(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_updated_now_and_then_and_removed() {
        let lines = written(ProgressLine::counting("lines written", 10), &[1, 9, 10, 12, 19, 20, 45]);
        assert_eq!(lines, "\r\x1b[K10 lines written\r\x1b[K20 lines written\r\x1b[K45 lines written\r\x1b[K");
        let bytes = written(ProgressLine::reading(70_500_000), &[999_999, 1_000_000, 70_500_000]);
        assert_eq!(bytes, "\r\x1b[K1 of 70 MB\r\x1b[K70 of 70 MB\r\x1b[K");
        assert_eq!(written(ProgressLine::up_to(12, "mutants", 10), &[3]), "", "nothing is removed that was not shown");
    }

    #[test]
    fn nothing_is_shown_for_short_work_and_where_no_terminal_is() {
        assert!(!ProgressLine::reading(LONG_READING).is_shown);
        let mut out = Vec::new();
        let mut line = ProgressLine { is_shown: false, ..ProgressLine::reading(1 << 40) };
        line.show_on(&mut out, 1 << 39);
        assert!(out.is_empty());
    }
}
