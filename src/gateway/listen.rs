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
use tokio::runtime::Handle;

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
///
/// It runs on the process's own runtime: handing work from one runtime to another costs a switch of threads each way.
pub struct Listening<A> {
    name: String,
    start: Mutex<Option<(Service<A>, Bound)>>,
    stop: ShutdownWatch,
    runtime: Handle,
}

impl<A: ServerApp + Send + Sync + 'static> Listening<A> {
    pub fn new(
        name: &str,
        app: A,
        bound: Bound,
        tls: Option<TlsSettings>,
        stop: ShutdownWatch,
        runtime: Handle,
    ) -> Listening<A> {
        let mut inner = Service::new(name.to_owned(), app);
        let address = bound.address.to_string();
        match tls {
            None => inner.add_tcp(&address),
            Some(settings) => inner.add_tls_with_settings(&address, None, settings),
        }
        Listening { name: name.to_owned(), start: Mutex::new(Some((inner, bound))), stop, runtime }
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
        let start = self.start.lock().ok().and_then(|mut start| start.take());
        let Some((mut inner, bound)) = start else { return };
        if let Some(fds) = &fds {
            fds.lock().add(bound.address.to_string(), bound.listener.into_raw_fd());
        }
        let stop = self.stop.clone();
        let serving = self.runtime.spawn(async move { inner.start_service(fds, stop, listeners_per_fd).await });
        if let Err(error) = serving.await {
            tracing::error!(name = self.name, %error, "a listener ended before its time");
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}
