//! Limits through the real gate: what counts, what is given back, and what is never forgotten.

use super::{allow, gate, limit, ruled, swap, swap_of};
use crate::cases::claims::told;
use crate::support::upstream::Reserved;
use crate::support::{Act, Upstream};

const OVER: &str = "403 LIMIT_EXCEEDED not-executed";
const A: &str = r#"{"code":400,"error":"X","errorDetails":"y"}"#;

fn hundred() -> String {
    allow("op = \"createSwap\"") + &limit("hundred", "window = \"rolling 24h\"\nmax = \"100 USD\"\nover = \"deny\"")
}

#[test]
fn what_is_over_a_limit_is_denied_and_a_smaller_one_still_fits() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &hundred());
    assert_eq!(told(&swap("60").send(gate.production())), "200 - executed");
    let over = swap_of("r-1", "40.000001").send(gate.production());
    assert_eq!(told(&over), OVER);
    assert_eq!(over.json()["error"]["details"]["rules"][0]["rule"], "hundred", "{over}");
    assert_eq!(told(&swap_of("r-1", "40").send(gate.production())), "200 - executed");
    assert_eq!(told(&swap("0.000001").send(gate.production())), OVER);
    // More than the limit could ever hold.
    assert_eq!(told(&swap("100.01").send(gate.production())), OVER);
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_caller_is_told_how_much_a_limit_has_and_when_there_is_room() {
    let upstream = Upstream::start();
    let of_the_day = limit("of-the-day", "window = \"calendar day UTC\"\nmax = \"2 calls\"\nover = \"deny\"");
    let gate = gate(&upstream, &(hundred() + &of_the_day));
    assert_eq!(told(&swap("60.5").send(gate.production())), "200 - executed");
    let over = swap("40.000001").send(gate.production());
    let figures =
        |answer: &crate::support::Answer, at: usize| answer.json()["error"]["details"]["rules"][at]["figures"].clone();
    let hundred = figures(&over, 0);
    let of = |name: &str| hundred[name].as_str().unwrap_or("-").to_owned();
    assert_eq!([of("unit"), of("max"), of("used"), of("asked")], ["USD", "100", "60.5", "40.000001"], "{over}");
    assert!(of("roomAt").ends_with('Z'), "{over}");
    // The rolling window may count less after one of its sixty parts.
    assert_eq!(over.header("retry-after").as_deref(), Some("1440"), "{over}");

    // Alone it is over the limit: there will never be room.
    let never = swap("100.01").send(gate.production());
    let of = |name: &str| figures(&never, 0)[name].as_str().unwrap_or("-").to_owned();
    assert_eq!([of("asked"), of("used"), of("roomAt")], ["100.01", "-", "-"], "{never}");
    assert_eq!(never.header("retry-after"), None, "{never}");

    assert_eq!(told(&swap("1").send(gate.production())), "200 - executed");
    let third = swap("1").send(gate.production());
    let of = |name: &str| figures(&third, 0)[name].as_str().unwrap_or("-").to_owned();
    assert_eq!([of("unit"), of("max"), of("used"), of("asked")], ["calls", "2", "2", "1"], "{third}");
    assert!(of("roomAt").ends_with("T00:00:00Z"), "{third}");
}

#[test]
fn what_was_certainly_not_executed_gives_its_share_back_and_what_is_unknown_keeps_it() {
    let upstream = Upstream::start();
    let gate = ruled(&upstream, &hundred()).timeout_ms("answer_ms", 300).start();
    for act in [Act::json(400, A), Act::json(422, A), Act::json(401, A), Act::json(429, A)] {
        upstream.next(act);
        let refused = swap("100").send(gate.production());
        assert_eq!(refused.outcome(), "not-executed", "{refused}");
    }
    upstream.next(Act::json(500, A));
    assert_eq!(told(&swap("30").send(gate.production())), "500 OUTCOME_UNKNOWN unknown");
    upstream.next(Act::silence());
    assert_eq!(told(&swap("30").send(gate.production())), "504 OUTCOME_UNKNOWN unknown");
    assert_eq!(told(&swap("41").send(gate.production())), OVER);
    assert_eq!(told(&swap("40").send(gate.production())), "200 - executed");
    assert_eq!(told(&swap("1").send(gate.production())), OVER);
}

#[test]
fn what_never_left_gives_its_share_back() {
    let reserved = Reserved::new();
    let setup = crate::support::Setup::new().environment("production", &reserved.url());
    let gate = setup.file("policies/everything.toml", &hundred()).start();
    for _ in 0..3 {
        assert_eq!(told(&swap("100").send(gate.production())), "502 UPSTREAM_UNAVAILABLE not-executed");
    }
    let upstream = reserved.start();
    assert_eq!(told(&swap("100").send(gate.production())), "200 - executed");
    assert_eq!(told(&swap("1").send(gate.production())), OVER);
    assert_eq!(upstream.seen().len(), 1);
}

/// A window outlives the process, and a killed gate's calls in flight stay in it.
#[test]
fn a_window_outlives_its_gate() {
    let upstream = Upstream::start();
    let first = gate(&upstream, &hundred());
    assert_eq!(told(&swap("60").send(first.production())), "200 - executed");
    upstream.next(Act::silence());
    let mut caller = crate::support::Caller::connect(first.production());
    caller.send(swap("30").bytes());
    upstream.wait_for(1);
    let gate = first.kill().start();
    assert_eq!(told(&swap("10.01").send(gate.production())), OVER);
    assert_eq!(told(&swap("10").send(gate.production())), "200 - executed");
}

#[test]
fn calls_without_a_claim_count_too_and_give_back_too() {
    let upstream = Upstream::start();
    let policies = allow("op = \"@change\"")
        + "[[limit]]\nid = \"changes\"\nops = [\"updateUser\"]\nwindow = \"rolling 24h\"\nmax = \"2 calls\"\nover = \"deny\"\n";
    let gate = gate(&upstream, &policies);
    let change =
        || crate::support::shape::valid(crate::support::shape::operation("updateUser")).send(gate.production());
    upstream.next(Act::json(400, A));
    assert_eq!(told(&change()), "400 X not-executed");
    assert_eq!(told(&change()), "200 - executed");
    assert_eq!(told(&change()), "200 - executed");
    assert_eq!(told(&change()), OVER);
}

#[test]
fn each_key_has_a_window_of_its_own() {
    let upstream = Upstream::start();
    let policies = allow("op = \"createSwap\"")
        + &limit("payment", "window = \"rolling 1h\"\nper = [\"payment\"]\nmax = \"1 call\"\nover = \"deny\"")
        + &limit(
            "all",
            "window = \"calendar day UTC\"\nper = [\"environment\"]\nmax = \"1000 calls\"\nover = \"deny\"",
        );
    let gate = gate(&upstream, &policies);
    assert_eq!(told(&swap("5").send(gate.production())), "200 - executed");
    // `5` and `5.00` are one payment.
    assert_eq!(told(&swap("5.00").send(gate.production())), OVER);
    assert_eq!(told(&swap("6").send(gate.production())), "200 - executed");
}

#[test]
fn a_limit_in_shadow_counts_and_stands_in_nobodys_way() {
    let upstream = Upstream::start();
    let policies = allow("op = \"createSwap\"")
        + &limit("shade", "window = \"rolling 24h\"\nmax = \"100 USD\"\nover = \"deny\"\nmode = \"shadow\"");
    let gate = gate(&upstream, &policies);
    for amount in ["60", "60", "60", "500"] {
        assert_eq!(told(&swap(amount).send(gate.production())), "200 - executed");
    }
    let hits = gate.metric(r#"sluice_rule_hits_total{effect="deny",mode="shadow",rule="shade"}"#);
    assert!(hits >= 3, "{hits}");
}

/// A destination is new until something was executed that paid it.
#[test]
fn a_destination_is_new_until_it_was_paid() {
    let upstream = Upstream::start();
    let policies = allow("op = \"createSwap\", amount = \"(0, 10] USD\"")
        + "[[rule]]\nid = \"known\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", destination.new = false }\n";
    let first = gate(&upstream, &policies);
    assert_eq!(told(&swap("50").send(first.production())), "403 POLICY_DENIED not-executed");
    upstream.next(Act::json(400, A));
    assert_eq!(told(&swap("5").send(first.production())), "400 X not-executed");
    assert_eq!(told(&swap("50").send(first.production())), "403 POLICY_DENIED not-executed");
    assert_eq!(told(&swap("5").send(first.production())), "200 - executed");
    assert_eq!(told(&swap("50").send(first.production())), "200 - executed");
    // A gate that remembers nothing asks the store.
    let gate = first.end().start();
    assert_eq!(told(&swap("50").send(gate.production())), "200 - executed");
}
