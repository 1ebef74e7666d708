//! The end of a connection, however the engine leaves it: gathered bytes go out, and a caller who is still sending can
//! read them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pingora::protocols::{Shutdown, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt};
use tokio::time::timeout;

use super::out::Out;

/// The most bytes that are discarded before the connection ends: room for several oversize bodies, because most clients
/// send the whole body before they read the answer.
const LINGER_BYTES: usize = 4 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// The remains of a connection that the engine has left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) line: GuardedLine,
    /// The caller may still be sending.
    pub(super) unread: bool,
}

/// A stream, and the bytes that wait to be written to it.
#[derive(Debug)]
pub(super) struct GuardedLine {
    pub(super) inner: Stream,
    pub(super) out: Out,
}

/// The slot for the remains of a guarded stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving(Arc<Mutex<Option<Left>>>);

impl Leaving {
    pub(super) fn leave(&self, left: Left) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    fn take(&self) -> Option<Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends one connection.
#[derive(Debug)]
pub struct ConnectionEnd {
    pub(super) leaving: Leaving,
    pub(super) linger_time: Duration,
}

impl ConnectionEnd {
    /// Runs when the engine is done with the stream.
    pub async fn run(self) {
        let Some(mut left) = self.leaving.take() else { return };
        if left.line.write_out().await.is_err() {
            return;
        }
        let inner = &mut left.line.inner;
        let ending = timeout(self.linger_time, async {
            if left.unread && AsyncWriteExt::shutdown(inner).await.is_ok() {
                // Closing with unread bytes would destroy the answer on its way.
                throw_away(inner).await;
            }
            Shutdown::shutdown(inner.as_mut()).await;
        });
        if ending.await.is_err() {
            tracing::trace!("a caller was still sending when its connection was closed");
        }
    }
}

impl GuardedLine {
    async fn write_out(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.out.poll_out(&mut self.inner, cx)).await
    }
}

async fn throw_away(inner: &mut Stream) {
    // On the heap: every connection's task would have the array in it from its beginning.
    let mut space = vec![0_u8; READ_BYTES];
    let mut total = 0_usize;
    while total < LINGER_BYTES {
        match inner.read(&mut space).await {
            Ok(0) | Err(_) => return,
            Ok(count) => total = total.saturating_add(count),
        }
    }
}
