//! Where what was decided and done is kept.
//!
//! What a commit means is written once, over an ordered map of bytes: `layout` says what lies under which key, `look`
//! what can be seen in it, `plan` what a commit changes. [`memory`] keeps such a map in memory. Every store passes the
//! contract suite in `tests/cases/store`.

pub mod memory;

mod layout;
mod look;
mod plan;
mod ticker;

/// How many records and slots one call of `sweep` takes at most.
const SWEEP: usize = 500;
