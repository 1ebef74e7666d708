//! The memory that callers of a listener take without a place among the calls in progress: handshakes, heads that arrive in
//! parts, requests whose callers are not known yet, answers that are not taken, and HTTP/2 connections.
//!
//! All of it has one bound. Where it is passed, the address that holds the most loses the connection that has stood
//! still for the longest time, until the rest fits. So who reads and sends loses nothing to who does not, and the
//! outcome of a payment is stored before its answer is written: its caller repeats the call.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::telemetry::Metrics;

/// The buffered bytes of one listener.
#[derive(Debug)]
pub struct BufferedBytes {
    listener: &'static str,
    most: usize,
    metrics: Metrics,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Connections that hold nothing are not listed.
    by_connection: HashMap<u64, Buffering>,
    /// Counts connections and moves, so that both have an order.
    events: u64,
}

#[derive(Debug)]
struct Buffering {
    address: IpAddr,
    bytes: usize,
    /// The event at which it last moved.
    moved: u64,
    reset: CancellationToken,
}

/// The bytes of one connection.
#[derive(Debug)]
pub struct ConnectionBuffer {
    of: Arc<BufferedBytes>,
    id: u64,
    address: IpAddr,
    reset: CancellationToken,
}

/// Some bytes of a connection; dropping this releases them.
#[derive(Debug)]
pub struct BufferedPart {
    of: Arc<ConnectionBuffer>,
    bytes: usize,
}

impl BufferedBytes {
    pub fn new(listener: &'static str, most: usize, metrics: Metrics) -> Arc<BufferedBytes> {
        Arc::new(BufferedBytes { listener, most, metrics, held: Mutex::default() })
    }

    /// Returns the buffer of a new connection, empty.
    pub fn connection(self: &Arc<BufferedBytes>, address: IpAddr) -> Arc<ConnectionBuffer> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let id = held.event();
        Arc::new(ConnectionBuffer { of: self.clone(), id, address, reset: CancellationToken::new() })
    }

    fn change(&self, of: &ConnectionBuffer, from: usize, to: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if of.reset.is_cancelled() {
            // Its bytes were given back when it was reset.
            return;
        }
        held.change(of, from, to);
        let mut resets = 0;
        while held.all > self.most {
            let Some(reset) = held.take_slowest() else { break };
            reset.cancel();
            resets += 1;
        }
        self.metrics.buffered(self.listener, held.all, resets);
    }
}

impl HeldBytes {
    fn event(&mut self) -> u64 {
        self.events = self.events.saturating_add(1);
        self.events
    }

    fn change(&mut self, of: &ConnectionBuffer, from: usize, to: usize) {
        let event = self.event();
        let connection = self.by_connection.entry(of.id).or_insert_with(|| Buffering {
            address: of.address,
            bytes: 0,
            moved: event,
            reset: of.reset.clone(),
        });
        let before = connection.bytes;
        connection.bytes = before.saturating_sub(from).saturating_add(to);
        let after = connection.bytes;
        if after == 0 {
            self.by_connection.remove(&of.id);
        }
        self.count(of.address, before, after);
    }

    fn count(&mut self, address: IpAddr, before: usize, after: usize) {
        self.all = self.all.saturating_sub(before).saturating_add(after);
        let of_address = self.by_address.entry(address).or_default();
        *of_address = of_address.saturating_sub(before).saturating_add(after);
        if *of_address == 0 {
            self.by_address.remove(&address);
        }
    }

    /// Takes the bytes of the slowest connection of the address that holds the most.
    fn take_slowest(&mut self) -> Option<CancellationToken> {
        let (address, _) = self.by_address.iter().max_by_key(|(_, bytes)| **bytes)?;
        let of_it = self.by_connection.iter().filter(|(_, connection)| connection.address == *address);
        let (id, _) = of_it.min_by_key(|(_, connection)| connection.moved)?;
        let taken = self.by_connection.remove(&id.clone())?;
        self.count(taken.address, taken.bytes, 0);
        Some(taken.reset)
    }
}

impl ConnectionBuffer {
    /// Holds this many bytes until the part is dropped.
    pub fn hold(self: &Arc<ConnectionBuffer>, bytes: usize) -> BufferedPart {
        let mut part = BufferedPart { of: self.clone(), bytes: 0 };
        part.set(bytes);
        part
    }

    /// Holds an answer of this many bytes until the part is dropped. An answer that is longer than half of all counts as
    /// half, so that it can be taken at all.
    pub fn hold_answer(self: &Arc<ConnectionBuffer>, bytes: usize) -> BufferedPart {
        self.hold(bytes.min(self.of.most / 2))
    }

    /// Records that the caller took bytes, or that a request of it came.
    pub fn moved(&self) {
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        let event = held.event();
        if let Some(connection) = held.by_connection.get_mut(&self.id) {
            connection.moved = event;
        }
    }

    /// Becomes cancelled when this connection must end at once.
    pub fn reset(&self) -> &CancellationToken {
        &self.reset
    }
}

impl BufferedPart {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.of.of.change(&self.of, self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for BufferedPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(most: usize) -> Arc<BufferedBytes> {
        BufferedBytes::new("production", most, Metrics::new().unwrap())
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_holds_the_most_loses_its_slowest_connection_and_nobody_else_loses_anything() {
        let room = room(100);
        let greedy: Vec<_> = (0..4).map(|_| room.connection(address(1))).collect();
        let parts: Vec<_> = greedy.iter().map(|connection| connection.hold(20)).collect();
        // The first one is read from: the second one is the slowest now.
        greedy[0].moved();
        let modest = room.connection(address(2));
        let mut part = modest.hold(20);
        let resets = || greedy.iter().map(|one| one.reset().is_cancelled()).collect::<Vec<_>>();
        assert_eq!(resets(), [false; 4]);
        part.set(30);
        assert_eq!(resets(), [false, true, false, false]);
        // The greedy address has 60 left, the modest one 30.
        let other = room.connection(address(3));
        let _some = other.hold(30);
        assert_eq!(resets(), [false, true, true, false]);
        assert!(!modest.reset().is_cancelled() && !other.reset().is_cancelled());
        drop(parts);
        assert_eq!(room.held.lock().unwrap().all, 60);
    }

    #[test]
    fn what_a_reset_connection_held_is_given_back_once_and_it_holds_nothing_more() {
        let room = room(100);
        let (one, other) = (room.connection(address(1)), room.connection(address(2)));
        let (mut first, _second) = (one.hold(60), other.hold(50));
        assert!(one.reset().is_cancelled() && !other.reset().is_cancelled());
        first.set(90);
        first.set(10);
        let third = one.hold(30);
        assert_eq!(room.held.lock().unwrap().all, 50);
        drop((first, third));
        assert_eq!(room.held.lock().unwrap().all, 50);
        // One that alone holds more than all is reset, too.
        let large = room.connection(address(3));
        let _held = large.hold(101);
        assert!(large.reset().is_cancelled() && !other.reset().is_cancelled());
    }

    #[test]
    fn what_ends_leaves_no_trace() {
        let room = room(100);
        for _ in 0..10 {
            let connection = room.connection(address(1));
            let (mut one, _other) = (connection.hold(40), connection.hold(60));
            one.set(10);
        }
        let held = room.held.lock().unwrap();
        assert!(held.all == 0 && held.by_address.is_empty() && held.by_connection.is_empty());
    }
}
