//! The beginning of a connection: its socket options, and TLS.
//!
//! TLS gathers what it cannot read yet: a message of a handshake up to 64 KB, a record up to 16 KB. The socket below it counts
//! these bytes, so that they are held in the share of their address like a head that arrives.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType, l4,
};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffered::ConnectionBuffer;
use super::tls::Tls;
use crate::adapters::clients::Presented;

/// The kernel's send buffer for one caller. By default it grows to several MiB for a caller who does not read, and its
/// growth would look like reading.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// The memory of a handshake that runs, besides the bytes that came.
const HANDSHAKE_BYTES: usize = 16 * 1024;

const FAILED: &str = "handshake";
/// The reason of a connection that ends because its listener has no room for its handshake.
const NO_ROOM: &str = "handshake_no_room";

/// A connection that may carry requests.
pub(super) struct Begun {
    pub stream: Stream,
    pub presented: Option<Presented>,
    /// Present over TLS.
    pub unread: Option<Arc<UnreadBytes>>,
}

/// The bytes that TLS has taken from the socket, and nobody has read from it.
#[derive(Debug, Default)]
pub(super) struct UnreadBytes {
    all: AtomicUsize,
    last: AtomicUsize,
}

/// A socket below TLS.
#[derive(Debug)]
struct CountedSocket {
    inner: l4::stream::Stream,
    unread: Arc<UnreadBytes>,
}

/// Sets up a connection, with TLS where the listener has it. The handshake's memory is held in the buffer while it runs.
pub(super) async fn begin(
    socket: tokio::net::TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
    buffer: &Arc<ConnectionBuffer>,
) -> Result<Begun, &'static str> {
    if let Err(error) = SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES) {
        tracing::debug!(%error, "the send buffer of a connection cannot be limited");
    }
    if tls.is_some() {
        // A caller that has said nothing costs no TLS.
        socket.readable().await.map_err(|_| FAILED)?;
    }
    let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
    // The cell is new, so it cannot be full.
    drop(digest.peer_addr.set(Some(peer.into())));
    let mut stream = l4::stream::Stream::from(socket);
    stream.set_nodelay().map_err(|_| FAILED)?;
    stream.set_socket_digest(digest);
    let Some(tls) = tls else { return Ok(Begun { stream: Box::new(stream), presented: None, unread: None }) };
    let unread = Arc::new(UnreadBytes::default());
    let counted = CountedSocket { inner: stream, unread: unread.clone() };
    let (stream, presented) = within_room(Box::pin(handshake(counted, &tls)), &unread, buffer).await?;
    Ok(Begun { stream, presented, unread: Some(unread) })
}

async fn handshake(socket: CountedSocket, tls: &Tls) -> Result<(Stream, Option<Presented>), &'static str> {
    match &tls.clients {
        None => Ok((Box::new(tls.acceptor.tls_handshake(socket).await.map_err(|_| FAILED)?), None)),
        Some(clients) => {
            let (stream, presented) = clients.handshake(&tls.acceptor, socket).await?;
            Ok((Box::new(stream), Some(presented)))
        }
    }
}

/// Holds the memory of a handshake as long as it runs, and ends it where there is no room for them.
async fn within_room<T>(
    mut handshake: Pin<Box<impl Future<Output = Result<T, &'static str>>>>,
    unread: &UnreadBytes,
    buffer: &Arc<ConnectionBuffer>,
) -> Result<T, &'static str> {
    let mut held = buffer.hold(HANDSHAKE_BYTES);
    let counted = std::future::poll_fn(|cx| {
        let polled = handshake.as_mut().poll(cx);
        held.set(HANDSHAKE_BYTES.saturating_add(unread.all.load(Ordering::Relaxed)));
        polled
    });
    tokio::select! {
        biased;
        () = buffer.reset().cancelled() => Err(NO_ROOM),
        ended = counted => {
            unread.read();
            ended
        }
    }
}

impl UnreadBytes {
    /// TLS has given out what it had read: at most the bytes that came last are left.
    pub fn read(&self) {
        self.all.store(self.last.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns how many bytes TLS has for a record that is not whole. The few that are read at a time count as memory of
    /// the connection.
    pub fn of_record(&self) -> usize {
        let all = self.all.load(Ordering::Relaxed);
        if all > self.last.load(Ordering::Relaxed) { all } else { 0 }
    }

    fn came(&self, bytes: usize) {
        self.last.store(bytes, Ordering::Relaxed);
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl AsyncRead for CountedSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.unread.came(buf.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for CountedSocket {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(&mut self.inner).await;
    }
}

impl UniqueID for CountedSocket {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for CountedSocket {}

impl GetTimingDigest for CountedSocket {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }
}

impl GetProxyDigest for CountedSocket {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }
}

impl GetSocketDigest for CountedSocket {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }
}

#[async_trait]
impl Peek for CountedSocket {}
