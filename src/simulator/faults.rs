//! Injected faults: the call that a fault strikes, and its effect on that call.
//!
//! [`Strike::deliver`] is the one place that implements faults. It gets the call as a function: a fault before the
//! effect does not call it.

use std::time::Duration;

use serde_json::Value;

use super::answer::SimulatorAnswer;
use super::delivery::{Delivery, Then, faultless, json_headers, wire};
use super::faulty_answers::{
    already_exists, echo, garbage, html_500, padded, whole, with_foreign_id, without_end, wrong_shape,
};
use super::naming::NameSource;
use crate::base::ids::OperationId;
use crate::base::json;
use crate::catalog::Operation;

/// A fault, its calls, and how often it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// `None`: every call, those that name no operation as well.
    pub operation: Option<OperationId>,
    pub kind: FaultKind,
    /// How many calls it strikes; `None`: until faults are cleared.
    pub times: Option<u32>,
    /// The share of its calls that it strikes, chosen by the simulator's seed; `None`: all of them.
    pub percent: Option<u8>,
}

impl InjectedFault {
    /// Returns a fault that strikes every call until faults are cleared.
    pub fn always(kind: FaultKind) -> InjectedFault {
        InjectedFault { operation: None, kind, times: None, percent: None }
    }

    /// Returns a fault that strikes the next call.
    pub fn once(kind: FaultKind) -> InjectedFault {
        InjectedFault { times: Some(1), ..InjectedFault::always(kind) }
    }

    /// Restricts the fault to calls of this operation.
    pub fn on(self, operation: &str) -> InjectedFault {
        InjectedFault { operation: Some(OperationId::new(operation)), ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The effect happens at once, the answer comes later. Can be combined with another fault.
    Delay { ms: u64 },
    /// TCP reset before the body is read. No effect.
    ResetBeforeReading,
    /// The effect happens, then a TCP reset before any byte of the answer.
    ResetAfterReceiving,
    /// The effect happens, then the connection is closed in order before any byte of the answer.
    CloseAfterReceiving,
    /// The effect happens; no answer ever comes.
    Hang,
    /// No effect; no answer ever comes.
    HangBeforeEffect,
    /// The effect happens; a head and its body without the end, then a TCP reset.
    CutBody,
    /// The effect happens; a head and its body without the end, then nothing more.
    StallBody,
    /// This answer instead of the call's own.
    Answer { status: u16, content_type: Option<String>, body: Vec<u8>, effect: bool },
    /// 500 with a page of HTML.
    Html500 { effect: bool },
    /// Bytes that are not HTTP, then the connection is closed.
    Garbage { effect: bool },
    /// The effect happens; the answer's JSON ends in the middle, but its head promises no more.
    BrokenJson,
    /// 302 to this location.
    Redirect { location: String, effect: bool },
    /// The effect happens; the answer is JSON that the contract does not allow.
    WrongShape,
    /// The effect happens; the answer is padded to more than this many bytes.
    Oversize { bytes: usize },
    /// The connection is closed at once; the effect happens this much later.
    LateEffect { ms: u64 },
    /// The effect happens; the record in the answer bears another requestId.
    ForeignRecord,
    /// The effect happens; so many interim answers (103) come before the final one.
    Interim { count: u32 },
    /// The effect happens; the answer comes byte by byte, with this pause before each.
    Drip { ms: u64 },
    /// The effect happens; the answer repeats the caller's credential in a header and in its body.
    EchoCredential,
    /// A repeated requestId has no second effect: it is answered with the first record if the status is 200, else refused
    /// with this status. The first is answered as usual.
    AlreadyExists { status: u16 },
}

impl FaultKind {
    /// Returns its name in the control interface.
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
            FaultKind::LateEffect { .. } => "lateEffect",
            FaultKind::ForeignRecord => "foreignRecord",
            FaultKind::Interim { .. } => "interim",
            FaultKind::Drip { .. } => "drip",
            FaultKind::EchoCredential => "echoCredential",
            FaultKind::AlreadyExists { .. } => "alreadyExists",
        }
    }
}

/// A fault that waits for its calls.
#[derive(Clone, Debug)]
pub(super) struct WaitingFault {
    pub fault: InjectedFault,
    /// How many calls it struck.
    pub struck: u64,
}

/// The faults that wait for their calls.
#[derive(Debug)]
pub(super) struct FaultPlan {
    naming: NameSource,
    waiting: Vec<WaitingFault>,
    /// Counts the random choices, so that each is different.
    chances: u64,
}

impl FaultPlan {
    pub(super) fn new(naming: NameSource) -> FaultPlan {
        FaultPlan { naming, waiting: Vec::new(), chances: 0 }
    }

    pub(super) fn add(&mut self, fault: InjectedFault) {
        self.waiting.push(WaitingFault { fault, struck: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn waiting(&self) -> &[WaitingFault] {
        &self.waiting
    }

    /// Returns the faults of this call: every delay, and the first other fault.
    pub(super) fn strike(&mut self, operation: Option<&OperationId>) -> Strike {
        let mut strike = Strike { delay: Duration::ZERO, kind: None };
        let mut kept = Vec::with_capacity(self.waiting.len());
        for WaitingFault { mut fault, mut struck } in std::mem::take(&mut self.waiting) {
            if fault.times != Some(0) && (fault.operation.is_none() || fault.operation.as_ref() == operation) {
                let wanted = matches!(fault.kind, FaultKind::Delay { .. }) || strike.kind.is_none();
                if wanted && self.chance(fault.percent) {
                    strike.take(&fault.kind);
                    struck = struck.saturating_add(1);
                    fault.times = fault.times.map(|n| n.saturating_sub(1));
                }
            }
            if fault.times != Some(0) {
                kept.push(WaitingFault { fault, struck });
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

/// The faults of one call.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    delay: Duration,
    kind: Option<FaultKind>,
}

/// The facts that a fault may look at besides the call itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct StruckCall<'c> {
    pub operation: Option<&'c Operation>,
    /// The caller's credential, as its header has it.
    pub credential: &'c str,
    /// The record that an earlier call with its requestId made.
    pub earlier: Option<&'c Value>,
}

impl Strike {
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn reads_body(&self) -> bool {
        self.kind != Some(FaultKind::ResetBeforeReading)
    }

    /// Adds the fault that a body triggers, unless another fault strikes already.
    pub(super) fn with_trigger(mut self, triggered: impl FnOnce() -> Option<FaultKind>) -> Strike {
        if self.kind.is_none()
            && let Some(kind) = triggered()
        {
            self.take(&kind);
        }
        self
    }

    /// Returns when the effect happens, where the connection is closed before it.
    pub(super) fn late_effect(&self) -> Option<Duration> {
        match self.kind {
            Some(FaultKind::LateEffect { ms }) => Some(Duration::from_millis(ms)),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Option<&'static str> {
        match &self.kind {
            Some(kind) => Some(kind.name()),
            None => (!self.delay.is_zero()).then_some("delay"),
        }
    }

    /// Answers the call with its fault; `execute` executes the call.
    pub(super) fn deliver(self, call: StruckCall<'_>, execute: impl FnOnce() -> SimulatorAnswer) -> Delivery {
        let Some(kind) = self.kind else { return faultless(&execute()) };
        match kind {
            // A late effect has closed its connection by now.
            FaultKind::Delay { .. } | FaultKind::LateEffect { .. } => faultless(&execute()),
            FaultKind::AlreadyExists { status } => match call.earlier {
                Some(record) => already_exists(status, record),
                None => faultless(&execute()),
            },
            FaultKind::ForeignRecord => {
                let answer = execute();
                faultless(&SimulatorAnswer { body: with_foreign_id(&answer.body), ..answer })
            }
            FaultKind::Interim { count } => {
                let interim = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
                    .repeat(usize::try_from(count).unwrap_or(0));
                wire([interim.into_bytes(), whole(&execute())].concat(), Then::Close)
            }
            FaultKind::Drip { ms } => {
                Delivery::Wire { bytes: whole(&execute()), pause: Duration::from_millis(ms), then: Then::Close }
            }
            FaultKind::EchoCredential => echo(&execute(), call.credential),
            FaultKind::ResetBeforeReading => wire(Vec::new(), Then::Reset),
            FaultKind::HangBeforeEffect => wire(Vec::new(), Then::Silence),
            FaultKind::ResetAfterReceiving => after(execute, wire(Vec::new(), Then::Reset)),
            FaultKind::CloseAfterReceiving => after(execute, wire(Vec::new(), Then::Close)),
            FaultKind::Hang => after(execute, wire(Vec::new(), Then::Silence)),
            FaultKind::CutBody => wire(without_end(&execute()), Then::Reset),
            FaultKind::StallBody => wire(without_end(&execute()), Then::Silence),
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
                faultless(&SimulatorAnswer { body: wrong_shape(call.operation, answer.status), ..answer })
            }
            FaultKind::Oversize { bytes } => {
                let answer = execute();
                faultless(&SimulatorAnswer { body: padded(&answer.body, bytes), ..answer })
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
            | FaultKind::Oversize { .. }
            | FaultKind::LateEffect { .. }
            | FaultKind::ForeignRecord
            | FaultKind::Interim { .. }
            | FaultKind::Drip { .. }
            | FaultKind::EchoCredential
            | FaultKind::AlreadyExists { .. } => self.kind = Some(kind.clone()),
        }
    }
}

fn after(execute: impl FnOnce() -> SimulatorAnswer, delivery: Delivery) -> Delivery {
    maybe_after(true, execute, delivery)
}

fn maybe_after(effect: bool, execute: impl FnOnce() -> SimulatorAnswer, delivery: Delivery) -> Delivery {
    if effect {
        drop(execute());
    }
    delivery
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_to_the_first_other_fault() {
        let mut faults = FaultPlan::new(NameSource::new(1));
        for kind in [FaultKind::Delay { ms: 5 }, FaultKind::Hang, FaultKind::CutBody, FaultKind::Delay { ms: 7 }] {
            faults.add(InjectedFault::once(kind));
        }
        let strike = faults.strike(None);
        assert_eq!((strike.delay(), strike.name()), (Duration::from_millis(12), Some("hang")));
        assert_eq!(faults.strike(None).name(), Some("cutBody"));
        assert_eq!(faults.strike(None).name(), None);
    }

    #[test]
    fn a_fault_strikes_its_operation_alone() {
        let mut faults = FaultPlan::new(NameSource::new(1));
        let swap = OperationId::new("createSwap");
        faults.add(InjectedFault::once(FaultKind::Hang).on("createSwap"));
        faults.add(InjectedFault { times: Some(0), ..InjectedFault::always(FaultKind::CutBody) });
        assert_eq!(faults.strike(None).name(), None);
        assert_eq!(faults.strike(Some(&OperationId::new("listUsers"))).name(), None);
        assert_eq!(faults.strike(Some(&swap)).name(), Some("hang"));
    }

    #[test]
    fn a_percentage_strikes_about_so_many() {
        let mut faults = FaultPlan::new(NameSource::new(1));
        faults.add(InjectedFault { percent: Some(30), ..InjectedFault::always(FaultKind::BrokenJson) });
        let struck = (0..1_000).filter(|_| faults.strike(None).name().is_some()).count();
        assert!((230..370).contains(&struck), "{struck}");
        assert_eq!(faults.waiting()[0].struck, struck as u64);
    }
}
