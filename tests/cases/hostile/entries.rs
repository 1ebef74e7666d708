//! Audit entries have a share for each caller, and sandbox leaves the disk to production.

use serde_json::{Value, json};

use super::wait_until;
use crate::cases::claims::audit::entries;
use crate::cases::claims::{swap, told};
use crate::support::token::{claims, signed};
use crate::support::{Call, Gate, Setup, Upstream, get};

const DENIED: &str = "403 POLICY_DENIED not-executed";
const FULL: &str = "429 TOO_MANY_REFUSALS not-executed";
/// More than any disk has free.
const ALL_BYTES: &str = "1_099_511_627_776";

fn by(subject: &str, call: Call) -> Call {
    let mut said = claims();
    said["sub"] = json!(subject);
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&said)))
}

fn reasons(gate: &Gate) -> Vec<(Value, Value)> {
    let said = gate.probe("/readyz/money").json();
    let reasons = said["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| (reason["reason"].clone(), reason["environment"].clone())).collect()
}

#[test]
fn a_caller_whose_calls_are_refused_fills_only_its_share_of_the_journal() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let reads = "[[rule]]\nid = \"reads\"\neffect = \"allow\"\nwhen = { op = \"listUsers\" }\n";
    // A caller alone may have 2 of 4 entries, a second one then 1.
    let setup = Setup::of(&upstream).sandbox(&other).limit("refusals", 4).file("policies/everything.toml", reads);
    let gate = setup.start().ready();
    let refused = |who: &str| told(&by(who, swap()).send(gate.sandbox()));
    assert_eq!(["a", "a", "a", "a"].map(refused), [DENIED, DENIED, FULL, FULL]);
    assert_eq!(["b", "b"].map(refused), [DENIED, FULL]);
    let full = by("a", swap()).send(gate.sandbox());
    assert_eq!(full.header("retry-after").as_deref(), Some("60"), "{full}");
    assert_eq!(told(&by("a", swap()).send(gate.production())), DENIED, "production has its own room");
    assert_eq!(by("a", get("/v2/users")).send(gate.sandbox()).status, 200, "what the rules allow goes on");
    wait_until("the entries to be written", || entries(&gate.path("sluice-audit")).len() >= 4);
    assert_eq!(entries(&gate.path("sluice-audit")).len(), 4);
    assert_eq!((upstream.seen().len(), other.seen().len()), (0, 1));
}

#[test]
fn where_little_disk_is_free_sandbox_leaves_it_to_production() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let setup = Setup::of(&upstream).sandbox(&other).set_raw("audit", "production_bytes", ALL_BYTES);
    let gate = setup.start();
    wait_until("sandbox to be closed", || reasons(&gate) == [(json!("disk-kept"), json!("sandbox"))]);
    assert_eq!(told(&swap().send(gate.sandbox())), "503 AUDIT_UNAVAILABLE not-executed");
    assert_eq!(get("/v2/users").send(gate.sandbox()).status, 200, "reads go on");
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    assert!(!other.seen().iter().any(|seen| seen.head.first.starts_with("POST")), "nothing was sent");

    let alone = Setup::of(&upstream).set_raw("audit", "production_bytes", ALL_BYTES).start().ready();
    assert_eq!(reasons(&alone), []);
    assert_eq!(told(&swap().send(alone.production())), "200 - executed");
}

/// The answer of a claim comes before the end of the room.
#[test]
fn a_repeat_is_answered_by_its_claim_also_where_there_is_no_room_for_entries() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let setup = Setup::of(&upstream).sandbox(&other);
    let gate = setup.start().ready();
    let once = swap();
    assert_eq!(told(&once.send(gate.sandbox())), "200 - executed");
    let setup = gate.end();
    let gate = setup.set_raw("audit", "production_bytes", ALL_BYTES).start();
    wait_until("sandbox to be closed", || reasons(&gate) == [(json!("disk-kept"), json!("sandbox"))]);
    assert_eq!(told(&once.send(gate.sandbox())), "200 - executed again");
}
