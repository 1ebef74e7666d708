//! How many pass, exactly, and what counts.

use std::time::Duration;

use super::{call, is_limited, list, parameter, passed, rate, token, with};
use crate::support::shape::{operation, valid};
use crate::support::{Caller, Setup, Upstream, get, post};

#[test]
fn the_burst_is_exact_over_many_connections_at_once() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("burst", "per = [\"caller\"]\nquota = \"40/h burst 40\"")).start();
    let address = gate.production();
    let passed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| passed(address, &list("one"), 10))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((passed, upstream.seen().len()), (40, 40));
}

#[test]
fn what_one_rate_refuses_takes_nothing_from_another() {
    let upstream = Upstream::start();
    let policies = rate("wide", "quota = \"10/h\"") + &rate("narrow", "ops = [\"@money\"]\nquota = \"2/h\"");
    let gate = with(Setup::of(&upstream), &policies).start();
    let swap = call("createSwap", &token("one", &[]));
    assert_eq!(passed(gate.production(), &swap, 20), 2);
    assert_eq!(passed(gate.production(), &list("one"), 20), 8);
}

#[test]
fn whoever_waits_as_long_as_is_told_passes() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("slow", "quota = \"1/s burst 1\"")).start();
    let mut caller = Caller::connect(gate.production());
    for _ in 0..2 {
        let limited = std::iter::repeat_with(|| list("one").over(&mut caller)).find(is_limited).unwrap();
        let secs = limited.header("retry-after").unwrap().parse().unwrap();
        assert_eq!(secs, 1, "{limited}");
        std::thread::sleep(Duration::from_secs(secs));
        let answer = list("one").over(&mut caller);
        assert_eq!(answer.status, 200, "{answer}");
    }
}

#[test]
fn what_the_gate_refuses_later_counts_and_what_it_refuses_before_does_not() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("all", "per = [\"caller\"]\nquota = \"5/h\"")).start();
    let at = gate.production();
    let statuses =
        |call: crate::support::Call, times: usize| -> Vec<u16> { (0..times).map(|_| call.send(at).status).collect() };
    // Nobody is known yet, so nobody is charged.
    assert_eq!(statuses(get("/v2/users").without("Authorization"), 3), [401; 3]);
    assert_eq!(statuses(get("/v2/nowhere"), 3), [404; 3]);
    assert_eq!(statuses(post("/v2/wallets/swaps").json("{}"), 1), [400]);
    assert_eq!(statuses(post("/v2/wallets/swaps").json("{"), 1), [400]);
    assert_eq!(statuses(post("/v2/wallets/swaps").body("x"), 1), [415]);
    assert_eq!(statuses(get("/v2/users?limit=x&limit=y"), 2), [400; 2]);
    assert_eq!(statuses(get("/v2/users"), 2), [429; 2]);
    assert_eq!(upstream.seen().len(), 0);
}

/// The head alone decides: of a body that is announced, nothing is read, and nothing is waited for.
#[test]
fn a_write_is_refused_before_its_body_is_there() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("one", "ops = [\"createSwap\"]\nquota = \"1/h\"")).start();
    assert_eq!(valid(operation("createSwap")).send(gate.production()).status, 200);
    let mut caller = Caller::connect(gate.production());
    let call = valid(operation("createSwap")).header("Expect", "100-continue");
    let answer = caller.send(call.head_bytes()).answer();
    assert!(is_limited(&answer), "{answer}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_shadow_is_counted_and_logged_and_refuses_nothing() {
    let upstream = Upstream::start();
    let policies = rate("shade", "quota = \"2/h\"\nmode = \"shadow\"") + &rate("wide", "quota = \"10/h burst 10\"");
    let gate = with(Setup::of(&upstream), &policies).start();
    for at in 0..5 {
        let answer = list("one").header("X-Request-Id", format!("s{at}")).send(gate.production());
        assert_eq!(answer.status, 200);
        assert_eq!(parameter(&answer, "ratelimit", "wide", "r"), Some(9 - at));
        assert!(!answer.header("ratelimit-policy").unwrap().contains("shade"), "{answer}");
    }
    let calls = |rate: &str, mode: &str, outcome: &str| {
        gate.metric(&format!("sluice_rate_calls_total{{mode=\"{mode}\",outcome=\"{outcome}\",rate=\"{rate}\"}}"))
    };
    assert_eq!((calls("shade", "shadow", "allowed"), calls("shade", "shadow", "limited")), (2, 3));
    assert_eq!((calls("wide", "enforce", "allowed"), calls("wide", "enforce", "limited")), (5, 0));
    let logged = gate.log.wait("the shadow's lines", |lines| {
        let of: Vec<_> = lines.iter().filter(|line| line["rate"] == "shade").cloned().collect();
        (of.len() == 3).then_some(of)
    });
    assert_eq!(logged[0]["request_id"], "s2");
    assert!(!gate.log.all().iter().any(|line| line.to_string().contains("main:one")));
}

#[test]
fn what_comes_near_is_counted() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("near", "quota = \"10/h burst 10\"")).start();
    let near = || gate.metric("sluice_rate_near_total{mode=\"enforce\",rate=\"near\"}");
    assert_eq!((passed(gate.production(), &list("one"), 8), near()), (8, 0));
    assert_eq!((passed(gate.production(), &list("two"), 5), near()), (2, 2));
}

#[test]
fn without_policies_nothing_is_limited_and_nothing_said_of_it() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let answer = list("one").send(gate.production());
    assert_eq!((answer.status, answer.header("ratelimit"), answer.header("ratelimit-policy")), (200, None, None));
    assert!(!gate.probe("/metrics").text().contains("rate=\""));
}
