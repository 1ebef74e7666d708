//! The states of holds when they are to be released.

use super::*;
use crate::stations::decide::{ReleaseDecision, decide_release};

/// Returns the state of a hold with these votes, by these rules.
pub(super) fn again(hold: &Hold, rules: &str, facts: &Facts, consent: &Consent) -> String {
    let intent = read_again(catalog(), Environment::Production, hold).unwrap();
    match decide_release(intent, &policies(rules), facts, consent) {
        ReleaseDecision::Released(allowed) => {
            let reservations = allowed.grounds().reservations("n");
            let max = reservations.iter().find_map(|step| match step {
                Step::Reserve { max, .. } if *max > 1 => Some(*max),
                _ => None,
            });
            // The entry says so too.
            let told = allowed.grounds().to_json().get("mayExceed").cloned();
            let expected = max.map(|max| serde_json::json!([{ "limit": "often", "upTo": format!("{max} calls") }]));
            assert_eq!(told, expected);
            max.map_or("released".to_owned(), |max| format!("up to {max}"))
        }
        ReleaseDecision::Waits(unreached) if unreached.other_causes.is_some() => "other causes".to_owned(),
        ReleaseDecision::Waits(_) => "waits".to_owned(),
        ReleaseDecision::Denied(denied) if denied.is_for_a_full_window() => "full".to_owned(),
        ReleaseDecision::Denied(_) => "denied".to_owned(),
    }
}

/// A hold with these causes, and enough votes for them.
fn voted_for(causes: HoldCauses) -> Hold {
    let mut hold = Hold { causes, ..voted(&[("people", "ops-1"), ("people", "finance-1")]) };
    let digest = hold.causes.digest();
    hold.votes.iter_mut().for_each(|vote| vote.causes = digest);
    hold
}

#[test]
fn votes_are_counted_anew_and_nobody_counts_twice() {
    let facts = Facts::default();
    let came = |votes: &[(&str, &str)]| {
        let hold = voted(votes);
        again(&hold, RULES, &facts, &consent(&hold))
    };
    let enough = [("people", "ops-1"), ("people", "finance-1")];
    assert_eq!(came(&[]), "waits");
    assert_eq!(came(&[("people", "ops-1")]), "waits");
    assert_eq!(came(&enough), "released", "the limit was no reason that they saw");
    assert_eq!(came(&[("people", "ops-2")]), "waits", "one person, two groups");
    assert_eq!(came(&[("people", "ops-2"), ("other", "ops-2")]), "waits", "one subject, two issuers");
    assert_eq!(came(&[("people", "ops-1"), ("people", "ops-2")]), "released");
    assert_eq!(came(&[("people", "test"), ("people", "finance-1")]), "waits", "whoever asked for it");
    assert_eq!(came(&[("other", "ops-1"), ("people", "finance-1")]), "waits", "another issuer's ops-1");
}

#[test]
fn today_s_rules_and_groups_have_the_word() {
    let (hold, facts) = (voted(&[("people", "ops-1"), ("people", "finance-1")]), Facts::default());
    let by = |rules: &str| again(&hold, rules, &facts, &consent(&hold));
    assert_eq!(by(RULES), "released");
    assert_eq!(by(&RULES.replace("\"people:ops-1\", ", "")), "waits", "a voter was removed");
    assert_eq!(by(&RULES.replace("of = \"ops\", n = 1", "of = \"ops\", n = 2")), "waits", "one more is asked for");
    assert_eq!(by(&RULES.replace("5000] USD", "400] USD")), "denied");
    let loosened = RULES.replace("(0, 100]", "(0, 900]").replace("(100, 5000]", "(900, 5000]");
    assert_eq!(by(&loosened), "released");
    // What was asked for once is asked for still, though the rules would let it pass by now.
    let fewer = voted(&[("people", "ops-1")]);
    assert_eq!(again(&fewer, &loosened, &facts, &consent(&fewer)), "waits");
    assert_eq!(again(&hold, RULES, &full(1), &consent(&hold)), "other causes", "they were not shown the limit");
    let shown = voted_for(causes("500", &full(1)));
    assert_eq!(again(&shown, RULES, &full(1), &consent(&shown)), "up to 2", "its approval may exceed it");
    assert_eq!(again(&shown, RULES, &facts, &consent(&shown)), "up to 2", "it need not");
    assert_eq!(again(&shown, RULES, &full(2), &consent(&shown)), "other causes", "more than they were shown");
    let other = RULES.replace("id = \"larger\"", "id = \"renamed\"");
    assert_eq!(again(&hold, &other, &facts, &consent(&hold)), "other causes", "they were not shown the rule");
    // Votes for other causes do not count.
    let stale = Hold { causes: causes("500", &full(1)), ..hold.clone() };
    assert_eq!(again(&stale, RULES, &facts, &consent(&stale)), "waits");
    let denying = RULES.replace("over = \"hold\"\napproval = \"dual\"\n[approval", "over = \"deny\"\n[approval");
    assert_eq!(again(&hold, &denying, &full(1), &consent(&hold)), "full");
    assert_eq!(again(&hold, &denying, &facts, &consent(&hold)), "released");
}

/// The day ends between the votes and the release: the next one is a window of which its voters were shown nothing.
#[test]
fn an_approval_to_exceed_the_limit_of_a_day_exceeds_no_other_day_s() {
    let rules = RULES.replace("rolling 1h", "calendar day Europe/Berlin");
    let at = |time: &str, facts: Facts| {
        let time: jiff::Timestamp = time.parse().unwrap();
        Facts { now: StoreTime::of_micros(time.as_microsecond()), ..facts }
    };
    let (last, first) = ("2026-12-31T22:59:59.999999Z", "2026-12-31T23:00:00Z");
    let shown = |time: &str| {
        let intent = read_again(catalog(), Environment::Production, &waits("500")).unwrap();
        HoldCauses::of(&evaluate(&intent, &policies(&rules), &at(time, full(1))).verdict)
    };
    let text = shown(last).to_json().to_string();
    assert!(text.contains("over the limit of 1 call on 2026-12-31 (Europe/Berlin), up to 2 calls: "), "{text}");
    let by = |hold: &Hold, time: &str, facts: Facts| again(hold, &rules, &at(time, facts), &consent(hold));
    let voted = voted_for(shown(last));
    for facts in [full(1), Facts::default()] {
        assert_eq!(by(&voted, last, facts), "up to 2");
    }
    assert_eq!(by(&voted, first, full(1)), "other causes", "the next day is full, too");
    // While the store has not said that it is full, it is not exceeded either.
    assert_eq!(by(&voted, first, Facts::default()), "released");
    assert_eq!(by(&voted_for(shown(first)), first, full(1)), "up to 2");
    // A vote names the day that its voter was shown.
    assert_ne!(shown(last).digest(), shown(first).digest());
}

#[test]
fn consent_to_other_bytes_is_none() {
    let (hold, facts) = (voted(&[("people", "ops-1"), ("people", "finance-1")]), Facts::default());
    let other = Consent { fingerprint: waits("501").fingerprint, ..consent(&hold) };
    assert_eq!(again(&hold, RULES, &facts, &other), "waits");
    let small = Hold { asked: BTreeSet::new(), ..waits("50") };
    assert_eq!(again(&small, RULES, &facts, &Consent { fingerprint: hold.fingerprint, ..consent(&small) }), "waits");
}
