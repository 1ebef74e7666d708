//! What is told, and what is not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{SECRET, hook, hooked, is_signed, messages, types, wait_for, waiting};
use crate::cases::holds::{all_agree, answered, gate, held, say, swap, text};
use crate::support::clock::wait_until;
use crate::support::{Act, Upstream, post};

fn counted(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn each_step_of_a_hold_is_told_and_neither_money_nor_people() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let gate = hooked(&upstream, &hooks).start();
    let waits = swap("salary-of-anna", "543.21").send(gate.production());
    let hold = waits.json()["hold"].clone();
    all_agree(&gate, &hold);
    assert_eq!(answered(&gate, &swap("salary-of-anna", "543.21")).status, 201);
    let told = wait_for(&hooks, 7);
    let expected =
        [("hold.held", 1), ("hold.voted", 3), ("hold.approved", 1), ("hold.released", 1), ("hold.executed", 1)];
    assert_eq!(types(&told), counted(&expected));
    let ids: BTreeSet<String> = told.iter().map(|message| text(message, "id").to_owned()).collect();
    assert_eq!(ids.len(), 7);
    for message in &told {
        let data = &message["data"];
        assert_eq!((text(data, "hold"), text(data, "operation")), (text(&hold, "id"), "createSwap"));
        assert_eq!(text(data, "environment"), "production");
        assert_eq!(text(data, "link"), format!("https://console.test/#/hold/{}", text(&hold, "id")));
        assert!(text(message, "timestamp").parse::<jiff::Timestamp>().is_ok(), "{message}");
        for private in ["543", "anna", "0x5a", "usdt", "ops-1", "finance-1", "\"test\""] {
            assert!(!message.to_string().contains(private), "{private}: {message}");
        }
    }
    let first = told.iter().find(|message| message["type"] == "hold.held").unwrap();
    let (data, approval) = (&first["data"], &first["data"]["approvals"][0]);
    assert_eq!((text(data, "state"), &data["rules"]), ("pending", &serde_json::json!(["larger"])));
    assert_eq!((&approval["name"], &approval["needed"], &approval["given"]), (&"dual".into(), &3.into(), &0.into()));
    assert_eq!(data["expiresAt"], hold["expiresAt"]);
    let votes = told.iter().filter(|message| message["type"] == "hold.voted");
    let given: BTreeSet<u64> =
        votes.map(|message| message["data"]["approvals"][0]["given"].as_u64().unwrap()).collect();
    assert_eq!(given, BTreeSet::from([1, 2, 3]));
    wait_until("nothing to wait", || waiting(&gate, "approvals") == 0);
    assert_eq!(hooks.seen().len(), 7, "each is told once");
}

#[test]
fn what_goes_no_further_is_told() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let events = r#"["hold.rejected", "hold.cancelled", "hold.withdrawn"]"#;
    let gate = hooked(&upstream, &hooks).set_raw("webhook.approvals", "events", events).start();
    let (rejected, cancelled) = (held(&gate, "n-1"), held(&gate, "n-2"));
    assert_eq!(say(&gate, "approve", &rejected, "ops-1").status, 200);
    assert_eq!(say(&gate, "withdraw", &rejected, "ops-1").status, 200);
    assert_eq!(say(&gate, "reject", &rejected, "ops-2").status, 200);
    let path = format!("/sluice/v1/holds/{}/cancel", text(&cancelled, "id"));
    assert_eq!(post(path).send(gate.production()).status, 200);
    let told = wait_for(&hooks, 3);
    assert_eq!(types(&told), counted(&[("hold.withdrawn", 1), ("hold.rejected", 1), ("hold.cancelled", 1)]));
    for message in &told {
        let state = if message["type"] == "hold.withdrawn" { "pending" } else { &text(message, "type")[5..] };
        assert_eq!(text(&message["data"], "state"), state, "{message}");
        assert!(!message.to_string().contains("a wrong account"), "what people said is not told: {message}");
    }
}

#[test]
fn of_what_did_not_wait_only_doubt_is_told() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let gate = hooked(&upstream, &hooks).start();
    assert_eq!(swap("fine-1", "50").send(gate.production()).status, 201);
    upstream.next(Act::silence().close());
    assert_eq!(swap("secret-name", "50").send(gate.production()).code(), "OUTCOME_UNKNOWN");
    let told = wait_for(&hooks, 1);
    assert_eq!(types(&told), counted(&[("request.in-doubt", 1)]));
    let data = &told[0]["data"];
    assert_eq!((text(data, "state"), text(data, "operation")), ("unknown", "createSwap"));
    assert!(data["attempt"].is_u64() && data.get("hold").is_none(), "{data}");
    assert!(!told[0].to_string().contains("secret-name"), "{}", told[0]);
}

#[test]
fn a_chat_is_told_in_words_and_details_only_where_they_are_asked_for() {
    let (upstream, hooks, chat) = (Upstream::start(), Upstream::start(), Upstream::start());
    let setup = hook(hooked(&upstream, &hooks), "detailed", &hooks).set_raw("webhook.detailed", "details", "true");
    let url = format!("{}/in/chat", chat.url());
    let setup = setup.set("webhook.chat", "url", &url).set("webhook.chat", "format", "chat");
    let gate = setup.set_raw("webhook.chat", "allow_private", "true").start();
    let hold = held(&gate, "c-1");
    let told = wait_for(&hooks, 2);
    let (detailed, bare): (Vec<&Value>, Vec<&Value>) =
        told.iter().partition(|message| message["data"].get("source").is_some());
    assert_eq!((detailed.len(), bare.len()), (1, 1));
    assert_eq!(detailed[0]["id"], bare[0]["id"], "one name for what happened");
    let data = &detailed[0]["data"];
    assert_eq!((text(&data["source"], "amount"), text(&data["source"], "currency")), ("500", "usdt"));
    assert_eq!((text(&data["destination"], "currency"), text(data, "requester")), ("usdc", "test"));
    assert!(!data.to_string().contains("0x5a"), "{data}");
    let seen = chat.wait_for(0);
    let said: Value = serde_json::from_slice(&seen.body).unwrap();
    let words = text(&said, "text");
    assert!(words.starts_with("A call waits for approval.") && words.contains(text(&hold, "id")), "{words}");
    assert!(!words.contains("500 ") && said.as_object().unwrap().len() == 1, "{said}");
    assert!(seen.head.header("webhook-signature").is_none() && seen.head.header("webhook-id").is_some());
}

#[test]
fn while_secrets_change_each_of_them_signs() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let secrets = format!("[{:?}, {SECRET:?}]", super::OTHER_SECRET);
    let gate = hooked(&upstream, &hooks).set_raw("webhook.approvals", "secrets", &secrets).start();
    held(&gate, "s-1");
    let seen = hooks.wait_for(0);
    assert!(is_signed(&seen, SECRET) && is_signed(&seen, super::OTHER_SECRET));
    let (other, stale) = ("whsec_c2x1aWNlLXRlc3Qtc2VjcmV0LW51bWJlci0zMzM=", seen.clone());
    assert!(!is_signed(&stale, other));
    let altered = crate::support::upstream::Seen { body: b"{}".to_vec(), ..seen };
    assert!(!is_signed(&altered, SECRET));
}

#[test]
fn other_environments_and_a_gate_without_webhooks_tell_nothing() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let setup = hooked(&upstream, &hooks).set_raw("webhook.approvals", "environments", r#"["sandbox"]"#);
    let silent = setup.sandbox(&Upstream::start()).start();
    let told = hook(gate(&upstream, crate::cases::holds::RULES), "approvals", &hooks).start();
    held(&silent, "e-1");
    let hold = held(&told, "e-2");
    let all = wait_for(&hooks, 1);
    assert_eq!(text(&all[0]["data"], "hold"), text(&hold, "id"));
    assert!(all[0]["data"].get("link").is_none(), "nobody said where the console is");
    assert_eq!((waiting(&silent, "approvals"), messages(&hooks).len()), (0, 1));
}
