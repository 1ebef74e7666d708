//! The buckets of rates: in this process, or in a Redis that nodes share; and the calls that are open now.

mod local;
mod open;
mod owed;
mod shared;

pub use local::Local;
pub use open::{Open, Slot};
pub use shared::Shared;

#[cfg(test)]
mod tests;
