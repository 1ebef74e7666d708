//! The simulator's control interface, under `/simulator/`.

mod fault_request;

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::Simulator;
use super::answer::SimulatorAnswer;
use super::call::CallHead;
use super::faults::WaitingFault;
use super::journal::{Journal, Received};
use crate::base::ids::OperationId;
use crate::catalog::Violation;

const PREFIX: &str = "/simulator/";
/// How many of the last calls and swaps the journal shows by default.
const SHOWN: usize = 20;

pub(super) fn is_control(head: &CallHead) -> bool {
    head.path().starts_with(PREFIX)
}

pub(super) fn answer(simulator: &Simulator, head: &CallHead, body: &[u8]) -> SimulatorAnswer {
    let page = head.path().strip_prefix(PREFIX).unwrap_or_default();
    match (page, &head.method) {
        ("journal", &Method::GET) => show_journal(simulator, head),
        ("journal", &Method::DELETE) => {
            simulator.clear_journal();
            SimulatorAnswer::new(200, json!({"cleared": "journal"}))
        }
        ("data", &Method::GET) => SimulatorAnswer::new(200, simulator.data()),
        ("faults", &Method::GET) => SimulatorAnswer::new(200, json!({"waiting": waiting(simulator)})),
        ("faults", &Method::POST) => add_fault(simulator, body),
        ("faults", &Method::DELETE) => {
            simulator.clear_faults();
            SimulatorAnswer::new(200, json!({"cleared": "faults"}))
        }
        ("journal" | "data" | "faults", method) => {
            refused(405, &format!("`{method}` is not supported for {PREFIX}{page}"))
        }
        _ => refused(404, "there are /simulator/journal, /simulator/data and /simulator/faults"),
    }
}

fn show_journal(simulator: &Simulator, head: &CallHead) -> SimulatorAnswer {
    let asked = head.query().into_iter().find(|(name, _)| name == "last");
    let last = match asked.map(|(_, text)| text.parse::<usize>()) {
        None => SHOWN,
        Some(Ok(last)) => last,
        Some(Err(_)) => return refused(400, "`last` must be a number: how many calls and swaps to show"),
    };
    let mut shown = journal_json(&simulator.journal(), last);
    if let Some(members) = shown.as_object_mut() {
        let swaps = simulator.swaps();
        let skipped = swaps.len().saturating_sub(last);
        members.insert("swaps".to_owned(), swaps.into_iter().skip(skipped).collect());
    }
    SimulatorAnswer::new(200, shown)
}

fn journal_json(journal: &Journal, last: usize) -> Value {
    let by_operation = |counts: &BTreeMap<OperationId, u64>| -> Value {
        counts.iter().map(|(id, n)| (id.to_string(), json!(n))).collect()
    };
    let skipped = journal.received.len().saturating_sub(last);
    json!({
        "calls": by_operation(&journal.calls),
        "strays": journal.strays,
        "effects": by_operation(&journal.effects),
        "effectsByRequest": journal.effects_by_request,
        "received": journal.received.iter().skip(skipped).map(received_json).collect::<Vec<_>>(),
    })
}

fn received_json(received: &Received) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<Value> = received.headers.iter().map(|(name, value)| json!([name, text(value)])).collect();
    json!({
        "number": received.number,
        "at": received.at.to_string(),
        "operation": received.operation.as_ref().map(ToString::to_string),
        "method": received.method,
        "target": received.target,
        "headers": headers,
        "authorization": received.authorization,
        "body": text(&received.body),
        "bodyRead": received.body_read,
        "bodyDigest": received.body_digest(),
        "fault": received.fault,
        "status": received.status,
        "effect": received.effect,
    })
}

fn add_fault(simulator: &Simulator, body: &[u8]) -> SimulatorAnswer {
    match fault_request::fault(body, simulator.catalog()) {
        Ok(fault) => {
            simulator.fault(fault);
            SimulatorAnswer::new(201, json!({"waiting": waiting(simulator)}))
        }
        Err(violations) => {
            let details: Vec<Value> = violations.iter().map(Violation::to_json).collect();
            let message = "the simulator does not know this fault";
            let error = json!({"code": "BAD_FAULT", "message": message, "details": {"violations": details}});
            SimulatorAnswer::new(400, json!({"status": "error", "error": error}))
        }
    }
}

fn waiting(simulator: &Simulator) -> Vec<Value> {
    let show = |WaitingFault { fault, struck }: &WaitingFault| {
        let operation = fault.operation.as_ref().map(ToString::to_string);
        json!({
            "operation": operation,
            "kind": fault.kind.name(),
            "times": fault.times,
            "percent": fault.percent,
            "struck": struck,
        })
    };
    simulator.waiting_faults().iter().map(show).collect()
}

fn refused(status: u16, message: &str) -> SimulatorAnswer {
    SimulatorAnswer::new(status, json!({"status": "error", "error": {"code": "SIMULATOR", "message": message}}))
}
