//! Answers after the deadline: who called hears that the outcome is unknown, and the gate listens on.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{ANSWER_MS, setup, swap, told, until_known};
use crate::support::clock::{Watch, wait_until};
use crate::support::shape::swap_record;
use crate::support::shared::Signal;
use crate::support::upstream::answer;
use crate::support::{Act, Caller, Setup, Upstream};

const REFUSED: &str = r#"{"code":400,"error":"INSUFFICIENT_BALANCE","errorDetails":"no"}"#;
const UNKNOWN: (u16, &str, &str) = (504, "OUTCOME_UNKNOWN", "unknown");

fn as_told(told: &(u16, String, String)) -> (u16, &str, &str) {
    (told.0, told.1.as_str(), told.2.as_str())
}

#[test]
fn an_answer_at_nearly_twice_the_deadline_is_heard() {
    let (upstream, go) = (Upstream::start(), Signal::new());
    let gate = setup(&upstream).start();
    let watch = Watch::start();
    upstream.next(Act::json(201, swap_record("LATE")).after(&go));
    let first = swap("late-1").send(gate.production());
    assert_eq!(as_told(&told(&first)), UNKNOWN, "{first}");
    assert_eq!(told(&swap("late-1").send(gate.production())).1, "OUTCOME_UNKNOWN");
    wait_until("1.9 times the deadline", || watch.elapsed() > Duration::from_millis(ANSWER_MS * 19 / 10));
    go.give();
    let known = until_known(&gate, "late-1");
    assert_eq!((known.status, known.outcome().as_str()), (201, "executed"), "{known}");
    assert_eq!(known.text(), swap_record("LATE"));
    assert_eq!(upstream.seen().len(), 1);
}

/// Servers hang up on a client that ends its sending side, and answer nothing.
#[test]
fn upstream_sees_no_end_while_the_gate_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Setup::new()
        .environment("production", &format!("http://{}", listener.local_addr().unwrap()))
        .timeout_ms("answer_ms", ANSWER_MS)
        .start();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_late(stream));
        }
    });
    assert_eq!(as_told(&told(&swap("late-7").send(gate.production()))), UNKNOWN);
    assert_eq!(until_known(&gate, "late-7").text(), swap_record("LATE"));
}

/// Answers a request at 1.9 times the deadline, unless the client ends its sending side before.
fn answer_late(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&request).contains("requestId") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => request.extend_from_slice(&piece[..count]),
            Ok(0) | Err(_) => return,
        }
    }
    stream.set_read_timeout(Some(Duration::from_millis(ANSWER_MS * 19 / 10))).unwrap();
    if stream.read(&mut piece).is_err() {
        let json = [("Content-Type", "application/json")];
        stream.write_all(&answer(201, &json, swap_record("LATE").as_bytes())).ok();
    }
}

#[test]
fn a_late_answer_that_drips_is_heard_to_its_end() {
    let (upstream, head, body, end) = (Upstream::start(), Signal::new(), Signal::new(), Signal::new());
    let gate = setup(&upstream).start();
    upstream.next(
        Act::silence()
            .wait(&head)
            .send("HTTP/1.1 400 Bad\r\nContent-Type: appli")
            .wait(&body)
            .send(format!("cation/json\r\nContent-Length: {}\r\n\r\n{}", REFUSED.len(), &REFUSED[..9]))
            .wait(&end)
            .send(&REFUSED[9..]),
    );
    let mut caller = Caller::connect(gate.production());
    caller.send(swap("late-2").bytes());
    upstream.wait_for(0);
    head.give();
    let first = caller.answer();
    assert_eq!(as_told(&told(&first)), UNKNOWN, "{first}");
    body.give();
    assert_eq!(told(&swap("late-2").send(gate.production())).1, "OUTCOME_UNKNOWN");
    end.give();
    let known = until_known(&gate, "late-2");
    assert_eq!(told(&known), (400, "INSUFFICIENT_BALANCE".into(), "not-executed".into()), "{known}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_late_answer_that_proves_nothing_leaves_the_outcome_unknown() {
    let (upstream, go) = (Upstream::start(), Signal::new());
    let gate = setup(&upstream).start();
    upstream.next(Act::answer(500, "text/html", "<p>").after(&go));
    assert_eq!(as_told(&told(&swap("late-3").send(gate.production()))), UNKNOWN);
    go.give();
    // The gate resets the connection once it has read the answer.
    upstream.close_idle();
    let again = swap("late-3").send(gate.production());
    assert_eq!(told(&again).1, "OUTCOME_UNKNOWN", "{again}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn an_answer_that_came_while_the_process_was_stopped_is_read() {
    let (upstream, go) = (Upstream::start(), Signal::new());
    let gate = setup(&upstream).start();
    for (at, id) in ["stopped-1", "stopped-2", "stopped-3"].into_iter().enumerate() {
        upstream.next(Act::done(201).after(&go).close());
        let mut caller = Caller::connect(gate.production());
        caller.send(swap(id).bytes());
        upstream.wait_for(at);
        let watch = Watch::start();
        gate.signal("STOP");
        go.give();
        wait_until("the deadline to be over", || watch.elapsed() > Duration::from_millis(ANSWER_MS * 2));
        gate.signal("CONT");
        let answer = caller.answer();
        assert_eq!((answer.status, answer.outcome().as_str()), (201, "executed"), "{answer}");
    }
}

#[test]
fn an_orderly_end_does_not_wait_for_late_answers() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start();
    upstream.next(Act::silence().hang());
    assert_eq!(as_told(&told(&swap("late-4").send(gate.production()))), UNKNOWN);
    let watch = Watch::start();
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
}

#[test]
fn an_end_hears_what_comes_while_others_are_being_sent() {
    let (upstream, late, other) = (Upstream::start(), Signal::new(), Signal::new());
    let gate = setup(&upstream).timeout_ms("answer_ms", 1_500).start();
    upstream.next(Act::done(201).after(&late)).next(Act::done(201).after(&other));
    assert_eq!(as_told(&told(&swap("late-5").send(gate.production()))), UNKNOWN);
    let mut caller = Caller::connect(gate.production());
    caller.send(swap("late-6").bytes());
    upstream.wait_for(1);
    gate.terminate();
    late.give();
    gate.log.wait("the late answer", |lines| {
        let heard = |line: &serde_json::Value| line["message"].as_str().is_some_and(|m| m.contains("late answer"));
        lines.iter().any(heard).then_some(())
    });
    other.give();
    assert_eq!(caller.answer().status, 201);
    assert_eq!(gate.wait_end().code(), Some(0));
}
