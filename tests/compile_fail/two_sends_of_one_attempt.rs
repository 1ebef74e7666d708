//! One attempt is cleared once: `clear` consumes it.

use sluice::stations::claim::Recorded;
use sluice::stations::forward::clear;

fn send_twice(recorded: Recorded) {
    let _first = clear(recorded);
    let _second = clear(recorded);
}

fn main() {}
