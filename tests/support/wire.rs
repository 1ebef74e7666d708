//! HTTP/1.1 as bytes: reading a message as it stands, without forgiving anything.

use std::io::{self, Read};

/// Reads from a stream, keeping what was read too far.
pub struct Wire<R> {
    inner: R,
    ahead: Vec<u8>,
}

/// A message's head: its first line and its header lines, as they came.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub raw: Vec<u8>,
    pub first: String,
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The one value of a header; several are joined by `, `.
    pub fn header(&self, name: &str) -> Option<String> {
        let found: Vec<&str> =
            self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect();
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// Names in lower case, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.headers.iter().map(|(n, _)| n.to_ascii_lowercase()).collect();
        names.sort();
        names
    }
}

impl<R: Read> Wire<R> {
    pub fn new(inner: R) -> Wire<R> {
        Wire { inner, ahead: Vec::new() }
    }

    pub fn stream(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Whether more was read than was taken.
    pub fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// `None` if the stream ended before the first byte of a head.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if self.more()? == 0 {
                return if self.ahead.is_empty() { Ok(None) } else { Err(cut("inside a head")) };
            }
        };
        let raw: Vec<u8> = self.ahead.drain(..end).collect();
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter(|line| !line.is_empty())
            .map(|line| line.split_once(':').unwrap_or((line, "")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Ok(Some(Head { raw, first, headers }))
    }

    /// The body behind a head. `to_end`: without a length it goes on to the end of the stream.
    pub fn body(&mut self, head: &Head, to_end: bool) -> io::Result<Vec<u8>> {
        if head.header("transfer-encoding").is_some_and(|te| te.to_ascii_lowercase().ends_with("chunked")) {
            return self.chunked();
        }
        match head.header("content-length") {
            Some(length) => self.exactly(length.parse().map_err(|_| cut("a length that is no number"))?),
            None if to_end => self.read_to_end(),
            None => Ok(Vec::new()),
        }
    }

    /// Everything up to the end of the stream.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        while self.more()? > 0 {}
        Ok(std::mem::take(&mut self.ahead))
    }

    fn chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| cut("a chunk size that is no number"))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(whole);
            }
            whole.extend(self.exactly(size)?);
            if !self.line()?.is_empty() {
                return Err(cut("a chunk that is too long"));
            }
        }
    }

    /// So many bytes of what comes next.
    pub fn exactly(&mut self, size: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < size {
            if self.more()? == 0 {
                return Err(cut("inside a body"));
            }
        }
        Ok(self.ahead.drain(..size).collect())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.ahead.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.ahead.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.more()? == 0 {
                return Err(cut("inside a line"));
            }
        }
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut piece = [0_u8; 16 * 1024];
        let read = loop {
            match self.inner.read(&mut piece) {
                // A signal to this process, for a child that has ended, is nothing that the other side did.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.ahead.extend_from_slice(&piece[..read]);
        Ok(read)
    }
}

fn cut(where_: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the stream ended {where_}"))
}
