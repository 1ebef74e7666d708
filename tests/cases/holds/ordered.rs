//! The order of the queue by value, caller and destination, over pages and both environments.

use serde_json::{Value, json};

use super::{approver, ask, gate, say, text};
use crate::support::token::{claims, signed};
use crate::support::{Call, Gate, Upstream, post};

const RULES: &str = r#"
[value]
slippage = "1%"
[[rule]]
id = "large"
effect = "hold"
approval = "payment"
when = { op = "createSwap" }
[approval.payment]
of = "ops"
n = 1
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2"]
"#;

fn swap_of(subject: &str, request_id: &str, amount: &str, wallet: &str) -> Call {
    let mut claims = claims();
    claims["sub"] = json!(subject);
    let body = json!({
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": wallet},
        "requestId": request_id,
        "source": {"amount": amount, "chain": "POLYGON", "currency": "usdt"},
    });
    let token = format!("Bearer {}", signed(&claims));
    post("/v2/wallets/swaps").without("Authorization").header("Authorization", token).json(body.to_string())
}

/// The requestIds of all pages, and how many pages there are.
fn listed(gate: &Gate, query: &str) -> (Vec<String>, usize) {
    let (mut all, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let answer = ask(gate, "GET", &format!("holds?limit=2&{query}{after}"), &approver("ops-1"), None).json();
        let holds = answer["holds"].as_array().unwrap_or_else(|| panic!("{answer}"));
        all.extend(holds.iter().map(|hold| text(hold, "requestId").to_owned()));
        pages += 1;
        match &answer["next"] {
            Value::String(next) => after = format!("&after={}", next.replace(':', "%3A")),
            _ => return (all, pages),
        }
    }
}

#[test]
fn the_whole_queue_is_ordered_not_only_a_page_of_it() {
    const NEAR: &str = "0x1111111111111111111111111111111111111111";
    const FAR: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    for (subject, id, amount, wallet) in [
        ("payroll", "a", "20", FAR),
        ("erp", "b", "9", NEAR),
        ("payroll", "c", "100.5", NEAR),
        ("erp", "d", "100.25", FAR),
        ("treasury", "e", "7", NEAR),
    ] {
        let answer = swap_of(subject, id, amount, wallet).send(gate.production());
        assert_eq!(answer.status, 202, "{answer}");
    }
    let order = |query: &str| listed(&gate, query).0.concat();
    assert_eq!(listed(&gate, "order=value"), (["c", "d", "a", "b", "e"].map(str::to_owned).to_vec(), 3));
    assert_eq!(order("order=caller"), "bdace");
    assert_eq!(order("order=destination"), "bcead");
    assert_eq!(order("order=expiry"), "abcde");
    assert_eq!(order("order=latest"), "edcba");
    assert_eq!(order("order=value&by=payroll"), "ca");
    assert_eq!(order("order=value&text=5aaeb6053f"), "da");
    for wrong in ["order=amount", "order=value&state=ended"] {
        let answer = ask(&gate, "GET", &format!("holds?{wrong}"), &approver("ops-1"), None);
        assert_eq!(answer.status, 400, "{answer}");
    }
    // A hold that ended between two pages leaves its place to those behind it.
    let first = ask(&gate, "GET", "holds?limit=2&order=value", &approver("ops-1"), None).json();
    let reject = say(&gate, "reject", &first["holds"][1], "ops-1");
    assert_eq!(reject.status, 200, "{reject}");
    let after = first["next"].as_str().unwrap().replace(':', "%3A");
    let next = ask(&gate, "GET", &format!("holds?limit=2&order=value&after={after}"), &approver("ops-1"), None).json();
    let names: Vec<&str> = next["holds"].as_array().unwrap().iter().map(|hold| text(hold, "requestId")).collect();
    assert_eq!(names, ["a", "b"]);
}
