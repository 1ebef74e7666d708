//! What lies between the last vote and upstream: rules, groups and limits of that moment, and everything that breaks.

use super::{RULES, all_agree, answered, approver, ask, body, gate, held, say, sent, state, swap, text};
use crate::cases::claims::told;
use crate::support::clock::wait_until;
use crate::support::upstream::answer;
use crate::support::{Act, Upstream};

/// People may approve while money is frozen; it stays approved.
fn frozen(gate: &crate::support::Gate, is_frozen: bool) {
    let body = serde_json::json!({"environment": "production", "scope": "all", "reason": "a drill"});
    let path = if is_frozen { "freezes" } else { "freezes/lift" };
    let people = if is_frozen { &["op"][..] } else { &["op", "op-2"] };
    for who in people {
        let done = ask(gate, "POST", path, &super::person(who, &["operator"]), Some(body.clone()));
        assert!(done.status < 300, "{done}");
    }
}

#[test]
fn what_the_rules_of_today_deny_is_blocked() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "t-1");
    frozen(&gate, true);
    all_agree(&gate, &hold);
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("approved".to_owned(), 0));
    let denying = format!(
        "{RULES}\n[[rule]]\nid = \"no-more\"\neffect = \"deny\"\nwhen = {{ op = \"createSwap\", amount = \"(400, inf) USD\" }}\n"
    );
    let gate = gate.end().file("policies/everything.toml", &denying).start();
    frozen(&gate, false);
    let answer = answered(&gate, &swap("t-1", "500"));
    assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_BLOCKED"), "{answer}");
    assert!(answer.text().contains("no-more"), "{answer}");
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("blocked".to_owned(), 0));
}

#[test]
fn who_was_removed_from_a_group_does_not_count_any_more() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "g-1");
    frozen(&gate, true);
    all_agree(&gate, &hold);
    let without = RULES.replace("\"people:ops-1\", ", "");
    let gate = gate.end().file("policies/everything.toml", &without).start();
    frozen(&gate, false);
    wait_until("it to wait for people again", || state(&gate, &hold) == "pending");
    assert_eq!(sent(&upstream), 0);
    assert_eq!(say(&gate, "approve", &hold, "ops-3").status, 200);
    assert_eq!(answered(&gate, &swap("g-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
}

/// Their vote stands, and is a vote again as soon as they are a member again: said again, it completes.
#[test]
fn who_is_a_member_again_says_it_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "h-1");
    for who in ["ops-1", "finance-1"] {
        assert_eq!(say(&gate, "approve", &hold, who).status, 200);
    }
    let without = RULES.replace("\"people:ops-1\", ", "");
    let gate = gate.end().file("policies/everything.toml", &without).start();
    assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);
    assert_eq!(state(&gate, &hold), "pending", "one of ops is missing");
    let gate = gate.end().file("policies/everything.toml", RULES).start();
    assert_eq!(state(&gate, &hold), "pending");
    assert_eq!(say(&gate, "approve", &hold, "ops-1").json()["changed"], true);
    assert_eq!(answered(&gate, &swap("h-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn a_full_window_is_obeyed_and_only_its_own_approval_exceeds_it() {
    let limit = "[[limit]]\nid = \"hour\"\nops = [\"createSwap\"]\nwindow = \"rolling 1h\"\nper = [\"environment\"]\nmax = \"700 USD\"\n";
    for (over, passes) in [("over = \"deny\"\n", false), ("over = \"hold\"\napproval = \"dual\"\n", true)] {
        let upstream = Upstream::start();
        let gate = gate(&upstream, &format!("{RULES}{limit}{over}")).start();
        let (first, second) = (held(&gate, "l-1"), held(&gate, "l-2"));
        all_agree(&gate, &first);
        assert_eq!(answered(&gate, &swap("l-1", "500")).status, 201);
        all_agree(&gate, &second);
        if passes {
            // The voters did not see that it exceeds the limit: they are asked again, and see it.
            wait_until("it to wait for people again", || state(&gate, &second) == "pending");
            assert_eq!(sent(&upstream), 1);
            let path = format!("holds/{}", text(&second, "id"));
            let shown = ask(&gate, "GET", &path, &approver("ops-1"), None).json();
            let reason = serde_json::json!({"rule": "hour", "text": "over the limit of 700 USD, up to 1200 USD: needs 2 of `ops` and 1 of `finance`"});
            assert!(shown["reasons"].as_array().unwrap().contains(&reason), "{shown}");
            assert_eq!((&shown["votes"], &shown["causes"]), (&serde_json::json!([]), &super::causes(&shown).into()));
            // A vote for what was shown before is none.
            let late = say(&gate, "approve", &second, "ops-1");
            assert_eq!((late.status, late.code().as_str()), (409, "OTHER_CAUSES"), "{late}");
            all_agree(&gate, &shown);
            assert_eq!(answered(&gate, &swap("l-2", "500")).status, 201);
        } else {
            let full = r#"sluice_holds_total{environment="production",what="full"}"#;
            wait_until("its release to be tried", || gate.metric(full) > 0);
            assert_eq!(state(&gate, &second), "approved", "it waits for room, and is not blocked");
            assert_eq!(swap("l-2", "500").send(gate.production()).status, 202);
        }
        assert_eq!(sent(&upstream), if passes { 2 } else { 1 });
    }
}

#[test]
fn a_gate_that_is_killed_loses_nothing_and_doubles_nothing() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "k-1");
    frozen(&gate, true);
    all_agree(&gate, &hold);
    let gate = gate.kill().start();
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("approved".to_owned(), 0));
    frozen(&gate, false);
    assert_eq!(answered(&gate, &swap("k-1", "500")).status, 201);
    let gate = gate.kill().start();
    assert_eq!(answered(&gate, &swap("k-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);

    // Killed while it is being sent: nobody knows, and nobody sends it again.
    let hold = held(&gate, "k-2");
    upstream.next(Act::silence().hang());
    all_agree(&gate, &hold);
    wait_until("it to reach upstream", || sent(&upstream) == 2);
    let gate = gate.kill().start();
    let answer = swap("k-2", "500").send(gate.production());
    assert_eq!((answer.code().as_str(), answer.outcome()), ("OUTCOME_UNKNOWN", "unknown".to_owned()), "{answer}");
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("released".to_owned(), 2));
}

#[test]
fn what_upstream_certainly_did_not_do_is_tried_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "u-1");
    let busy = r#"{"code":429,"error":"TOO_MANY","errorDetails":"later"}"#;
    upstream.next(Act::bytes(answer(429, &[("Content-Type", "application/json")], busy.as_bytes())));
    all_agree(&gate, &hold);
    wait_until("its first attempt", || sent(&upstream) >= 1);
    assert_eq!(answered(&gate, &swap("u-1", "500")).status, 201);
    let bodies: Vec<String> = upstream.seen().iter().map(|seen| seen.text()).collect();
    assert_eq!(bodies, [body("u-1", "500"), body("u-1", "500")], "byte for byte");
    let shown = ask(&gate, "GET", &format!("holds/{}", text(&hold, "id")), &approver("ops-1"), None).json();
    assert_eq!((&shown["state"], &shown["tries"]), (&"released".into(), &1.into()));
}

#[test]
fn what_upstream_refuses_is_its_answer_and_what_it_leaves_open_stays_unknown() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let (refused, open) = (held(&gate, "v-1"), held(&gate, "v-2"));
    upstream.next(Act::json(400, r#"{"code":400,"error":"NO","errorDetails":"no such wallet"}"#));
    all_agree(&gate, &refused);
    let answer = answered(&gate, &swap("v-1", "500"));
    assert_eq!((answer.status, answer.outcome()), (400, "not-executed".to_owned()), "{answer}");
    upstream.next(Act::silence().close());
    all_agree(&gate, &open);
    wait_until("it to be in doubt", || swap("v-2", "500").send(gate.production()).code() == "OUTCOME_UNKNOWN");
    assert_eq!(sent(&upstream), 2);
}

#[test]
fn what_people_do_not_decide_in_time_expires() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &RULES.replace("expires = \"8h\"", "expires = \"1m\"")).start();
    let hold = held(&gate, "e-1");
    let (created, expires) = (text(&hold, "createdAt").to_owned(), text(&hold, "expiresAt").to_owned());
    let moment = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    assert_eq!(moment(&expires) - moment(&created), 60_000_000);
}

/// Nobody must make it again under another requestId because they read that it is not sent.
#[test]
fn people_read_that_the_gate_sends_an_approved_call_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let busy = r#"{"code":429,"error":"TOO_MANY","errorDetails":"later"}"#;
    upstream.always(Act::bytes(answer(429, &[("Content-Type", "application/json")], busy.as_bytes())));
    let hold = held(&gate, "b-9");
    all_agree(&gate, &hold);
    let payment = || ask(&gate, "GET", "payments/production/b-9", &super::person("v", &["viewer"]), None).json();
    wait_until("an attempt to be refused", || {
        let told = payment();
        told["status"] == "waiting" && told["event"] == "certainly not executed yet; the gate sends it again by itself"
    });
    let list = |status: &str| {
        let path = format!("payments?status={status}");
        ask(&gate, "GET", &path, &super::person("v", &["viewer"]), None).json()["count"].clone()
    };
    assert_eq!((list("waiting"), list("not-sent")), (1.into(), 0.into()));
    upstream.always(Act::done(201));
    wait_until("it to be paid", || payment()["status"] == "paid");
}

/// A hold whose approvals are today's has today's reasons, too: a vote on those of before would be in vain.
#[test]
fn a_vote_after_a_stricter_set_shows_its_reasons_first() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let call = swap("s-1", "500");
    let hold = call.send(gate.production()).json()["hold"].clone();
    let id = text(&hold, "id").to_owned();
    let shown = || ask(&gate, "GET", &format!("holds/{id}"), &approver("ops-2"), None).json();
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    let more = "[[rule]]\nid = \"more\"\neffect = \"hold\"\napproval = \"one\"\nwhen = { op = \"createSwap\" }\n";
    let version = || text(&ask(&gate, "GET", "policies", &approver("ops-1"), None).json(), "version").to_owned();
    let before = version();
    std::fs::write(gate.path("policies/everything.toml"), format!("{RULES}{more}")).unwrap();
    wait_until("the stricter set is in force", || version() != before);
    let refused = say(&gate, "approve", &hold, "ops-2");
    assert_eq!((refused.status, refused.code()), (409, "OTHER_CAUSES".to_owned()), "{refused}");
    let now = shown();
    let rules: Vec<&str> = now["reasons"].as_array().unwrap().iter().map(|reason| text(reason, "rule")).collect();
    assert_eq!((rules, &now["votes"]), (vec!["larger", "more"], &serde_json::json!([])), "{now}");
    // No further round is needed.
    for person in ["ops-1", "ops-2", "finance-1"] {
        assert_eq!(say(&gate, "approve", &now, person).status, 200, "{person}");
    }
    assert_eq!(told(&answered(&gate, &call)), "201 - executed again");
}
