//! Holds that need more approvals than before: what is written of them, how long people have, and by which facts.

use super::*;
use crate::stations::decide::{Grounds, ReleaseDecision, decide_release, paid_facts};

const SECOND: i64 = 1_000_000;

/// Strangers ask for `quick` besides.
fn rules() -> Policies {
    policies(&format!(
        "{RULES}[[rule]]\nid = \"strangers\"\neffect = \"hold\"\napproval = \"quick\"\nwhen = {{ op = \"createSwap\", amount = \
         \"(100, 1000] USD\", destination = {{ new = true }} }}\n[approval.quick]\nof = \"finance\"\nn = 1\nexpires = \"1m\"\n"
    ))
}

/// The facts at a time, in micro-seconds: the destination was paid, or never.
fn facts_of(hold: &Hold, at: i64, is_paid: bool) -> Facts {
    let intent = read_again(catalog(), Environment::Production, hold).unwrap();
    let paid = paid_facts(&intent, &rules()).into_iter().map(|name| (name, is_paid)).collect();
    Facts { now: StoreTime::of_micros(at), paid, ..Facts::default() }
}

fn grounds(hold: &Hold, facts: &Facts) -> Grounds {
    evaluate(&read_again(catalog(), Environment::Production, hold).unwrap(), &rules(), facts)
}

/// The hold that a commit writes, and in how long it is due to expire, if the commit says so.
fn written(commit: &Commit) -> (Hold, Option<Duration>) {
    let hold = commit.steps.iter().find_map(|step| match step {
        Step::Replace { value, .. } => Some(decode_hold(value).unwrap()),
        _ => None,
    });
    let due = commit.steps.iter().find_map(|step| match step {
        Step::IndexAdd { index: Index::Held, due, .. } => Some(*due),
        _ => None,
    });
    (hold.unwrap(), due)
}

fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// A commit on a hold, which was made at 0, at a time.
type CommitAt = fn(&Hold, i64, bool) -> Commit;

/// The vote of one of ops.
fn voted_at(hold: &Hold, at: i64, is_paid: bool) -> Commit {
    let (key, node, rules) = (key(), NodeId::parse("gate").unwrap(), rules().rules);
    let here = Versioned { key: &key, version: Number::new(3), at: StoreTime::of_micros(0), value: hold };
    let needed = NeededApprovals::of(hold, &rules, Some(&grounds(hold, &facts_of(hold, at, is_paid))));
    let vote_at = Vote { at: StoreTime::of_micros(at), ..vote_of("people", "ops-1") };
    vote(here, vote_at, BTreeSet::new(), false, needed, &rules, &node)
}

/// The reopening of an approved hold; its record was written a second before.
fn reopened_at(hold: &Hold, at: i64, is_paid: bool) -> Commit {
    let (key, node) = (key(), NodeId::parse("gate").unwrap());
    let created = Some(StoreTime::of_micros(0));
    let hold = &Hold { state: HoldState::Approved, created, ..hold.clone() };
    let here = Versioned { key: &key, version: Number::new(3), at: StoreTime::of_micros(at - SECOND), value: hold };
    let intent = read_again(catalog(), Environment::Production, hold).unwrap();
    match decide_release(intent, &rules(), &facts_of(hold, at, is_paid), &consent(hold)) {
        ReleaseDecision::Waits(unreached) => reopen(here, unreached, &rules().rules, &node).unwrap(),
        other => panic!("{other:?}"),
    }
}

const BOTH: [CommitAt; 2] = [voted_at, reopened_at];

#[test]
fn the_time_of_an_approval_counts_from_when_it_is_asked_for() {
    for commit_at in BOTH {
        let (hold, due) = written(&commit_at(&waits("500"), 75 * SECOND, false));
        assert_eq!(hold.asked, names(&["dual", "quick"]));
        assert_eq!(hold.deadline(StoreTime::of_micros(0)), StoreTime::of_micros(135 * SECOND));
        assert_eq!(due, Some(Duration::from_secs(60)));
        // A part of a second is given.
        let (hold, due) = written(&commit_at(&waits("500"), 75 * SECOND + 1, false));
        assert_eq!((hold.lasts, due), (Duration::from_secs(136), Some(Duration::from_micros(60_999_999))));
    }
}

#[test]
fn nobody_has_longer_than_before_and_what_was_asked_for_is_not_asked_for_again() {
    let lasts = Duration::from_secs(8 * 3600);
    for commit_at in BOTH {
        let almost_over = 8 * 3600 * SECOND - 10 * SECOND;
        let (hold, _) = written(&commit_at(&waits("500"), almost_over, false));
        assert_eq!((hold.asked, hold.lasts), (names(&["dual", "quick"]), lasts));
        let before = Hold { asked: names(&["dual", "quick"]), ..waits("500") };
        assert_eq!(written(&commit_at(&before, 75 * SECOND, false)).0.lasts, lasts);
        assert_eq!(written(&commit_at(&waits("500"), 75 * SECOND, true)).0.lasts, lasts);
    }
    // The time that is left counts from now, not from when the record was written.
    assert_eq!(written(&reopened_at(&waits("500"), 75 * SECOND, true)).1, Some(lasts - Duration::from_secs(75)));
}

/// The store rejects it where its facts are otherwise.
#[test]
fn a_vote_and_a_reopening_are_guarded_by_the_facts_that_asked_for_more() {
    let is_of_fact = |step: &&Step| matches!(step, Step::Member { .. } | Step::NotMember { .. });
    for commit_at in BOTH {
        for is_paid in [false, true] {
            let hold = waits("500");
            let guards = grounds(&hold, &facts_of(&hold, 75 * SECOND, is_paid)).guards();
            assert!(guards.iter().any(|step| is_of_fact(&step)), "{guards:?}");
            let commit = commit_at(&hold, 75 * SECOND, is_paid);
            assert!(guards.iter().all(|guard| commit.steps.contains(guard)), "{commit:?}");
        }
    }
}
