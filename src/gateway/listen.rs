//! Listening: every address is bound before anything serves, so that a taken one ends the process at once; and
//! connections are counted, timed and guarded before the engine sees them. What was connected before an end is served.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::{GetSocketDigest, SocketDigest, Stream, l4};
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::ending::Phase;
use super::guard::Guard;
use super::tls::{Speaking, Tls};
use crate::adapters::clients::Presented;
use crate::adapters::handed_over::HandedOver;
use crate::telemetry::Metrics;

/// How long accepting rests after it failed, when descriptors may have run out.
const REST: Duration = Duration::from_millis(100);

/// What the kernel may hold of answers to one caller. It would grow to several MiB for one who does not read, and its
/// growing would look like reading.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// How many connections may wait in the kernel, as while a start waits for its store.
const WAITING: i32 = 4_096;

/// An address that is ours.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    /// Whoever handed it over keeps it open: who waits in it is served by another process, or by the next.
    is_lent: bool,
}

impl Bound {
    /// The socket of this address that was handed over, or one of our own.
    pub fn bind(address: SocketAddr, handed: &mut HandedOver) -> io::Result<Bound> {
        let lent = handed.take(address);
        let is_lent = lent.is_some();
        let listener = match lent {
            Some(listener) => listener,
            None => {
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                socket.bind(&address.into())?;
                socket.listen(WAITING)?;
                socket.into()
            }
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address, is_lent })
    }

    /// The address itself, also where any free port was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// How many connections a listener takes.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub all: usize,
    pub of_one_peer: usize,
    /// For the TLS handshake.
    pub handshake_time: Duration,
}

/// A service on a bound address, which stops listening when it is told to.
///
/// It runs on the process's own runtime: handing work from one runtime to another costs a switch of threads each way.
pub struct Listening<A> {
    name: &'static str,
    start: Mutex<Option<(Bound, Door<A>)>>,
    runtime: Handle,
}

/// Where connections come in.
pub struct Door<A> {
    pub app: Arc<A>,
    pub tls: Option<Speaking>,
    pub guard: Guard,
    pub limits: ConnectionLimits,
    pub phase: watch::Receiver<Phase>,
    /// Every connection that is open; an end waits for them a while.
    pub connections: TaskTracker,
}

impl<A: ServerApp + Send + Sync + 'static> Listening<A> {
    pub fn new(bound: Bound, door: Door<A>, runtime: Handle) -> Listening<A> {
        Listening { name: door.guard.listener, start: Mutex::new(Some((bound, door))), runtime }
    }
}

impl<A> fmt::Debug for Listening<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for Door<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> Service for Listening<A> {
    async fn start_service(&mut self, _fds: Option<ListenFds>, _shutdown: ShutdownWatch, _listeners_per_fd: usize) {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((bound, door)) = start else { return };
        let serving = self.runtime.spawn(async move { door.open(bound).await });
        if let Err(error) = serving.await {
            tracing::error!(listener = self.name, %error, "a listener ended before its time");
        }
    }

    fn name(&self) -> &str {
        self.name
    }

    /// The engine's own threads for it have nothing to do.
    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

impl<A: ServerApp + Send + Sync + 'static> Door<A> {
    async fn open(&self, bound: Bound) {
        let (address, is_lent) = (bound.address, bound.is_lent);
        match tokio::net::TcpListener::from_std(bound.listener) {
            Ok(listener) => {
                let open = Arc::new(Open::default());
                self.accept(&listener, &open).await;
                if !is_lent && let Err(error) = self.accept_the_last(listener, &open) {
                    tracing::warn!(%address, %error, "who had just connected was not served");
                }
            }
            Err(error) => tracing::error!(%address, %error, "the bound address cannot be listened on"),
        }
    }

    /// Until listeners are to close.
    async fn accept(&self, listener: &tokio::net::TcpListener, open: &Arc<Open>) {
        let mut stopped = std::pin::pin!(reached(self.phase.clone(), Phase::Closing));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopped => return,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(listener = self.guard.listener, %error, "a connection cannot be accepted");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            self.take(socket, peer, open);
        }
    }

    /// Those whom the kernel has let in already would be cut off when the socket closes.
    fn accept_the_last(&self, listener: tokio::net::TcpListener, open: &Arc<Open>) -> io::Result<()> {
        let listener = listener.into_std()?;
        loop {
            match listener.accept() {
                Ok((socket, peer)) => self.take(nonblocking(socket)?, peer, open),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&self, socket: tokio::net::TcpStream, peer: SocketAddr, open: &Arc<Open>) {
        match Open::enter(open, peer.ip(), self.limits) {
            Ok(place) => self.begin(socket, peer, place),
            Err(full) => self.guard.metrics.connection_refused(self.guard.listener, full.as_str()),
        }
    }

    fn begin(&self, socket: tokio::net::TcpStream, peer: SocketAddr, place: Place) {
        let (app, guard, phase) = (self.app.clone(), self.guard.clone(), self.phase.clone());
        let tls = self.tls.as_ref().map(Speaking::now);
        let (name, time) = (guard.listener, self.limits.handshake_time);
        self.connections.spawn(async move {
            let _counted = Counted::new(&guard.metrics, name);
            match timeout(time, handshake(socket, peer, tls)).await {
                Ok(Ok((stream, presented))) => {
                    let (enough, closing) = watch::channel(*phase.borrow() >= Phase::Closing);
                    if let Ok((stream, end)) = guard.over(stream, presented, enough.clone()) {
                        tokio::select! {
                            () = serve(&app, stream, &closing) => (),
                            () = pass_on(phase, enough) => (),
                        }
                        end.run().await;
                    }
                }
                Ok(Err(reason)) => guard.metrics.connection_refused(name, reason),
                Err(_) => guard.metrics.connection_refused(name, "handshake_slow"),
            }
            drop(place);
        });
    }
}

async fn handshake(
    socket: tokio::net::TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
) -> Result<(Stream, Option<Presented>), &'static str> {
    const FAILED: &str = "handshake";
    if let Err(error) = SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES) {
        tracing::debug!(%error, "the send buffer of a connection cannot be bounded");
    }
    let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
    // A new cell: it cannot be full.
    drop(digest.peer_addr.set(Some(peer.into())));
    let mut stream = l4::stream::Stream::from(socket);
    stream.set_nodelay().map_err(|_| FAILED)?;
    stream.set_socket_digest(digest);
    let Some(tls) = tls else { return Ok((Box::new(stream), None)) };
    match &tls.clients {
        None => Ok((Box::new(tls.acceptor.tls_handshake(stream).await.map_err(|_| FAILED)?), None)),
        Some(clients) => {
            let (stream, presented) = clients.handshake(&tls.acceptor, stream).await?;
            Ok((Box::new(stream), Some(presented)))
        }
    }
}

fn nonblocking(socket: TcpStream) -> io::Result<tokio::net::TcpStream> {
    socket.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(socket)
}

/// Passes on that the process ends, and returns when nothing is left to be answered. A connection that was opened when that
/// was known already goes on until listeners close: its caller would only come back.
async fn pass_on(phase: watch::Receiver<Phase>, enough: watch::Sender<bool>) {
    let ends = if *phase.borrow() == Phase::Serving { Phase::Leaving } else { Phase::Closing };
    reached(phase.clone(), ends).await;
    enough.send_replace(true);
    reached(phase, Phase::Over).await;
}

/// Whoever could say so may be gone: then it goes on to the end of the process.
async fn reached(mut phase: watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        std::future::pending().await
    }
}

async fn serve<A: ServerApp + Send + Sync + 'static>(app: &Arc<A>, stream: Stream, stop: &ShutdownWatch) {
    let mut next = app.process_new(stream, stop).await;
    while let Some(stream) = next {
        next = app.process_new(stream, stop).await;
    }
}

/// The connections that are open, by peer.
#[derive(Debug, Default)]
struct Open(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// One connection's place among the open ones; it is free again when this is dropped.
struct Place {
    open: Arc<Open>,
    peer: IpAddr,
}

/// One open connection, as the metrics see it, until this is dropped.
struct Counted {
    metrics: Metrics,
    listener: &'static str,
}

impl Counted {
    fn new(metrics: &Metrics, listener: &'static str) -> Counted {
        metrics.connected(listener);
        Counted { metrics: metrics.clone(), listener }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.disconnected(self.listener);
    }
}

/// Which limit a connection met.
enum Full {
    All,
    OfOnePeer,
}

impl Full {
    fn as_str(&self) -> &'static str {
        match self {
            Full::All => "too_many",
            Full::OfOnePeer => "too_many_of_peer",
        }
    }
}

impl Open {
    fn enter(open: &Arc<Open>, peer: IpAddr, limits: ConnectionLimits) -> Result<Place, Full> {
        let mut counts = open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= limits.all {
            return Err(Full::All);
        }
        let peer = network(peer);
        let count = counts.by_peer.entry(peer).or_default();
        if *count >= limits.of_one_peer {
            return Err(Full::OfOnePeer);
        }
        *count = count.saturating_add(1);
        counts.all = counts.all.saturating_add(1);
        Ok(Place { open: open.clone(), peer })
    }
}

/// Whoever has one IPv6 address has the whole network of 64 bits around it.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        other => other,
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        if let Some(count) = counts.by_peer.get_mut(&self.peer) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_all_and_by_peer_and_come_free_again() {
        let open = Arc::new(Open::default());
        let limits = ConnectionLimits { all: 3, of_one_peer: 2, handshake_time: Duration::ZERO };
        let enter = |last: u8| Open::enter(&open, IpAddr::from([127, 0, 0, last]), limits);
        let (first, _second) = (enter(1).ok(), enter(1).ok());
        assert!(matches!(enter(1), Err(Full::OfOnePeer)));
        let _third = enter(2).ok();
        assert!(matches!(enter(3), Err(Full::All)));
        drop(first);
        assert!(enter(3).is_ok());
        assert_eq!(open.0.lock().unwrap().by_peer.len(), 2);
    }
}
