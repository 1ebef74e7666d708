//! A call, in a line or two.

use std::net::SocketAddr;

use super::caller::{Answer, Caller};
use super::clock::wait_until;
use super::token::token;

#[derive(Clone, Debug)]
pub struct Call {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

pub fn get(target: impl Into<String>) -> Call {
    Call::new("GET", target)
}

pub fn post(target: impl Into<String>) -> Call {
    Call::new("POST", target)
}

impl Call {
    /// The requestId in its body.
    pub fn request_id(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(self.body.as_deref().unwrap()).unwrap();
        body["requestId"].as_str().unwrap().to_owned()
    }

    /// With `Host` and a token, and nothing else.
    pub fn new(method: &str, target: impl Into<String>) -> Call {
        Call { method: method.to_owned(), target: target.into(), headers: Vec::new(), body: None }
            .header("Host", "gate.example")
            .header("Authorization", format!("Bearer {}", token()))
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Call {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Call {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// A JSON body with its length.
    pub fn json(self, body: impl AsRef<[u8]>) -> Call {
        self.header("Content-Type", "application/json").body(body)
    }

    /// A body with its length and no type.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Call {
        let body = body.as_ref().to_vec();
        self = self.header("Content-Length", body.len().to_string());
        self.body = Some(body);
        self
    }

    /// A JSON body in chunks of this size.
    pub fn chunked(self, body: impl AsRef<[u8]>, size: usize) -> Call {
        self.header("Content-Type", "application/json").chunk(body, size)
    }

    /// A body in chunks, and no type.
    pub fn chunk(mut self, body: impl AsRef<[u8]>, size: usize) -> Call {
        self = self.header("Transfer-Encoding", "chunked");
        let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        let mut whole: Vec<u8> = body.as_ref().chunks(size).flat_map(chunk).collect();
        whole.extend_from_slice(b"0\r\n\r\n");
        self.body = Some(whole);
        self
    }

    /// Method and target.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    pub fn head_bytes(&self) -> Vec<u8> {
        let lines: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} {} HTTP/1.1\r\n{lines}\r\n", self.method, self.target).into_bytes()
    }

    pub fn body_bytes(&self) -> Vec<u8> {
        self.body.clone().unwrap_or_default()
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.head_bytes(), self.body_bytes()].concat()
    }

    /// Over a connection of its own.
    pub fn send(&self, address: SocketAddr) -> Answer {
        self.over(&mut Caller::connect(address))
    }

    /// Sends it until the gate has its store: one that has just started may not have met it, and one of which the store lost
    /// something reads on first.
    pub fn send_when_met(&self, address: SocketAddr) -> Answer {
        let mut answer = self.send(address);
        wait_until("the store to be there", || {
            let is_there = answer.code() != "STORE_UNAVAILABLE";
            if !is_there {
                answer = self.send(address);
            }
            is_there
        });
        answer
    }

    /// Over a connection that is there.
    pub fn over(&self, caller: &mut Caller) -> Answer {
        caller.send(self.bytes()).answer()
    }
}
