//! Calls at one time: a slot is held to the end of a call, however it ends.

use super::{is_limited, list, parameter, rate, wait_until, with};
use crate::support::shape::{operation, valid};
use crate::support::shared::Signal;
use crate::support::upstream::answer;
use crate::support::{Act, Call, Caller, Gate, Setup, Upstream};

fn gate(upstream: &Upstream) -> Gate {
    let policies = rate("at-once", "per = [\"caller\"]\nconcurrent = 2") + &rate("wide", "quota = \"1000000/h\"");
    with(Setup::of(upstream), &policies).start()
}

/// Calls that have reached upstream, and wait there.
fn waiting(gate: &Gate, upstream: &Upstream, call: &Call, go: &Signal, count: usize) -> Vec<Caller> {
    let before = upstream.seen().len();
    let open = |at: usize| {
        upstream.next(Act::done(200).after(go));
        let mut caller = Caller::connect(gate.production());
        caller.send(call.bytes());
        upstream.wait_for(before + at);
        caller
    };
    (0..count).map(open).collect()
}

/// Until a call passes: slots come back a moment after their answers.
fn wait_for_slot(gate: &Gate, call: &Call) {
    wait_until("a slot", || !is_limited(&call.send(gate.production())));
}

#[test]
fn reads_and_writes_hold_slots_until_they_are_answered() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for id in ["listUsers", "cancelSwap"] {
        let call = valid(operation(id));
        let go = Signal::new();
        let mut open = waiting(&gate, &upstream, &call, &go, 2);
        let limited = call.send(gate.production());
        assert!(is_limited(&limited), "{limited}");
        assert_eq!(limited.header("retry-after").unwrap(), "1");
        assert_eq!(limited.header("ratelimit").unwrap(), "\"at-once\";r=0");
        let policy = limited.header("ratelimit-policy").unwrap();
        assert!(policy.contains("\"at-once\";q=2;qu=\"concurrent-requests\""), "{policy}");
        // Another caller is not meant.
        assert_eq!(list("another").send(gate.production()).status, 200);
        go.give();
        assert!(open.iter_mut().all(|caller| caller.answer().status == 200));
        wait_for_slot(&gate, &call);
        // One after the other, over one connection, never finds the slot of the one before.
        let mut caller = Caller::connect(gate.production());
        assert!((0..50).all(|_| !is_limited(&call.over(&mut caller))));
    }
    assert!(gate.metric("sluice_rate_calls_total{mode=\"enforce\",outcome=\"limited\",rate=\"at-once\"}") >= 2);
}

/// What is refused for its number takes nothing of a quota.
#[test]
fn a_call_too_many_takes_nothing_from_quotas() {
    let upstream = Upstream::start();
    let policies = rate("at-once", "concurrent = 1") + &rate("few", "quota = \"3/h\"");
    let gate = with(Setup::of(&upstream), &policies).start();
    let go = Signal::new();
    let mut open = waiting(&gate, &upstream, &list("one"), &go, 1);
    for _ in 0..10 {
        assert_eq!(list("two").send(gate.production()).json()["error"]["details"]["rates"][0], "at-once");
    }
    go.give();
    assert_eq!(open[0].answer().status, 200);
    wait_until("the slot", || list("one").send(gate.production()).status == 200);
    let last = list("one").send(gate.production());
    // And what is refused by the quota holds no slot.
    if last.status == 200 {
        assert_eq!(parameter(&last, "ratelimit", "few", "r"), Some(0));
    }
    wait_until("the quota to refuse", || {
        list("one").send(gate.production()).json()["error"]["details"]["rates"] == serde_json::json!(["few"])
    });
}

#[test]
fn a_stream_holds_its_slot_to_its_end() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let (go, call) = (Signal::new(), valid(operation("listUsers")));
    let whole = answer(200, &[("Content-Type", "application/json")], b"{}");
    let (head, rest) = whole.split_at(whole.len() - 1);
    let mut open: Vec<Caller> = (0..2)
        .map(|_| {
            upstream.next(Act::bytes(head).wait(&go).send(rest));
            let mut caller = Caller::connect(gate.production());
            caller.send(call.bytes());
            // Its head is here, its body is not.
            assert!(caller.head().first.contains("200"));
            caller
        })
        .collect();
    assert!(is_limited(&call.send(gate.production())));
    go.give();
    wait_for_slot(&gate, &call);
    open.clear();
}

#[test]
fn whoever_hangs_up_gives_its_slot_back() {
    let upstream = Upstream::start();
    let policies = rate("at-once", "per = [\"caller\"]\nconcurrent = 2");
    let gate = with(Setup::of(&upstream), &policies).timeout_ms("answer_ms", 2000).start();
    for id in ["listUsers", "cancelSwap"] {
        let call = valid(operation(id));
        let before = upstream.seen().len();
        for at in 0..2 {
            upstream.next(Act::silence().hang());
            let mut caller = Caller::connect(gate.production());
            caller.send(call.bytes());
            upstream.wait_for(before + at);
            caller.reset();
        }
        wait_for_slot(&gate, &call);
    }
    // Inside the body, and inside the head of the next.
    let call = valid(operation("createSwap"));
    for _ in 0..4 {
        let mut caller = Caller::connect(gate.production());
        caller.send(call.head_bytes());
        caller.reset();
    }
    wait_for_slot(&gate, &call);
}
