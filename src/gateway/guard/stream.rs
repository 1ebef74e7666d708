//! A guarded stream.

use std::io;
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
use tokio::time::{Instant, Sleep, sleep_until};

use super::unreadable::Unreadable;
use super::wire::Wire;
use super::{Bounds, Guard, Note};
use crate::telemetry::Metrics;

const READ_BYTES: usize = 16 * 1024;
/// How much of an answer is gathered before it is written.
const WRITE_BYTES: usize = 64 * 1024;
/// The most that is read and thrown away before the connection ends: several bodies that are too large, for most
/// clients send theirs whole before they look for an answer.
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// What the engine reads in the place of a request that cannot be read.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nHost: unreadable\r\nConnection: close\r\n\r\n";

#[derive(Debug)]
pub(super) struct Guarded {
    inner: Stream,
    bounds: Bounds,
    note: Note,
    digest: Arc<ProxyDigest>,
    metrics: Metrics,
    listener: &'static str,
    wire: Wire,
    stage: Stage,
    /// Raw bytes that were read and not yet looked at.
    raw: Vec<u8>,
    /// Good bytes that the engine has not taken yet.
    good: Vec<u8>,
    good_from: usize,
    /// What the engine has written and the socket has not taken yet.
    unwritten: Vec<u8>,
    deadline: Pin<Box<Sleep>>,
    /// Bytes that came after the end and were not looked at, once it has ended.
    thrown_away: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between requests: the next may begin.
    Waiting,
    /// A request is being read.
    Reading,
    /// A request is whole, and its answer has not begun.
    Answering,
    /// So it is, and more came already: the answer to this one ends the connection.
    Crowded,
    /// Nothing more is read: the last answer ends the connection.
    Closing,
    /// Another protocol: bytes pass as they are, as long as they come.
    Passing,
}

impl Guarded {
    pub(super) fn new(inner: Stream, guard: &Guard, note: Note, digest: Arc<ProxyDigest>) -> Guarded {
        let bounds = guard.bounds;
        let stage = if matches!(inner.selected_alpn_proto(), Some(ALPN::H2)) { Stage::Passing } else { Stage::Waiting };
        Guarded {
            inner,
            bounds,
            note,
            digest,
            metrics: guard.metrics.clone(),
            listener: guard.listener,
            wire: Wire::new(bounds.head),
            stage,
            raw: Vec::new(),
            good: Vec::new(),
            good_from: 0,
            unwritten: Vec::new(),
            deadline: Box::pin(sleep_until(Instant::now() + bounds.head_time)),
            thrown_away: None,
        }
    }

    /// Gives the engine what is good; false if there is nothing.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.good.get(self.good_from..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.good_from = self.good_from.saturating_add(count);
        if self.good_from >= self.good.len() {
            self.good.clear();
            self.good_from = 0;
        }
        true
    }

    /// Looks at raw bytes until something good comes of them or they are used up.
    fn look(&mut self) -> io::Result<()> {
        if self.stage == Stage::Answering && !self.raw.is_empty() {
            self.stage = Stage::Crowded;
            self.metrics.unreadable(self.listener, Unreadable::Pipelined.as_str());
        }
        while self.good.is_empty() && !self.raw.is_empty() && matches!(self.stage, Stage::Waiting | Stage::Reading) {
            let began = self.wire.is_between();
            match self.wire.feed(&self.raw, &mut self.good) {
                Ok(fed) => {
                    self.raw.drain(..fed.taken.min(self.raw.len()));
                    self.stage = if fed.ended { Stage::Answering } else { Stage::Reading };
                }
                Err(why) => return self.refuse(why),
            }
            if began && self.wire.is_in_head() {
                self.wait(self.bounds.head_time);
            }
        }
        Ok(())
    }

    /// Before a request began for the engine, it gets a stand-in; in the middle of a body, an error.
    fn refuse(&mut self, why: Unreadable) -> io::Result<()> {
        let in_body = self.stage == Stage::Reading && !self.wire.is_in_head();
        self.stage = Stage::Closing;
        self.raw.clear();
        self.note.write(why);
        self.metrics.unreadable(self.listener, why.as_str());
        if in_body {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why.as_str()));
        }
        self.good.extend_from_slice(STAND_IN);
        Ok(())
    }

    fn wait(&mut self, time: Duration) {
        self.deadline.as_mut().reset(Instant::now() + time);
    }

    /// The time is up: an idle connection ends quietly, a slow head is refused.
    fn late(&mut self) -> io::Result<()> {
        if self.stage != Stage::Passing && self.wire.is_in_head() {
            return self.refuse(Unreadable::HeadSlow);
        }
        self.stage = Stage::Closing;
        Ok(())
    }

    /// Whether the time for what comes next is running.
    fn is_timed(&self) -> bool {
        match self.stage {
            Stage::Passing => true,
            Stage::Waiting | Stage::Reading => self.wire.is_between() || self.wire.is_in_head(),
            Stage::Answering | Stage::Crowded | Stage::Closing => false,
        }
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut done = 0;
        while let Some(rest) = self.unwritten.get(done..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.inner).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => done = done.saturating_add(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.unwritten.drain(..done);
                    return Poll::Pending;
                }
            }
        }
        self.unwritten.clear();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            this.look()?;
            if this.give(buf) || this.stage == Stage::Closing {
                return Poll::Ready(Ok(()));
            }
            if this.stage == Stage::Crowded {
                // Writing the answer goes on by itself, and then ends this.
                return Poll::Pending;
            }
            // Who waits for more has nothing to add to what was written: it may go out.
            if !this.unwritten.is_empty()
                && let Poll::Ready(Err(error)) = this.poll_write_out(cx)
            {
                return Poll::Ready(Err(error));
            }
            if this.is_timed() && this.deadline.as_mut().poll(cx).is_ready() {
                this.late()?;
                continue;
            }
            if this.stage == Stage::Passing {
                ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
                this.wait(this.bounds.silence_time);
                return Poll::Ready(Ok(()));
            }
            let mut space = [0_u8; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // The caller will send no more. What it has sent so far is not a request if it is only half a head.
                return Poll::Ready(Ok(()));
            }
            this.raw.extend_from_slice(read.filled());
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.stage {
            Stage::Answering if self.raw.is_empty() => self.stage = Stage::Waiting,
            Stage::Answering | Stage::Crowded => self.stage = Stage::Closing,
            Stage::Waiting | Stage::Reading | Stage::Closing | Stage::Passing => {}
        }
        if self.stage == Stage::Waiting && self.wire.is_between() {
            let idle = self.bounds.idle_time;
            self.wait(idle);
        }
        if self.unwritten.len() >= WRITE_BYTES {
            ready!(self.poll_write_out(cx))?;
        }
        self.unwritten.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// Ends the connection. While its caller is still sending, what comes is thrown away for a while: closing at once
    /// would destroy the answer on its way.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        let this = &mut *self;
        if this.thrown_away.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            if !matches!(this.stage, Stage::Reading | Stage::Crowded | Stage::Closing) {
                return Poll::Ready(Ok(()));
            }
            this.thrown_away = Some(0);
            this.wait(this.bounds.linger_time);
        }
        while this.thrown_away.is_some_and(|bytes| bytes < LINGER_BYTES) {
            if this.deadline.as_mut().poll(cx).is_ready() {
                tracing::trace!("a caller was still sending when its connection ended");
                break;
            }
            let mut space = [0_u8; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {
                    this.thrown_away = this.thrown_away.map(|bytes| bytes.saturating_add(read.filled().len()));
                }
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl Shutdown for Guarded {
    async fn shutdown(&mut self) {
        // The engine ends most connections by `poll_shutdown` alone, so all that matters is there.
        if let Err(error) = AsyncWriteExt::shutdown(self).await {
            tracing::trace!(%error, "a connection was gone before it was ended");
        }
    }
}

impl UniqueID for Guarded {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for Guarded {
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

impl GetTimingDigest for Guarded {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }
}

impl GetProxyDigest for Guarded {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(self.digest.clone())
    }
}

impl GetSocketDigest for Guarded {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }
}

#[async_trait]
impl Peek for Guarded {}
