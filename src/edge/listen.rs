//! Listeners. Every address is bound before anything serves, so that a taken one ends the process at once. Connections
//! are counted, timed and guarded before the engine sees them, and those that were accepted before an end are served.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use socket2::{Domain, Socket, Type};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Phase;
use super::guard::{Guard, GuardedStream};
use super::handshake;
use super::tls::Speaking;
use crate::adapters::inherited_sockets::HandedOver;
use crate::adapters::rate::{RoomShare, SharedRoom};

/// The pause after a failed accept, when descriptors may have run out.
const REST: Duration = Duration::from_millis(100);

/// The backlog of the kernel, for callers who wait while a start waits for its store.
const WAITING: i32 = 4_096;

/// A bound address.
#[derive(Debug)]
pub struct BoundAddress {
    listener: TcpListener,
    address: SocketAddr,
    /// The socket was inherited: its owner keeps it open, and another process serves callers that wait in it.
    is_lent: bool,
}

impl BoundAddress {
    /// Takes the inherited socket of this address, or binds one.
    pub fn bind(address: SocketAddr, handed: &mut HandedOver) -> io::Result<BoundAddress> {
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
        Ok(BoundAddress { listener, address, is_lent })
    }

    /// The bound address, also where any free port was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The limits of a listener's connections. A peer may have as many as stay free for the others.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub all: usize,
    pub of_one_peer: usize,
    /// For the TLS handshake.
    pub handshake_time: Duration,
}

/// A service on a bound address, which stops accepting on a signal.
///
/// It runs on the process's own runtime: moving work between runtimes costs a thread switch each way.
pub struct Listening<A> {
    name: &'static str,
    start: Mutex<Option<(BoundAddress, Acceptor<A>)>>,
    runtime: Handle,
}

/// The parts that serve accepted connections.
pub struct Acceptor<A> {
    pub app: Arc<A>,
    pub tls: Option<Speaking>,
    pub guard: Arc<Guard>,
    pub limits: ConnectionLimits,
    pub phase: watch::Receiver<Phase>,
    /// The open connections; an end waits for them a while.
    pub connections: TaskTracker,
}

impl<A: ServerApp + Send + Sync + 'static> Listening<A> {
    pub fn new(bound: BoundAddress, door: Acceptor<A>, runtime: Handle) -> Listening<A> {
        Listening { name: door.guard.listener, start: Mutex::new(Some((bound, door))), runtime }
    }
}

impl<A> fmt::Debug for Listening<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for Acceptor<A> {
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
            tracing::error!(listener = self.name, %error, "a listener ended early");
        }
    }

    fn name(&self) -> &str {
        self.name
    }

    /// The engine's own threads have nothing to do here.
    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

impl<A: ServerApp + Send + Sync + 'static> Acceptor<A> {
    async fn open(&self, bound: BoundAddress) {
        let (address, is_lent) = (bound.address, bound.is_lent);
        match tokio::net::TcpListener::from_std(bound.listener) {
            Ok(listener) => {
                let open = SharedRoom::capped(self.limits.all, self.limits.of_one_peer);
                self.accept(&listener, &open).await;
                if !is_lent && let Err(error) = self.accept_the_last(listener, &open) {
                    tracing::warn!(%address, %error, "a new connection was not served");
                }
            }
            Err(error) => tracing::error!(%address, %error, "the bound address cannot accept connections"),
        }
    }

    /// Accepts until listeners are to close.
    async fn accept(&self, listener: &tokio::net::TcpListener, open: &Arc<SharedRoom<IpAddr>>) {
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

    /// Accepts the connections that the kernel has accepted already: closing the socket would cut them off.
    fn accept_the_last(&self, listener: tokio::net::TcpListener, open: &Arc<SharedRoom<IpAddr>>) -> io::Result<()> {
        let listener = listener.into_std()?;
        loop {
            match listener.accept() {
                Ok((socket, peer)) => self.take(nonblocking(socket)?, peer, open),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&self, socket: tokio::net::TcpStream, peer: SocketAddr, open: &Arc<SharedRoom<IpAddr>>) {
        let mut place = open.share_of(network(peer.ip()));
        match place.grow(1) {
            true => self.begin(socket, peer, place),
            false => self.guard.metrics.connection_refused(self.guard.listener, "too_many_of_peer"),
        }
    }

    fn begin(&self, socket: tokio::net::TcpStream, peer: SocketAddr, place: RoomShare<IpAddr>) {
        let (app, guard, phase) = (self.app.clone(), self.guard.clone(), self.phase.clone());
        let tls = self.tls.as_ref().map(Speaking::now);
        let (name, time) = (guard.listener, self.limits.handshake_time);
        self.connections.spawn(async move {
            let _counted = Counted::new(&guard);
            // Boxed, each part has its memory only as long as it runs: an idle connection has none of it.
            let buffer = guard.buffered.connection(network(peer.ip()));
            match timeout(time, Box::pin(handshake::begin(socket, peer, tls, &buffer))).await {
                Ok(Ok(begun)) => {
                    let (enough, closing) = watch::channel(*phase.borrow() >= Phase::Closing);
                    if let Ok((stream, end)) = guard.over(begun, buffer, enough.clone()) {
                        tokio::select! {
                            () = serve(&app, stream, &closing) => (),
                            () = pass_on(phase, enough) => (),
                        }
                        Box::pin(end.run()).await;
                    }
                }
                Ok(Err(reason)) => guard.metrics.connection_refused(name, reason),
                Err(_) => guard.metrics.connection_refused(name, "handshake_slow"),
            }
            drop(place);
        });
    }
}

fn nonblocking(socket: TcpStream) -> io::Result<tokio::net::TcpStream> {
    socket.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(socket)
}

/// Passes the end of the process on, and returns when nothing is left to answer. A connection that opened after the end
/// was announced goes on until listeners close, because its caller would only reconnect.
async fn pass_on(phase: watch::Receiver<Phase>, enough: watch::Sender<bool>) {
    let ends = if *phase.borrow() == Phase::Serving { Phase::Leaving } else { Phase::Closing };
    reached(phase.clone(), ends).await;
    enough.send_replace(true);
    reached(phase, Phase::Over).await;
}

/// Waits for a phase. If the sender is dropped, it waits to the end of the process.
async fn reached(mut phase: watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        std::future::pending().await
    }
}

async fn serve<A: ServerApp + Send + Sync + 'static>(app: &Arc<A>, mut stream: GuardedStream, stop: &ShutdownWatch) {
    if !stream.begins().await {
        return;
    }
    let mut next = app.process_new(stream.into_stream(), stop).await;
    while let Some(stream) = next {
        next = app.process_new(stream, stop).await;
    }
}

/// One open connection in the metrics, until this is dropped.
struct Counted {
    guard: Arc<Guard>,
}

impl Counted {
    fn new(guard: &Arc<Guard>) -> Counted {
        guard.metrics.connected(guard.listener);
        Counted { guard: guard.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.guard.metrics.disconnected(self.guard.listener);
    }
}

/// Returns the network of a peer: an IPv6 host usually has a whole /64.
pub fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        other => other,
    }
}
