//! A record that upstream made before a call is none of the call, although it has its requestId and moves the same money:
//! everybody who reads the list can use the requestIds that are there.

use serde_json::{Value, json};

use super::hostile::{counted, followed, foreign, page, pay, record};
use super::{following, id, offramp, operator};
use crate::cases::console::ask;
use crate::support::clock::{DAY, upstream_time, wait_until};
use crate::support::{Act, Answer, Gate, Setup, Upstream, post};

fn older(n: usize, request_id: &str, state: &str) -> Value {
    let mut record = record(n, request_id, json!(60_000), state);
    record["transferDetails"]["createdAt"] = json!(upstream_time(-3 * DAY));
    record
}

fn send(gate: &Gate) -> Answer {
    post("/v2/offramps").json(offramp(&id(1), "60000").to_string()).send(gate.production())
}

/// A gate that took its baseline from a list with this record.
fn gate(upstream: &Upstream, listed: &[Value]) -> Gate {
    upstream.always(page(listed));
    let setup = following(Setup::of(upstream));
    let names = ["first_look_ms", "pause_ms", "longest_pause_ms"];
    let gate = names.into_iter().fold(setup, |setup, name| setup.set_raw("reconcile", name, "100")).start();
    wait_until("the baseline", || read(&gate) >= 1);
    gate
}

fn read(gate: &Gate) -> u64 {
    counted(gate, "sluice_follow_readings_total", r#",result="read""#)
}

fn reads_on(gate: &Gate) {
    let from = read(gate);
    wait_until("further readings", || read(gate) >= from + 4);
}

/// The use of the limit of a day, in micro-USD.
fn used(gate: &Gate) -> u64 {
    let usage = ask(gate, "GET", "usage", &operator("ops-1"), None).json();
    let day = usage["usage"].as_array().unwrap().iter().filter(|one| one["limit"] == "day");
    day.map(|one| one["used"].as_u64().unwrap()).sum()
}

const WHOLE: u64 = 60_000_000_000;

#[test]
fn an_older_record_gives_nothing_back_and_the_true_one_is_booked() {
    let upstream = Upstream::start();
    let before = older(2, &id(1), "CANCELLED");
    let gate = gate(&upstream, std::slice::from_ref(&before));
    upstream.always(Act::json(500, json!({"code": 500, "error": "x", "errorDetails": "y"}).to_string()));
    assert_eq!(send(&gate).code(), "OUTCOME_UNKNOWN");
    upstream.always(page(std::slice::from_ref(&before)));
    wait_until("people to be told", || foreign(&gate, "older-record") == 1);
    reads_on(&gate);
    assert_eq!((send(&gate).code(), used(&gate)), ("OUTCOME_UNKNOWN".to_owned(), WHOLE));
    let ours = record(1, &id(1), json!(60_000), "COMPLETED");
    upstream.always(page(&[ours.clone(), before.clone()]));
    wait_until("it to be followed", || followed(&gate, "COMPLETED", "settled") == 1);
    assert_eq!((send(&gate).json(), used(&gate)), (ours.clone(), WHOLE));
    // A gate that knows nothing of both reads the older one first.
    let gate = gate.kill().start();
    upstream.always(page(&[before, ours]));
    wait_until("the list to be read", || read(&gate) >= 1);
    reads_on(&gate);
    assert_eq!((used(&gate), foreign(&gate, "second-record")), (WHOLE, 0));
}

#[test]
fn where_the_answer_told_no_name_the_older_record_is_not_followed() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &[]);
    let mut nameless = record(1, &id(1), json!(60_000), "CREATED");
    nameless["transferDetails"].as_object_mut().unwrap().remove("id");
    upstream.always(Act::json(201, nameless.to_string()));
    pay(&gate, &id(1), "60000");
    let before = older(2, &id(1), "CANCELLED");
    upstream.always(page(std::slice::from_ref(&before)));
    wait_until("people to be told", || foreign(&gate, "older-record") == 1);
    assert_eq!((followed(&gate, "CANCELLED", "failed"), used(&gate)), (0, WHOLE));
    upstream.always(page(&[record(1, &id(1), json!(60_000), "CANCELLED"), before]));
    wait_until("the true one to be followed", || followed(&gate, "CANCELLED", "failed") == 1);
    assert_eq!(used(&gate), 0);
}

#[test]
fn an_older_record_proves_no_refusal_wrong() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &[]);
    let refusal =
        json!({"status": "error", "error": {"code": "INSUFFICIENT_BALANCE", "message": "no money", "details": {}}});
    upstream.always(Act::json(400, refusal.to_string()));
    assert_eq!(send(&gate).outcome(), "not-executed");
    upstream.always(page(&[older(2, &id(1), "COMPLETED")]));
    wait_until("people to be told", || foreign(&gate, "older-record") == 1);
    reads_on(&gate);
    let again = send(&gate);
    assert_eq!((again.status, again.outcome().as_str(), used(&gate)), (400, "not-executed", 0), "{again}");
}

/// Upstream may answer a requestId that it knows with the former record.
#[test]
fn an_answer_with_an_older_record_counts_until_its_own_record_says_otherwise() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &[]);
    let before = older(2, &id(1), "CANCELLED");
    upstream.always(Act::json(201, before.to_string()));
    pay(&gate, &id(1), "60000");
    assert_eq!(foreign(&gate, "older-record"), 1);
    upstream.always(page(std::slice::from_ref(&before)));
    reads_on(&gate);
    assert_eq!((foreign(&gate, "older-record"), used(&gate)), (1, WHOLE), "people know it from the answer");
    upstream.always(page(&[record(1, &id(1), json!(60_000), "CANCELLED"), before]));
    wait_until("the true one to be followed", || followed(&gate, "CANCELLED", "failed") == 1);
    assert_eq!(used(&gate), 0);
}
