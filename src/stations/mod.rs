//! The stations of a call, one file each, in the order in which a call passes them.
//!
//! ```text
//! socket ─ admit ─ check ─ decide ─── claim/hold ──── forward ── settle ─── reply ─ socket
//!          who     what    may it?   one commit       once       outcome    shape
//! ```
//!
//! Everything here is pure: no clock, no socket, no randomness. A station uses only those before it.

pub mod admit;
pub mod check;
pub mod claim;
pub mod decide;
pub mod follow;
pub mod forward;
pub mod hold;
pub mod refusal;
pub mod reply;
pub mod settle;
