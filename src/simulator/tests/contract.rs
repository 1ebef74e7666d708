//! Whatever the simulator is asked, its answer is one that the contract allows.

use super::*;

#[track_caller]
fn assert_allowed(operation: &Operation, (status, body): &(u16, Value)) {
    let answer = operation.answer(*status).unwrap();
    let violations = answer.contract.violations(body);
    assert!(violations.is_empty(), "{} {status}: {violations:?}\n{body:#}", operation.id);
}

/// A target that leads somewhere: the seeded user, and what that user has.
fn target(bench: &Bench, operation: &Operation) -> String {
    let swap_id = bench.post("/v2/wallets/swaps", &super::swap("for-cancelling", json!({}))).1;
    let id = |name: &str| match (operation.id.as_str(), name) {
        (_, "userId") => bench.seeded("/users/0/id"),
        ("getVirtualAccount", "accountId") => bench.seeded("/virtualAccounts/0/id"),
        ("getAccount", "accountId") => bench.seeded("/accounts/0/id"),
        (_, "orchestrationAddressId") => bench.seeded("/orchestrationAddresses/0/id"),
        (_, "transferId") => bench.seeded("/transfers/0/id"),
        (_, "walletId") => bench.seeded("/offers/0/walletId"),
        (_, "offerId") => bench.seeded("/offers/0/id"),
        (_, "swapId") => details(&swap_id, "id").as_str().unwrap().to_owned(),
        (operation, name) => panic!("no value for `{name}` of {operation}"),
    };
    let values: Vec<_> = operation.template.parameters().map(|name| (name.to_owned(), id(name))).collect();
    operation.template.fill(&values)
}

#[test]
fn every_operation_succeeds_as_the_contract_says() {
    let files = SchemaFiles::built_in();
    let catalog = catalog();
    assert!(catalog.operations().len() >= 18);
    for operation in catalog.operations() {
        let bench = Bench::new();
        let target = target(&bench, operation);
        let good = examples(&files, operation).unwrap();
        let body = good.iter().find(|e| e.good && !e.answer).map(|e| e.value.to_string());
        let sent = bench.send(operation.method.as_str(), &target, body, Some("Bearer t"));
        assert!((200..300).contains(&sent.0), "{}: {sent:?}", operation.id);
        assert!(operation.success().unwrap().contract.accepts(&sent.1), "{}: {:#}", operation.id, sent.1);
        assert_allowed(operation, &sent);
    }
}

#[test]
fn examples_are_taken_or_refused_as_the_contract_says() {
    let files = SchemaFiles::built_in();
    let bench = Bench::new();
    for operation in catalog().operations().iter().filter(|o| o.body.is_some()) {
        let first = target(&bench, operation);
        let business = first.replace(&bench.seeded("/users/0/id"), &bench.seeded("/users/3/id"));
        for example in examples(&files, operation).unwrap().into_iter().filter(|e| !e.answer) {
            let target = if example.value.get("type") == Some(&json!("business")) { &business } else { &first };
            let sent = bench.post(target, &example.value);
            assert_allowed(operation, &sent);
            if !example.good {
                assert_eq!(sent.0, 400, "{}", example.file);
            } else if sent.0 != 201 && sent.0 != 200 {
                // Nothing that could be quoted.
                assert!(
                    example.file.ends_with("/good-empty-source-and-destination.json"),
                    "{}: {sent:?}",
                    example.file
                );
            }
        }
    }
}

#[test]
fn every_kind_of_refusal_is_allowed_for_every_operation() {
    let refusals = [
        SimulatorRefusal::NoCredentials,
        SimulatorRefusal::BadCredentials,
        SimulatorRefusal::UnknownPath,
        SimulatorRefusal::WrongMethod { allowed: vec![http::Method::GET] },
        SimulatorRefusal::TooLarge,
        SimulatorRefusal::NotJson,
        SimulatorRefusal::violation("/x", "type", "y"),
        SimulatorRefusal::NotFound { what: "user" },
        SimulatorRefusal::NotCancellable { status: "PENDING", requested: false },
        SimulatorRefusal::OfferNotOpen { status: "EXPIRED" },
        SimulatorRefusal::InsufficientBalance,
        SimulatorRefusal::NoBehaviour,
    ];
    for operation in catalog().operations() {
        for refusal in &refusals {
            let answer = refusal.answer(Some(operation));
            assert_allowed(operation, &(answer.status, answer.body));
        }
    }
}

#[test]
fn credentials_are_asked_for_in_the_documented_shape() {
    let bench = Bench::new();
    let unauthorized = |target: &str, authorization| bench.send("GET", target, None, authorization);
    assert_eq!(unauthorized("/v2/offramps", None).1["code"], 401);
    assert_eq!(unauthorized("/v2/offramps", Some("Bearer invalid")).1["code"], 401);
    assert_eq!(unauthorized("/v2/users", None).1["code"], 401);
    assert_eq!(unauthorized("/v2/users", Some("Basic abc")).0, 401);
    let wrong_key = (401, json!({"error": "API key is invalid or user not found"}));
    assert_eq!(unauthorized("/v2/users", Some("Bearer invalid")), wrong_key);
    assert_eq!(unauthorized("/v2/users", Some("Bearer ")), wrong_key);
}

#[test]
fn what_does_not_exist_is_said_so() {
    let bench = Bench::new();
    assert_eq!(bench.get("/v2/nothing").0, 404);
    assert_eq!(bench.send("DELETE", "/v2/users", None, None).0, 405);
    assert_eq!(bench.get("/v2/users/8a6e0804-2bd0-4672-b79d-d97027f9071a/kyc/status").0, 404);
    assert_eq!(bench.get("/v2/wallets/transfers/none").1["error"]["code"], "NOT_FOUND");
    assert_eq!(bench.get("/v2/offramps?limit=101").1["error"]["details"]["violations"][0]["pointer"], "/query/limit");
    assert_eq!(bench.get("/v2/offramps?createdBefore=yesterday").0, 400);
}

#[test]
fn an_operation_without_a_behaviour_is_answered_with_its_example() {
    let mut files = SchemaFiles::built_in();
    let document = String::from_utf8(files.read("openapi.json").unwrap().to_vec()).unwrap();
    let renamed =
        document.replace("\"listTransfers\"", "\"listPayments\"").replace("/v2/wallets/transfers\"", "/v3/payments\"");
    files.insert("openapi.json", renamed.into_bytes());
    files.insert("examples/listPayments/answer-good-one.json", br#"{"count": 0, "records": []}"#.to_vec());
    let clock = Arc::new(HandClock::default());
    let simulator = Simulator::of_files(&files, clock.clone(), Settings::default()).unwrap();
    let bench = Bench { simulator, clock };
    assert_eq!(bench.get("/v3/payments"), (200, json!({"count": 0, "records": []})));
}
