//! Holds under attack: gates that could not send, races between people, and two gates that release.

use std::sync::{Arc, Barrier};
use std::thread;

use super::{RULES, answered, approver, ask_at, gate, held, say, sent, state, swap, text};
use crate::support::gate::sluice;
use crate::support::{Redis, Setup, Upstream};

#[test]
fn rules_that_hold_where_nothing_could_be_sent_do_not_load() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).file("policies/everything.toml", &RULES.replace("people:", "main:"));
    let config = setup.write();
    let check = || {
        let output = sluice(&["check", "--config", config.to_str().unwrap()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = check();
    assert!(code == Some(3) && out.contains("`production.credential` is not set"), "{out}");
    assert!(out.contains("write `credential` into `[production]`"), "{out}");
    // Rules that hold elsewhere alone are none of its concern.
    let elsewhere = RULES.replace("people:", "main:").replace(
        "op = \"createSwap\", amount = \"(100, inf)",
        "op = \"createSwap\", environment = \"sandbox\", amount = \"(100, inf)",
    );
    let elsewhere = elsewhere.replace(
        "when = { op = [\"updateUser\", \"acceptOffer\"] }",
        "when = { op = [\"updateUser\", \"acceptOffer\"], environment = \"sandbox\" }",
    );
    let setup = setup.file("policies/everything.toml", &elsewhere);
    let (code, out) = check();
    assert_eq!(code, Some(0), "{out}");
    drop(setup);
}

/// Many holds, and two people at once on each; what became of each, and of what each was told.
fn race(first: (&'static str, &'static str), second: (&'static str, &'static str), votes_before: &[&str]) {
    const HOLDS: usize = 24;
    let upstream = Upstream::start();
    let gate = Arc::new(gate(&upstream, RULES).start());
    for n in 0..HOLDS {
        let request_id = format!("x-{n}");
        let hold = held(&gate, &request_id);
        for who in votes_before {
            assert_eq!(say(&gate, "approve", &hold, who).status, 200);
        }
        let (console, barrier) = (gate.console().unwrap(), Arc::new(Barrier::new(2)));
        let one = |(act, who): (&'static str, &'static str)| {
            let (hold, barrier) = (hold.clone(), barrier.clone());
            thread::spawn(move || {
                let mut body = serde_json::json!({ "fingerprint": hold["fingerprint"] });
                if act == "reject" {
                    body["reason"] = "a wrong account".into();
                }
                let path = format!("holds/{}/{act}", text(&hold, "id"));
                barrier.wait();
                ask_at(console, "POST", &path, &approver(who), Some(&body)).status
            })
        };
        let (first_told, second_told) = (one(first), one(second));
        let (first_told, second_told) = (first_told.join().unwrap(), second_told.join().unwrap());
        let answer = answered_or_waiting(&gate, &request_id);
        let is_rejected = first.0 == "reject" && first_told == 200 || second.0 == "reject" && second_told == 200;
        match answer {
            201 => assert!(!is_rejected, "{n}: sent after a rejection was acknowledged"),
            403 => assert!(is_rejected, "{n}: declined by nobody"),
            other => panic!("{n}: {other} ({first_told}, {second_told})"),
        }
    }
    let done = (0..HOLDS).filter(|n| swap(&format!("x-{n}"), "500").send(gate.production()).status == 201).count();
    assert_eq!(sent(&upstream), done, "each at most once");
}

fn answered_or_waiting(gate: &crate::support::Gate, request_id: &str) -> u16 {
    answered(gate, &swap(request_id, "500")).status
}

#[test]
fn two_who_complete_it_at_once_send_it_once() {
    race(("approve", "ops-2"), ("approve", "finance-1"), &["ops-1"]);
}

#[test]
fn a_vote_and_a_rejection_at_once_end_in_one_of_them() {
    race(("approve", "finance-1"), ("reject", "ops-3"), &["ops-1", "ops-2"]);
}

#[test]
fn a_replayed_vote_changes_nothing() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "y-1");
    for _ in 0..5 {
        assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    }
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("pending".to_owned(), 0));
    assert_eq!(say(&gate, "approve", &hold, "ops-1").json()["hold"]["votes"].as_array().unwrap().len(), 1);
}

/// Whichever gate a vote comes to, and whichever looks first: one of them sends.
#[test]
fn two_gates_on_one_redis_release_each_once() {
    const HOLDS: usize = 12;
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| {
        let setup = gate(&upstream, RULES).set("store", "kind", "redis").set("store", "node", node);
        setup.set("redis", "url", &redis.url()).start()
    });
    let calls: Vec<_> = (0..HOLDS).map(|n| swap(&format!("z-{n}"), "500")).collect();
    let holds: Vec<_> = calls.iter().map(|call| call.send(left.production()).json()["hold"].clone()).collect();
    for hold in &holds {
        for (at, who) in [(&left, "ops-1"), (&right, "ops-2")] {
            assert_eq!(say(at, "approve", hold, who).status, 200);
        }
        // The vote that completes it comes to both at once.
        let barrier = Arc::new(Barrier::new(2));
        let at_once = [&left, &right].map(|at| {
            let (console, hold, barrier) = (at.console().unwrap(), hold.clone(), barrier.clone());
            thread::spawn(move || {
                let (path, body) = (format!("holds/{}/approve", text(&hold, "id")), json_of(&hold));
                barrier.wait();
                ask_at(console, "POST", &path, &approver("finance-1"), Some(&body)).status
            })
        });
        for told in at_once.map(|one| one.join().unwrap()) {
            assert!(told == 200 || told == 409, "{told}");
        }
    }
    for call in &calls {
        for at in [&left, &right] {
            assert_eq!(answered(at, call).status, 201);
        }
    }
    assert_eq!(sent(&upstream), HOLDS, "each once");
}

fn json_of(hold: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({ "fingerprint": hold["fingerprint"] })
}

#[test]
fn whoever_owns_a_service_does_not_judge_what_it_asks_for() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).set_raw("console", "owners", r#"["main:test=ops-1"]"#).start();
    let hold = held(&gate, "n-1");
    let answer = say(&gate, "approve", &hold, "ops-1");
    assert!(answer.status == 403 && answer.text().contains("does not judge it"), "{answer}");
    assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);
    let wrong = gate.end().set_raw("console", "owners", r#"["test=ops-1"]"#);
    let output = sluice(&["check", "--config", wrong.write().to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(3) && told.contains("`console.owners` cannot hold `test=ops-1`"), "{told}");
}
