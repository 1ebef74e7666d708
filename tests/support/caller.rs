//! A caller: bytes in, bytes out.

use std::io::{self, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::canary;
use super::clock::{PATIENCE, Watch};
use super::wire::{Head, Wire};

/// An answer, as it came.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Head,
    pub body: Vec<u8>,
    /// From the last byte sent to the last byte received.
    pub took: Duration,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.header(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {self}"))
    }

    /// `Sluice-Origin`, or `-`.
    pub fn origin(&self) -> String {
        self.header("sluice-origin").unwrap_or_else(|| "-".to_owned())
    }

    /// `Sluice-Outcome`, or `-`.
    pub fn outcome(&self) -> String {
        self.header("sluice-outcome").unwrap_or_else(|| "-".to_owned())
    }

    /// The word that stands for the error in shapes A, B and C, or `-`.
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let places = [body.pointer("/error/code"), body.pointer("/error")];
        places.into_iter().flatten().find_map(Value::as_str).unwrap_or("-").to_owned()
    }

    /// `pointer keyword` of each violation.
    pub fn violations(&self) -> Vec<String> {
        let body = self.json();
        let list = body.pointer("/error/details/violations").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |v: &Value, name: &str| v[name].as_str().unwrap_or_default().to_owned();
        list.iter().map(|v| format!("{} {}", text(v, "pointer"), text(v, "keyword"))).collect()
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", String::from_utf8_lossy(&self.head.raw), self.text())
    }
}

/// One connection to a gate.
pub struct Caller {
    wire: Wire<TcpStream>,
}

impl Caller {
    pub fn connect(address: SocketAddr) -> Caller {
        Caller::try_connect(address).unwrap()
    }

    /// From this address of the machine.
    pub fn connect_from(own: IpAddr, address: SocketAddr) -> Caller {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(own, 0).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Caller::over(socket.into())
    }

    pub fn try_connect(address: SocketAddr) -> io::Result<Caller> {
        Ok(Caller::over(TcpStream::connect(address)?))
    }

    fn over(stream: TcpStream) -> Caller {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Caller { wire: Wire::new(stream) }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Caller {
        self.try_send(bytes).unwrap();
        self
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        canary::plant_tokens(bytes.as_ref());
        self.wire.stream().write_all(bytes.as_ref())
    }

    /// The next answer, informational ones left out.
    pub fn answer(&mut self) -> Answer {
        self.try_answer().unwrap_or_else(|(head, error)| panic!("{error} after {head:?}"))
    }

    /// Only the head of the next answer, informational or not.
    pub fn head(&mut self) -> Head {
        self.wire.head().unwrap().expect("a head")
    }

    /// An error comes with the head that was read before it, if any.
    pub fn try_answer(&mut self) -> Result<Answer, (Option<Head>, io::Error)> {
        let watch = Watch::start();
        let (status, head) = loop {
            let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended without an answer");
            let head = self.wire.head().and_then(|head| head.ok_or_else(ended)).map_err(|e| (None, e))?;
            let status = head.first.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok()).unwrap_or_default();
            if !(100..200).contains(&status) || status == 101 {
                break (status, head);
            }
        };
        let bodiless = status == 204 || status == 304 || status == 101;
        let body = if bodiless { Ok(Vec::new()) } else { self.wire.body(&head, true) };
        let body = body.map_err(|e| (Some(head.clone()), e))?;
        let answer = Answer { status, head, body, took: watch.elapsed() };
        if answer.origin() == "gateway" {
            canary::assert_silent("an answer of the gate", &answer.to_string());
        }
        Ok(answer)
    }

    /// What still comes before the gate closes; an error if it resets instead.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        self.wire.read_to_end()
    }

    pub fn end_sending(&mut self) {
        self.wire.stream().shutdown(Shutdown::Write).unwrap();
    }

    /// Hangs up hard: what is still on its way here meets a reset.
    pub fn reset(mut self) {
        socket2::SockRef::from(&*self.wire.stream()).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
