//! The table of a claim, whole; and how claims are written.

mod forgotten;

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::base::json::{self, Limits};
use crate::ledger::{
    Content, JournalId, Keep, Kind, NodeId, Number, Outstanding, Record, RecordKey, Sender, Step, StoreTime, Versioned,
    WindowKey, WindowSpan,
};

mod form;

fn answer(status: u16) -> StoredAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-note", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    StoredAnswer { status, headers, body: Bytes::from_static(b"{\"id\": \"\xc3\xa9\"}") }
}

fn sent() -> SentRequest {
    SentRequest { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{\"requestId\":\"r-1\"}") }
}

fn sender() -> Sender {
    Sender { node: NodeId::parse("gate").unwrap(), journal: JournalId::parse(&"a1".repeat(16)).unwrap() }
}

fn booking(holder: &str) -> Booking {
    let window = WindowKey { limit: "org-day".to_owned(), key: r#"["production"]"#.to_owned() };
    let span = WindowSpan::Rolling { bucket: Duration::from_secs(60), count: 60 };
    Booking {
        holder: holder.to_owned(),
        windows: vec![BookedWindow { window, span, units: 10 }],
        pays: vec!["ab".to_owned()],
        is_approved: false,
    }
}

fn past(number: u64, end: AttemptEnd) -> PastAttempt {
    let booked = booking(&format!("n-{number}"));
    PastAttempt { number: Number::new(number), sender: sender(), since: StoreTime::of_micros(5), booked, end }
}

fn absent() -> AttemptEnd {
    AttemptEnd::Absent { said_by: vec!["people/ops-1".to_owned(), "people/ops-2".to_owned()] }
}

fn states() -> [ClaimState; 4] {
    let lease = Duration::from_secs(60);
    [
        ClaimState::Sending { sender: sender(), booked: booking("n"), lease, sent: sent() },
        ClaimState::Unknown {
            doubt: DoubtCause::Broken,
            doubted: Some(StoreTime::of_micros(6)),
            sent: sent(),
            looks: 2,
            said_absent: Some(FirstWord { by: Owner::named("console", "ann"), said: StoreTime::of_micros(8) }),
            said_abandoned: None,
        },
        ClaimState::Done { executed: true, answer: answer(201) },
        ClaimState::Done { executed: false, answer: answer(400) },
    ]
}

fn both() -> [String; 2] {
    ["people/ops-1".to_owned(), "people/ops-2".to_owned()]
}

fn events() -> [ClaimEvent; 7] {
    [
        ClaimEvent::Executed(answer(201)),
        ClaimEvent::Refused(answer(400)),
        ClaimEvent::Undone { status: None },
        ClaimEvent::Doubted(DoubtCause::Silent),
        ClaimEvent::Found(answer(200)),
        ClaimEvent::ShownAbsent { said_by: both() },
        ClaimEvent::Abandoned { said_by: both() },
    ]
}

fn claim(state: ClaimState, request_id: Option<&str>) -> Claim {
    Claim {
        owner: Owner::named("main", "payroll"),
        requester: Some("ann".to_owned()),
        operation: OperationId::new("createSwap"),
        fingerprint: Fingerprint::of(&[b"a call"]),
        request_id: request_id.and_then(RequestId::parse),
        trace: TraceId::parse("t-1").unwrap(),
        moves: None,
        hold: None,
        attempts: match &state {
            ClaimState::Sending { .. } => vec![past(3, AttemptEnd::NotExecuted { status: 429 }), past(5, absent())],
            ClaimState::Unknown { .. } => vec![past(5, absent()), past(7, AttemptEnd::Unknown)],
            ClaimState::Done { executed: true, .. } => vec![past(7, AttemptEnd::Executed)],
            ClaimState::Done { executed: false, .. } => vec![past(7, AttemptEnd::NotExecuted { status: 400 })],
            ClaimState::Absent => vec![past(7, absent())],
            ClaimState::Abandoned => vec![past(7, AttemptEnd::Abandoned { said_by: both().to_vec() })],
            ClaimState::Held | ClaimState::Declined(_) => Vec::new(),
        },
        state,
    }
}

#[test]
fn every_event_has_its_place_in_every_state_or_none() {
    let word = |state: &ClaimState, event: ClaimEvent, naming, from_hold| match after(state, event, naming, from_hold) {
        Ok(NextState::Absent) => "absent",
        Ok(NextState::Held) => "held",
        Ok(NextState::Done { executed: true, .. }) => "executed",
        Ok(NextState::Done { executed: false, .. }) => "not-executed",
        Ok(NextState::Unknown(_)) => "unknown",
        Ok(NextState::Abandoned) => "abandoned",
        Err(ImpossibleClaimEvent) => "-",
    };
    let row = |state: &ClaimState, naming, from_hold| events().map(|event| word(state, event, naming, from_hold));
    let [sending, unknown, executed, refused] = states();
    let request = KeyNaming::RequestId;
    assert_eq!(row(&sending, request, false), ["executed", "not-executed", "absent", "unknown", "-", "-", "-"]);
    assert_eq!(
        row(&unknown, request, false),
        ["executed", "not-executed", "absent", "-", "executed", "absent", "abandoned"]
    );
    assert_eq!(row(&sending, KeyNaming::Path, false), ["executed", "absent", "absent", "unknown", "-", "-", "-"]);
    assert_eq!(
        row(&unknown, KeyNaming::Path, false),
        ["executed", "absent", "absent", "-", "executed", "absent", "abandoned"]
    );
    let declined = Decline::ALL.map(|how| ClaimState::Declined(Declined { how, reason: None }));
    for naming in [request, KeyNaming::Path, KeyNaming::Call] {
        assert_eq!(row(&sending, naming, true), ["executed", "not-executed", "held", "unknown", "-", "-", "-"]);
        assert_eq!(
            row(&unknown, naming, true),
            ["executed", "not-executed", "held", "-", "executed", "absent", "abandoned"]
        );
        for state in [&executed, &refused, &ClaimState::Held, &ClaimState::Absent, &ClaimState::Abandoned]
            .into_iter()
            .chain(&declined)
        {
            assert_eq!(row(state, naming, false), ["-"; 7]);
            assert_eq!(row(state, naming, true), ["-"; 7]);
        }
    }
}

#[test]
fn a_claim_that_waits_or_waited_in_vain_says_so_to_its_owner_alone() {
    let (hold, reason) = (HoldId::parse(&"a1".repeat(16)).unwrap(), Some("a wrong account".to_owned()));
    let declined = |how| ClaimState::Declined(Declined { how, reason: reason.clone() });
    let states = Decline::ALL.map(declined).into_iter().chain([ClaimState::Held]);
    for state in states {
        let waits = Claim { hold: Some(hold.clone()), ..claim(state.clone(), Some("r-1")) };
        let earlier = waits.earlier();
        assert_eq!(decode_claim(&encode_claim(&waits)), Ok(waits.clone()));
        let record = Record {
            version: Number::new(1),
            at: StoreTime::of_micros(1),
            content: Content::Whole(encode_claim(&waits)),
        };
        let said =
            |asker: &Owner| status_for(&record, asker, Fingerprint::of(&[b"a call"]), StoreTime::of_micros(2)).unwrap();
        let expected = match state {
            ClaimState::Declined(declined) => ClaimStatus::Declined(declined, earlier),
            _ => ClaimStatus::Held(hold.clone()),
        };
        assert_eq!(said(&waits.owner), expected);
        assert_eq!(said(&Owner { subject: "other".to_owned(), ..waits.owner.clone() }), ClaimStatus::Reused);
    }
}

/// A change here needs a new number of the format.
#[test]
fn the_stored_form_of_a_claim_stays_as_it_is() {
    let all = states().into_iter().chain([ClaimState::Absent, ClaimState::Abandoned]);
    let written = all.map(|state| String::from_utf8(encode_claim(&claim(state, Some("r-1"))).to_vec()).unwrap());
    insta::assert_snapshot!(written.collect::<Vec<_>>().join("\n"));
}

#[test]
fn only_its_owner_with_the_same_request_hears_of_a_claim() {
    let now = StoreTime::of_micros(1).plus(Duration::from_secs(59));
    let said_of = |state: ClaimState, asker: &Owner, asked: &[u8], now| {
        let content = Content::Whole(encode_claim(&claim(state, Some("r-1"))));
        let record = Record { version: Number::new(1), at: StoreTime::of_micros(1), content };
        status_for(&record, asker, Fingerprint::of(&[asked]), now).unwrap().as_str()
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
    assert_eq!(status_for(&spent, &owner, Fingerprint::of(&[b"a call"]), now), Ok(ClaimStatus::Spent));
}

#[test]
fn an_outcome_is_written_down_already_or_not() {
    let [sending, unknown, executed, refused] = states().map(|state| claim(state, Some("r-1")));
    let is = |found: Option<(u64, &Claim)>, attempt: u64, event: &ClaimEvent| {
        let found = found.map(|(version, claim)| (Number::new(version), claim));
        is_settled(found, Number::new(attempt), event, false)
    };
    let undone = &ClaimEvent::Undone { status: None };
    assert!(is(None, 7, undone), "it was deleted");
    assert!(is(Some((8, &sending)), 7, undone), "another attempt is being sent");
    assert!(!is(Some((7, &sending)), 7, undone), "this one is");
    assert!(is(Some((9, &unknown)), 6, undone), "another attempt, the seventh, is in doubt");
    assert!(!is(Some((9, &unknown)), 7, undone), "this one is");
    assert!(!is(Some((9, &executed)), 7, undone), "somebody says that it was executed");
    assert!(is(Some((9, &sending)), 3, &ClaimEvent::Undone { status: Some(429) }), "it is kept as refused");
    assert!(is(Some((9, &executed)), 7, &ClaimEvent::Executed(answer(201))));
    assert!(!is(Some((9, &executed)), 6, &ClaimEvent::Executed(answer(201))), "another attempt was executed");
    assert!(is(Some((9, &refused)), 7, &ClaimEvent::Refused(answer(400))));
    assert!(!is(Some((9, &refused)), 7, &ClaimEvent::Executed(answer(201))));
    assert!(!is(None, 7, &ClaimEvent::Executed(answer(201))), "the only proof of it");
    assert!(is(Some((9, &unknown)), 5, &ClaimEvent::ShownAbsent { said_by: both() }));
}

fn terms() -> Terms {
    let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
    let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
    Terms { begin_within, lease, first_look, quiet, keep }
}

/// Settles an event of one attempt, and returns the claim after it with the other steps.
fn settled(version: u64, before: &Claim, attempt: u64, event: ClaimEvent) -> Option<(Claim, Vec<Step>, Settled)> {
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let here = Versioned { key: &key, version: Number::new(version), at: StoreTime::of_micros(9), value: before };
    let node = NodeId::parse("gate").unwrap();
    let (commit, settled) = settle(here, Number::new(attempt), event, &node, &terms()).ok()?;
    let mut after = None;
    let mut others = Vec::new();
    for step in commit.steps {
        match step {
            Step::Replace { value, .. } => after = Some(decode_claim(&value).unwrap()),
            step => others.push(step),
        }
    }
    Some((after.unwrap(), others, settled))
}

fn ends(claim: &Claim) -> Vec<(u64, &AttemptEnd)> {
    claim.attempts.iter().map(|past| (past.number.as_u64(), &past.end)).collect()
}

#[test]
fn a_proof_wins_over_what_people_or_an_answer_said() {
    let proof = || ClaimEvent::Executed(answer(201));
    let [sending, unknown, _, refused] = states();
    for state in [ClaimState::Absent, ClaimState::Abandoned, refused, unknown.clone()] {
        let before = claim(state.clone(), Some("r-1"));
        let (after, steps, _) = settled(9, &before, 7, proof()).unwrap();
        assert_eq!(after.state, ClaimState::Done { executed: true, answer: answer(201) }, "{}", state.as_str());
        assert_eq!(after.executions(), Executions::AtMostOnce);
        let books = steps.iter().any(|step| matches!(step, Step::Book { at, .. } if *at == StoreTime::of_micros(5)));
        let settles = steps.iter().any(|step| matches!(step, Step::Settle { .. }));
        // What was given back is booked in the time of its send; what was not is settled.
        let gave_back = !matches!(state, ClaimState::Abandoned | ClaimState::Unknown { .. });
        assert_eq!((books, settles), (gave_back, !gave_back), "{}", state.as_str());
        assert_eq!(settled(9, &after, 7, proof()), None, "it is no news");
    }
    // Attempt 5 was called absent, and the call was sent again.
    let again = claim(unknown, Some("r-1"));
    let (after, steps, told) = settled(9, &again, 5, proof()).unwrap();
    assert_eq!(after.state.as_str(), "executed");
    assert_eq!(ends(&after), [(5, &AttemptEnd::Executed), (7, &AttemptEnd::Unknown)]);
    assert_eq!(told, Settled::ProvedLate(Executions::PerhapsTwice));
    assert!(!steps.iter().any(|step| matches!(step, Step::GiveBack { .. })), "both count");
    let (twice, _, told) = settled(10, &after, 7, ClaimEvent::Executed(answer(200))).unwrap();
    assert_eq!(told, Settled::ProvedLate(Executions::Twice));
    assert_eq!(twice.state, ClaimState::Done { executed: true, answer: answer(201) }, "its caller hears one answer");
    let (once, steps, told) = settled(10, &after, 7, ClaimEvent::Refused(answer(400))).unwrap();
    assert_eq!((once.state.as_str(), told, once.executions()), ("executed", Settled::Ended, Executions::AtMostOnce));
    assert!(steps.iter().any(|step| matches!(step, Step::GiveBack { .. })));
    // The same while the later attempt is being sent: its own answer still finds it.
    let sending = claim(sending, Some("r-1"));
    let (after, _, told) = settled(9, &sending, 5, proof()).unwrap();
    assert_eq!((ends(&after)[2], told), ((9, &AttemptEnd::Unknown), Settled::ProvedLate(Executions::PerhapsTwice)));
    let (after, steps, told) = settled(10, &after, 9, ClaimEvent::Undone { status: None }).unwrap();
    assert_eq!((after.executions(), told), (Executions::AtMostOnce, Settled::Ended));
    assert!(steps.iter().any(|step| matches!(step, Step::GiveBack { .. })));
}

/// A store that lost records, or a claim with many attempts, does not list it.
#[test]
fn a_proof_of_an_attempt_that_the_claim_does_not_list_wins_too() {
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let [sending, unknown, ..] = states();
    let (found, sent) = (claim(unknown, Some("r-1")), claim(sending, Some("r-1")));
    let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(9), value: &found };
    let node = NodeId::parse("gate").unwrap();
    let prove = |number: u64| {
        prove_unlisted(here, (Number::new(number), &sent, StoreTime::of_micros(6)), answer(201), &node, &terms())
    };
    let (commit, executions) = prove(6).unwrap();
    assert_eq!(executions, Executions::PerhapsTwice, "the seventh is in doubt");
    let after = commit.steps.iter().find_map(|step| match step {
        Step::Replace { value, .. } => Some(decode_claim(value).unwrap()),
        _ => None,
    });
    let after = after.unwrap();
    assert_eq!((after.state.as_str(), after.attempts.len()), ("executed", 3));
    assert_eq!(ends(&after)[1], (6, &AttemptEnd::Executed));
    assert!(commit.steps.iter().any(|step| matches!(step, Step::Book { at, .. } if *at == StoreTime::of_micros(6))));
    assert!(prove(7).is_none() && prove(5).is_none(), "these are listed");
}

#[test]
fn what_is_no_proof_changes_at_most_the_end_of_its_own_attempt() {
    let [sending, unknown, executed, _] = states();
    for event in [ClaimEvent::Doubted(DoubtCause::Lapsed), ClaimEvent::ShownAbsent { said_by: both() }] {
        for state in [&sending, &unknown, &executed] {
            assert_eq!(settled(9, &claim(state.clone(), Some("r-1")), 5, event.clone()), None);
        }
    }
    let (after, steps, told) = settled(9, &claim(unknown, Some("r-1")), 5, ClaimEvent::Refused(answer(422))).unwrap();
    assert_eq!((after.state.as_str(), told), ("unknown", Settled::Ended));
    assert_eq!(ends(&after)[0], (5, &AttemptEnd::NotExecuted { status: 422 }));
    assert_eq!(steps, [], "its windows were given back before");
    assert_eq!(settled(9, &claim(executed, Some("r-1")), 6, ClaimEvent::Refused(answer(422))), None, "no such attempt");
}

#[test]
fn a_claim_keeps_its_attempts_from_one_to_the_next() {
    let [sending, ..] = states();
    let before = claim(sending, Some("r-1"));
    assert!(!before.is_proved_unexecuted(), "people said so of one");
    let (doubted, _, _) = settled(9, &before, 9, ClaimEvent::Doubted(DoubtCause::Silent)).unwrap();
    assert_eq!(doubted.attempts.iter().map(|past| past.number.as_u64()).collect::<Vec<_>>(), [3, 5, 9]);
    let (absent, steps, _) = settled(10, &doubted, 9, ClaimEvent::ShownAbsent { said_by: both() }).unwrap();
    assert_eq!((absent.state.as_str(), absent.attempts.len()), ("absent", 3));
    assert!(steps.iter().any(|step| matches!(step, Step::GiveBack { holder, .. } if holder == "n")));
    // Certainly nothing was sent: the claim is as before the attempt.
    let (undone, _, _) = settled(9, &before, 9, ClaimEvent::Undone { status: None }).unwrap();
    assert_eq!((undone.state.as_str(), undone.attempts), ("absent", before.attempts.clone()));
    let only_refused = Claim { attempts: vec![past(3, AttemptEnd::NotExecuted { status: 429 })], ..before };
    assert!(only_refused.is_proved_unexecuted());
}

proptest! {
    #[test]
    fn what_is_no_claim_is_refused_without_harm(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
        for state in states() {
            let mut bytes = encode_claim(&claim(state, Some("r-1"))).to_vec();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            // Read or refused: nothing else.
            let whole = decode_claim(&bytes);
            prop_assert!(whole.is_err() || cut % length == 0);
        }
    }
}
