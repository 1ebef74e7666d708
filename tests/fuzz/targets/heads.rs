//! HTTP/1.1 on the wire, compared with `httparse`, and the frames of HTTP/2.

use serde_json::{Value, json};
use sluice::edge::guard::{FrameSender, Frames, HeadLimits, Wire};

use super::chosen;

const LIMITS: HeadLimits = HeadLimits { bytes: 4_096, headers: 16 };

/// What the guard makes of a stream: the bytes that it lets pass, where requests end, and the refusal.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    bytes: Vec<u8>,
    /// The lengths of the passed bytes at the ends of requests.
    ends: Vec<usize>,
    refused: Option<&'static str>,
}

fn passed(stream: &[u8], piece: usize) -> Passed {
    let mut wire = Wire::new(LIMITS);
    let mut passed = Passed { bytes: Vec::new(), ends: Vec::new(), refused: None };
    for piece in stream.chunks(piece.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            match wire.feed(rest, &mut passed.bytes) {
                Ok(fed) => {
                    assert!(fed.taken > 0 || fed.ended, "nothing was taken of {rest:?}");
                    rest = &rest[fed.taken..];
                    if fed.ended {
                        passed.ends.push(passed.bytes.len());
                    }
                }
                Err(why) => {
                    passed.refused = Some(why.as_str());
                    return passed;
                }
            }
        }
    }
    passed
}

/// The same verdict however the bytes arrive, nothing is changed, and another parser reads the same requests.
pub fn head(input: &[u8]) {
    let (piece, stream) = chosen(input);
    let whole = passed(stream, stream.len());
    assert!(stream.starts_with(&whole.bytes), "the bytes were changed");
    let pieces = passed(stream, usize::from(piece % 32) + 1);
    // A head that can only be refused is refused earlier in pieces, and by another of its faults.
    assert_eq!(
        (&pieces.ends, pieces.refused.is_some()),
        (&whole.ends, whole.refused.is_some()),
        "{pieces:?} {whole:?}"
    );
    let mut from = 0;
    for end in whole.ends {
        read_alike(&whole.bytes[from..end]);
        from = end;
    }
}

/// Another parser reads the request in the same way, and it ends at the same byte.
fn read_alike(request: &[u8]) {
    let mut space = [httparse::EMPTY_HEADER; 32];
    let mut other = httparse::Request::new(&mut space);
    let length = match other.parse(request) {
        Ok(httparse::Status::Complete(length)) => length,
        otherwise => {
            panic!("httparse reads {otherwise:?} where the guard passes {:?}", String::from_utf8_lossy(request))
        }
    };
    assert_eq!(other.version, Some(1));
    let head = &request[..length];
    assert!(head.ends_with(b"\r\n\r\n"));
    let lines: Vec<&[u8]> =
        head[..length - 4].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    assert_eq!(lines.len() - 1, other.headers.len(), "another number of headers");
    assert!(lines[0].starts_with(format!("{} {} ", other.method.unwrap(), other.path.unwrap()).as_bytes()));
    let values = |name: &str| -> Vec<&[u8]> {
        other
            .headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
            .collect()
    };
    assert_eq!(values("host").len(), 1);
    let body = &request[length..];
    match (values("content-length").as_slice(), values("transfer-encoding").as_slice()) {
        ([], []) => assert!(body.is_empty(), "a body without a length"),
        ([of], []) => {
            let stated: usize = std::str::from_utf8(of).unwrap().parse().unwrap();
            assert_eq!(body.len(), stated);
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked"));
            assert_eq!(chunked_end(body), Some(body.len()), "the chunks end elsewhere");
        }
        several => panic!("two lengths: {several:?}"),
    }
}

/// Where a chunked body ends, by `httparse`.
fn chunked_end(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let httparse::Status::Complete((begin, size)) = httparse::parse_chunk_size(&body[at..]).ok()? else {
            return None;
        };
        at += begin;
        let size = usize::try_from(size).ok()?;
        if size == 0 {
            return body[at..].starts_with(b"\r\n").then_some(at + 2);
        }
        at += size;
        if !body.get(at..)?.starts_with(b"\r\n") {
            return None;
        }
        at += 2;
    }
}

/// The body behind a good head.
pub fn chunks(input: &[u8]) {
    let (piece, body) = chosen(input);
    let head = b"POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream: Vec<u8> = [&[piece][..], head, body].concat();
    self::head(&stream);
}

/// The preface and the frames of HTTP/2 are told apart alike, however they arrive.
pub fn http2(input: &[u8]) {
    let (piece, stream) = chosen(input);
    let seen = |piece: usize| {
        let mut frames = Frames::of(FrameSender::Caller);
        stream.chunks(piece.max(1)).for_each(|piece| frames.watch(piece, |_| {}));
        (frames.requests(), frames.ended(), frames.is_within())
    };
    let whole = seen(stream.len());
    assert_eq!(seen(usize::from(piece % 32) + 1), whole);
    assert!(whole.0 <= stream.len() as u64 / 9, "more requests than frames");
}

/// What the guard and `httparse` read in the first request of a stream, for comparison with another parser; null if the
/// guard passes none.
pub fn shown(stream: &[u8]) -> String {
    let read = passed(stream, stream.len());
    let Some(end) = read.ends.first().copied() else { return Value::Null.to_string() };
    let request = &read.bytes[..end];
    read_alike(request);
    let mut space = [httparse::EMPTY_HEADER; 32];
    let mut other = httparse::Request::new(&mut space);
    let Ok(httparse::Status::Complete(length)) = other.parse(request) else { return json!("unread").to_string() };
    let is_chunked = other.headers.iter().any(|header| header.name.eq_ignore_ascii_case("transfer-encoding"));
    let body = if is_chunked { unchunked(&request[length..]) } else { request[length..].to_vec() };
    let headers: Vec<Value> =
        other.headers.iter().map(|header| json!([header.name.to_ascii_lowercase(), hex(header.value)])).collect();
    let (method, target, content) = (other.method, other.path, hex(&body));
    json!({ "method": method, "target": target, "headers": headers, "length": end, "content": content }).to_string()
}

/// The content of chunks that are well formed.
fn unchunked(body: &[u8]) -> Vec<u8> {
    let (mut at, mut content) = (0, Vec::new());
    while let Ok(httparse::Status::Complete((begin, size @ 1..))) = httparse::parse_chunk_size(&body[at..]) {
        let from = at + begin;
        at = from + size as usize;
        content.extend_from_slice(&body[from..at]);
        at += 2;
    }
    content
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
