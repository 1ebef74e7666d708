//! One person is one: by the configured comparison of subjects, over gates with other settings and changes of them.

use super::*;

/// People whose subjects differ in letter case alone.
fn rules() -> String {
    RULES.replace("\"people:test\"]", "\"people:test\", \"people:OPS-1\", \"people:TEST\"]")
}

fn opaque(setup: Setup, issuers: &[&str]) -> Setup {
    issuers.iter().fold(setup, |setup, issuer| setup.set(&format!("issuer.{issuer}"), "subjects", "opaque"))
}

fn agree(at: &[(&Gate, &str)], hold: &Value) {
    for (gate, who) in at {
        let answer = say(gate, "approve", hold, who);
        assert_eq!(answer.status, 200, "{who}: {answer}");
    }
}

#[test]
fn two_opaque_subjects_count_twice_only_where_every_gate_and_time_says_so() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = |node: &str| on_redis(gate(&upstream, &rules()), &redis, node);
    let (left, right) = (opaque(setup("left"), &["people"]).start(), setup("right").start());
    let [two, mixed, folded, later] = ["c-1", "c-2", "c-3", "c-4"].map(|request_id| held(&left, request_id));
    agree(&[(&left, "ops-1"), (&left, "OPS-1"), (&left, "finance-1")], &two);
    assert_eq!(answered(&left, &swap("c-1", "500")).status, 201, "they are two people");
    // One of the votes was taken by a gate that takes them for one.
    for (first, second) in [((&right, "ops-1"), (&left, "OPS-1")), ((&left, "OPS-1"), (&right, "ops-1"))] {
        agree(&[first, second, (&left, "finance-1")], &mixed);
        assert_eq!(state(&left, &mixed), "pending");
    }
    agree(&[(&right, "ops-1"), (&right, "OPS-1"), (&right, "finance-1")], &folded);
    assert_eq!(state(&left, &folded), "pending");
    // The setting is taken back after both voted.
    agree(&[(&left, "ops-1"), (&left, "OPS-1")], &later);
    let left = left.end().set("issuer.people", "subjects", "folded").start();
    agree(&[(&left, "finance-1")], &later);
    for gate in [&left, &right] {
        assert_eq!(state(gate, &later), "pending");
    }
    // The setting comes again: votes that were taken for one stay one.
    let left = opaque(left.end(), &["people"]).start();
    agree(&[(&left, "OPS-1")], &folded);
    assert_eq!((state(&left, &folded).as_str(), sent(&upstream)), ("pending", 1));
}

#[test]
fn whoever_asked_judges_in_other_letters_only_where_both_issuers_are_opaque() {
    for (issuers, status) in [(&[][..], 403), (&["people"], 403), (&["main"], 403), (&["main", "people"], 200)] {
        let upstream = Upstream::start();
        let gate = opaque(gate(&upstream, &rules()), issuers).start();
        let hold = held(&gate, "d-1");
        assert_eq!(say(&gate, "approve", &hold, "TEST").status, status, "{issuers:?}");
        assert_eq!(say(&gate, "approve", &hold, "test").status, 403, "{issuers:?}");
        // A hold keeps how its caller was compared when it was made.
        let gate = opaque(gate.end(), &["main", "people"]).start();
        let later = if issuers.contains(&"main") { 200 } else { 403 };
        assert_eq!(say(&gate, "approve", &hold, "TEST").status, later, "{issuers:?}, later");
    }
}

#[test]
fn opaque_subjects_of_one_case_are_recommended() {
    let upstream = Upstream::start();
    let told = |setup: Setup| {
        let output = sluice(&["check", "--config", setup.write().to_str().unwrap()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert!(!told(gate(&upstream, &rules())).contains("`opaque`"));
    let warned = told(opaque(gate(&upstream, &rules()), &["people"]));
    assert!(
        warned.contains("`issuer.people.subjects` is `opaque`") && warned.contains("all in one letter case"),
        "{warned}"
    );
}
