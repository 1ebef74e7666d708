//! Listening sockets that were open before this process: handed over by whoever started it (`LISTEN_FDS`).
//!
//! Such a socket outlives the process. While none serves it, connections wait in it; while two do, each takes some.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

/// See the module.
#[derive(Debug, Default)]
pub struct HandedOver(Vec<(SocketAddr, TcpListener)>);

impl HandedOver {
    /// What came with the environment. To be asked once, before there is a second thread.
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

    /// The socket of this address, if it was handed over.
    pub fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.0.iter().position(|(one, _)| *one == address)?;
        Some(self.0.swap_remove(at).1)
    }

    /// One that nobody took.
    pub fn left(&self) -> Option<SocketAddr> {
        self.0.first().map(|(address, _)| *address)
    }
}
