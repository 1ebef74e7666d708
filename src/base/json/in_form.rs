//! Texts that are in the one form of JSON already: their values are pieces of the text, and nothing is built.
//!
//! What this does not recognize may still be in that form; who asks then reads the tree, and writes it.

use super::limits::Limits;
use super::reader::plain_length;

/// How many members most objects have at most.
const MEMBERS: usize = 20;

/// The members of an object that is in its one form (see [`super::to_bytes`]): each name, and its value as a text that
/// is in its form, too. `None` where the text is not, or has what is not looked at here: escapes of code points, signs
/// and exponents of numbers.
pub fn members_in_form(text: &[u8], limits: Limits) -> Option<Vec<(&str, &str)>> {
    let mut walk = FormWalk { text: std::str::from_utf8(text).ok()?, at: 0, depth: 0, limits };
    let mut members = Vec::with_capacity(MEMBERS);
    walk.object(|name, value| members.push((name, value)))?;
    (walk.at == text.len()).then_some(members)
}

struct FormWalk<'t> {
    text: &'t str,
    /// The offset in bytes. Slices of the text begin and end beside an ASCII character.
    at: usize,
    depth: usize,
    limits: Limits,
}

impl<'t> FormWalk<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.step(1);
        }
        found
    }

    fn from(&self, start: usize) -> Option<&'t str> {
        self.text.get(start..self.at)
    }

    /// Steps over a value, and returns its text.
    fn value(&mut self) -> Option<&'t str> {
        let start = self.at;
        match self.peek()? {
            b'{' => self.object(|_, _| {})?,
            b'[' => self.array()?,
            b'"' => self.string()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        self.from(start)
    }

    fn enter(&mut self) -> Option<()> {
        self.depth = self.depth.checked_add(1).filter(|depth| *depth <= self.limits.depth)?;
        self.step(1);
        Some(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn object(&mut self, mut each: impl FnMut(&'t str, &'t str)) -> Option<()> {
        if self.peek() != Some(b'{') {
            return None;
        }
        self.enter()?;
        let mut before: Option<&str> = None;
        while !self.take(b'}') {
            if before.is_some() && !self.take(b',') {
                return None;
            }
            let start = self.at;
            self.string()?;
            let name = self.from(start)?.strip_prefix('"')?.strip_suffix('"')?;
            // Sorted, and none twice. An escape stands for another byte.
            if name.contains('\\') || before.is_some_and(|before| before >= name) || !self.take(b':') {
                return None;
            }
            each(name, self.value()?);
            before = Some(name);
        }
        self.leave();
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.enter()?;
        let mut is_first = true;
        while !self.take(b']') {
            if !is_first && !self.take(b',') {
                return None;
            }
            self.value()?;
            is_first = false;
        }
        self.leave();
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        if !self.take(b'"') {
            return None;
        }
        loop {
            self.step(plain_length(self.text.as_bytes().get(self.at..)?));
            if self.take(b'"') {
                return Some(());
            }
            let is_escape = self.take(b'\\') && matches!(self.peek()?, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't');
            if !is_escape {
                return None;
            }
            self.step(1);
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes()).then(|| self.step(word.len()))
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        let is_over = matches!(self.peek(), None | Some(b',' | b']' | b'}'));
        (is_over && self.from(start)?.len() <= self.limits.number_length).then_some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.step(1);
        }
        (self.at > start).then_some(())
    }
}
