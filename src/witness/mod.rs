//! A witness: a small server for another machine that signs the checkpoints of journals which only grew.
//!
//! A witness remembers the last checkpoint of each log, and signs the next one only with a proof that it has all lines of that
//! one. So a gate cannot show two people two histories: at most one has the signature. The protocol is C2SP's
//! `tlog-witness`; the witness learns salted digests of lines, and nothing of payments.

mod keeper;
mod server;

pub use keeper::{Witness, WitnessError};
pub use server::serve;
