//! Claims that a store lost, and a journal has.

use super::*;
use crate::ledger::{Conflict, ConflictCause};

/// A call that was sent, as the chain says, is not sent again because a store that was set back still has it waiting.
#[test]
fn a_chain_that_tells_of_sending_overrules_a_store_in_which_the_call_still_waits() {
    let hold = HoldId::parse(&"a1".repeat(16)).unwrap();
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let told = |what: &str, number: u64| {
        let entry = serde_json::json!({
            "what": what, "claim": "request/r-1", "requestId": "r-1", "operation": "createSwap", "trace": "t-1",
            "owner": { "issuer": "main", "subject": "payroll" }, "hold": hold.as_str(),
            "fingerprint": Fingerprint::of(&[b"a call"]).to_hex(),
        });
        let (environment, number, at) = (Environment::Production, Number::new(number), StoreTime::of_micros(9));
        let mut tale = Tale::of(sender());
        let node = NodeId::parse("gate").unwrap();
        tale.add(&Outstanding { environment, number, at, node, entry: Bytes::from(entry.to_string()) }, None);
        tale.into_claims().next().map(|(_, told)| told)
    };
    let terms = terms();
    let becomes_by = |what: &str, number: u64, state: ClaimState| {
        let found = Claim { hold: Some(hold.clone()), ..claim(state, Some("r-1")) };
        let content = Content::Whole(encode_claim(&found));
        let record = Record { version: Number::new(3), at: StoreTime::of_micros(3), content };
        let change = told(what, number)?.over(&key, &record, &found, (&terms, StoreTime::of_micros(9)))?;
        change.steps.iter().find_map(|step| match step {
            Step::Replace { value, .. } => Some(decode_claim(value).unwrap().state.as_str()),
            _ => None,
        })
    };
    let becomes = |what: &str, state: ClaimState| becomes_by(what, 9, state);
    let expired = ClaimState::Declined(Declined { how: Decline::Expired, reason: None });
    for state in [ClaimState::Held, expired] {
        assert_eq!(becomes("sending", state.clone()), Some("unknown"));
        assert_eq!(becomes("unknown", state.clone()), Some("unknown"));
        assert_eq!(becomes("executed", state.clone()), Some("executed"));
        assert_eq!(becomes("undone", state.clone()), None, "it certainly was not");
        assert_eq!(becomes("rejected", state), None);
    }
    let [sending_now, unknown, executed, _] = states();
    // Its version is the attempt that is being sent; the other has the attempts 5 and 7.
    for (state, number) in [(sending_now.clone(), 3), (unknown.clone(), 7), (unknown.clone(), 5), (executed.clone(), 7)]
    {
        assert_eq!(becomes_by("sending", number, state), None, "the store knows as much");
    }
    for state in [sending_now, unknown, ClaimState::Absent] {
        assert_eq!(becomes("sending", state), Some("unknown"), "a later attempt was sent");
    }
    assert_eq!(becomes("sending", executed), Some("executed"), "another attempt may have been executed, too");
}

/// What a call used of limits counts with its claim, in the time of its sending, and until its end is known.
#[test]
fn what_a_told_call_used_of_limits_counts_again_once() {
    let (key, terms) = (key_of("request/r-1"), terms());
    let [sending_now, ..] = states();
    let sent = claim(sending_now, Some("r-1"));
    let ClaimState::Sending { booked, .. } = &sent.state else { panic!("it is being sent") };
    let [day, hour] = [86_400_000_000_i64, 3_600_000_000];
    let told_at = |what: &[&str], written: Option<&Claim>| {
        let mut tale = Tale::of(sender());
        tell_attempt(&mut tale, &key, what, |nth| written.filter(|_| nth == 0));
        tale.into_claims().next().map(|(_, told)| told)
    };
    let steps = |what: &[&str], now: i64| {
        let told = told_at(what, Some(&sent)).unwrap();
        let now = StoreTime::of_micros(now);
        let steps = told.steps(key.environment, &key.name, &terms, now);
        let counts = |step: &&Step| matches!(step, Step::Force { .. } | Step::Book { .. } | Step::Settle { .. });
        let counting: Vec<Step> = steps.iter().filter(counts).cloned().collect();
        assert_eq!(told.counts(now), steps.iter().any(|step| matches!(step, Step::Force { .. } | Step::Book { .. })));
        assert!(!told.lacks_booking());
        counting
    };
    let BookedWindow { window, span, units } = booked.windows[0].clone();
    let book = Step::Book { window: window.clone(), span, units, at: StoreTime::of_micros(day) };
    let force = Step::Force { window: window.clone(), span, units, holder: booked.holder.clone() };
    assert_eq!(steps(&["sending", "executed"], day + 5), std::slice::from_ref(&book));
    assert_eq!(steps(&["sending", "unknown"], day + 5), std::slice::from_ref(&force));
    assert_eq!(steps(&["sending"], day + 5), std::slice::from_ref(&force));
    assert_eq!(steps(&["sending", "abandoned"], day + 5), std::slice::from_ref(&force), "nobody knows");
    assert_eq!(steps(&["sending", "not-executed"], day + 5), []);
    assert_eq!(steps(&["sending"], day + 2 * hour), [], "no window reaches back to it");
    // Without what the commit wrote, it is said that nothing is known.
    let unknown = told_at(&["sending", "executed"], None).unwrap();
    assert!(unknown.lacks_booking() && !unknown.counts(StoreTime::of_micros(day)));
    assert!(!told_at(&["sending", "not-executed"], None).unwrap().lacks_booking());

    // A store that knows the attempt has its reservation.
    let over = |what: &[&str], state: ClaimState, version: u64| {
        let found = Claim { attempts: Vec::new(), ..claim(state, Some("r-1")) };
        let content = Content::Whole(encode_claim(&found));
        let record = Record { version: Number::new(version), at: StoreTime::of_micros(3), content };
        let told = told_at(what, Some(&sent)).unwrap();
        let steps = told.over(&key, &record, &found, (&terms, StoreTime::of_micros(day + 5)))?.steps;
        let of_window = |step: &&Step| {
            matches!(step, Step::Force { .. } | Step::Book { .. } | Step::Settle { .. } | Step::GiveBack { .. })
        };
        Some(steps.iter().filter(of_window).cloned().collect::<Vec<_>>())
    };
    let (holder, of_window) = (booked.holder.clone(), window.clone());
    let settle = Step::Settle { window: of_window.clone(), holder: holder.clone() };
    let give_back = Step::GiveBack { window: of_window, holder };
    assert_eq!(over(&["sending", "executed"], sent.state.clone(), 7), Some(vec![settle]));
    assert_eq!(over(&["sending", "not-executed"], sent.state.clone(), 7), Some(vec![give_back]));
    assert_eq!(over(&["sending"], sent.state.clone(), 7), None);
    assert_eq!(over(&["sending", "executed"], ClaimState::Held, 3), Some(vec![book]));
    assert_eq!(over(&["sending"], ClaimState::Held, 3), Some(vec![force]));
}

/// A Redis was split: each side sent the call once, under one number or two, and one of them is asked what it knows.
#[test]
fn an_attempt_of_another_history_counts_beside_the_one_that_the_store_knows() {
    let (key, terms) = (key_of("request/r-1"), terms());
    let [sending_now, ..] = states();
    let sent = claim(sending_now, Some("r-1"));
    let ClaimState::Sending { booked, .. } = &sent.state else { panic!("it is being sent") };
    let day = 86_400_000_000_i64;
    let told_of = |what: &[&str], apart_up_to: u64| {
        let mut tale = Tale::of(sender()).apart_up_to(apart_up_to);
        tell_attempt(&mut tale, &key, what, |nth| Some(&sent).filter(|_| nth == 0));
        tale.into_claims().next().unwrap().1
    };
    let told = |what: &[&str]| told_of(what, 0);
    let answer = || StoredAnswer::of_executed(201, None);
    let other = |number: u64, end: AttemptEnd| PastAttempt {
        number: Number::new(number),
        sender: sender(),
        since: StoreTime::of_micros(3),
        booked: Booking { holder: "of the other side".to_owned(), ..booked.clone() },
        end,
    };
    let over_told = |told: KnownClaim, past: PastAttempt, state: ClaimState| {
        let found = Claim { attempts: vec![past], ..claim(state, Some("r-1")) };
        let content = Content::Whole(encode_claim(&found));
        let record = Record { version: Number::new(20), at: StoreTime::of_micros(3), content };
        let change = told.over(&key, &record, &found, (&terms, StoreTime::of_micros(day + 5)))?;
        let next = change.steps.iter().find_map(|step| match step {
            Step::Replace { value, .. } => Some(decode_claim(value).unwrap()),
            _ => None,
        });
        let counts = |step: &&Step| {
            matches!(step, Step::Force { .. } | Step::Book { .. } | Step::Settle { .. } | Step::GiveBack { .. })
        };
        let counting: Vec<Step> = change.steps.iter().filter(counts).cloned().collect();
        Some((
            next.unwrap(),
            counting,
            change.beside.map(|(attempt, executions)| (attempt.number.as_u64(), executions)),
        ))
    };
    let over = |what: &[&str], past: PastAttempt, state: ClaimState| over_told(told(what), past, state);
    let BookedWindow { window, span, units } = booked.windows[0].clone();
    let book = Step::Book { window: window.clone(), span, units, at: StoreTime::of_micros(day) };
    let force = Step::Force { window, span, units, holder: booked.holder.clone() };
    let executed = || ClaimState::Done { executed: true, answer: answer() };
    for number in [5, 7, 9] {
        let found = over(&["sending", "executed"], other(number, AttemptEnd::Executed), executed()).unwrap();
        let (next, counting, beside) = found;
        assert_eq!((counting, beside), (vec![book.clone()], Some((7, Executions::Twice))), "{number}");
        assert_eq!((next.attempts.len(), &next.state), (2, &executed()), "{number}: its answer stays");
        // Told again, it is known.
        let again = Claim { attempts: next.attempts.clone(), ..next };
        let content = Content::Whole(encode_claim(&again));
        let record = Record { version: Number::new(21), at: StoreTime::of_micros(3), content };
        let terms = (&terms, StoreTime::of_micros(day + 5));
        assert!(told(&["sending", "executed"]).over(&key, &record, &again, terms).is_none(), "{number}");
        // What was refused on one side was executed on the other.
        let refused = ClaimState::Done { executed: false, answer: answer() };
        let end = AttemptEnd::NotExecuted { status: 400 };
        let (next, counting, beside) = over(&["sending", "executed"], other(number, end), refused).unwrap();
        assert_eq!((next.state.as_str(), counting, beside), ("executed", vec![book.clone()], None), "{number}");
        // The other attempt is in doubt: its own reservation stays.
        let [_, unknown, ..] = states();
        let (next, counting, beside) =
            over(&["sending", "executed"], other(number, AttemptEnd::Unknown), unknown).unwrap();
        assert_eq!((next.state.as_str(), counting), ("executed", vec![book.clone()]), "{number}");
        assert_eq!(beside, Some((7, Executions::PerhapsTwice)), "{number}");
        assert!(over(&["sending", "not-executed"], other(number, AttemptEnd::Executed), executed()).is_none());
        // Another attempt is being sent: it goes on, and its reservation stays.
        let end = AttemptEnd::NotExecuted { status: 400 };
        let (next, counting, beside) = over(&["sending", "executed"], other(number, end), sent.state.clone()).unwrap();
        assert_eq!((next.state.as_str(), counting), ("executed", vec![book.clone()]), "{number}");
        assert_eq!((next.attempts.len(), beside), (3, Some((7, Executions::PerhapsTwice))), "{number}");
    }
    for number in [5, 7] {
        let (next, counting, beside) = over(&["sending"], other(number, AttemptEnd::Executed), executed()).unwrap();
        assert_eq!((counting, beside), (vec![force.clone()], Some((7, Executions::PerhapsTwice))), "{number}");
        assert_eq!((next.attempts.len(), next.state), (2, executed()), "{number}");
    }
    // Behind an attempt that was undone, a later one of the same history was executed.
    assert!(over(&["sending"], other(9, AttemptEnd::Executed), executed()).is_none());
    // Of another history, its number says nothing.
    let apart = |what: &[&str]| told_of(what, 7);
    let (next, counting, beside) = over_told(apart(&["sending"]), other(9, AttemptEnd::Executed), executed()).unwrap();
    assert_eq!((counting, beside), (vec![force.clone()], Some((7, Executions::PerhapsTwice))));
    assert_eq!((next.attempts.len(), next.state), (2, executed()));
    let (refused, end) =
        (ClaimState::Done { executed: false, answer: answer() }, AttemptEnd::NotExecuted { status: 400 });
    let (next, counting, beside) = over_told(apart(&["sending"]), other(9, end), refused).unwrap();
    assert_eq!((next.state.as_str(), counting, beside), ("unknown", vec![force], None), "nobody pays it again");
    for (what, is_beside) in [("executed", true), ("unknown", true), ("abandoned", true), ("not-executed", false)] {
        let told = |apart_up_to: u64| told_of(&["sending", what], apart_up_to).is_beside_a_tombstone();
        assert_eq!((told(7), told(6)), (is_beside, false), "{what}");
    }
}

/// Adds entries on the attempt 7 of a call, in their order, each with the claim that its commit wrote.
fn tell_attempt<'c>(tale: &mut Tale, key: &RecordKey, what: &[&str], written: impl Fn(u64) -> Option<&'c Claim>) {
    for (nth, what) in (0_u64..).zip(what) {
        let entry = serde_json::json!({
            "what": what, "claim": key.name, "requestId": "r-1", "operation": "createSwap", "trace": "t-1",
            "owner": { "issuer": "main", "subject": "payroll" }, "attempt": 7,
            "fingerprint": Fingerprint::of(&[b"a call"]).to_hex(),
        });
        let at = StoreTime::of_micros(86_400_000_000 + i64::try_from(nth).unwrap());
        let (node, entry) = (NodeId::parse("gate").unwrap(), Bytes::from(entry.to_string()));
        let outstanding = Outstanding { environment: key.environment, number: Number::new(7 + nth), at, node, entry };
        tale.add(&outstanding, written(nth));
    }
}

/// Of a reservation that is held already, only the rest of the commit is made.
#[test]
fn a_told_reservation_that_is_held_is_left_out() {
    let span = WindowSpan::Rolling { bucket: Duration::from_secs(60), count: 60 };
    let window = |limit: &str| WindowKey { limit: limit.to_owned(), key: "[]".to_owned() };
    let force = |limit: &str| Step::Force { window: window(limit), span, holder: "n".to_owned(), units: 1 };
    let create = Step::Create { key: key_of("request/r-1"), value: Bytes::new(), keep: Keep::Forever };
    let steps = vec![create.clone(), force("day"), force("month")];
    let commit = remember(Environment::Production, &["request/r-1"], steps, &sender().node);
    let conflict = |step, found| Conflict { step, found };
    let without = without_held(&commit, &[conflict(1, ConflictCause::Reserved)]).unwrap();
    assert_eq!(without.steps, [create, force("month")]);
    let record = Record { version: Number::new(1), at: StoreTime::default(), content: Content::Spent };
    let stands = [conflict(0, ConflictCause::Record(record)), conflict(1, ConflictCause::Reserved)];
    assert_eq!(without_held(&commit, &stands), None);
}

fn key_of(name: &str) -> RecordKey {
    RecordKey { environment: Environment::Production, kind: Kind::Claim, name: name.to_owned() }
}
