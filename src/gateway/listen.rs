//! Listening: every address is bound before anything serves, so that a taken one ends the process at once.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::sync::Mutex;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::listeners::tls::TlsSettings;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service as PingoraService;
use pingora::services::listening::Service;

/// An address that is ours.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    pub fn bind(address: SocketAddr) -> io::Result<Bound> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    }

    /// The address itself, also where any free port was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A service of the engine on a bound address, which stops listening when it is told to.
pub struct Listening<A> {
    inner: Service<A>,
    name: String,
    bound: Mutex<Option<Bound>>,
    stop: ShutdownWatch,
}

impl<A: ServerApp + Send + Sync + 'static> Listening<A> {
    pub fn new(name: &str, app: A, bound: Bound, tls: Option<TlsSettings>, stop: ShutdownWatch) -> Listening<A> {
        let mut inner = Service::new(name.to_owned(), app);
        let address = bound.address.to_string();
        match tls {
            None => inner.add_tcp(&address),
            Some(settings) => inner.add_tls_with_settings(&address, None, settings),
        }
        Listening { inner, name: name.to_owned(), bound: Mutex::new(Some(bound)), stop }
    }
}

impl<A> std::fmt::Debug for Listening<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> PingoraService for Listening<A> {
    async fn start_service(&mut self, fds: Option<ListenFds>, _shutdown: ShutdownWatch, listeners_per_fd: usize) {
        let bound = self.bound.lock().ok().and_then(|mut bound| bound.take());
        if let (Some(fds), Some(bound)) = (&fds, bound) {
            fds.lock().add(bound.address.to_string(), bound.listener.into_raw_fd());
        }
        self.inner.start_service(fds, self.stop.clone(), listeners_per_fd).await;
    }

    fn name(&self) -> &str {
        &self.name
    }
}
