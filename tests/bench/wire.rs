//! HTTP/1.1 as far as the load and its upstream need it: messages with a `Content-Length`, or without a body.

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept alive.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    read: BytesMut,
}

/// One message, whole.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> anyhow::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream, read: BytesMut::new() })
    }

    pub(crate) async fn write(&mut self, message: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(message).await?)
    }

    /// The next message; `None` where the connection ends before one begins.
    pub(crate) async fn read(&mut self) -> anyhow::Result<Option<Message>> {
        let length = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at.saturating_add(4);
            }
            if !self.more().await? {
                return if self.read.is_empty() { Ok(None) } else { bail!("the connection ended inside a head") };
            }
        };
        let head = self.read.split_to(length).freeze();
        let length = content_length(&head)?;
        while self.read.len() < length {
            if !self.more().await? {
                bail!("the connection ended inside a body");
            }
        }
        Ok(Some(Message { head, body: self.read.split_to(length).freeze() }))
    }

    async fn more(&mut self) -> anyhow::Result<bool> {
        self.read.reserve(8 * 1024);
        Ok(self.stream.read_buf(&mut self.read).await? > 0)
    }
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    let mut fields = head.split(|b| *b == b'\n').filter_map(|line| line.split_first_chunk::<15>());
    let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-length:"));
    found.map_or(Ok(0), |(_, value)| std::str::from_utf8(value)?.trim().parse().context("no Content-Length"))
}
