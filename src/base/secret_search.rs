//! Searches text that arrives in pieces for a secret.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::secret::Secret;

/// A shorter secret would be found in text that does not repeat it.
const MIN_SECRET_BYTES: usize = 12;
const BACKSLASH: u8 = b'\\';
/// The length of `\u0041`.
const UNICODE_ESCAPE: usize = 6;
/// Stands for every character that a secret cannot contain.
const FOREIGN: u8 = 0;

/// Searches for a secret of printable ASCII, both as it is and as strings of JSON may write it: `\u0041`, `\/`.
///
/// Bytes that may be the beginning of the secret are held back until more is known, so that no part of it passes.
#[derive(Debug)]
pub struct SecretSearch {
    secret: Arc<Secret>,
    matched: Matched,
    held: BytesMut,
}

/// How much of the secret the text so far ends with.
#[derive(Debug, Default)]
struct Matched {
    /// For each length of a match, the longest shorter match that it ends with.
    shorter: Vec<usize>,
    plain: usize,
    unescaped: usize,
    /// How many bytes each character of the match in `unescaped` was written with.
    written: VecDeque<usize>,
    /// The beginning of an escape that is not complete.
    escape: Vec<u8>,
}

/// The text contains the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revealed;

/// Returns whether a secret is long enough to be searched for.
pub fn is_searched(secret: &Secret) -> bool {
    secret.reveal().len() >= MIN_SECRET_BYTES
}

impl SecretSearch {
    /// `None` for a secret that is too short to be searched for.
    pub fn new(secret: Arc<Secret>) -> Option<SecretSearch> {
        let matched = is_searched(&secret).then(|| Matched::new(secret.reveal().as_bytes()))?;
        Some(SecretSearch { secret, matched, held: BytesMut::new() })
    }

    /// Returns whether a whole text contains the secret.
    pub fn finds(secret: &Secret, text: &[u8]) -> bool {
        let bytes = secret.reveal().as_bytes();
        is_searched(secret) && Matched::new(bytes).is_completed_by(bytes, text)
    }

    /// Takes the next piece, and returns the bytes that may pass.
    pub fn pass(&mut self, mut piece: Bytes, is_last: bool) -> Result<Bytes, Revealed> {
        if self.matched.is_completed_by(self.secret.reveal().as_bytes(), &piece) {
            self.held.clear();
            return Err(Revealed);
        }
        let kept = if is_last { 0 } else { self.matched.bytes() };
        if self.held.is_empty() {
            self.held.extend_from_slice(&piece.split_off(piece.len().saturating_sub(kept)));
            return Ok(piece);
        }
        self.held.extend_from_slice(&piece);
        Ok(self.held.split_to(self.held.len().saturating_sub(kept)).freeze())
    }
}

impl Matched {
    fn new(secret: &[u8]) -> Matched {
        let mut shorter = vec![0];
        let mut length = 0;
        for byte in secret.iter().skip(1) {
            length = longer(secret, &shorter, length, *byte);
            shorter.push(length);
        }
        Matched { shorter, ..Matched::default() }
    }

    /// How many bytes at the end of the text so far may be the beginning of the secret.
    fn bytes(&self) -> usize {
        self.written.iter().sum::<usize>().saturating_add(self.escape.len()).max(self.plain)
    }

    /// Takes more of the text, and returns whether the secret is in it.
    fn is_completed_by(&mut self, secret: &[u8], text: &[u8]) -> bool {
        let mut rest = text.iter();
        loop {
            if self.bytes() == 0 {
                // Most bytes begin nothing.
                let begins = |byte: &&u8| **byte == BACKSLASH || secret.first() == Some(*byte);
                let Some(byte) = rest.find(begins) else { return false };
                if self.completes(secret, *byte) {
                    return true;
                }
            } else {
                match rest.next() {
                    Some(byte) if self.completes(secret, *byte) => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
        }
    }

    /// Takes the next byte, and returns whether it completes the secret.
    fn completes(&mut self, secret: &[u8], byte: u8) -> bool {
        self.plain = longer(secret, &self.shorter, self.plain, byte);
        let is_unescaped = self.unescape(secret, byte);
        is_unescaped || self.plain == secret.len()
    }

    fn unescape(&mut self, secret: &[u8], byte: u8) -> bool {
        match (self.escape.len(), byte) {
            (0, BACKSLASH) | (1, b'u') => {
                self.escape.push(byte);
                false
            }
            (0, _) => self.character(secret, byte, 1),
            (1, _) => {
                self.escape.clear();
                let is_itself = matches!(byte, b'"' | b'/' | BACKSLASH);
                self.character(secret, if is_itself { byte } else { FOREIGN }, 2)
            }
            (_, _) if byte.is_ascii_hexdigit() => {
                self.escape.push(byte);
                self.escape.len() == UNICODE_ESCAPE && self.end_unicode_escape(secret)
            }
            (length, _) => {
                self.escape.clear();
                self.character(secret, FOREIGN, length);
                self.unescape(secret, byte)
            }
        }
    }

    fn end_unicode_escape(&mut self, secret: &[u8]) -> bool {
        let digits = self.escape.get(2..).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let character = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FOREIGN);
        self.escape.clear();
        self.character(secret, character, UNICODE_ESCAPE)
    }

    fn character(&mut self, secret: &[u8], character: u8, written: usize) -> bool {
        self.unescaped = longer(secret, &self.shorter, self.unescaped, character);
        self.written.push_back(written);
        while self.written.len() > self.unescaped {
            self.written.pop_front();
        }
        self.unescaped == secret.len()
    }
}

/// Returns how much of the secret matches after one more byte.
fn longer(secret: &[u8], shorter: &[usize], mut length: usize, byte: u8) -> usize {
    loop {
        if secret.get(length) == Some(&byte) {
            return length.saturating_add(1);
        }
        match length.checked_sub(1).and_then(|last| shorter.get(last)) {
            Some(next) => length = *next,
            None => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "xy/xy/xy-\\\"xyz";

    fn secret() -> Arc<Secret> {
        Arc::new(Secret::new(SECRET.to_owned()))
    }

    /// Returns the part of a text that passes in pieces of this size; `None` if the secret was found.
    fn passed(text: &str, size: usize) -> Option<String> {
        let mut search = SecretSearch::new(secret()).unwrap();
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            all.extend_from_slice(&search.pass(Bytes::copy_from_slice(piece), false).ok()?);
        }
        all.extend_from_slice(&search.pass(Bytes::new(), true).ok()?);
        Some(String::from_utf8(all).unwrap())
    }

    fn escaped(each: impl Fn(char) -> String) -> String {
        SECRET.chars().map(each).collect()
    }

    #[test]
    fn it_is_found_in_every_form_and_cut_anywhere() {
        let unicode = escaped(|c| format!("\\u{:04x}", u32::from(c)));
        let upper = escaped(|c| format!("\\u{:04X}", u32::from(c)));
        let json = serde_json::to_string(SECRET).unwrap();
        let slashes = json.trim_matches('"').replace('/', "\\/");
        let mixed = slashes.replacen('x', "\\u0078", 2);
        for form in [SECRET.to_owned(), unicode, upper, json, slashes, mixed] {
            // Bytes before it that look like its beginning, and broken escapes.
            for before in ["", "xy/", "xy/xy/", "{\"x\":\"", "\\u00", "\\u", "\\\\", "\\u007"] {
                let text = format!("{before}{form}\"}}");
                for size in 1..text.len() {
                    assert_eq!(passed(&text, size), None, "{text} in pieces of {size}");
                }
                assert!(SecretSearch::finds(&secret(), text.as_bytes()), "{text}");
            }
        }
    }

    #[test]
    fn no_byte_of_it_passes_before_it_is_found() {
        let mut search = SecretSearch::new(secret()).unwrap();
        let mut all = search.pass(Bytes::from_static(b"before "), false).unwrap().to_vec();
        for byte in SECRET.bytes() {
            match search.pass(Bytes::copy_from_slice(&[byte]), false) {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(Revealed) => {
                    assert_eq!(all, b"before ");
                    return;
                }
            }
        }
        panic!("not found");
    }

    #[test]
    fn everything_else_passes_byte_for_byte() {
        let most = &SECRET[..SECRET.len() - 1];
        for text in ["", "plain", "xy/xy/xy/xy", most, "\\", "\\u", "\\u00zz", "\u{1f600} \\ud83d\\ude00", "\\n\\t"] {
            for size in 1..text.len().max(2) {
                assert_eq!(passed(text, size).as_deref(), Some(text), "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_short_secret_is_not_searched_for() {
        assert!(SecretSearch::new(Arc::new(Secret::new("elevenchars".to_owned()))).is_none());
    }
}
