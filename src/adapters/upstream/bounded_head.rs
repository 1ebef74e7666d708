//! The heads of upstream's answers: each comes to the engine whole, or not at all.
//!
//! The engine would take 1 MB, and read a head from its beginning again with each piece that comes. So the stream below it
//! gathers a head, looks at each byte once, and ends a head that is too long. A head that is longer than usual waits for room
//! like a long answer, and keeps it until the exchange ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answer_room::{AnswerRoom, HeadRoom};

/// The longest head.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Up to this many bytes, a head counts as memory of its call.
const FREE_BYTES: usize = 4 * 1024;
const READ_BYTES: usize = 4 * 1024;
const VERSION: &[u8] = b"HTTP/1.";

/// A connection to upstream, below the engine.
#[derive(Debug)]
pub(super) struct BoundedHeads {
    inner: Stream,
    stage: HeadStage,
    head: GatheredHead,
    room: HeadRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadStage {
    /// An answer has not begun, or its head is not whole.
    Gathering,
    /// The engine takes a head up to this length; behind an interim one another head follows.
    Giving { end: usize, is_interim: bool },
    /// The engine takes the rest as it comes.
    Passing,
}

/// The bytes of a head so far.
#[derive(Debug, Default)]
struct GatheredHead {
    bytes: Vec<u8>,
    /// Where the line begins that is not whole.
    line: usize,
    /// How far the search for its end has come.
    searched: usize,
    has_first_line: bool,
    given: usize,
}

impl BoundedHeads {
    /// Bounds the heads of a connection; one that was used before has its bound.
    pub fn over(stream: Stream, room: &AnswerRoom) -> Stream {
        if (*stream).as_any().is::<BoundedHeads>() {
            return stream;
        }
        let (stage, head) = (HeadStage::Gathering, GatheredHead::default());
        Box::new(BoundedHeads { inner: stream, stage, head, room: room.head(MAX_HEAD_BYTES) })
    }

    /// Reads until a head is whole.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(stage) = self.head.found() {
                self.stage = stage;
                return Poll::Ready(Ok(()));
            }
            if self.head.bytes.len() > MAX_HEAD_BYTES {
                self.head = GatheredHead::default();
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "upstream's head is too long")));
            }
            if self.head.bytes.len() > FREE_BYTES {
                ready!(self.room.poll_take(cx));
            }
            let mut space = [0_u8; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // The engine says what is wrong with a head that was cut.
                self.stage = HeadStage::Giving { end: self.head.bytes.len(), is_interim: false };
                return Poll::Ready(Ok(()));
            }
            self.head.bytes.extend_from_slice(read.filled());
        }
    }
}

impl GatheredHead {
    /// Returns how much the engine may take: a whole head, and all behind a final one; or all where this is no head.
    fn found(&mut self) -> Option<HeadStage> {
        let all = HeadStage::Giving { end: self.bytes.len(), is_interim: false };
        while let Some(at) = self.bytes.get(self.searched..)?.iter().position(|byte| *byte == b'\n') {
            let end = self.searched.saturating_add(at).saturating_add(1);
            let is_empty = matches!(self.bytes.get(self.line..end), Some(b"\n" | b"\r\n"));
            (self.line, self.searched) = (end, end);
            if is_empty && self.has_first_line {
                return Some(if self.is_interim() { HeadStage::Giving { end, is_interim: true } } else { all });
            }
            self.has_first_line |= !is_empty;
        }
        self.searched = self.bytes.len();
        let begin = self.first_line();
        let is_http = begin.iter().zip(VERSION).all(|(byte, wanted)| byte == wanted);
        (!is_http).then_some(all)
    }

    /// The engine skips empty lines before the first one.
    fn first_line(&self) -> &[u8] {
        let start = self.bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
        start.and_then(|start| self.bytes.get(start..)).unwrap_or_default()
    }

    fn is_interim(&self) -> bool {
        matches!(self.first_line().get(VERSION.len()..), Some([_, b' ', b'1', rest @ ..]) if !rest.starts_with(b"01"))
    }

    /// Gives the engine bytes up to this length; returns whether it has all of them.
    fn give(&mut self, end: usize, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.bytes.get(self.given..end).unwrap_or_default();
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.given = self.given.saturating_add(count);
        self.given >= end
    }

    /// Keeps the bytes behind a head.
    fn rest(&mut self, end: usize) {
        let bytes = self.bytes.split_off(end.min(self.bytes.len()));
        *self = GatheredHead { bytes, ..GatheredHead::default() };
    }
}

impl AsyncRead for BoundedHeads {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.stage {
                HeadStage::Passing => return Pin::new(&mut self.inner).poll_read(cx, buf),
                HeadStage::Gathering => ready!(self.poll_gather(cx))?,
                HeadStage::Giving { end, is_interim } => {
                    let is_all = self.head.give(end, buf);
                    if is_all {
                        self.head.rest(end);
                        self.stage = if is_interim { HeadStage::Gathering } else { HeadStage::Passing };
                    }
                    if end > 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl AsyncWrite for BoundedHeads {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.stage == HeadStage::Passing {
            // The next request has an answer with a head of its own.
            self.stage = HeadStage::Gathering;
            self.room.give_back();
        }
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        self.as_mut().poll_write(cx, first)
    }
}

#[async_trait]
impl Shutdown for BoundedHeads {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(self.inner.as_mut()).await;
    }
}

impl UniqueID for BoundedHeads {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for BoundedHeads {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for BoundedHeads {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }
}

impl GetProxyDigest for BoundedHeads {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }
}

impl GetSocketDigest for BoundedHeads {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }
}

#[async_trait]
impl Peek for BoundedHeads {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds bytes in pieces of a size; returns, for each head that was found, its length and whether it is interim.
    fn found(bytes: &[u8], piece: usize) -> Vec<(usize, bool)> {
        let (mut head, mut found) = (GatheredHead::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            head.bytes.extend_from_slice(piece);
            while let Some(HeadStage::Giving { end, is_interim }) = head.found() {
                found.push((end, is_interim));
                if !is_interim {
                    return found;
                }
                head.rest(end);
            }
        }
        found
    }

    #[test]
    fn a_head_is_found_where_the_engine_finds_it() {
        for (bytes, expected) in [
            (&b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..], vec![(25, false)]),
            (b"HTTP/1.1 200 OK\nA: b\n\n", vec![(22, false)]),
            (b"HTTP/1.1 200 OK\nA: b\n\r\n", vec![(23, false)]),
            (b"\r\n\nHTTP/1.1 204 No\r\n\r\n", vec![(22, false)]),
            (
                b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.0 103 -\r\nL: x\r\n\r\nHTTP/1.1 200 -\r\n\r\n",
                vec![(19, true), (24, true), (18, false)],
            ),
            (b"HTTP/1.1 101 Up\r\n\r\n", vec![(19, false)]),
            (b"HTTP/1.1 200 OK\r\nA: b\r\n", vec![]),
            (b"\r\n\r\n\r\n", vec![]),
        ] {
            for piece in [1, 2, 3, 1000] {
                let seen = found(bytes, piece);
                assert_eq!(seen, expected, "{:?} by {piece}", String::from_utf8_lossy(bytes));
            }
        }
        // Bytes that are no head are the engine's to refuse, at once.
        assert_eq!(found(b"SSH-2.0", 1), [(1, false)]);
        assert_eq!(found(b"HTTP/2", 1), [(6, false)]);
    }

    #[test]
    fn each_byte_is_looked_at_once() {
        let mut head = GatheredHead::default();
        head.bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nA: ");
        for at in 0..MAX_HEAD_BYTES {
            head.bytes.push(b'a');
            assert!(head.found().is_none());
            assert_eq!((head.searched, head.line), (head.bytes.len(), 17), "{at}");
        }
    }
}
