//! Fees: they count in the value, and their wallets are destinations.

use serde_json::{Value, json};

use super::deciding::{USER, WALLET, asking, decide_with, limit, rule, rules};
use super::*;

fn offramp(amount: &str, fees: Value) -> Value {
    json!({
        "requestId": "r-1",
        "source": {"amount": amount, "currency": "usdc", "chain": "BASE"},
        "destination": {"currency": "usd", "accountId": USER},
        "developerFee": {"fees": fees},
    })
}

fn fee(kind: &str, value: &str) -> Value {
    json!({"type": kind, "value": value, "walletAddress": WALLET})
}

#[test]
fn every_fee_counts_in_the_value() {
    let rules = rules(&rule("a", "allow", "op = \"createOfframp\", amount = \"(0, 5000] USD\""));
    let table = [
        ("10", json!([]), Effect::Allow, "10 USD"),
        ("10", json!([fee("FLAT", "4000000")]), Effect::Deny, "4000010 USD"),
        ("10", json!([fee("FLAT", "4990")]), Effect::Allow, "5000 USD"),
        ("10", json!([fee("FLAT", "4990.000001")]), Effect::Deny, "5000.01 USD"),
        ("10", json!([fee("FLAT", "0")]), Effect::Allow, "10 USD"),
        ("10", json!([fee("FLAT", "1"), fee("FLAT", "2")]), Effect::Allow, "13 USD"),
        ("4000", json!([fee("PERCENTAGE", "0.25")]), Effect::Allow, "5000 USD"),
        ("4000", json!([fee("PERCENTAGE", "0.250000000001")]), Effect::Deny, "5000.000001 USD"),
        ("4000", json!([fee("PERCENTAGE", "400")]), Effect::Deny, "1604000 USD"),
        ("0.000001", json!([fee("PERCENTAGE", "0.0005")]), Effect::Allow, "0.000002 USD"),
        ("4000", json!([fee("PERCENTAGE", "0.2"), fee("FLAT", "200.01")]), Effect::Deny, "5000.01 USD"),
        ("10", json!([fee("TIERED", "1")]), Effect::Deny, "none"),
        ("10", json!([{"type": "FLAT", "walletAddress": WALLET}]), Effect::Deny, "none"),
        ("10", json!([fee("FLAT", "-1")]), Effect::Deny, "none"),
        ("10", json!([fee("FLAT", "1e9")]), Effect::Deny, "none"),
        ("10", json!([fee("FLAT", "99999999999999999999")]), Effect::Deny, "none"),
        ("10", json!({"0": fee("FLAT", "1")}), Effect::Deny, "none"),
        ("10", json!(["x"]), Effect::Deny, "none"),
    ];
    for (amount, fees, effect, value) in table {
        let verdict = decide_with(&rules, "createOfframp", &offramp(amount, fees.clone()), &Facts::default());
        let told = verdict.value.map_or("none".to_owned(), |value| value.to_string());
        assert_eq!((verdict.effect, told.as_str()), (effect, value), "{amount} and {fees}");
    }
    let body = json!({"source": {"amount": "5", "currency": "usdc", "chain": "BASE"}, "destination": {"currency": "eur"},
                      "developerFee": {"fees": [fee("FLAT", "1")]}});
    let verdict = decide_with(&rules, "createOfframp", &body, &Facts::default());
    assert_eq!(verdict.effect, Effect::Deny, "the fee may be in an asset without a value");
}

#[test]
fn a_wallet_that_takes_fees_is_a_destination() {
    let body = offramp("10", json!([fee("FLAT", "1")]));
    let effect = |text: &str, facts: &Facts| decide_with(&rules(text), "createOfframp", &body, facts).effect;
    let now = |text: &str| effect(text, &Facts::default());
    let allow = |when: &str| rule("a", "allow", &format!("op = \"createOfframp\", {when}"));
    let account = format!("destination.account = \"{USER}\"");
    assert_eq!(now(&allow(&account)), Effect::Deny);
    assert_eq!(
        now(&allow(&format!("{account}, destination.wallet = \"{WALLET}\""))),
        Effect::Deny,
        "no wallet is paid"
    );
    assert_eq!(now(&allow(&format!("{account}, fee_wallet = \"{WALLET}\""))), Effect::Allow);
    assert_eq!(now(&allow(&format!("{account}, fee_wallet = \"0x{:040}\"", 9))), Effect::Deny);
    let any = rule("a", "allow", "op = \"createOfframp\"");
    assert_eq!(now(&any), Effect::Allow);
    for denied in ["destination.wallet", "wallet", "fee_wallet"] {
        let deny = rule("d", "deny", &format!("op = \"createOfframp\", {denied} = \"{WALLET}\""));
        assert_eq!(now(&format!("{any}{deny}")), Effect::Deny, "{denied}");
    }
    let [wallet, known] = ["wallet:", "wallet:BASE:"].map(|kind| format!("{kind}{}", WALLET.to_lowercase()));
    let new = any.clone() + &rule("h", "hold", "op = \"createOfframp\", destination.new = true");
    let with = |paid: bool| {
        let paid = [(known.clone(), paid), (format!("account:{USER}"), true)].into();
        effect(&new, &Facts { paid, ..Facts::default() })
    };
    assert_eq!((with(false), with(true)), (Effect::Hold, Effect::Allow));
    let all = limit("all", "window = \"rolling 1h\"\nmax = \"10000 USD\"\nover = \"deny\"");
    let to = limit("to", "window = \"rolling 1h\"\nper = [\"destination\"]\nmax = \"20 USD\"\nover = \"deny\"");
    let text = any + &(all + &to).replace("createSwap", "createOfframp");
    let verdict = decide_with(&rules(&text), "createOfframp", &body, &Facts::default());
    let counted: Vec<(&str, u64)> =
        verdict.reservations.iter().filter(|r| r.window.limit == "to").map(|r| (&*r.window.key, r.units)).collect();
    let keys = [format!("account:{USER}"), wallet].map(|name| format!("{{\"destination\":\"{name}\"}}"));
    assert_eq!(counted, [(&*keys[0], 11_000_000), (&*keys[1], 11_000_000)]);
    let same = |fees: Value| asking("createOfframp", &offramp("10", fees), |asked| View::unvalued(asked).payment());
    assert_eq!(same(json!([fee("FLAT", "1")])), same(json!([fee("FLAT", "1")])));
    assert_ne!(same(json!([fee("FLAT", "1")])), same(json!([fee("FLAT", "2")])));
    assert_eq!(same(json!([fee("FLAT", "1.50")])), same(json!([fee("FLAT", "1.5")])));
    assert_ne!(same(json!([fee("FLAT", "10")])), same(json!([fee("FLAT", "1")])));
    let [one, other] = [fee("FLAT", "1"), fee("PERCENTAGE", "2")];
    assert_eq!(same(json!([one, other])), same(json!([other, one])));
    // A fee of zero moves nothing.
    for none in [json!([]), json!([fee("FLAT", "0.00")]), json!([fee("PERCENTAGE", "0")])] {
        assert_eq!(same(none), same(json!([fee("FLAT", "0")])));
    }
    let with = |user: &str| {
        let mut named = offramp("10", json!([]));
        named["destination"]["userId"] = user.into();
        asking("createOfframp", &named, |asked| View::unvalued(asked).payment())
    };
    assert_eq!(with(USER), same(json!([])), "the account belongs to its user");
}

#[test]
fn money_that_no_value_covers_needs_a_rule_that_names_it() {
    let body = json!({"requestId": "r", "chain": "BASE", "rules": [{"value": 5, "walletAddress": WALLET}]});
    let effect = |when: &str| {
        let text = rule("a", "allow", &format!("op = \"createSettlementRule\"{when}"));
        decide_with(&rules(&text), "createSettlementRule", &body, &Facts::default()).effect
    };
    assert_eq!(effect(""), Effect::Deny);
    assert_eq!(effect(", body = { \"/chain\" = \"present\" }"), Effect::Deny);
    assert_eq!(effect(", body = { \"/rules\" = \"present\" }"), Effect::Allow);
    assert_eq!(effect(", body = { \"/rules/*/value\" = \"present\" }"), Effect::Allow);
    assert_eq!(effect(", body = { \"/rules/*/walletAddress\" = \"present\" }"), Effect::Deny);
}
