//! The journal: the requests that arrived, byte for byte, and their results.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::call::{CallHead, SimulatedCall};
use crate::base::digest::hex;
use crate::base::ids::OperationId;

/// How many of the last calls are kept whole.
const KEPT: usize = 1_000;

/// A snapshot of the journal. It counts everything since the start, or since the journal was cleared.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Calls that arrived, by operation, whatever their result.
    pub calls: BTreeMap<OperationId, u64>,
    /// Calls that named no operation.
    pub strays: u64,
    /// Executed calls that changed something, by operation.
    pub effects: BTreeMap<OperationId, u64>,
    /// Executed calls, by requestId, or by the claimed path parameters joined with `/`.
    pub effects_by_request: BTreeMap<String, u64>,
    /// The last calls, oldest first.
    pub received: VecDeque<Received>,
    arrived: u64,
}

/// One call as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Counts from 1.
    pub number: u64,
    pub at: Timestamp,
    pub operation: Option<OperationId>,
    pub method: String,
    /// Path and query, undecoded.
    pub target: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, Vec<u8>)>,
    pub authorization: Option<String>,
    pub body: Vec<u8>,
    /// Whether the body was read; a fault may come before.
    pub body_read: bool,
    /// The name of the fault that struck the call.
    pub fault: Option<&'static str>,
    /// The status of the call's result, even if a fault kept it from being sent.
    pub status: Option<u16>,
    pub effect: bool,
}

impl Received {
    /// Returns the first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_slice())
    }

    /// Returns the SHA-256 of the body in hexadecimal.
    pub fn body_digest(&self) -> String {
        hex(&Sha256::digest(&self.body))
    }
}

impl Journal {
    pub fn calls_of(&self, operation: &str) -> u64 {
        self.calls.get(&OperationId::new(operation)).copied().unwrap_or(0)
    }

    /// Returns how often the call of this requestId was executed.
    pub fn effects_of(&self, request_id: &str) -> u64 {
        self.effects_by_request.get(request_id).copied().unwrap_or(0)
    }

    pub fn total_effects(&self) -> u64 {
        self.effects.values().sum()
    }

    pub fn last(&self) -> Option<&Received> {
        self.received.back()
    }

    pub(super) fn arrived(
        &mut self,
        head: &CallHead,
        operation: Option<&OperationId>,
        body: Option<&[u8]>,
        fault: Option<&'static str>,
        at: Timestamp,
    ) -> u64 {
        self.arrived = self.arrived.saturating_add(1);
        match operation {
            Some(id) => count(&mut self.calls, id.clone()),
            None => self.strays = self.strays.saturating_add(1),
        }
        if self.received.len() >= KEPT {
            self.received.pop_front();
        }
        self.received.push_back(Received {
            number: self.arrived,
            at,
            operation: operation.cloned(),
            method: head.method.to_string(),
            target: head.target.clone(),
            headers: head.headers.clone(),
            authorization: head.header("authorization"),
            body: body.unwrap_or_default().to_vec(),
            body_read: body.is_some(),
            fault,
            status: None,
            effect: false,
        });
        self.arrived
    }

    pub(super) fn ended(&mut self, number: u64, status: u16, effect: bool) {
        if let Some(received) = self.received.iter_mut().rev().find(|r| r.number == number) {
            received.status = Some(status);
            received.effect = effect;
        }
    }

    pub(super) fn carried_out(&mut self, call: &SimulatedCall) {
        count(&mut self.effects, call.operation.id.clone());
        if let Some(claim) = call.claim() {
            count(&mut self.effects_by_request, claim);
        }
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let entry = counts.entry(key).or_insert(0);
    *entry = entry.saturating_add(1);
}
