//! A network between the nodes of a cluster, and between them and the gates, that can be split.
//!
//! Each node announces proxies in place of its own ports, and opens its connections from an address of its own, so that
//! a proxy knows who comes. Across a split, everything that is sent is lost, and nobody is told.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Gates connect from here.
pub const GATES: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// From whom nothing arrives at which node.
type CutPaths = Arc<Mutex<BTreeSet<(IpAddr, usize)>>>;

#[derive(Debug, Default)]
pub struct Network {
    cut: CutPaths,
}

/// The address that a node connects from.
pub fn source_of(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 11 + u8::try_from(node).unwrap())
}

impl Network {
    /// Leads to a port of a node; returns the port to announce in its place.
    pub fn lead(&self, node: usize, to: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = self.cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (Ok(server), Ok(peer)) = (TcpStream::connect(("127.0.0.1", to)), client.peer_addr()) else {
                    continue;
                };
                let path = Arc::new(Path { cut: cut.clone(), of: (peer.ip(), node), has_lost: AtomicBool::new(false) });
                let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let path_back = path.clone();
                std::thread::spawn(move || path.carry(client, server));
                std::thread::spawn(move || path_back.carry(server_too, client_too));
            }
        });
        port
    }

    /// Nothing arrives at these nodes from there any more, nor back.
    pub fn cut(&self, from: Ipv4Addr, nodes: &[usize]) {
        self.cut.lock().unwrap().extend(nodes.iter().map(|node| (IpAddr::V4(from), *node)));
    }

    /// This node is cut off from these, on all ways.
    pub fn cut_off(&self, node: usize, others: &[usize]) {
        self.cut(source_of(node), others);
        others.iter().for_each(|other| self.cut(source_of(*other), &[node]));
    }

    /// Everything from there arrives again.
    pub fn join(&self, from: Ipv4Addr) {
        self.cut.lock().unwrap().retain(|(source, _)| *source != IpAddr::V4(from));
    }

    pub fn heal(&self) {
        self.cut.lock().unwrap().clear();
    }
}

struct Path {
    cut: CutPaths,
    of: (IpAddr, usize),
    /// Whether bytes were lost: then the connection cannot go on.
    has_lost: AtomicBool,
}

impl Path {
    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16_384];
        while let Ok(count) = from.read(&mut bytes) {
            let is_cut = self.cut.lock().unwrap().contains(&self.of);
            if count > 0 && is_cut {
                self.has_lost.store(true, Ordering::SeqCst);
                continue;
            }
            let has_lost = self.has_lost.load(Ordering::SeqCst);
            if count == 0 || has_lost || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    }
}
