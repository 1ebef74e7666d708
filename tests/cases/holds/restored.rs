//! A store that was set back knows neither what was sent since nor what was rejected; the journal knows both.

use std::fs;

use serde_json::{Value, json};

use super::{
    PEOPLE, RULES, all_agree, answered, approver, ask, claims, gate, held, on_redis, say, sent, signed, state, swap,
    text,
};
use crate::cases::nodes::all_have_it;
use crate::support::clock::wait_until;
use crate::support::{Gate, Redis, Setup, Upstream, copy_folder};

#[test]
fn holds_stand_as_they_stood_after_the_store_was_set_back() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let (paid, rejected) = (held(&gate, "m-1"), held(&gate, "m-2"));
    for hold in [&paid, &rejected] {
        assert_eq!(say(&gate, "approve", hold, "ops-1").status, 200);
    }
    let setup = gate.end();
    copy_folder(&setup.path("sluice-data"), &setup.path("before"));
    let gate = setup.start();
    all_agree(&gate, &paid);
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201);
    assert_eq!(say(&gate, "reject", &rejected, "ops-2").status, 200);
    let waiting = held(&gate, "m-3");
    assert_eq!(say(&gate, "approve", &waiting, "ops-1").status, 200);
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();
    copy_folder(&setup.path("before"), &setup.path("sluice-data"));

    let gate = setup.start();
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201, "it was paid, and is told so");
    assert_eq!(state(&gate, &paid), "released");
    assert_eq!(state(&gate, &rejected), "rejected");
    let answer = swap("m-2", "500").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_REJECTED"), "{answer}");
    assert_eq!(say(&gate, "approve", &rejected, "ops-3").status, 409);
    assert_eq!(state(&gate, &waiting), "pending", "with the vote that it had");
    all_agree(&gate, &waiting);
    assert_eq!(answered(&gate, &swap("m-3", "500")).status, 201, "money is open");
    assert_eq!(sent(&upstream), 2, "once each, and what was rejected never");
}

fn is_frozen(gate: &Gate) -> bool {
    let answer = swap("small", "50").send(gate.production());
    answer.code() == "FROZEN"
}

fn opens(gate: &Gate) {
    wait_until("money to move", || swap("small", "50").send(gate.production()).status == 201);
}

/// Waits until the store has what was rebuilt of each environment.
fn stands(gate: &Gate, hold: &Value, wanted: &str) {
    let path = format!("holds/{}", text(hold, "id"));
    let mut last = String::new();
    wait_until("the hold to be shown", || {
        let answer = ask(gate, "GET", &path, &approver("ops-1"), None);
        last = answer.text();
        answer.status == 200
    });
    let shown: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(shown["state"], wanted, "{shown}");
}

/// The awaited journal has nothing that the others lack, so nothing of a hold is forgotten.
#[test]
fn holds_stand_as_they_stood_after_the_last_awaited_gate_opened_money() {
    for is_killed in [false, true] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let [left, right] =
            ["left", "right"].map(|node| on_redis(gate(&upstream, RULES), &redis, node).start().ready());
        let (waiting, rejected) = (held(&left, "m-1"), held(&right, "m-2"));
        assert_eq!(say(&right, "approve", &waiting, "ops-1").status, 200);
        assert_eq!(say(&left, "approve", &rejected, "ops-1").status, 200);
        assert_eq!(say(&right, "reject", &rejected, "ops-2").status, 200);
        all_have_it(&redis);
        right.signal("STOP");
        redis.ask(&["FLUSHALL"]);
        wait_until("money to be closed", || is_frozen(&left));
        let right = if is_killed {
            right.kill().start()
        } else {
            right.signal("CONT");
            right
        };
        opens(&left);
        opens(&right);
        stands(&left, &waiting, "pending");
        stands(&left, &rejected, "rejected");
        all_agree(&right, &waiting);
        assert_eq!(answered(&left, &swap("m-1", "500")).status, 201);
        assert_eq!(sent(&upstream), 2, "a small one and the one that waited");
    }
}

fn operator(subject: &str) -> String {
    let mut claims = claims();
    (claims["iss"], claims["sub"], claims["roles"]) = (json!(PEOPLE), json!(subject), json!(["operator"]));
    signed(&claims)
}

/// Two people say that money is to move again.
fn open(gate: &Gate) {
    for who in ["oper-1", "oper-2"] {
        let body = json!({"environment": "production", "scope": "restored", "reason": "upstream was asked"});
        let answer = ask(gate, "POST", "freezes/lift", &operator(who), Some(body));
        assert!([200, 202].contains(&answer.status), "{answer}");
    }
}

fn without_folder(stopped: Setup) -> Gate {
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    stopped.start()
}

/// People answer for what was before the journal's beginning; what it has of a hold since is whole.
#[test]
fn holds_stand_as_they_stood_after_people_opened_money_for_a_beginning() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let first = on_redis(gate(&upstream, RULES), &redis, "left").start().ready();
    assert_eq!(swap("before", "50").send(first.production()).status, 201);
    all_have_it(&redis);
    let gate = without_folder(first.end());
    wait_until("money to be closed", || is_frozen(&gate));
    open(&gate);
    wait_until("money to move", || swap("since", "50").send(gate.production()).status == 201);
    let waiting = held(&gate, "m-1");
    assert_eq!(say(&gate, "approve", &waiting, "ops-1").status, 200);
    all_have_it(&redis);
    redis.ask(&["FLUSHALL"]);
    stands(&gate, &waiting, "pending");
    all_agree(&gate, &waiting);
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 3);
}

/// The journal that people did not wait for may have a rejection, or that it was sent.
#[test]
fn holds_end_where_people_open_money_without_an_awaited_journal() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| on_redis(gate(&upstream, RULES), &redis, node).start().ready());
    let waiting = held(&left, "m-1");
    all_have_it(&redis);
    left.signal("STOP");
    all_agree(&right, &waiting);
    assert_eq!(answered(&right, &swap("m-1", "500")).status, 201);
    redis.ask(&["FLUSHALL"]);
    drop(right.kill());
    left.signal("CONT");
    wait_until("money to be closed", || is_frozen(&left));
    open(&left);
    stands(&left, &waiting, "forgotten");
    assert_ne!(swap("m-1", "500").send(left.production()).status, 202);
    assert_eq!(sent(&upstream), 1);
}
