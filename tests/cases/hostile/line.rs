//! A raw line to a gate, plain or through TLS, and certificates for it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::connections::connect_from;
use crate::support::Setup;
use crate::support::clock::PATIENCE;
use crate::support::tls::{Authority, Certified};
use crate::support::wire::Wire;

pub static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);
static CERTIFIED: LazyLock<Certified> = LazyLock::new(|| AUTHORITY.certify(&["gate.example"]));

/// A setup whose listener speaks TLS.
pub fn with_tls(setup: Setup) -> Setup {
    setup
        .file("certificate.pem", &CERTIFIED.certificate)
        .file("key.pem", &CERTIFIED.key)
        .set("production", "tls_certificate", "certificate.pem")
        .set_raw("production", "tls_key", r#"{ file = "key.pem" }"#)
}

trait Both: Read + Write + Send {}
impl<S: Read + Write + Send> Both for S {}

/// One connection.
pub struct Line {
    wire: Wire<Box<dyn Both>>,
    /// The answer to HEAD states a length and has none.
    asked_for_head: bool,
}

impl Line {
    pub fn plain(address: SocketAddr) -> Line {
        Line::over(Box::new(open(address)))
    }

    pub fn tls(address: SocketAddr) -> Line {
        Line::tls_with(address, b"http/1.1")
    }

    /// Speaking this protocol, by ALPN.
    pub fn tls_with(address: SocketAddr, alpn: &[u8]) -> Line {
        Line::tls_over(open(address), alpn)
    }

    /// The same, from this address.
    pub fn tls_from(from: [u8; 4], address: SocketAddr, alpn: &[u8]) -> Line {
        Line::tls_over(patient(connect_from(from, address)), alpn)
    }

    fn tls_over(socket: TcpStream, alpn: &[u8]) -> Line {
        let name = ServerName::try_from("gate.example").unwrap();
        let connection = ClientConnection::new(Arc::new(AUTHORITY.client(&[alpn])), name).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        // Whoever is refused meanwhile hears of it when it reads.
        drop(stream.flush());
        Line::over(Box::new(stream))
    }

    fn over(stream: Box<dyn Both>) -> Line {
        Line { wire: Wire::new(stream), asked_for_head: false }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Line {
        self.asked_for_head = bytes.as_ref().starts_with(b"HEAD ");
        // Whoever is refused in the middle may find the door shut.
        drop(self.wire.stream().write_all(bytes.as_ref()).and_then(|()| self.wire.stream().flush()));
        self
    }

    /// The status and the body of the next answer; informational ones are left out. `None` at the end.
    pub fn answer(&mut self) -> Option<Told> {
        loop {
            let head = self.wire.head().ok().flatten()?;
            let status: u16 = head.first.split(' ').nth(1)?.parse().ok()?;
            if status >= 200 {
                let keeps = head.header("connection").is_none_or(|c| c.eq_ignore_ascii_case("keep-alive"));
                let body =
                    if status == 204 || self.asked_for_head { Ok(Vec::new()) } else { self.wire.body(&head, true) };
                return Some(Told { status, keeps, whole: body.is_ok(), body: body.unwrap_or_default() });
            }
        }
    }

    /// Whether the gate ends the connection, without a word more.
    pub fn ends(&mut self) -> bool {
        match self.wire.read_to_end() {
            Ok(rest) => rest.is_empty(),
            Err(error) => is_end(&error),
        }
    }

    pub fn wire(&mut self) -> &mut Wire<impl Read + Write> {
        &mut self.wire
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn open(address: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(address).unwrap())
}

fn patient(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// What was answered.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    /// The answer says that the connection goes on.
    pub keeps: bool,
    pub whole: bool,
    pub body: Vec<u8>,
}

impl Told {
    /// `status CODE`, as the table writes it.
    pub fn short(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let places = [body.pointer("/error/code"), body.pointer("/error")];
        let code = places.into_iter().flatten().find_map(serde_json::Value::as_str);
        match code {
            _ if self.status == 200 => "200".to_owned(),
            Some(code) => format!("{} {code}", self.status),
            None => format!("{} -", self.status),
        }
    }
}
