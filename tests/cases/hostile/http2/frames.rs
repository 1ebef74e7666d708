//! Frames of HTTP/2, written and read by hand.

use super::super::line::Line;
use crate::support::Gate;
use crate::support::token::bearer;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const WINDOW_UPDATE: u8 = 8;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Headers as HPACK writes them at its plainest: no table, no Huffman.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in headers {
        out.push(0);
        for text in [name, value] {
            length(text.len(), &mut out);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// A length with a prefix of seven bits.
fn length(mut rest: usize, out: &mut Vec<u8>) {
    if rest < 127 {
        out.push(u8::try_from(rest).unwrap());
        return;
    }
    out.push(127);
    rest -= 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

pub type Headers<'h> = Vec<(&'h str, &'h str)>;

pub fn read<'h>() -> Headers<'h> {
    vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "gate.example"),
        (":path", "/v2/users"),
        ("authorization", bearer()),
    ]
}

pub fn write<'h>(path: &'h str, length: &'h str) -> Headers<'h> {
    let mut headers = read();
    headers[0].1 = "POST";
    headers[3].1 = path;
    headers.extend([("content-type", "application/json"), ("content-length", length)]);
    headers
}

/// What the gate said on a stream or on the whole connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The status of an answer, if it is in HPACK's static table or written out.
    Status(u32, u16),
    Reset(u32, u32),
    Away(u32),
    Pong,
    Ended(u32),
}

pub struct Two {
    line: Line,
    body_bytes: usize,
}

impl Two {
    pub fn connect(gate: &Gate) -> Two {
        Two::over(Line::tls_with(gate.production(), b"h2"))
    }

    pub fn over(mut line: Line) -> Two {
        // Headers that came before are never pointed at: each block can be read by itself.
        let no_table = [0, 1, 0, 0, 0, 0];
        line.send([PREFACE, &frame(SETTINGS, 0, 0, &no_table)].concat());
        Two { line, body_bytes: 0 }
    }

    /// How many bytes of bodies came so far.
    pub fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    pub fn send(&mut self, frames: impl AsRef<[u8]>) -> &mut Two {
        self.line.send(frames);
        self
    }

    pub fn ask(&mut self, stream: u32, headers: &[(&str, &str)]) -> &mut Two {
        self.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(headers)))
    }

    pub fn begin(&mut self, stream: u32, headers: &[(&str, &str)]) -> &mut Two {
        self.send(frame(HEADERS, END_HEADERS, stream, &block(headers)))
    }

    /// The next thing said; `None` when the connection has ended.
    pub fn said(&mut self) -> Option<Said> {
        loop {
            let head = self.line.wire().exactly(9).ok()?;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let payload = self.line.wire().exactly(length).ok()?;
            self.body_bytes += if head[3] == DATA { length } else { 0 };
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match (head[3], head[4]) {
                (HEADERS, _) => return Some(Said::Status(stream, status(&payload))),
                (DATA, flags) if flags & END_STREAM != 0 => return Some(Said::Ended(stream)),
                (RESET, _) => return Some(Said::Reset(stream, code(0))),
                (GOAWAY, _) => return Some(Said::Away(code(4))),
                (SETTINGS, 0) => drop(self.send(frame(SETTINGS, ACK, 0, b""))),
                (PING, flags) if flags & ACK != 0 => return Some(Said::Pong),
                (PING, _) => drop(self.send(frame(PING, ACK, 0, &payload))),
                _ => {}
            }
        }
    }

    /// The first thing said of this kind.
    pub fn until(&mut self, is_it: impl Fn(&Said) -> bool) -> Option<Said> {
        loop {
            let said = self.said()?;
            if is_it(&said) {
                return Some(said);
            }
        }
    }

    /// How a stream ends: its status, or how it was reset; or how the connection ended instead.
    pub fn outcome(&mut self, stream: u32) -> String {
        match self.until(|said| {
            matches!(said, Said::Status(s, _) | Said::Reset(s, _) if *s == stream) || matches!(said, Said::Away(1..))
        }) {
            Some(Said::Status(_, status)) => status.to_string(),
            Some(Said::Reset(_, code)) => format!("reset {code}"),
            Some(Said::Away(code)) => format!("away {code}"),
            _ => "end".to_owned(),
        }
    }
}

/// The status is the first field of an answer.
fn status(block: &[u8]) -> u16 {
    // Changes of the table's size may stand before it.
    let start = block.iter().take_while(|byte| *byte & 0xe0 == 0x20).count();
    let block = &block[start..];
    match block.first().map(|first| first & 0x7f) {
        Some(at @ 8..=14) if block[0] & 0x80 != 0 => [200, 204, 206, 304, 400, 404, 500][usize::from(at) - 8],
        _ => {
            // A literal with the name `:status` of the table, and a value that may be Huffman: digits alone then.
            let (huffman, length) = (block[1] & 0x80 != 0, usize::from(block[1] & 0x7f));
            let value = &block[2..2 + length];
            if huffman { digits(value) } else { String::from_utf8_lossy(value).parse().unwrap_or(0) }
        }
    }
}

/// Digits in HPACK's Huffman code: 0 to 2 take five bits, 3 to 9 six.
fn digits(value: &[u8]) -> u16 {
    let bits: String = value.iter().map(|byte| format!("{byte:08b}")).collect();
    let (mut at, mut number) = (0, 0);
    for _ in 0..3 {
        let five = u16::from_str_radix(&bits[at..at + 5], 2).unwrap();
        if five <= 2 {
            number = number * 10 + five;
            at += 5;
        } else {
            number = number * 10 + u16::from_str_radix(&bits[at..at + 6], 2).unwrap() - 0x19 + 3;
            at += 6;
        }
    }
    number
}
