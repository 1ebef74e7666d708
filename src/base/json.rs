//! The one JSON parser of Sluice: a text means one value, or is refused with the place and the reason.
//!
//! Refused: anything but UTF-8, a byte order mark, a second value, a name that stands twice in an object, a lone
//! surrogate, nesting or numbers beyond a bound. Numbers are kept as written. In requests, numbers that
//! common parsers read differently (an exponent, a negative zero, more than 15 digits) are refused as well.

use std::fmt;

use serde_json::{Map, Number, Value};

/// How much the parser takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub depth: usize,
    pub number_length: usize,
    /// Refuse numbers that a reader with floating point and one with integers would read differently.
    pub plain_numbers: bool,
}

impl Limits {
    /// For what callers send.
    pub const REQUEST: Limits = Limits { depth: 32, number_length: 32, plain_numbers: true };
    /// For what upstream answers and for our own files.
    pub const ANSWER: Limits = Limits { depth: 64, number_length: 64, plain_numbers: false };
}

/// Why a text is not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Empty,
    ByteOrderMark,
    NotUtf8,
    UnexpectedEnd,
    UnexpectedByte,
    TrailingData,
    DuplicateName,
    LoneSurrogate,
    BadEscape,
    ControlInString,
    TooDeep,
    BadNumber,
    NumberTooLong,
    Exponent,
    NegativeZero,
    TooManyDigits,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Empty => "the body is empty; a JSON value is expected",
            Reason::ByteOrderMark => "the text starts with a byte order mark; send plain UTF-8",
            Reason::NotUtf8 => "the text is not UTF-8",
            Reason::UnexpectedEnd => "the text ends inside a value",
            Reason::UnexpectedByte => "a character that JSON does not allow here",
            Reason::TrailingData => "something follows the JSON value; send one value only",
            Reason::DuplicateName => "a name stands twice in one object",
            Reason::LoneSurrogate => "a string holds half of a surrogate pair",
            Reason::BadEscape => "a string holds an escape that JSON does not know",
            Reason::ControlInString => "a string holds a control character that must be escaped",
            Reason::TooDeep => "arrays and objects are nested too deep",
            Reason::BadNumber => "a number is not written as JSON writes numbers",
            Reason::NumberTooLong => "a number is too long",
            Reason::Exponent => "a number has an exponent; write it out in digits",
            Reason::NegativeZero => "a number is a negative zero; write 0",
            Reason::TooManyDigits => {
                "a number has more than 15 digits, which not every reader keeps; send it as a string where the schema allows"
            }
        })
    }
}

/// A refused text: what is wrong and where. It never holds a piece of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    pub reason: Reason,
    /// Bytes before the place.
    pub offset: usize,
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

impl std::error::Error for JsonError {}

/// Reads one JSON value.
pub fn parse(text: &[u8], limits: Limits) -> Result<Value, JsonError> {
    if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
        return Err(located(text, 0, Reason::ByteOrderMark));
    }
    let read = std::str::from_utf8(text).map_err(|e| located(text, e.valid_up_to(), Reason::NotUtf8))?;
    let mut reader = Reader { text: read, at: 0, depth: 0, limits };
    reader.document().map_err(|reason| located(text, reader.at, reason))
}

/// Writes a value in its one form: no spaces, members sorted by name, numbers and strings as they were read.
pub fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn located(text: &[u8], offset: usize, reason: Reason) -> JsonError {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    let line = before.iter().filter(|b| **b == b'\n').count().saturating_add(1);
    let column = before.len().saturating_sub(line_start).saturating_add(1);
    JsonError { reason, offset, line, column }
}

struct Reader<'t> {
    text: &'t str,
    /// Bytes before the place. What is taken out of the text begins and ends beside an ASCII character.
    at: usize,
    depth: usize,
    limits: Limits,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, Reason> {
        self.skip_space();
        if self.peek().is_none() {
            return Err(Reason::Empty);
        }
        let value = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(Reason::TrailingData),
        }
    }

    fn value(&mut self) -> Result<Value, Reason> {
        match self.peek().ok_or(Reason::UnexpectedEnd)? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.string().map(Value::String),
            b't' => self.word(b"true", Value::Bool(true)),
            b'f' => self.word(b"false", Value::Bool(false)),
            b'n' => self.word(b"null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Reason::UnexpectedByte),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Reason>) -> Result<Value, Reason> {
        if self.depth >= self.limits.depth {
            return Err(Reason::TooDeep);
        }
        self.depth = self.depth.saturating_add(1);
        self.step();
        let value = read(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, Reason> {
        let mut members = Map::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name_at = self.at;
            self.expect(b'"').map(|()| self.at = name_at)?;
            let name = self.string()?;
            if members.contains_key(&name) {
                self.at = name_at;
                return Err(Reason::DuplicateName);
            }
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let value = self.value()?;
            members.insert(name, value);
            self.skip_space();
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            self.expect(b',')?;
        }
    }

    fn array(&mut self) -> Result<Value, Reason> {
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, Reason> {
        self.expect(b'"')?;
        let mut out = self.plain().to_owned();
        loop {
            match self.peek().ok_or(Reason::UnexpectedEnd)? {
                b'"' => {
                    self.step();
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(Reason::ControlInString),
            }
            out.push_str(self.plain());
        }
    }

    /// What stands for itself in a string, up to what does not.
    fn plain(&mut self) -> &str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(rest.len());
        self.at = self.at.saturating_add(length);
        rest.get(..length).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, Reason> {
        let start = self.at;
        self.step();
        let kind = self.peek().ok_or(Reason::UnexpectedEnd)?;
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
                return Err(Reason::BadEscape);
            }
        };
        Ok(plain)
    }

    fn unicode(&mut self, start: usize) -> Result<char, Reason> {
        let first = self.hex4(start)?;
        let code = match first {
            0xD800..=0xDBFF => {
                if !(self.take(b'\\') && self.take(b'u')) {
                    self.at = start;
                    return Err(Reason::LoneSurrogate);
                }
                let second = self.hex4(start)?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    self.at = start;
                    return Err(Reason::LoneSurrogate);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| {
            self.at = start;
            Reason::LoneSurrogate
        })
    }

    fn hex4(&mut self, start: usize) -> Result<u32, Reason> {
        let mut code = 0_u32;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                self.at = start;
                return Err(Reason::BadEscape);
            };
            code = (code << 4) | digit;
            self.step();
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, Reason> {
        let start = self.at;
        let read = self.number_text();
        let text = self.text.get(start..self.at).unwrap_or_default();
        let fault = read.err().or_else(|| self.number_fault(text.as_bytes()));
        if let Some(reason) = fault {
            self.at = start;
            return Err(reason);
        }
        text.parse::<Number>().map(Value::Number).map_err(|_| Reason::BadNumber)
    }

    fn number_text(&mut self) -> Result<(), Reason> {
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
            Some(b'0'..=b'9' | b'.' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z') => Err(Reason::BadNumber),
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> Result<(), Reason> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.step();
        }
        if self.at == start { Err(Reason::BadNumber) } else { Ok(()) }
    }

    fn number_fault(&self, text: &[u8]) -> Option<Reason> {
        if text.len() > self.limits.number_length {
            return Some(Reason::NumberTooLong);
        }
        let exponent_at = text.iter().position(|b| matches!(b, b'e' | b'E'));
        if !self.limits.plain_numbers {
            // A long exponent is a small text for a huge number: readers that widen it would pay for it.
            let exponent_length = exponent_at.map_or(0, |at| text.len().saturating_sub(at));
            return (exponent_length > 5).then_some(Reason::NumberTooLong);
        }
        if exponent_at.is_some() {
            return Some(Reason::Exponent);
        }
        let digits = text.iter().filter(|b| b.is_ascii_digit());
        let significant = digits.skip_while(|b| **b == b'0').count();
        if significant == 0 && text.starts_with(b"-") {
            return Some(Reason::NegativeZero);
        }
        (significant > 15).then_some(Reason::TooManyDigits)
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, Reason> {
        for expected in word {
            self.expect(*expected)?;
        }
        Ok(value)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Reason> {
        match self.peek() {
            Some(found) if found == byte => {
                self.step();
                Ok(())
            }
            Some(_) => Err(Reason::UnexpectedByte),
            None => Err(Reason::UnexpectedEnd),
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.step();
        }
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.step();
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
