//! An attempt that the store knows of cannot be cleared before its audit entry is on disk.

use sluice::stations::claim::{Committed, Recorded};
use sluice::stations::forward::{Cleared, clear};

fn clear_early(committed: Committed) -> Cleared {
    clear(committed)
}

fn pretend(committed: Committed) -> Recorded {
    Recorded(committed)
}

fn main() {}
