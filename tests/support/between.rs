//! Something between a client and its server that loses what the server says, or keeps it back for a while.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Debug)]
pub struct Between {
    address: SocketAddr,
    egress: Arc<Egress>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

#[derive(Debug)]
struct Egress {
    to: AtomicU16,
    /// What the server says does not arrive.
    swallows: AtomicBool,
    swallowed: AtomicUsize,
    /// What the server says arrives later, in its order.
    holds: Mutex<bool>,
    released: Condvar,
    held: AtomicUsize,
}

impl Between {
    pub fn to(port: u16) -> Between {
        Between::hiding(port, &[])
    }

    /// What the server tells of itself in these fields of its `INFO` is told under another name.
    pub fn hiding(port: u16, fields: &[&str]) -> Between {
        let hidden: Vec<Vec<u8>> = fields.iter().map(|field| format!("\r\n{field}:").into_bytes()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let to = AtomicU16::new(port);
        let egress = Arc::new(Egress {
            to,
            swallows: AtomicBool::new(false),
            swallowed: AtomicUsize::new(0),
            holds: Mutex::new(false),
            released: Condvar::new(),
            held: AtomicUsize::new(0),
        });
        let of_listener = Arc::clone(&egress);
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let open_here = Arc::clone(&open);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", of_listener.to.load(Ordering::SeqCst))) else {
                    continue;
                };
                let there = (client.try_clone().unwrap(), server.try_clone().unwrap());
                open_here.lock().unwrap().push(client.try_clone().unwrap());
                std::thread::spawn(move || carry(there.0, there.1, |_| true));
                let egress = Arc::clone(&of_listener);
                if hidden.is_empty() {
                    std::thread::spawn(move || carry(server, client, |bytes| egress.passes(bytes)));
                } else {
                    let hidden = hidden.clone();
                    std::thread::spawn(move || carry_hiding(server, client, &hidden));
                }
            }
        });
        Between { address, egress, open }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on it leads there; what is open is cut.
    pub fn lead(&self, port: u16) {
        self.egress.to.store(port, Ordering::SeqCst);
        self.open.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    pub fn swallow(&self, swallows: bool) {
        self.egress.swallows.store(swallows, Ordering::SeqCst);
    }

    /// From now on what the server says waits here, until this is taken back.
    pub fn hold(&self, holds: bool) {
        *self.egress.holds.lock().unwrap() = holds;
        self.egress.released.notify_all();
    }

    /// So many answers waited here.
    pub fn held(&self) -> usize {
        self.egress.held.load(Ordering::SeqCst)
    }

    /// So many bytes did not arrive.
    pub fn swallowed(&self) -> usize {
        self.egress.swallowed.load(Ordering::SeqCst)
    }
}

impl Egress {
    fn passes(&self, bytes: usize) -> bool {
        let mut holds = self.holds.lock().unwrap();
        if *holds {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
        while *holds {
            holds = self.released.wait(holds).unwrap();
        }
        drop(holds);
        let swallows = self.swallows.load(Ordering::SeqCst);
        if swallows {
            self.swallowed.fetch_add(bytes, Ordering::SeqCst);
        }
        !swallows
    }
}

/// Every answer of a Redis ends with a line.
fn carry_hiding(mut from: TcpStream, mut to: TcpStream, hidden: &[Vec<u8>]) {
    let (mut bytes, mut said) = ([0; 16_384], Vec::new());
    while let Ok(count) = from.read(&mut bytes) {
        said.extend_from_slice(&bytes[..count]);
        if count == 0 {
            break;
        } else if !said.ends_with(b"\r\n") {
            continue;
        }
        for field in hidden {
            while let Some(at) = said.windows(field.len()).position(|part| part == *field) {
                said[at + 2] = b'-';
            }
        }
        if to.write_all(&said).is_err() {
            break;
        }
        said.clear();
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}

fn carry(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(usize) -> bool) {
    let mut bytes = [0; 16_384];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 || (passes(count) && to.write_all(&bytes[..count]).is_err()) {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
