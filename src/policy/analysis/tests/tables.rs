use super::table::table;
use super::world::{AnalysisWorld, Dice, SWAP, seeds};
use super::*;
use crate::policy::request::Field;

fn table_of(text: &str) -> String {
    table(&set(text), &known(), TABLE_STEPS).to_string()
}

fn of_swaps(text: &str) -> Vec<PassRow> {
    let table = table(&set(text), &known(), TABLE_STEPS);
    let found = table.operations.into_iter().find(|one| one.operation == SWAP);
    found.unwrap().rows
}

/// The figures of a row, in whole dollars.
fn figures(row: &PassRow) -> Vec<Option<u128>> {
    row.most.iter().map(|most| most.most.map(|most| most / 1_000_000)).collect()
}

#[test]
fn the_largest_amounts_are_those_of_the_rules() {
    let text = rule("small", "allow", "op = \"createSwap\", role = \"payer\", amount = \"(0, 100] USD\"")
        + &rule("large", "hold", "op = \"createSwap\", role = \"payer\", amount = \"(100, 500] USD\"")
        + &rule("largest", "hold", "op = \"createSwap\", role = \"chief\", amount = \"(0, 9000] USD\"")
            .replace("\"one\"", "\"dual\"")
        + &rule("no", "deny", "op = \"createSwap\", destination.new = true, amount = \"(50, inf) USD\"");
    let rows = of_swaps(&text);
    let find = |caller: &str, new: bool| {
        let is_it = |row: &&PassRow| row.caller == caller && row.destination.contains("any other, new") == new;
        figures(rows.iter().find(is_it).unwrap())
    };
    // With nobody, with one person, with three.
    assert_eq!(find("role `payer` alone", false), [Some(100), Some(500), None]);
    assert_eq!(find("role `payer` alone", true), [Some(50), None, None]);
    assert_eq!(find("role `chief` alone", false), [None, None, Some(9000)]);
    assert_eq!(find("role `chief` alone", true), [None, None, Some(50)]);
    assert_eq!(figures(rows.iter().find(|row| row.caller == "no such role").unwrap()), [None, None, None]);
    let limit =
        "[[limit]]\nid = \"day\"\nops = \"createSwap\"\nwindow = \"rolling 24h\"\nmax = \"70 USD\"\nover = \"deny\"\n";
    let rows = of_swaps(&(text.clone() + limit));
    assert!(rows.iter().flat_map(figures).flatten().all(|most| most <= 70));
    let words = table_of(&(text + limit));
    assert!(words.contains("limit `day`: at most 70 USD in any 1 d") && words.ends_with("exact: proved\n"), "{words}");
}

#[test]
fn without_a_bound_it_says_so_and_past_the_budget_nothing_is_claimed() {
    let text = rule("all", "allow", "op = \"createSwap\"");
    assert!(table_of(&text).contains("any amount"), "{}", table_of(&text));
    let policies = set(&text);
    let spent = table(&policies, &known(), 0);
    let figures = || spent.operations.iter().flat_map(|one| &one.rows).flat_map(|row| &row.most);
    assert!(figures().all(|most| !most.is_exact && most.most.is_none()));
    assert!(spent.to_string().contains("not known") && spent.to_string().contains("not complete"), "{spent}");
}

/// No request of a small world passes with more than the table says.
#[test]
fn no_request_of_small_worlds_exceeds_the_table() {
    let mut checked = 0;
    for seed in seeds(5000..5060) {
        let mut dice = Dice::of(seed);
        let world = AnalysisWorld::random(&mut dice);
        let text = world.set(&mut dice);
        let Ok(policies) = read_set(&text) else { continue };
        if world.operation != SWAP {
            continue;
        }
        let rows = of_swaps(&text);
        let largest = |at: usize| rows.iter().filter_map(|row| row.most.get(at)?.most).max();
        let is_exact = rows.iter().flat_map(|row| &row.most).all(|most| most.is_exact);
        for payment in world.requests(&[]) {
            let verdict = payment.decide(&policies.rules, catalog()).unwrap();
            let ways = [Field::DestinationUser, Field::DestinationWallet, Field::DestinationExternal];
            let is_known = ways.iter().filter(|way| payment.paid.contains_key(way)).count() <= 1;
            let Some(value) = verdict.value.filter(|_| verdict.effect == Effect::Allow && is_exact && is_known) else {
                continue;
            };
            checked += 1;
            let most = largest(0).unwrap_or(0);
            assert!(u128::from(value.as_u64()) <= most, "seed {seed}: {payment}\n{text}\n{rows:?}");
        }
    }
    assert!(checked > 30, "{checked}");
}
