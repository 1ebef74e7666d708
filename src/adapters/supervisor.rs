//! Whoever supervises this process, and asked to be told how it is: systemd's protocol, a datagram for each change.
//!
//! Nothing is waited for, and nothing fails by it: who does not listen is not told.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    ear: Option<Arc<Ear>>,
    /// It wants a sign of life within this time.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Ear {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Supervisor {
    /// The one whose socket has this name, with `@` before it where it is in no folder.
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
        self.tell("READY=1\nSTATUS=serving");
    }

    /// All that can be reloaded is being read again; then it is ready again.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    pub fn waiting(&self, what: &str) {
        self.tell(&format!("STATUS=waiting for {what}"));
    }

    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=ending: what runs is waited for");
    }

    /// Gives signs of life, as long as this is run and anybody wants them.
    pub async fn live(self) {
        let Some(within) = self.watchdog else { return };
        loop {
            self.tell("WATCHDOG=1");
            tokio::time::sleep(within / 3).await;
        }
    }

    fn tell(&self, state: &str) {
        let Some(ear) = &self.ear else { return };
        if let Err(error) = ear.socket.send_to_addr(state.as_bytes(), &ear.address) {
            tracing::debug!(%error, "the supervisor cannot be told");
        }
    }
}
