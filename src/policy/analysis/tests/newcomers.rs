//! Who may approve a destination counts beside single requests.

use super::*;
use crate::policy::{Direction, difference};

const AMOUNTS: &str = "op = \"createSwap\", amount = ";
const NEW: &str = "destination = { new = true, cooldown = \"24h\" }";

fn held(id: &str, approval: &str, when: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\neffect = \"hold\"\napproval = \"{approval}\"\nwhen = {{ {when} }}\n")
}

fn limit(more: &str) -> String {
    format!(
        "[[limit]]\nid = \"day\"\nops = \"createSwap\"\nwindow = \"rolling 24h\"\nper = [\"environment\"]\nmax = \"90000 USD\"\n{more}\n\
         when = {{ {NEW} }}\n"
    )
}

/// Payments to 5000 USD pass once their destination is known, for which one person is enough.
fn base() -> String {
    rule("small", "allow", &format!("{AMOUNTS}\"(0, 5000] USD\""))
        + &held("new-small", "one", &format!("{AMOUNTS}\"(0, 5000] USD\", {NEW}"))
        + &rule("largest", "deny", &format!("{AMOUNTS}\"(5000, inf) USD\""))
}

fn large(approval: &str, more: &str) -> String {
    held("new-large", approval, &format!("{AMOUNTS}\"(5000, inf) USD\", {NEW}{more}"))
}

fn direction(old: &str, new: &str) -> Direction {
    difference(&set(&(base() + old)), &set(&(base() + new)), &known()).direction
}

/// No request needs `new-large`, and without it one person opens destinations that needed three before.
#[test]
fn fewer_people_for_a_destination_are_looser_though_each_request_comes_out_the_same() {
    let dual = large("dual", "");
    let shadow = dual.replace("effect", "mode = \"shadow\"\neffect");
    let denies = rule("no", "deny", &format!("{AMOUNTS}\"(9000, inf) USD\", {NEW}"));
    let denies_all = rule("no", "deny", &format!("{AMOUNTS}\"(9000, inf) USD\""));
    let old =
        rule("old", "allow", &format!("{AMOUNTS}\"(0, 10] USD\", destination = {{ new = false, cooldown = \"1h\" }}"));
    let here = large("dual", ", environment = \"production\"");
    let there = large("dual", ", environment = \"sandbox\"");
    let by_caller = large("dual", ", caller = \"main:a\"");
    let over = |approval: &str| limit(&format!("over = \"hold\"\napproval = \"{approval}\""));
    let table: [(&str, &str, &str, Direction); 18] = [
        ("removed", &dual, "", Direction::Loosens),
        ("added", "", &dual, Direction::OnlyTightens),
        ("in shadow mode", &dual, &shadow, Direction::Loosens),
        ("in one environment", &dual, &here, Direction::Loosens),
        ("in the other environment", &here, &there, Direction::Loosens),
        ("for a caller alone, which counts for all", &dual, &by_caller, Direction::Same),
        ("without the cool-down", &dual, &dual.replace(", cooldown = \"24h\"", ""), Direction::Loosens),
        ("a shorter cool-down", &dual, &dual.replace("24h", "1h"), Direction::Same),
        ("fewer people", &dual, &large("one", ""), Direction::Loosens),
        ("more people", &large("one", ""), &dual, Direction::OnlyTightens),
        ("under another name", &dual, &dual.replace("new-large", "larger"), Direction::Same),
        ("a rule that denies is removed", &denies, "", Direction::Loosens),
        ("a rule that denies has no cool-down any more", &denies, &denies_all, Direction::Loosens),
        ("a rule that denies instead", &dual, &denies, Direction::OnlyTightens),
        ("people instead of a rule that denies", &denies, &dual, Direction::Loosens),
        ("an allow for the known is removed", &old, "", Direction::Loosens),
        ("fewer people at a limit", &over("dual"), &over("one"), Direction::Loosens),
        ("a limit that denies instead", &over("dual"), &limit("over = \"deny\""), Direction::OnlyTightens),
    ];
    for (what, old, new, expected) in table {
        assert_eq!(direction(old, new), expected, "{what}");
    }
    let found = difference(&set(&(base() + &dual)), &set(&base()), &known());
    let text = found.to_string();
    let told = "fewer or other people may approve a destination in production: it was new also for `new-large`, with its cool-down\n";
    assert!(text.contains(told) && text.ends_with("allows more than today\n"), "{text}");
    assert_eq!(found.news(false)[0], "fewer or other people may approve a destination in production");
    assert_eq!(found.as_json()["newcomers"][1]["loosens"], true);
}

/// A set without any cool-down decides alike before and after: nobody needs to approve destinations.
#[test]
fn without_a_cool_down_on_one_side_people_for_a_destination_do_not_matter() {
    let plain = rule("small", "allow", &format!("{AMOUNTS}\"(0, 5000] USD\""))
        + &rule("largest", "deny", &format!("{AMOUNTS}\"(5000, inf) USD\""));
    let compare = |old: &str, new: &str| difference(&set(old), &set(new), &known()).direction;
    let with = plain.clone() + &large("dual", "");
    assert_eq!(compare(&plain, &with), Direction::Same);
    assert_eq!(compare(&with, &plain), Direction::Same);
    let deny = rule("none", "deny", "op = \"createSwap\"");
    assert_eq!(compare(&with, &(deny + &with)), Direction::OnlyTightens);
}

#[test]
fn nobody_is_told_to_remove_a_rule_that_counts_for_destinations() {
    let warnings = |text: &str| findings_text(&set(text).oddities(&known()));
    let needed = warnings(&(base() + &large("dual", "")));
    assert!(needed.contains("`new-large` has no effect") && !needed.contains("remove it"), "{needed}");
    assert!(needed.contains("without it, fewer people could approve a new destination"), "{needed}");
    let not_needed = warnings(&(base() + &large("one", "")));
    assert!(not_needed.contains("remedy: narrow the other rules, or remove it"), "{not_needed}");
    // Each request is held by the other rule, too, and with the same people; but only one of both is about new ones.
    let all = held("all", "one", &format!("{AMOUNTS}\"(0, 5000] USD\""));
    let redundant = warnings(&(base() + &all + &large("dual", "")));
    assert!(!redundant.contains("`new-small` changes nothing"), "{redundant}");
    let twice = base() + &base().replace("small", "little").replace("largest", "most") + &large("dual", "");
    assert!(warnings(&twice).contains("`new-small` changes nothing"), "{}", warnings(&twice));
}

#[test]
fn a_mutant_with_fewer_people_for_a_destination_is_not_equivalent() {
    let policies = set(&(base() + &large("dual", "")));
    let fates: Vec<(String, MutantFate)> =
        policies.mutants().into_iter().map(|one| (one.what.clone(), one.fate(&policies, &known()))).collect();
    for what in ["rule `new-large`: taken out", "rule `new-large`: without the cool-down"] {
        let fate = fates.iter().find(|(name, _)| name == what).map(|(_, fate)| fate);
        assert_eq!(fate, Some(&MutantFate::BeyondTests), "{what}: {fates:?}");
    }
}
