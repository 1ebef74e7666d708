//! Who asks while it is being sent: told so, or told its answer when there is one.

use std::sync::{Arc, Barrier};
use std::thread::spawn;

use super::{assert_again, swap, told};
use crate::support::clock::{PATIENCE, Watch};
use crate::support::shape::swap_record;
use crate::support::shared::Signal;
use crate::support::{Act, Answer, Call, Caller, Gate, Setup, Upstream};

const IN_PROGRESS: &str = "409 REQUEST_IN_PROGRESS unknown";
const MET: &str = r#"sluice_claims_met_total{environment="production",said="in-progress"}"#;

/// A call that is being sent, until the signal is given.
struct Begun {
    call: Call,
    go: Signal,
    first: Caller,
}

fn begin(upstream: &Upstream, gate: &Gate, act: Act) -> Begun {
    let (call, go, at) = (swap(), Signal::new(), upstream.seen().len());
    upstream.next(act.after(&go));
    let mut first = Caller::connect(gate.production());
    first.send(call.bytes());
    upstream.wait_for(at);
    Begun { call, go, first }
}

/// Waits until so many calls have met a claim that is being sent.
fn wait_for_met(gate: &Gate, count: u64) {
    let watch = Watch::start();
    while gate.metric(MET) != count {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {count} calls that meet one being sent");
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

/// Answers to callers who would wait, all of whom wait before `then` happens.
fn waiting(gate: &Gate, call: &Call, preferences: &[&str], then: impl FnOnce()) -> Vec<Answer> {
    let before = gate.metric(MET);
    let asking = preferences.iter().map(|preference| {
        let (call, address) = (call.clone().header("Prefer", *preference), gate.production());
        spawn(move || call.send(address))
    });
    let asking: Vec<_> = asking.collect();
    wait_for_met(gate, before + asking.len() as u64);
    then();
    asking.into_iter().map(|one| one.join().unwrap()).collect()
}

#[test]
fn who_asks_while_it_is_sent_is_told_so() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut begun = begin(&upstream, &gate, Act::json(201, swap_record("1")));
    for prefer in ["wait=0", "wait", "wait=soon", "wait=-1", "respond-async"] {
        let answer = begun.call.clone().header("Prefer", prefer).send(gate.production());
        assert_eq!(told(&answer), IN_PROGRESS, "{prefer}: {answer}");
        assert_eq!((answer.header("retry-after").as_deref(), answer.origin().as_str()), (Some("1"), "gateway"));
    }
    begun.go.give();
    let first = begun.first.answer();
    assert_eq!(told(&first), "201 - executed");
    assert_again(&first, &begun.call.send(gate.production()));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn who_would_wait_hears_the_answer_when_it_is_there() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut begun = begin(&upstream, &gate, Act::json(201, swap_record("1")));
    let go = begun.go.clone();
    let preferences = ["wait=60", "respond-async, wait=60", "Wait = \"60\"; x=y", "wait=99999"];
    let waited = waiting(&gate, &begun.call, &preferences, || go.give());
    let first = begun.first.answer();
    for answer in &waited {
        assert_again(&first, answer);
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn who_waited_long_enough_is_told_that_it_is_still_sent() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut begun = begin(&upstream, &gate, Act::done(201));
    let watch = Watch::start();
    let answer = begun.call.clone().header("Prefer", "wait=1").send(gate.production());
    assert_eq!(told(&answer), IN_PROGRESS, "{answer}");
    assert!(watch.elapsed().as_millis() >= 1000, "{:?}", watch.elapsed());
    begun.go.give();
    assert_eq!(told(&begun.first.answer()), "201 - executed");
}

#[test]
fn who_waits_for_what_ends_in_doubt_is_told_so() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut begun = begin(&upstream, &gate, Act::silence().close());
    let go = begun.go.clone();
    for answer in waiting(&gate, &begun.call, &["wait=60"], || go.give()) {
        assert_eq!(told(&answer), "409 OUTCOME_UNKNOWN unknown", "{answer}");
    }
    assert_eq!(told(&begun.first.answer()), "502 OUTCOME_UNKNOWN unknown");
    assert_eq!(upstream.seen().len(), 1);
}

/// It is not for the one who waits to send it: upstream's 401 is its first caller's.
#[test]
fn who_waits_for_what_is_not_let_in_may_ask_again() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut begun = begin(&upstream, &gate, Act::json(429, r#"{"error":"slow down"}"#));
    let go = begun.go.clone();
    for answer in waiting(&gate, &begun.call, &["wait=60"], || go.give()) {
        assert_eq!(told(&answer), IN_PROGRESS, "{answer}");
    }
    assert_eq!(told(&begun.first.answer()), "429 slow down not-executed");
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(told(&begun.call.send(gate.production())), "200 - executed");
}

#[test]
fn the_answer_is_kept_for_a_caller_who_hung_up() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (at, hard) in [true, false].into_iter().enumerate() {
        let begun = begin(&upstream, &gate, Act::json(201, swap_record("1")));
        if hard {
            begun.first.reset();
        } else {
            drop(begun.first);
        }
        let go = begun.go.clone();
        for answer in waiting(&gate, &begun.call, &["wait=60"], || go.give()) {
            assert_eq!(
                (told(&answer).as_str(), answer.text().as_str()),
                ("201 - executed again", swap_record("1").as_str())
            );
        }
        assert_eq!(upstream.seen().len(), at + 1);
    }
}

#[test]
fn of_many_at_once_one_is_sent() {
    const CALLERS: usize = 64;
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (call, go, start) = (swap(), Signal::new(), Arc::new(Barrier::new(CALLERS)));
    upstream.next(Act::json(201, swap_record("the one")).after(&go));
    let asking = (0..CALLERS).map(|at| {
        let call = if at % 2 == 0 { call.clone().header("Prefer", "wait=60") } else { call.clone() };
        let (start, address) = (start.clone(), gate.production());
        spawn(move || {
            let mut caller = Caller::connect(address);
            start.wait();
            call.over(&mut caller)
        })
    });
    let asking: Vec<_> = asking.collect();
    upstream.wait_for(0);
    go.give();
    let answers: Vec<Answer> = asking.into_iter().map(|one| one.join().unwrap()).collect();
    let how_many = |wanted: &str| answers.iter().filter(|answer| told(answer) == wanted).count();
    let (sent, again, busy) = (how_many("201 - executed"), how_many("201 - executed again"), how_many(IN_PROGRESS));
    assert_eq!((sent, sent + again + busy), (1, CALLERS), "{again} again, {busy} in progress");
    assert!(sent + again >= CALLERS / 2, "who would wait hears the answer: {again} again, {busy} in progress");
    let bodies = answers.iter().filter(|answer| answer.status == 201).map(Answer::text);
    bodies.for_each(|body| assert_eq!(body, swap_record("the one")));
    assert_eq!(upstream.seen().len(), 1);
}
