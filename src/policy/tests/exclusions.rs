//! `not_in`, and `description`.

use serde_json::{Value, json};

use super::deciding::{USER, WALLET, decide_with, rule, rules};
use super::language::all;
use super::*;

const OTHER: &str = "11111111-2f53-4a5e-9a52-6a1c0f7d4e11";
const OTHER_WALLET: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";

fn swap(destination: &Value) -> Value {
    json!({"requestId": "r-1", "source": {"currency": "usdc", "chain": "BASE", "amount": "5"}, "destination": destination})
}

/// The effect of one rule, besides one that allows everything if it stops.
fn effect(effect: &str, when: &str, destination: &Value) -> Effect {
    let text = match effect {
        "allow" => rule("r", effect, when),
        _ => rule("r", effect, when) + &rule("a", "allow", "op = \"createSwap\""),
    };
    decide_with(&rules(&text), "createSwap", &swap(destination), &Facts::default()).effect
}

/// An allow needs a name outside of the list; a deny catches whatever is not certainly in it.
#[test]
fn what_is_not_in_a_list_is_denied_and_only_a_name_outside_of_it_is_allowed() {
    let user = format!("op = \"createSwap\", destination.user = {{ not_in = \"{USER}\" }}");
    let (listed, other) = (json!({"currency": "usdt", "userId": USER}), json!({"currency": "usdt", "userId": OTHER}));
    let nobody = json!({"currency": "usdt"});
    assert_eq!(effect("allow", &user, &listed), Effect::Deny);
    assert_eq!(effect("allow", &user, &other), Effect::Allow);
    assert_eq!(effect("allow", &user, &nobody), Effect::Deny);
    assert_eq!(effect("deny", &user, &listed), Effect::Allow);
    assert_eq!(effect("deny", &user, &other), Effect::Deny);
    assert_eq!(effect("deny", &user, &nobody), Effect::Deny);
    // A second way to name the destination cannot hide the first.
    let both = json!({"currency": "usdt", "chain": "BASE", "userId": USER, "walletAddress": OTHER_WALLET});
    let ways = format!(
        "op = \"createSwap\", destination = {{ user = {{ not_in = \"{USER}\" }}, wallet = {{ not_in = \"{WALLET}\" }} }}"
    );
    assert_eq!(effect("allow", &ways, &both), Effect::Deny);
    assert_eq!(effect("deny", &user, &both), Effect::Deny);
    let wallet = json!({"currency": "usdt", "chain": "BASE", "walletAddress": OTHER_WALLET});
    assert_eq!(effect("allow", &ways, &wallet), Effect::Allow);
    // Of several names in one field, an allow needs each outside, a deny one.
    let chains = "op = \"createSwap\", chain = { not_in = \"SOLANA\" }";
    let crossed = json!({"currency": "usdt", "chain": "SOLANA"});
    assert_eq!(effect("allow", chains, &crossed), Effect::Deny);
    assert_eq!(effect("deny", chains, &crossed), Effect::Deny);
}

#[test]
fn callers_and_fields_of_the_body_can_be_excluded() {
    // The caller has the role `payroll`, and `anna` is behind it.
    for (when, is_met) in [
        ("role = { not_in = [\"treasury\", \"tests\"] }", true),
        ("role = { not_in = [\"treasury\", \"payroll\"] }", false),
        ("requester = { not_in = \"mallory\" }", true),
        ("requester = { not_in = [\"mallory\", \"anna\"] }", false),
        ("environment = { not_in = \"sandbox\" }", true),
        ("caller = { not_in = \"main:payroll\" }", false),
    ] {
        let when = format!("op = \"createSwap\", {when}");
        let [allowed, denied] = ["allow", "deny"].map(|word| effect(word, &when, &json!({"currency": "usdt"})));
        let expected = if is_met { [Effect::Allow, Effect::Deny] } else { [Effect::Deny, Effect::Allow] };
        assert_eq!([allowed, denied], expected, "{when}");
    }
    let field = "op = \"createSwap\", body = { \"/destination/currency\" = { not_in = [\"usdt\", \"usd\"] } }";
    let currency = |name: &str| json!({"currency": name});
    assert_eq!(effect("deny", field, &currency("usdt")), Effect::Allow);
    assert_eq!(effect("deny", field, &currency("usdc")), Effect::Deny);
    assert_eq!(effect("deny", field, &json!({})), Effect::Deny);
    assert_eq!(effect("allow", field, &currency("usdc")), Effect::Allow);
    assert_eq!(effect("allow", field, &json!({})), Effect::Deny);
}

#[test]
fn faults_of_exclusions_are_told_once_with_their_place_and_remedy() {
    for (when, fault, remedy) in [
        ("role = { not_inn = \"x\" }", "there is no field `not_inn`", "did you mean `not_in`?"),
        ("role = { not_in = [] }", "`not_in` is empty: nothing would match", "add at least one, or remove it"),
        ("chain = { not_in = \"POLIGON\" }", "`chain` cannot be `POLIGON`", "did you mean `POLYGON`?"),
        ("user = { not_in = \"@nobody\" }", "a list cannot be `nobody`", "there is: `payout-accounts`"),
        (
            "body = { \"/source/currency\" = { in = [\"usdc\"], not_in = [\"usdt\"] } }",
            "`not_in` is the opposite of `in` and `equals`",
            "write one of them",
        ),
    ] {
        let text = rule("r", "deny", &format!("op = \"createSwap\", {when}"));
        let findings = all(&[&text, super::language::WORDS]).unwrap_err();
        assert_eq!(findings.len(), 1, "{when}: {findings:?}");
        assert_eq!((findings[0].text.as_str(), findings[0].remedy.as_deref()), (fault, Some(remedy)), "{when}");
        assert!(findings[0].place.is_some(), "{when}");
    }
}

const DESCRIBED: &str = r#"
[[rule]]
id = "held"
description = "A stolen token would pay somebody new."
effect = "hold"
approval = "two"
when = { op = "createOfframp", destination.account = "@known" }
[[limit]]
id = "day"
description = "The bank takes no more."
ops = "createOfframp"
window = "rolling 24h"
per = ["environment"]
max = "100 USD"
over = "deny"
[approval.two]
description = "Two who know the supplier"
of = "ops"
n = 2
expires = "8h"
[list.known]
description = "Accounts that purchasing confirmed"
account = ["9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"]
"#;

#[test]
fn descriptions_stand_in_every_reason_and_change_the_version_but_no_outcome() {
    let rules = rules(DESCRIBED);
    let body = |amount: &str| json!({"requestId": "r-1", "source": {"currency": "usdc", "amount": amount}, "destination": {"accountId": USER}});
    let text = |amount: &str| {
        let verdict = decide_with(&rules, "createOfframp", &body(amount), &Facts::default());
        verdict.reasons.into_iter().map(|reason| reason.text).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        text("5"),
        "needs 2 of `ops` (Two who know the supplier): A stolen token would pay somebody new.; `@known`: Accounts that \
         purchasing confirmed"
    );
    assert_eq!(text("101"), "over the limit of 100 USD: The bank takes no more.");
    let read = |text: &str| all(&[text, super::language::WORDS]).unwrap().policies;
    let (old, new) = (read(DESCRIBED), read(&DESCRIBED.replace("somebody new", "a friend")));
    assert_ne!(old.version(), new.version(), "people would be shown another text under one version");
    let known = KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: false };
    let found = difference(&old, &new, &known);
    assert!(!found.loosens() && found.changes.is_empty(), "{found}");
    assert_eq!(found.definitions[0].then.as_deref(), Some("A stolen token would pay a friend."));
    let long = DESCRIBED.replace("somebody new", &"x".repeat(300));
    let findings = all(&[&long, super::language::WORDS]).unwrap_err();
    assert_eq!(findings[0].text, "`description` has more than 300 characters");
}
