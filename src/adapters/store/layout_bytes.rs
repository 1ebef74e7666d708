//! Writes and reads the parts of keys and values: bytes, numbers, times and text.

use bytes::Bytes;

use crate::ledger::{StoreFault, StoreTime};

/// How many bytes most keys have at most.
const USUAL_KEY: usize = 112;
/// How many bytes most values have at most, except for records.
const USUAL_VALUE: usize = 24;

#[derive(Debug)]
pub(super) struct LayoutWriter(pub(super) Vec<u8>);

impl Default for LayoutWriter {
    fn default() -> LayoutWriter {
        LayoutWriter(Vec::with_capacity(USUAL_VALUE))
    }
}

impl LayoutWriter {
    /// Begins a key with the letter of its table.
    pub(super) fn key(letter: u8) -> LayoutWriter {
        LayoutWriter(Vec::with_capacity(USUAL_KEY)).byte(letter)
    }

    pub(super) fn byte(mut self, byte: u8) -> LayoutWriter {
        self.0.push(byte);
        self
    }

    pub(super) fn number(self, number: u64) -> LayoutWriter {
        self.rest(&number.to_be_bytes())
    }

    /// Encodes a time with its sign bit inverted, so that times before 1970 sort first.
    pub(super) fn time(self, time: StoreTime) -> LayoutWriter {
        self.rest(&(time.as_micros() ^ i64::MIN).to_be_bytes())
    }

    pub(super) fn text(self, text: &str) -> LayoutWriter {
        self.number(text.len() as u64).rest(text.as_bytes())
    }

    pub(super) fn rest(mut self, bytes: &[u8]) -> LayoutWriter {
        self.0.extend_from_slice(bytes);
        self
    }
}

pub(super) struct LayoutReader<'b>(pub(super) &'b [u8]);

impl<'b> LayoutReader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], StoreFault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| broken("the length of what is stored"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn eight(&mut self) -> Result<[u8; 8], StoreFault> {
        self.take(8)?.try_into().map_err(|_| broken("a number"))
    }

    pub(super) fn byte(&mut self) -> Result<u8, StoreFault> {
        self.take(1)?.first().copied().ok_or_else(|| broken("the length of what is stored"))
    }

    pub(super) fn number(&mut self) -> Result<u64, StoreFault> {
        self.eight().map(u64::from_be_bytes)
    }

    pub(super) fn time(&mut self) -> Result<StoreTime, StoreFault> {
        self.eight().map(|bytes| StoreTime::of_micros(i64::from_be_bytes(bytes) ^ i64::MIN))
    }

    pub(super) fn text(&mut self) -> Result<String, StoreFault> {
        let length = usize::try_from(self.number()?).map_err(|_| broken("a length"))?;
        text(self.take(length)?)
    }

    pub(super) fn rest_text(&mut self) -> Result<String, StoreFault> {
        text(std::mem::take(&mut self.0))
    }

    pub(super) fn rest(&mut self) -> Bytes {
        Bytes::copy_from_slice(std::mem::take(&mut self.0))
    }
}

fn text(bytes: &[u8]) -> Result<String, StoreFault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| broken("a name"))
}

pub(super) fn broken(what: &str) -> StoreFault {
    StoreFault::Broken(format!("{what} is not as this version of Sluice writes it"))
}
