//! What a call hears that the rules do not let pass, and what is written down of it.

use serde_json::{Value, json};

use super::{allow, gate, ruled, swap, swap_of};
use crate::cases::claims::audit::entries;
use crate::cases::claims::{assert_again, told};
use crate::support::clock::wait_until;
use crate::support::shape::{operation, shape, valid};
use crate::support::{Gate, Setup, Upstream, get, post};

const DENIED: &str = "403 POLICY_DENIED not-executed";

#[test]
fn nothing_passes_that_no_rule_is_about_and_the_answer_names_what_denied() {
    let upstream = Upstream::start();
    let policies = allow("op = [\"createSwap\", \"listUsers\"], amount = \"(0, 100] USD\", without_amount = \"match\"")
        + "[[rule]]\nid = \"no-tron\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", source.chain = [\"TRON\"] }\n";
    let gate = gate(&upstream, &policies);
    assert_eq!(told(&swap("100").send(gate.production())), "200 - executed");
    let over = swap("100.000001").send(gate.production());
    assert_eq!((told(&over).as_str(), shape(&over.json())), (DENIED, "C"));
    assert_eq!(over.json()["error"]["details"]["rules"], json!([{ "text": "no rule matches (denied by default)" }]));
    let tron = String::from_utf8(swap("1").body_bytes()).unwrap().replacen("POLYGON", "TRON", 1);
    let tron = post("/v2/wallets/swaps").json(tron).send(gate.production());
    assert_eq!(told(&tron), DENIED, "{tron}");
    let by = &tron.json()["error"]["details"]["rules"][0];
    assert_eq!(by["rule"], "no-tron", "{tron}");
    assert!(tron.json()["error"]["message"].as_str().unwrap().contains("(`no-tron`)"), "{tron}");
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
    let read = get("/v2/offramps").send(gate.production());
    assert_eq!((read.status, read.code().as_str(), read.outcome().as_str()), (403, "POLICY_DENIED", "-"), "{read}");
    assert_eq!(told(&valid(operation("cancelSwap")).send(gate.production())), DENIED);
    assert_eq!(upstream.seen().len(), 2);
    assert_eq!(gate.metric(r#"sluice_rule_hits_total{effect="deny",mode="enforce",rule="no-tron"}"#), 1);
    let decided = |effect: &str| {
        let labels = format!(r#"effect="{effect}",environment="production",operation="createSwap""#);
        gate.metric(&format!("sluice_decisions_total{{{labels}}}"))
    };
    assert_eq!((decided("allow"), decided("deny")), (1, 2));
}

/// A denied write leaves an Entry and no claim: corrected, or under other rules, it may use its requestId.
#[test]
fn a_denied_write_is_in_the_audit_chain_and_leaves_its_request_id_free() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &allow("op = \"createSwap\", amount = \"(0, 100] USD\""));
    assert_eq!(told(&swap_of("r-1", "101").send(gate.production())), DENIED);
    assert_eq!(told(&swap_of("r-1", "99").send(gate.production())), "200 - executed");
    assert_eq!(told(&valid(operation("updateUser")).send(gate.production())), DENIED);
    wait_until("three entries more", || entries(&gate.path("sluice-audit")).len() >= 4);
    let mut written = entries(&gate.path("sluice-audit"));
    written.sort_by_key(|line| line["number"].as_u64());
    let told: Vec<(String, Value)> = written
        .iter()
        .map(|line| (line["entry"]["what"].as_str().unwrap_or_default().to_owned(), line["entry"]["decision"].clone()))
        .collect();
    let whats: Vec<&str> = told.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(whats, ["refused", "sending", "executed", "refused"]);
    assert_eq!((&told[0].1["effect"], &told[0].1["by"]), (&json!("deny"), &json!([])));
    assert_eq!((&told[1].1["effect"], &told[1].1["by"]), (&json!("allow"), &json!(["allowed"])));
    assert!(told[0].1["policy"].as_str().unwrap().len() >= 12 && told[0].1["policy"] == told[1].1["policy"]);
}

/// What was paid stays paid, whatever rules say since.
#[test]
fn a_repeat_of_a_payment_hears_its_answer_and_not_that_it_is_denied_now() {
    let upstream = Upstream::start();
    let first_gate = gate(&upstream, &allow("op = \"createSwap\""));
    let first = swap_of("r-1", "50").send(first_gate.production());
    assert_eq!(told(&first), "200 - executed");
    let setup = first_gate.end().file("policies/everything.toml", &allow("op = \"@read\""));
    let gate = setup.start();
    assert_again(&first, &swap_of("r-1", "50").send(gate.production()));
    assert_eq!(told(&swap_of("r-1", "51").send(gate.production())), "422 REQUEST_ID_REUSED unknown");
    assert_eq!(told(&swap_of("r-2", "50").send(gate.production())), DENIED);
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_gate_without_rules_does_not_start() {
    let upstream = Upstream::start();
    for (setup, said) in [
        (ruled(&upstream, ""), "the policies have no `[[rule]]`"),
        (Setup::of(&upstream).set_raw("", "policies", "\"nowhere\""), "does not exist or is not readable"),
    ] {
        let gate = Gate::spawn(setup);
        assert_eq!(gate.wait_end().code(), Some(3));
        assert!(gate.stderr().contains(said), "{}", gate.stderr());
    }
}

#[test]
fn a_denied_user_is_denied_in_every_form_of_the_id() {
    let upstream = Upstream::start();
    let user = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
    let policies = allow("op = \"updateUser\"")
        + &format!("[[rule]]\nid = \"user\"\neffect = \"deny\"\nwhen = {{ op = \"updateUser\", user = \"{user}\" }}\n");
    let gate = gate(&upstream, &policies);
    let update = |id: &str| {
        post(format!("/v2/users/{id}")).json(r#"{"type":"individual","firstName":"A"}"#).send(gate.production())
    };
    let bare = user.replace('-', "");
    let spread = "9f1c-0e8e-2f53-4a5e-9a52-6a1c-0f7d-4e11";
    for id in [user, &user.to_uppercase(), &bare, &bare.to_uppercase(), spread] {
        assert_eq!(told(&update(id)), DENIED, "{id}");
    }
    let other = bare.replacen('9', "8", 1);
    assert_eq!(told(&update(&other)), "200 - executed");
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].head.first.contains(&format!("/{other} ")), "upstream gets the id as the caller wrote it");
}
