//! Hostile transport: nothing malformed, slow or oversized gets past or hurts anyone else.

mod line;
mod malformed;
mod phases;
mod table;

use std::time::Duration;

use crate::support::Gate;
use crate::support::clock::{PATIENCE, Watch};

/// Waits for what no thread of this process can tell of.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Watch::start();
    while !is_so() {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// How many descriptors a gate holds.
fn descriptors(gate: &Gate) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gate.process())).unwrap().count()
}
