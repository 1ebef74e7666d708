//! What is listed: what waits, what is mine, what is over, and what nobody can complete.

use serde_json::{Value, json};

use super::{RULES, all_agree, answered, approver, ask, command, gate, held, person, say, state, swap, text};
use crate::support::{Gate, Upstream, post};

fn listed(gate: &Gate, query: &str, who: &str) -> Vec<String> {
    let answer = ask(gate, "GET", &format!("holds?{query}"), &approver(who), None);
    assert_eq!(answer.status, 200, "{query}: {answer}");
    let holds = answer.json()["holds"].as_array().unwrap().clone();
    holds.iter().map(|one| one["requestId"].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn the_queue_is_filtered_by_what_it_waits_for_and_by_whom() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let holds: Vec<Value> = (0..3).map(|n| held(&gate, &format!("q-{n}"))).collect();
    let id = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
    let other = post(format!("/v2/wallets/{id}/offers/{id}/accept")).send(gate.production());
    assert_eq!(other.status, 202, "{other}");
    let swaps = ["q-0", "q-1", "q-2"];
    assert_eq!(listed(&gate, "operation=createSwap", "ops-1"), swaps);
    assert_eq!(listed(&gate, "operation=acceptOffer", "ops-1"), ["-"]);
    assert_eq!(listed(&gate, "approval=dual", "ops-1"), swaps);
    assert_eq!(listed(&gate, "by=test&approval=dual", "ops-1"), swaps);
    assert!(listed(&gate, "by=another", "ops-1").is_empty());
    for odd in ["mine=maybe", "state=rejected", "sort=x"] {
        assert_eq!(ask(&gate, "GET", &format!("holds?{odd}"), &approver("ops-1"), None).status, 400, "{odd}");
    }
    // What waits for one's own vote, and would come further by it.
    assert_eq!(listed(&gate, "mine=true", "finance-1"), swaps, "the other takes ops alone");
    assert!(listed(&gate, "mine=true", "test").is_empty(), "they asked for it");
    assert!(listed(&gate, "mine=true", "stranger").is_empty());
    assert_eq!(say(&gate, "approve", &holds[0], "finance-1").status, 200);
    assert_eq!(listed(&gate, "mine=true", "finance-1"), ["q-1", "q-2"]);
    assert_eq!(listed(&gate, "mine=true", "finance-2"), ["q-1", "q-2"], "finance has agreed to the first");
    let viewer = ask(&gate, "GET", "holds?mine=true", &person("finance-2", &["viewer"]), None);
    assert_eq!(viewer.json()["holds"], json!([]), "who may not vote has nothing to do");
    let (code, out, err) = command(&gate, &["approvals", "list", "--mine", "--approval", "dual"], "finance-1");
    assert!(code == 0 && out.lines().count() == 3, "{out}{err}");
}

#[test]
fn what_is_over_is_listed_the_latest_first() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let holds: Vec<Value> = (0..4).map(|n| held(&gate, &format!("o-{n}"))).collect();
    assert_eq!(say(&gate, "reject", &holds[1], "ops-1").status, 200);
    all_agree(&gate, &holds[3]);
    assert_eq!(answered(&gate, &swap("o-3", "500")).status, 201);
    assert_eq!(say(&gate, "reject", &holds[0], "ops-1").status, 200);
    assert_eq!(listed(&gate, "state=open", "ops-1"), ["o-2"]);
    assert_eq!(listed(&gate, "state=ended", "ops-1"), ["o-0", "o-3", "o-1"]);
    assert_eq!(listed(&gate, "state=declined", "ops-1"), ["o-0", "o-1"]);
    assert_eq!(listed(&gate, "state=released", "ops-1"), ["o-3"]);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = ask(&gate, "GET", &format!("holds?state=ended&limit=1{after}"), &approver("ops-1"), None).json();
        seen.extend(page["holds"].as_array().unwrap().iter().map(|one| text(one, "state").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["rejected", "released", "rejected"]);
    let (_, out, _) = command(&gate, &["approvals", "list", "--state", "ended", "--limit", "1"], "ops-1");
    assert!(out.contains(" rejected  createSwap  main/test  ended 20") && out.contains("more: --after"), "{out}");
}

/// Its approval is gone from the policies: it would wait for nobody until it expires.
#[test]
fn what_nobody_can_complete_says_so_and_any_approver_rejects_it() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "n-1");
    let id = text(&hold, "id").to_owned();
    let renamed = RULES
        .replace("effect = \"hold\"\napproval = \"dual\"", "effect = \"allow\"")
        .replace("[approval.dual]", "[approval.unused]");
    let gate = gate.end().file("policies/everything.toml", &renamed).start();
    let shown = ask(&gate, "GET", &format!("holds/{id}"), &approver("stranger"), None).json();
    assert_eq!((&shown["state"], &shown["approvals"]), (&json!("pending"), &json!([])));
    assert!(text(&shown, "stuck").starts_with("nobody can approve it: "), "{shown}");
    assert_eq!((&shown["mayJudge"], &shown["mayReject"]), (&json!(false), &json!(true)));
    let (_, out, _) = command(&gate, &["approvals", "show", &id], "stranger");
    assert!(out.contains("stuck   nobody can approve it: "), "{out}");
    assert!(
        command(&gate, &["approvals", "list"], "stranger")
            .1
            .contains("pending (stuck: it can never be fully approved)")
    );
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 403);
    assert_eq!(say(&gate, "reject", &hold, "test").status, 403, "whoever asked for it cancels it");
    assert_eq!(say(&gate, "reject", &hold, "stranger").status, 200);
    assert_eq!(state(&gate, &hold), "rejected");
    assert_eq!(answered(&gate, &swap("n-1", "500")).code(), "APPROVAL_REJECTED");
}
