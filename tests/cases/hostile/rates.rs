//! Ways around a rate: streams, resets, and calls that are never finished.

use super::http2::frames::{END_HEADERS, HEADERS, RESET, Said, Two, block, frame, read, write};
use super::line::with_tls;
use super::wait_until;
use crate::cases::rates::{rate, with};
use crate::support::shared::Signal;
use crate::support::{Act, Gate, Setup, Upstream};

fn gate(upstream: &Upstream, lines: &str) -> Gate {
    with_tls(with(Setup::of(upstream), &rate("r", lines))).start()
}

fn limited(gate: &Gate) -> u64 {
    gate.metric("sluice_rate_calls_total{mode=\"enforce\",outcome=\"limited\",rate=\"r\"}")
}

#[test]
fn each_stream_is_a_call() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "per = [\"caller\"]\nquota = \"20/h\"");
    let mut passed = 0;
    for _ in 0..2 {
        let mut two = Two::connect(&gate);
        for n in 0..15 {
            two.ask(2 * n + 1, &read());
        }
        let mut left = 15;
        while left > 0 {
            match two.said() {
                Some(Said::Status(_, 200)) => passed += 1,
                Some(Said::Status(_, status)) => assert_eq!(status, 429),
                Some(Said::Ended(_)) => left -= 1,
                Some(_) => {}
                None => panic!("the connection ended"),
            }
        }
    }
    assert_eq!((passed, upstream.seen().len(), limited(&gate)), (20, 20, 10));
}

#[test]
fn a_stream_that_is_reset_counts_and_gives_its_slot_back() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "per = [\"caller\"]\nconcurrent = 3");
    let go = Signal::new();
    let mut two = Two::connect(&gate);
    for n in 0..3 {
        upstream.next(Act::done(200).after(&go));
        two.ask(2 * n + 1, &read());
        upstream.wait_for(usize::try_from(n).unwrap());
    }
    assert_eq!(two.ask(7, &read()).outcome(7), "429");
    // Reset or not, upstream works on them.
    for n in 0..3 {
        two.send(frame(RESET, 0, 2 * n + 1, &8_u32.to_be_bytes()));
    }
    go.give();
    let mut stream = 7;
    wait_until("a slot", || {
        stream += 2;
        two.ask(stream, &read()).outcome(stream) == "200"
    });
}

/// A body that never comes holds a slot for as long as bodies may take, not longer.
#[test]
fn a_write_without_its_body_holds_its_slot_for_a_while() {
    let upstream = Upstream::start();
    let setup = with_tls(with(Setup::of(&upstream), &rate("r", "per = [\"caller\"]\nconcurrent = 1")));
    let gate = setup.timeout_ms("body_ms", 1000).start();
    let mut two = Two::connect(&gate);
    two.send(frame(HEADERS, END_HEADERS, 1, &block(&write("/v2/wallets/swaps", "100"))));
    wait_until("the slot to be taken", || {
        gate.metric("sluice_rate_calls_total{mode=\"enforce\",outcome=\"allowed\",rate=\"r\"}") == 1
    });
    assert_eq!(two.outcome(1), "408");
    let mut stream = 1;
    wait_until("the slot", || {
        stream += 2;
        two.ask(stream, &read()).outcome(stream) == "200"
    });
    assert_eq!(upstream.seen().len(), 1);
}
