//! `new` with a `cooldown`: a first payment opens a destination only after a time, or with an approval.

use serde_json::json;

use super::deciding::{USER, WALLET, decide_with, rule, rules};
use super::language::{WORDS, all};
use super::*;
use crate::policy::{HoldCauses, fact_name};

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

/// An added hold makes nothing known with fewer people than the rules about new destinations ask for.
#[test]
fn only_people_enough_for_every_cooldown_make_a_destination_known() {
    let rule = |id: &str, effect: &str, approval: &str, when: &str| {
        let approval = if effect == "hold" { format!("approval = \"{approval}\"\n") } else { String::new() };
        format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\n{approval}when = {{ op = \"createSwap\"{when} }}\n")
    };
    let limit = |id: &str, over: &str, when: &str| {
        format!(
            "[[limit]]\nid = \"{id}\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nper = [\"environment\"]\nmax = \"1 call\"\n\
             over = {over}\n{when}"
        )
    };
    let new = ", destination = { new = true, cooldown = \"24h\" }";
    let old = ", destination = { new = false, cooldown = \"24h\" }";
    let on_new = "when = { destination = { new = true, cooldown = \"24h\" } }\n";
    let (any, all) = (rule("any", "allow", "", ""), rule("all", "hold", "dual", new));
    let weak = rule("weak", "hold", "one", new);
    let other = rule("other", "hold", "one", "");
    let table: [(&str, Vec<String>, &[&str], bool); 14] = [
        ("one approval for all", vec![all.clone()], &["dual"], true),
        ("nothing complete", vec![all.clone()], &[], false),
        ("another hold with its own approval", vec![all.clone(), other.clone()], &["one"], false),
        ("an added hold on new destinations", vec![all.clone(), weak.clone()], &["one"], false),
        ("both approvals", vec![all.clone(), weak.clone()], &["one", "dual"], true),
        ("no rule on new destinations", vec![other], &["one"], false),
        ("a rule without a cool-down", vec![rule("all", "hold", "dual", ", destination.new = true")], &["dual"], false),
        ("a rule in shadow mode", vec![all.clone(), weak.replace("when", "mode = \"shadow\"\nwhen")], &["dual"], true),
        (
            "a rule that denies",
            vec![all.clone(), rule("no", "deny", "", &format!("{new}, amount = \"(500, inf) USD\""))],
            &["dual"],
            false,
        ),
        ("a rule that allows the known", vec![all.clone(), rule("old", "allow", "", old)], &["dual"], false),
        (
            "a limit that holds",
            vec![all.clone(), limit("day", "\"hold\"\napproval = \"one\"", on_new)],
            &["dual"],
            false,
        ),
        (
            "a limit whose approval is complete too",
            vec![all.clone(), limit("day", "\"hold\"\napproval = \"one\"", on_new)],
            &["dual", "one"],
            true,
        ),
        ("a limit that denies", vec![all.clone(), limit("day", "\"deny\"", on_new)], &["dual"], false),
        (
            "a rule of the other environment",
            vec![
                all,
                rule("no", "deny", "", &format!("{new}, environment = \"sandbox\", amount = \"(500, inf) USD\"")),
            ],
            &["dual"],
            true,
        ),
    ];
    let body =
        json!({"requestId": "r-1", "source": {"amount": "5", "currency": "usdc"}, "destination": {"userId": USER}});
    for (what, texts, complete, is_known) in table {
        let rules = rules(&(any.clone() + &texts.concat()));
        let paid = rules.facts_of(&[format!("user:{USER}")], known(Some(0)));
        let verdict = decide_with(&rules, "createSwap", &body, &Facts { paid, ..Facts::default() });
        let is_complete = |approval: &std::sync::Arc<str>| complete.contains(&&**approval);
        let found = rules.makes_known(Environment::Production, &HoldCauses::of(&verdict), is_complete);
        assert_eq!(found, is_known, "{what}");
    }
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
