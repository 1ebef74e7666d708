//! A call that waits for people: what a hold is, and all that can happen to it.
//!
//! ```text
//!              ┌───────────────more people are asked for──┐
//!              ▼                                          │
//!   hold──▶ Pending ──the vote that completes it──▶ Approved ──release──▶ Released: the claim tells the rest
//!              │                                     │  │  ▲                │
//!              │                                     │  │  └─nothing sent───┘
//!              └────────────reject, cancel, expiry───┤  └─────today's rules deny──▶ Blocked
//!                                                    ▼
//!                                       Rejected, Cancelled, Expired
//! ```
//!
//! A vote is for the bytes that its voter saw: it names their fingerprint. What is released is decided anew, by the rules
//! and groups of that moment, and read again from the bytes that were stored. Nobody agrees to what they asked for,
//! nor does anybody in their place.

mod again;
mod keeping;
mod people;
mod stand_ins;
mod state;
mod words;
mod written;

pub use again::{read_again, read_bytes};
pub use keeping::{Here, approve_again, decline, forget, hold, note, released, remind, reopen, vote, withdraw};
pub use people::{Hearing, Owners, Say, Stuck, Unheard, may_say, member_of};
pub use stand_ins::{NotNamed, StandIn, StandIns};
pub use state::{Event, Hold, ImpossibleEvent, Note, State, Vote, after};
pub use words::in_words;
pub use written::{UnreadableHold, read, write};

#[cfg(test)]
mod tests;
