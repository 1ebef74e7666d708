//! Listening sockets that were opened before this process and passed to it by its parent (`LISTEN_FDS`).
//!
//! Such a socket outlives the process. While no process serves it, connections wait in it; while two do, each accepts
//! some.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

/// The inherited sockets that are not in use yet.
#[derive(Debug, Default)]
pub struct HandedOver(Vec<(SocketAddr, TcpListener)>);

impl HandedOver {
    /// Takes the sockets that the environment names. Must be called once, before there is a second thread.
    pub fn of_environment() -> io::Result<HandedOver> {
        let mut given = ListenFd::from_env();
        let mut sockets = Vec::new();
        for at in 0..given.len() {
            if let Some(socket) = given.take_tcp_listener(at)? {
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(HandedOver(sockets))
    }

    /// Takes the socket of this address, if it was inherited.
    pub fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.0.iter().position(|(one, _)| *one == address)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Returns the address of a socket that nothing used.
    pub fn left(&self) -> Option<SocketAddr> {
        self.0.first().map(|(address, _)| *address)
    }
}
