//! A limit that many callers want to spend at one time, over two gates that are killed meanwhile.
//!
//! `SLUICE_SWAPS` says how many swaps there are; half of them at most fit the limit.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{allow, limit, ruled, swap_of};
use crate::support::clock::wait_until;
use crate::support::{Act, Caller, Gate, Redis, Setup, Upstream};

const SWAPS: usize = 240;
const CALLERS: usize = 64;
/// What one swap moves, in USD.
const EACH: usize = 10;
const REFUSED: &str = r#"{"code":400,"error":"X","errorDetails":"y"}"#;

/// What upstream does with the swap that arrives as this one: it does it, refuses it, or does it and says nothing.
fn act(at: usize) -> Act {
    match at % 10 {
        3 | 7 => Act::json(400, REFUSED),
        5 => Act::silence().close(),
        _ => Act::done(201),
    }
}

fn is_refused(at: usize) -> bool {
    matches!(at % 10, 3 | 7)
}

#[expect(clippy::disallowed_methods, reason = "a count is given by who runs it")]
fn swaps() -> usize {
    std::env::var("SLUICE_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(SWAPS)
}

/// Gates where they listen now; empty while one is down.
type Places = Arc<Mutex<Vec<Option<SocketAddr>>>>;

/// What became of a swap; a store that is slow for a moment says nothing of it.
fn asked(address: SocketAddr, name: &str) -> String {
    let call = swap_of(name, &EACH.to_string());
    let mut answer = call.send(address);
    wait_until("an answer of the store", || {
        answer = if answer.status == 503 { call.send(address) } else { answer.clone() };
        answer.status != 503
    });
    answer.outcome()
}

/// Every caller asks for its swaps, at any gate, until each was answered for good.
fn call(places: &Places, names: &[String], turn: usize) {
    for (at, name) in names.iter().enumerate() {
        let call = swap_of(name, &EACH.to_string()).header("Connection", "close");
        for attempt in 0..400 {
            let places = places.lock().unwrap().clone();
            let address = places[(turn + at + attempt) % places.len()];
            let answer = address.and_then(|address| {
                let mut caller = Caller::try_connect(address).ok()?;
                caller.try_send(call.bytes()).ok()?;
                caller.try_answer().ok()
            });
            match answer.map(|answer| answer.outcome()) {
                Some(outcome) if outcome != "unknown" => break,
                // In doubt, in progress, or no answer at all: a while later somebody may know.
                _ if attempt > 6 && address.is_some() => break,
                _ => thread::park_timeout(Duration::from_millis(20)),
            }
        }
    }
}

fn overspend(setups: Vec<Setup>, upstream: &Upstream, kills: usize) {
    let (swaps, max) = (swaps(), swaps() * EACH / 4);
    (0..swaps * 4).for_each(|at| {
        upstream.next(act(at));
    });
    let mut gates: Vec<Option<Gate>> = setups.into_iter().map(|setup| Some(setup.start())).collect();
    let places: Places = Arc::new(Mutex::new(gates.iter().flatten().map(|gate| Some(gate.production())).collect()));
    let (done, asking) = (AtomicUsize::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        for turn in 0..CALLERS {
            let names: Vec<String> =
                (0..swaps).filter(|n| n % CALLERS == turn).map(|n| format!("overspend-{n}")).collect();
            let (places, done) = (places.clone(), &done);
            scope.spawn(move || {
                call(&places, &names, turn);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        for kill in 0..kills {
            let seen = upstream.seen().len();
            wait_until("a few more swaps", || {
                upstream.seen().len() > seen + 2 || done.load(Ordering::SeqCst) == CALLERS
            });
            let at = kill % gates.len();
            places.lock().unwrap()[at] = None;
            let gate = gates[at].take().unwrap().kill().start();
            places.lock().unwrap()[at] = Some(gate.production());
            gates[at] = Some(gate);
        }
        wait_until("every caller to end", || done.load(Ordering::SeqCst) == CALLERS);
        asking.store(false, Ordering::SeqCst);
    });
    let seen = upstream.seen();
    // A gate that was killed in the middle of writing leaves a call without its body, which is none to upstream.
    let whole: Vec<String> = seen.iter().filter(|seen| seen.whole).map(|seen| seen.text()).collect();
    let names: BTreeSet<&String> = whole.iter().collect();
    assert_eq!(names.len(), whole.len(), "a swap was sent twice");
    let effects = (0..seen.len()).filter(|at| !is_refused(*at)).count();
    assert!(effects * EACH <= max, "{effects} swaps of {EACH} USD were done, and {max} USD is the limit");
    // What was refused gave its share back: what was done and what is in doubt are all that the limit holds.
    let address = gates[0].as_ref().unwrap().production();
    let outcomes: Vec<String> = (0..swaps).map(|n| asked(address, &format!("overspend-{n}"))).collect();
    let spent = outcomes.iter().filter(|outcome| ["executed", "unknown"].contains(&outcome.as_str())).count();
    assert_eq!(spent * EACH, max, "{outcomes:?}");
}

fn policies() -> String {
    let max = swaps() * EACH / 4;
    allow("op = \"createSwap\"")
        + &limit("shared", &format!("window = \"rolling 24h\"\nmax = \"{max} USD\"\nover = \"deny\""))
}

#[test]
fn many_callers_at_two_gates_that_are_killed_never_spend_more_than_the_limit() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setups = ["left", "right"].map(|node| {
        let setup = ruled(&upstream, &policies()).set("store", "kind", "redis").set("store", "node", node);
        setup.set("redis", "url", &redis.url())
    });
    overspend(setups.into(), &upstream, 4);
}

#[test]
fn many_callers_at_one_gate_that_is_killed_never_spend_more_than_the_limit() {
    let upstream = Upstream::start();
    overspend(vec![ruled(&upstream, &policies())], &upstream, 3);
}
