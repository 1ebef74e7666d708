//! Who may judge, what a vote is for, and that what is decided stays so.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::{
    RULES, all_agree, answered, approver, ask, command, gate, held, named, person, say, sent, state, swap, text,
};
use crate::cases::console::policies::assert_described;
use crate::support::Upstream;
use crate::support::clock::{PATIENCE, wait_until};

#[test]
fn it_takes_its_whole_quorum_and_nobody_counts_twice() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "q-1");
    // ops-3 is of both groups, and stands for one of them.
    for (who, given) in [("ops-3", 1), ("ops-1", 2)] {
        let answer = say(&gate, "approve", &hold, who).json();
        assert_eq!(
            (answer["changed"].as_bool(), answer["hold"]["approvals"][0]["given"].as_u64()),
            (Some(true), Some(given))
        );
    }
    let again = say(&gate, "approve", &hold, "ops-1").json();
    assert_eq!((&again["changed"], &again["hold"]["approvals"][0]["given"]), (&json!(false), &json!(2)));
    assert_eq!(state(&gate, &hold), "pending");
    // A vote that is taken back does not count.
    assert_eq!(say(&gate, "withdraw", &hold, "ops-1").json()["changed"], true);
    assert_eq!(say(&gate, "withdraw", &hold, "ops-1").json()["changed"], false);
    assert_eq!(say(&gate, "approve", &hold, "ops-2").json()["hold"]["approvals"][0]["given"], 2);
    assert_eq!(sent(&upstream), 0);
    assert_eq!(say(&gate, "approve", &hold, "finance-1").status, 200);
    assert_eq!(answered(&gate, &swap("q-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
    // What is decided takes no more words.
    for act in ["approve", "withdraw", "reject"] {
        assert_eq!(say(&gate, act, &hold, "ops-1").code(), "HOLD_OVER", "{act}");
    }
}

#[test]
fn one_rejection_is_final_also_after_votes_and_its_caller_hears_why() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "r-1");
    for who in ["ops-1", "ops-2"] {
        assert_eq!(say(&gate, "approve", &hold, who).status, 200);
    }
    let (code, out, err) = command(
        &gate,
        &["approvals", "reject", text(&hold, "id"), "--reason", "a wrong account", "--yes"],
        "finance-1",
    );
    assert!(code == 0 && out == "Rejected.\n", "{out}{err}");
    // Nobody is needed any more, and a person is told so before a confirmation.
    let (_, shown, _) = command(&gate, &["approvals", "show", text(&hold, "id")], "finance-2");
    assert!(shown.contains("  had     ") && !shown.contains("\n  needs "), "{shown}");
    assert!(shown.contains("  rejected finance-1: a wrong account\n"), "{shown}");
    let (code, _, err) = command(&gate, &["approvals", "approve", text(&hold, "id"), "--yes"], "finance-2");
    assert!(code == 4 && err.contains("this hold is over: Rejected. No vote was cast"), "{err}");
    assert_eq!(say(&gate, "approve", &hold, "finance-2").code(), "HOLD_OVER");
    for _ in 0..2 {
        let answer = swap("r-1", "500").send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_REJECTED"), "{answer}");
        assert_eq!((answer.outcome(), answer.origin()), ("not-executed".to_owned(), "gateway".to_owned()));
        assert!(answer.text().contains("a wrong account") && !answer.text().contains("finance-1"), "{answer}");
    }
    assert_eq!(sent(&upstream), 0);
}

#[test]
fn nobody_judges_what_they_asked_for_whatever_credential_they_show() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    // The caller's subject is `test`: a member of ops, by a second credential.
    let hold = held(&gate, "o-1");
    for act in ["approve", "reject"] {
        let answer = say(&gate, act, &hold, "test");
        assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"), "{answer}");
        assert!(answer.text().contains("others must approve or reject it"), "{answer}");
    }
    assert_eq!(state(&gate, &hold), "pending");
}

#[test]
fn only_approvers_of_the_groups_that_are_asked_are_heard() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "a-1");
    let path = format!("holds/{}/approve", text(&hold, "id"));
    let body = named(&hold, "approve");
    for role in ["viewer", "operator", "policy-admin", "nobody"] {
        let answer = ask(&gate, "POST", &path, &person("ops-1", &[role]), Some(body.clone()));
        assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"), "{role}: {answer}");
    }
    let stranger = ask(&gate, "POST", &path, &approver("stranger"), Some(body.clone()));
    assert!(stranger.status == 403 && stranger.text().contains("none of the groups"), "{stranger}");
    // A caller's own token is no person's.
    let callers = crate::support::token::token();
    assert_eq!(ask(&gate, "POST", &path, callers, Some(body)).status, 401);
    assert_eq!(state(&gate, &hold), "pending");
}

#[test]
fn a_vote_is_for_the_bytes_that_were_seen() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let (hold, other) = (held(&gate, "b-1"), held(&gate, "b-2"));
    let path = format!("holds/{}/approve", text(&hold, "id"));
    let vote = |member: &str, digest: &str| {
        let mut body = named(&hold, "approve");
        body[member] = json!(digest);
        ask(&gate, "POST", &path, &approver("ops-1"), Some(body))
    };
    assert_eq!(vote("fingerprint", text(&other, "fingerprint")).code(), "OTHER_BYTES");
    let zeros = "0".repeat(64);
    assert_eq!(vote("fingerprint", &zeros).code(), "OTHER_BYTES");
    let refused = vote("causes", &zeros);
    assert_eq!((refused.status, refused.code().as_str()), (409, "OTHER_CAUSES"), "{refused}");
    assert!(refused.text().contains("Your vote does not count"), "{refused}");
    assert_eq!([vote("fingerprint", "").status, vote("causes", "").status], [400, 400]);
    assert_eq!(ask(&gate, "POST", &path, &approver("ops-1"), Some(json!({}))).status, 400);
    assert_eq!(state(&gate, &hold), "pending");
    // The words of one hold do nothing to another.
    all_agree(&gate, &hold);
    assert_eq!(answered(&gate, &swap("b-1", "500")).status, 201);
    assert_eq!((state(&gate, &other), sent(&upstream)), ("pending".to_owned(), 1));
}

#[test]
fn roles_see_what_they_need() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "s-1");
    let path = format!("holds/{}", text(&hold, "id"));
    for (role, sees) in [("approver", true), ("operator", true), ("viewer", false), ("policy-admin", false)] {
        let shown = ask(&gate, "GET", &path, &person("finance-1", &[role]), None).json();
        assert_eq!((shown.get("sent").is_some(), shown["mayJudge"] == (role == "approver")), (sees, true), "{role}");
        let words: Vec<&str> = shown["words"].as_array().unwrap().iter().map(|word| text(word, "text")).collect();
        assert!(words.contains(&"500 usdt, on POLYGON"), "{words:?}");
    }
    let comment = json!({ "text": "looks right" });
    let said = ask(&gate, "POST", &format!("{path}/comment"), &approver("ops-1"), Some(comment));
    assert_eq!(said.json()["hold"]["notes"][0]["text"], "looks right");
}

/// Who judges sees what went there before, and what is left of the limits that it counts in.
#[test]
fn earlier_payments_and_limits_are_shown_of_what_waits() {
    let upstream = Upstream::start();
    let limit = r#"
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "1000 USD"
over = "deny"
"#;
    let gate = gate(&upstream, &format!("{RULES}{limit}")).start();
    let shown = |hold: &serde_json::Value| {
        ask(&gate, "GET", &format!("holds/{}", text(hold, "id")), &approver("ops-1"), None).json()
    };
    let before = shown(&held(&gate, "b-1"));
    let destination = "wallet:POLYGON:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    assert_eq!(before["paidBefore"], json!([{ "destination": destination, "at": null }]), "{before}");
    let day = |used: u64, left: u64, after: u64| {
        json!([{
            "limit": "day", "key": { "environment": "production" }, "unit": "microUsd", "max": 1_000_000_000,
            "used": used, "left": left, "adds": 500_000_000, "leftAfter": after, "over": "deny", "mode": "enforce",
        }])
    };
    assert_eq!(before["limits"], day(0, 1_000_000_000, 500_000_000));
    for n in 0..6 {
        assert_eq!(swap(&format!("p-{n}"), "100").send(gate.production()).status, 201);
    }
    let hold = held(&gate, "b-2");
    let after = shown(&hold);
    assert!(after["paidBefore"][0]["at"].as_str() > before["createdAt"].as_str(), "{after}");
    assert_eq!(after["limits"], day(600_000_000, 400_000_000, 0));
    assert_eq!(say(&gate, "reject", &hold, "ops-1").status, 200);
    assert!(shown(&hold).get("limits").is_none());
}

/// The queue and the hold say the same of what was paid before, to those who may see it.
#[test]
fn earlier_payments_of_the_same_amount_are_named_in_the_queue_and_in_the_hold() {
    let upstream = Upstream::start();
    let limit = r#"
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "1100 USD"
over = "hold"
approval = "dual"
"#;
    let gate = gate(&upstream, &format!("{RULES}{limit}")).start();
    for n in 0..3 {
        assert_eq!(swap(&format!("p-{n}"), "100").send(gate.production()).status, 201);
    }
    let (first, second) = (held(&gate, "e-1"), held(&gate, "e-2"));
    let shown = |hold: &serde_json::Value| {
        let answer = ask(&gate, "GET", &format!("holds/{}", text(hold, "id")), &approver("ops-1"), None);
        assert_described(&answer, "hold");
        answer.json()
    };
    let listed = |query: &str, token: &str| {
        let answer = ask(&gate, "GET", &format!("holds?{query}"), token, None);
        assert_described(&answer, "holds");
        answer.json()["holds"].as_array().unwrap().clone()
    };
    let row = |hold: &serde_json::Value| {
        let all = listed("earlier=true", &approver("ops-1"));
        all.into_iter().find(|one| one["id"] == hold["id"]).unwrap()
    };
    let names = |one: &serde_json::Value| {
        let same = one["earlier"]["same"].as_array().unwrap().clone();
        same.iter().map(|one| (text(one, "name").to_owned(), text(one, "status").to_owned())).collect::<Vec<_>>()
    };
    wait_until("the journal to tell of all", || shown(&first)["earlier"]["paid"]["count"] == 3);
    for (hold, other) in [(&first, "e-2"), (&second, "e-1")] {
        wait_until("the other hold to be told", || names(&row(hold)) == [(other.to_owned(), "waiting".to_owned())]);
        assert_eq!(shown(hold)["earlier"], row(hold)["earlier"]);
        assert_eq!(row(hold)["earlier"]["paid"], json!({ "count": 3, "amount": "300" }));
        assert_eq!(row(hold)["overLimit"], json!(false));
    }
    // Alone it is more than the limit.
    let third = swap("e-3", "1200").send(gate.production()).json()["hold"].clone();
    let third = row(&third);
    assert_eq!((&third["overLimit"], &third["equalPayment"]), (&json!(true), &json!(false)), "{third}");
    // A list that does not ask is not told, and a closed hold is not judged.
    assert!(listed("", &approver("ops-1")).iter().all(|one| one.get("earlier").is_none()));
    assert_eq!(say(&gate, "reject", &first, "ops-1").status, 200);
    assert!(shown(&first).get("earlier").is_none());
    assert!(listed("state=declined&earlier=true", &approver("ops-1"))[0].get("earlier").is_none());
    wait_until("the rejection to be told", || names(&row(&second)) == [("e-1".to_owned(), "refused".to_owned())]);
    for odd in ["earlier=yes", "earlier=", "mine=1"] {
        assert_eq!(ask(&gate, "GET", &format!("holds?{odd}"), &approver("ops-1"), None).status, 400, "{odd}");
    }
}

/// A hold of a caller that a person may see is judged without the payments of callers that the person may not see.
#[test]
fn earlier_payments_of_hidden_callers_are_not_told() {
    let upstream = Upstream::start();
    let setup = gate(&upstream, RULES).set_raw("console", "visible", r#"["viewer:production:main:somebody"]"#);
    let gate = setup.start();
    assert_eq!(swap("p-1", "100").send(gate.production()).status, 201);
    let hold = held(&gate, "e-1");
    let path = format!("holds/{}", text(&hold, "id"));
    let of = |role: &str| ask(&gate, "GET", &path, &person("x", &[role]), None);
    wait_until("the payment to be told", || of("approver").json()["earlier"]["paid"]["count"] == 1);
    assert_eq!(of("viewer").status, 404);
    let list = ask(&gate, "GET", "holds?earlier=true", &person("x", &["viewer"]), None).json();
    assert_eq!(list["holds"], json!([]));
}

#[test]
fn holds_are_listed_by_their_expiry_and_paged() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let made: Vec<String> = (0..5).map(|n| text(&held(&gate, &format!("l-{n}")), "id").to_owned()).collect();
    let list = |query: &str| ask(&gate, "GET", &format!("holds?{query}"), &approver("ops-1"), None);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("limit=2{after}")).json();
        seen.extend(page["holds"].as_array().unwrap().iter().map(|one| text(one, "id").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    assert_eq!(list("state=approved").json()["holds"], json!([]));
    assert_eq!(list("state=pending&environment=production").json()["holds"].as_array().unwrap().len(), 5);
    for odd in ["state=odd", "limit=0", "limit=101", "after=x", "environment=sandbox", "odd=1"] {
        assert_eq!(list(odd).status, 400, "{odd}");
    }
}

#[test]
fn who_listens_hears_when_to_look_again_and_an_end_ends_it() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let mut listener = TcpStream::connect(gate.console().unwrap()).unwrap();
    listener.set_read_timeout(Some(PATIENCE)).unwrap();
    let token = person("viewer-1", &["viewer"]);
    let head =
        format!("GET /sluice/v1/holds/changes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    listener.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(listener).lines().map_while(Result::ok);
    let mut numbers = || {
        let data = lines.find_map(|line| Some(line.strip_prefix("data: ")?.to_owned())).expect("an event");
        serde_json::from_str::<serde_json::Value>(&data).unwrap()["number"].as_u64().unwrap()
    };
    let before = numbers();
    let hold = held(&gate, "h-1");
    while numbers() <= before {}
    assert_eq!(state(&gate, &hold), "pending");
    let nobody = ask(&gate, "GET", "holds/changes", &person("x", &[]), None);
    assert_eq!((nobody.status, nobody.code().as_str()), (403, "FORBIDDEN"));
    gate.terminate();
    while lines.next().is_some() {}
    assert!(gate.wait_end().success());
}
