//! The buckets of rates: in this process, or in a Redis that nodes share; and the count of open calls.

mod local;
mod open;
mod unsynced;
mod shared;

pub use local::Local;
pub use open::{OpenCall, OpenCalls};
pub use shared::SharedRates;

#[cfg(test)]
mod tests;
