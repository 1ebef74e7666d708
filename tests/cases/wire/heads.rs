//! Heads of upstream's answers that are too long, or do not end.

use super::{swap, told};
use crate::support::{Act, Setup, Upstream, get};

fn head(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nX-Long: {}", "a".repeat(bytes))
}

#[test]
fn a_head_that_is_too_long_is_a_cut_answer() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let endless = Act::bytes(head(70_000)).blind().hang();
    upstream.next(endless.clone());
    assert_eq!(told(&swap("long").send(gate.production())), (502, "OUTCOME_UNKNOWN".into(), "unknown".into()));
    upstream.next(endless);
    let answer = get("/v2/users").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (502, "UPSTREAM_UNAVAILABLE"), "{answer}");
}

#[test]
fn a_long_head_waits_for_room_and_passes() {
    let upstream = Upstream::start();
    // Besides the longest answer, a caller has room for one head.
    let gate = Setup::of(&upstream).limit("answer_bytes", 16_384).limit("answers_bytes", 262_144).start();
    for _ in 0..3 {
        let body = r#"{"count":0,"records":[],"nextCursor":""}"#;
        let rest = format!("\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        upstream.next(Act::bytes(head(60_000) + &rest));
        let answer = get("/v2/users").send(gate.production());
        assert_eq!((answer.status, answer.text().as_str()), (200, body));
    }
    assert_eq!(gate.metric(r#"sluice_answers_waited_total{environment="production"}"#), 0);
}
