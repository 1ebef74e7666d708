//! The answer to a call may say that other money moves: the call counts as executed, and people are told.

use serde_json::{Value, json};

use super::{RULES, id, operator};
use crate::cases::console::{ask, audited, console};
use crate::support::clock::{DAY, upstream_time, wait_until};
use crate::support::shared::Signal;
use crate::support::{Act, Answer, Gate, Setup, Upstream, post};

const OURS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const THEIRS: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
const MESSAGE: &str = "upstream executed a call otherwise than it was sent";

fn swap(request_id: &str) -> Value {
    json!({
        "requestId": request_id,
        "source": {"userId": "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22", "chain": "POLYGON", "currency": "usdt", "amount": "9"},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": OURS},
    })
}

fn send(gate: &Gate, request_id: &str) -> Answer {
    post("/v2/wallets/swaps").json(swap(request_id).to_string()).send(gate.production())
}

/// An answer to this swap, with this change.
fn answer(request_id: &str, change: impl Fn(&mut Value)) -> String {
    let call = swap(request_id);
    let mut details = json!({
        "id": "89cea253-735b-47d4-8481-28b6237d23da", "requestId": request_id, "status": "INITIATED",
        "createdAt": upstream_time(0), "source": call["source"], "destination": call["destination"],
    });
    change(&mut details);
    json!({"transferType": "WALLET.SWAP", "transferDetails": details}).to_string()
}

fn gate(upstream: &Upstream) -> Gate {
    let swaps = "[[rule]]\nid = \"swaps\"\neffect = \"allow\"\nwhen = { op = [\"createSwap\"] }\n";
    let setup = console(Setup::of(upstream)).timeout_ms("answer_ms", 300);
    setup.file("policies/everything.toml", &format!("{RULES}{swaps}")).start()
}

fn told(gate: &Gate, problem: &str) -> u64 {
    let labels = format!(r#"environment="production",operation="createSwap",problem="{problem}""#);
    gate.metric(&format!("sluice_foreign_payments_total{{{labels}}}"))
}

fn listed(gate: &Gate) -> Vec<Value> {
    let listed = ask(gate, "GET", "payments/foreign", &operator("ops-1"), None).json();
    listed["payments"].as_array().unwrap().clone()
}

fn errors(gate: &Gate) -> usize {
    let is_told = |line: &&Value| line["level"] == "ERROR" && line["message"].as_str().unwrap().starts_with(MESSAGE);
    gate.log.all().iter().filter(is_told).count()
}

#[test]
fn a_success_that_moves_other_money_is_executed_and_told() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let other_amount = answer(&id(1), |details| details["source"]["amount"] = json!(9000));
    let other_payee = answer(&id(2), |details| {
        details["id"] = json!("22222222-0000-4000-8000-000000000002");
        details["destination"]["walletAddress"] = json!(THEIRS);
    });
    for (n, body, problem) in [(1, other_amount, "other-amount"), (2, other_payee, "other-payee")] {
        upstream.next(Act::json(201, &body));
        let first = send(&gate, &id(n));
        assert_eq!((first.status, first.outcome().as_str(), first.text()), (201, "executed", body.clone()), "{first}");
        assert_eq!((told(&gate, problem), listed(&gate).len()), (1, n));
        wait_until("the error in the log", || errors(&gate) == n);
        // A repeat tells nobody again.
        assert_eq!(send(&gate, &id(n)).text(), body);
        let entry = audited(&gate, &[("/what", json!("foreign")), ("/requestId", json!(id(n)))]);
        assert_eq!((&entry["problem"], &entry["operation"]), (&json!(problem), &json!("createSwap")));
    }
    let found = &listed(&gate)[1];
    assert_eq!(
        (&found["requestId"], &found["problem"], &found["state"], &found["source"]["amount"]),
        (&json!(id(1)), &json!("other-amount"), &json!("INITIATED"), &json!("9000"))
    );
    assert_eq!(found["record"], json!("89cea253-735b-47d4-8481-28b6237d23da"));
    assert_eq!((told(&gate, "other-amount"), told(&gate, "other-payee"), errors(&gate)), (1, 1, 2));
}

#[test]
fn an_answer_that_says_the_same_or_less_tells_nobody() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let bodies = [
        answer(&id(1), |details| details["source"]["amount"] = json!("9.000")),
        answer(&id(2), |details| details["destination"]["walletAddress"] = json!(OURS.to_lowercase())),
        answer(&id(3), |details| details["source"]["currency"] = json!("USDT")),
        answer(&id(4), |details| {
            details["destination"] = json!({"amount": "8.99"});
            details["source"] = Value::Null;
        }),
        json!({"transferType": "WALLET.SWAP", "transferDetails": {"requestId": id(5)}}).to_string(),
        json!({"transferDetails": {"requestId": id(6), "source": [], "destination": "x"}}).to_string(),
    ];
    for (n, body) in (1..).zip(bodies) {
        upstream.next(Act::json(201, &body));
        let first = send(&gate, &id(n));
        assert_eq!((first.status, first.outcome().as_str()), (201, "executed"), "{body}: {first}");
        assert_eq!((errors(&gate), listed(&gate).len()), (0, 0), "{body}");
    }
}

/// Whoever repeats a requestId that was paid past the gate may get the former record.
#[test]
fn an_answer_with_a_record_that_was_made_before_the_call_is_executed_and_told() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (n, (time, is_told)) in (1..).zip([(-DAY, 1), (-600_000, 1), (600_000, 1)]) {
        let body = answer(&id(n), |details| details["createdAt"] = json!(upstream_time(time)));
        upstream.next(Act::json(201, &body));
        let first = send(&gate, &id(n));
        assert_eq!((first.status, first.outcome().as_str(), first.text()), (201, "executed", body), "{first}");
        assert_eq!((told(&gate, "older-record"), listed(&gate).len()), (1, is_told), "{time}");
    }
    wait_until("the error in the log", || errors(&gate) == 1);
}

#[test]
fn a_late_success_that_moves_other_money_is_told_too() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let (signal, body) = (Signal::new(), answer(&id(1), |details| details["source"]["amount"] = json!("0.9")));
    upstream.next(Act::json(201, &body).after(&signal));
    assert_eq!(send(&gate, &id(1)).outcome(), "unknown");
    assert_eq!(errors(&gate), 0);
    signal.give();
    wait_until("the late answer", || send(&gate, &id(1)).text() == body);
    assert_eq!((told(&gate, "other-amount"), listed(&gate).len()), (1, 1));
    wait_until("the error in the log", || errors(&gate) == 1);
}
