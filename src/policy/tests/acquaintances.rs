//! `new` with a `cooldown`: a first payment opens a destination only after a time, or with an approval.

use serde_json::json;

use super::deciding::{USER, decide_with, rule, rules};
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
