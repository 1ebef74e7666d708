use super::world::{AnalysisWorld, Dice, SWAP, is_told, seeds};
use super::*;
use crate::base::finding::Severity;
use crate::base::ids::OperationId;
use crate::policy::rules::{Rules, Verdict};

/// Oddities of rules, whatever their tests.
fn of_rules(policies: &Policies) -> Vec<Finding> {
    policies.oddities(&known()).into_iter().filter(|finding| !finding.text.contains("no `[[test]]` covers")).collect()
}

fn odd(text: &str) -> String {
    findings_text(&of_rules(&set(text)))
}

/// The rules without one, as if it had never been written.
fn without(rules: &Rules, id: &str) -> Rules {
    let left = rules.rules.iter().filter(|rule| &*rule.id != id).cloned().collect();
    Rules::new(left, rules.limits.clone(), rules.approvals.clone(), rules.groups.clone(), rules.valuation.clone())
}

fn names_reason(verdict: &Verdict, id: &str) -> bool {
    let named = format!("rule `{id}`");
    verdict.reasons.iter().chain(&verdict.outweighed).any(|reason| reason.cause.to_string() == named)
}

#[test]
fn what_is_said_of_rules_of_small_worlds_is_so_of_every_request() {
    let (mut unreachable, mut powerless, mut redundant, mut named, mut alone) = (0, 0, 0, 0, 0);
    for seed in seeds(1000..1100) {
        let mut dice = Dice::of(seed);
        let world = AnalysisWorld::random(&mut dice);
        let text = world.set(&mut dice);
        let policies = set(&text);
        let rules = &policies.rules;
        let has_amount = catalog().operation(&OperationId::new(world.operation)).unwrap().has_amount();
        let requests = world.requests(&[]);
        let decided: Vec<(&Payment, Verdict)> = requests
            .iter()
            .map(|payment| (payment, payment.decide(rules, catalog()).unwrap()))
            .filter(|(_, verdict)| !has_amount || verdict.value.is_some())
            .collect();
        for finding in of_rules(&policies) {
            assert_eq!(finding.severity, Severity::Warning);
            let id = finding.text.split('`').nth(1).unwrap();
            let shown = format!("seed {seed}: {finding}\n{text}");
            let rule = rules.rules.iter().find(|rule| &*rule.id == id).unwrap();
            let by = finding.text.split("because `").nth(1).or_else(|| finding.text.split("without it by `").nth(1));
            if let Some(by) = by.and_then(|rest| rest.split('`').next()) {
                named += 1;
                let is_with = |verdict: &Verdict| !names_reason(verdict, id) || names_reason(verdict, by);
                assert!(decided.iter().all(|(payment, verdict)| !is_told(payment) || is_with(verdict)), "{shown}");
            }
            if finding.text.contains("matches no request") {
                unreachable += 1;
                assert!(
                    !decided.iter().any(|(payment, verdict)| is_told(payment) && names_reason(verdict, id)),
                    "{shown}"
                );
            } else if finding.text.contains("has no effect") || finding.text.contains("contradict") {
                powerless += 1;
                let has_it = |verdict: &Verdict| verdict.effect == rule.effect && names_reason(verdict, id);
                assert!(!decided.iter().any(|(payment, verdict)| is_told(payment) && has_it(verdict)), "{shown}");
            } else if finding.text.contains("of any amount") {
                alone += 1;
                assert!(rule.approval.is_some() && finding.example.is_some(), "{shown}");
            } else if finding.text.contains("changes nothing") {
                redundant += 1;
                let less = without(rules, id);
                for (payment, verdict) in &decided {
                    let other = payment.decide(&less, catalog()).unwrap();
                    assert_eq!(
                        (verdict.effect, &verdict.approvals),
                        (other.effect, &other.approvals),
                        "{shown}{payment}"
                    );
                }
            }
        }
    }
    assert!(named > 4 && alone > 0, "{named}, {alone}");
    assert!(unreachable > 1 && powerless > 4 && redundant > 4, "{unreachable}, {powerless}, {redundant}");
}

#[test]
fn each_oddity_is_told_with_an_example() {
    let swap = |more: &str| format!("op = \"{SWAP}\"{more}");
    let small = rule("small", "allow", &swap(", amount = \"(0, 100] USD\""));
    let dual = |more: &str| rule("two", "hold", &swap(more)).replace("\"one\"", "\"dual\"");
    let cases = [
        (
            rule("never", "allow", &swap(", issuer = \"main\", caller = \"console:x\"")),
            "warning: set.toml:1:1: `never` matches no request",
        ),
        (
            small.clone() + &rule("no", "deny", &swap(", amount = \"(0, 500] USD\"")),
            "`small` has no effect: no request is allowed by it, because `no`, which is stricter, always matches too; this one is denied (by rule no)",
        ),
        (
            small.clone()
                + &rule("low", "deny", &swap(", amount = \"(0, 40] USD\""))
                + &rule("high", "deny", &swap(", amount = \"(40, 500] USD\"")),
            "`small` has no effect: no request is allowed by it, because stricter rules always match too; this one",
        ),
        (
            small.clone() + &rule("no", "deny", &swap(", amount = \"(0, 100] USD\"")),
            "`small` and `no` contradict each other",
        ),
        (
            small.clone() + &rule("any", "allow", &swap("")),
            "`small` changes nothing: every request that it matches is allowed without it by `any`",
        ),
        (
            small.clone() + &rule("large", "hold", &swap(", amount = \"(100.01, 500] USD\"")),
            "between `small` and `large`, no rule matches `createSwap` of 100.000001 USD to 100.01 USD: it is denied",
        ),
        (
            small.clone() + &rule("large", "hold", &swap(", amount = \"[100, 500] USD\"")),
            "`small` and `large` both match `createSwap` of 100 USD to 100 USD: it is held",
        ),
        (
            format!(
                "{small}[[limit]]\nid = \"none\"\nops = \"{SWAP}\"\nwindow = \"rolling 1h\"\nmax = \"0.5 USD\"\nover = \"deny\"\n"
            ) + &rule("large", "allow", &swap(", amount = \"(1, 500] USD\", environment = \"sandbox\"")),
            "`large` has no effect: no request is allowed by it, because stricter rules always match too; this one is denied (by limit none)",
        ),
        (
            small.clone() + &rule("new", "hold", &swap(", destination.new = true")),
            "`new` holds `createSwap` of any amount: `one` alone approves more than the 100 USD of other rules",
        ),
        (
            small.clone()
                + &rule("new", "hold", &swap(", destination.new = true"))
                + &dual(", amount = \"(100, 500] USD\", environment = \"sandbox\""),
            "`new` holds `createSwap` of any amount: `one` alone approves more than the 100 USD of other rules",
        ),
    ];
    for (text, expected) in cases {
        let found = odd(&text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
    let quiet = [
        // Whoever approves it approves the same of others, or others approve it as well.
        small.clone()
            + &rule("new", "hold", &swap(", destination.new = true"))
            + &rule("large", "hold", &swap(", amount = \"(100, inf) USD\"")),
        small.clone()
            + &rule("new", "hold", &swap(", destination.new = true"))
            + &dual(", amount = \"(100, inf) USD\""),
        rule("offers", "hold", "op = \"acceptOffer\""),
        small.clone() + &rule("large", "hold", &swap(", amount = \"(100, 500] USD\"")),
        small.clone() + &rule("no", "deny", &swap(", environment = \"sandbox\"")),
        small.clone() + &rule("much", "hold", &swap(", amount = \"(50, 80] USD\"")),
        // An exception reaches as far as it likes.
        small.clone() + &rule("new", "hold", &swap(", amount = \"(50, 500] USD\", destination.new = true")),
        // To deny what nothing allows is a good habit.
        small.clone() + &rule("no", "deny", "op = \"acceptOffer\""),
        // What others let pass, this one names a place of, and a configuration may list the place.
        small.clone()
            + &rule("named", "allow", &swap(", amount = \"(0, 50] USD\", body = { \"/developerFee\" = \"present\" }")),
    ];
    for text in quiet {
        assert_eq!(odd(&text), "", "{text}");
    }
}

/// An example can be put into a `[[test]]` as it stands.
#[test]
fn an_example_is_a_test() {
    let text = rule(
        "small",
        "allow",
        "op = \"createSwap\", amount = \"(0, 100] USD\", destination.new = true, role = \"r\", weekday = \"sat\", \
         zone = \"Europe/Berlin\", price = \"(2, inf)\", \
         body = { \"/developerFee/fees/*/walletAddress\" = { in = [\"x\"] } }",
    ) + &rule("large", "hold", "op = \"createSwap\", amount = \"(0, 500] USD\"");
    let found = of_rules(&set(&text));
    let example = found.iter().find(|finding| finding.text.contains("no effect")).unwrap().example.clone().unwrap();
    let test = format!("{text}[[test]]\nexpect = \"hold\"\nby = \"large\"\ngiven = {{ {example} }}\n");
    let policies = set(&test);
    let tried = policies.trials[0].run(&policies.rules, catalog()).unwrap();
    assert!(tried.is_passed, "{example}: {:?}", tried.verdict);
}

#[test]
fn rules_whose_edges_no_test_touches_are_told() {
    let rules = rule("small", "allow", "op = \"createSwap\", role = \"r\", amount = \"(0, 100] USD\"")
        + &rule("no", "deny", "op = \"createSwap\", environment = \"sandbox\"")
        + "[[limit]]\nid = \"day\"\nops = \"createSwap\"\nwindow = \"rolling 24h\"\nmax = \"90 USD\"\nover = \"deny\"\n";
    let test = |given: &str| format!("[[test]]\nexpect = \"deny\"\ngiven = {{ op = \"createSwap\", {given} }}\n");
    let (at, above) = (test("role = \"r\", amount = \"100 usdc\""), test("role = \"r\", amount = \"100.000001 usdc\""));
    let (sandbox, within) = (test("amount = \"1 usdc\", environment = \"sandbox\""), test("amount = \"1 usdc\""));
    let all = format!("{rules}{at}{above}{sandbox}{within}");
    let said = |text: &str| findings_text(&set(text).oddities(&known()));
    assert_eq!(said(&all), "");
    assert!(said(&rules).contains("set.toml:1:1: no `[[test]]` covers any of the rules"));
    for (left_out, expected) in [
        (&at, "no test matches `small`"),
        (&above, "no test covers an edge of `small`: 100.000001 USD"),
        (&sandbox, "no test matches `no`"),
    ] {
        let found = said(&all.replace(left_out, ""));
        assert!(found.contains(expected) && found.lines().count() == 2, "{expected}\n{found}");
    }
    let full = format!("{rules}{at}{above}");
    assert!(said(&full).contains("limit `day`: no test stays within it"), "{}", said(&full));
}
