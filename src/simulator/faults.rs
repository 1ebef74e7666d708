//! Faults on request: which call one strikes, and what it does to that call.
//!
//! [`Strike::deliver`] is the one place that knows what a fault does. It is given the call as a function:
//! a fault that happens before the effect does not call it.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;
use super::naming::Naming;
use crate::base::ids::OperationId;
use crate::base::json;
use crate::catalog::Operation;

/// What goes wrong, for which calls, how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `None`: every call, those that name no operation as well.
    pub operation: Option<OperationId>,
    pub kind: FaultKind,
    /// How many calls it strikes; `None`: until faults are cleared.
    pub times: Option<u32>,
    /// Strikes about this many in a hundred of its calls, by the simulator's seed; `None`: all of them.
    pub percent: Option<u8>,
}

impl Fault {
    /// Strikes every call until faults are cleared.
    pub fn always(kind: FaultKind) -> Fault {
        Fault { operation: None, kind, times: None, percent: None }
    }

    /// Strikes the next call.
    pub fn once(kind: FaultKind) -> Fault {
        Fault { times: Some(1), ..Fault::always(kind) }
    }

    /// Strikes calls of this operation alone.
    pub fn on(self, operation: &str) -> Fault {
        Fault { operation: Some(OperationId::new(operation)), ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The effect happens at once, the answer comes later. Adds to any other fault.
    Delay { ms: u64 },
    /// TCP reset before the body is read. No effect.
    ResetBeforeReading,
    /// The effect happens, then a TCP reset before any byte of the answer.
    ResetAfterReceiving,
    /// The effect happens, then the connection is closed in order before any byte of the answer.
    CloseAfterReceiving,
    /// The effect happens; nothing more is ever said.
    Hang,
    /// No effect; nothing is ever said.
    HangBeforeEffect,
    /// The effect happens; a head and half of its body, then a TCP reset.
    CutBody,
    /// The effect happens; a head and half of its body, then nothing more.
    StallBody,
    /// This answer instead of the call's own.
    Answer { status: u16, content_type: Option<String>, body: Vec<u8>, effect: bool },
    /// 500 with a page of HTML.
    Html500 { effect: bool },
    /// Bytes that are not HTTP, then the connection is closed.
    Garbage { effect: bool },
    /// The effect happens; the answer's JSON ends in the middle, its head says nothing of it.
    BrokenJson,
    /// 302 to this place.
    Redirect { location: String, effect: bool },
    /// The effect happens; the answer is JSON that the contract does not allow.
    WrongShape,
    /// The effect happens; the answer is padded to more than this many bytes.
    Oversize { bytes: usize },
}

impl FaultKind {
    /// The name that the control interface gives it.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::Delay { .. } => "delay",
            FaultKind::ResetBeforeReading => "resetBeforeReading",
            FaultKind::ResetAfterReceiving => "resetAfterReceiving",
            FaultKind::CloseAfterReceiving => "closeAfterReceiving",
            FaultKind::Hang => "hang",
            FaultKind::HangBeforeEffect => "hangBeforeEffect",
            FaultKind::CutBody => "cutBody",
            FaultKind::StallBody => "stallBody",
            FaultKind::Answer { .. } => "answer",
            FaultKind::Html500 { .. } => "html500",
            FaultKind::Garbage { .. } => "garbage",
            FaultKind::BrokenJson => "brokenJson",
            FaultKind::Redirect { .. } => "redirect",
            FaultKind::WrongShape => "wrongShape",
            FaultKind::Oversize { .. } => "oversize",
        }
    }
}

/// The faults that wait for their calls.
#[derive(Debug)]
pub(super) struct Faults {
    naming: Naming,
    waiting: Vec<Fault>,
    /// Counts the chances taken, so that each is another one.
    chances: u64,
}

impl Faults {
    pub(super) fn new(naming: Naming) -> Faults {
        Faults { naming, waiting: Vec::new(), chances: 0 }
    }

    pub(super) fn add(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn waiting(&self) -> &[Fault] {
        &self.waiting
    }

    /// What strikes this call: every delay, and the first other fault.
    pub(super) fn strike(&mut self, operation: Option<&OperationId>) -> Strike {
        let mut strike = Strike { delay: Duration::ZERO, kind: None };
        let mut kept = Vec::with_capacity(self.waiting.len());
        for mut fault in std::mem::take(&mut self.waiting) {
            if fault.times != Some(0) && (fault.operation.is_none() || fault.operation.as_ref() == operation) {
                let wanted = matches!(fault.kind, FaultKind::Delay { .. }) || strike.kind.is_none();
                if wanted && self.chance(fault.percent) {
                    strike.take(&fault.kind);
                    fault.times = fault.times.map(|n| n.saturating_sub(1));
                }
            }
            if fault.times != Some(0) {
                kept.push(fault);
            }
        }
        self.waiting = kept;
        strike
    }

    fn chance(&mut self, percent: Option<u8>) -> bool {
        let Some(percent) = percent else { return true };
        self.chances = self.chances.saturating_add(1);
        self.naming.percentile(&format!("chance/{}", self.chances)) < percent
    }
}

/// What strikes one call.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    delay: Duration,
    kind: Option<FaultKind>,
}

/// What goes to the wire.
#[derive(Clone, Debug)]
pub(super) enum Delivery {
    /// A well-formed HTTP answer.
    Http { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// These bytes as they are, then an end.
    Wire { bytes: Vec<u8>, then: Then },
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Reset,
    Close,
    Silence,
}

impl Strike {
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn reads_body(&self) -> bool {
        self.kind != Some(FaultKind::ResetBeforeReading)
    }

    pub(super) fn name(&self) -> Option<&'static str> {
        match &self.kind {
            Some(kind) => Some(kind.name()),
            None => (!self.delay.is_zero()).then_some("delay"),
        }
    }

    /// Answers the call as the fault wants it; `execute` carries the call out.
    pub(super) fn deliver(self, operation: Option<&Operation>, execute: impl FnOnce() -> Answer) -> Delivery {
        let Some(kind) = self.kind else { return plain(&execute()) };
        match kind {
            FaultKind::Delay { .. } => plain(&execute()),
            FaultKind::ResetBeforeReading => wire(Vec::new(), Then::Reset),
            FaultKind::HangBeforeEffect => wire(Vec::new(), Then::Silence),
            FaultKind::ResetAfterReceiving => after(execute, wire(Vec::new(), Then::Reset)),
            FaultKind::CloseAfterReceiving => after(execute, wire(Vec::new(), Then::Close)),
            FaultKind::Hang => after(execute, wire(Vec::new(), Then::Silence)),
            FaultKind::CutBody => wire(half(&execute()), Then::Reset),
            FaultKind::StallBody => wire(half(&execute()), Then::Silence),
            FaultKind::Answer { status, content_type, body, effect } => {
                let headers = content_type.map(|t| ("content-type", t)).into_iter().collect();
                maybe_after(effect, execute, Delivery::Http { status, headers, body })
            }
            FaultKind::Html500 { effect } => maybe_after(effect, execute, html_500()),
            FaultKind::Garbage { effect } => maybe_after(effect, execute, wire(garbage(), Then::Close)),
            FaultKind::Redirect { location, effect } => {
                let headers = vec![("location", location)];
                maybe_after(effect, execute, Delivery::Http { status: 302, headers, body: Vec::new() })
            }
            FaultKind::BrokenJson => {
                let answer = execute();
                let mut body = json::to_bytes(&answer.body);
                body.truncate(body.len() / 2);
                Delivery::Http { status: answer.status, headers: json_headers(&answer), body }
            }
            FaultKind::WrongShape => {
                let answer = execute();
                plain(&Answer { body: wrong_shape(operation, answer.status), ..answer })
            }
            FaultKind::Oversize { bytes } => {
                let answer = execute();
                plain(&Answer { body: padded(&answer.body, bytes), ..answer })
            }
        }
    }

    fn take(&mut self, kind: &FaultKind) {
        match kind {
            FaultKind::Delay { ms } => self.delay = self.delay.saturating_add(Duration::from_millis(*ms)),
            FaultKind::ResetBeforeReading
            | FaultKind::ResetAfterReceiving
            | FaultKind::CloseAfterReceiving
            | FaultKind::Hang
            | FaultKind::HangBeforeEffect
            | FaultKind::CutBody
            | FaultKind::StallBody
            | FaultKind::Answer { .. }
            | FaultKind::Html500 { .. }
            | FaultKind::Garbage { .. }
            | FaultKind::BrokenJson
            | FaultKind::Redirect { .. }
            | FaultKind::WrongShape
            | FaultKind::Oversize { .. } => self.kind = Some(kind.clone()),
        }
    }
}

/// An answer as it should be.
pub(super) fn plain(answer: &Answer) -> Delivery {
    Delivery::Http { status: answer.status, headers: json_headers(answer), body: json::to_bytes(&answer.body) }
}

fn wire(bytes: Vec<u8>, then: Then) -> Delivery {
    Delivery::Wire { bytes, then }
}

fn after(execute: impl FnOnce() -> Answer, delivery: Delivery) -> Delivery {
    maybe_after(true, execute, delivery)
}

fn maybe_after(effect: bool, execute: impl FnOnce() -> Answer, delivery: Delivery) -> Delivery {
    if effect {
        drop(execute());
    }
    delivery
}

fn json_headers(answer: &Answer) -> Vec<(&'static str, String)> {
    let json = ("content-type", "application/json".to_owned());
    std::iter::once(json).chain(answer.headers.iter().cloned()).collect()
}

/// A head that promises the whole body, and the first half of it.
fn half(answer: &Answer) -> Vec<u8> {
    let body = json::to_bytes(&answer.body);
    let head = format!(
        "HTTP/1.1 {} Simulated\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.status,
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend(body.iter().take(body.len() / 2));
    bytes
}

fn html_500() -> Delivery {
    let page = "<html><head><title>500 Internal Server Error</title></head><body>worker-7.internal: upstream connect error</body></html>";
    let headers = vec![("content-type", "text/html".to_owned())];
    Delivery::Http { status: 500, headers, body: page.as_bytes().to_vec() }
}

fn garbage() -> Vec<u8> {
    b"\x16\x03\x01\x02\x00\x01\x00 this is not HTTP\r\n\r\n".to_vec()
}

/// The first of some odd values that the contract does not allow as an answer.
fn wrong_shape(operation: Option<&Operation>, status: u16) -> Value {
    let odd = [json!({"unexpected": true}), json!(["unexpected"])];
    let contract = operation.and_then(|o| o.answer(status)).map(|a| &a.contract);
    let refused = odd.into_iter().find(|value| contract.is_none_or(|c| !c.accepts(value)));
    refused.unwrap_or(Value::Null)
}

fn padded(body: &Value, bytes: usize) -> Value {
    let padding = Value::String("x".repeat(bytes));
    let mut padded = body.clone();
    match padded.as_object_mut() {
        Some(members) => {
            members.insert("padding".to_owned(), padding);
            padded
        }
        None => json!([body, padding]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_to_the_first_other_fault() {
        let mut faults = Faults::new(Naming::new(1));
        for kind in [FaultKind::Delay { ms: 5 }, FaultKind::Hang, FaultKind::CutBody, FaultKind::Delay { ms: 7 }] {
            faults.add(Fault::once(kind));
        }
        let strike = faults.strike(None);
        assert_eq!((strike.delay(), strike.name()), (Duration::from_millis(12), Some("hang")));
        assert_eq!(faults.strike(None).name(), Some("cutBody"));
        assert_eq!(faults.strike(None).name(), None);
    }

    #[test]
    fn a_fault_strikes_its_operation_alone() {
        let mut faults = Faults::new(Naming::new(1));
        let swap = OperationId::new("createSwap");
        faults.add(Fault::once(FaultKind::Hang).on("createSwap"));
        faults.add(Fault { times: Some(0), ..Fault::always(FaultKind::CutBody) });
        assert_eq!(faults.strike(None).name(), None);
        assert_eq!(faults.strike(Some(&OperationId::new("listUsers"))).name(), None);
        assert_eq!(faults.strike(Some(&swap)).name(), Some("hang"));
    }

    #[test]
    fn a_percentage_strikes_about_so_many() {
        let mut faults = Faults::new(Naming::new(1));
        faults.add(Fault { percent: Some(30), ..Fault::always(FaultKind::BrokenJson) });
        let struck = (0..1_000).filter(|_| faults.strike(None).name().is_some()).count();
        assert!((230..370).contains(&struck), "{struck}");
    }
}
