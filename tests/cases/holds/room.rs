//! The room for calls that wait has a share for each caller, in holds and in bytes, over all gates.

use serde_json::json;

use super::{RULES, gate, on_redis, say, swap};
use crate::cases::doctor;
use crate::support::shape::ID;
use crate::support::token::{claims, signed};
use crate::support::{Answer, Call, Gate, Redis, Setup, Upstream, post};

fn by(subject: &str, call: Call) -> Call {
    let mut said = claims();
    said["sub"] = json!(subject);
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&said)))
}

/// The codes of as many new held swaps of a caller.
fn codes(gate: &Gate, who: &str, count: usize) -> Vec<String> {
    (0..count).map(|nth| told(&by(who, swap(&format!("{who}-{nth}"), "500")).send(gate.production()))).collect()
}

fn told(answer: &Answer) -> String {
    if answer.status == 202 { "held".to_owned() } else { answer.code() }
}

fn held(codes: &[String]) -> usize {
    codes.iter().filter(|code| *code == "held").count()
}

fn no_room(gate: &Gate) -> u64 {
    gate.metric(r#"sluice_holds_total{environment="production",what="no-room"}"#)
}

#[test]
fn a_caller_at_its_limit_of_holds_takes_nothing_from_another() {
    let upstream = Upstream::start();
    // A caller alone may have 6, a second one 3, a third one 1.
    let gate = gate(&upstream, RULES).limit("holds", 12).start();
    let first = codes(&gate, "a", 8);
    assert_eq!(first[..6], vec!["held"; 6]);
    assert_eq!(first[6..], vec!["TOO_MANY_HOLDS"; 2]);
    assert_eq!(held(&codes(&gate, "b", 5)), 3);
    assert_eq!(held(&codes(&gate, "c", 5)), 1);
    assert_eq!(no_room(&gate), 8);

    let full = by("a", swap("one-more", "500")).send(gate.production());
    assert_eq!((full.status, full.outcome().as_str()), (429, "not-executed"), "{full}");
    assert_eq!(full.header("retry-after").as_deref(), Some("60"));
    assert!(full.text().contains("its share"), "{full}");
    // What waits is told as before, and what need not wait goes.
    assert_eq!(by("a", swap("a-0", "500")).send(gate.production()).status, 202);
    assert_eq!(by("a", swap("small", "50")).send(gate.production()).status, 201);
    // A refused call left no claim: its requestId is free.
    let hold = by("a", swap("a-0", "500")).send(gate.production()).json()["hold"].clone();
    assert_eq!(say(&gate, "reject", &hold, "ops-1").status, 200);
    assert_eq!(by("a", swap("one-more", "500")).send(gate.production()).code(), "TOO_MANY_HOLDS", "others are there");
    for (who, count) in [("b", 3), ("c", 1)] {
        for nth in 0..count {
            let hold = by(who, swap(&format!("{who}-{nth}"), "500")).send(gate.production()).json()["hold"].clone();
            assert_eq!(say(&gate, "reject", &hold, "ops-1").status, 200);
        }
    }
    assert_eq!(by("a", swap("one-more", "500")).send(gate.production()).status, 202);
}

#[test]
fn large_calls_of_one_caller_fill_its_share_of_bytes_and_no_more() {
    let upstream = Upstream::start();
    let setup = gate(&upstream, RULES).limit("body_bytes", 16_384).limit("holds_bytes", 262_144);
    let gate = setup.start();
    let large = |who: &str| {
        let body = json!({ "name": "x".repeat(16_000) }).to_string();
        (0..20)
            .filter(|_| by(who, post(format!("/v2/users/{ID}")).json(&body)).send(gate.production()).status == 202)
            .count()
    };
    // The body is the same, so the call is one: it takes its place once.
    assert_eq!(large("a"), 20);
    let distinct = |who: &str| {
        let body = |nth: usize| json!({ "name": format!("{nth}{}", "x".repeat(16_000)) }).to_string();
        let send = |nth: usize| by(who, post(format!("/v2/users/{ID}")).json(body(nth))).send(gate.production());
        (0..20).filter(|nth| send(*nth).status == 202).count()
    };
    let (first, second, third) = (distinct("a"), distinct("b"), distinct("c"));
    // One of the first is there already. A hold of 16 KB has 17 KB.
    assert!((5..=7).contains(&first) && (3..=4).contains(&second) && third >= 1, "{first} {second} {third}");
    assert!(held(&codes(&gate, "d", 1)) == 1);
}

#[test]
fn a_caller_that_cancels_what_it_has_held_leaves_others_room_in_the_journal() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).limit("body_bytes", 16_384).limit("holds_bytes", 65_536).start();
    let user = |who: &str, nth: usize| {
        let body = json!({ "name": format!("{nth}{}", "x".repeat(16_000)) }).to_string();
        by(who, post(format!("/v2/users/{ID}")).json(body)).send(gate.production())
    };
    let made_and_cancelled = |who: &str| {
        for nth in 0..20 {
            let answer = user(who, nth);
            if answer.status != 202 {
                return (nth, answer);
            }
            let path = format!("/sluice/v1/holds/{}/cancel", answer.json()["hold"]["id"].as_str().unwrap());
            assert_eq!(by(who, post(path)).send(gate.production()).status, 200);
        }
        panic!("nothing bounds what a caller leaves in the journal");
    };
    let (first, full) = made_and_cancelled("a");
    assert!((2..=4).contains(&first), "{first}");
    assert_eq!(
        (full.status, full.code(), full.outcome()),
        (429, "TOO_MANY_HOLDS".into(), "not-executed".into()),
        "{full}"
    );
    let words = full.text();
    assert!(
        words.contains("within an hour") && words.contains("repeat the call once that hour is over, 60 minutes"),
        "{words}"
    );
    // Half of what is left, and small calls.
    assert!(made_and_cancelled("b").0 >= 1);
    assert_eq!(held(&codes(&gate, "c", 1)), 1);
    assert!(no_room(&gate) >= 2);
}

#[test]
fn an_environment_whose_room_is_full_takes_nothing_from_another() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let gate = gate(&upstream, RULES)
        .sandbox(&other)
        .set("sandbox", "credential", "the-sandbox-s-own-token")
        .limit("holds", 5)
        .start();
    for who in ["a", "b", "c", "d"] {
        codes(&gate, who, 5);
    }
    let full = swap("more", "500").send(gate.production());
    assert_eq!(full.code(), "TOO_MANY_HOLDS");
    assert_eq!(swap("more", "500").send(gate.sandbox()).status, 202);
}

#[test]
fn the_share_holds_over_gates_and_comes_free_when_calls_are_decided() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = |node: &str| on_redis(gate(&upstream, RULES), &redis, node).limit("holds", 12);
    let asks: Setup = setup("asks");
    let [left, right] = ["left", "right"].map(|node| setup(node).start());
    let mut waits = Vec::new();
    for nth in 0..12 {
        let at = if nth % 2 == 0 { &left } else { &right };
        let answer = swap(&format!("over-{nth}"), "500").send(at.production());
        if answer.status == 202 {
            waits.push(answer.json()["hold"].clone());
        }
    }
    assert_eq!(waits.len(), 6);
    assert_eq!(held(&codes(&right, "b", 5)) + held(&codes(&left, "c", 5)), 4);
    let (code, said) = doctor::json(&asks);
    assert!(code == 7 && doctor::findings(&said).contains("83 % of the room"), "{said}");
    for hold in &waits {
        assert_eq!(say(&right, "reject", hold, "ops-1").status, 200);
    }
    assert_eq!(held(&codes(&left, "a", 5)), 4);
}
