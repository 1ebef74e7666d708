//! What became of a call in doubt is found in upstream's list, or stays unknown.

use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::ports::Clock as _;

use crate::support::clock::{DAY, upstream_time, wait_until};
use crate::support::shape::{examples, operation};
use crate::support::{Act, Answer, Gate, Setup, Upstream, post};

const ID: &str = "6d1b0c52-6a4f-4f0e-9f0a-3a6a7f2f9a51";

/// A gate that looks soon, and again soon.
fn gate(upstream: &Upstream) -> Gate {
    Setup::of(upstream)
        .set("production", "credential", "of-the-gate")
        .timeout_ms("answer_ms", 400)
        .set_raw("reconcile", "first_look_ms", "50")
        .set_raw("reconcile", "pause_ms", "50")
        .set_raw("reconcile", "longest_pause_ms", "200")
        .start()
}

fn offramp(gate: &Gate) -> Answer {
    let mut body: Value =
        serde_json::from_slice(&examples(operation("createOfframp"), "good-all-fields")[0].1).unwrap();
    body["requestId"] = json!(ID);
    post("/v2/offramps").json(body.to_string()).send(gate.production())
}

/// The record of that offramp.
fn record(id: &str) -> Value {
    let mut record: Value =
        serde_json::from_slice(&examples(operation("createOfframp"), "answer-good-created")[0].1).unwrap();
    record["transferDetails"]["requestId"] = json!(ID.to_uppercase());
    record["transferDetails"]["id"] = json!(id);
    record["transferDetails"]["createdAt"] = json!(upstream_time(0));
    record
}

/// Somebody else's record, made at that moment.
fn other(at: &str) -> Value {
    let mut record = record("cadb1e7f-cf2c-4428-a194-d27f56140ddf");
    record["transferDetails"]["requestId"] = json!("another");
    record["transferDetails"]["createdAt"] = json!(at);
    record
}

fn list(records: &[Value]) -> Act {
    Act::json(200, json!({"count": records.len(), "records": records, "nextCursor": ""}).to_string())
}

fn found(gate: &Gate, what: &str) -> u64 {
    gate.metric(&format!("sluice_reconciliations_total{{environment=\"production\",found=\"{what}\"}}"))
}

/// Sends the offramp, whose answer is lost; from then on upstream's list is this.
fn lose(gate: &Gate, upstream: &Upstream, then: Act) {
    upstream.next(Act::silence().close());
    upstream.always(then);
    let answer = offramp(gate);
    assert_eq!((answer.status, answer.outcome()), (502, "unknown".to_owned()), "{answer}");
}

const OURS: &str = "43f1f257-aa10-4583-948f-9e6482f907d9";

#[test]
fn a_record_that_is_found_is_what_the_repeat_hears() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let ours = record(OURS);
    lose(&gate, &upstream, list(&[other("2024-08-02T10:00:00.000Z"), ours.clone()]));
    wait_until("the record to be found", || found(&gate, "found") == 1);
    let mut repeat = offramp(&gate);
    wait_until("the claim to be settled", || {
        repeat = offramp(&gate);
        repeat.status == 200
    });
    assert_eq!((repeat.outcome(), repeat.json()), ("executed".to_owned(), ours));
    assert_eq!(repeat.header("sluice-replayed").as_deref(), Some("true"));
    let sent: Vec<String> = upstream.seen().iter().map(|seen| seen.line().to_owned()).collect();
    assert_eq!(sent.iter().filter(|line| line.starts_with("POST")).count(), 1, "{sent:?}");
    let read = upstream.seen().into_iter().find(|seen| seen.line().starts_with("GET")).unwrap();
    assert_eq!(read.line(), "GET /v2/offramps?limit=100", "a moment is documented for `createdBefore` alone");
    assert_eq!(read.head.header("authorization").as_deref(), Some("Bearer of-the-gate"));
}

#[test]
fn a_page_with_fewer_records_than_were_asked_for_is_not_the_last_one() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let now = |secs: i64| (SystemClock.now() + jiff::SignedDuration::from_secs(secs)).to_string();
    upstream.next(Act::silence().close()).next(list(&[other(&now(3))])).next(list(&[other(&now(2))]));
    upstream.always(list(&[record(OURS)]));
    let answer = offramp(&gate);
    assert_eq!((answer.status, answer.outcome()), (502, "unknown".to_owned()), "{answer}");
    wait_until("the record to be found", || found(&gate, "found") == 1);
    assert_eq!(found(&gate, "nothing"), 0);
}

#[test]
fn what_is_not_in_the_list_stays_unknown() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    lose(&gate, &upstream, list(&[other("2024-08-02T10:00:00.000Z")]));
    wait_until("several looks", || found(&gate, "nothing") >= 3);
    assert_eq!(offramp(&gate).code(), "OUTCOME_UNKNOWN");
    // It shows up late, and is found then.
    upstream.always(list(&[record(OURS)]));
    wait_until("the record to be found", || found(&gate, "found") == 1);
    wait_until("the claim to be settled", || offramp(&gate).status == 200);
}

#[test]
fn two_records_and_a_wrong_one_are_for_people() {
    let mut wrong = record(OURS);
    wrong["transferDetails"]["source"]["amount"] = json!(1501);
    let two = [record(OURS), record("b77f1569-70d6-41d8-8e3a-5b7fef45b8d8")];
    for records in [&two[..], &[wrong][..]] {
        let upstream = Upstream::start();
        let gate = gate(&upstream);
        lose(&gate, &upstream, list(records));
        wait_until("an alarm", || found(&gate, "alarming") >= 1);
        gate.log.wait("an alarm in the log", |lines| {
            let is_alarm = |line: &&Value| line["message"] == "a call with an unknown outcome needs a person to look";
            lines.iter().find(is_alarm).map(|line| assert_eq!(line["level"], "ERROR"))
        });
        assert_eq!(offramp(&gate).code(), "OUTCOME_UNKNOWN");
        assert_eq!(found(&gate, "found"), 0);
    }
}

#[test]
fn a_record_that_was_made_before_the_call_is_for_people_and_hides_no_later_one() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let mut older = record("b77f1569-70d6-41d8-8e3a-5b7fef45b8d8");
    older["transferDetails"]["createdAt"] = json!(upstream_time(-3 * DAY));
    let mut timeless = record("cadb1e7f-cf2c-4428-a194-d27f56140ddf");
    lose(&gate, &upstream, list(std::slice::from_ref(&older)));
    for time in [Value::Null, json!("yesterday")] {
        timeless["transferDetails"]["createdAt"] = time;
        let before = found(&gate, "alarming");
        wait_until("alarms", || found(&gate, "alarming") >= before + 2);
        upstream.always(list(std::slice::from_ref(&timeless)));
    }
    let before = found(&gate, "alarming");
    wait_until("alarms", || found(&gate, "alarming") >= before + 2);
    let why = "the record with its requestId was made before the call was sent";
    gate.log.wait("the reason", |lines| lines.iter().find(|line| line["why"] == why).map(|_| ()));
    assert_eq!((offramp(&gate).code(), found(&gate, "found")), ("OUTCOME_UNKNOWN".to_owned(), 0));
    let ours = record(OURS);
    upstream.always(list(&[ours.clone(), older]));
    let mut repeat = offramp(&gate);
    wait_until("the claim to be settled", || {
        repeat = offramp(&gate);
        repeat.status == 200
    });
    assert_eq!(repeat.json(), ours);
}

#[test]
fn a_list_that_fails_is_asked_again_later() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    lose(&gate, &upstream, Act::answer(500, "text/html", "<h1>"));
    wait_until("looks that fail", || found(&gate, "unreadable") >= 2);
    for broken in [Act::json(200, "{}"), Act::json(200, "["), Act::silence().close()] {
        upstream.always(broken);
        let before = found(&gate, "unreadable");
        wait_until("another look", || found(&gate, "unreadable") > before);
    }
    assert_eq!(offramp(&gate).code(), "OUTCOME_UNKNOWN");
    upstream.always(list(&[record(OURS)]));
    wait_until("the claim to be settled", || offramp(&gate).status == 200);
}

#[test]
fn pages_are_read_until_they_are_early_enough_and_overlap() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let page: Vec<Value> = (0..100).map(|_| other("2999-01-01T00:00:00.000Z")).collect();
    upstream.next(Act::silence().close());
    upstream.next(list(&page));
    upstream.always(list(&[record(OURS)]));
    assert_eq!(offramp(&gate).outcome(), "unknown");
    wait_until("the claim to be settled", || offramp(&gate).status == 200);
    let reads: Vec<String> = upstream.seen().iter().map(|seen| seen.line().to_owned()).collect();
    let second = "GET /v2/offramps?limit=100&createdBefore=2999-01-01T00:00:00.001Z";
    assert_eq!(reads[2].replace("%3A", ":"), second, "{reads:?}");
}

#[test]
fn pages_that_are_early_enough_end_the_search() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let page: Vec<Value> = (0..100).map(|_| other("2024-08-02T10:00:00.000Z")).collect();
    lose(&gate, &upstream, list(&page));
    wait_until("a look", || found(&gate, "nothing") >= 1);
    assert!(upstream.seen().iter().all(|seen| !seen.line().contains("createdBefore")));
}

#[test]
fn without_a_credential_of_the_gates_own_nothing_is_asked() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream)
        .timeout_ms("answer_ms", 400)
        .set_raw("reconcile", "first_look_ms", "20")
        .set_raw("reconcile", "pause_ms", "20")
        .set_raw("reconcile", "longest_pause_ms", "20")
        .start();
    lose(&gate, &upstream, list(&[record(OURS)]));
    std::thread::park_timeout(std::time::Duration::from_millis(400));
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(offramp(&gate).code(), "OUTCOME_UNKNOWN");
}
