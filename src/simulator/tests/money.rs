//! Swaps, offramps, offers and rule sets as time goes by.

use super::*;

const SWAPS: &str = "/v2/wallets/swaps";

fn state_of(bench: &Bench, request_id: &str) -> Value {
    let of_request = |swap: &Value| details(swap, "requestId") == request_id;
    bench.simulator.swaps().into_iter().find(of_request).unwrap()
}

#[test]
fn a_swap_completes() {
    let bench = Bench::new();
    let (status, record) = bench.post(SWAPS, &swap("s-1", json!({})));
    assert_eq!((status, details(&record, "status")), (201, &json!("CREATED")));
    assert_eq!(details(&record, "cancellable"), true);
    assert_eq!(details(&record, "source")["amount"].to_string(), "250.50");
    assert_eq!(details(&record, "quoteInformation")["receiveNet"]["amount"], "250.4499");
    for (secs, status) in [(2, "PENDING"), (2, "COMPLETED"), (60, "COMPLETED")] {
        bench.pass(secs);
        let now = state_of(&bench, "s-1");
        assert_eq!((details(&now, "status"), details(&now, "cancellable")), (&json!(status), &json!(false)));
    }
    assert_eq!(details(&state_of(&bench, "s-1"), "updatedAt"), "2025-03-01T12:00:04Z");
}

#[test]
fn a_swap_whose_price_is_out_of_reach_cancels_itself() {
    let bench = Bench::new();
    bench.post(SWAPS, &swap("s-1", json!({"limitPrice": "1.05", "cancelAfterSeconds": 60})));
    bench.post(SWAPS, &swap("s-2", json!({"limitPrice": "0.9990", "cancelAfterSeconds": 60})));
    bench.pass(59);
    assert_eq!(details(&state_of(&bench, "s-1"), "status"), "CREATED");
    assert_eq!(details(&state_of(&bench, "s-1"), "autoCancelAt"), "2025-03-01T12:01:00Z");
    assert_eq!(details(&state_of(&bench, "s-2"), "status"), "COMPLETED");
    bench.pass(1);
    assert_eq!(details(&state_of(&bench, "s-1"), "status"), "CANCELLED");
    assert_eq!(details(&state_of(&bench, "s-1"), "cancellable"), false);
}

#[test]
fn a_swap_is_cancelled_on_request_and_once() {
    let bench = Bench::new();
    let (_, record) = bench.post(SWAPS, &swap("s-1", json!({"limitPrice": "1.05"})));
    let cancel = format!("{SWAPS}/{}/cancel", details(&record, "id").as_str().unwrap());
    bench.pass(100);
    let (status, record) = bench.send("POST", &cancel, None, Some("Bearer t"));
    assert_eq!((status, details(&record, "status")), (200, &json!("CREATED")));
    assert_eq!(details(&record, "cancelRequestedAt"), "2025-03-01T12:01:40Z");
    let (status, refused) = bench.post(&cancel, &json!({}));
    assert_eq!((status, &refused["error"]["details"]["cancellationRequested"]), (400, &json!(true)));
    bench.pass(2);
    assert_eq!(details(&state_of(&bench, "s-1"), "status"), "CANCELLED");
    assert_eq!(bench.post("/v2/wallets/swaps/none/cancel", &json!({})).1["error"]["code"], "NOT_FOUND");
    assert_eq!(bench.simulator.journal().effects[&OperationId::new("cancelSwap")], 1);
}

#[test]
fn a_running_swap_cannot_be_cancelled() {
    let bench = Bench::new();
    let (_, record) = bench.post(SWAPS, &swap("s-1", json!({})));
    bench.pass(2);
    let cancel = format!("{SWAPS}/{}/cancel", details(&record, "id").as_str().unwrap());
    assert_eq!(bench.post(&cancel, &json!({})).1["error"]["code"], "SWAP_NOT_CANCELLABLE");
    assert_eq!(bench.post(&cancel, &json!({"force": true})).1["error"]["code"], "VALIDATION_ERROR");
}

#[test]
fn an_offramp_goes_through_its_statuses() {
    let bench = Bench::new();
    let (status, record) = bench.post("/v2/offramps", &offramp("o-1", "1500.00"));
    assert_eq!((status, details(&record, "status")), (201, &json!("CREATED")));
    assert_eq!(details(&record, "source")["amount"].to_string(), "1500.00");
    let mut seen = Vec::new();
    for _ in 0..12 {
        let (_, page) = bench.get("/v2/offramps?limit=1");
        assert_eq!(details(&page["records"][0], "requestId"), "o-1");
        seen.push(details(&page["records"][0], "status").as_str().unwrap().to_owned());
        bench.pass(2);
    }
    seen.dedup();
    assert_eq!((seen.len(), seen.last().unwrap().as_str()), (9, "COMPLETED"));
}

#[test]
fn some_amounts_bring_bad_luck() {
    let bench = Bench::new();
    for (amount, status, error) in [
        ("13.13", "QUOTE_FAILED", json!("QUOTE_EXPIRED")),
        ("14.140", "CRYPTO_FAILED", json!("TRANSACTION_REJECTED")),
        ("15.15", "FIAT_FAILED", json!("FAILED_TO_CREATE_PAYMENT")),
        ("16.16", "FIAT_RETURNED", Value::Null),
        ("18.18", "IN_REVIEW", Value::Null),
    ] {
        bench.post("/v2/offramps", &offramp(amount, amount));
        bench.pass(60);
        let (_, page) = bench.get("/v2/offramps?limit=1");
        let record = &page["records"][0];
        assert_eq!((details(record, "status"), details(record, "error")), (&json!(status), &error));
    }
    let (status, refused) = bench.post("/v2/offramps", &offramp("o-1", "17.17"));
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("INSUFFICIENT_BALANCE")));
    assert_eq!(bench.simulator.journal().effects_of("o-1"), 0);
}

#[test]
fn fees_are_charged_exactly() {
    let bench = Bench::new();
    let mut body = offramp("o-1", "1500.00");
    let wallet = "0x8e602f92d53a2b49107f42c02ba35c218d65f293";
    body["developerFee"] = json!({"fees": [
        {"type": "PERCENTAGE", "value": "0.0005", "walletAddress": wallet},
        {"type": "FLAT", "value": "1.25", "walletAddress": wallet},
    ]});
    let (_, record) = bench.post("/v2/offramps", &body);
    let fees = &details(&record, "developerFee")["fees"];
    assert_eq!((&fees[0]["amount"], &fees[1]["amount"]), (&json!("0.75"), &json!("1.25")));
    assert_eq!(details(&record, "quoteInformation")["sendNet"]["amount"], "1498.00");
}

#[test]
fn a_request_that_comes_twice_makes_two_effects() {
    let bench = Bench::new();
    let (_, first) = bench.post(SWAPS, &swap("twice", json!({})));
    let (_, second) = bench.post(SWAPS, &swap("twice", json!({})));
    assert_ne!(details(&first, "id"), details(&second, "id"));
    let journal = bench.simulator.journal();
    assert_eq!((journal.effects_of("twice"), journal.calls_of("createSwap"), journal.total_effects()), (2, 2, 2));
}

#[test]
fn unless_the_simulator_is_idempotent() {
    let bench = Bench::with(Settings { idempotent: true, ..Settings::default() });
    for (target, body) in [(SWAPS, swap("twice", json!({}))), ("/v2/offramps", offramp("again", "5"))] {
        let (first, second) = (bench.post(target, &body), bench.post(target, &body));
        assert_eq!((details(&first.1, "id"), first.0), (details(&second.1, "id"), second.0));
    }
    let journal = bench.simulator.journal();
    assert_eq!((journal.effects_of("twice"), journal.effects_of("again"), journal.total_effects()), (1, 1, 2));
    assert!(!journal.last().unwrap().effect);
}

#[test]
fn an_offer_is_accepted_once() {
    let bench = Bench::new();
    let (wallet, offer) = (bench.seeded("/offers/0/walletId"), bench.seeded("/offers/0/id"));
    let accept = format!("/v2/wallets/{}/offers/{offer}/accept", wallet.to_uppercase());
    let (status, record) = bench.post(&accept, &json!({}));
    assert_eq!((status, &record["status"]), (200, &json!("ACCEPTED")));
    assert!(record["executionTransactionHash"].is_string());
    assert_eq!(bench.post(&accept, &json!({})).1["error"]["details"]["status"], "ACCEPTED");
    let claim = format!("{}/{offer}", wallet.to_uppercase());
    assert_eq!(bench.simulator.journal().effects_of(&claim), 1);
    let others = bench.simulator.data()["offers"].as_array().unwrap().clone();
    let statuses: Vec<_> = others.iter().map(|o| o["status"].as_str().unwrap()).collect();
    assert!(statuses.contains(&"EXPIRED") && statuses.contains(&"WITHDRAWN"), "{statuses:?}");
    let foreign = format!("/v2/wallets/{}/offers/{offer}/accept", bench.seeded("/offers/1/walletId"));
    assert_eq!(bench.post(&foreign, &json!({})).0, 404);
}

#[test]
fn a_rule_set_is_given_back_whole() {
    let bench = Bench::new();
    let body = json!({
        "requestId": "r-1",
        "chain": "BASE",
        "rules": [{"type": "FIXED", "calculationModel": "TIERED", "walletAddress": "w", "tiers": [{"max": "10", "value": 1.50}]}],
    });
    let (status, record) = bench.post("/v2/virtual-accounts/settlement-rules", &body);
    assert_eq!((status, &record["includeServiceFee"]), (201, &json!(false)));
    assert_eq!(record["rules"][0]["value"], Value::Null);
    assert_eq!(record["rules"][0]["tiers"][0]["min"], "");
}

#[test]
fn a_swap_may_fail_after_it_has_begun() {
    let bench = Bench::new();
    let source = json!({"source": {"currency": "usdt", "amount": "14.14"}});
    bench.post(SWAPS, &swap("s-1", source));
    bench.pass(3);
    assert_eq!(details(&state_of(&bench, "s-1"), "status"), "PENDING");
    bench.pass(1);
    let failed = state_of(&bench, "s-1");
    assert_eq!(
        (details(&failed, "status"), details(&failed, "error")),
        (&json!("FAILED"), &json!("TRANSACTION_REJECTED"))
    );
}

#[test]
fn a_cancellation_that_was_asked_for_is_not_overtaken() {
    let bench = Bench::new();
    let (_, record) = bench.post(SWAPS, &swap("s-1", json!({"cancelAfterSeconds": 60})));
    let cancel = format!("{SWAPS}/{}/cancel", details(&record, "id").as_str().unwrap());
    bench.pass(1);
    assert_eq!(bench.post(&cancel, &json!({})).0, 200);
    for (secs, status) in [(1, "CREATED"), (1, "CANCELLED"), (100, "CANCELLED")] {
        bench.pass(secs);
        assert_eq!(details(&state_of(&bench, "s-1"), "status"), status);
    }
    assert_eq!(details(&state_of(&bench, "s-1"), "updatedAt"), "2025-03-01T12:00:03Z");
}
