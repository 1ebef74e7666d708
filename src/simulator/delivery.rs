//! The output to the caller: an answer, or bytes and an end of the connection.

use std::time::Duration;

use super::answer::SimulatorAnswer;
use crate::base::json;

/// The bytes that are sent.
#[derive(Clone, Debug)]
pub(super) enum Delivery {
    /// A well-formed HTTP answer.
    Http { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// These bytes unchanged, each after this pause, then an end of the connection.
    Wire { bytes: Vec<u8>, pause: Duration, then: Then },
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Reset,
    Close,
    Silence,
}

/// Returns an answer without a fault.
pub(super) fn faultless(answer: &SimulatorAnswer) -> Delivery {
    Delivery::Http { status: answer.status, headers: json_headers(answer), body: json::to_bytes(&answer.body) }
}

pub(super) fn wire(bytes: Vec<u8>, then: Then) -> Delivery {
    Delivery::Wire { bytes, pause: Duration::ZERO, then }
}

pub(super) fn json_headers(answer: &SimulatorAnswer) -> Vec<(&'static str, String)> {
    let json = ("content-type", "application/json".to_owned());
    std::iter::once(json).chain(answer.headers.iter().cloned()).collect()
}
