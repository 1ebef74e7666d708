//! The table of a claim, whole; and how claims are written.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::commit::{Content, Keep, Kind, NodeId, Number, Outstanding, Record, RecordKey, Step, StoreTime, WindowKey};

fn answer(status: u16) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-note", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    Answer { status, headers, body: Bytes::from_static(b"{\"id\": \"\xc3\xa9\"}") }
}

fn sent() -> SentForm {
    SentForm { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{\"requestId\":\"r-1\"}") }
}

fn states() -> [State; 4] {
    let node = NodeId::parse("gate").unwrap();
    let lease = Duration::from_secs(60);
    [
        State::Sending { node, nonce: Nonce("n".to_owned()), lease, sent: sent() },
        State::Unknown {
            attempt: Number::new(7),
            since: StoreTime::of_micros(5),
            doubt: Doubt::Broken,
            doubted: Some(StoreTime::of_micros(6)),
            sent: sent(),
            looks: 2,
            said_absent: Some("console/ann".to_owned()),
        },
        State::Done { executed: true, answer: answer(201) },
        State::Done { executed: false, answer: answer(400) },
    ]
}

fn events() -> [Event; 6] {
    [
        Event::Executed(answer(201)),
        Event::Refused(answer(400)),
        Event::Undone,
        Event::Doubted(Doubt::Silent),
        Event::Found(answer(200)),
        Event::ShownAbsent,
    ]
}

fn claim(state: State, request_id: Option<&str>) -> Claim {
    Claim {
        owner: Owner { issuer: "main".to_owned(), subject: "payroll".to_owned() },
        requester: Some("ann".to_owned()),
        operation: OperationId::new("createSwap"),
        fingerprint: Fingerprint::of(&[b"a call"]),
        request_id: request_id.and_then(RequestId::parse),
        trace: TraceId::parse("t-1").unwrap(),
        hold: None,
        booked: Booked {
            holder: "n-1".to_owned(),
            windows: vec![WindowKey { limit: "org-day".to_owned(), key: r#"["production"]"#.to_owned() }],
            pays: vec!["ab".to_owned()],
        },
        state,
    }
}

#[test]
fn every_event_has_its_place_in_every_state_or_none() {
    let word = |state: &State, event: Event, naming, from_hold| match after(state, event, naming, from_hold) {
        Ok(Next::Absent) => "absent",
        Ok(Next::Held) => "held",
        Ok(Next::Done { executed: true, .. }) => "executed",
        Ok(Next::Done { executed: false, .. }) => "not-executed",
        Ok(Next::Unknown(_)) => "unknown",
        Err(ImpossibleEvent) => "-",
    };
    let row = |state: &State, naming, from_hold| events().map(|event| word(state, event, naming, from_hold));
    let [sending, unknown, executed, refused] = states();
    let request = Naming::RequestId;
    assert_eq!(row(&sending, request, false), ["executed", "not-executed", "absent", "unknown", "-", "-"]);
    assert_eq!(row(&unknown, request, false), ["executed", "not-executed", "absent", "-", "executed", "absent"]);
    assert_eq!(row(&sending, Naming::Path, false), ["executed", "absent", "absent", "unknown", "-", "-"]);
    assert_eq!(row(&unknown, Naming::Path, false), ["executed", "absent", "absent", "-", "executed", "absent"]);
    let declined = Decline::ALL.map(|how| State::Declined(Declined { how, reason: None }));
    for naming in [request, Naming::Path, Naming::Call] {
        assert_eq!(row(&sending, naming, true), ["executed", "not-executed", "held", "unknown", "-", "-"]);
        assert_eq!(row(&unknown, naming, true), ["executed", "not-executed", "held", "-", "executed", "absent"]);
        for state in [&executed, &refused, &State::Held].into_iter().chain(&declined) {
            assert_eq!(row(state, naming, false), ["-"; 6]);
            assert_eq!(row(state, naming, true), ["-"; 6]);
        }
    }
}

#[test]
fn a_claim_that_waits_or_waited_in_vain_says_so_to_its_owner_alone() {
    let (hold, reason) = (HoldId::parse(&"a1".repeat(16)).unwrap(), Some("a wrong account".to_owned()));
    let declined = |how| State::Declined(Declined { how, reason: reason.clone() });
    let states = Decline::ALL.map(declined).into_iter().chain([State::Held]);
    for state in states {
        let waits = Claim { hold: Some(hold.clone()), ..claim(state.clone(), Some("r-1")) };
        assert_eq!(read(&write(&waits)), Ok(waits.clone()));
        let record =
            Record { version: Number::new(1), at: StoreTime::of_micros(1), content: Content::Whole(write(&waits)) };
        let said =
            |asker: &Owner| said(&record, asker, Fingerprint::of(&[b"a call"]), StoreTime::of_micros(2)).unwrap();
        let expected = match state {
            State::Declined(declined) => Said::Declined(declined),
            _ => Said::Held(hold.clone()),
        };
        assert_eq!(said(&waits.owner), expected);
        assert_eq!(said(&Owner { subject: "other".to_owned(), ..waits.owner.clone() }), Said::Reused);
    }
}

#[test]
fn claims_and_events_are_read_as_they_were_written() {
    for state in states() {
        for request_id in [Some("r-1"), None] {
            let written = claim(state.clone(), request_id);
            assert_eq!(read(&write(&written)), Ok(written));
        }
    }
    for event in events() {
        match write_event(&event) {
            Some(written) => assert_eq!(read_event(&written), Ok(event)),
            None => assert!(matches!(event, Event::Doubted(_) | Event::Found(_) | Event::ShownAbsent)),
        }
    }
}

#[test]
fn a_newer_form_is_refused() {
    let mut newer: Value = serde_json::from_slice(&write(&claim(states()[2].clone(), Some("r-1")))).unwrap();
    newer["form"] = Value::from(2);
    assert_eq!(read(newer.to_string().as_bytes()), Err(UnreadableClaim("a newer version of Sluice wrote it")));
}

#[test]
fn only_its_owner_with_the_same_request_hears_of_a_claim() {
    let now = StoreTime::of_micros(1).plus(Duration::from_secs(59));
    let said_of = |state: State, asker: &Owner, asked: &[u8], now| {
        let content = Content::Whole(write(&claim(state, Some("r-1"))));
        let record = Record { version: Number::new(1), at: StoreTime::of_micros(1), content };
        said(&record, asker, Fingerprint::of(&[asked]), now).unwrap().as_str()
    };
    let owner = claim(states()[0].clone(), None).owner;
    let strangers =
        [Owner { issuer: "other".to_owned(), ..owner.clone() }, Owner { subject: "other".to_owned(), ..owner.clone() }];
    for (state, word) in states().into_iter().zip(["in-progress", "in-doubt", "done", "done"]) {
        assert_eq!(said_of(state.clone(), &owner, b"a call", now), word);
        assert_eq!(said_of(state.clone(), &owner, b"another", now), "reused");
        for stranger in &strangers {
            assert_eq!(said_of(state.clone(), stranger, b"a call", now), "reused");
        }
    }
    let lapsed = now.plus(Duration::from_secs(1));
    assert_eq!(said_of(states()[0].clone(), &owner, b"a call", lapsed), "in-doubt");
    let spent = Record { version: Number::new(1), at: StoreTime::of_micros(1), content: Content::Spent };
    assert_eq!(said(&spent, &owner, Fingerprint::of(&[b"a call"]), now), Ok(Said::Spent));
}

#[test]
fn an_outcome_is_written_down_already_or_not() {
    let [sending, unknown, executed, refused] = states().map(|state| claim(state, Some("r-1")));
    let is = |found: Option<(u64, &Claim)>, event: &Event| {
        let found = found.map(|(version, claim)| (Number::new(version), claim));
        is_settled(found, Number::new(5), event, false)
    };
    let undone = &Event::Undone;
    assert!(is(None, undone), "it was deleted");
    assert!(is(Some((6, &sending)), undone), "another attempt is being sent");
    assert!(!is(Some((5, &sending)), undone), "this one is");
    assert!(is(Some((9, &unknown)), undone), "another attempt, the seventh, is in doubt");
    assert!(!is(Some((9, &executed)), undone), "somebody says that it was executed");
    assert!(is(Some((9, &executed)), &Event::Executed(answer(201))));
    assert!(!is(Some((9, &executed)), &Event::Executed(answer(202))));
    assert!(is(Some((9, &refused)), &Event::Refused(answer(400))));
    assert!(!is(Some((9, &refused)), &Event::Executed(answer(201))));
    assert!(!is(None, &Event::Executed(answer(201))), "the only proof of it");
}

proptest! {
    #[test]
    fn what_is_no_claim_is_refused_without_harm(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
        for state in states() {
            let mut bytes = write(&claim(state, Some("r-1"))).to_vec();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            // Read or refused: nothing else.
            let whole = read(&bytes);
            prop_assert!(whole.is_err() || cut % length == 0);
        }
    }
}

/// What the chain says was sent is not sent again because a store that was set back still has it waiting.
#[test]
fn a_chain_that_tells_of_sending_overrules_a_store_in_which_the_call_still_waits() {
    let hold = HoldId::parse(&"a1".repeat(16)).unwrap();
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let sending = |what: &str| {
        let entry = serde_json::json!({
            "what": what, "claim": "request/r-1", "requestId": "r-1", "operation": "createSwap", "trace": "t-1",
            "owner": { "issuer": "main", "subject": "payroll" }, "hold": hold.as_str(),
            "fingerprint": Fingerprint::of(&[b"a call"]).to_hex(),
        });
        let (environment, number, at) = (Environment::Production, Number::new(9), StoreTime::of_micros(9));
        let mut tale = Tale::default();
        let node = NodeId::parse("gate").unwrap();
        tale.add(&Outstanding { environment, number, at, node, entry: Bytes::from(entry.to_string()) });
        tale.into_claims().next().map(|(_, told)| told)
    };
    let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
    let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
    let terms = Terms { begin_within, lease, first_look, quiet, keep };
    let becomes = |what: &str, state: State| {
        let found = Claim { hold: Some(hold.clone()), ..claim(state, Some("r-1")) };
        let content = Content::Whole(write(&found));
        let record = Record { version: Number::new(3), at: StoreTime::of_micros(3), content };
        let steps = sending(what)?.over(&key, &record, &found, &terms)?;
        steps.iter().find_map(|step| match step {
            Step::Replace { value, .. } => Some(read(value).unwrap().state.as_str()),
            _ => None,
        })
    };
    let expired = State::Declined(Declined { how: Decline::Expired, reason: None });
    for state in [State::Held, expired] {
        assert_eq!(becomes("sending", state.clone()), Some("unknown"));
        assert_eq!(becomes("unknown", state.clone()), Some("unknown"));
        assert_eq!(becomes("executed", state.clone()), Some("executed"));
        assert_eq!(becomes("undone", state.clone()), None, "it certainly was not");
        assert_eq!(becomes("rejected", state), None);
    }
    let [sending_now, unknown, executed, _] = states();
    for state in [sending_now, unknown, executed] {
        assert_eq!(becomes("sending", state), None, "the store knows as much");
    }
}
