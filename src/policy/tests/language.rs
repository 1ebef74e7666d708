use super::*;
use crate::policy::{Limit, Max, Rule};

pub(super) const WORDS: &str = r#"
[group.ops]
members = ["console:ops-1", "console:ops-2", "console:ops-3"]
[group.finance]
members = ["console:finance-1", "console:finance-2"]
[list.payout-accounts]
account = ["9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"]
[approval.dual]
all = [{ of = "ops", n = 2 }, { of = "finance", n = 1 }]
expires = "8h"
[approval.one]
any = [{ of = "ops", n = 1 }, { all = [{ of = "finance", n = 2 }] }]
expires = "30m"
"#;

pub(super) fn all(texts: &[&str]) -> Result<PolicyReading, Vec<Finding>> {
    let files: Vec<(String, String)> =
        texts.iter().enumerate().map(|(at, text)| (format!("{at}.toml"), (*text).to_owned())).collect();
    read_policies(&files, &KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: true })
}

fn faults(texts: &[&str]) -> String {
    all(texts).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The example of the design; its invariant is below.
pub(super) const DESIGN: &str = r#"
[[rule]]
id = "small-offramps"
effect = "allow"
when = { op = ["createOfframp"], environment = ["production"], role = ["payroll"], destination.account = "@payout-accounts", amount = "(0, 5000] USD" }

[[rule]]
id = "large-offramps"
effect = "hold"
approval = "dual"
when = { op = ["createOfframp"], amount = "(5000, 50000] USD" }

[[limit]]
id = "org-day"
ops = ["createSwap", "createOfframp"]
window = "rolling 24h"
per = ["environment"]
max = "250000 USD"
over = "deny"

[[limit]]
id = "same-payment-twice"
ops = ["@money"]
window = "rolling 1h"
per = ["payment"]
max = "1 call"
over = "hold"
approval = "dual"

[[test]]
given = { op = "createOfframp", environment = "production", role = ["payroll"], amount = "5000.000001 usdc" }
expect = "hold"
by = "large-offramps"

[[test]]
given = { op = "createOfframp", role = ["payroll"], amount = "5000 USDC", destination.account = "9F1C0E8E-2f53-4a5e-9a52-6a1c0f7d4e11" }
expect = "allow"

[[test]]
given = { op = "createOfframp", role = ["payroll"], amount = "5000 usdc", destination.account = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", full = "org-day" }
expect = "deny"
by = "org-day"

[[test]]
given = { op = "createOfframp", role = ["payroll"], amount = "5000 usdc", destination.account = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", full = "same-payment-twice" }
expect = "hold"
by = "same-payment-twice"

[[test]]
given = { op = "createOfframp", role = ["payroll"], amount = "5000 usdc" }
expect = "deny"

[[test]]
given = { op = "createSwap", amount = "5 usdc" }
expect = "deny"
"#;

#[test]
fn what_the_design_shows_is_read_and_its_tests_pass() {
    let policies = all(&[DESIGN, WORDS]).unwrap().policies;
    assert_eq!((policies.rules.rules.len(), policies.rules.limits.len(), policies.trials.len()), (2, 2, 6));
    assert_eq!(policies.rules.approvals.len(), 2);
    for trial in &policies.trials {
        let tried = trial.run(&policies.rules, catalog()).unwrap();
        assert!(tried.is_passed, "{}: {:?}", trial.place.0, tried.verdict);
    }
    let [day, twice]: [Limit; 2] = policies.rules.limits.try_into().unwrap();
    assert_eq!((day.max, day.over), (Max::MicroUsd(250_000_000_000), None));
    assert_eq!((twice.max, twice.over.as_deref()), (Max::Calls(1), Some("dual")));
}

#[test]
fn invariants_are_proved_or_the_set_is_none() {
    let invariant = |claim: &str| format!("[[invariant]]\nid = \"nothing-large\"\n{claim}\n");
    let large = invariant(
        "never = { effect = \"allow\", op = [\"createSwap\", \"createOfframp\"], amount = \"(5000, inf) USD\" }",
    );
    assert_eq!(all(&[DESIGN, WORDS, &large]).unwrap().policies.invariants.len(), 1);
    // What is held besides is not allowed; a gap of the least unit is enough.
    let wider = DESIGN.replace("(0, 5000]", "(0, 5000.01]");
    assert!(all(&[&wider, WORDS, &large]).is_ok());
    let told = faults(&[&wider.replace("(5000, 50000]", "(5000.000001, 50000]"), WORDS, &large]);
    assert_eq!(
        told,
        "error: 2.toml:1:1: `nothing-large` says never `allow`, but this request is allowed (by rule small-offramps)\n  \
         example: op = \"createOfframp\", caller = \"main:anybody\", role = [\"payroll\"], source = { amount = \
         \"5000.000001\", currency = \"usdc\" }, destination = { account = \"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\" }\n  \
         remedy: correct the rules, or narrow the invariant"
    );
    let odd = [
        ("", "one of `never` and `always`"),
        ("never = { op = \"createSwap\" }", "`effect` is missing"),
        ("never = { effect = \"allow\" }", "`op` is missing"),
        ("never = { effect = \"pass\", op = \"createSwap\" }", "`effect` cannot be `pass`"),
        ("never = { effect = \"allow\", op = \"createSwap\" }\nmode = \"shadow\"", "there is no field `mode`"),
    ];
    for (claim, expected) in odd {
        let told = faults(&[&invariant(claim)]);
        assert!(told.contains(expected), "{told}");
    }
    assert!(faults(&[&large, &large]).contains("another invariant is named `nothing-large`"));
}

/// Nobody votes on what they ask themselves.
#[test]
fn an_approval_can_be_reached_whoever_asks() {
    let text = "[approval.both]\nof = \"finance\"\nn = 2\nexpires = \"1h\"\n";
    let told = faults(&[WORDS, text]);
    assert!(told.contains("1.toml:1:11: `both` can never be completed for a request of `finance-1`: nobody may approve their own request"), "{told}");
}

#[test]
fn a_limit_that_callers_escape_needs_one_around_it() {
    let limit = |id: &str, per: &str| {
        format!(
            "[[limit]]\nid = \"{id}\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nmax = \"5 USD\"\nover = \"deny\"\nper = [\"{per}\"]\n"
        )
    };
    let told = faults(&[&limit("open", "destination"), WORDS]);
    assert!(told.contains("callers choose all keys of `open`, and no other limit bounds `createSwap`"), "{told}");
    assert!(all(&[&limit("open", "destination"), &limit("all", "environment"), WORDS]).is_ok());
}

/// Authors are told of many faults at once.
#[test]
fn every_fault_of_rules_and_limits_is_told() {
    let rule = |when: &str| format!("[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = {{ {when} }}\n");
    let limit = |lines: &str| {
        format!(
            "[[limit]]\nid = \"l\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nmax = \"5 USD\"\nover = \"deny\"\n{lines}\n"
        )
    };
    let texts = [
        "[[rule]]\nid = \"a\"\neffect = \"alow\"\n".to_owned(),
        "[[rule]]\nid = \"b\"\neffect = \"hold\"\nwhen = { op = \"createSwop\", amout = \"(0, 5] USD\" }\n".to_owned(),
        "[[rule]]\nid = \"c\"\neffect = \"allow\"\napproval = \"duel\"\nwhen = { op = \"createSwap\" }\n".to_owned(),
        rule("op = \"@money\", amount = \"(0, 5] USD\""),
        rule("op = \"createSwap\", amount = \"(5, 0] USD\", price = \"[1e3, inf)\""),
        rule("op = \"createSwap\", amount = \"(0, 5] EUR\", currency = \"usdd\", chain = \"POLYGOM\""),
        rule("op = \"createSwap\", destination = { acount = \"x\", account = \"x\", wallet = \"0x12\" }"),
        rule("op = \"createSwap\", destination = { wallet = \"@payout-accounts\", user = \"@payout-acounts\" }"),
        rule("op = \"createSwap\", weekday = [\"monday\"], hour = \"[9, 25)\", zone = \"Europe/Berlim\""),
        rule("op = \"createSwap\", weekday = [\"mon\"]"),
        rule("op = \"createSwap\", body = { limitPrice = \"present\", \"/a\" = \"there\", \"/b\" = { equal = 5 } }"),
        limit("per = [\"destinatio\"]"),
        limit("per = [\"destination\"]").replace("\"l\"", "\"open\""),
        limit("").replace("createSwap", "@money"),
        limit("").replace("createSwap", "listUsers"),
        limit("").replace("5 USD", "5 EUR").replace("rolling 24h", "rolling 1y"),
        limit("").replace("\"deny\"", "\"hold\"").replace("rolling 24h", "calendar day"),
        "[approval.x]\nall = [{ of = \"opps\", n = 1 }, { of = \"ops\", n = 9 }]\nexpires = \"8 hours\"\n".to_owned(),
        "[approval.y]\nany = []\nexpires = \"8h\"\n[group.z]\nmembers = [\"anna\"]\n[list.e]\n".to_owned(),
        "[asset.weth]\ndecimals = 19\nvalue = \"5 USD\"\n[asset.X]\ndecimals = 2\n[value]\nslippage = \"101%\"\n".to_owned(),
        "[[test]]\ngiven = { op = \"createSwap\", source.account = \"x\", time = \"noon\" }\nexpect = \"alow\"\nby = \"q\"\n"
            .to_owned(),
        "[rule]\nid = \"x\"\n[group]\nmembers = [\"console:x\"]\n[[list]]\n".to_owned(),
        "[[rule]]\nid = \"twice\"\neffect = \"deny\"\nwhen = { op = \"*\" }\n".repeat(2),
    ];
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts.push(WORDS);
    insta::assert_snapshot!(faults(&texts));
}

/// All that a rule can ask.
pub(super) const EVERYTHING: &str = r#"
[[rule]]
id = "r"
effect = "allow"
when = { op = ["@money", "@change"], environment = "sandbox", issuer = "main", caller = "main:x", role = "r", requester = "p",
  user = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", chain = ["POLYGON"], currency = "usdc", account = "@payout-accounts",
  wallet = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", fee_wallet = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
  source = { user = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", chain = "BASE", currency = "usdt" }, price = "[0.99, inf)",
  destination = { new = false, external_wallet = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11" }, amount = "(0, 5] USD", without_amount = "match",
  body = { "/developerFee" = "absent", "/source/chain" = { in = ["BASE", "TRON"] }, "/cancelAfterSeconds" = { equals = 60 } },
  weekday = ["mon", "fri"], hour = "[9, 17)", zone = "Europe/Berlin" }
"#;

const JURISDICTION: &str = "/supportingInformation/beneficiaryDetails/jurisdictionOfIncorporation";

/// A condition that no request can meet: the rule would be silently without effect.
#[test]
fn rules_are_checked_against_the_contract() {
    let offramp =
        |pointer: &str, sought: &str| format!("op = \"createOfframp\", body = {{ \"{pointer}\" = {sought} }}");
    let country = |text: &str| offramp(JURISDICTION, &format!("{{ in = [\"RUS\", \"{text}\"] }}"));
    let rule = |when: &str| format!("[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = {{ {when} }}\n");
    let list = "[list.countries]\ntext = [\"RU\", \"IR\", \"PRK\"]\n";
    let two = "op = [\"createSwap\", \"createOfframp\"]";
    for (when, expected) in [
        (country("RU"), format!("`{JURISDICTION}` can never be `RU`\n  remedy: the contract wants 3 of `A-Z`")),
        (offramp(JURISDICTION, "{ equals = 7 }"), format!("`{JURISDICTION}` can never be `7`")),
        (offramp(JURISDICTION, "{ in = [\"@countries\"] }"), "can never be `IR`, and 1 more values cannot be there".to_owned()),
        (offramp(&JURISDICTION.replace("Inc", "inc"), "\"present\""), format!("did you mean `{JURISDICTION}`?")),
        (offramp("/developerFees", "\"absent\""), "did you mean `/developerFee`?".to_owned()),
        (offramp("/developerFee/walletAddress", "\"present\""), "did you mean `/developerFee/fees/*/walletAddress`?".to_owned()),
        (offramp("/source/zzz", "\"present\""), "the fields there are: `/source/amount`, `/source/chain`, ".to_owned()),
        (offramp("/developerFee/fees/*/type", "{ equals = \"flat\" }"), "the contract wants one of [\"PERCENTAGE\",\"FLAT\"]".to_owned()),
        (offramp("/supportingInformation/documents", "{ equals = \"x\" }"), "the contract wants a value of type array".to_owned()),
        ("op = \"listUsers\", body = { \"/x\" = \"absent\" }".to_owned(), "`listUsers` has no `/x` in any body".to_owned()),
        ("op = \"createSwap\", destination.account = \"@payout-accounts\"".to_owned(), "`createSwap` has no `destination.account`: the condition never holds\n  remedy: remove the condition, or name only operations that have it: `createOfframp`".to_owned()),
        (format!("{two}, destination.account = \"@payout-accounts\""), "`createSwap` has no `destination.account`".to_owned()),
        (
            "op = \"*\", body = { \"/developerFee/fees/*/walletAdress\" = \"present\" }".to_owned(),
            "did you mean `/developerFee/fees/*/walletAddress`? Or else name the operation by its id".to_owned(),
        ),
        ("op = \"*\", body = { \"/developerfee\" = \"absent\" }".to_owned(), "did you mean `/developerFee`?".to_owned()),
        (format!("{two}, body = {{ \"/developerFee\" = \"present\" }}"), "`createSwap` has no `/developerFee` in any body".to_owned()),
        ("op = \"createOfframp\", price = \"[1, inf)\"".to_owned(), "`createOfframp` has no `price`".to_owned()),
        ("op = \"acceptOffer\", destination.new = true".to_owned(), "`acceptOffer` has no `destination`".to_owned()),
        ("op = \"@change\", chain = \"BASE\"".to_owned(), "have no `chain`".to_owned()),
    ] {
        let told = faults(&[&rule(&when), WORDS, list]);
        assert!(told.contains(&expected) && told.matches("error: ").count() == 1, "{when}\n{told}");
        let limit = format!(
            "[[limit]]\nid = \"l\"\nops = \"createOfframp\"\nwindow = \"rolling 24h\"\nmax = \"5 calls\"\nover = \"deny\"\nwhen = {{ {} }}\n",
            when.trim_start_matches("op = \"createOfframp\", ")
        );
        if when.starts_with("op = \"createOfframp\"") {
            assert!(faults(&[&limit, WORDS, list]).contains(&expected), "{limit}");
        }
    }
    for good in [
        country("IRN"),
        offramp("/developerFee/fees/0/type", "{ equals = \"FLAT\" }"),
        offramp("/developerFee", "\"absent\""),
        format!("{two}, body = {{ \"/developerFee\" = \"absent\" }}"),
        "op = \"@money\", destination.account = \"@payout-accounts\"".to_owned(),
        "op = \"updateUser\", body = { \"/nickname\" = { equals = \"x\" } }".to_owned(),
        "op = \"*\", user = \"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\"".to_owned(),
    ] {
        assert!(all(&[&rule(&good), WORDS, list]).is_ok(), "{good}");
    }
}

/// One mistake, one finding: nothing is said of what follows from it.
#[test]
fn a_wrong_word_is_told_once() {
    let limit = "ops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nover = \"deny\"\n";
    for text in [
        "[[rule]]\nid = \"r\"\neffct = \"deny\"\nwhen = { op = \"createSwap\" }\n[[test]]\ngiven = { op = \"createSwap\" }\nexpect = \"deny\"\nby = \"r\"\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhenn = { op = \"createSwap\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { opp = \"createSwap\", amount = \"(0, 5] USD\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwop\", body = { \"/x\" = \"absent\" }, destination.account = \"@payout-accounts\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"hold\"\naproval = \"dual\"\nwhen = { op = \"createSwap\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", hour = \"[9, 17)\", zonne = \"UTC\" }\n".to_owned(),
        "[group.new]\nmember = [\"console:a\"]\n[approval.x]\nof = \"new\"\nn = 1\nexpires = \"1h\"\n".to_owned(),
        "[approval.x]\nal = [{ of = \"ops\", n = 1 }]\nexpires = \"1h\"\n[[rule]]\nid = \"r\"\neffect = \"hold\"\napproval = \"x\"\nwhen = { op = \"createSwap\" }\n".to_owned(),
        "[list.x]\nacount = [\"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\"]\n[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createOfframp\", account = \"@x\" }\n".to_owned(),
        "[asset.weth]\ndecimal = 18\n[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", currency = \"weth\" }\n".to_owned(),
        format!("[[limit]]\nid = \"l\"\nmaxx = \"5 USD\"\nper = [\"environment\"]\n{limit}[[limit]]\nid = \"m\"\nmax = \"5 USD\"\nper = [\"destination\"]\n{limit}"),
        "[[rate]]\nid = \"r\"\nops = [\"*\"]\nqouta = \"1/s\"\n".to_owned(),
        "[[invariant]]\nid = \"i\"\nnver = { effect = \"allow\", op = \"createSwap\" }\n".to_owned(),
        "[[test]]\ngiven = { op = \"createSwop\", amount = \"5 usdc\", role = \"x\" }\nexpect = \"deny\"\n".to_owned(),
        "[[test]]\ngiven = { opp = \"createSwap\", amount = \"5 usdc\", role = \"x\" }\nexpect = \"deny\"\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", destination.wallet = \"@payees\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"hold\"\napproval = \"dualll\"\nwhen = { op = \"createSwap\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", source.currency = \"usdd\" }\n".to_owned(),
        "[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", hour = \"[9, 17)\", zone = \"Europe/Berln\" }\n".to_owned(),
        "[[limit]]\nid = \"l\"\nops = \"listUsers\"\nwindow = \"rolling 24h\"\nmax = \"5 USD\"\nover = \"deny\"\n".to_owned(),
    ] {
        let told = faults(&[&text, WORDS]);
        assert_eq!(told.matches("error: ").count(), 1, "{text}\n{told}");
    }
}

#[test]
fn a_rule_without_faults_is_taken_whatever_it_asks() {
    let [rule]: [Rule; 1] = all(&[EVERYTHING, WORDS]).unwrap().policies.rules.rules.try_into().unwrap();
    assert_eq!(&*rule.id, "r");
}
