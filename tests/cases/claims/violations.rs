//! A body that is refused, and a requestId that may have been used: what was paid is told first.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{assert_again, named, pay, swap, told};
use crate::support::shape::{fresh_id, swap_record};
use crate::support::shared::Signal;
use crate::support::{Act, Answer, Caller, Setup, Upstream, copy_folder, post};

const INVALID: &str = "400 INVALID_REQUEST not-executed";

/// A body that no swap may have.
fn invalid(request_id: &str) -> String {
    named(request_id).replace("\"amount\":\"1\"", "\"amount\":\"-1\"")
}

#[test]
fn a_refused_body_leaves_its_request_id_free() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for _ in 0..2 {
        let refused = pay(invalid("r-1")).send(gate.production());
        assert_eq!(told(&refused), INVALID, "{refused}");
    }
    let sent = pay(named("r-1")).send(gate.production());
    assert_eq!(told(&sent), "200 - executed");
    assert_again(&sent, &pay(named("r-1")).send(gate.production()));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_refused_body_under_a_used_name_is_told_that_it_is_used() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let reused = "422 REQUEST_ID_REUSED unknown";
    let heard = || told(&pay(invalid("r-1")).send(gate.production()));

    let go = Signal::new();
    upstream.next(Act::done(201).after(&go));
    let mut first = Caller::connect(gate.production());
    first.send(pay(named("r-1")).bytes());
    upstream.wait_for(0);
    assert_eq!(heard(), reused);
    go.give();
    assert_eq!(told(&first.answer()), "201 - executed");
    assert_eq!(heard(), reused);
    // Of what cannot be read nothing can be looked up.
    for unreadable in [&named("r-1")[..20], r#"{"requestId":"r-1","requestId":"r-1"}"#] {
        assert_eq!(told(&pay(unreadable).send(gate.production())), "400 INVALID_JSON unknown");
    }
    for nameless in [r#"{"requestId":"r 1"}"#, r#"{"requestId":1}"#, "{}", "[]"] {
        assert_eq!(told(&pay(nameless).send(gate.production())), "400 INVALID_REQUEST unknown", "{nameless}");
    }
    assert_eq!(upstream.seen().len(), 1);
}

/// Its name is its path: what stands in a body that it may not have changes nothing of what was accepted.
#[test]
fn an_offer_that_was_accepted_stays_accepted() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let id = crate::support::shape::ID;
    let accept = || post(format!("/v2/wallets/{id}/offers/{id}/accept"));
    assert_eq!(told(&accept().json(r#"{"a":1}"#).send(gate.production())), INVALID);
    let first = accept().send(gate.production());
    assert_eq!(told(&first), "200 - executed");
    for body in [r#"{"a":1}"#, "[]", "{}"] {
        assert_again(&first, &accept().json(body).send(gate.production()));
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_payment_stays_made_when_the_contract_changes() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (paid, refused, in_doubt) = (swap(), swap(), swap());
    upstream.next(Act::json(201, swap_record("paid")));
    upstream.next(Act::json(400, r#"{"status":"error","error":{"code":"X","message":"y"}}"#));
    upstream.next(Act::silence().close());
    let first: Vec<Answer> = [&paid, &refused, &in_doubt].map(|call| call.send(gate.production())).into();
    assert_eq!(
        first.iter().map(told).collect::<Vec<_>>(),
        ["201 - executed", "400 X not-executed", "502 OUTCOME_UNKNOWN unknown"]
    );

    let setup = gate.end();
    let schemas = setup.path("schemas");
    stricter(&schemas);
    let gate = setup.set("catalog", "schemas", schemas.to_str().unwrap()).start();

    let refusal = swap().send(gate.production());
    assert_eq!(told(&refusal), INVALID, "what was valid no longer is: {refusal}");
    assert_again(&first[0], &paid.send(gate.production()));
    assert_again(&first[1], &refused.send(gate.production()));
    assert_eq!(told(&in_doubt.send(gate.production())), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(upstream.seen().len(), 3);
}

/// The contract, in which the requestIds of these tests are no longer good.
pub(super) fn stricter(folder: &Path) {
    copy_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas")), folder);
    let file = folder.join("swap.json");
    let mut schema: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let request_id = schema.pointer_mut("/$defs/create/properties/requestId").unwrap();
    let begin = &fresh_id()[..4];
    *request_id = json!({ "allOf": [request_id.take(), { "not": { "pattern": format!("^{begin}") } }] });
    fs::write(&file, schema.to_string()).unwrap();
}
