//! Hostile transport: nothing malformed, slow or oversized gets past or hurts anyone else.

mod budgets;
pub(in crate::cases) mod connections;
mod crowds;
mod descriptors;
mod entries;
mod http2;
mod line;
mod malformed;
mod phases;
mod places;
mod rates;
mod rooms;
mod table;

use std::time::Duration;

use crate::support::clock::{PATIENCE, Watch};
use crate::support::{Caller, Gate, Upstream};

/// Waits for what no thread of this process can tell of.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Watch::start();
    while !is_so() {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// How many descriptors a gate holds that has answered on each of its listeners and holds no connection.
fn descriptors_at_rest(gate: &Gate, upstream: &Upstream) -> usize {
    assert_eq!(gate.probe("/livez").status, 200);
    // Nonsense is answered or cut, over TLS or not: then this listener is at work, too.
    drop(Caller::connect(gate.production()).send("x\r\n\r\n").rest());
    wait_until("no connection to be open", || gate.metric(OPEN) == 0);
    upstream.close_idle();
    // The one that asked for the metric is gone, too.
    let mut least = descriptors(gate);
    wait_until("the probe's connection to be closed", || {
        let now = descriptors(gate);
        let stood = now == least;
        least = now;
        stood
    });
    least
}

/// Waits until a gate holds no more descriptors than that.
fn wait_for_rest(gate: &Gate, upstream: &Upstream, base: usize) {
    wait_until("every connection to end", || gate.metric(OPEN) == 0);
    upstream.close_idle();
    wait_until("the descriptors to come back", || descriptors(gate) <= base);
}

fn descriptors(gate: &Gate) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gate.process())).unwrap().count()
}

const OPEN: &str = r#"sluice_connections_open{listener="production"}"#;
