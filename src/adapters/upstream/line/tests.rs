//! The client beside the engine's: both read the same bytes, generated and cut anywhere, from a real socket.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::header::TRANSFER_ENCODING;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::protocols::l4;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::adapters::upstream::answer_room::AnswerRoom;
use crate::base::ids::Environment;
use crate::stations::claim::Owner;
use crate::telemetry::Metrics;

/// The reading of an answer by a client.
#[derive(Debug, PartialEq, Eq)]
struct ReadAnswer {
    status: u16,
    headers: Vec<(HeaderName, Vec<u8>)>,
    body: Vec<u8>,
    is_whole: bool,
    is_reusable: bool,
}

/// An answer as bytes, and where its pieces end.
#[derive(Clone, Debug)]
struct WrittenAnswer {
    bytes: Vec<u8>,
    piece: usize,
}

#[test]
fn each_byte_of_a_head_is_looked_at_once() {
    let (mut search, mut came) = (HeadSearch::default(), b"HTTP/1.1 200 OK\r\nA: ".to_vec());
    for at in 0..MAX_ANSWER_HEAD_BYTES {
        came.push(b'a');
        assert!(search.end(&came).unwrap().is_none());
        assert!(format!("{search:?}").contains(&format!("searched: {}", came.len())), "{at}: {search:?}");
    }
}

#[test]
fn a_head_ends_with_its_first_empty_line() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"[..], Ok(Some(25))),
        (b"HTTP/1.1 200 OK\nA: b\n\n", Ok(Some(22))),
        (b"\r\n\nHTTP/1.1 204 No\r\n\r\n", Ok(Some(22))),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", Ok(None)),
        (b"\r\n\r\n\r\n", Ok(None)),
        (b"HTT", Ok(None)),
        (b"SSH-2.0", Err(())),
        (b"\r\nSSH-2.0\r\n\r\n", Err(())),
        (b"HTTP/2", Err(())),
    ] {
        for piece in [1, 2, 3, 1000] {
            let (mut search, mut came, mut found) = (HeadSearch::default(), Vec::new(), Ok(None));
            for piece in bytes.chunks(piece) {
                came.extend_from_slice(piece);
                found = search.end(&came).map_err(|_| ());
                if found != Ok(None) {
                    break;
                }
            }
            assert_eq!(found, expected, "{:?} by {piece}", String::from_utf8_lossy(bytes));
        }
    }
}

/// What this client takes for a whole answer is one for the engine, with the same bytes. Where the engine takes a whole
/// one, this client does, too: an answer about money must not be lost by its form. It takes none in another transfer coding
/// than chunks, and no header over several lines.
#[test]
fn both_clients_read_the_same() {
    // `SLUICE_EXCHANGES` asks for a million.
    let cases = if std::env::var_os("SLUICE_EXCHANGES").is_some() { 1_000_000 } else { 600 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ran = runner.run(&answers(), |answer| {
        let (ours, engines) = runtime.block_on(async { (read_by_us(&answer).await, read_by_engine(&answer).await) });
        compare(ours, engines).map_err(|why| {
            TestCaseError::fail(format!("{why}\n{:?} by {}", String::from_utf8_lossy(&answer.bytes), answer.piece))
        })
    });
    ran.unwrap();
}

fn compare(ours: Option<ReadAnswer>, engines: Option<ReadAnswer>) -> std::result::Result<(), String> {
    let (Some(ours), Some(engines)) = (&ours, &engines) else {
        let is_coded = |answer: &ReadAnswer| {
            answer.headers.iter().any(|(name, value)| name == TRANSFER_ENCODING && value.as_slice() != b"chunked")
        };
        if ours.is_none() && engines.as_ref().is_some_and(is_coded) {
            return Ok(());
        }
        return if ours.is_none() && engines.is_none() { Ok(()) } else { Err(format!("{ours:?}, {engines:?}")) };
    };
    let same = (ours.status, &ours.body, ours.is_whole) == (engines.status, &engines.body, engines.is_whole);
    let on_one_line = engines.headers.iter().filter(|(name, _)| name != "x-folded");
    let has_same_headers = ours.headers.iter().eq(on_one_line);
    let is_safe = !ours.is_reusable || engines.is_reusable;
    if same && has_same_headers && is_safe { Ok(()) } else { Err(format!("{ours:?}, {engines:?}")) }
}

async fn read_by_us(answer: &WrittenAnswer) -> Option<ReadAnswer> {
    let room = AnswerRoom::new(1 << 20, 1 << 20, Environment::Sandbox, Metrics::new().unwrap());
    let mut line = UpstreamLine::new(connected(answer).await, room.share_of(&Arc::new(Owner::named("main", "ann"))));
    let head = loop {
        let head = waited(line.head()).await?;
        if !head.is_interim() {
            break head;
        }
    };
    let mut body = Vec::new();
    let is_whole = loop {
        match waited(line.piece()).await {
            Some(Some(piece)) => body.extend_from_slice(&piece),
            Some(None) => break true,
            None => break false,
        }
    };
    let headers = head.headers.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    let is_reusable = line.into_reusable().await.is_some();
    Some(ReadAnswer { status: head.status.as_u16(), headers, body, is_whole, is_reusable })
}

async fn read_by_engine(answer: &WrittenAnswer) -> Option<ReadAnswer> {
    let mut session = HttpSession::new(connected(answer).await);
    let status = loop {
        waited(session.read_response()).await?;
        let status = session.get_status()?.as_u16();
        if !(100..200).contains(&status) || status == 101 {
            break status;
        }
    };
    let head = session.resp_header()?;
    let headers = head.headers.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    let mut body = Vec::new();
    let is_whole = loop {
        match waited(session.read_body_bytes()).await {
            Some(Some(piece)) => body.extend_from_slice(&piece),
            Some(None) => break true,
            None => break false,
        }
    };
    session.respect_keepalive();
    let is_reusable = session.reuse().await.is_some();
    Some(ReadAnswer { status, headers, body, is_whole, is_reusable })
}

async fn waited<T>(reading: impl Future<Output = Result<T>>) -> Option<T> {
    timeout(Duration::from_secs(20), reading).await.unwrap().ok()
}

/// Returns a connection on which the answer is written in its pieces, and which is closed then.
async fn connected(answer: &WrittenAnswer) -> Stream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (mut upstream, answer) = (accepted.unwrap().0, answer.clone());
    upstream.set_nodelay(true).unwrap();
    tokio::spawn(async move {
        for piece in answer.bytes.chunks(answer.piece) {
            upstream.write_all(piece).await.ok();
            tokio::task::yield_now().await;
        }
    });
    Box::new(l4::stream::Stream::from(client.unwrap()))
}

fn answers() -> impl Strategy<Value = WrittenAnswer> {
    let body = proptest::collection::vec(any::<u8>(), 0..40);
    let headers = proptest::collection::vec(header(), 0..5);
    let begin =
        select(vec!["", "", "", "\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"]);
    let first = (select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2"]), status());
    let written = (begin, first, headers, framed(body), select(vec!["\r\n", "\r\n", "\r\n", "\n"]));
    let cut = (
        0_usize..8,
        any::<prop::sample::Index>(),
        1_usize..60,
        select(vec!["", "", "", "x", "HTTP/1.1 200 OK\r\n\r\n"]),
    );
    (written, cut).prop_map(|((begin, (version, status), headers, (framing, body), end), (cut, at, piece, behind))| {
        let mut bytes = format!("{begin}{version} {status}{end}").into_bytes();
        for line in headers.into_iter().chain(framing) {
            bytes.extend_from_slice(format!("{line}{end}").as_bytes());
        }
        bytes.extend_from_slice(end.as_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(behind.as_bytes());
        if cut == 0 {
            bytes.truncate(at.index(bytes.len()));
        }
        WrittenAnswer { bytes, piece: if piece > 40 { usize::MAX } else { piece } }
    })
}

fn status() -> impl Strategy<Value = String> {
    let known =
        select(vec!["200 OK", "200", "201 Created", "204 No Content", "304 Not Modified", "404 Not Found", "500 -"]);
    let odd = select(vec!["101 Switching", "99 x", "20 x", "1000 x", "600 x", "2x0 x", ""]);
    prop_oneof![8 => known, 1 => odd].prop_map(str::to_owned)
}

fn header() -> impl Strategy<Value = String> {
    select(vec![
        "Content-Type: application/json",
        "Date: Mon, 30 Nov 2026 01:24:09 GMT",
        "X-Empty:",
        "X-Spaces: \t a b \t ",
        "X-Twice: 1",
        "X-Twice: 2",
        "X-Latin: \u{e9}",
        "Connection: close",
        "Connection: keep-alive",
        "Connection: x, Close",
        "Keep-Alive: timeout=5",
        "Space-Before : x",
        "X-Folded: a\r\n b",
        "no colon",
        "Bad\u{1}: x",
        "X-Control: a\u{1}b",
    ])
    .prop_map(str::to_owned)
}

/// Returns the headers that frame a body, right or wrong, and the body in their form.
fn framed(body: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = (Vec<String>, Vec<u8>)> {
    (body, 0_usize..16, 1_usize..12, any::<bool>()).prop_map(|(body, kind, size, upper)| {
        let length = body.len();
        let lines = |lines: &[String]| lines.to_vec();
        let chunked = |trailers: &str, extension: &str| {
            let mut all = Vec::new();
            for chunk in body.chunks(size) {
                let digits = if upper { format!("{:X}", chunk.len()) } else { format!("{:x}", chunk.len()) };
                all.extend_from_slice(format!("{digits}{extension}\r\n").as_bytes());
                all.extend_from_slice(chunk);
                all.extend_from_slice(b"\r\n");
            }
            all.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
            all
        };
        let encoding = "Transfer-Encoding: chunked".to_owned();
        match kind {
            0..4 => (lines(&[format!("Content-Length: {length}")]), body),
            4 => (lines(&[format!("Content-Length: {length}, {length}")]), body),
            5 => (lines(&[format!("Content-Length: {length}"), format!("Content-Length: {}", length + size)]), body),
            6 => (
                lines(&[format!(
                    "Content-Length: {}",
                    ["+1", "0x1", "", "-1", "1 1", "99999999999999999999"][size % 6]
                )]),
                body,
            ),
            7 => (lines(&[]), body),
            8..11 => (lines(&[encoding]), chunked("", "")),
            11 => (lines(&[encoding, format!("Content-Length: {length}")]), chunked("", ";a=b")),
            12 => (lines(&[encoding]), chunked("X-Trailer: 1\r\nX-Other: 2\r\n", "")),
            13 => (lines(&["Transfer-Encoding: gzip, Chunked".to_owned()]), chunked("", "")),
            14 => (lines(&["Transfer-Encoding: gzip".to_owned()]), body),
            _ => (lines(&[encoding]), [b"zz\r\n".to_vec(), body].concat()),
        }
    })
}
