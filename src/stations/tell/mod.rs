//! What is told of a call that waits, or is in doubt: to whom, in which words, and how they know who says it.
//!
//! What is told is read off the commit that makes it so, and filed in that same commit: nothing that happened is lost by
//! a crash, and nothing is told that did not happen. What is filed names no amount, no person and no account; where a
//! webhook asks for more, it is looked up when it is told.

mod event;
mod filing;
mod message;
mod payload;
mod sign;

pub use event::Event;
pub use filing::{Outlet, filed};
pub use message::{Message, UnreadableMessage, member_of, outlet_of, read, write};
pub use payload::{Details, Format, Telling, body, ping};
pub use sign::{SigningSecret, signature};

#[cfg(test)]
mod tests;
