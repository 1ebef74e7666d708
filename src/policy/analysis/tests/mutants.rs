use super::world::{AnalysisWorld, Dice};
use super::*;
use crate::base::ids::OperationId;

#[test]
fn mutants_that_are_said_to_be_equivalent_are_so_for_every_request() {
    let (mut equivalent, mut missed) = (0, 0);
    for seed in 3000..3004 {
        let mut dice = Dice::of(seed);
        let world = AnalysisWorld::random(&mut dice);
        let text = world.set(&mut dice);
        let policies = set(&text);
        let limits: Vec<&str> = policies.rules.limits.iter().map(|limit| &*limit.id).collect();
        let requests = world.requests(&limits);
        let has_amount = catalog().operation(&OperationId::new(world.operation)).unwrap().has_amount();
        let decide = |policies: &Policies, payment: &Payment| {
            let verdict = payment.decide(&policies.rules, catalog()).unwrap();
            (verdict.effect, verdict.approvals, verdict.value)
        };
        for mutant in policies.mutants() {
            let mutated = mutant.applied(&policies);
            match mutant.fate(&policies, &known()) {
                MutantFate::Equivalent => {
                    equivalent += 1;
                    for payment in &requests {
                        let (before, after) = (decide(&policies, payment), decide(&mutated, payment));
                        let is_told = !has_amount || before.2.is_some();
                        assert!(!is_told || before == after, "seed {seed}: {}: {payment}", mutant.what);
                    }
                }
                MutantFate::Missed(Some(payment)) => {
                    missed += 1;
                    let (before, after) = (decide(&policies, &payment), decide(&mutated, &payment));
                    // Fewer people for what is held as before.
                    let is_held = mutant.what.starts_with("approval") && after.0 == Effect::Hold;
                    assert!(before != after || is_held, "seed {seed}: {}: {payment}", mutant.what);
                }
                fate @ (MutantFate::Missed(None) | MutantFate::BeyondTests) => {
                    // Places that a configuration may list, and windows, show in no request alone.
                    let is_of_limit = mutant.what.starts_with("limit") || text.contains("/fee");
                    assert!(is_of_limit || !limits.is_empty(), "seed {seed}: {}: {fate:?}", mutant.what);
                }
                MutantFate::Noticed => panic!("there are no tests"),
            }
        }
    }
    assert!(equivalent > 3 && missed > 20, "{equivalent}, {missed}");
}

const SET: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = "createSwap", amount = "(0, 100] USD" }
[[rule]]
id = "large"
effect = "hold"
approval = "dual"
when = { op = "createSwap", amount = "(100, 500] USD" }
[[limit]]
id = "day"
ops = "createSwap"
window = "rolling 24h"
max = "1000 USD"
over = "deny"
[[test]]
given = { op = "createSwap", amount = "100 usdc" }
expect = "allow"
[[test]]
given = { op = "createSwap", amount = "100.000001 usdc" }
expect = "hold"
people = 3
[[test]]
given = { op = "createSwap", amount = "500 usdc" }
expect = "hold"
[[test]]
given = { op = "createSwap", amount = "500.000001 usdc" }
expect = "deny"
[[test]]
given = { op = "createSwap", amount = "5 usdc", full = "day" }
expect = "deny"
"#;

fn fates(text: &str) -> Vec<(String, MutantFate)> {
    let policies = set(text);
    let fate = |mutant: Mutant| (mutant.what.clone(), mutant.fate(&policies, &known()));
    policies.mutants().into_iter().map(fate).collect()
}

#[test]
fn tests_at_every_edge_notice_every_mutant_that_matters() {
    for (what, fate) in fates(SET) {
        match what.as_str() {
            "limit `day`: at most 999.999999 USD" | "limit `day`: at most 1000.000001 USD" => {
                assert_eq!(fate, MutantFate::BeyondTests, "{what}");
            }
            // Nothing beyond is allowed by this rule: what it holds up is held all the same.
            "rule `small`: amounts of 0.000001 USD to 100.000001 USD" => {
                assert_eq!(fate, MutantFate::Equivalent, "{what}")
            }
            _ if what.contains("approval `one`") => assert_eq!(fate, MutantFate::Equivalent, "{what}"),
            _ => assert_eq!(fate, MutantFate::Noticed, "{what}"),
        }
    }
}

#[test]
fn a_missing_test_is_shown_with_the_request_that_it_needs() {
    let text = SET.replace("amount = \"500 usdc\"", "amount = \"499 usdc\"");
    let missed: Vec<String> = fates(&text)
        .into_iter()
        .filter_map(|(what, fate)| match fate {
            MutantFate::Missed(Some(payment)) => Some(format!("{what}: {payment}")),
            _ => None,
        })
        .collect();
    let edge = "op = \"createSwap\", caller = \"main:anybody\", source = { amount = \"500\", currency = \"usdc\" }";
    assert_eq!(missed, [format!("rule `large`: amounts of 100.000001 USD to 499.999999 USD: {edge}")]);
}
