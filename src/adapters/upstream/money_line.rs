//! A connection for one write: opened, used once, reset.
//!
//! Its socket options are set before it connects. Closing it always resets it (`SO_LINGER` zero), so the kernel drops what
//! upstream has not received. What upstream does not acknowledge in time is dropped too (`TCP_USER_TIMEOUT`).

use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use pingora::protocols::Stream;
use pingora::protocols::l4::ext::{TCP_INFO, get_tcp_info};
use pingora::upstreams::peer::PeerOptions;
use pingora::{Error, ErrorType, OrErr as _};
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpSocket;

use super::answer_room::AnswerShare;
use super::line::UpstreamLine;

/// The kernel's number for a connection that is over.
const TCP_CLOSE: u8 = 7;

/// The gate's own handle on a socket that the engine uses. Dropping it ends the sending side, so that the engine cannot
/// flush bytes that it still has; it is dropped before the engine's handle, which then resets the connection.
#[derive(Debug)]
pub(super) struct SocketHandle(Socket);

/// The place where the socket's handle appears when the engine connects.
pub(super) type HandlePlace = Arc<Mutex<Option<Socket>>>;

/// A connection that carries no request yet. Fields are dropped in this order.
pub(super) struct UnusedLine {
    handle: SocketHandle,
    stream: Stream,
}

/// A connection that carries one request. Fields are dropped in this order.
pub(super) struct MoneyLine {
    handle: SocketHandle,
    pub line: UpstreamLine,
    /// The bytes sent before the request; `None` where the kernel does not count them.
    sent_before: Option<u64>,
}

/// Has the engine set the options of a money connection, and leave a handle on its socket.
pub(super) fn prepare(options: &mut PeerOptions, acknowledged_within: Duration) -> HandlePlace {
    let place = HandlePlace::default();
    let left = place.clone();
    options.upstream_tcp_sock_tweak_hook = Some(Arc::new(move |socket: &TcpSocket| {
        let socket = SockRef::from(socket);
        let handle = set_options(&socket, acknowledged_within).and_then(|()| socket.try_clone());
        let handle = handle.or_err(ErrorType::SocketError, "while setting the options of a money connection")?;
        *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }));
    place
}

fn set_options(socket: &Socket, acknowledged_within: Duration) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_user_timeout(Some(acknowledged_within))
}

impl UnusedLine {
    /// The engine has connected.
    pub fn new(stream: Stream, place: &HandlePlace) -> pingora::Result<UnusedLine> {
        let handle = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        match handle {
            Some(socket) => Ok(UnusedLine { handle: SocketHandle(socket), stream }),
            None => Err(Error::explain(ErrorType::InternalError, "a money connection without its socket options")),
        }
    }

    /// Returns whether upstream has neither closed the connection nor sent anything, without waiting.
    pub fn is_clean(&mut self) -> bool {
        let (mut byte, mut context) = ([0; 1], Context::from_waker(Waker::noop()));
        let mut buf = ReadBuf::new(&mut byte);
        // TLS takes its own messages, such as session tickets, out of the socket here.
        if Pin::new(&mut self.stream).poll_read(&mut context, &mut buf).is_ready() {
            return false;
        }
        // The stream looks only where the reactor has told it to; this looks at the socket itself.
        let peeked = self.handle.0.peek(&mut [MaybeUninit::uninit()]);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub fn into_line(self, room: AnswerShare) -> MoneyLine {
        let UnusedLine { handle, stream } = self;
        let sent_before = handle.info().filter(counts_bytes).map(|info| info.tcpi_bytes_sent);
        MoneyLine { handle, line: UpstreamLine::new(stream, room), sent_before }
    }
}

impl MoneyLine {
    /// Returns whether upstream's machine has acknowledged every byte that was written.
    pub fn is_delivered(&self) -> bool {
        self.handle.info().is_some_and(|info| info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0)
    }

    /// Returns whether the connection ended before one byte of the request left this machine.
    pub fn has_certainly_sent_nothing(&self) -> bool {
        let (Some(before), Some(info)) = (self.sent_before, self.handle.info()) else { return false };
        info.tcpi_state == TCP_CLOSE && info.tcpi_bytes_sent == before
    }
}

impl SocketHandle {
    fn info(&self) -> Option<TCP_INFO> {
        get_tcp_info(self.0.as_raw_fd()).ok()
    }
}

impl Drop for SocketHandle {
    fn drop(&mut self) {
        // A connection that is over already refuses.
        self.0.shutdown(Shutdown::Write).ok();
    }
}

/// Older kernels leave the later fields zero. The window is the last of them, and zero only while upstream takes nothing.
fn counts_bytes(info: &TCP_INFO) -> bool {
    info.tcpi_snd_wnd > 0
}
