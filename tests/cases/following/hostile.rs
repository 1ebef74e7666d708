//! Upstream's list is nobody's friend: what it shows of our payments, and of others, is compared, counted and bounded.

use serde_json::{Value, json};

use super::{following, id, offramp, operator};
use crate::cases::claims::late_proofs::resolve_in_time;
use crate::cases::console::ask;
use crate::support::clock::{upstream_time, wait_until};
use crate::support::upstream::Seen;
use crate::support::{Act, Gate, Setup, Upstream, post};

pub(super) fn pay(gate: &Gate, request_id: &str, amount: &str) {
    let answer = post("/v2/offramps").json(offramp(request_id, amount).to_string()).send(gate.production());
    assert_eq!(answer.status, 201, "{answer}");
}

/// The record of a call as upstream would list it.
pub(super) fn record(n: usize, request_id: &str, amount: Value, state: &str) -> Value {
    let call = offramp(request_id, "1");
    let mut record = json!({"transferType": "OFFRAMP", "transferDetails": {
        "id": format!("11111111-0000-4000-8000-{n:012}"), "requestId": request_id, "orchestrationAddressId": null,
        "createdAt": upstream_time(i64::try_from(n).unwrap()), "updatedAt": "2026-11-25T10:00:01Z", "status": state,
        "source": call["source"], "destination": call["destination"],
    }});
    record["transferDetails"]["source"]["amount"] = amount;
    if state.contains("QUOTE_FAILED") {
        record["transferDetails"]["error"] = json!("QUOTE_EXPIRED");
        record["transferDetails"]["errorDetails"] = json!("x");
    }
    record
}

pub(super) fn page(records: &[Value]) -> Act {
    Act::json(200, page_text(records))
}

fn page_text(records: &[Value]) -> String {
    json!({"count": records.len(), "records": records, "nextCursor": ""}).to_string()
}

pub(super) fn counted(gate: &Gate, metric: &str, labels: &str) -> u64 {
    gate.metric(&format!(r#"{metric}{{environment="production",operation="createOfframp"{labels}}}"#))
}

pub(super) fn foreign(gate: &Gate, problem: &str) -> u64 {
    counted(gate, "sluice_foreign_payments_total", &format!(r#",problem="{problem}""#))
}

pub(super) fn followed(gate: &Gate, state: &str, meaning: &str) -> u64 {
    let labels = format!(r#"environment="production",meaning="{meaning}",operation="createOfframp",state="{state}""#);
    gate.metric(&format!("sluice_followed_total{{{labels}}}"))
}

/// A gate that took its baseline from an empty list, and paid once.
fn paid_once(upstream: &Upstream) -> Gate {
    paid(upstream, &record(1, &id(1), json!(10), "CREATED"), "10")
}

/// The same, where upstream's answer is this record.
fn paid(upstream: &Upstream, answer: &Value, amount: &str) -> Gate {
    upstream.always(page(&[]));
    let gate = following(Setup::of(upstream)).start();
    wait_until("the baseline", || counted(&gate, "sluice_follow_readings_total", r#",result="read""#) >= 1);
    // A reading may get it, too.
    upstream.always(Act::json(201, answer.to_string()));
    pay(&gate, &id(1), amount);
    gate
}

#[test]
fn another_amount_another_payee_and_a_second_record_raise_an_alert_each() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    let ours = record(1, &id(1), json!(10.00), "CREATED");
    let mut stolen = ours.clone();
    stolen["transferDetails"]["destination"]["accountId"] = json!("22222222-2222-4222-8222-222222222222");
    stolen["transferDetails"]["updatedAt"] = json!("2026-11-25T10:00:02Z");
    upstream.always(page(std::slice::from_ref(&ours)));
    wait_until("it to be followed", || followed(&gate, "CREATED", "open") == 1);
    upstream.always(page(&[stolen]));
    wait_until("the other payee", || foreign(&gate, "other-payee") == 1);
    upstream.always(page(&[ours.clone(), record(2, &id(1), json!(10), "CREATED")]));
    wait_until("the second record", || foreign(&gate, "second-record") == 1);
    assert_eq!((foreign(&gate, "unknown-request"), foreign(&gate, "other-amount")), (0, 0));
}

/// People heard of it when the call was answered.
#[test]
fn a_payment_of_which_the_answer_told_is_followed_and_told_once() {
    let upstream = Upstream::start();
    let other = record(1, &id(1), json!(9000), "CREATED");
    let gate = paid(&upstream, &other, "10");
    assert_eq!(foreign(&gate, "other-amount"), 1);
    upstream.always(page(&[other]));
    wait_until("it to be followed", || followed(&gate, "CREATED", "open") == 1);
    let used = || ask(&gate, "GET", "usage", &operator("ops-1"), None).text();
    wait_until("the limit to count it", || used().contains("9000000000"));
    assert_eq!(foreign(&gate, "other-amount"), 1);
    let listed = ask(&gate, "GET", "payments/foreign", &operator("ops-1"), None).json();
    assert_eq!(listed["payments"].as_array().unwrap().len(), 1, "{listed}");
    let told = gate.log.all().iter().filter(|line| line["problem"] == "other-amount").count();
    assert_eq!(told, 1);
}

#[test]
fn limits_count_the_amount_that_the_record_shows() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    let used = || {
        let answer = ask(&gate, "GET", "usage", &operator("ops-1"), None).json();
        answer["usage"].to_string()
    };
    assert!(used().contains("10000000"), "{}", used());
    upstream.always(page(&[record(1, &id(1), json!(12.5), "CREATED")]));
    wait_until("the other amount", || foreign(&gate, "other-amount") == 1);
    wait_until("the limit to count it", || used().contains("12500000"));
    // Money that the list shows at another time than it says is nobody's.
    let mut future = record(3, "ffffffff-0000-4000-8000-000000000003", json!(1), "CREATED");
    future["transferDetails"]["createdAt"] = json!("2999-01-01T00:00:00Z");
    upstream.always(page(&[future]));
    wait_until("the record of the future", || foreign(&gate, "unknown-request") == 1);
}

#[test]
fn pages_without_end_form_or_bound_are_counted_and_move_nothing() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    let failed = || counted(&gate, "sluice_follow_readings_total", r#",result="failed""#);
    let full: Vec<Value> = (0..100).map(|n| record(n + 10, &id(n + 10), json!(10), "NEVER_HEARD")).collect();
    let too_many: Vec<Value> = (0..101).map(|n| record(n + 10, &id(1), json!(10), "CREATED")).collect();
    for broken in
        [page(&full), page(&too_many), Act::json(200, "{\"records\": [1], \"records\": []}"), Act::json(200, "[")]
    {
        let before = failed();
        upstream.always(broken);
        wait_until("the reading to fail", || failed() > before);
    }
    // Records without a name, a time or a form are skipped, the others are read.
    let mut odd = record(5, &id(1), json!(10), "CREATED");
    odd["transferDetails"]["id"] = json!("<script>");
    upstream.always(page(&[json!(7), odd, record(1, &id(1), json!(10), "COMPLETED")]));
    wait_until("the good one", || followed(&gate, "COMPLETED", "settled") == 1);
    assert!(counted(&gate, "sluice_follow_unreadable_total", "") >= 2);
    // An older state that comes late changes nothing.
    upstream.always(page(&[record(1, &id(1), json!(10), "CREATED")]));
    let read = || counted(&gate, "sluice_follow_readings_total", r#",result="read""#);
    let before = read();
    wait_until("further readings", || read() >= before + 3);
    assert_eq!(followed(&gate, "CREATED", "open"), 0);
    // The list of payments is built from the journal, beside everything else.
    wait_until("the payment to be shown as paid", || {
        let shown = ask(&gate, "GET", &format!("payments/production/{}", id(1)), &operator("ops-1"), None).json();
        (&shown["status"], &shown["state"]) == (&json!("paid"), &json!("COMPLETED"))
    });
}

#[test]
fn odd_numbers_times_and_states_raise_no_false_alarm_and_hide_nothing() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    // The same amount, as many JSON writers write it, in a state that the contract does not know.
    let text = page_text(&[record(1, &id(1), json!(10), "CREATED")]).replace("\"amount\":10,", "\"amount\":1.0E1,");
    assert!(text.contains("1.0E1"), "{text}");
    upstream.always(Act::json(200, text));
    wait_until("it to be followed", || followed(&gate, "CREATED", "open") == 1);
    let unreadable = || counted(&gate, "sluice_follow_unreadable_total", "");
    let before = unreadable();
    let mut odd = record(1, &id(1), json!(10), "TELEPORTED");
    odd["transferDetails"]["updatedAt"] = json!("2999-01-01T00:00:00Z");
    upstream.always(page(&[odd]));
    wait_until("the unknown state to be counted", || unreadable() > before);
    let read = || counted(&gate, "sluice_follow_readings_total", r#",result="read""#);
    let from = read();
    wait_until("further readings", || read() >= from + 3);
    assert_eq!(unreadable(), before + 1, "once for each change of the record");
    // Another offset of the zone, and a record without a time at the end of the page.
    let mut zoned = record(1, &id(1), json!(10), "COMPLETED");
    zoned["transferDetails"]["createdAt"] = json!(upstream_time(7_200_000).replace('Z', "+02:00"));
    let mut timeless = record(4, "ffffffff-0000-4000-8000-000000000004", json!(1), "CREATED");
    timeless["transferDetails"]["createdAt"] = json!("yesterday");
    upstream.always(page(&[zoned, timeless]));
    wait_until("the good one", || followed(&gate, "COMPLETED", "settled") == 1);
    let problems = ["other-amount", "other-payee", "second-record", "unknown-request", "never-sent"];
    assert_eq!(problems.map(|problem| foreign(&gate, problem)), [0; 5]);
    // An amount beyond every number raises an alert, and what was counted stays.
    let text = page_text(&[record(1, &id(1), json!(10), "COMPLETED")]);
    upstream.always(Act::json(200, text.replace("\"amount\":10,", &format!("\"amount\":{},", "9".repeat(40)))));
    wait_until("the alert", || foreign(&gate, "other-amount") == 1);
    let usage = ask(&gate, "GET", "usage", &operator("ops-1"), None).json();
    assert!(usage["usage"].to_string().contains("10000000"), "{usage}");
}

#[test]
fn a_record_with_the_request_id_of_a_swap_is_foreign() {
    let upstream = Upstream::start();
    upstream.always(page(&[]));
    let rules = "[[rule]]\nid = \"all\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
    let gate = following(Setup::of(&upstream)).file("policies/everything.toml", rules).start();
    wait_until("the baseline", || counted(&gate, "sluice_follow_readings_total", r#",result="read""#) >= 1);
    let swap = json!({
        "requestId": id(1),
        "source": {"userId": "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22", "chain": "POLYGON", "currency": "usdt", "amount": "10"},
        "destination": {"chain": "POLYGON", "currency": "usdc", "userId": "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22"},
    });
    upstream.always(Act::done(201));
    let answer = post("/v2/wallets/swaps").json(swap.to_string()).send(gate.production());
    assert_eq!(answer.status, 201, "{answer}");
    upstream.always(page(&[record(1, &id(1), json!(10), "CREATED")]));
    wait_until("the record to be foreign", || foreign(&gate, "never-sent") == 1);
    assert_eq!(followed(&gate, "CREATED", "open"), 0);
}

#[test]
fn one_record_in_two_forms_at_once_moves_limits_once_and_other_letters_are_no_other_record() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    let used = || ask(&gate, "GET", "usage", &operator("ops-1"), None).json()["usage"].to_string();
    let read = || counted(&gate, "sluice_follow_readings_total", r#",result="read""#);
    // Twice in one page, with two amounts and the same time.
    let twice = [record(1, &id(1), json!(11), "CREATED"), record(1, &id(1), json!(12), "CREATED")];
    upstream.always(page(&twice));
    wait_until("the larger amount to count", || used().contains("12000000"));
    let entries = || {
        let all = crate::cases::claims::audit::entries(&gate.path("sluice-audit"));
        all.iter().filter(|line| line["entry"]["what"] == "followed").count()
    };
    let (from, before) = (read(), entries());
    wait_until("further readings", || read() >= from + 5);
    assert_eq!(entries(), before, "no entry for each reading");
    assert!(used().contains("12000000"), "{}", used());
    // The same identifiers in other letters.
    let mut other = record(1, &id(1), json!(12), "COMPLETED");
    let details = &mut other["transferDetails"];
    details["updatedAt"] = json!("2026-11-25T10:00:02Z");
    details["id"] = json!("ABCDEF00-0000-4000-8000-000000000001");
    details["requestId"] = json!(id(1).to_uppercase());
    details["destination"]["accountId"] = json!(super::ACCOUNT.to_uppercase());
    details["source"]["userId"] = json!("0E8E9F1C-2F53-4A5E-9A52-6A1C0F7D4E22");
    upstream.always(page(&[other.clone()]));
    wait_until("another id to be another record", || foreign(&gate, "second-record") == 1);
    other["transferDetails"]["id"] = json!("11111111-0000-4000-8000-000000000001");
    upstream.always(page(&[other]));
    wait_until("it to be followed", || followed(&gate, "COMPLETED", "settled") == 1);
    assert_eq!((foreign(&gate, "other-payee"), foreign(&gate, "unknown-request")), (0, 0));
}

#[test]
fn a_second_record_that_is_listed_first_gives_nothing_back() {
    let upstream = Upstream::start();
    let ours = record(1, &id(1), json!(60_000), "CREATED");
    let gate = paid(&upstream, &ours, "60000");
    let mut other = record(2, &id(1), json!(1), "CANCELLED");
    other["transferDetails"]["destination"]["accountId"] = json!("22222222-2222-4222-8222-222222222222");
    upstream.always(page(&[other, ours]));
    wait_until("the second record", || foreign(&gate, "second-record") == 1);
    wait_until("ours to be followed", || followed(&gate, "CREATED", "open") == 1);
    let more = post("/v2/offramps").json(offramp(&id(2), "60000").to_string()).send(gate.production());
    assert_eq!((more.status, more.json()["error"]["code"].as_str()), (403, Some("LIMIT_EXCEEDED")), "{more}");
}

#[test]
fn both_records_count_of_a_call_that_was_sent_again_after_people_said_that_nothing_happened() {
    let upstream = Upstream::start();
    upstream.always(page(&[]));
    let gate = following(Setup::of(&upstream)).start();
    wait_until("the baseline", || counted(&gate, "sluice_follow_readings_total", r#",result="read""#) >= 1);
    let send = || post("/v2/offramps").json(offramp(&id(1), "30000").to_string()).send(gate.production());
    for _ in 0..2 {
        upstream.always(Act::json(500, json!({"code": 500, "error": "x", "errorDetails": ""}).to_string()));
        assert_eq!(send().code(), "OUTCOME_UNKNOWN");
        upstream.always(page(&[]));
        assert_eq!(resolve_in_time(&gate, &id(1), "ops-1", "absent").status, 202);
        assert_eq!(resolve_in_time(&gate, &id(1), "ops-2", "absent").status, 200);
    }
    let resent = record(2, &id(1), json!(30_000), "CREATED");
    upstream.always(Act::json(201, resent.to_string()));
    assert_eq!(send().status, 201);
    upstream.always(page(&[resent, record(1, &id(1), json!(30_000), "CREATED")]));
    let read = || counted(&gate, "sluice_follow_readings_total", r#",result="read""#);
    wait_until("people to be told that money left twice", || foreign(&gate, "second-record") == 1);
    let from = read();
    wait_until("further readings", || read() >= from + 5);
    // One record proves one of the two attempts of which people spoke.
    let usage = ask(&gate, "GET", "usage", &operator("ops-1"), None).json()["usage"].to_string();
    assert!(usage.contains("60000000000") && !usage.contains("90000000000"), "{usage}");
}

/// Upstream answers what it executed with a status that proves the contrary, and lists it later.
#[test]
fn a_call_that_upstream_refused_and_lists_counts_and_is_not_sent_again() {
    for status in [401, 429] {
        let (upstream, gate) = refused_with(status);
        upstream.always(page(&[record(1, &id(1), json!(30_000), "CREATED")]));
        let usage = || ask(&gate, "GET", "usage", &operator("ops-1"), None).json()["usage"].to_string();
        wait_until("the payment to count", || usage().contains("30000000000"));
        let again = post("/v2/offramps").json(offramp(&id(1), "30000").to_string()).send(gate.production());
        assert_eq!((again.status, again.outcome().as_str()), (200, "executed"), "{again}");
        assert_eq!(foreign(&gate, "unknown-request"), 0);
        assert_eq!(upstream.posts(), 1, "it is not sent again");
    }
}

#[test]
fn both_records_count_of_a_call_that_was_sent_again_after_upstream_refused_what_it_executed() {
    let (upstream, gate) = refused_with(429);
    let resent = record(2, &id(1), json!(30_000), "CREATED");
    upstream.always(Act::json(201, resent.to_string()));
    pay(&gate, &id(1), "30000");
    upstream.always(page(&[resent, record(1, &id(1), json!(30_000), "CREATED")]));
    wait_until("people to be told that money left twice", || foreign(&gate, "second-record") == 1);
    let usage = ask(&gate, "GET", "usage", &operator("ops-1"), None).json()["usage"].to_string();
    assert!(usage.contains("60000000000"), "{usage}");
    assert_eq!(gate.metric(r#"sluice_paid_twice_total{environment="production",executions="twice"}"#), 1);
}

/// A gate whose first call upstream refused with this status.
fn refused_with(status: u16) -> (Upstream, Gate) {
    let upstream = Upstream::start();
    upstream.always(page(&[]));
    let gate = following(Setup::of(&upstream)).start();
    wait_until("the baseline", || counted(&gate, "sluice_follow_readings_total", r#",result="read""#) >= 1);
    let refusal = json!({"code": status, "error": "x", "errorDetails": ""});
    upstream.always(Act::json(status, refusal.to_string()));
    let answer = post("/v2/offramps").json(offramp(&id(1), "30000").to_string()).send(gate.production());
    assert_eq!(answer.outcome(), "not-executed", "{answer}");
    (upstream, gate)
}

#[test]
fn an_id_in_other_letters_is_the_same_record() {
    let upstream = Upstream::start();
    let mut ours = record(1, &id(1), json!(10), "CREATED");
    ours["transferDetails"]["id"] = json!("abcdef00-0000-4000-8000-000000000001");
    let gate = paid(&upstream, &ours, "10");
    upstream.always(page(std::slice::from_ref(&ours)));
    wait_until("it to be followed", || followed(&gate, "CREATED", "open") == 1);
    ours["transferDetails"]["id"] = json!("ABCDEF00-0000-4000-8000-000000000001");
    ours["transferDetails"]["status"] = json!("COMPLETED");
    upstream.always(page(&[ours]));
    wait_until("it to go on", || followed(&gate, "COMPLETED", "settled") == 1);
    assert_eq!(foreign(&gate, "second-record"), 0);
}

#[test]
fn crypto_transfers_are_not_read() {
    let upstream = Upstream::start();
    let gate = paid_once(&upstream);
    // Upstream answers every path.
    upstream.always(page(&[record(1, &id(1), json!(10), "COMPLETED")]));
    wait_until("the payment to be followed", || followed(&gate, "COMPLETED", "settled") == 1);
    let seen = upstream.seen();
    let others: Vec<&str> = seen
        .iter()
        .map(Seen::line)
        .filter(|line| !line.starts_with("GET /v2/offramps?") && *line != "POST /v2/offramps")
        .collect();
    assert_eq!(others, Vec::<&str>::new());
}
