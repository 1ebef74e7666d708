//! Reads the tokens of JSON and keeps the rules: every reader of JSON in Sluice goes through this one.

use std::borrow::Cow;

use thiserror::Error;

use super::limits::Limits;

/// The member of a record that states its format.
pub(super) const FORMAT: &str = "format";

/// The reasons why a text is not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JsonFaultKind {
    #[error("the body is empty; a JSON value is expected")]
    Empty,
    #[error("the text starts with a byte order mark; send plain UTF-8")]
    ByteOrderMark,
    #[error("the text is not UTF-8")]
    NotUtf8,
    #[error("the text ends inside a value")]
    UnexpectedEnd,
    #[error("a character that JSON does not allow here")]
    UnexpectedByte,
    #[error("something follows the JSON value; send one value only")]
    TrailingData,
    #[error("a name appears twice in one object")]
    DuplicateName,
    #[error("a string holds half of a surrogate pair")]
    LoneSurrogate,
    #[error("a string holds an escape that JSON does not know")]
    BadEscape,
    #[error("a string holds a control character that must be escaped")]
    ControlInString,
    #[error("arrays and objects are nested too deep")]
    TooDeep,
    #[error("more than {most} values, each item and each member counted; send fewer in one call")]
    TooManyValues { most: u32 },
    #[error("a number is not written as JSON writes numbers")]
    BadNumber,
    #[error("a number is too long")]
    NumberTooLong,
    #[error("a number has an exponent; write it out in digits")]
    Exponent,
    #[error("a number is a negative zero; write 0")]
    NegativeZero,
    #[error(
        "a number has more than 15 digits, which not every reader keeps; send it as a string where the schema allows"
    )]
    TooManyDigits,
}

/// A refused text: the reason and the place. It never contains a piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct JsonError {
    pub reason: JsonFaultKind,
    /// The offset in bytes.
    pub offset: usize,
    pub line: usize,
    pub column: usize,
}

/// A place in a text, and the rules for what may follow.
#[derive(Debug)]
pub(super) struct JsonReader<'t> {
    text: &'t str,
    /// The offset in bytes. Slices of the text begin and end beside an ASCII character.
    at: usize,
    depth: usize,
    /// The values that began so far.
    values: usize,
    limits: Limits,
    /// The format that the outermost object must state, until that object begins.
    pub(super) format: Option<u64>,
    /// Every member of a type must be there, also one that may be null.
    pub(super) is_record: bool,
}

impl<'t> JsonReader<'t> {
    pub(super) fn new(text: &'t [u8], limits: Limits) -> Result<JsonReader<'t>, JsonError> {
        if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
            return Err(located(text, 0, JsonFaultKind::ByteOrderMark));
        }
        let text = std::str::from_utf8(text).map_err(|e| located(text, e.valid_up_to(), JsonFaultKind::NotUtf8))?;
        Ok(JsonReader { text, at: 0, depth: 0, values: 1, limits, format: None, is_record: false })
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Returns the fault with the place of the reader.
    pub(super) fn fault(&self, reason: JsonFaultKind) -> JsonError {
        located(self.text.as_bytes(), self.at, reason)
    }

    pub(super) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        line_and_column(self.text.as_bytes(), offset)
    }

    /// Reads one value and the end of the text behind it.
    pub(super) fn document<T, E: From<JsonFaultKind>>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.skip_space();
        if self.peek().is_none() {
            return Err(JsonFaultKind::Empty.into());
        }
        let value = value(self)?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(JsonFaultKind::TrailingData.into()),
        }
    }

    /// Steps over the bracket that opens an array or an object.
    pub(super) fn enter(&mut self) -> Result<(), JsonFaultKind> {
        if self.depth >= self.limits.depth {
            return Err(JsonFaultKind::TooDeep);
        }
        self.depth = self.depth.saturating_add(1);
        self.step();
        Ok(())
    }

    /// Moves to the next item of an array or an object; false where `end` closed it.
    pub(super) fn next_item(&mut self, is_first: bool, end: u8) -> Result<bool, JsonFaultKind> {
        self.skip_space();
        if self.take(end) {
            self.depth = self.depth.saturating_sub(1);
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
            self.skip_space();
        }
        if self.values >= self.limits.values {
            let most = u32::try_from(self.limits.values).unwrap_or(u32::MAX);
            return Err(JsonFaultKind::TooManyValues { most });
        }
        self.values = self.values.saturating_add(1);
        Ok(true)
    }

    /// Reads the name of a member and the colon behind it. `is_new` tells whether the object has no such name yet.
    pub(super) fn name(&mut self, is_new: impl FnOnce(&str) -> bool) -> Result<Cow<'t, str>, JsonFaultKind> {
        let name_at = self.at;
        if self.peek() != Some(b'"') {
            self.expect(b'"')?;
        }
        let name = self.string()?;
        if !is_new(&name) {
            self.at = name_at;
            return Err(JsonFaultKind::DuplicateName);
        }
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(name)
    }

    /// Reads a string; one without escapes is a piece of the text.
    pub(super) fn string(&mut self) -> Result<Cow<'t, str>, JsonFaultKind> {
        self.expect(b'"')?;
        let plain = self.plain();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut out = plain.to_owned();
        loop {
            match self.peek().ok_or(JsonFaultKind::UnexpectedEnd)? {
                b'"' => {
                    self.step();
                    return Ok(Cow::Owned(out));
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(JsonFaultKind::ControlInString),
            }
            out.push_str(self.plain());
        }
    }

    /// The run of characters that need no escape.
    fn plain(&mut self) -> &'t str {
        let text = self.text;
        let rest = text.get(self.at..).unwrap_or_default();
        let length = plain_length(rest.as_bytes());
        self.at = self.at.saturating_add(length);
        rest.get(..length).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, JsonFaultKind> {
        let start = self.at;
        self.step();
        let kind = self.peek().ok_or(JsonFaultKind::UnexpectedEnd)?;
        self.step();
        let plain = match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(start),
            _ => {
                self.at = start;
                return Err(JsonFaultKind::BadEscape);
            }
        };
        Ok(plain)
    }

    fn unicode(&mut self, start: usize) -> Result<char, JsonFaultKind> {
        let first = self.hex4(start)?;
        let code = match first {
            0xD800..=0xDBFF => {
                if !(self.take(b'\\') && self.take(b'u')) {
                    self.at = start;
                    return Err(JsonFaultKind::LoneSurrogate);
                }
                let second = self.hex4(start)?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    self.at = start;
                    return Err(JsonFaultKind::LoneSurrogate);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| {
            self.at = start;
            JsonFaultKind::LoneSurrogate
        })
    }

    fn hex4(&mut self, start: usize) -> Result<u32, JsonFaultKind> {
        let mut code = 0_u32;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                self.at = start;
                return Err(JsonFaultKind::BadEscape);
            };
            code = (code << 4) | digit;
            self.step();
        }
        Ok(code)
    }

    /// Reads a number as it is written.
    pub(super) fn number(&mut self) -> Result<&'t str, JsonFaultKind> {
        let (start, whole) = (self.at, self.text);
        let read = self.number_text();
        let text = whole.get(start..self.at).unwrap_or_default();
        let fault = read.err().or_else(|| self.number_fault(text.as_bytes()));
        if let Some(reason) = fault {
            self.at = start;
            return Err(reason);
        }
        Ok(text)
    }

    fn number_text(&mut self) -> Result<(), JsonFaultKind> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _signed = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'.' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z') => Err(JsonFaultKind::BadNumber),
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> Result<(), JsonFaultKind> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.step();
        }
        if self.at == start { Err(JsonFaultKind::BadNumber) } else { Ok(()) }
    }

    fn number_fault(&self, text: &[u8]) -> Option<JsonFaultKind> {
        // An exponent that had no sign is written with one: what was read once is short enough the next time, too.
        if text.iter().filter(|b| **b != b'+').count() > self.limits.number_length {
            return Some(JsonFaultKind::NumberTooLong);
        }
        let exponent_at = text.iter().position(|b| matches!(b, b'e' | b'E'));
        if !self.limits.plain_numbers {
            // A long exponent makes a huge number of a small text: parsers that expand it would pay for it.
            let exponent = exponent_at.and_then(|at| text.get(at..)).unwrap_or_default();
            let digits = exponent.iter().filter(|b| b.is_ascii_digit()).count();
            return (digits > 4).then_some(JsonFaultKind::NumberTooLong);
        }
        if exponent_at.is_some() {
            return Some(JsonFaultKind::Exponent);
        }
        let digits = text.iter().filter(|b| b.is_ascii_digit());
        let significant = digits.skip_while(|b| **b == b'0').count();
        if significant == 0 && text.starts_with(b"-") {
            return Some(JsonFaultKind::NegativeZero);
        }
        (significant > 15).then_some(JsonFaultKind::TooManyDigits)
    }

    /// Reads `true`, `false` or `null`.
    pub(super) fn word(&mut self, word: &[u8]) -> Result<(), JsonFaultKind> {
        word.iter().try_for_each(|expected| self.expect(*expected))
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), JsonFaultKind> {
        match self.peek() {
            Some(found) if found == byte => {
                self.step();
                Ok(())
            }
            Some(_) => Err(JsonFaultKind::UnexpectedByte),
            None => Err(JsonFaultKind::UnexpectedEnd),
        }
    }

    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.step();
        }
        found
    }

    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.step();
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }
}

/// How many bytes of a string are looked at together.
const STRIDE: usize = 32;

/// Returns how many bytes of a string come before its end, an escape, or a byte that needs one.
pub(super) fn plain_length(text: &[u8]) -> usize {
    let is_plain = |b: &u8| (*b != b'"') & (*b != b'\\') & (*b >= 0x20);
    let mut plain = 0_usize;
    for stride in text.chunks(STRIDE) {
        // Without an early end, so that the bytes are compared all at once.
        if stride.iter().fold(true, |all, b| all & is_plain(b)) {
            plain = plain.saturating_add(stride.len());
            continue;
        }
        let (words, rest) = stride.as_chunks::<8>();
        for word in words {
            let plain_in_word = plain_of_word(u64::from_le_bytes(*word));
            plain = plain.saturating_add(plain_in_word);
            if plain_in_word < word.len() {
                return plain;
            }
        }
        return plain.saturating_add(rest.iter().position(|b| !is_plain(b)).unwrap_or(0));
    }
    plain
}

/// Returns how many of eight bytes, the first one lowest, come before one that is not plain.
fn plain_of_word(word: u64) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The bit of the lowest byte that is below a bound is right; those above it may be wrong.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES.wrapping_mul(bound)) & !word & HIGH;
    let is = |byte: u8| below(word ^ ONES.wrapping_mul(u64::from(byte)), 1);
    let others = below(word, 0x20) | is(b'"') | is(b'\\');
    (others.trailing_zeros() / 8) as usize
}

fn located(text: &[u8], offset: usize, reason: JsonFaultKind) -> JsonError {
    let (line, column) = line_and_column(text, offset);
    JsonError { reason, offset, line, column }
}

fn line_and_column(text: &[u8], offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    let line = before.iter().filter(|b| **b == b'\n').count().saturating_add(1);
    (line, before.len().saturating_sub(line_start).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_part_of_a_text_ends_before_the_first_byte_that_is_not_plain() {
        let text = b"\x20\x7f\x80\xff!#[]abc\xc3\xa4".repeat(7);
        assert_eq!(plain_length(&text), text.len());
        for at in 0..text.len() {
            for byte in (0..=u8::MAX).filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
                let mut changed = text.clone();
                changed[at] = byte;
                // Whatever follows.
                for behind in [0x00, b'"', b'x', 0x1f, 0x80] {
                    if let Some(next) = changed.get_mut(at + 1) {
                        *next = behind;
                    }
                    assert_eq!(plain_length(&changed), at, "{byte:#04x} before {behind:#04x}");
                }
            }
        }
    }
}
