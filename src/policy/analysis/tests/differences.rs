use super::world::{AnalysisWorld, Dice, SWAP, seeds};
use super::*;
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, SchemaFiles};
use crate::policy::rules::Verdict;
use crate::policy::{Direction, difference};

fn between(old: &str, new: &str) -> Difference {
    difference(&set(old), &set(new), &known())
}

/// Approvals of these worlds are never as strict as one another: one asks for more people, the other for less time.
fn is_looser(old: &Verdict, new: &Verdict) -> bool {
    new.effect < old.effect
        || (new.effect == Effect::Hold && old.effect == Effect::Hold && !old.approvals.is_subset(&new.approvals))
}

fn is_other(old: &Verdict, new: &Verdict) -> bool {
    (old.effect, &old.approvals) != (new.effect, &new.approvals)
}

#[test]
fn what_is_said_of_two_sets_is_so_of_every_request_of_small_worlds() {
    let mut counts = [0; 4];
    for seed in seeds(2000..2060) {
        let mut dice = Dice::of(seed);
        let world = AnalysisWorld::random(&mut dice);
        let parts: Vec<String> = world.set(&mut dice).split_inclusive("\n[[").map(str::to_owned).collect();
        let old_text = parts.concat();
        let new_text = match dice.below(4) {
            0 => old_text.clone() + "\n" + &world.rule("more", &mut dice),
            1 => old_text.replacen("effect = \"allow\"", "effect = \"deny\"", 1),
            2 => old_text
                .replacen("id = \"r1\"", "id = \"r1\"\nmode = \"shadow\"", 1)
                .replace("shadow\"\nmode = \"shadow\"", "shadow\""),
            _ => world.set(&mut dice),
        };
        let (Ok(old), Ok(new)) = (read_set(&old_text), read_set(&new_text)) else { continue };
        let found = difference(&old, &new, &known());
        let mut limits: Vec<&str> = old.rules.limits.iter().chain(&new.rules.limits).map(|limit| &*limit.id).collect();
        limits.sort_unstable();
        limits.dedup();
        let has_amount = catalog().operation(&OperationId::new(world.operation)).unwrap().has_amount();
        let shown = format!("seed {seed}:\n{old_text}\n--- and then:\n{new_text}\n--- {:?}", found.direction);
        let decide = |policies: &Policies, payment: &Payment| payment.decide(&policies.rules, catalog()).unwrap();
        for payment in world.requests(&limits) {
            let (before, after) = (decide(&old, &payment), decide(&new, &payment));
            if has_amount && before.value.is_none() {
                assert!(!is_looser(&before, &after));
                continue;
            }
            match found.direction {
                Direction::Same => assert!(!is_other(&before, &after), "{shown} {payment}"),
                Direction::OnlyTightens => assert!(!is_looser(&before, &after), "{shown} {payment}"),
                Direction::Loosens | Direction::NotProved => {}
            }
            let kind = ChangeKind::Effect(before.effect, after.effect);
            if before.effect != after.effect && payment.full.is_empty() && found.direction != Direction::NotProved {
                let told = found.changes.iter().find(|change| change.kind == kind);
                let told = told.unwrap_or_else(|| panic!("{shown} {payment} {kind:?}"));
                assert!(!told.extent.is_complete || is_within(&told.extent, &before), "{shown} {payment} {told:?}");
            }
        }
        for change in &found.changes {
            let (before, after) = (decide(&old, &change.example), decide(&new, &change.example));
            assert_eq!((&before, &after), (&change.old, &change.new), "{shown}");
            let is_so = match &change.kind {
                ChangeKind::Effect(from, to) => (before.effect, after.effect) == (*from, *to),
                ChangeKind::EasierHold => after.effect == Effect::Hold && is_looser(&before, &after),
                ChangeKind::HarderHold => is_other(&before, &after) && !is_looser(&before, &after),
                ChangeKind::Named(_) => before.effect == Effect::Deny && after.effect != Effect::Deny,
            };
            assert!(is_so, "{shown}\n{change:?}");
        }
        counts[match found.direction {
            Direction::Same => 0,
            Direction::OnlyTightens => 1,
            Direction::Loosens => 2,
            Direction::NotProved => 3,
        }] += 1;
    }
    assert!(counts[0] > 0 && counts[1] > 1 && counts[2] > 4 && counts[3] < 3, "{counts:?}");
}

/// The people who agree to a change see how much it changes.
#[test]
fn a_small_loosening_and_a_large_one_are_told_differently() {
    let old = set(&small_and_large());
    let to = |most: &str| {
        let small = SMALL.replace("100]", &format!("{most}]"));
        difference(&old, &set(&(rule("small", "allow", &small) + &rule("large", "hold", LARGE))), &known())
    };
    let (one, much) = (to("101"), to("50000000"));
    assert_ne!(one.to_string(), much.to_string());
    assert_ne!(one.as_json(), much.as_json());
    let expected = "now allowed without people, denied before: createSwap, 500.000001 USD to 50000000 USD, any caller, any destination, any time\n";
    assert!(much.to_string().contains(expected), "{much}");
    assert!(!one.to_string().contains("now allowed"), "{one}");
    for (found, most) in [(&one, "101 USD"), (&much, "50000000 USD")] {
        let text = found.to_string();
        let before = "rule `small` is changed\n  before: allow `createSwap`, where the value is at most 100 USD\n";
        assert!(
            text.contains(before)
                && text.contains(&format!("  then: allow `createSwap`, where the value is at most {most}\n")),
            "{text}"
        );
    }
    assert!(
        much.to_string()
            .contains("largest: op = \"createSwap\", caller = \"main:anybody\", source = { amount = \"50000000\""),
        "{much}"
    );
}

#[test]
fn a_change_for_some_people_destinations_and_times_names_them() {
    let when = "op = \"createSwap\", amount = \"(0, 100] USD\", role = \"payer\", caller = \"main:a\", destination.new = false, \
                destination.user = \"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\", weekday = [\"mon\", \"tue\"], hour = \"[9, 17)\", \
                zone = \"UTC\", environment = \"sandbox\", body = { \"/fee\" = { in = [5, true] } }";
    let text = between("", &rule("r", "allow", when)).to_string();
    for expected in [
        "now allowed without people, denied before: createSwap, up to 100 USD, some callers, some destinations, some times\n",
        "  only where the environment is `sandbox`\n",
        "  only where the caller is `main:a`\n",
        "  only where a role of the caller is `payer`\n",
        "  only where the destination's user is `9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11`\n",
        "  only where the destination's user is paid before\n",
        "  only where the weekday in UTC is Monday, Tuesday\n",
        "  only where the hour in UTC is 9 to 17\n",
        "  only where `/fee` is 5, true\n",
        "rule `r` is added\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let list = |members: &str| {
        format!(
            "[list.l]\nuser = [{members}]\n{}",
            rule("r", "allow", "op = \"createSwap\", destination.user = \"@l\"")
        )
    };
    let (one, two) = ("\"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\"", "\"11111111-2f53-4a5e-9a52-6a1c0f7d4e11\"");
    let text = between(&list(one), &list(&format!("{one}, {two}"))).to_string();
    assert!(text.contains("  only where the destination's user is `11111111-2f53-4a5e-9a52-6a1c0f7d4e11`\n"), "{text}");
    assert!(text.contains("the destination's user: 1 added (`11111111-2f53-4a5e-9a52-6a1c0f7d4e11`)\n"), "{text}");
}

/// Whether a request lies within an extent, as far as its amount tells.
fn is_within(extent: &Extent, verdict: &Verdict) -> bool {
    let value = verdict.value.map(|value| u128::from(value.as_u64()));
    match (&extent.amounts, value) {
        (Some(ranges), Some(value)) => ranges.iter().any(|(least, most)| (*least..=*most).contains(&value)),
        _ => true,
    }
}

const SMALL: &str = "op = \"createSwap\", amount = \"(0, 100] USD\"";
const LARGE: &str = "op = \"createSwap\", amount = \"(100, 500] USD\"";

fn small_and_large() -> String {
    rule("small", "allow", SMALL) + &rule("large", "hold", LARGE)
}

fn kinds(found: &Difference) -> Vec<String> {
    found.changes.iter().map(|change| format!("{:?} {}", change.kind, change.example)).collect()
}

#[test]
fn a_bound_that_moves_is_told_with_the_payments_at_its_edge() {
    let old = small_and_large();
    let new =
        rule("small", "allow", &SMALL.replace("100", "150")) + &rule("large", "hold", &LARGE.replace("(100", "(150"));
    let found = between(&old, &new);
    assert_eq!(found.direction, Direction::Loosens);
    assert_eq!(
        kinds(&found),
        [
            "Effect(Hold, Allow) op = \"createSwap\", caller = \"main:anybody\", source = { amount = \"100.000001\", currency = \"usdc\" }"
        ]
    );
    let back = between(&new, &old);
    assert_eq!((back.direction, back.loosens()), (Direction::OnlyTightens, false));
    assert_eq!(back.changes.len(), 1);
    assert_eq!(back.changes[0].kind, ChangeKind::Effect(Effect::Allow, Effect::Hold));
}

#[test]
fn other_words_for_the_same_are_the_same() {
    let split = rule("tiny", "allow", &SMALL.replace("100", "40"))
        + &rule("middle", "allow", &SMALL.replace("(0", "(40"))
        + &rule("big", "hold", LARGE);
    let found = between(&small_and_large(), &split);
    assert_eq!((found.direction, found.changes.len()), (Direction::Same, 0));
}

#[test]
fn approvals_that_need_fewer_people_loosen() {
    let set_of = |count: u64, members: &str, expires: &str| {
        format!(
            "[group.more]\nmembers = [{members}]\n[approval.some]\nof = \"more\"\nn = {count}\nexpires = \"{expires}\"\n{}",
            rule("large", "hold", LARGE).replace("\"one\"", "\"some\"")
        )
    };
    let three = "\"console:x\", \"console:y\", \"console:z\", \"console:w\"";
    let old = set_of(2, three, "2h");
    for (new, direction) in [
        (old.clone(), Direction::Same),
        (set_of(1, three, "2h"), Direction::Loosens),
        (set_of(3, three, "2h"), Direction::OnlyTightens),
        (set_of(2, three, "3h"), Direction::Loosens),
        (set_of(2, three, "1h"), Direction::OnlyTightens),
        (set_of(2, "\"console:x\", \"console:y\", \"console:z\"", "2h"), Direction::OnlyTightens),
        (set_of(2, &format!("{three}, \"console:v\""), "2h"), Direction::Loosens),
    ] {
        let found = between(&old, &new);
        assert_eq!(found.direction, direction, "{new}\n{:?}", kinds(&found));
        assert_eq!(found.approvals.is_empty(), direction == Direction::Same);
    }
}

#[test]
fn limits_that_leave_more_room_loosen() {
    let limit = |lines: &str| format!("{}[[limit]]\nid = \"day\"\nops = \"{SWAP}\"\n{lines}\n", small_and_large());
    let usual =
        "window = \"rolling 24h\"\nper = [\"caller\"]\nmax = \"1000 USD\"\nover = \"hold\"\napproval = \"dual\"";
    let old = limit(usual);
    for (change, with, kind) in [
        ("1000 USD", "1000.000001 USD", LimitChangeKind::Loosened),
        ("1000 USD", "999 USD", LimitChangeKind::Tightened),
        ("1000 USD", "1000 calls", LimitChangeKind::Changed),
        ("24h", "23h", LimitChangeKind::Changed),
        ("24h", "48h", LimitChangeKind::Changed),
        ("rolling 24h", "calendar day UTC", LimitChangeKind::Changed),
        ("\"caller\"", "\"environment\"", LimitChangeKind::Changed),
        ("\"dual\"", "\"one\"", LimitChangeKind::Loosened),
        ("\"hold\"\napproval = \"dual\"", "\"deny\"", LimitChangeKind::Tightened),
        ("window", "when = { environment = \"sandbox\" }\nwindow", LimitChangeKind::Loosened),
        ("window", "mode = \"shadow\"\nwindow", LimitChangeKind::Removed),
    ] {
        let new = limit(&usual.replace(change, with));
        let found = between(&old, &new);
        assert_eq!(found.limits.iter().map(|limit| limit.kind).collect::<Vec<_>>(), [kind], "{with}");
        let expected = if kind.loosens() { Direction::Loosens } else { Direction::OnlyTightens };
        assert_eq!(found.direction, expected, "{with}: {:?}", kinds(&found));
    }
    assert_eq!(between(&small_and_large(), &old).direction, Direction::OnlyTightens);
    assert_eq!(between(&old, &old).direction, Direction::Same);
    // What was spent before counts no longer, or not wholly, also where the rest is tighter.
    for (change, with, what) in [
        ("[\"caller\"]", "[\"environment\"]", "its keys (its windows start empty)"),
        ("24h", "48h", "its window (what was paid before counts only in part)"),
    ] {
        let found = between(&old, &limit(&usual.replace("1000 USD", "10 USD").replace(change, with)));
        assert_eq!(found.direction, Direction::Loosens, "{with}");
        assert_eq!(found.limits[0].what, ["its maximum", what]);
        assert!(found.to_string().contains(what), "{found}");
    }
    let (what, in_calls) = ("the unit of its maximum (its windows start empty)", usual.replace("1000 USD", "1 call"));
    for (old, new) in [(usual, &*in_calls), (&*in_calls, usual)] {
        let found = between(&limit(old), &limit(new));
        assert_eq!((found.direction, &*found.limits[0].what), (Direction::Loosens, &[what][..]));
        assert!(found.to_string().contains(what), "{found}");
    }
}

/// Where the configuration lists a place, only a rule that names it lets it pass.
#[test]
fn a_rule_that_names_a_place_loosens() {
    let old = rule("any", "allow", "op = \"createSwap\"");
    let named = rule("fee", "allow", "op = \"createSwap\", body = { \"/developerFee\" = \"present\" }");
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let catalog = catalog.with_further(&["createSwap:/developerFee".to_owned()], "x").unwrap();
    let known = KnownNames { catalog: &catalog, ..known() };
    let between = |old: &str, new: &str| difference(&set(old), &set(new), &known);
    let found = between(&old, &(old.clone() + &named));
    assert_eq!(found.direction, Direction::Loosens);
    let kinds: Vec<&ChangeKind> = found.changes.iter().map(|change| &change.kind).collect();
    assert_eq!(kinds, [&ChangeKind::Effect(Effect::Deny, Effect::Allow)]);
    assert!(found.changes[0].example.to_string().contains("/developerFee"));
    assert_eq!(between(&(old.clone() + &named), &old).direction, Direction::OnlyTightens);
}

/// A claim that is not certain is not made.
#[test]
fn amounts_that_are_valued_otherwise_are_not_compared() {
    let old = small_and_large();
    let new = format!(
        "{old}[asset.weth]\ndecimals = 18\nvalue = \"1 USD\"\nas_of = \"2026-01-01T00:00:00Z\"\ngood_for = \"24h\"\n"
    );
    let found = between(&old, &new);
    assert!(found.is_valued_otherwise && found.direction == Direction::NotProved && found.loosens());
}

/// An exception for some dates: its extent has them, and a weekday that they never are makes it void.
#[test]
fn dates_are_a_dimension() {
    let old = small_and_large();
    let with = |date: &str| {
        old.clone() + &rule("x", "allow", &format!("op = \"createSwap\", role = \"x\", date = {date}, zone = \"UTC\""))
    };
    let found = between(
        &rule("a", "allow", "op = \"createOfframp\""),
        &(rule("a", "allow", "op = \"createOfframp\"")
            + &rule("x", "allow", "op = \"createSwap\", date = \"[2026-12-24, 2026-12-26]\", zone = \"UTC\"")),
    );
    assert_eq!(found.direction, Direction::Loosens);
    let text = found.to_string();
    assert!(text.contains("only where the date in UTC is 2026-12-24 to 2026-12-26"), "{text}");
    let dates = |date: &str, weekday: &str| {
        rule("x", "allow", &format!("op = \"createSwap\", date = {date}, weekday = \"{weekday}\", zone = \"UTC\""))
    };
    // 2026-12-25 is a Friday.
    let nothing = rule("a", "allow", "op = \"createOfframp\"");
    let never = nothing.clone() + &dates("\"2026-12-25\"", "mon");
    assert_eq!(between(&nothing, &never).direction, Direction::Same);
    let once = nothing.clone() + &dates("\"2026-12-25\"", "fri");
    assert_eq!(between(&nothing, &once).direction, Direction::Loosens);
    // A member that expires passes until its last day, and a later one is looser.
    let list = |last: &str| {
        rule("v", "allow", "op = \"createSwap\", destination.account = \"@v\"").replace("createSwap", "createOfframp")
            + "[list.v]\naccount = [\"00000000-0000-4000-8000-000000000001\", "
            + &format!("{{ name = \"00000000-0000-4000-8000-000000000002\", expires = \"{last} UTC\" }}]\n")
    };
    let found = between(&list("2026-12-31"), &list("2027-01-31"));
    assert_eq!(found.direction, Direction::Loosens);
    let text = found.to_string();
    assert!(text.contains("the date in UTC is 2027-01-01 to 2027-01-31"), "{text}");
    assert!(text.contains("00000000-0000-4000-8000-000000000002"), "{text}");
    assert_eq!(between(&list("2027-01-31"), &list("2026-12-31")).direction, Direction::OnlyTightens);
    assert_eq!(between(&list("2027-01-31"), &list("2027-01-31")).direction, Direction::Same);
    // A later end is looser, an earlier one tighter.
    let (until, later) = (with("\"[2026-11-01, 2026-12-01)\""), with("\"[2026-11-01, 2026-12-02)\""));
    assert_eq!(between(&until, &until).direction, Direction::Same);
    assert_eq!(between(&later, &until).direction, Direction::OnlyTightens);
}

/// A maximum in another currency is compared at its value, at a time at which that holds; another currency counts as looser.
#[test]
fn maxima_in_other_currencies_have_a_value() {
    let with = |max: &str| {
        rule("a", "allow", "op = \"createSwap\"")
            + "[[limit]]\nid = \"day\"\nops = \"createSwap\"\nwindow = \"rolling 24h\"\nover = \"deny\"\n"
            + &format!("max = \"{max}\"\n[asset.eur]\ndecimals = 2\nvalue = \"1.08 USD\"\n")
            + "as_of = \"2026-03-01T00:00:00Z\"\ngood_for = \"24h\"\n"
    };
    let found = between(&with("100 eur"), &with("200 eur"));
    assert_eq!(found.direction, Direction::Loosens);
    let text = found.to_string();
    assert!(text.contains("108.000001 USD to 216 USD"), "{text}");
    assert!(text.contains("limit `day` allows more (its maximum)") && text.contains("(200 eur)"), "{text}");
    assert_eq!(between(&with("200 eur"), &with("100 eur")).direction, Direction::OnlyTightens);
    assert!(between(&with("100 eur"), &with("108 USD")).loosens());
    let proved = with("100 eur")
        + "[[invariant]]\nid = \"i\"\nnever = { effect = \"allow\", op = \"createSwap\", amount = \"(108, inf) USD\" }\n";
    set(&proved);
    let broken = proved.replace("(108, inf)", "(107.999999, inf)");
    assert!(findings_text(&read_set(&broken).unwrap_err()).contains("is allow"), "{broken}");
}
