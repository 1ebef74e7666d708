//! The supervisor of this process, if it wants to be notified: systemd's protocol, one datagram for each change.
//!
//! Nothing waits for the supervisor, and no failure to notify it has an effect.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The socket of the supervisor.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    ear: Option<Arc<Ear>>,
    /// The interval within which the supervisor wants a sign of life.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Ear {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Supervisor {
    /// Returns the supervisor whose socket has this name; `@` before it stands for an abstract socket.
    pub fn called(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Supervisor> {
        let address = match name.as_encoded_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Supervisor { ear: Some(Arc::new(Ear { socket, address })), watchdog })
    }

    pub fn ready(&self) {
        self.notify("READY=1\nSTATUS=serving");
    }

    /// Notifies that the process reloads; it must notify again when it is ready.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    pub fn waiting(&self, what: &str) {
        self.notify(&format!("STATUS=waiting for {what}"));
    }

    pub fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=stopping: waiting for open requests");
    }

    /// Sends signs of life, as long as this is run and the supervisor wants them.
    pub async fn live(self) {
        let Some(within) = self.watchdog else { return };
        loop {
            self.notify("WATCHDOG=1");
            tokio::time::sleep(within / 3).await;
        }
    }

    fn notify(&self, state: &str) {
        let Some(ear) = &self.ear else { return };
        if let Err(error) = ear.socket.send_to_addr(state.as_bytes(), &ear.address) {
            tracing::debug!(%error, "the supervisor cannot be notified");
        }
    }
}
