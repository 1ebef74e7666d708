use proptest::prelude::*;

use super::*;

const LIMITS: HeadLimits = HeadLimits { bytes: 512, headers: 8 };
const GOOD: &str = "POST /v2/x HTTP/1.1\r\nHost: a\r\n";

/// Returns the output for bytes that are fed in pieces of a size, and how many requests ended in them.
fn fed(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Unreadable> {
    let (mut wire, mut out, mut ended) = (Wire::new(LIMITS), Vec::new(), 0);
    for mut rest in input.chunks(piece) {
        while !rest.is_empty() {
            let fed = wire.feed(rest, &mut out)?;
            rest = &rest[fed.taken..];
            ended += usize::from(fed.ended);
        }
    }
    Ok((out, ended))
}

#[test]
fn good_requests_come_out_as_they_went_in() {
    for text in [
        "GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n".to_owned(),
        format!("{GOOD}Content-Length: 5\r\n\r\nhello"),
        format!("{GOOD}Content-Length: 0\r\n\r\n"),
        format!("{GOOD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        format!("{GOOD}transfer-encoding: Chunked\r\n\r\nA;name=\"v\"\r\n0123456789\r\n1\r\nx\r\n00\r\n\r\n"),
        format!("{GOOD}Expect: 100-continue\r\nContent-Length: 1\r\nX-A:\r\nX-B: \t b \r\n\r\n1"),
    ] {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(fed(text.as_bytes(), piece), Ok((text.clone().into_bytes(), 1)), "{text:?} by {piece}");
        }
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    use Unreadable as U;
    let head = |rest: &str| format!("{GOOD}{rest}\r\n\r\n");
    let chunked = |rest: &str| format!("{GOOD}Transfer-Encoding: chunked\r\n\r\n{rest}");
    let cases = [
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("GET /\r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::RequestLine),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Target),
        ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Target),
        ("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Upgrade),
        (head("Transfer-Encoding: \u{c}chunked"), U::HeaderValue),
        (head("Content-Length: 2\u{c}"), U::HeaderValue),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Target),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Target),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Target),
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_owned(), U::Version),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), U::Version),
        ("GET / http/1.1\r\nHost: a\r\n\r\n".to_owned(), U::Version),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), U::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n".to_owned(), U::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n".to_owned(), U::LineEnd),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), U::Host),
        (head("Host: a"), U::Host),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), U::Host),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(), U::Host),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n".to_owned(), U::Host),
        (head(" folded"), U::Folding),
        (head("X: a\r\n\tb"), U::Folding),
        (head("X : a"), U::HeaderName),
        (head(": a"), U::HeaderName),
        (head("no colon"), U::HeaderName),
        (head("X\u{e9}: a"), U::HeaderName),
        (head("X: a\0b"), U::HeaderValue),
        (head("X: a\u{7f}"), U::HeaderValue),
        (head("Content-Length: +5"), U::ContentLength),
        (head("Content-Length: 5, 5"), U::ContentLength),
        (head("Content-Length: 0x5"), U::ContentLength),
        (head("Content-Length: 05"), U::ContentLength),
        (head("Content-Length: -1"), U::ContentLength),
        (head("Content-Length:"), U::ContentLength),
        (head("Content-Length: 99999999999999999999"), U::ContentLength),
        (head("Content-Length: 5\r\nContent-Length: 5"), U::ContentLength),
        (head("Content-Length: 5\r\nTransfer-Encoding: chunked"), U::Framing),
        (head("Transfer-Encoding: gzip, chunked"), U::TransferEncoding),
        (head("Transfer-Encoding: identity"), U::TransferEncoding),
        (head("Transfer-Encoding: xchunked"), U::TransferEncoding),
        (head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), U::TransferEncoding),
        (head("Authorization: a\r\nauthorization: a"), U::Repeated),
        (head("Content-Type: a\r\nContent-Type: a"), U::Repeated),
        (head("Content-Encoding: a\r\nContent-Encoding: a"), U::Repeated),
        (head("Upgrade: websocket"), U::Upgrade),
        (head("Expect: 200-ok"), U::Expectation),
        (head(&format!("X: {}", "a".repeat(600))), U::HeadTooLarge),
        (head(&["X: a"; 9].join("\r\n")), U::TooManyHeaders),
        (chunked("g\r\n"), U::ChunkSize),
        (chunked("\r\n"), U::ChunkSize),
        (chunked("-1\r\n"), U::ChunkSize),
        (chunked("0x5\r\n"), U::ChunkSize),
        (chunked(" 5\r\n"), U::ChunkSize),
        (chunked("5 \r\n"), U::ChunkSize),
        (chunked("5\n"), U::ChunkSize),
        (chunked("5\rx"), U::ChunkSize),
        (chunked("123456789\r\n"), U::ChunkSize),
        (chunked(&format!("5;{}\r\n", "x".repeat(65))), U::ChunkExtension),
        (chunked("5;a\nb\r\n"), U::ChunkExtension),
        (chunked("5\r\nhelloX"), U::ChunkEnd),
        (chunked("5\r\nhello\rX"), U::ChunkEnd),
        (chunked("0\r\nTrailer: x\r\n\r\n"), U::Trailers),
    ];
    for (text, reason) in cases {
        for piece in [1, 5, 1000] {
            assert_eq!(fed(text.as_bytes(), piece), Err(reason), "{text:?} by {piece}");
        }
    }
}

#[test]
fn the_end_of_a_request_is_told() {
    let two = format!("{GOOD}Content-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\n");
    let (mut wire, mut out) = (Wire::new(LIMITS), Vec::new());
    let head = wire.feed(two.as_bytes(), &mut out).unwrap();
    assert!(!head.ended);
    let body = wire.feed(&two.as_bytes()[head.taken..], &mut out).unwrap();
    assert_eq!(body, Fed { taken: 2, ended: true });
    assert!(wire.is_between());
    assert!(out.ends_with(b"\r\n\r\nhi"));
}

proptest! {
    #[test]
    fn the_size_of_pieces_makes_no_difference(bytes in prop::collection::vec(prop_oneof![
        Just(b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"Content-Length: 3\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()), Just(b"3\r\nabc\r\n".to_vec()), Just(b"0\r\n\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4)], 0..8), piece in 1_usize..9) {
        let bytes = bytes.concat();
        match (fed(&bytes, piece), fed(&bytes, 4096)) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (Err(_), Err(_)) => {}
            (one, other) => prop_assert!(false, "{:?} {:?}", one, other),
        }
    }
}
