use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, SchemaFiles};

const ID: &str = "da211151-8e73-4d2e-9343-6955e4a5b398";

fn offramp() -> Arc<Operation> {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    catalog.operation(&OperationId::new("createOfframp")).unwrap().clone()
}

fn sent() -> Value {
    json!({
        "requestId": ID,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": "1500.00",
                   "walletAddress": "0x8e602f92d53a2b49107f42c02ba35c218d65f293"},
        "destination": {"accountId": "f5bd9f5d-ef9e-4eb5-b3b7-15f2b5789318"},
    })
}

fn record() -> Value {
    json!({
        "transferType": "OFFRAMP",
        "transferDetails": {
            "id": "b77f1569-70d6-41d8-8e3a-5b7fef45b8d8",
            "requestId": ID,
            "createdAt": "2024-08-02T10:00:00.000Z",
            "source": {"chain": "POLYGON", "currency": "usdc", "amount": 1500,
                       "walletAddress": "0x8E602F92D53A2B49107F42C02BA35C218D65F293"},
            "destination": {"accountId": "F5BD9F5D-EF9E-4EB5-B3B7-15F2B5789318", "amount": 1498, "currency": "usd"},
        },
    })
}

fn changed(mut value: Value, pointer: &str, to: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = to;
    value
}

fn form(sent: &Value) -> SentRequest {
    SentRequest { target: "/v2/offramps".to_owned(), body: Bytes::from(sent.to_string()) }
}

fn judged(sent: &Value, bearing: Vec<Value>) -> LookupResult {
    let offramp = offramp();
    judge(&offramp, offramp.reconcile.as_ref().unwrap(), ID, (at("2024-08-02T10:00:00Z"), &form(sent)), bearing)
}

fn at(time: &str) -> StoreTime {
    StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

#[test]
fn a_record_that_is_older_than_the_attempt_by_more_than_clocks_differ_is_none_of_it() {
    let of = |time: Value| changed(record(), "/transferDetails/createdAt", time);
    let older = || of(json!("2024-08-02T09:44:59.999Z"));
    assert_eq!(judged(&sent(), vec![older()]), LookupResult::Older(Box::new(older())));
    for time in ["2024-08-02T09:45:00Z", "2024-08-02T11:45:00+02:00", "2024-08-09T10:00:00Z"] {
        assert!(matches!(judged(&sent(), vec![of(json!(time))]), LookupResult::Found(_)), "{time}");
    }
    // It hides no other.
    let own = changed(record(), "/transferDetails/id", json!("43f1f257-aa10-4583-948f-9e6482f907d9"));
    assert_eq!(judged(&sent(), vec![older(), own.clone()]), LookupResult::Found(StoredAnswer::of_record(&own)));
    // One without a time may be its own or not.
    for time in [Value::Null, json!("yesterday"), json!(1_722_592_800)] {
        assert!(matches!(judged(&sent(), vec![of(time.clone())]), LookupResult::Alarming(_)), "{time}");
        assert!(matches!(judged(&sent(), vec![of(time), own.clone()]), LookupResult::Alarming(_)));
    }
}

#[test]
fn the_one_record_that_moves_the_same_is_found_and_told_as_it_is() {
    let LookupResult::Found(answer) = judged(&sent(), vec![record()]) else { panic!("found") };
    assert_eq!(answer.status, 200);
    assert_eq!(serde_json::from_slice::<Value>(&answer.body).unwrap(), record());
    assert_eq!(judged(&sent(), Vec::new()), LookupResult::Nothing);
}

#[test]
fn amounts_are_compared_as_numbers_however_they_are_written() {
    for (asked, found, same) in [
        (json!("1500.00"), json!(1500), true),
        (json!("1500"), json!("1500.000000"), true),
        (json!(1500), json!("01500"), true),
        (json!("0.5"), json!(0.50), true),
        (json!("1500"), json!("1500.01"), false),
        (json!("1500"), json!("150"), false),
        (json!("1500"), json!("15e2"), false),
        (json!("1500"), Value::Null, true),
    ] {
        let asked = changed(sent(), "/source/amount", asked);
        let found = changed(record(), "/transferDetails/source/amount", found);
        let looked = judged(&asked, vec![found.clone()]);
        assert_eq!(matches!(looked, LookupResult::Found(_)), same, "{asked} {found}: {looked:?}");
    }
}

#[test]
fn a_record_that_moves_something_else_is_alarming() {
    for (field, other) in [
        ("source/amount", json!(1501)),
        ("source/currency", json!("usdt")),
        ("source/chain", json!("BASE")),
        ("source/walletAddress", json!("0xc416d751fa405e0c934b11794e77c9e3022848a3")),
        ("destination/accountId", json!("cadb1e7f-cf2c-4428-a194-d27f56140ddf")),
    ] {
        let found = changed(record(), &format!("/transferDetails/{field}"), other);
        assert!(matches!(judged(&sent(), vec![found]), LookupResult::Alarming(_)), "{field}");
    }
}

#[test]
fn addresses_that_differ_in_case_alone_are_two_where_their_chain_says_so() {
    let solana = "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV";
    let asked = changed(sent(), "/source/chain", json!("SOLANA"));
    let asked = changed(asked, "/source/walletAddress", json!(solana));
    let found = changed(record(), "/transferDetails/source/chain", json!("SOLANA"));
    let with = |wallet: &str| changed(found.clone(), "/transferDetails/source/walletAddress", json!(wallet));
    assert!(matches!(judged(&asked, vec![with(solana)]), LookupResult::Found(_)));
    assert!(matches!(judged(&asked, vec![with(&solana.to_lowercase())]), LookupResult::Alarming(_)));
}

#[test]
fn two_records_are_alarming_and_one_that_two_pages_show_is_one() {
    let other = changed(record(), "/transferDetails/id", json!("43f1f257-aa10-4583-948f-9e6482f907d9"));
    assert!(matches!(judged(&sent(), vec![record(), other]), LookupResult::Alarming(_)));
    let later = changed(record(), "/transferDetails/createdAt", json!("2024-08-02T10:00:00.001Z"));
    assert!(matches!(judged(&sent(), vec![record(), later]), LookupResult::Found(_)));
}

#[test]
fn a_page_gives_what_bears_the_id_in_any_case_and_where_the_next_begins() {
    let offramp = offramp();
    let reconcile = offramp.reconcile.as_ref().unwrap();
    let page = |records: Value| page_of(reconcile, ID, json!({ "records": records }).to_string().as_bytes());
    let upper = changed(record(), "/transferDetails/requestId", json!(ID.to_uppercase()));
    let other = changed(record(), "/transferDetails/requestId", json!("another"));
    let nameless = json!({"transferType": "OFFRAMP", "transferDetails": {"createdAt": "2024-08-01T00:00:00Z"}});
    let found = page(json!([upper, other, nameless])).unwrap();
    assert_eq!((found.records.len(), found.count), (1, 3));
    assert_eq!(found.oldest.as_deref(), Some("2024-08-01T00:00:00Z"));
    let empty = RecordPage { records: Vec::new(), count: 0, oldest: None };
    assert_eq!(page(json!([])), Some(empty));
    for unreadable in [json!({}), json!(7)] {
        assert_eq!(page(unreadable), None);
    }
    assert_eq!(page_of(reconcile, ID, b"<html>"), None);
}

#[test]
fn what_an_operator_shows_is_held_to_the_same() {
    let offramp = offramp();
    let of = |record: &Value| is_record_of(&offramp, ID, &form(&sent()), record);
    assert_eq!(of(&record()), Ok(()));
    let other = changed(record(), "/transferDetails/requestId", json!("another"));
    assert_eq!(of(&other), Err(RecordMismatch::RequestId));
    let more = changed(record(), "/transferDetails/source/amount", json!("1500.000001"));
    assert_eq!(of(&more), Err(RecordMismatch::Money));
    let made = |record: &Value| made_at(&offramp, record);
    assert_eq!(made(&record()), Ok(Some(at("2024-08-02T10:00:00Z").as_micros())));
    assert_eq!(made(&changed(record(), "/transferDetails/createdAt", Value::Null)), Err(RecordMismatch::Time));
}

#[test]
fn where_no_read_finds_records_their_own_requestid_still_tells() {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let swap = catalog.operation(&OperationId::new("createSwap")).unwrap();
    let of = |record: &Value| is_record_of(swap, ID, &form(&json!({})), record);
    assert_eq!(of(&json!({"transferDetails": {"requestId": ID.to_uppercase()}})), Ok(()));
    assert_eq!(of(&json!({"transferDetails": {"requestId": "another"}})), Err(RecordMismatch::RequestId));
    assert_eq!(of(&json!({"transferDetails": {"id": "x"}})), Ok(()), "it bears none");
    assert_eq!(made_at(swap, &json!({"transferDetails": {"id": "x"}})), Ok(None));
    let timed = |time: &str| made_at(swap, &json!({"transferDetails": {"createdAt": time}}));
    assert_eq!(timed("1970-01-01T00:00:00.000007Z"), Ok(Some(7)));
    assert_eq!(timed("yesterday"), Err(RecordMismatch::Time));
    let offer = catalog.operation(&OperationId::new("acceptOffer")).unwrap();
    assert_eq!(is_record_of(offer, ID, &form(&json!({})), &json!({"requestId": "another"})), Ok(()));
}
