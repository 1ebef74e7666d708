//! Checks one whole HTTP/1.1 head, byte by byte.

use memchr::{memchr_iter, memchr2};

use super::unreadable::Unreadable;

/// The limits of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    pub bytes: usize,
    pub headers: usize,
}

/// The framing that a head states for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// Headers that may occur once: a proxy or server acts on each of them.
const ONCE: [&str; 10] = [
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "traceparent",
    "x-request-id",
];

/// The longest name that [`SeenHeaders`] looks for is `transfer-encoding`.
const LONGEST_KNOWN: usize = 17;

const USUAL_LINES: usize = 16;

/// Refuses a wrong head early, so that the rest need not arrive. Bytes before `from` were checked before.
pub(super) fn so_far(head: &[u8], from: usize) -> Result<(), Unreadable> {
    begins(head)?;
    let is_bare = |end: usize| end == 0 || head.get(end.saturating_sub(1)) != Some(&b'\r');
    let mut ends = memchr_iter(b'\n', head.get(from..).unwrap_or_default());
    if ends.any(|end| is_bare(end.saturating_add(from))) { Err(Unreadable::LineEnd) } else { Ok(()) }
}

fn begins(head: &[u8]) -> Result<(), Unreadable> {
    let is_method = head.first().is_none_or(u8::is_ascii_uppercase);
    if is_method { Ok(()) } else { Err(Unreadable::RequestLine) }
}

/// Checks a head that ends with an empty line.
pub(super) fn check(head: &[u8], limits: HeadLimits) -> Result<BodyFraming, Unreadable> {
    begins(head)?;
    let text = head.strip_suffix(b"\r\n\r\n").ok_or(Unreadable::LineEnd)?;
    let mut lines = split_lines(text)?.into_iter();
    request_line(lines.next().unwrap_or_default())?;
    let mut seen = SeenHeaders::default();
    for (count, line) in lines.enumerate() {
        if count >= limits.headers {
            return Err(Unreadable::TooManyHeaders);
        }
        seen.header(line)?;
    }
    seen.body()
}

/// Splits lines. A CR that ends no line, and an LF without one, are refused.
fn split_lines(text: &[u8]) -> Result<Vec<&[u8]>, Unreadable> {
    let mut lines = Vec::with_capacity(USUAL_LINES);
    let mut rest = text;
    while let Some(end) = memchr2(b'\r', b'\n', rest) {
        let (line, behind) = rest.split_at(end);
        rest = behind.strip_prefix(b"\r\n").ok_or(Unreadable::LineEnd)?;
        lines.push(line);
    }
    lines.push(rest);
    Ok(lines)
}

fn request_line(line: &[u8]) -> Result<(), Unreadable> {
    let mut parts = line.split(|b| *b == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Unreadable::RequestLine);
    };
    let is_method = (1..=16).contains(&method.len()) && method.iter().all(u8::is_ascii_uppercase);
    if !is_method {
        return Err(Unreadable::RequestLine);
    }
    let is_path = target.first() == Some(&b'/') && target.iter().all(|b| (0x21..=0x7e).contains(b) && *b != b'#');
    if !is_path {
        return Err(Unreadable::Target);
    }
    if method == b"CONNECT" {
        // The engine would answer it with its own text.
        return Err(Unreadable::Upgrade);
    }
    if version == b"HTTP/1.1" { Ok(()) } else { Err(Unreadable::Version) }
}

/// The facts of the headers so far.
#[derive(Default)]
struct SeenHeaders {
    once: [bool; ONCE.len()],
    length: Option<u64>,
    chunked: bool,
}

impl SeenHeaders {
    fn header(&mut self, line: &[u8]) -> Result<(), Unreadable> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Unreadable::Folding);
        }
        let colon = line.iter().position(|b| *b == b':').ok_or(Unreadable::HeaderName)?;
        let (name, rest) = line.split_at(colon);
        let value = trimmed(rest.get(1..).unwrap_or_default());
        if name.is_empty() || !name.iter().all(|b| is_token(*b)) {
            return Err(Unreadable::HeaderName);
        }
        // Without an early end, so that many bytes are compared at once.
        let is_control = |b: &u8| ((*b < 0x20) & (*b != b'\t')) | (*b == 0x7f);
        if value.iter().fold(false, |any, b| any | is_control(b)) {
            return Err(Unreadable::HeaderValue);
        }
        // No longer name is looked for.
        let mut short = [0_u8; LONGEST_KNOWN];
        let Some(lower) = short.get_mut(..name.len()) else { return Ok(()) };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.once(lower)?;
        self.known(lower, value)
    }

    fn once(&mut self, name: &[u8]) -> Result<(), Unreadable> {
        let known = ONCE.iter().zip(&mut self.once).find(|(once, _)| once.as_bytes() == name);
        let Some((once, seen)) = known else { return Ok(()) };
        if std::mem::replace(seen, true) {
            return Err(match *once {
                "host" => Unreadable::Host,
                "content-length" => Unreadable::ContentLength,
                "transfer-encoding" => Unreadable::TransferEncoding,
                _ => Unreadable::Repeated,
            });
        }
        Ok(())
    }

    fn known(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match name {
            b"host" if !is_host(value) => Err(Unreadable::Host),
            b"content-length" => {
                self.length = Some(plain_number(value).ok_or(Unreadable::ContentLength)?);
                Ok(())
            }
            b"transfer-encoding" => {
                self.chunked = value.eq_ignore_ascii_case(b"chunked");
                if self.chunked { Ok(()) } else { Err(Unreadable::TransferEncoding) }
            }
            b"upgrade" | b"http2-settings" => Err(Unreadable::Upgrade),
            b"expect" if !value.eq_ignore_ascii_case(b"100-continue") => Err(Unreadable::Expectation),
            _ => Ok(()),
        }
    }

    fn body(&self) -> Result<BodyFraming, Unreadable> {
        let host = ONCE.iter().position(|name| *name == "host").and_then(|at| self.once.get(at));
        if host != Some(&true) {
            return Err(Unreadable::Host);
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Unreadable::Framing),
            (None, true) => Ok(BodyFraming::Chunked),
            (None | Some(0), false) => Ok(BodyFraming::None),
            (Some(length), false) => Ok(BodyFraming::Length(length)),
        }
    }
}

/// Trims the white space that may surround a value. `trim_ascii` would also take a form feed.
fn trimmed(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let from = value.iter().take_while(|b| is_space(b)).count();
    let rest = value.get(from..).unwrap_or_default();
    let behind = rest.iter().rev().take_while(|b| is_space(b)).count();
    rest.get(..rest.len().saturating_sub(behind)).unwrap_or_default()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_host(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(b))
}

/// Parses digits without a leading zero, which could be read as octal.
fn plain_number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}
