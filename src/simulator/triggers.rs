//! Amounts and requestIds that make a call go wrong on purpose, so that a client can be tried without the control interface.
//!
//! A trigger is a source amount, or the beginning of a requestId. It strikes like a fault, in the manner of its line. What
//! becomes of a record later is scripted by amounts, too: see `outcome`.

use serde_json::{Value, json};

use super::decimal::SimulatorDecimal;
use super::faults::FaultKind;
use crate::base::json::{self, Limits};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    /// The source amount, in units of the currency; empty where only the requestId triggers.
    pub amount: &'static str,
    /// The beginning of the requestId; empty where only the amount triggers.
    pub request_id: &'static str,
    /// What upstream does, in words.
    pub does: &'static str,
    /// What a caller of the gate is told: status, code and `Sluice-Outcome`.
    pub told: &'static str,
    fault: Option<Struck>,
}

#[derive(Clone, Copy, Debug)]
enum Struck {
    Busy,
    Page,
    Reset,
    Silence,
    Cut,
    Slow,
    Foreign,
}

const fn trigger(
    amount: &'static str,
    request_id: &'static str,
    does: &'static str,
    told: &'static str,
    fault: Option<Struck>,
) -> Trigger {
    Trigger { amount, request_id, does, told, fault }
}

/// The longest that a slow answer takes. It is shorter than the gate's `timeouts.answer_ms`.
const SLOW_MS: u64 = 3_000;

/// All triggers, in the order of the guide.
pub const TRIGGERS: &[Trigger] = &[
    trigger(
        "17.17",
        "",
        "refuses the call with 400 `INSUFFICIENT_BALANCE`",
        "400, the payments API's own code, `not-executed`",
        None,
    ),
    trigger(
        "31.31",
        "test-busy-",
        "refuses the call with 429",
        "429, the payments API's own code, `not-executed`",
        Some(Struck::Busy),
    ),
    trigger(
        "32.32",
        "test-error-",
        "executes the call and answers with 500 and a page of HTML",
        "500 `OUTCOME_UNKNOWN`, `unknown`; repeats 409",
        Some(Struck::Page),
    ),
    trigger(
        "33.33",
        "test-lost-",
        "executes the call and cuts the connection before its answer",
        "502 `OUTCOME_UNKNOWN`, `unknown`; repeats 409",
        Some(Struck::Reset),
    ),
    trigger(
        "34.34",
        "test-silent-",
        "executes the call and never answers",
        "504 `OUTCOME_UNKNOWN`, `unknown`, after `timeouts.answer_ms`",
        Some(Struck::Silence),
    ),
    trigger(
        "35.35",
        "test-cut-",
        "executes the call and cuts its answer before its end",
        "2xx `{\"status\": \"executed\"}`, `executed`",
        Some(Struck::Cut),
    ),
    trigger(
        "36.36",
        "test-slow-",
        "executes the call and answers after three seconds",
        "2xx, `executed`",
        Some(Struck::Slow),
    ),
    trigger(
        "37.37",
        "test-foreign-",
        "executes the call and answers with another call's record",
        "502 `OUTCOME_UNKNOWN`, `unknown`; repeats 409",
        Some(Struck::Foreign),
    ),
    trigger(
        "13.13",
        "",
        "takes the call; later its quote fails: `QUOTE_FAILED`, a swap `FAILED`",
        "2xx, `executed`; limits count an offramp no longer",
        None,
    ),
    trigger(
        "14.14",
        "",
        "takes the call; later its transfer fails: `CRYPTO_FAILED`, a swap `FAILED`",
        "2xx, `executed`",
        None,
    ),
    trigger(
        "15.15",
        "",
        "takes the call; later its bank refuses: `FIAT_FAILED`, a swap `FAILED`",
        "2xx, `executed`",
        None,
    ),
    trigger(
        "16.16",
        "",
        "takes the call; it is `COMPLETED`, and later its bank returns it: `FIAT_RETURNED`",
        "2xx, `executed`",
        None,
    ),
    trigger("18.18", "", "takes the call; it stays `IN_REVIEW`", "2xx, `executed`", None),
    trigger(
        "19.19",
        "",
        "takes the call; later its crypto comes back: `CRYPTO_RETURNED`",
        "2xx, `executed`; limits count an offramp no longer",
        None,
    ),
    trigger(
        "20.20",
        "",
        "takes the call; later it is cancelled: `CANCELLED`",
        "2xx, `executed`; limits count an offramp no longer",
        None,
    ),
    trigger(
        "",
        "test-deposit-",
        "takes the call, an offramp, and lists it as one that a deposit made: it has an `orchestrationAddressId`",
        "2xx, `executed`",
        None,
    ),
];

/// Returns the fault that a body triggers.
pub(super) fn fault_of(body: &[u8]) -> Option<FaultKind> {
    let body = json::parse(body, Limits::REQUEST).ok()?;
    let request_id = body.get("requestId").and_then(Value::as_str).unwrap_or_default();
    let amount = match body.pointer("/source/amount") {
        Some(Value::String(text)) => SimulatorDecimal::parse(text),
        Some(Value::Number(number)) => SimulatorDecimal::parse(&number.to_string()),
        _ => None,
    };
    let is_it = |trigger: &&Trigger| {
        let by_id = !trigger.request_id.is_empty() && request_id.starts_with(trigger.request_id);
        by_id || amount.zip(SimulatorDecimal::parse(trigger.amount)).is_some_and(|(amount, of)| amount == of)
    };
    TRIGGERS.iter().find(is_it)?.fault.map(Struck::kind)
}

impl Struck {
    fn kind(self) -> FaultKind {
        match self {
            Struck::Busy => {
                let body = json!({"code": 429, "error": "TOO_MANY_REQUESTS", "errorDetails": "the simulator was told to refuse this"});
                let content_type = Some("application/json".to_owned());
                FaultKind::Answer { status: 429, content_type, body: json::to_bytes(&body), effect: false }
            }
            Struck::Page => FaultKind::Html500 { effect: true },
            Struck::Reset => FaultKind::ResetAfterReceiving,
            Struck::Silence => FaultKind::Hang,
            Struck::Cut => FaultKind::CutBody,
            Struck::Slow => FaultKind::Delay { ms: SLOW_MS },
            Struck::Foreign => FaultKind::ForeignRecord,
        }
    }
}

/// Returns the table of all triggers, in Markdown.
pub fn triggers() -> String {
    let head = "| source amount | or a requestId that begins with | upstream | a caller of the gate is told |\n|---|---|---|---|\n";
    TRIGGERS.iter().fold(head.to_owned(), |table, trigger| {
        let cell = |text: &str| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
        let (amount, id) = (cell(trigger.amount), cell(trigger.request_id));
        table + &format!("| {amount} | {id} | {} | {} |\n", trigger.does, trigger.told)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_ids_trigger_the_same() {
        let name = |body: &str| fault_of(body.as_bytes()).map(|kind| kind.name());
        assert_eq!(name(r#"{"requestId": "a", "source": {"amount": "33.33"}}"#), Some("resetAfterReceiving"));
        assert_eq!(name(r#"{"requestId": "a", "source": {"amount": 33.330}}"#), Some("resetAfterReceiving"));
        assert_eq!(name(r#"{"requestId": "test-lost-1", "source": {"amount": "1"}}"#), Some("resetAfterReceiving"));
        assert_eq!(name(r#"{"requestId": "test-lost", "source": {"amount": "33.34"}}"#), None);
        // What is scripted for later is no fault of the call.
        assert_eq!(name(r#"{"requestId": "a", "source": {"amount": "13.13"}}"#), None);
        assert_eq!(name("no json"), None);
    }

    #[test]
    fn the_table_in_the_manual_is_current() {
        // To update the page: copy the output of `sluice simulate --triggers` into deploy/docs/test-a-client.md.
        assert!(include_str!("../../deploy/docs/test-a-client.md").contains(&triggers()), "{}", triggers());
    }
}
