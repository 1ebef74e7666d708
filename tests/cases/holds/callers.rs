//! What callers hear of their own calls that wait, and nobody of another's.

use std::net::SocketAddr;

use serde_json::json;

use super::{RULES, all_agree, answered, gate, held, say, sent, state, swap, text};
use crate::support::token::{claims, signed};
use crate::support::{Act, Answer, Call, Upstream, get, post};

fn as_other(call: Call) -> Call {
    let mut claims = claims();
    claims["sub"] = json!("another");
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&claims)))
}

fn cancel(id: &str) -> Call {
    post(format!("/sluice/v1/holds/{id}/cancel"))
}

fn show(id: &str, at: SocketAddr) -> Answer {
    get(format!("/sluice/v1/holds/{id}")).send(at)
}

#[test]
fn its_own_caller_sees_and_cancels_it_and_nobody_else_learns_that_it_is_there() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "c-1");
    let (id, at) = (text(&hold, "id"), gate.production());
    assert_eq!(show(id, at).json()["hold"], hold);
    let (shown, cancelled) = (as_other(get(format!("/sluice/v1/holds/{id}"))), as_other(cancel(id)));
    let absent = show(&"0".repeat(32), at);
    for answer in [shown.send(at), cancelled.send(at)] {
        assert_eq!((answer.status, answer.code().as_str(), answer.json()), (404, "HOLD_NOT_FOUND", absent.json()));
    }
    let path = format!("/sluice/v1/holds/{id}");
    assert_eq!(get(path.as_str()).without("Authorization").send(at).status, 401);
    assert_eq!(Call::new("DELETE", path.as_str()).send(at).status, 405);
    assert_eq!(get(format!("{path}/approve")).send(at).status, 404);
    assert_eq!(state(&gate, &hold), "pending");

    let answer = cancel(id).send(at);
    assert_eq!((answer.status, &answer.json()["hold"]["state"]), (200, &json!("cancelled")), "{answer}");
    assert_eq!(cancel(id).send(at).code(), "HOLD_OVER");
    assert_eq!(say(&gate, "approve", &hold, "ops-1").code(), "HOLD_OVER");
    let answer = swap("c-1", "500").send(at);
    assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_CANCELLED"), "{answer}");
    assert_eq!(sent(&upstream), 0);
}

#[test]
fn another_body_or_caller_under_its_request_id_hears_nothing_of_it() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "d-1");
    for call in [swap("d-1", "501"), swap("d-1", "5"), as_other(swap("d-1", "500"))] {
        let answer = call.send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (422, "REQUEST_ID_REUSED"), "{answer}");
        assert!(!answer.text().contains(text(&hold, "id")), "{answer}");
    }
}

#[test]
fn who_would_rather_wait_hears_upstream() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let at = gate.production();
    let waiting = std::thread::spawn(move || swap("p-1", "500").header("Prefer", "wait=30").send(at));
    // Asked again, the same call tells its hold as soon as there is one.
    let hold = held(&gate, "p-1");
    all_agree(&gate, &hold);
    let answer = waiting.join().unwrap();
    assert_eq!((answer.status, answer.outcome()), (201, "executed".to_owned()), "{answer}");
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn clients_that_take_any_2xx_for_done_hear_a_refusal_and_the_call_waits_all_the_same() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).set("issuer.main", "holds", "refuse").start();
    let answer = swap("f-1", "500").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_REQUIRED"), "{answer}");
    assert_eq!(answer.outcome(), "held");
    let hold = answer.json()["error"]["details"]["hold"].clone();
    assert_eq!(answer.header("location"), Some(format!("/sluice/v1/holds/{}", text(&hold, "id"))));
    all_agree(&gate, &hold);
    let call = swap("f-1", "500");
    crate::support::clock::wait_until("it to be sent", || call.send(gate.production()).status == 201);
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn calls_that_nothing_names_wait_too_and_are_known_by_themselves() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let call = crate::support::shape::valid(crate::support::shape::operation("updateUser"));
    let answer = call.send(gate.production());
    assert_eq!(answer.status, 202, "{answer}");
    let hold = answer.json()["hold"].clone();
    assert_eq!((&hold["requestId"], hold["operation"].as_str()), (&serde_json::Value::Null, Some("updateUser")));
    assert_eq!(call.send(gate.production()).json()["hold"], hold, "its repeat is the poll");
    let others = as_other(call.clone()).send(gate.production());
    assert_ne!(others.json()["hold"]["id"], hold["id"], "another's is another call");
    let answers = crate::support::shape::examples(crate::support::shape::operation("updateUser"), "answer-good-");
    upstream.always(Act::json(200, &answers[0].1));
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    let answer = answered(&gate, &call);
    assert_eq!((answer.status, answer.outcome()), (200, "executed".to_owned()), "{answer}");
    assert_eq!(call.send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    assert_eq!(upstream.seen().len(), 1);
}

/// Asking again and again how a call stands takes from the rates of reads.
#[test]
fn asking_how_it_stands_is_rate_limited_as_reads_are() {
    let upstream = Upstream::start();
    let rate = "[[rate]]\nid = \"reads\"\nops = [\"@read\"]\nper = [\"caller\"]\nquota = \"3/h\"\n";
    let gate = gate(&upstream, &format!("{RULES}{rate}")).start();
    let hold = held(&gate, "r-1");
    let (id, at) = (text(&hold, "id"), gate.production());
    for _ in 0..3 {
        assert_eq!(show(id, at).status, 200);
    }
    let answer = show(id, at);
    assert_eq!((answer.status, answer.code().as_str()), (429, "RATE_LIMITED"), "{answer}");
    assert!(answer.header("retry-after").is_some() && answer.header("ratelimit").is_some(), "{answer}");
    assert_eq!(cancel(id).send(at).status, 429);
    assert_eq!(as_other(get(format!("/sluice/v1/holds/{id}"))).send(at).status, 404, "another has its own");
    assert_eq!(get(format!("/sluice/v1/holds/{id}")).without("Authorization").send(at).status, 401);
    assert_eq!(state(&gate, &hold), "pending");
}
