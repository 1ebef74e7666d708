//! Several gates on one Redis: the console of each tells the payments of all.

use std::fs;

use serde_json::{Value, json};

use super::policies::assert_described;
use super::{PEOPLE, ask, token_of};
use crate::cases::holds::{self, RULES, all_agree, answered, held, on_redis, swap};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Gate, Redis, Setup, Upstream};

fn viewer() -> String {
    token_of(PEOPLE, "v", &["viewer"])
}

fn setup(upstream: &Upstream, redis: &Redis, node: &str) -> Setup {
    on_redis(holds::gate(upstream, RULES), redis, node)
}

/// Pays without approval.
fn pay(gate: &Gate, request: &str) {
    let answer = swap(request, "25").send_when_met(gate.production());
    assert_eq!((answer.status, answer.outcome()), (201, "executed".to_owned()), "{answer}");
}

/// The payments that a console lists, as `name status`, the sums and their count, without the name of the gate.
fn listed(gate: &Gate) -> Value {
    let answer = ask(gate, "GET", "payments", &viewer(), None);
    assert_described(&answer, "payments");
    let mut list = answer.json();
    assert!(list.as_object_mut().unwrap().remove("of").is_some());
    list
}

fn paid(list: &Value) -> Vec<&str> {
    let rows = list["payments"].as_array().unwrap().iter().filter(|row| row["status"] == "paid");
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

/// Waits until the console lists these as paid, the latest first.
#[track_caller]
fn wait_for_paid(gate: &Gate, wanted: &[&str]) -> Value {
    let mut list = Value::Null;
    wait_until("the payments to be listed", || {
        list = listed(gate);
        paid(&list) == wanted
    });
    list
}

/// `sluice payments` with these words.
fn payments(words: &[&str], gate: Option<&Gate>) -> (Option<i32>, String) {
    let url = gate.map(|gate| format!("http://{}", gate.console().unwrap()));
    let console = url.iter().flat_map(|url| ["--console", url]);
    let words: Vec<&str> = ["payments"].into_iter().chain(words.iter().copied()).chain(console).collect();
    let output = sluice(&words).env("SLUICE_TOKEN", viewer()).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Paid at one gate, held at one and approved at the other: both tell the same payments, sums and approvers, and what one
/// exports is in the journal of the other.
#[test]
fn each_console_lists_the_payments_of_all_gates() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| setup(&upstream, &redis, node).start().ready());
    pay(&left, "g-1");
    let hold = held(&left, "g-2");
    all_agree(&right, &hold);
    let answer = answered(&left, &swap("g-2", "500"));
    assert_eq!(answer.outcome(), "executed", "{answer}");
    pay(&right, "g-3");

    let here = wait_for_paid(&left, &["g-3", "g-2", "g-1"]);
    let there = wait_for_paid(&right, &["g-3", "g-2", "g-1"]);
    // Each has its own journal.
    let alike = |answer: &Value| {
        let mut answer = answer.clone();
        assert!(answer["auditFolder"].take().is_string());
        answer
    };
    assert_eq!(alike(&here), alike(&there));
    let approved = &there["payments"][1];
    let people = ["ops-1", "finance-1", "ops-2"].map(|who| json!({"issuer": "people", "subject": who}));
    assert_eq!((&approved["name"], &approved["approvedBy"]), (&json!("g-2"), &json!(people)));
    let sum = there["sums"].as_array().unwrap().iter().find(|sum| sum["status"] == "paid").unwrap();
    assert_eq!((&sum["count"], &sum["amount"]), (&json!(3), &json!("550")));

    let folder = right.path("exports");
    fs::create_dir(&folder).unwrap();
    let (code, said) = payments(&["export", "--folder", folder.to_str().unwrap()], Some(&right));
    assert!(code == Some(0) && said.contains(": 3 payments, SHA-256 "), "{said}");
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let journal = left.path("sluice-audit");
    let verify = ["verify", file.to_str().unwrap(), "--audit", journal.to_str().unwrap()];
    let mut said = String::new();
    wait_until("the other journal to have the entry of the export", || {
        let (code, words) = payments(&verify, None);
        said = words;
        code == Some(0)
    });
    assert!(said.contains("is whole, and the audit log says the same: 3 payments"), "{said}");
    // The other console tells the export as well.
    let exported = || {
        let found = ask(&left, "GET", "history?person=v", &viewer(), None).json();
        found["entries"].as_array().unwrap().iter().any(|one| one["entry"]["what"] == "exported")
    };
    wait_until("the export to be told", exported);
}

/// Its machine burns with its journal: the other gate has what it paid.
#[test]
fn a_payment_is_listed_when_its_gate_and_its_journal_are_gone() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| setup(&upstream, &redis, node).set_raw("store", "journal_copies", "2").start().ready();
    let (left, right) = (start("left"), start("right"));
    pay(&left, "c-1");
    let stopped = left.kill();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    fs::remove_dir_all(stopped.path("sluice-data")).ok();
    let before = wait_for_paid(&right, &["c-1"]);
    // The same by its journal alone.
    let right = right.end().start();
    assert_eq!(wait_for_paid(&right, &["c-1"]), before);
}
