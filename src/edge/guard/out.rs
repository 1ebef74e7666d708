//! The engine's output, on its way to the caller.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pingora::protocols::Stream;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until};

/// The most bytes of an answer that are gathered before they are written.
pub const GATHERED_BYTES: usize = 64 * 1024;

/// Gathered bytes, and the deadline for a caller who does not read.
///
/// INVARIANT: at most `GATHERED_BYTES` are held, however long an answer is.
#[derive(Debug)]
pub(super) struct Out {
    gathered: Vec<u8>,
    /// The time in which the caller must take `GATHERED_BYTES`, or the rest.
    time: Duration,
    /// Bytes taken since the deadline was set; `None` while everything goes out at once.
    taken: Option<usize>,
    deadline: Pin<Box<Sleep>>,
}

impl Out {
    pub(super) fn new(time: Duration) -> Out {
        Out { gathered: Vec::new(), time, taken: None, deadline: Box::pin(sleep_until(Instant::now())) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.gathered.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= GATHERED_BYTES
    }

    /// Gathers as many bytes as there is room for, and returns how many.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let count = GATHERED_BYTES.saturating_sub(self.gathered.len()).min(bytes.len());
        self.gathered.extend_from_slice(bytes.get(..count).unwrap_or_default());
        count
    }

    /// Ready when everything has gone out; an error when that takes too long.
    pub(super) fn poll_out(&mut self, to: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_through(to, cx) {
            Poll::Ready(ended) => {
                self.taken = None;
                Poll::Ready(ended)
            }
            Poll::Pending => {
                if self.taken.is_none_or(|taken| taken >= GATHERED_BYTES) {
                    self.taken = Some(0);
                    self.deadline.as_mut().reset(Instant::now() + self.time);
                }
                ready!(self.deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn poll_through(&mut self, to: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut done = 0;
        let written = loop {
            let Some(rest) = self.gathered.get(done..).filter(|rest| !rest.is_empty()) else {
                break Poll::Ready(Ok(()));
            };
            match Pin::new(&mut *to).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => done = done.saturating_add(count),
                other => break other.map_ok(|_| ()),
            }
        };
        self.gathered.drain(..done.min(self.gathered.len()));
        if self.gathered.is_empty() {
            // Whoever waits between answers holds no memory for them.
            self.gathered = Vec::new();
        }
        self.taken = self.taken.map(|taken| taken.saturating_add(done));
        ready!(written)?;
        Pin::new(to).poll_flush(cx)
    }
}
