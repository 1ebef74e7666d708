//! Who votes in another's place: one seat, one voice, for a time, and not after it was taken back.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{RULES, answered, approver, ask, command, gate, held, person, say, sent, state, swap, text};
use crate::support::clock::wait_until;
use crate::support::{Answer, Gate, Upstream};

fn after(seconds: u64) -> String {
    (now() + Duration::from_secs(seconds)).to_string()
}

#[expect(clippy::disallowed_methods, reason = "the gate lives by the time of day")]
fn now() -> Timestamp {
    Timestamp::now()
}

pub(super) fn name(gate: &Gate, member: &str, who: &str, seconds: u64) -> Answer {
    let body = json!({"environment": "production", "person": who, "until": after(seconds), "reason": "on leave"});
    ask(gate, "POST", "stand-ins", &approver(member), Some(body))
}

fn revoke(gate: &Gate, token: &str, member: &str, who: &str) -> Answer {
    let body = json!({"environment": "production", "for": member, "person": who, "reason": "back again"});
    ask(gate, "POST", "stand-ins/revoke", token, Some(body))
}

fn given(gate: &Gate, hold: &Value) -> u64 {
    let shown = ask(gate, "GET", &format!("holds/{}", text(hold, "id")), &approver("ops-1"), None).json();
    shown["approvals"][0]["given"].as_u64().unwrap()
}

#[test]
fn a_stand_in_fills_the_seat_of_the_member_and_no_other() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "s-1");
    assert_eq!(say(&gate, "approve", &hold, "dora").status, 403);
    let named = name(&gate, "ops-1", "dora", 3600);
    assert_eq!((named.status, &named.json()["standIn"]["for"]), (201, &json!("ops-1")), "{named}");
    let answer = say(&gate, "approve", &hold, "dora");
    assert_eq!((answer.status, &answer.json()["hold"]["votes"][0]["for"]), (200, &json!(["people:ops-1"])), "{answer}");
    assert_eq!(given(&gate, &hold), 1);
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200, "it is their seat, too");
    assert_eq!(given(&gate, &hold), 1, "which is filled once");
    // A member who stands in for another is one person.
    assert_eq!(name(&gate, "finance-1", "ops-2", 3600).status, 201);
    assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);
    assert_eq!((given(&gate, &hold), sent(&upstream)), (2, 0));
    assert_eq!(say(&gate, "approve", &hold, "finance-2").status, 200);
    assert_eq!(answered(&gate, &swap("s-1", "500")).status, 201);
    let listed = command(&gate, &["approvals", "stand-in", "list"], "ops-3").1;
    let is_listed = |line: &str| line.split_whitespace().take(3).eq(["production", "dora", "ops-1"]);
    assert!(listed.lines().any(is_listed), "{listed}");
}

#[test]
fn nobody_stands_in_for_whoever_asked_and_nothing_is_passed_on() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "r-1");
    assert_eq!(name(&gate, "test", "dora", 3600).status, 201);
    assert_eq!(say(&gate, "approve", &hold, "dora").status, 403, "in the place of whoever asked");
    assert_eq!(name(&gate, "ops-1", "test", 3600).status, 201);
    assert_eq!(say(&gate, "approve", &hold, "test").status, 403, "whoever asked, in another's place");
    // ops-2 names eve, who is in no group: what she was given she cannot give away.
    assert_eq!(name(&gate, "ops-2", "eve", 3600).status, 201);
    let answer = name(&gate, "eve", "fred", 3600);
    assert!(answer.status == 403 && answer.text().contains("you are not a member of any group"), "{answer}");
    assert_eq!(say(&gate, "approve", &hold, "fred").status, 403);
    // finance-1 names ops-2's seat's stand-in: eve has two seats to choose from, and fills one.
    assert_eq!(name(&gate, "finance-1", "eve", 3600).status, 201);
    assert_eq!(say(&gate, "approve", &hold, "eve").status, 200);
    assert_eq!(given(&gate, &hold), 1);
    for (who, seconds, status) in [("ops-1", 3600, 400), ("x", 32 * 24 * 3600, 400), ("x", 0, 400)] {
        assert_eq!(name(&gate, "ops-1", who, seconds).status, status, "{who} {seconds}");
    }
    let viewer = person("ops-1", &["viewer"]);
    let body = json!({"environment": "production", "person": "x", "until": after(60), "reason": "on leave"});
    assert_eq!(ask(&gate, "POST", "stand-ins", &viewer, Some(body)).status, 403, "it takes the role to vote");
}

/// Who is revoked, or whose time is over, does not count at the release any more.
#[test]
fn what_was_taken_back_or_is_over_is_obeyed_at_the_release() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let operator = person("op", &["operator"]);
    let freeze = |path: &str| {
        let body = json!({"environment": "production", "scope": "all", "reason": "a drill"});
        // It takes two people to lift a freeze.
        let people = if path == "freezes" { &["op"][..] } else { &["op", "op-2"] };
        for who in people {
            let status = ask(&gate, "POST", path, &person(who, &["operator"]), Some(body.clone())).status;
            assert!(status < 300, "{status}");
        }
    };
    let (revoked, over) = (held(&gate, "t-1"), held(&gate, "t-2"));
    assert_eq!(name(&gate, "finance-1", "dora", 3600).status, 201);
    assert_eq!(name(&gate, "finance-2", "fred", 3600).status, 201);
    freeze("freezes");
    for (hold, stand_in) in [(&revoked, "dora"), (&over, "fred")] {
        for who in ["ops-1", "ops-2", stand_in] {
            assert_eq!(say(&gate, "approve", hold, who).status, 200, "{who}");
        }
        assert_eq!(state(&gate, hold), "approved");
    }
    assert_eq!(revoke(&gate, &approver("stranger"), "finance-1", "dora").status, 403);
    assert_eq!(revoke(&gate, &operator, "finance-1", "dora").json(), json!({ "changed": true }));
    assert_eq!(revoke(&gate, &operator, "finance-1", "dora").json(), json!({ "changed": false }));
    // Named again, it is for a shorter time.
    assert_eq!(name(&gate, "finance-2", "fred", 2).status, 201);
    wait_until("the other to be over", || {
        let all = ask(&gate, "GET", "stand-ins", &approver("ops-1"), None).json();
        all["standIns"].as_array().unwrap().is_empty()
    });
    freeze("freezes/lift");
    for (hold, stand_in) in [(&revoked, "dora"), (&over, "fred")] {
        wait_until("it to wait for people again", || state(&gate, hold) == "pending");
        assert_eq!(say(&gate, "approve", hold, stand_in).status, 403);
    }
    assert_eq!(sent(&upstream), 0);
    assert_eq!(say(&gate, "approve", &revoked, "finance-1").status, 200);
    assert_eq!(answered(&gate, &swap("t-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn by_command_line_and_in_the_audit_chain() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let until = after(3600);
    let words = ["approvals", "stand-in", "name", "--environment", "production", "dora", "--until", &until];
    let (code, out, err) = command(&gate, &[&words[..], &["--reason", "on leave"]].concat(), "ops-1");
    assert!(code == 0 && out.starts_with("Named: production dora for ops-1, from "), "{out}{err}");
    let words = ["approvals", "stand-in", "revoke", "--environment", "production", "dora", "--reason", "back"];
    assert_eq!(command(&gate, &words, "ops-1").1, "No longer a stand-in: dora\n");
    assert_eq!(command(&gate, &words, "ops-1").1, "Not a stand-in: dora\n");
    assert_eq!(command(&gate, &["approvals", "stand-in", "list"], "ops-1").1, "No stand-ins are named.\n");
    let setup = gate.end();
    let files = std::fs::read_dir(setup.path("sluice-audit")).unwrap().map(|entry| entry.unwrap().path());
    let chain: String = files.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    let entry = |what: &str| {
        let lines = chain.lines().filter(|line| line.contains("people:dora"));
        lines.filter(|line| line.contains(&format!("\"{what}\""))).count()
    };
    assert_eq!((entry("stand-in"), entry("stand-in-revoked")), (1, 1), "{chain}");
}
