//! A decision and a right to send belong to the call that was decided on: nobody puts another call into them.

use sluice::stations::check::Intent;
use sluice::stations::decide::Allowed;
use sluice::stations::forward::Cleared;

fn replace(allowed: Allowed, other: Intent) -> Allowed {
    Allowed { intent: other, ..allowed }
}

fn forge(other: Intent) -> Cleared {
    Cleared { intent: other, lease: None }
}

fn main() {}
