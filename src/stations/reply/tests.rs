use http::Method;

use super::*;
use crate::base::ids::OperationId;
use crate::base::json::{self, Limits};
use crate::catalog::{Catalog, SchemaFiles};

fn catalog() -> Catalog {
    Catalog::build(&SchemaFiles::built_in(), &[]).unwrap()
}

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Admit(AdmitRefusal::Malformed("a reason")),
        Refusal::Admit(AdmitRefusal::TargetTooLong),
        Refusal::Admit(AdmitRefusal::HeadTooLarge("a reason")),
        Refusal::Admit(AdmitRefusal::HeadSlow),
        Refusal::Admit(AdmitRefusal::UnknownPath),
        Refusal::Admit(AdmitRefusal::MethodNotAllowed(vec![Method::GET, Method::POST])),
        Refusal::Admit(AdmitRefusal::Unauthorized("a reason")),
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::Signature { issuer: 0, is_key_named: true })),
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::Expired)),
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::NoKeys { issuer: 0 })),
        Refusal::Admit(AdmitRefusal::NoRoomToWait),
        Refusal::Admit(AdmitRefusal::WrongEnvironment),
        Refusal::Exceeded(Exceeded { rates: vec!["per-caller".into()], retry_after_secs: 12 }),
        Refusal::Check(CheckRefusal::MediaType("a reason")),
        Refusal::Check(CheckRefusal::TooLarge { limit_bytes: 7 }),
        Refusal::Check(CheckRefusal::Json(json::parse(b"{", Limits::REQUEST).unwrap_err())),
        Refusal::Check(CheckRefusal::Violations(vec![Violation::new("/a", "type", "a string")])),
        Refusal::BodySlow,
        Refusal::BodyBroken,
        Refusal::NoRoom,
    ]
}

/// Status, code and body of every refusal: what integrators rely on.
#[test]
fn refusals_are_told_as_the_table_says() {
    let catalog = catalog();
    let swap = catalog.operation(&OperationId::new("createSwap")).unwrap();
    let lines: Vec<String> = refusals()
        .iter()
        .map(|refusal| {
            let reply = refused(refusal, Some(swap));
            let headers: Vec<String> =
                reply.headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
            format!("{} {}\n{}", reply.status, headers.join(", "), String::from_utf8_lossy(&reply.body))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[test]
fn every_own_answer_is_within_the_contract() {
    let catalog = catalog();
    for operation in catalog.operations() {
        for refusal in refusals() {
            let reply = refused(&refusal, Some(operation));
            let value = json::parse(&reply.body, Limits::ANSWER).unwrap();
            let violations = operation.answer(reply.status).unwrap().contract.violations(&value);
            assert!(violations.is_empty(), "{} {}: {violations:?}", operation.id, reply.status);
        }
    }
}

#[test]
fn a_refusal_does_not_claim_to_know_what_it_did_not_look_up() {
    let catalog = catalog();
    let executed =
        |id: &str| refused(&Refusal::BodySlow, catalog.operation(&OperationId::new(id)).map(|o| &**o)).executed;
    assert_eq!(executed("createSwap"), Some(Executed::Unknown));
    assert_eq!(executed("acceptOffer"), Some(Executed::Unknown));
    assert_eq!(executed("cancelSwap"), Some(Executed::No));
    assert_eq!(executed("listOfframps"), None);
}

#[test]
fn an_executed_payment_is_never_told_as_a_failure() {
    let catalog = catalog();
    let swap = catalog.operation(&OperationId::new("createSwap")).unwrap();
    let id = RequestId::parse("r-1").unwrap();
    let cut = Outcome::Executed { status: 201, headers: HeaderMap::new(), body: None };
    let reply = settled(&cut, swap, Some(&id), Earlier::None);
    assert_eq!((reply.status, reply.executed), (201, Some(Executed::Yes)));
    assert_eq!(reply.body, r#"{"requestId":"r-1","status":"executed"}"#);
}

/// The store was slow, or the gate is ending: nothing was sent. Of earlier attempts, that proves nothing.
#[test]
fn a_gate_that_was_too_late_sends_nothing_and_says_so() {
    let catalog = catalog();
    let swap = catalog.operation(&OperationId::new("createSwap")).unwrap();
    for (earlier, executed, says) in [
        (Earlier::None, Executed::No, "Nothing was sent: repeat with the same requestId."),
        (Earlier::Unproven, Executed::Unknown, "Later, repeat with the same requestId."),
        (Earlier::Forgotten, Executed::Unknown, "Later, repeat with the same requestId."),
    ] {
        let reply = settled(&Outcome::NotExecuted(NotExecuted::TooLate), swap, None, earlier);
        let told = (reply.status, reply.code, reply.executed);
        assert_eq!(told, (503, Some(Code::StoreUnavailable), Some(executed)));
        let body = json::parse(&reply.body, Limits::ANSWER).unwrap();
        assert!(body["errorDetails"].as_str().unwrap().contains(says), "{body}");
        assert_eq!((&body["code"], &body["error"]), (&503.into(), &"STORE_UNAVAILABLE".into()), "{body}");
        assert!(reply.headers.contains_key("retry-after"), "{:?}", reply.headers);
    }
}

#[test]
fn what_is_in_doubt_says_so_with_upstreams_status() {
    let catalog = catalog();
    let swap = catalog.operation(&OperationId::new("createSwap")).unwrap();
    for (doubt, status) in [
        (Doubt::Silent, 504),
        (Doubt::Broken, 502),
        (Doubt::Redirected, 502),
        (Doubt::Answered { status: 500, headers: HeaderMap::new(), body: Some(Bytes::from_static(b"{}")) }, 500),
        (Doubt::Answered { status: 409, headers: HeaderMap::new(), body: None }, 409),
    ] {
        let reply = settled(&Outcome::Unknown(doubt), swap, None, Earlier::None);
        assert_eq!(
            (reply.status, reply.executed, reply.code),
            (status, Some(Executed::Unknown), Some(Code::OutcomeUnknown))
        );
    }
}

#[test]
fn a_rebuilt_error_has_the_documented_shape_and_nothing_of_upstreams() {
    let catalog = catalog();
    let list = catalog.operation(&OperationId::new("listOfframps")).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
    let page = Bytes::from_static(b"<html>stack trace in db-7.internal</html>");
    for (status, field) in [(500, "errorDetails"), (401, "errorDetails"), (404, "status"), (418, "status")] {
        let rebuilt = read_error(list, status, &headers, Some(&page));
        let text = String::from_utf8_lossy(rebuilt.body()).into_owned();
        assert!(matches!(rebuilt, ReadError::Rebuilt(_)) && text.contains(field) && !text.contains("db-7"), "{text}");
    }
    headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
    let of_shape_d = Bytes::from_static(br#"{"error":"API key is invalid"}"#);
    assert!(matches!(read_error(list, 401, &headers, Some(&of_shape_d)), ReadError::Rebuilt(_)));
    assert!(matches!(read_error(list, 418, &headers, Some(&of_shape_d)), ReadError::AsItCame(_)));
}

#[test]
fn headers_of_the_connection_and_of_ours_are_not_passed() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "x-hop, close"),
        ("x-hop", "1"),
        ("sluice-outcome", "not-executed"),
        ("set-cookie", "a=b"),
        ("server", "nginx"),
        ("etag", "\"1\""),
        ("content-type", "application/json"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let reply = from_upstream(200, &headers, Bytes::new(), None);
    let mut names: Vec<_> = reply.headers.keys().map(|n| n.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "etag"]);
}
