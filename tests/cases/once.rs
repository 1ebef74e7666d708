//! A write is sent once at most, a read twice; also over connections that upstream closes at the moment of use.

use crate::support::shape::{least_answer, operation, valid};
use crate::support::upstream::answer;
use crate::support::{Act, Gate, Setup, Upstream};

fn outcome_of(gate: &Gate, id: &str) -> (u16, String) {
    let answer = valid(operation(id)).send(gate.production());
    (answer.status, answer.outcome())
}

/// Status, outcome and how often it was sent, of reads that met this on a connection that was used before, and of writes
/// that met it on any.
fn on_dying_connections(id: &str, act: &Act, rounds: usize) -> Vec<(u16, String, usize)> {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("answer_ms", 400).start();
    let round = |_| {
        assert_eq!(outcome_of(&gate, id).0, 200);
        let before = upstream.seen().len();
        upstream.next(act.clone());
        let (status, outcome) = outcome_of(&gate, id);
        upstream.forget();
        let seen = upstream.seen();
        let reused = seen[before].connection == seen[before - 1].connection;
        assert!(!reused || outcome == "-", "a connection carried a second write");
        (reused || outcome != "-").then_some((status, outcome, seen.len() - before))
    };
    let met: Vec<_> = (0..rounds).filter_map(round).collect();
    assert!(!met.is_empty(), "no connection of a read was used again in {rounds} rounds");
    met
}

#[test]
fn a_write_on_a_dying_connection_is_never_sent_again() {
    for act in [Act::silence().reset(), Act::silence().close()] {
        for id in ["createSwap", "cancelSwap"] {
            for met in on_dying_connections(id, &act, 20) {
                assert_eq!(met, (502, "unknown".to_owned(), 1), "{id} {act:?}");
            }
        }
    }
}

#[test]
fn a_read_on_a_reused_connection_is_sent_twice_at_most() {
    for act in [Act::silence().reset(), Act::silence().close()] {
        for met in on_dying_connections("listUsers", &act, 20) {
            assert_eq!(met, (200, "-".to_owned(), 2), "{act:?}");
        }
    }
}

#[test]
fn a_read_that_always_fails_is_sent_twice_at_most() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("answer_ms", 400).start();
    for act in [Act::silence().reset(), Act::silence().close(), Act::silence().hang(), Act::bytes("nonsense\r\n\r\n")] {
        assert_eq!(outcome_of(&gate, "listUsers").0, 200);
        upstream.always(act.clone());
        let before = upstream.seen().len();
        assert!(outcome_of(&gate, "listUsers").0 >= 502);
        let sent = upstream.seen().len() - before;
        assert!(sent <= 2, "{act:?}: sent {sent} times");
        upstream.always(Act::done(200));
    }
}

#[test]
fn an_idle_connection_that_upstream_closed_is_not_used() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for _ in 0..20 {
        assert_eq!(outcome_of(&gate, "createSwap"), (200, "executed".to_owned()));
        upstream.close_idle();
    }
}

#[test]
fn a_connection_that_upstream_will_close_is_not_used() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for id in ["createSwap", "listUsers", "cancelSwap"] {
        let record = least_answer(operation(id));
        let last = answer(200, &[("Content-Type", "application/json"), ("Connection", "close")], &record);
        upstream.next(Act::bytes(&last));
        assert_eq!(outcome_of(&gate, id).0, 200);
    }
    let used: Vec<usize> = upstream.seen().iter().map(|seen| seen.connection).collect();
    assert!(used[0] != used[1] && used[1] != used[2] && used[0] != used[2], "{used:?}");
}

#[test]
fn an_answer_that_nobody_asked_for_is_given_to_nobody() {
    let stray =
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"error\":\"x\"}";
    for id in ["createSwap", "cancelSwap", "listUsers"] {
        let good = answer(200, &[("Content-Type", "application/json")], &least_answer(operation(id)));
        let upstream = Upstream::start();
        let gate = Setup::of(&upstream).start();
        for _ in 0..5 {
            upstream.next(Act::bytes([good.as_slice(), stray].concat()));
            assert_eq!(outcome_of(&gate, id).0, 200, "{id}");
            assert_eq!(outcome_of(&gate, id).0, 200, "{id}: the next one was given a stray answer");
        }
    }
}

#[test]
fn connections_of_reads_are_used_again() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for _ in 0..20 {
        assert_eq!(valid(operation("listUsers")).send(gate.production()).status, 200);
    }
    assert!(upstream.connections() < 10, "{} connections for 20 calls", upstream.connections());
}
