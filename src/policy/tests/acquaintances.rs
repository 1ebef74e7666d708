//! `new` with a `cooldown`: a first payment opens a destination only after a time, or with an approval.

use serde_json::json;

use super::deciding::{USER, WALLET, decide_with, rule, rules};
use super::language::{WORDS, all};
use super::*;
use crate::policy::fact_name;

const HOUR: u64 = 3_600;

fn known(secs: Option<u64>) -> Option<Duration> {
    secs.map(Duration::from_secs)
}

#[test]
fn a_destination_is_new_until_its_cooldown_is_over() {
    let text = rule("a", "allow", "op = \"createSwap\"")
        + &rule("h", "hold", "op = \"createSwap\", destination = { new = true, cooldown = \"24h\" }")
        + &rule("d", "deny", "op = \"createSwap\", destination.new = true");
    let rules = rules(&text);
    let body =
        json!({"requestId": "r-1", "source": {"amount": "5", "currency": "usdc"}, "destination": {"userId": USER}});
    let decide = |secs: Option<u64>| {
        let paid = rules.facts_of(&[format!("user:{USER}")], known(secs));
        decide_with(&rules, "createSwap", &body, &Facts { paid, ..Facts::default() })
    };
    assert_eq!(decide(None).effect, Effect::Deny);
    assert_eq!(decide(Some(0)).effect, Effect::Hold);
    assert_eq!(decide(Some(24 * HOUR - 1)).effect, Effect::Hold);
    assert_eq!(decide(Some(24 * HOUR)).effect, Effect::Allow);
    // Both facts are guarded by the commit.
    let day = Duration::from_secs(24 * HOUR);
    let name = |cooldown| fact_name(&format!("user:{USER}"), cooldown);
    assert_eq!(decide(Some(HOUR)).assumed, [(name(Duration::ZERO), true), (name(day), false)].into());
    // A fact that nobody knows denies.
    assert_eq!(decide_with(&rules, "createSwap", &body, &Facts::default()).effect, Effect::Deny);
}

#[test]
fn faults_of_cooldowns_are_told() {
    for (when, fault) in [
        ("destination.cooldown = \"24h\"", "`cooldown` has no effect without `new`"),
        ("destination = { new = true, cooldown = \"24\" }", "`cooldown` cannot be `24`"),
        ("destination = { new = true, cooldown = \"367d\" }", "`cooldown` cannot be `367d`"),
        ("destination = { new = true, cooldwn = \"24h\" }", "there is no field `cooldwn`"),
    ] {
        let findings = all(&[&rule("r", "deny", &format!("op = \"createSwap\", {when}")), WORDS]).unwrap_err();
        let texts: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts, [fault], "{when}");
    }
    let test =
        "[[test]]\ngiven = { op = \"createSwap\", paid_before = false, first_paid = \"1h\" }\nexpect = \"deny\"\n";
    let findings = all(&[test, &rule("a", "allow", "op = \"createSwap\""), WORDS]).unwrap_err();
    assert_eq!(findings[0].text, "`first_paid` contradicts `paid_before = false`");
}

/// What is proved knows of the time between the first payment and the end of the cool-down.
#[test]
fn invariants_and_differences_see_the_cooldown() {
    let small = "op = \"createSwap\", amount = \"(0, 1000] USD\"";
    let new = "op = \"createSwap\", amount = \"(0, 1000] USD\", destination = { new = true, cooldown = \"24h\" }";
    let claim = |cooldown: &str| {
        format!(
            "[[invariant]]\nid = \"i\"\nnever = {{ effect = \"allow\", op = \"createSwap\", destination = {{ new = true, \
             cooldown = \"{cooldown}\" }} }}\n"
        )
    };
    let set = rule("a", "allow", small) + &rule("h", "hold", new);
    for proved in ["1h", "24h"] {
        assert!(all(&[&set, &claim(proved), WORDS]).is_ok(), "{proved}");
    }
    let findings = all(&[&set, &claim("25h"), WORDS]).unwrap_err();
    let example = findings[0].to_string();
    assert!(example.contains("first_paid = \"1d\""), "{example}");
    let read = |text: &str| all(&[text, WORDS]).unwrap().policies;
    let known = KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: false };
    let found = difference(&read(&set), &read(&set.replace("24h", "1h")), &known);
    assert!(found.loosens());
    assert!(found.to_string().contains("first paid less than 1 d ago"), "{found}");
    let found = difference(&read(&set), &read(&set.replace("24h", "48h")), &known);
    assert!(found.changes.iter().all(|change| !change.kind.loosens()), "{found}");
}

/// One address on two chains may be two people's.
#[test]
fn a_wallet_is_known_on_its_chain_alone() {
    let rules = rules(
        &(rule("a", "allow", "op = \"createSwap\"")
            + &rule("h", "hold", "op = \"createSwap\", destination.new = true")),
    );
    let wallet = WALLET.to_lowercase();
    let decide = |chain: &str| {
        let body = json!({
            "requestId": "r-1", "source": {"amount": "5", "currency": "usdc", "chain": "POLYGON"},
            "destination": {"chain": chain, "walletAddress": WALLET},
        });
        let paid = ["POLYGON", "BASE"].map(|known| (format!("wallet:{known}:{wallet}"), known == "POLYGON"));
        decide_with(&rules, "createSwap", &body, &Facts { paid: paid.into(), ..Facts::default() })
    };
    assert_eq!(["POLYGON", "polygon", "POLYGON_MAINNET"].map(|chain| decide(chain).effect), [Effect::Allow; 3]);
    let other = decide("BASE");
    assert_eq!((other.effect, other.payees), (Effect::Hold, vec![format!("wallet:BASE:{wallet}")]));
}

#[test]
fn a_wallet_whose_fees_are_zero_is_asked_about_and_not_paid() {
    let rules = rules(
        &(rule("a", "allow", "op = \"createOfframp\"")
            + &rule("h", "hold", "op = \"createOfframp\", destination.new = true")),
    );
    let wallet = format!("wallet:BASE:{}", WALLET.to_lowercase());
    let account = format!("account:{USER}");
    let decide = |fees: &[(&str, &str)]| {
        let fees: Vec<_> =
            fees.iter().map(|(kind, value)| json!({"type": kind, "value": value, "walletAddress": WALLET})).collect();
        let body = json!({
            "requestId": "r-1", "source": {"amount": "10", "currency": "usdc", "chain": "BASE"},
            "destination": {"currency": "usd", "accountId": USER}, "developerFee": {"fees": fees},
        });
        let paid = [(wallet.clone(), false), (account.clone(), true)].into();
        let verdict = decide_with(&rules, "createOfframp", &body, &Facts { paid, ..Facts::default() });
        assert_eq!(verdict.effect, Effect::Hold, "{verdict:?}");
        verdict.payees
    };
    for zero in ["0", "0.00"] {
        assert_eq!(decide(&[("FLAT", zero), ("PERCENTAGE", zero)]), std::slice::from_ref(&account), "{zero}");
    }
    for fees in [&[("FLAT", "0.000001")][..], &[("FLAT", "0"), ("PERCENTAGE", "0.001")]] {
        assert_eq!(decide(fees), [account.clone(), wallet.clone()]);
    }
}
