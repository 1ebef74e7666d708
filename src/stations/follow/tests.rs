//! How a payment moves forward, and what limits count of it.

use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};

use super::*;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, OperationId, RequestId, TraceId};
use crate::catalog::{Catalog, Operation, SchemaFiles, StateMeaning};
use crate::ledger::{
    Commit, JournalId, Kind, NodeId, Number, RecordKey, Sender, Step, StoreTime, Versioned, WindowKey, WindowSpan,
};
use crate::policy::{Rules, Valuation};
use crate::stations::claim::{
    AttemptEnd, BookedWindow, Booking, Claim, ClaimState, Owner, PastAttempt, SentRequest, StoredAnswer,
};

const ENVIRONMENT: Environment = Environment::Sandbox;

fn operation() -> std::sync::Arc<Operation> {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    catalog.operation(&OperationId::new("createOfframp")).unwrap().clone()
}

fn details(id: &str, state: &str, updated: &str, amount: Value) -> Value {
    json!({
        "id": id, "requestId": "r-1", "orchestrationAddressId": null, "status": state,
        "createdAt": "2026-11-25T10:00:00Z", "updatedAt": updated,
        "source": {"currency": "usdc", "amount": amount},
        "destination": {"accountId": "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", "currency": "usd", "amount": 9.99},
    })
}

fn listed(operation: &Operation, id: &str, state: &str, updated: &str, amount: Value) -> ListedRecord {
    let record = json!({"transferType": "OFFRAMP", "transferDetails": details(id, state, updated, amount)});
    let page = json!({"count": 1, "records": [record]}).to_string();
    let page = listed_page(operation, operation.follow.as_ref().unwrap(), page.as_bytes(), 100).unwrap();
    page.records.into_iter().next().unwrap()
}

fn window(key: &str) -> WindowKey {
    WindowKey { limit: "day".to_owned(), key: key.to_owned() }
}

fn claim(operation: &Operation, state: ClaimState, end: AttemptEnd) -> Claim {
    let span = WindowSpan::Rolling { bucket: Duration::from_hours(1), count: 24 };
    let booked = |key: &str, units: u64| BookedWindow { window: window(key), span, units };
    let body = details("u-1", "", "", json!("10.00"));
    let moves = operation.movement(&body).map(|mut moves| {
        moves.destination.amount = None;
        moves
    });
    let sender = Sender { node: NodeId::parse("a").unwrap(), journal: JournalId::parse(&"0".repeat(32)).unwrap() };
    Claim {
        owner: Owner::named("main", "payroll"),
        requester: None,
        operation: operation.id.clone(),
        fingerprint: Fingerprint::of(&[]),
        request_id: RequestId::parse("r-1"),
        trace: TraceId::parse("t-1").unwrap(),
        moves,
        hold: None,
        attempts: vec![PastAttempt {
            number: Number::new(7),
            sender,
            since: StoreTime::of_micros(5),
            booked: Booking {
                holder: "h".to_owned(),
                windows: vec![booked("{}", 10_000_000), booked(r#"{"unit":"calls"}"#, 1)],
                pays: Vec::new(),
                is_approved: false,
            },
            end,
        }],
        state,
    }
}

fn done(executed: bool) -> ClaimState {
    answered(executed, &json!({"transferDetails": {"id": "u-1"}}))
}

fn answered(executed: bool, answer: &Value) -> ClaimState {
    let answer = StoredAnswer { status: 200, headers: HeaderMap::new(), body: answer.to_string().into() };
    ClaimState::Done { executed, answer }
}

/// A payment that is followed, and what each sighting does to it.
struct Followed {
    operation: std::sync::Arc<Operation>,
    claim: Claim,
    now: Option<FollowedPayment>,
}

impl Followed {
    fn new() -> Followed {
        Followed::with(done(true))
    }

    fn with(state: ClaimState) -> Followed {
        let operation = operation();
        let claim = claim(&operation, state, AttemptEnd::Executed);
        Followed { operation, claim, now: None }
    }

    /// Returns what changed, and the steps on windows.
    fn sees(&mut self, state: &str, updated: &str, amount: Value) -> Option<(FollowChange, Vec<String>)> {
        let record = listed(&self.operation, "u-1", state, updated, amount);
        self.sees_record(&record)
    }

    fn sees_record(&mut self, record: &ListedRecord) -> Option<(FollowChange, Vec<String>)> {
        let (operation, claim) = (self.operation.clone(), self.claim.clone());
        let node = NodeId::parse("a").unwrap();
        let value = shown_value(claim.moves.as_ref().unwrap(), &record.moves, &Valuation::default(), 0);
        let rules = Rules::default();
        let seen = Sighting {
            environment: ENVIRONMENT,
            operation: &operation.id,
            follow: operation.follow.as_ref().unwrap(),
            record,
            value,
            is_told: false,
            rules: &rules,
            node: &node,
            keep: Duration::from_secs(1),
        };
        let (version, at) = (Number::new(1), StoreTime::of_micros(9));
        let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let (commit, change) = match &self.now {
            None => begin(Versioned { key: &key, version, at, value: &claim }, &seen)?,
            Some(payment) => {
                let key = followed_key(ENVIRONMENT, &key.name);
                advance(Versioned { key: &key, version, at, value: payment }, &seen)?
            }
        };
        self.now = written(&commit);
        Some((change, corrections(&commit)))
    }
}

fn written(commit: &Commit) -> Option<FollowedPayment> {
    commit.steps.iter().find_map(|step| match step {
        Step::Create { key, value, .. } | Step::Replace { key, value, .. } if key.name.starts_with("claim/") => {
            Some(decode_followed(value).unwrap())
        }
        _ => None,
    })
}

fn corrections(commit: &Commit) -> Vec<String> {
    let told = |step: &Step| match step {
        Step::Book { window, units, at, .. } => Some(format!("+{units} {} at {}", window.key, at.as_micros())),
        Step::Unbook { window, units, at, .. } => Some(format!("-{units} {} at {}", window.key, at.as_micros())),
        _ => None,
    };
    commit.steps.iter().filter_map(told).collect()
}

const T1: &str = "2026-11-25T10:00:01Z";
const T2: &str = "2026-11-25T10:00:02Z";

#[test]
fn limits_are_given_back_at_certain_states_only_and_count_again_behind_them() {
    let mut followed = Followed::new();
    let (change, windows) = followed.sees("CREATED", T1, json!(10)).unwrap();
    assert_eq!((change.moved.unwrap(), windows.len()), (("CREATED".to_owned(), StateMeaning::Open), 0));
    assert_eq!(followed.sees("CREATED", T1, json!(10)), None, "the same again changes nothing");
    let (change, windows) = followed.sees("QUOTE_FAILED", T2, json!(10)).unwrap();
    assert_eq!(change.windows, Some("given-back"));
    assert_eq!(windows, ["-10000000 {} at 5", "-1 {\"unit\":\"calls\"} at 5"]);
    assert_eq!(followed.sees("CREATED", T1, json!(10)), None, "a late page");
    let (change, windows) = followed.sees("COMPLETED", T2, json!(10)).unwrap();
    assert_eq!(change.windows, Some("counted-again"));
    assert_eq!(windows, ["+10000000 {} at 5", "+1 {\"unit\":\"calls\"} at 5"]);
    // Fiat that came back is not crypto that came back.
    assert_eq!(followed.sees("FIAT_RETURNED", T2, json!(10)).unwrap().1.len(), 0);
    assert_eq!(followed.sees("CRYPTO_RETURNED", T2, json!(10)).unwrap().0.windows, Some("given-back"));
    assert_eq!(followed.sees("COMPLETED", T2, json!(10)), None);
}

#[test]
fn another_amount_corrects_the_limit_once_and_an_older_page_does_not() {
    let mut followed = Followed::new();
    let (change, windows) = followed.sees("CREATED", T2, json!(12.5)).unwrap();
    assert_eq!((change.problem, windows), (Some(RecordProblem::OtherAmount), vec!["+2500000 {} at 5".to_owned()]));
    assert_eq!(followed.sees("CREATED", T1, json!(3)), None, "older than what was seen");
    let (change, windows) = followed.sees("OPEN_QUOTE", T2, json!(11)).unwrap();
    assert_eq!((change.problem, windows), (None, vec!["-1500000 {} at 5".to_owned()]), "one alert is enough");
    // A payment that is given back counts nothing, whatever its amount.
    assert_eq!(followed.sees("CANCELLED", T2, json!(11)).unwrap().1[0], "-11000000 {} at 5");
    assert_eq!(followed.sees("CANCELLED", T2, json!(40)).unwrap().1.len(), 0);
}

#[test]
fn a_record_that_may_be_somebody_else_s_lowers_no_limit() {
    // The answer told the name, and the record pays somebody else.
    let mut followed = Followed::new();
    let mut record = listed(&followed.operation, "u-1", "CREATED", T1, json!(1));
    record.moves.destination.account = Some("22222222-2222-4222-8222-222222222222".to_owned());
    let (change, windows) = followed.sees_record(&record).unwrap();
    assert_eq!((change.problem, windows), (Some(RecordProblem::OtherPayee), Vec::new()));
    record.state = "CANCELLED".to_owned();
    assert_eq!(followed.sees_record(&record).unwrap().0.windows, None);
    // The answer told no name, and the record has another amount.
    let mut followed = Followed::with(answered(true, &json!({"status": "executed"})));
    assert_eq!(followed.sees("CREATED", T1, json!(1)).unwrap().1.len(), 0);
    assert_eq!(followed.sees("CANCELLED", T2, json!(1)).unwrap().0.windows, None);
    assert_eq!(followed.sees("CANCELLED", T2, json!(30)).unwrap().1, ["+20000000 {} at 5"]);
}

#[test]
fn a_record_is_compared_with_its_call() {
    let operation = operation();
    let asked = claim(&operation, done(true), AttemptEnd::Executed).moves.unwrap();
    let shown = |change: &dyn Fn(&mut Value)| {
        let mut details = details("u-1", "CREATED", T1, json!(10));
        change(&mut details);
        problem_of(&asked, &operation.movement(&details).unwrap())
    };
    assert_eq!(shown(&|_| {}), None);
    assert_eq!(shown(&|one| one["source"]["amount"] = json!("10.0")), None);
    assert_eq!(shown(&|one| one["destination"]["amount"] = json!(3)), None, "the call left it open");
    assert_eq!(shown(&|one| one["source"]["amount"] = json!(10.01)), Some(RecordProblem::OtherAmount));
    assert_eq!(shown(&|one| one["source"]["currency"] = json!("usdt")), Some(RecordProblem::OtherAmount));
    let other = json!("22222222-2222-4222-8222-222222222222");
    assert_eq!(shown(&|one| one["destination"]["accountId"] = other.clone()), Some(RecordProblem::OtherPayee));
    let fee = json!({"fees": [{"type": "FLAT", "value": "1", "amount": "1", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}]});
    assert_eq!(shown(&|one| one["developerFee"] = fee.clone()), Some(RecordProblem::OtherPayee));
}

fn of_unknown() -> ClaimState {
    ClaimState::Unknown {
        doubt: crate::stations::claim::DoubtCause::Silent,
        doubted: None,
        sent: SentRequest::forgotten(),
        looks: 0,
        said_absent: None,
        said_abandoned: None,
    }
}

/// What a record of this name says of a claim.
fn verdict(claim: &Claim, id: &str, state: &str, amount: Value) -> ClaimVerdict {
    judged(id, state, amount, |seen| verdict_on(claim, seen))
}

fn judged<T>(id: &str, state: &str, amount: Value, judge: impl Fn(&Sighting<'_>) -> T) -> T {
    let operation = operation();
    let record = listed(&operation, id, state, T1, amount);
    seen_as(&operation, &record, judge)
}

fn seen_as<T>(operation: &Operation, record: &ListedRecord, judge: impl Fn(&Sighting<'_>) -> T) -> T {
    judge(&Sighting {
        environment: ENVIRONMENT,
        operation: &operation.id,
        follow: operation.follow.as_ref().unwrap(),
        record,
        value: None,
        is_told: false,
        rules: &Rules::default(),
        node: &NodeId::parse("a").unwrap(),
        keep: Duration::ZERO,
    })
}

#[test]
fn a_second_record_proves_an_earlier_attempt_that_was_called_unexecuted() {
    let mut claim = claim(&operation(), done(true), AttemptEnd::Executed);
    let absent = AttemptEnd::Absent { said_by: vec!["a".to_owned(), "b".to_owned()] };
    let earlier = PastAttempt { number: Number::new(3), end: absent, ..claim.attempts[0].clone() };
    claim.attempts.insert(0, earlier);
    let proved =
        |claim: &Claim, state: &str, amount: Value| judged("u-2", state, amount, |seen| proved_by_second(claim, seen));
    assert_eq!(verdict(&claim, "u-1", "CREATED", json!(10)), ClaimVerdict::Follow);
    assert_eq!(verdict(&claim, "u-2", "CREATED", json!(10)), ClaimVerdict::Second);
    assert_eq!(proved(&claim, "CREATED", json!(10)), Some(Number::new(3)));
    assert_eq!(proved(&claim, "CREATED", json!(11)), None, "it moves something else");
    assert_eq!(proved(&claim, "CANCELLED", json!(10)), None, "nothing left");
    for said in [AttemptEnd::Executed, AttemptEnd::Unknown] {
        claim.attempts[0].end = said;
        assert_eq!(proved(&claim, "CREATED", json!(10)), None, "nobody said that nothing happened");
    }
    claim.attempts[0].end = AttemptEnd::NotExecuted { status: 429 };
    assert_eq!(proved(&claim, "CREATED", json!(10)), Some(Number::new(3)), "upstream's answer was wrong");
}

#[test]
fn a_claim_that_was_called_unexecuted_is_proved_wrong_and_one_never_sent_is_foreign() {
    let operation = operation();
    let verdict = |claim: &Claim, state: &str, amount: Value| verdict(claim, "u-1", state, amount);
    let said = vec!["a".to_owned(), "b".to_owned()];
    let absent = claim(&operation, ClaimState::Absent, AttemptEnd::Absent { said_by: said });
    assert_eq!(verdict(&absent, "CREATED", json!(10)), ClaimVerdict::Proves(Number::new(7)));
    assert_eq!(verdict(&absent, "CREATED", json!(11)), ClaimVerdict::Foreign(RecordProblem::OtherAmount));
    let refused = claim(&operation, done(false), AttemptEnd::NotExecuted { status: 400 });
    assert_eq!(verdict(&refused, "QUOTE_FAILED", json!(10)), ClaimVerdict::Nothing);
    assert_eq!(verdict(&refused, "CRYPTO_PENDING", json!(10)), ClaimVerdict::Proves(Number::new(7)));
    let held = Claim { attempts: Vec::new(), ..claim(&operation, ClaimState::Held, AttemptEnd::Unknown) };
    assert_eq!(verdict(&held, "CREATED", json!(10)), ClaimVerdict::Foreign(RecordProblem::NeverSent));
    let in_doubt = claim(&operation, of_unknown(), AttemptEnd::Unknown);
    assert_eq!(verdict(&in_doubt, "CREATED", json!(10)), ClaimVerdict::Later);
    let executed = |answer: Value| claim(&operation, answered(true, &answer), AttemptEnd::Executed);
    let named = |name: &str| executed(json!({"transferDetails": {"id": name}}));
    assert_eq!(verdict(&named("u-1"), "CREATED", json!(11)), ClaimVerdict::Follow);
    assert_eq!(verdict(&executed(json!({})), "CREATED", json!(11)), ClaimVerdict::Follow);
    assert_eq!(verdict(&named("u-2"), "CREATED", json!(10)), ClaimVerdict::Second, "upstream named ours otherwise");
}

/// The record was made at 10:00; the clocks of both may differ by 15 minutes.
#[test]
fn a_record_that_is_older_than_every_attempt_is_foreign_and_lowers_nothing() {
    let at = |time: &str| StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond());
    let (late, early) = (at("2026-11-25T10:15:01Z"), at("2026-11-25T10:15:00Z"));
    let sent = |since: StoreTime, mut claim: Claim| {
        claim.attempts[0].since = since;
        claim
    };
    let operation = operation();
    let older = ClaimVerdict::Foreign(RecordProblem::OlderRecord);
    let named = json!({"transferDetails": {"id": "u-1"}});
    let named_older = json!({"transferDetails": {"id": "u-2", "createdAt": "2026-11-25T10:00:00Z"}});
    let absent = || AttemptEnd::Absent { said_by: vec!["a".to_owned(), "b".to_owned()] };
    let of = |state: &ClaimState, end: AttemptEnd| claim(&operation, state.clone(), end);
    let unknown = of_unknown();
    for (claim, else_told) in [
        (of(&answered(true, &named), AttemptEnd::Executed), ClaimVerdict::Follow),
        (of(&answered(true, &json!({})), AttemptEnd::Executed), ClaimVerdict::Follow),
        (of(&ClaimState::Absent, absent()), ClaimVerdict::Proves(Number::new(7))),
        (of(&done(false), AttemptEnd::NotExecuted { status: 400 }), ClaimVerdict::Proves(Number::new(7))),
        (of(&unknown, AttemptEnd::Unknown), ClaimVerdict::Later),
    ] {
        for state in ["COMPLETED", "CANCELLED"] {
            assert_eq!(verdict(&sent(late, claim.clone()), "u-1", state, json!(10)), older, "{state}: {claim:?}");
        }
        assert_eq!(verdict(&sent(early, claim), "u-1", "COMPLETED", json!(10)), else_told);
    }
    // An answer with an older record names none.
    let misnamed = sent(late, of(&answered(true, &named_older), AttemptEnd::Executed));
    assert_eq!(verdict(&misnamed, "u-2", "COMPLETED", json!(10)), older);
    let later = |claim: &Claim| {
        let mut record = listed(&operation, "u-1", "COMPLETED", T1, json!(10));
        record.created += 60_000_000;
        seen_as(&operation, &record, |seen| verdict_on(claim, seen))
    };
    assert_eq!(later(&misnamed), ClaimVerdict::Follow);

    // It may be one of an earlier attempt.
    let mut twice = sent(late, of(&answered(true, &json!({})), AttemptEnd::Executed));
    let first = PastAttempt { number: Number::new(3), since: early, end: absent(), ..twice.attempts[0].clone() };
    twice.attempts.insert(0, first);
    assert_eq!(verdict(&twice, "u-1", "COMPLETED", json!(10)), ClaimVerdict::Second);
    let proved = |claim: &Claim| judged("u-1", "COMPLETED", json!(10), |seen| proved_by_second(claim, seen));
    assert_eq!(proved(&twice), Some(Number::new(3)));
    twice.attempts[0].since = late;
    assert_eq!(proved(&twice), None);

    // One that was followed before this was known is counted again.
    let mut followed = Followed::new();
    followed.sees("CANCELLED", T1, json!(10)).unwrap();
    let mut now = followed.now.take().unwrap();
    assert!(now.is_given_back);
    now.since = late;
    followed.now = Some(now);
    let (change, _) = followed.sees("CANCELLED", T1, json!(10)).unwrap();
    assert_eq!((change.problem, change.windows), (Some(RecordProblem::OlderRecord), Some("counted-again")));
    assert_eq!(followed.sees("CANCELLED", T1, json!(10)), None);
}

#[test]
fn a_baseline_is_what_upstream_had_listed_by_its_own_clock() {
    let records = [("new", 50), ("same", 50), ("old", 40), ("future", 900)];
    let baseline = Baseline::of(records.iter().copied(), 100);
    assert_eq!((baseline.latest, baseline.ids.len()), (50, 2));
    assert!(baseline.contains("new", 50) && baseline.contains("old", 40) && baseline.contains("never-seen", 49));
    assert!(!baseline.contains("later", 50) && !baseline.contains("x", 51) && !baseline.contains("future", 900));
    let empty = Baseline::of(std::iter::empty(), 100);
    assert!(!empty.contains("first", 1));
}
