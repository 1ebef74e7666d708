//! Notices to webhooks: their events, payloads and signatures.
//!
//! A notice is filed in the commit of its event: a crash loses none, and none tells of an event that did not happen. A
//! filed notice names no amount, no person and no account; a webhook with `details` gets them looked up at delivery.

mod event;
mod filing;
mod message;
mod payload;
mod sign;

pub use event::NoticeEvent;
pub use filing::{Outlet, filed};
pub use message::{Message, UnreadableMessage, WaitingPolicies, decode_message, encode_message, member_of, outlet_of};
pub use payload::{Details, PayloadFormat, PolicyNews, Telling, body, ping};
pub use sign::{SigningSecret, signature};

#[cfg(test)]
mod tests;
