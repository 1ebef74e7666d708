//! The analysis without its short cuts, for tests that compare both ways, and the steps that it takes.

use std::cell::Cell;

thread_local! {
    static IS_CHOSEN: Cell<bool> = const { Cell::new(false) };
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Whether every rule is examined by itself.
pub(super) fn is_chosen() -> bool {
    IS_CHOSEN.get()
}

/// Does something with every rule examined by itself.
pub(super) fn take<T>(work: impl FnOnce() -> T) -> T {
    IS_CHOSEN.set(true);
    let done = work();
    IS_CHOSEN.set(false);
    done
}

pub(super) fn count(steps: usize) {
    STEPS.set(STEPS.get().saturating_add(steps));
}

/// Returns how many steps something takes.
pub(super) fn steps_of<T>(work: impl FnOnce() -> T) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get().saturating_sub(before)
}
