//! Races over many holds, at one gate on its embedded store and at two on one Redis: whatever people do at one moment, each
//! call is sent once or never, never without its quorum, never after a no that was acknowledged, and byte for byte as it
//! was approved.
//!
//! `SLUICE_HOLDS` says how many holds each race has.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{RULES, approver, body, gate, named, on_redis, swap, text};
use crate::support::clock::wait_until;
use crate::support::{Answer, Call, Caller, Gate, Redis, Setup, Upstream, post};

const HOLDS: usize = 16;
/// So many holds are raced for at one time.
const TABLES: usize = 6;

#[expect(clippy::disallowed_methods, reason = "a count is given by who runs it")]
fn holds() -> usize {
    std::env::var("SLUICE_HOLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(HOLDS)
}

#[expect(clippy::disallowed_methods, reason = "the gate lives by the time of day")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// What somebody does, at which gate, and what they were told; nothing if the gate was gone.
type Told = Option<(u16, String)>;

/// Where callers and people are served now; nothing while a gate is down.
type Place = Option<(SocketAddr, SocketAddr)>;

struct Field {
    upstream: Upstream,
    redis: Option<Redis>,
    gates: Mutex<Vec<Option<Gate>>>,
    places: Mutex<Vec<Place>>,
}

fn place(gate: &Gate) -> Place {
    Some((gate.production(), gate.console().unwrap()))
}

impl Field {
    fn of(is_redis: bool, rules: &str) -> Field {
        let upstream = Upstream::start();
        let redis = is_redis.then(Redis::start_kept);
        let setups: Vec<Setup> = match &redis {
            None => vec![gate(&upstream, rules)],
            Some(redis) => ["left", "right"].map(|node| on_redis(gate(&upstream, rules), redis, node)).into(),
        };
        let gates: Vec<Gate> = setups.into_iter().map(Setup::start).collect();
        let places = Mutex::new(gates.iter().map(place).collect());
        Field { upstream, redis, gates: Mutex::new(gates.into_iter().map(Some).collect()), places }
    }

    fn at(&self, nth: usize) -> Place {
        let places = self.places.lock().unwrap();
        places[nth % places.len()]
    }

    fn try_send(call: &Call, address: SocketAddr) -> Option<Answer> {
        let mut caller = Caller::try_connect(address).ok()?;
        caller.try_send(call.clone().header("Connection", "close").bytes()).ok()?;
        caller.try_answer().ok()
    }

    /// Asks at any gate until one answers for good.
    fn insist(&self, nth: usize, is_for_people: bool, call: &Call) -> Answer {
        let mut last = None;
        for attempt in 0..2_000 {
            let address = self.at(nth + attempt).map(|(callers, people)| if is_for_people { people } else { callers });
            last = address.and_then(|address| Field::try_send(call, address));
            match &last {
                Some(answer) if answer.status != 503 => return last.unwrap(),
                _ => thread::park_timeout(Duration::from_millis(20)),
            }
        }
        panic!("no gate answers: {last:?}")
    }

    fn hold(&self, nth: usize, request_id: &str, amount: &str) -> Value {
        let answer = self.insist(nth, false, &swap(request_id, amount));
        assert_eq!(answer.status, 202, "{answer}");
        answer.json()["hold"].clone()
    }

    /// Says it once, whatever comes of it.
    fn say(&self, nth: usize, hold: &Value, (act, who): (&str, &str)) -> Told {
        let (callers, people) = self.at(nth)?;
        let answer = match act {
            "cancel" => Field::try_send(&post(format!("/sluice/v1/holds/{}/cancel", text(hold, "id"))), callers)?,
            _ => Field::try_send(&word(hold, act, who), people)?,
        };
        Some((answer.status, answer.code()))
    }

    /// Says it until it was heard.
    fn surely(&self, nth: usize, hold: &Value, (act, who): (&str, &str)) -> u16 {
        self.insist(nth, true, &word(hold, act, who)).status
    }

    /// What the caller hears in the end.
    fn end(&self, nth: usize, request_id: &str, amount: &str) -> String {
        for _ in 0..2_000 {
            let answer = self.insist(nth, false, &swap(request_id, amount));
            let told = (answer.status, answer.code());
            if told.0 == 201 {
                return "executed".to_owned();
            }
            if told.0 != 202 && told.1 != "REQUEST_IN_PROGRESS" {
                return told.1;
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        panic!("`{request_id}` never ended")
    }

    /// How often upstream got each body whole; a gate that was killed while it wrote leaves one without its end.
    fn arrived(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        // Gates read the list of payments by themselves.
        for seen in self.upstream.seen().iter().filter(|seen| seen.whole && seen.line().starts_with("POST")) {
            *all.entry(seen.text()).or_default() += 1;
        }
        all
    }

    /// Over all holds, as many at one time as there are tables.
    fn each(&self, count: usize, race: impl Fn(usize) + Sync) {
        thread::scope(|scope| {
            for table in 0..TABLES {
                let race = &race;
                scope.spawn(move || (0..count).filter(|n| n % TABLES == table).for_each(race));
            }
        });
    }

    /// What two say at one moment, each at a gate of their own where there are two.
    fn at_once(&self, nth: usize, hold: &Value, acts: [(&str, &str); 2]) -> [Told; 2] {
        let barrier = Barrier::new(2);
        let one = |at: usize, act| {
            barrier.wait();
            self.say(nth + at, hold, act)
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| one(0, acts[0]));
            let second = one(1, acts[1]);
            [first.join().unwrap(), second]
        })
    }
}

fn word(hold: &Value, act: &str, who: &str) -> Call {
    let said = named(hold, act);
    let call = Call::new("POST", format!("/sluice/v1/holds/{}/{act}", text(hold, "id"))).without("Authorization");
    call.header("Authorization", format!("Bearer {}", approver(who))).json(said.to_string())
}

fn is_heard(told: &Told) -> bool {
    told.as_ref().is_some_and(|(status, _)| *status == 200)
}

/// People agreed before, and then two act at one moment; what may come of it.
fn race(is_redis: bool, before: &[&str], acts: [(&str, &str); 2], may_end: impl Fn(&[Told; 2], &str) -> bool + Sync) {
    let field = Field::of(is_redis, RULES);
    let (count, ends) = (holds(), Mutex::new(BTreeMap::<String, usize>::new()));
    let executed = Mutex::new(Vec::new());
    field.each(count, |n| {
        let request_id = format!("race-{n}");
        let hold = field.hold(n, &request_id, "500");
        for (at, who) in before.iter().enumerate() {
            assert_eq!(field.surely(n + at, &hold, ("approve", who)), 200, "{who}");
        }
        let told = field.at_once(n, &hold, acts);
        let is_no = |(act, told): (&(&str, &str), &Told)| act.0 != "approve" && is_heard(told);
        let was_refused = acts.iter().zip(&told).any(is_no);
        // What people do not complete is ended by a no, that it may be seen what comes of it.
        let is_complete = ["ops-2", "finance-1"].iter().all(|who| {
            before.contains(who) || acts.iter().zip(&told).any(|(act, told)| act.1 == *who && is_heard(told))
        });
        let is_ended = !is_complete && !was_refused && field.surely(n, &hold, ("reject", "ops-3")) == 200;
        let end = field.end(n, &request_id, "500");
        assert!(!was_refused && !is_ended || end != "executed", "{n}: sent after a no: {told:?}");
        assert!(may_end(&told, &end), "{n}: {told:?}, and {end}");
        if end == "executed" {
            executed.lock().unwrap().push(body(&request_id, "500"));
        }
        *ends.lock().unwrap().entry(end).or_default() += 1;
    });
    let (arrived, executed) = (field.arrived(), executed.into_inner().unwrap());
    assert!(arrived.values().all(|times| *times == 1), "sent twice");
    assert!(executed.iter().all(|body| arrived.contains_key(body)) && arrived.len() == executed.len());
    eprintln!("{count} holds, redis: {}; {:?}", field.redis.is_some(), ends.into_inner().unwrap());
}

fn two_who_complete_it(is_redis: bool) {
    race(is_redis, &["ops-1"], [("approve", "ops-2"), ("approve", "finance-1")], |told, end| {
        told.iter().all(is_heard) && end == "executed"
    });
}

/// The same vote comes to both gates; the loser may find that it is sent already.
fn the_last_vote_twice(is_redis: bool) {
    race(is_redis, &["ops-1", "ops-2"], [("approve", "finance-1"); 2], |told, end| {
        let fits = |one: &Told| matches!(one, Some((200, _))) || *one == Some((409, "HOLD_OVER".to_owned()));
        told.iter().any(is_heard) && told.iter().all(fits) && end == "executed"
    });
}

fn one_who_agrees_twice(is_redis: bool) {
    race(is_redis, &["ops-1"], [("approve", "finance-1"); 2], |told, end| {
        told.iter().all(is_heard) && end == "APPROVAL_REJECTED"
    });
}

/// By a second credential, that of a person: in time for their own call, and refused.
fn whoever_asked_for_it(is_redis: bool) {
    race(is_redis, &["ops-1"], [("approve", "test"), ("approve", "finance-1")], |told, end| {
        told[0] == Some((403, "FORBIDDEN".to_owned())) && is_heard(&told[1]) && end == "APPROVAL_REJECTED"
    });
}

fn a_vote_against_a_rejection(is_redis: bool) {
    race(is_redis, &["ops-1", "ops-2"], [("approve", "finance-1"), ("reject", "ops-3")], |told, end| {
        is_heard(&told[1]) == (end == "APPROVAL_REJECTED") && (is_heard(&told[0]) || end != "executed")
    });
}

fn a_vote_against_its_callers_cancel(is_redis: bool) {
    race(is_redis, &["ops-1", "ops-2"], [("approve", "finance-1"), ("cancel", "")], |told, end| {
        is_heard(&told[1]) == (end == "APPROVAL_CANCELLED") && (is_heard(&told[0]) || end != "executed")
    });
}

/// The last vote comes about when its time is over.
fn a_vote_against_the_expiry(is_redis: bool) {
    let field = Field::of(is_redis, &RULES.replace("expires = \"8h\"", "expires = \"1m\""));
    let (count, waiting) = (holds(), Mutex::new(Vec::new()));
    field.each(count, |n| {
        let hold = field.hold(n, &format!("race-{n}"), "500");
        for who in ["ops-1", "ops-2"] {
            assert_eq!(field.surely(n, &hold, ("approve", who)), 200, "{who}");
        }
        waiting.lock().unwrap().push((n, hold));
    });
    let waiting = waiting.into_inner().unwrap();
    let moment = |hold: &Value| text(hold, "expiresAt").parse::<Timestamp>().unwrap();
    let ends = Mutex::new(BTreeMap::<(bool, String), usize>::new());
    let (executed, said) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    field.each(waiting.len(), |at| {
        let (n, hold) = &waiting[at];
        // Some before, some a little after.
        let early = Duration::from_millis(u64::try_from((n * 7919) % 900).unwrap());
        let due = moment(hold) - early + Duration::from_millis(50);
        while let Ok(left) = Duration::try_from(due.duration_since(now()))
            && !left.is_zero()
        {
            thread::park_timeout(left);
        }
        let told = field.say(*n, hold, ("approve", "finance-1"));
        said.lock().unwrap().insert(*n, told);
    });
    let said = said.into_inner().unwrap();
    field.each(waiting.len(), |at| {
        let n = &waiting[at].0;
        let (told, end) = (&said[n], field.end(*n, &format!("race-{n}"), "500"));
        assert!(["executed", "APPROVAL_EXPIRED"].contains(&end.as_str()), "{n}: {told:?}, and {end}");
        assert!(is_heard(told) || end == "APPROVAL_EXPIRED", "{n}: sent without its quorum: {told:?}");
        if end == "executed" {
            executed.lock().unwrap().push(body(&format!("race-{n}"), "500"));
        }
        *ends.lock().unwrap().entry((is_heard(told), end)).or_default() += 1;
    });
    let (arrived, executed) = (field.arrived(), executed.into_inner().unwrap());
    assert!(arrived.values().all(|times| *times == 1), "sent twice");
    assert!(executed.iter().all(|body| arrived.contains_key(body)) && arrived.len() == executed.len());
    eprintln!("{count} holds, redis: {}; heard, end: {:?}", field.redis.is_some(), ends.into_inner().unwrap());
}

/// Votes and noes, while the gates are killed one after the other and begin anew.
fn votes_while_gates_are_killed(is_redis: bool) {
    let field = Field::of(is_redis, RULES);
    let (count, over, done) = (holds(), AtomicBool::new(false), Mutex::new(0_usize));
    let ends = Mutex::new(BTreeMap::<String, usize>::new());
    let executed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let (mut kills, gates) = (0_usize, field.places.lock().unwrap().len());
            while !over.load(Ordering::SeqCst) {
                let before = *done.lock().unwrap();
                wait_until("a few more holds", || *done.lock().unwrap() >= before + 4 || over.load(Ordering::SeqCst));
                let at = kills % gates;
                field.places.lock().unwrap()[at] = None;
                let gate = field.gates.lock().unwrap()[at].take().unwrap();
                let gate = gate.kill().start();
                field.places.lock().unwrap()[at] = place(&gate);
                field.gates.lock().unwrap()[at] = Some(gate);
                kills += 1;
            }
            kills
        });
        field.each(count, |n| {
            let request_id = format!("race-{n}");
            let hold = field.hold(n, &request_id, "500");
            let is_refused = n % 5 == 4;
            let people = if is_refused { ["ops-1", "finance-1", "ops-3"] } else { ["ops-1", "ops-2", "finance-1"] };
            for (at, who) in people.iter().enumerate() {
                let act = if is_refused && at == 2 { "reject" } else { "approve" };
                let status = field.surely(n + at, &hold, (act, who));
                // Said again where nobody knew whether it was heard, it may be over.
                assert!(status == 200 || status == 409, "{n}: {who}: {status}");
            }
            let end = field.end(n, &request_id, "500");
            let is_fit = match is_refused {
                true => end == "APPROVAL_REJECTED",
                false => ["executed", "OUTCOME_UNKNOWN"].contains(&end.as_str()),
            };
            assert!(is_fit, "{n}: {end}");
            if end == "executed" {
                executed.lock().unwrap().push(body(&request_id, "500"));
            }
            *ends.lock().unwrap().entry(end).or_default() += 1;
            *done.lock().unwrap() += 1;
        });
        over.store(true, Ordering::SeqCst);
        let kills = killer.join().unwrap();
        assert!(kills > 0);
        eprintln!("{kills} kills");
    });
    let (arrived, executed) = (field.arrived(), executed.into_inner().unwrap());
    assert!(arrived.values().all(|times| *times == 1), "sent twice");
    assert!(executed.iter().all(|body| arrived.contains_key(body)), "executed, and never sent");
    for n in (0..count).filter(|n| n % 5 == 4) {
        assert!(!arrived.contains_key(&body(&format!("race-{n}"), "500")), "{n}: sent after a no");
    }
    eprintln!("{count} holds, redis: {}; {:?}", field.redis.is_some(), ends.into_inner().unwrap());
}

macro_rules! races {
    ($($name:ident)*) => {
        mod on_the_embedded_store {
            $(#[test]
            fn $name() {
                super::$name(false);
            })*
        }
        mod on_one_redis {
            $(#[test]
            fn $name() {
                super::$name(true);
            })*
        }
    };
}

races! {
    two_who_complete_it
    the_last_vote_twice
    one_who_agrees_twice
    whoever_asked_for_it
    a_vote_against_a_rejection
    a_vote_against_its_callers_cancel
    a_vote_against_the_expiry
    votes_while_gates_are_killed
}
