//! Votes and releases at a gate that never decided on their destination. The store knows that it was paid: nobody is asked for
//! more, denied, or told otherwise.

use super::*;
use crate::cases::claims::told as told_of;

/// Payments to strangers need more approvals, and large ones are denied.
const STRANGERS: &str = r#"
[[rule]]
id = "strangers"
effect = "hold"
approval = "wide"
when = { op = "createSwap", amount = "(100, 1000] USD", destination = { new = true, cooldown = "24h" } }
[[rule]]
id = "no-large-ones-to-strangers"
effect = "deny"
when = { op = "createSwap", amount = "(1000, inf) USD", destination = { new = true } }
[approval.wide]
of = "finance"
n = 2
expires = "8h"
"#;

fn setup(upstream: &Upstream) -> Setup {
    gate(upstream, &format!("{RULES}{STRANGERS}"))
}

/// Pays a destination with approval, and returns two holds for further payments to it.
fn held_to_a_known_one(gate: &Gate) -> [Value; 2] {
    let first = held(gate, "first");
    assert_eq!(approvals(&shown(gate, &first)), ["dual", "wide"]);
    all_agree(gate, &first);
    assert_eq!(say(gate, "approve", &first, "finance-2").status, 200);
    assert_eq!(told_of(&answered(gate, &swap("first", "500"))), "201 - executed again");
    let large = swap("large", "5000").send(gate.production());
    assert_eq!(large.status, 202, "{large}");
    let holds = [held(gate, "middle"), large.json()["hold"].clone()];
    assert!(holds.iter().all(|hold| approvals(hold) == ["dual"]), "{holds:?}");
    holds
}

fn approvals(hold: &Value) -> Vec<&str> {
    hold["approvals"].as_array().unwrap().iter().map(|one| text(one, "name")).collect()
}

/// Both are shown with the approval that they need, and go out with it: the votes are given once.
fn both_go_out(gate: &Gate, holds: [Value; 2]) {
    for hold in &holds {
        assert_eq!(approvals(&shown(gate, hold)), ["dual"]);
    }
    let queue = ask(gate, "GET", "holds", &approver("ops-1"), None).json();
    assert!(queue["holds"].as_array().unwrap().iter().all(|hold| approvals(hold) == ["dual"]), "{queue}");
    for hold in &holds {
        all_agree(gate, hold);
    }
    for call in [swap("middle", "500"), swap("large", "5000")] {
        assert_eq!(told_of(&answered(gate, &call)), "201 - executed again");
    }
    let reopened = r#"sluice_holds_total{environment="production",what="reopened"}"#;
    assert_eq!(gate.metric(reopened), 0);
}

#[test]
fn a_gate_that_started_between_a_hold_and_its_votes_asks_the_store() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start();
    let holds = held_to_a_known_one(&gate);
    both_go_out(&gate.end().start(), holds);
    assert_eq!(sent(&upstream), 3);
}

#[test]
fn another_gate_asks_the_store() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| on_redis(setup(&upstream), &redis, node).start().ready());
    let holds = held_to_a_known_one(&left);
    // The gate that remembers the destination is gone.
    left.end();
    both_go_out(&right, holds);
    assert_eq!(sent(&upstream), 3);
}

/// A stranger stays one for every gate.
#[test]
fn a_destination_that_was_never_paid_stays_new_after_a_start() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start();
    let hold = held(&gate, "first");
    let gate = gate.end().start();
    all_agree(&gate, &hold);
    let seen = shown(&gate, &hold);
    assert_eq!((text(&seen, "state"), approvals(&seen)), ("pending", vec!["dual", "wide"]));
    assert_eq!(say(&gate, "approve", &hold, "finance-2").status, 200);
    assert_eq!(told_of(&answered(&gate, &swap("first", "500"))), "201 - executed again");
}

/// A limit on payments to strangers counts what waits for as long as its destination is one.
#[test]
fn what_waits_is_told_of_the_limits_that_it_would_use_by_what_the_store_knows() {
    let limit = r#"
[[limit]]
id = "strangers-day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "10000 USD"
over = "deny"
when = { destination = { new = true } }
"#;
    let upstream = Upstream::start();
    let gate = gate(&upstream, &format!("{RULES}{limit}")).start();
    held(&gate, "waits");
    let told = || {
        let usage = ask(&gate, "GET", "usage?limit=strangers-day", &person("viewer", &["viewer"]), None);
        let first = usage.json()["usage"][0].clone();
        ["used", "pending"].map(|name| first[name].as_u64().unwrap_or_else(|| panic!("{usage}")))
    };
    assert_eq!(told(), [0, 500_000_000]);
    assert_eq!(told_of(&swap("paid", "50").send(gate.production())), "201 - executed");
    assert_eq!(told(), [50_000_000, 0]);
}
