//! One decision begins one attempt: `propose` consumes it.

use sluice::stations::claim::{AttemptSource, Lease, Proposer, propose};
use sluice::stations::decide::Allowed;

fn begin_twice(allowed: Allowed, by: &Proposer<'_>, lease: Lease) {
    let _first = propose(allowed, by, lease, AttemptSource::Nothing);
    let _second = propose(allowed, by, lease, AttemptSource::Nothing);
}

fn main() {}
