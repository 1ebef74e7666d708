//! The whole way: held, judged by command line, sent, and answered.

use super::{RULES, answered, approver, ask, body, command, gate, held, say, sent, swap, text};
use crate::support::Upstream;

#[test]
fn what_two_groups_agree_to_is_sent_once_and_its_caller_hears_upstream() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let call = swap("w-1", "500");
    let answer = call.send(gate.production());
    assert_eq!((answer.status, answer.outcome()), (202, "held".to_owned()), "{answer}");
    let hold = answer.json()["hold"].clone();
    let id = text(&hold, "id").to_owned();
    assert_eq!(answer.header("location"), Some(format!("/sluice/v1/holds/{id}")));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(hold["requestId"], "w-1");
    assert_eq!(hold["approvals"][0], serde_json::json!({"name": "dual", "needed": 3, "given": 0}));
    assert_eq!(hold["reasons"][0]["rule"], "larger");
    // Asked again, it is the same one.
    assert_eq!(call.send(gate.production()).json()["hold"], hold);

    let (code, out, _) = command(&gate, &["approvals", "list"], "ops-1");
    assert!(
        code == 0
            && out.starts_with("HOLD  ")
            && out.contains(&format!("\n{id}  production   pending  createSwap  main/test  ")),
        "{out}"
    );
    let (_, out, _) = command(&gate, &["approvals", "show", &id], "ops-1");
    for told in [
        "from    500 usdt, on POLYGON",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed was never paid before",
        text(&hold, "fingerprint"),
        &body("w-1", "500"),
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
    let (code, _, err) = command(&gate, &["approvals", "approve", &id], "ops-1");
    assert!(code == 1 && err.contains("no vote was cast") && err.contains("`--yes`"), "{err}");
    assert_eq!(say(&gate, "withdraw", &hold, "ops-1").json()["changed"], false, "nobody voted");
    let approve = ["approvals", "approve", &id, "--yes"];
    let (code, out, err) = command(&gate, &approve, "ops-1");
    assert!(
        code == 0 && out.contains("Approved. Pending: dual: 1 of 3 approvals, needs 1 of finance and 1 of ops more."),
        "{out}{err}"
    );
    let (_, out, _) = command(&gate, &approve, "ops-1");
    assert!(out.contains("You had already approved it."), "{out}");
    assert_eq!(command(&gate, &approve, "finance-1").0, 0);
    assert_eq!((sent(&upstream), call.send(gate.production()).status), (0, 202));
    let (_, out, _) = command(&gate, &approve, "ops-2");
    assert!(out.contains("Fully approved"), "{out}");

    let answer = answered(&gate, &call);
    assert_eq!(
        (answer.status, answer.outcome(), answer.origin()),
        (201, "executed".to_owned(), "upstream".to_owned()),
        "{answer}"
    );
    assert_eq!(answer.header("sluice-replayed").as_deref(), Some("true"));
    let seen = upstream.seen();
    assert_eq!(sent(&upstream), 1);
    let one = seen.iter().find(|seen| seen.line() == "POST /v2/wallets/swaps").unwrap();
    assert_eq!(one.text(), body("w-1", "500"));
    assert_eq!(one.head.header("authorization").as_deref(), Some("Bearer upstream-s-own-token"));
    let shown = ask(&gate, "GET", &format!("holds/{id}"), &approver("ops-1"), None).json();
    assert_eq!(shown["state"], "released");
    assert_eq!(command(&gate, &["approvals", "list"], "ops-1").1, "No holds match these filters.\n");
    assert_eq!(call.send(gate.production()).status, 201);
    assert_eq!(sent(&upstream), 1);
    held(&gate, "w-2");
}

/// A comment with a character that reverses the text behind it would make a false address read as the known one.
#[test]
fn invisible_characters_of_comments_are_shown_by_their_numbers() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "i-1");
    let id = text(&hold, "id").to_owned();
    let comment = "it is \u{202E}0x5a\u{200B}Aeb6";
    let (code, out, err) = command(&gate, &["approvals", "approve", &id, "--yes", "--comment", comment], "ops-1");
    assert_eq!(code, 0, "{out}{err}");
    let (_, out, _) = command(&gate, &["approvals", "show", &id], "finance-1");
    assert!(out.contains("it is \\u{202E}0x5a\\u{200B}Aeb6"), "{out}");
    let (_, out, _) = command(&gate, &["approvals", "show", &id, "--output", "json"], "finance-1");
    assert!(out.is_ascii(), "{out}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["votes"][0]["text"], comment, "JSON keeps the value");
}
