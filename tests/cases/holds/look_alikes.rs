//! The destination of a held call that looks like an address that was paid, and that no list names.

use serde_json::{Value, json};

use super::{ask, command, gate, person, shown, text};
use crate::support::clock::wait_until;
use crate::support::token::{claims, signed};
use crate::support::{Call, Gate, Upstream, post};

const RULES: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = "createSwap", amount = "(0, 100] USD" }
[[rule]]
id = "larger"
effect = "hold"
approval = "one"
when = { op = "createSwap", amount = "(100, inf) USD" }
[list.payouts]
wallet = ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]
[approval.one]
of = "ops"
n = 1
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2"]
"#;
const GENUINE: &str = "0x52908400098527886E0F7030069857D2E4169EE7";
const FALSE: &str = "0x529ffffffffffffffffffffffffffffffffffee7";

/// A swap of another caller than the usual one.
fn swap_by(subject: &str, name: &str, amount: &str, wallet: &str) -> Call {
    let mut claims = claims();
    claims["sub"] = json!(subject);
    let body = json!({
        "requestId": name,
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": wallet},
    });
    let call = post("/v2/wallets/swaps").json(body.to_string()).without("Authorization");
    call.header("Authorization", format!("Bearer {}", signed(&claims)))
}

fn held_to(gate: &Gate, name: &str, wallet: &str) -> Value {
    let answer = swap_by("test", name, "500", wallet).send(gate.production());
    assert_eq!(answer.status, 202, "{answer}");
    answer.json()["hold"].clone()
}

#[test]
fn an_address_that_looks_like_a_paid_one_is_told_with_it_to_those_who_see_its_payment() {
    let upstream = Upstream::start();
    let visible = r#"["approver:production:main:test"]"#;
    let gate = gate(&upstream, RULES).set_raw("console", "visible", visible).start();
    assert_eq!(swap_by("treasury", "genuine", "10", GENUINE).send(gate.production()).status, 201);
    let hold = held_to(&gate, "false-friend", FALSE);
    let operator = person("ops-2", &["approver", "operator"]);
    let seen = |token: &str| ask(&gate, "GET", &format!("holds/{}", text(&hold, "id")), token, None).json();
    wait_until("the payment to be read", || seen(&operator)["earlier"]["lookAlike"]["payment"] == "genuine");
    let alike = &seen(&operator)["earlier"]["lookAlike"];
    assert_eq!((&alike["name"], alike["at"].is_string()), (&json!(GENUINE), true));
    // Who may not see whose payment it was is warned all the same.
    assert_eq!(shown(&gate, &hold)["earlier"]["lookAlike"], json!({"name": null, "payment": null, "at": null}));
    let rows = ask(&gate, "GET", "holds?earlier=true", &operator, None).json();
    assert_eq!(rows["holds"][0]["earlier"]["lookAlike"]["name"], GENUINE);
    let (code, words, _) = command(&gate, &["approvals", "show", text(&hold, "id")], "ops-1");
    assert!(
        code == 0 && words.contains("DANGER  its address begins and ends like another one that was paid"),
        "{words}"
    );

    // Neither the address itself, nor one of a list, nor one that differs in a letter that people see.
    for (name, wallet) in [
        ("again", GENUINE),
        ("listed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
        ("other", "0x529ffffffffffffffffffffffffffffffffffee8"),
    ] {
        let hold = held_to(&gate, name, wallet);
        assert_eq!(shown(&gate, &hold)["earlier"]["lookAlike"], Value::Null, "{name}");
    }

    // Both are known once the false one was paid: a start reads them from the journal.
    assert_eq!(swap_by("test", "tricked", "10", FALSE).send(gate.production()).status, 201);
    let gate = gate.end().start();
    let hold = held_to(&gate, "genuine-again", GENUINE);
    wait_until("the payments to be read", || {
        let alike = &shown(&gate, &hold)["earlier"]["lookAlike"];
        alike["payment"] == "tricked" && alike["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(FALSE))
    });
}
