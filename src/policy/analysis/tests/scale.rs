//! Many rules: the analysis takes about as many steps as there are rules, and says the same as without short cuts.

use std::collections::BTreeSet;

use super::prove::prove;
use super::slow_way;
use super::world::{Dice, seeds};
use super::*;
use crate::policy::{Direction, difference, pass_table};

fn account(at: usize) -> String {
    format!("9f1c0e8e-2f53-4a5e-9a52-{at:012}")
}

fn wallet(at: usize) -> String {
    format!("0x{:040x}", at + 77)
}

/// One rule of many, by its number.
type NthRule = fn(usize) -> String;

fn alike(at: usize) -> String {
    let when = format!("op = \"createOfframp\", role = \"payroll\", destination.account = \"{}\"", account(at));
    rule(&format!("r{at}"), "allow", &format!("{when}, amount = \"(0, 5000] USD\""))
}

fn amounts_of_their_own(at: usize) -> String {
    let when = format!("op = \"createOfframp\", role = \"payroll\", destination.account = \"{}\"", account(at));
    rule(&format!("r{at}"), "allow", &format!("{when}, amount = \"(0, {}] USD\"", at + 1))
}

fn wallets(at: usize) -> String {
    let when = format!("op = \"createSwap\", destination.wallet = \"{}\", amount = \"(0, 5000] USD\"", wallet(at));
    rule(&format!("r{at}"), "allow", &when)
}

fn wallets_with_amounts(at: usize) -> String {
    let when = format!("op = \"createSwap\", destination.wallet = \"{}\"", wallet(at));
    rule(&format!("r{at}"), "allow", &format!("{when}, amount = \"(0, {}] USD\"", at + 1))
}

fn callers(at: usize) -> String {
    let (effect, amount) = if at.is_multiple_of(2) { ("allow", "(0, 100]") } else { ("hold", "(100, 5000]") };
    let when = format!("op = \"@money\", caller = \"main:svc{}\", amount = \"{amount} USD\"", at / 2);
    rule(&format!("r{at}"), effect, &format!("{when}, without_amount = \"skip\""))
}

fn bands(at: usize) -> String {
    rule(&format!("r{at}"), "allow", &format!("op = \"createSwap\", amount = \"({at}, {}] USD\"", at + 1))
}

fn repeated(at: usize) -> String {
    let chain = ["BASE", "SOLANA", "TRON"][at % 3];
    rule(
        &format!("r{at}"),
        "allow",
        &format!("op = \"createSwap\", source.chain = \"{chain}\", amount = \"(0, 5000] USD\""),
    )
}

const MANY: [(&str, NthRule); 7] = [
    ("alike", alike),
    ("amounts of their own", amounts_of_their_own),
    ("wallets", wallets),
    ("wallets with amounts", wallets_with_amounts),
    ("callers", callers),
    ("bands", bands),
    ("repeated", repeated),
];

const CLAIM: &str = "[[invariant]]\nid = \"i\"\nnever = { effect = \"allow\", op = \"@money\", amount = \
                     \"(50000, inf) USD\", without_amount = \"skip\" }\n";

/// Steps are counted, never time.
#[test]
fn the_steps_grow_no_faster_than_the_rules() {
    for (name, nth) in MANY {
        let steps = |count: usize| {
            let text: String = (0..count).map(nth).chain([CLAIM.to_owned()]).collect();
            let policies = unread(&text);
            let changed = unread(&text.replacen("\"allow\"", "\"deny\"", 1));
            let Policies { rules, invariants, .. } = &policies;
            let proof = slow_way::steps_of(|| {
                assert!(prove(rules, invariants, &known(), PROVING_STEPS)[0].1 == Proof::Proved, "{name}");
            });
            let oddities = slow_way::steps_of(|| super::oddities(&policies, &known(), FINDING_STEPS));
            let differences = slow_way::steps_of(|| {
                let found = difference(&policies, &changed, &known());
                assert_eq!(found.direction, Direction::OnlyTightens, "{name}");
            });
            let table = slow_way::steps_of(|| {
                let table = pass_table(&policies, &known());
                let mut figures = table.operations.iter().flat_map(|one| &one.rows).flat_map(|row| &row.most);
                assert!(figures.all(|most| most.is_exact), "{name}");
            });
            [proof, oddities, differences, table]
        };
        let (few, many) = (steps(260), steps(780));
        for (what, (few, many)) in ["proof", "oddities", "difference", "table"].iter().zip(few.iter().zip(many)) {
            assert!(many <= few * 4 + 2_000, "{name}, {what}: {few} steps for 260 rules, {many} for 780");
        }
    }
}

#[test]
fn a_finding_says_for_how_many_rules_it_is_true() {
    let text: String = (0..50).map(|at| wallets(at).replace("5000]", "5]")).collect();
    let told =
        findings_text(&super::oddities(&set(&(text + &rule("no", "deny", "op = \"*\""))), &known(), FINDING_STEPS));
    assert_eq!(told.matches("has no effect").count(), 3, "{told}");
    assert!(told.contains("; the same is true of 47 more rules like it"), "{told}");
}

/// Families of rules that are alike but for a name, among others.
fn families(dice: &mut Dice) -> String {
    let (mut text, mut seen) = (String::new(), Vec::new());
    for _ in 0..dice.below(4) + 1 {
        let effect = *dice.one(&["allow", "allow", "hold", "deny"]);
        let (field, operation) = *dice.one(&[
            ("destination.wallet", "createSwap"),
            ("destination.wallet", "createSwap"),
            ("destination.user", "createSwap"),
            ("caller", "createSwap"),
            ("requester", "createSwap"),
            ("user", "createSwap"),
        ]);
        let mut more = String::new();
        if dice.is_lucky(50) {
            more.push_str(&format!(", amount = \"{} USD\"", dice.one(&["(0, 5]", "(0, 9]", "(5, 9]", "(7, inf)"])));
        }
        if dice.is_lucky(40) {
            more.push_str(&format!(", role = \"{}\"", dice.one(&["r", "s"])));
        }
        if dice.is_lucky(20) && !field.starts_with("destination") {
            more.push_str(&format!(", destination.new = {}", dice.one(&["true", "false"])));
        }
        let kind = format!("{effect} {field}{more}");
        if seen.contains(&kind) {
            continue;
        }
        let family = seen.len();
        seen.push(kind);
        let first = dice.below(3) * 3;
        for nth in 0..dice.below(6) + 1 {
            let at = first + nth;
            let name = match field {
                "destination.wallet" => wallet(at),
                "destination.user" | "user" => account(at),
                "caller" => format!("main:c{at}"),
                _ => format!("p{at}"),
            };
            let when = format!("op = \"{operation}\", {field} = \"{name}\"{more}");
            text.push_str(&rule(&format!("f{family}x{nth}"), effect, &when));
        }
    }
    if dice.is_lucky(60) {
        let effect = *dice.one(&["allow", "deny", "hold"]);
        let amount = *dice.one(&["(0, 6]", "(6, inf)", "(0, inf)"]);
        text.push_str(&rule("g0", effect, &format!("op = \"createSwap\", amount = \"{amount} USD\"")));
    }
    if dice.is_lucky(40) {
        let some: Vec<String> = (0..dice.below(3) + 1).map(|at| format!("\"{}\"", wallet(at * 2))).collect();
        let (effect, word) = *dice.one(&[("deny", "in"), ("allow", "in"), ("allow", "not_in")]);
        let names = if word == "in" {
            format!("[{}]", some.join(", "))
        } else {
            format!("{{ not_in = [{}] }}", some.join(", "))
        };
        text.push_str(&rule("g1", effect, &format!("op = \"createSwap\", destination.wallet = {names}")));
    }
    text
}

/// Returns what findings say, each rule of a family as its family.
fn by_family(findings: &[Finding]) -> BTreeSet<String> {
    let plain = |text: &str| {
        let text = text.split("; the same is true of").next().unwrap_or_default();
        let text = text.split("; this one is").next().unwrap_or_default();
        let mut words: Vec<String> = Vec::new();
        for word in text.split('`') {
            words.push(match word.split_once('x') {
                Some((family, nth)) if family.len() == 2 && nth.parse::<usize>().is_ok() => family.to_owned(),
                _ => word.to_owned(),
            });
        }
        words.join("`")
    };
    let odd = findings.iter().filter(|finding| !finding.text.contains("no `[[test]]` covers"));
    odd.map(|finding| plain(&finding.text)).collect()
}

/// A contract whose swaps have takers of fees.
fn with_takers() -> Catalog {
    let mut files = files();
    let mut contract: serde_json::Value = serde_json::from_slice(files.read("openapi.json").unwrap()).unwrap();
    let paths = contract["paths"].as_object_mut().unwrap().values_mut().flat_map(|path| path.as_object_mut().unwrap());
    let is_swap = |operation: &serde_json::Value| operation["operationId"] == "createSwap";
    let swap = paths.map(|(_, operation)| operation).find(|operation| is_swap(operation)).unwrap();
    swap["x-sluice"]["money"]["fees"] = serde_json::json!({"wallet": ["/takers/*/wallet"], "chain": "/source/chain"});
    files.insert("openapi.json", contract.to_string().into_bytes());
    Catalog::build(&files, &[]).unwrap()
}

/// Wallets that only one rule knows, and fees that they may take.
#[test]
fn own_wallets_take_fees_as_other_wallets_do() {
    let catalog = with_takers();
    let known = KnownNames { catalog: &catalog, ..known() };
    let read = |text: &str| {
        let files = [("set.toml".to_owned(), text.to_owned()), ("words.toml".to_owned(), WORDS.to_owned())];
        crate::policy::read_unproved(&files, &known).unwrap().policies
    };
    let claim = |effect: &str, fee: &str| {
        format!("[[invariant]]\nid = \"i\"\nnever = {{ effect = \"{effect}\", op = \"createSwap\", {fee} }}\n")
    };
    let each: String = (0..20).map(wallets_with_amounts).collect();
    let fee = |wallet: &str| format!("op = \"createSwap\", fee_wallet = \"{wallet}\"");
    let any = rule("any", "allow", "op = \"createSwap\", amount = \"(0, 3] USD\"");
    let some = [
        String::new(),
        any.clone(),
        rule("x", "deny", &fee(&wallet(500))),
        any + &rule("h", "hold", &format!("op = \"createSwap\", fee_wallet = {{ not_in = \"{}\" }}", wallet(500))),
    ];
    let mut refuted = 0;
    for more in some {
        for claim in [
            claim("allow", &format!("fee_wallet = \"{}\"", wallet(500))),
            claim("allow", &format!("fee_wallet = {{ not_in = \"{}\" }}", wallet(500))),
            claim("hold", "destination.new = true"),
        ] {
            let policies = read(&format!("{each}{more}{claim}"));
            let Policies { rules, invariants, .. } = &policies;
            let proofs = || {
                let proof = prove(rules, invariants, &known, PROVING_STEPS).remove(0).1;
                (std::mem::discriminant(&proof), matches!(proof, Proof::Refuted(_)))
            };
            refuted += usize::from(proofs().1);
            assert_eq!(proofs(), slow_way::take(proofs), "{more}{claim}");
        }
        let policies = read(&format!("{each}{more}"));
        let fast = super::oddities(&policies, &known, FINDING_STEPS);
        assert_eq!(fast.len(), slow_way::take(|| super::oddities(&policies, &known, FINDING_STEPS)).len(), "{more}");
        let other = read(&format!("{each}{more}").replacen("(0, 9]", "(0, 10]", 1).replacen("(0, 3]", "(1, 5]", 1));
        let compared = || {
            let found = difference(&policies, &other, &known);
            let shown = |change: &OutcomeChange| format!("{:?} {:?}", change.kind, change.extent.amounts);
            (found.direction, found.changes.iter().map(shown).collect::<Vec<_>>())
        };
        assert_eq!(compared(), slow_way::take(compared), "{more}");
    }
    assert!(refuted > 3, "{refuted}");
}

#[test]
fn both_ways_say_the_same_of_small_sets() {
    let (mut odd, mut left_out) = (0, 0);
    for seed in seeds(0..50) {
        let mut dice = Dice::of(seed);
        let text = families(&mut dice);
        let claims = "[[invariant]]\nid = \"n\"\nnever = { effect = \"allow\", op = \"createSwap\", amount = \"(8, inf) USD\" }\n\
                      [[invariant]]\nid = \"m\"\nalways = { effect = \"deny\", op = \"createSwap\", role = \"s\" }\n";
        let policies = unread(&(text.clone() + claims));
        let fast = super::oddities(&policies, &known(), FINDING_STEPS);
        let slow = slow_way::take(|| super::oddities(&policies, &known(), FINDING_STEPS));
        odd += slow.len();
        left_out += slow.len().saturating_sub(fast.len());
        assert_eq!(by_family(&fast), by_family(&slow), "seed {seed}\n{text}");
        let Policies { rules, invariants, .. } = &policies;
        let proofs = || -> Vec<_> {
            let proofs = prove(rules, invariants, &known(), PROVING_STEPS).into_iter();
            proofs.map(|(_, proof)| std::mem::discriminant(&proof)).collect()
        };
        assert_eq!(proofs(), slow_way::take(proofs), "seed {seed}\n{text}");
        let other = unread(&families(&mut Dice::of(if dice.is_lucky(50) { seed + 1 } else { seed })).replacen(
            "5]",
            "6]",
            dice.below(9),
        ));
        let compared = || {
            let found = difference(&policies, &other, &known());
            let changes = found.changes.iter();
            let shown = |change: &OutcomeChange| {
                let Extent { amounts, is_complete, .. } = &change.extent;
                format!("{} {:?} {amounts:?} {is_complete}", change.operation, change.kind)
            };
            (found.direction, changes.map(shown).collect::<BTreeSet<_>>())
        };
        assert_eq!(compared(), slow_way::take(compared), "seed {seed}\n{text}");
        let figures = || {
            let rows = pass_table(&policies, &known()).operations.into_iter().flat_map(|one| one.rows);
            rows.map(|row| format!("{:?}", row.most)).collect::<BTreeSet<_>>()
        };
        assert_eq!(figures(), slow_way::take(figures), "seed {seed}\n{text}");
    }
    assert!(odd > 12 && left_out > 4, "{odd}, {left_out}");
}
