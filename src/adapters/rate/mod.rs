//! The buckets of rates: in this process, or in a Redis that nodes share; the count of open calls; and room that users
//! share.

mod local;
mod open;
mod unsynced;
mod shared;
mod shares;

pub use local::Local;
pub use open::{OpenCall, OpenCalls};
pub use shared::SharedRates;
pub use shares::{RoomShare, SharedRoom};

#[cfg(test)]
mod tests;
