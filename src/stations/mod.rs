//! The way of a request, one file a station, in the order in which a request meets them.
//!
//! ```text
//! socket ─ admit ─ check ─ decide ─ record ─ claim/hold ─ forward ─ settle ─ reply ─ socket
//!           who     what    may it?   words    whose       once      known    shape
//! ```
//!
//! All of it is pure: no clock, no socket, no randomness. A station knows only those before it.

pub mod admit;
pub mod agree;
pub mod check;
pub mod claim;
pub mod decide;
pub mod forward;
pub mod hold;
pub mod record;
pub mod reply;
pub mod session;
pub mod settle;
pub mod sign_in;
pub mod tell;
