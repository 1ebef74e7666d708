//! The same request again: the same answer. Another request under its name: nothing.

use sluice::catalog::ClaimSource;

use super::{assert_again, named, pay, swap, told};
use crate::support::clock::http_date;
use crate::support::shape::{answering, fresh_id, odd_answer, operations, swap_record, valid};
use crate::support::upstream::answer;
use crate::support::{Act, Call, Setup, Upstream, post};

#[test]
fn an_answer_is_given_again_as_it_was() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let claimed: Vec<_> = operations().filter(|operation| operation.claim.is_some()).collect();
    assert_eq!(claimed.len(), 4);
    // The time of the first answer, not of the repeats.
    let date = http_date(-30);
    for (at, operation) in claimed.into_iter().enumerate() {
        let headers = [
            ("Content-Type", "application/json; charset=utf-8"),
            ("Content-Language", "en"),
            ("ETag", "\"7\""),
            ("Date", date.as_str()),
            ("RateLimit-Remaining", "7"),
            ("Set-Cookie", "a=b"),
        ];
        let call = valid(operation);
        let body = answering(operation, &call.line(), odd_answer(operation));
        upstream.next(Act::bytes(answer(201, &headers, &body)));
        let first = call.send(gate.production());
        assert_eq!(told(&first), "201 - executed", "{}", operation.id);
        assert_eq!(first.body, body);
        for round in ["one", "two", "three"] {
            let again = call.clone().header("X-Request-Id", round).send(gate.production());
            assert_again(&first, &again);
            for kept in ["content-language", "etag"] {
                assert_eq!(again.header(kept), first.header(kept), "{kept}");
                assert!(again.header(kept).is_some(), "{kept}");
            }
            assert_eq!((again.header("ratelimit-remaining"), again.header("set-cookie")), (None, None));
            assert_ne!(again.header("date").as_ref(), Some(&date));
            assert_eq!(again.header("x-request-id").as_deref(), Some(round));
        }
        assert_eq!(upstream.seen().len(), at + 1, "{}", operation.id);
    }
}

#[test]
fn a_call_that_nothing_names_is_sent_each_time() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut sent = 0;
    for operation in operations().filter(|operation| operation.is_write() && operation.claim.is_none()) {
        let call = valid(operation);
        for _ in 0..2 {
            assert_eq!(told(&call.send(gate.production())), "200 - executed", "{}", operation.id);
            sent += 1;
        }
    }
    assert_eq!(upstream.seen().len(), sent);
}

const MEANT: &str = r#"{"requestId":"r-1","source":{"amount":"1.50","chain":"POLYGON","currency":"usdc"},"destination":{"chain":"POLYGON","currency":"usdt"},"cancelAfterSeconds":600}"#;

#[test]
fn a_request_is_the_same_however_it_is_written() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    upstream.next(Act::json(201, swap_record("first")));
    let first = pay(MEANT).send(gate.production());
    assert_eq!(told(&first), "201 - executed", "{first}");
    let spaced = MEANT.replace(':', " : ").replace(',', "\r\n\t,");
    let turned = r#"{"cancelAfterSeconds":600,"destination":{"currency":"usdt","chain":"POLYGON"},"source":{"currency":"usdc","amount":"1.50","chain":"POLYGON"},"requestId":"r-1"}"#;
    let escaped = MEANT.replace("r-1", "\\u0072-1").replace("\"source\"", "\"so\\u0075rce\"");
    let swaps = || post("/v2/wallets/swaps");
    let same: [Call; 6] = [
        pay(&spaced),
        pay(turned),
        pay(&escaped),
        swaps().chunked(&spaced, 7),
        swaps().header("Content-Type", "Application/JSON; charset=\"utf-8\"").body(MEANT),
        pay(MEANT).header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    for call in same {
        assert_again(&first, &call.send(gate.production()));
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn another_request_under_a_used_name_is_refused() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert_eq!(told(&pay(MEANT).send(gate.production())), "200 - executed");
    let offramp = operations().find(|operation| operation.id.as_str() == "createOfframp").unwrap();
    let Some(ClaimSource::Body(_)) = offramp.claim else { panic!("an offramp is named by its body") };
    let other_operation = valid(offramp);
    let mut offramp_body: serde_json::Value = serde_json::from_slice(&other_operation.body_bytes()).unwrap();
    offramp_body["requestId"] = "r-1".into();
    let others: [Call; 6] = [
        pay(MEANT.replace("1.50", "1.5")),
        pay(MEANT.replace("1.50", "150")),
        pay(MEANT.replace("POLYGON", "polygon")),
        pay(MEANT.replace("\"cancelAfterSeconds\":600", "\"cancelAfterSeconds\":601")),
        pay(named("r-1")),
        post("/v2/offramps").json(offramp_body.to_string()),
    ];
    for call in others {
        let refused = call.send(gate.production());
        assert_eq!(told(&refused), "422 REQUEST_ID_REUSED unknown", "{call:?}: {refused}");
        assert_eq!(refused.origin(), "gateway");
    }
    assert_eq!(upstream.seen().len(), 1);
}

/// One payment has one name, in whatever case and with whatever hyphens it is spelled; a body in which it is spelled otherwise is another.
#[test]
fn a_uuid_in_another_form_names_the_same_claim_with_another_request() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let accept = |offer: &str| post(format!("/v2/wallets/{offer}/offers/{offer}/accept"));
    let id = fresh_id();
    for call in [|id: &str| pay(named(id)), |id: &str| post(format!("/v2/wallets/{id}/offers/{id}/accept"))] {
        let at = upstream.seen().len();
        let first = call(&id).send(gate.production());
        assert_eq!(told(&first), "200 - executed");
        let bare = id.replace('-', "");
        for other in [id.to_uppercase(), bare.clone(), bare.to_uppercase(), format!("{}-{}", &bare[..4], &bare[4..])] {
            let other = call(&other).send(gate.production());
            assert_eq!(told(&other), "422 REQUEST_ID_REUSED unknown", "{other}");
        }
        assert_again(&first, &call(&id).send(gate.production()));
        assert_eq!(upstream.seen().len(), at + 1);
    }
    assert_eq!(told(&accept(&fresh_id()).send(gate.production())), "200 - executed");
    for id in ["swap-1", "SWAP-1"] {
        assert_eq!(told(&pay(named(id)).send(gate.production())), "200 - executed", "{id} is no UUID");
    }
}

#[test]
fn each_environment_has_claims_of_its_own() {
    let (production, sandbox) = (Upstream::start(), Upstream::start());
    let gate = Setup::of(&production).sandbox(&sandbox).start();
    production.always(Act::json(201, swap_record("of production")));
    sandbox.always(Act::json(201, swap_record("of sandbox")));
    let call = swap();
    for address in [gate.production(), gate.sandbox()] {
        let first = call.send(address);
        assert_eq!(told(&first), "201 - executed");
        assert_again(&first, &call.send(address));
    }
    assert_eq!((production.seen().len(), sandbox.seen().len()), (1, 1));
    assert_eq!(call.send(gate.sandbox()).json()["transferDetails"]["status"], "of sandbox");
    assert_eq!(call.send(gate.production()).json()["transferDetails"]["status"], "of production");
}
