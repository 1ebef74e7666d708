//! A guarded stream.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::end::{GuardedLine, Leaving, Left};
use super::frames::{FrameSender, Frames};
use super::out::Out;
use super::stream_places::Http2Streams;
use super::unreadable::Unreadable;
use super::wire::Wire;
use super::{ConnectionState, Guard};
use crate::edge::buffered::{BufferedPart, ConnectionBuffer};
use crate::edge::handshake::UnreadBytes;

const READ_BYTES: usize = 16 * 1024;
/// The placeholder that the engine reads for an unreadable request.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nHost: unreadable\r\nConnection: close\r\n\r\n";

#[derive(Debug)]
pub(super) struct Guarded {
    /// Present until this is dropped; then the rest of the stream is ended elsewhere.
    line: Option<GuardedLine>,
    leaving: Leaving,
    guard: Arc<Guard>,
    note: ConnectionState,
    digest: Arc<ProxyDigest>,
    wire: Wire,
    frames: Frames,
    stage: Stage,
    /// Raw bytes that are not checked yet.
    raw: Vec<u8>,
    /// Checked bytes that the engine has not taken yet.
    good: Vec<u8>,
    good_from: usize,
    deadline: Pin<Box<Sleep>>,
    /// Tells the engine that no more requests may begin here.
    enough: watch::Sender<bool>,
    /// The connection's memory, of it the head that arrives, and the bytes that the caller does not take.
    buffer: Arc<ConnectionBuffer>,
    arriving: BufferedPart,
    unsent: BufferedPart,
    /// The bytes that TLS has of a record that is not whole.
    unread: Option<Arc<UnreadBytes>>,
    /// Present over HTTP/2: what the engine keeps as long as the connection is open.
    http2: Option<Http2Streams>,
    /// Ready when the connection must end at once.
    reset: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between requests: the next may begin.
    Waiting,
    /// A request is being read.
    Reading,
    /// A request is complete, its answer is not.
    Answering,
    /// The same, and more bytes arrived: this answer ends the connection.
    Crowded,
    /// Nothing more is read: the last answer ends the connection.
    Closing,
    /// HTTP/2: bytes pass as they are, as long as they come.
    Passing,
}

impl Guarded {
    pub(super) fn new(
        inner: Stream,
        guard: Arc<Guard>,
        note: ConnectionState,
        digest: Arc<ProxyDigest>,
        leaving: Leaving,
        enough: watch::Sender<bool>,
        unread: Option<Arc<UnreadBytes>>,
    ) -> Guarded {
        let (bounds, buffer) = (guard.bounds, note.0.buffer.clone());
        let stage = if matches!(inner.selected_alpn_proto(), Some(ALPN::H2)) { Stage::Passing } else { Stage::Waiting };
        Guarded {
            line: Some(GuardedLine { inner, out: Out::new(bounds.write_time) }),
            leaving,
            guard,
            note,
            digest,
            wire: Wire::new(bounds.head),
            frames: Frames::of(FrameSender::Caller),
            stage,
            raw: Vec::new(),
            good: Vec::new(),
            good_from: 0,
            deadline: Box::pin(sleep_until(Instant::now() + bounds.head_time)),
            enough,
            arriving: buffer.hold(0),
            unsent: buffer.hold(0),
            unread,
            http2: (stage == Stage::Passing).then(|| Http2Streams::new(&buffer)),
            reset: Box::pin(buffer.reset().clone().cancelled_owned()),
            buffer,
        }
    }

    /// Goes on to the next request once the last one is answered.
    fn turn(&mut self) {
        if !self.note.is_answered() {
            return;
        }
        match self.stage {
            Stage::Answering => {
                self.stage = Stage::Waiting;
                self.wait(self.guard.bounds.idle_time);
            }
            Stage::Crowded => self.stage = Stage::Closing,
            Stage::Waiting | Stage::Reading | Stage::Closing | Stage::Passing => {}
        }
    }

    /// Gives the engine checked bytes; returns false where there are none.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.good.get(self.good_from..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.good_from = self.good_from.saturating_add(count);
        if self.good_from >= self.good.len() {
            // Whoever waits between requests holds no memory for them.
            self.good = Vec::new();
            self.good_from = 0;
        }
        true
    }

    /// Checks raw bytes until some are good or all are used up.
    fn check_raw(&mut self) -> io::Result<()> {
        while self.good.is_empty() && !self.raw.is_empty() && matches!(self.stage, Stage::Waiting | Stage::Reading) {
            let began = self.wire.is_between();
            if began {
                self.note.begin();
            }
            match self.wire.feed(&self.raw, &mut self.good) {
                Ok(fed) => {
                    self.raw.drain(..fed.taken.min(self.raw.len()));
                    self.stage = if fed.ended { Stage::Answering } else { Stage::Reading };
                }
                Err(why) => return self.refuse(why),
            }
            if began && self.wire.is_in_head() {
                self.wait(self.guard.bounds.head_time);
            }
        }
        if self.raw.is_empty() {
            self.raw = Vec::new();
        }
        if self.stage == Stage::Answering && !self.raw.is_empty() {
            self.stage = Stage::Crowded;
            self.note.crowd();
            self.guard.metrics.unreadable(self.guard.listener, Unreadable::Pipelined.as_str());
        }
        Ok(())
    }

    /// Refuses: with a placeholder before a request has begun for the engine, with an error inside a body.
    fn refuse(&mut self, why: Unreadable) -> io::Result<()> {
        let in_body = self.stage == Stage::Reading && !self.wire.is_in_head();
        self.stage = Stage::Closing;
        self.raw.clear();
        self.note.write(why);
        self.guard.metrics.unreadable(self.guard.listener, why.as_str());
        if in_body {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why.as_str()));
        }
        self.good.extend_from_slice(STAND_IN);
        Ok(())
    }

    fn wait(&mut self, time: Duration) {
        self.deadline.as_mut().reset(Instant::now() + time);
    }

    /// The deadline is over: an idle connection ends quietly, a slow head is refused.
    fn late(&mut self) -> io::Result<()> {
        if self.stage != Stage::Passing && self.wire.is_in_head() {
            return self.refuse(Unreadable::HeadSlow);
        }
        if self.stage == Stage::Passing && self.frames.is_within() {
            self.guard.metrics.unreadable(self.guard.listener, Unreadable::HeadSlow.as_str());
        }
        self.stage = Stage::Closing;
        Ok(())
    }

    /// The caller has ended its sending side.
    fn ended(&mut self) -> io::Result<()> {
        match self.stage {
            Stage::Waiting | Stage::Reading if self.wire.is_in_head() => self.refuse(Unreadable::HeadCut),
            _ => Ok(()),
        }
    }

    /// Returns whether the deadline for the next bytes runs.
    fn is_timed(&self) -> bool {
        match self.stage {
            Stage::Passing => true,
            Stage::Waiting | Stage::Reading => self.wire.is_between() || self.wire.is_in_head(),
            Stage::Answering | Stage::Crowded | Stage::Closing => false,
        }
    }

    /// Counts and times HTTP/2 by the bytes that passed.
    fn passed(&mut self, bytes: &[u8]) {
        let (ended, within) = (self.frames.ended(), self.frames.is_within());
        let http2 = &mut self.http2;
        self.frames.watch(bytes, |event| http2.iter_mut().for_each(|http2| http2.see(event)));
        if !self.frames.is_within() {
            self.wait(self.guard.bounds.silence_time);
        } else if !within || self.frames.ended() != ended {
            self.wait(self.guard.bounds.head_time);
        }
        if self.frames.requests() >= self.guard.bounds.requests {
            self.enough.send_replace(true);
        }
        if self.frames.requests() >= self.guard.bounds.requests.saturating_mul(2) {
            // The caller continues although it was asked to stop.
            self.stage = Stage::Closing;
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(GuardedLine { inner, out }) = &mut self.line else { return Poll::Ready(Ok(())) };
        let before = out.len();
        let polled = out.poll_out(inner, cx);
        if polled.is_pending() {
            self.unsent.set(out.len());
            if out.len() < before {
                self.buffer.moved();
            }
            if self.reset.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        } else {
            self.unsent.set(0);
        }
        polled
    }

    fn poll_more(&mut self, cx: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.line {
            Some(line) => Pin::new(&mut line.inner).poll_read(cx, read),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Waits for checked bytes, or the end of the stream; returns whether there are bytes.
    pub(super) fn poll_checked(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let checked = self.poll_until_checked(cx);
        // A head that is complete, or refused, arrives no longer.
        let arriving = if checked.is_pending() { self.arriving_bytes() } else { 0 };
        self.arriving.set(arriving);
        if checked.is_pending() {
            if let Some(http2) = &mut self.http2 {
                http2.hold();
            }
            if self.reset.as_mut().poll(cx).is_ready() {
                self.go_away(cx);
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
        checked
    }

    fn poll_until_checked(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            self.turn();
            self.check_raw()?;
            if !self.good.is_empty() || self.stage == Stage::Closing {
                return Poll::Ready(Ok(!self.good.is_empty()));
            }
            // A caller that waits for more adds nothing: the written bytes may go out.
            if self.line.as_ref().is_some_and(|line| !line.out.is_empty())
                && let Poll::Ready(Err(error)) = self.poll_out(cx)
            {
                return Poll::Ready(Err(error));
            }
            if self.stage == Stage::Crowded {
                // Writing the answer goes on by itself, and then ends this.
                return Poll::Pending;
            }
            if self.is_timed() && self.deadline.as_mut().poll(cx).is_ready() {
                self.late()?;
                continue;
            }
            let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
            let mut read = ReadBuf::uninit(&mut space);
            ready!(self.poll_more(cx, &mut read))?;
            let came = read.filled();
            if let Some(unread) = &self.unread {
                unread.read();
            }
            if came.is_empty() {
                self.ended()?;
                return Poll::Ready(Ok(!self.good.is_empty()));
            }
            if self.stage == Stage::Passing {
                self.passed(came);
                self.good.extend_from_slice(came);
            } else {
                self.raw.extend_from_slice(came);
            }
        }
    }

    /// Returns the memory of a head, or of a record of TLS, that is under way.
    fn arriving_bytes(&self) -> usize {
        let head = match self.stage {
            // The engine keeps the block; how much of it came is not known here.
            Stage::Passing if self.frames.is_within() => self.guard.bounds.head.bytes,
            Stage::Waiting | Stage::Reading if self.wire.is_in_head() => self.wire.head_bytes(),
            _ => 0,
        };
        head.saturating_add(self.unread.as_ref().map_or(0, |unread| unread.of_record()))
    }

    /// Tells an HTTP/2 caller which of its requests began before its connection is reset; where it takes no bytes, it is
    /// not told.
    fn go_away(&mut self, cx: &mut Context<'_>) {
        let frame = self.frames.go_away();
        if let Some(GuardedLine { inner, out }) = self.line.as_mut().filter(|_| self.http2.is_some())
            && out.is_empty()
        {
            let said = Pin::new(&mut *inner).poll_write(cx, &frame).map_ok(|_| ());
            if said.is_ready() && Pin::new(inner).poll_shutdown(cx).is_pending() {
                tracing::trace!("a connection was reset before its caller was told");
            }
        }
    }

    fn inner(&self) -> Option<&Stream> {
        self.line.as_ref().map(|line| &line.inner)
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.poll_checked(cx))? {
            self.give(buf);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.line.as_ref().is_some_and(|line| line.out.is_full()) {
            ready!(self.poll_out(cx))?;
        }
        let count = self.line.as_mut().map_or(0, |line| line.out.put(bytes));
        let sent = bytes.get(..count).unwrap_or_default();
        self.http2.iter_mut().for_each(|http2| http2.sent(sent));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_out(cx)
    }

    /// The written bytes go out; the rest happens when the engine has let go.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_out(cx)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let unread = match self.stage {
            Stage::Reading | Stage::Crowded | Stage::Closing | Stage::Passing => true,
            Stage::Waiting | Stage::Answering => false,
        };
        // A connection that is reset frees its memory now.
        if let Some(line) = self.line.take().filter(|_| !self.buffer.reset().is_cancelled()) {
            self.leaving.leave(Left { line, unread });
        }
    }
}

#[async_trait]
impl Shutdown for Guarded {
    async fn shutdown(&mut self) {
        if let Err(error) = AsyncWriteExt::shutdown(self).await {
            tracing::trace!(%error, "an answer could not be written completely");
        }
    }
}

impl UniqueID for Guarded {
    fn id(&self) -> UniqueIDType {
        self.inner().map(|inner| inner.id()).unwrap_or_default()
    }
}

impl Ssl for Guarded {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner()?.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner()?.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner()?.selected_alpn_proto()
    }
}

impl GetTimingDigest for Guarded {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner().map(|inner| inner.get_timing_digest()).unwrap_or_default()
    }
}

impl GetProxyDigest for Guarded {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(self.digest.clone())
    }
}

impl GetSocketDigest for Guarded {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner()?.get_socket_digest()
    }
}

#[async_trait]
impl Peek for Guarded {}
