//! Where what was decided and done is kept.
//!
//! What a commit means is written once, over an ordered map of bytes: `layout` says what lies under which key, `look`
//! what can be seen in it, `plan` what a commit changes, `dump` how it is written out. [`memory`] keeps such a map in memory,
//! [`embedded`] in a file. [`redis`] says the same once more, in the script that a Redis runs.
//! [`sealed`] encrypts what any of them keeps; [`awaited`] keeps everybody from one that is not taken up yet, and [`measured`] tells how it does. Every store passes the contract suite in `tests/cases/store`.

pub mod awaited;
pub mod embedded;
pub mod measured;
pub mod memory;
pub mod redis;
pub mod sealed;

mod dump;
mod layout;
mod look;
mod plan;
mod ticker;

/// How many records and slots one call of `sweep` takes at most.
const SWEEP: usize = 500;
