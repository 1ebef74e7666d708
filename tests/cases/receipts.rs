//! Receipts over HTTP: for callers of their own payments, and for people of payments, votes and their own acts.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Barrier};
use std::thread::spawn;

use serde_json::{Value, json};

use super::audit::run;
use super::holds::{
    RULES, all_agree, answered, ask, gate as gate_with_console, held, on_redis, person, say, swap, text,
};
use super::witness::have_witnessed;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::token::{claims, signed};
use crate::support::{Act, Answer, Call, Gate, Redis, Setup, Upstream, get, post};

/// A setup that signs a checkpoint each second.
pub(super) fn signing(setup: Setup) -> Setup {
    let setup = setup.set_raw("audit", "checkpoint_key", r#"{ file = "log.pem" }"#);
    assert!(sluice(&["audit", "key", setup.path("log.pem").to_str().unwrap()]).output().unwrap().status.success());
    setup.set_raw("audit", "checkpoint_seconds", "1")
}

fn setup(upstream: &Upstream) -> Setup {
    signing(gate_with_console(upstream, RULES))
}

fn as_other(call: Call) -> Call {
    let mut claims = claims();
    claims["sub"] = json!("another");
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&claims)))
}

fn receipt_of(name: &str) -> Call {
    get(format!("/sluice/v1/receipts/{name}"))
}

/// Pays something before: the first payment under a policy set keeps that set beside it.
fn begun(setup: Setup) -> Gate {
    let gate = setup.start();
    paid(&gate, "first");
    gate
}

fn paid(gate: &Gate, name: &str) {
    let answer = answered(gate, &swap(name, "5"));
    assert_eq!((answer.status, answer.outcome()), (201, "executed".to_owned()), "{answer}");
}

/// The answer once a checkpoint covers what is asked for.
fn covered(ask: impl Fn() -> Answer) -> Answer {
    let mut answer = ask();
    wait_until("a checkpoint to cover it", || {
        let is_early = answer.code() == "RECEIPT_NOT_READY";
        if is_early {
            assert!(answer.status == 409 && answer.header("retry-after").is_some(), "{answer}");
            answer = ask();
        }
        !is_early
    });
    answer
}

fn got(at: SocketAddr, name: &str) -> Answer {
    covered(|| receipt_of(name).send(at))
}

/// Verifies a receipt as somebody with the keys and nothing else; returns its entries.
fn verified(answer: &Answer, keys: &[&str]) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer}");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("receipt.json");
    fs::write(&file, &answer.body).unwrap();
    let of_file = ["audit", "check-receipt", file.to_str().unwrap(), "--output", "json"];
    let (code, text) = run(&[&of_file, keys].concat());
    assert_eq!(code, 0, "{text}\n{answer}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["proved"], json!(true), "{told}");
    told["entries"].as_array().unwrap().iter().map(|entry| entry["entry"].clone()).collect()
}

fn verified_by(gate: &Gate, answer: &Answer) -> Vec<Value> {
    verified(answer, &["--public-key", gate.path("log.pem.pub").to_str().unwrap()])
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["what"].as_str().unwrap()).collect()
}

fn why(answer: &Answer) -> (u16, String, String) {
    let why = answer.json()["error"]["details"]["why"].as_str().unwrap_or_default().to_owned();
    (answer.status, answer.code(), why)
}

#[test]
fn a_caller_gets_the_receipt_of_its_own_payment_and_nobody_else_learns_that_it_is_there() {
    let (upstream, of_sandbox) = (Upstream::start(), Upstream::start());
    let gate = begun(setup(&upstream).sandbox(&of_sandbox).set("sandbox", "credential", "the-sandbox-s-own"));
    let at = gate.production();
    paid(&gate, "mine-1");
    paid(&gate, "mine-12");
    let entries = verified_by(&gate, &got(at, "mine-1"));
    assert_eq!(kinds(&entries), ["sending", "executed"]);
    for entry in &entries {
        assert_eq!((&entry["requestId"], &entry["owner"]["subject"]), (&json!("mine-1"), &claims()["sub"]), "{entry}");
    }
    let unknown = receipt_of("nobody-s").send(at);
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "REQUEST_NOT_FOUND"), "{unknown}");
    let same = |answer: Answer| assert_eq!((answer.status, answer.json()), (404, unknown.json()), "{answer}");
    same(as_other(receipt_of("mine-1")).send(at));
    same(receipt_of("mine-1").send(gate.sandbox()));
    for odd in ["mine", "mine-", "MINE-1", "mine-1?a=b", "mine%2D1", "request:mine-1", ".", "..", ""] {
        same(receipt_of(odd).send(at));
    }
    for odd in ["mine-1/", "request/mine-1", "../receipts/mine-1", "mine-1/receipt"] {
        let answer = receipt_of(odd).send(at);
        assert_eq!((answer.status, answer.code().as_str()), (404, "OPERATION_NOT_FOUND"), "{odd}: {answer}");
    }
    assert_eq!(receipt_of("mine-1").without("Authorization").send(at).status, 401);
    assert_eq!(post("/sluice/v1/receipts/mine-1").send(at).status, 405);
    let with_body = receipt_of("mine-1").json("{}").send(at);
    assert_eq!((with_body.status, with_body.code().as_str()), (400, "MALFORMED_REQUEST"), "{with_body}");
}

#[test]
fn without_checkpoints_and_before_one_there_is_no_receipt() {
    let upstream = Upstream::start();
    let gate = gate_with_console(&upstream, RULES).start();
    paid(&gate, "p-1");
    let answer = receipt_of("p-1").send(gate.production());
    let unsigned = (409, "RECEIPT_UNAVAILABLE".to_owned(), "no-checkpoints".to_owned());
    assert_eq!(why(&answer), unsigned, "{answer}");
    assert!(!answer.text().contains("/sluice-audit") && !answer.text().contains(".jsonl"), "{answer}");
    let other = as_other(receipt_of("p-1")).send(gate.production());
    assert_eq!(other.code(), "REQUEST_NOT_FOUND", "nobody learns by another error that it is there: {other}");

    let gate = setup(&upstream).set_raw("audit", "checkpoint_seconds", "3600");
    let gate = begun(gate);
    paid(&gate, "p-2");
    let answer = receipt_of("p-2").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (409, "RECEIPT_NOT_READY"), "{answer}");
    assert_eq!(answer.header("retry-after").as_deref(), Some("3600"));
    // The end of the process signs what there is.
    let gate = gate.end().start();
    assert_eq!(kinds(&verified_by(&gate, &got(gate.production(), "p-2"))), ["sending", "executed"]);
}

#[test]
fn a_receipt_waits_for_the_witnesses() {
    let upstream = Upstream::start();
    let of = have_witnessed(gate_with_console(&upstream, RULES), &[]);
    let keys = of.keys();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let at = of.gate.production();
    paid(&of.gate, "first");
    paid(&of.gate, "w-1");
    assert_eq!(kinds(&verified(&got(at, "w-1"), &keys)), ["sending", "executed"]);
    of.cut_off();
    let checkpoints = || fs::read_to_string(of.gate.path("sluice-audit/audit-gate.checkpoints.jsonl")).unwrap();
    let before = checkpoints().lines().count();
    paid(&of.gate, "w-2");
    wait_until("another checkpoint", || checkpoints().lines().count() > before);
    assert_eq!(receipt_of("w-2").send(at).code(), "RECEIPT_NOT_READY");
    assert_eq!(verified(&got(at, "w-1"), &keys).len(), 2, "what they signed stays proved");
    of.reconnect();
    assert_eq!(verified(&got(at, "w-2"), &keys).len(), 2);
}

/// Each gate's journal has the entries of all, so that each makes the receipt by its own log.
#[test]
fn a_payment_that_another_gate_sent_has_a_receipt_here() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = ["left", "right"].map(|node| on_redis(setup(&upstream), &redis, node).start().ready());
    paid(&gates[0], "first");
    paid(&gates[0], "far-1");
    for gate in &gates {
        let entries = verified_by(gate, &got(gate.production(), "far-1"));
        assert_eq!(kinds(&entries), ["sending", "executed"]);
        let other = as_other(receipt_of("far-1")).send(gate.production());
        assert_eq!(other.code(), "REQUEST_NOT_FOUND", "{other}");
    }
}

#[test]
fn a_payment_that_was_archived_or_spans_files_is_found_or_told_to_be_away() {
    let upstream = Upstream::start();
    let gate = begun(setup(&upstream).set_raw("audit", "file_bytes", "4096"));
    let folder = gate.path("sluice-audit");
    for nth in 0..8 {
        paid(&gate, &format!("f-{nth}"));
    }
    for nth in 0..8 {
        let entries = verified_by(&gate, &got(gate.production(), &format!("f-{nth}")));
        assert_eq!(kinds(&entries), ["sending", "executed"]);
    }
    assert!(folder.join("audit-gate-00000004.jsonl").exists());
    // Somebody took the first file away.
    fs::rename(folder.join("audit-gate-00000001.jsonl"), gate.path("taken.jsonl")).unwrap();
    let answer = receipt_of("first").send(gate.production());
    assert_eq!(why(&answer), (409, "RECEIPT_UNAVAILABLE".to_owned(), "not-at-hand".to_owned()), "{answer}");
    assert_eq!(verified_by(&gate, &got(gate.production(), "f-7")).len(), 2);
    // Somebody changed a line of the second.
    let second = folder.join("audit-gate-00000002.jsonl");
    let text = fs::read_to_string(&second).unwrap();
    fs::write(&second, text.replace("\"what\":\"", "\"what\":\"x")).unwrap();
    let answers: Vec<Answer> = (0..8).map(|nth| receipt_of(&format!("f-{nth}")).send(gate.production())).collect();
    let damaged: Vec<&Answer> = answers.iter().filter(|answer| answer.code() == "AUDIT_UNAVAILABLE").collect();
    assert!(!damaged.is_empty(), "{answers:?}");
    for answer in damaged {
        assert!(answer.status == 503 && !answer.text().contains("audit-gate"), "{answer}");
    }
}

/// In plain text the journal keeps what people said beside the send; under a key, it does not show it.
#[test]
fn a_caller_learns_nothing_of_the_people_who_approved_its_payment() {
    for seal_key in [None, Some("5e".repeat(32))] {
        let upstream = Upstream::start();
        let setup = seal_key.iter().fold(setup(&upstream), |setup, key| setup.set("store", "seal_key", key));
        let gate = begun(setup);
        let hold = held(&gate, "h-1");
        let waiting = receipt_of("h-1").send(gate.production());
        assert!(["no-entries", ""].contains(&why(&waiting).2.as_str()) && waiting.status == 409, "{waiting}");
        all_agree(&gate, &hold);
        let answer = answered(&gate, &swap("h-1", "500"));
        assert_eq!(answer.status, 201, "{answer}");
        let receipt = got(gate.production(), "h-1");
        let wanted: &[&str] = if seal_key.is_some() { &["sending", "executed"] } else { &["executed"] };
        assert_eq!(kinds(&verified_by(&gate, &receipt)), wanted);
        assert!(!receipt.text().contains("ops-1") && !receipt.text().contains("finance-1"), "{receipt}");

        // People get the votes of the hold, and each its own act.
        let read = |path: &str, who: &str, role: &str| ask(&gate, "GET", path, &person(who, &[role]), None);
        let of_hold = format!("holds/{}/receipt", text(&hold, "id"));
        let votes = verified_by(&gate, &covered(|| read(&of_hold, "ops-1", "approver")));
        assert_eq!(kinds(&votes), ["held", "voted", "voted", "voted"]);
        let of_payment = "payments/production/h-1/receipt";
        let payment = verified_by(&gate, &covered(|| read(of_payment, "ops-1", "approver")));
        assert_eq!(kinds(&payment), ["sending", "executed"]);
        let viewed = [covered(|| read(&of_hold, "v", "viewer")), covered(|| read(of_payment, "v", "viewer"))];
        for answer in viewed {
            let is_given = answer.status == 200;
            assert_eq!(is_given, seal_key.is_some(), "only under a key, a receipt shows no bytes: {answer}");
        }
        let story = read("history/production/h-1", "ops-1", "approver").json();
        let entries = story["entries"].as_array().unwrap();
        let vote = entries.iter().find(|line| line["entry"]["by"]["subject"] == json!("ops-1")).unwrap();
        let of_act = format!("entries/production/{}/receipt", vote["number"]);
        let own = verified_by(&gate, &covered(|| read(&of_act, "ops-1", "approver")));
        assert_eq!((kinds(&own), &own[0]["by"]["subject"]), (vec!["voted"], &json!("ops-1")));
        for odd in
            [of_act.as_str(), "entries/production/0/receipt", "entries/production/01/receipt", "entries/x/1/receipt"]
        {
            let answer = read(odd, "finance-1", "approver");
            assert!([404, 409].contains(&answer.status) && !answer.text().contains("ops-1"), "{odd}: {answer}");
        }
        assert_eq!(read(&of_act, "finance-1", "approver").code(), "REQUEST_NOT_FOUND");
        assert_eq!(read("payments/production/nobody-s/receipt", "ops-1", "approver").status, 404);
        assert_eq!(read(&format!("holds/{}/receipt", "0".repeat(32)), "ops-1", "approver").code(), "HOLD_NOT_FOUND");
    }
}

/// More entries than a search gives: the record of the hold knows the first one, and the newest.
#[test]
fn a_hold_with_more_entries_than_a_search_gives_has_its_receipt() {
    let upstream = Upstream::start();
    let gate = begun(setup(&upstream));
    let hold = held(&gate, "m-1");
    for _ in 0..251 {
        for act in ["approve", "withdraw"] {
            let said = say(&gate, act, &hold, "ops-1");
            assert_eq!(said.status, 200, "{said}");
        }
    }
    all_agree(&gate, &hold);
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201);
    let of_hold = format!("holds/{}/receipt", text(&hold, "id"));
    let votes = verified_by(&gate, &covered(|| ask(&gate, "GET", &of_hold, &person("ops-1", &["approver"]), None)));
    let told = kinds(&votes);
    assert_eq!((told.first(), told.len() > 20), (Some(&"held"), true), "{told:?}");
    assert_eq!(told[told.len() - 3..], ["voted", "voted", "voted"]);
}

#[test]
fn an_operator_s_word_on_an_outcome_is_not_in_the_caller_s_receipt() {
    let upstream = Upstream::start();
    let gate = begun(setup(&upstream));
    // The first one keeps the policies beside it, which are not the caller's.
    assert_eq!(kinds(&verified_by(&gate, &got(gate.production(), "first"))), ["executed"]);
    let hold = held(&gate, "r-1");
    assert_eq!(say(&gate, "reject", &hold, "ops-1").status, 200);
    let answer = covered(|| receipt_of("r-1").send(gate.production()));
    assert_eq!(why(&answer), (409, "RECEIPT_UNAVAILABLE".to_owned(), "no-entries".to_owned()), "{answer}");
    assert!(!answer.text().contains("ops-1"), "{answer}");
    // An unknown outcome is told as what it is.
    upstream.always(Act::silence().hang());
    assert_eq!(swap("u-1", "5").send(gate.production()).outcome(), "unknown");
    let entries = verified_by(&gate, &got(gate.production(), "u-1"));
    assert_eq!((entries[0]["what"].as_str(), entries.len()), (Some("sending"), 2), "{entries:?}");
}

/// One caller asks for 10,000 at once; another one gets its own meanwhile, and money goes on.
#[test]
fn ten_thousand_at_once_take_nothing_from_others() {
    const CALLERS: usize = 50;
    const EACH: usize = 200;
    let upstream = Upstream::start();
    let gate = begun(setup(&upstream));
    let at = gate.production();
    paid(&gate, "own-1");
    let theirs = as_other(swap("their-1", "5")).send(at);
    assert_eq!(theirs.status, 201, "{theirs}");
    got(at, "own-1");
    covered(|| as_other(receipt_of("their-1")).send(at));
    let begin = Arc::new(Barrier::new(CALLERS + 1));
    let many: Vec<_> = (0..CALLERS)
        .map(|_| {
            let begin = begin.clone();
            spawn(move || {
                begin.wait();
                let answers = (0..EACH).map(|_| receipt_of("own-1").send(at));
                answers.map(|answer| (answer.status, answer.code())).collect::<Vec<_>>()
            })
        })
        .collect();
    begin.wait();
    for nth in 0..5 {
        let answer = as_other(receipt_of("their-1")).send(at);
        assert_eq!(verified_by(&gate, &answer).len(), 2);
        assert_eq!(as_other(swap(&format!("their-{}", nth + 2), "5")).send(at).status, 201);
    }
    let told: Vec<(u16, String)> = many.into_iter().flat_map(|one| one.join().unwrap()).collect();
    let good = told.iter().filter(|(status, _)| *status == 200).count();
    assert!(good > 0, "some are made");
    for (status, code) in &told {
        assert!(*status == 200 || (*status == 503 && code == "OVERLOADED"), "{status} {code}");
    }
}

#[test]
fn a_gate_whose_checkpoints_were_removed_says_so() {
    let upstream = Upstream::start();
    let gate = begun(setup(&upstream));
    assert_eq!(covered(|| receipt_of("first").send(gate.production())).status, 200);
    let setup = gate.end();
    fs::remove_file(setup.path("sluice-audit/audit-gate.checkpoints.jsonl")).unwrap();
    let gate = setup.start();
    wait_until("the gate to say so", || {
        let lines = gate.log.all();
        lines.iter().any(|line| line.to_string().contains("somebody removed the checkpoints of the audit log"))
    });
}
