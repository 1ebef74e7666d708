use super::difference::difference;
use super::prove::prove;
use super::world::Dice;
use super::*;
use crate::policy::Direction;

/// Rules that each deny what breaks one clause of a puzzle of three-literal clauses: whether anything is left over is
/// as hard to say as the puzzle is.
fn puzzle(clauses: usize, places: usize) -> String {
    let mut dice = Dice::of(7);
    let mut text = rule("all", "allow", "op = \"createSwap\"");
    for at in 0..clauses {
        let mut asked = std::collections::BTreeMap::new();
        while asked.len() < 3 {
            asked.insert(dice.below(places), *dice.one(&["present", "absent"]));
        }
        let asked: Vec<String> = asked.iter().map(|(place, word)| format!("\"/p{place}\" = \"{word}\"")).collect();
        text.push_str(&rule(
            &format!("c{at}"),
            "deny",
            &format!("op = \"createSwap\", body = {{ {} }}", asked.join(", ")),
        ));
    }
    text
}

const CLAIM: &str = "[[invariant]]\nid = \"i\"\nnever = { effect = \"allow\", op = \"createSwap\" }\n";

/// Steps are counted, never time: a budget that is too small ends in no claim, whatever the machine.
#[test]
fn what_takes_more_than_the_budget_is_not_proved() {
    const STEPS: u64 = 300_000;
    let policies = unread(&(puzzle(900, 160) + CLAIM));
    let Policies { rules, invariants, .. } = &policies;
    assert_eq!(prove(rules, invariants, &known(), STEPS)[0].1, Proof::Unproved);
    let told = findings_text(&unproved(rules, invariants, &known(), STEPS));
    assert!(told.starts_with("error: set.toml:") && told.contains("`i` is not proved"), "{told}");
    // Nor is `all` said to have no effect, though it may have none.
    let odd = super::oddities(&policies, &known(), STEPS);
    assert!(!odd.iter().any(|finding| finding.text.starts_with("`all`")));
    let less = unread(&puzzle(899, 160));
    let found = difference(&policies, &less, &known(), 1_000);
    assert!(found.loosens() && matches!(found.direction, Direction::NotProved | Direction::Loosens));
    // A puzzle that has no solution, and is small enough to say so.
    let small = unread(&(puzzle(200, 12) + CLAIM));
    assert_eq!(prove(&small.rules, &small.invariants, &known(), PROVING_STEPS)[0].1, Proof::Proved);
}

/// The same claim, by as many steps as it needs: proved or refuted once and for all, and never otherwise by fewer.
#[test]
fn a_smaller_budget_never_says_otherwise() {
    let text = rule("small", "allow", "op = \"createSwap\", amount = \"(0, 100] USD\", destination.new = false")
        + &rule("no", "deny", "op = \"createSwap\", role = [\"a\", \"b\"], destination.new = true");
    let holding =
        "[[invariant]]\nid = \"i\"\nnever = { effect = \"allow\", op = \"createSwap\", amount = \"(100, inf) USD\" }\n";
    let broken = holding.replace("(100,", "(99,");
    for (claim, is_proved) in [(holding, true), (broken.as_str(), false)] {
        let policies = unread(&format!("{text}{claim}"));
        let mut last = Proof::Unproved;
        for steps in 0..400 {
            let proof = prove(&policies.rules, &policies.invariants, &known(), steps).remove(0).1;
            match proof {
                Proof::Proved => assert!(is_proved, "{steps}"),
                Proof::Refuted(_) => assert!(!is_proved, "{steps}"),
                Proof::Unproved => {}
            }
            last = proof;
        }
        assert_ne!(last, Proof::Unproved);
    }
}
