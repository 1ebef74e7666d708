//! One requestId has at most one effect: what a claim is, and all that can happen to it.
//!
//! ```text
//!   absent ──begin──▶ Sending ──2xx head──────────────▶ Done: Executed ──35 days──▶ spent
//!     ▲                 │ │ └───a proven refusal──────▶ Done: NotExecuted ──35 days──▶ spent
//!     │                 │ │                                ▲
//!     ├─nothing was sent┘ └─anything else, lapsed─▶ Unknown┤ its own late answer; found upstream
//!     └─────────nothing was executed after all─────────────┘
//! ```
//!
//! A call that people must release begins as Held: a hold tells of it, and from there it comes to Sending, and back
//! where nothing was sent; or it is Declined.
//!
//! An attempt is known by the number of the commit that made it. Only its own answer moves it; what comes for another
//! is told as [`Moved`].

mod asked;
mod booked;
mod forgotten;
mod found;
mod freeze;
mod keeping;
mod people;
mod state;
mod written;

pub use asked::{Said, said};
pub use booked::Booked;
pub use forgotten::{Forgotten, Tale, Told, forgot, in_the_way, remember, remembered, whole};
pub use found::{Bearing, Looked, Otherwise, is_record_of, judge, page_of};
pub use freeze::{Freeze, Frozen, freeze, frozen, restored, unfreeze};
pub use keeping::{
    Beginner, Beginning, Begun, From, Learnt, Moved, Standing, Standpoint, Terms, begin, begun, begun_after_all,
    decline, is_settled, lapse, late, look_again, refuse, settle, settle_unclaimed, standing, wait,
};
pub use people::{NotTaken, say_absent, say_executed};
pub use state::{
    Answer, Claim, Decline, Declined, Doubt, Event, ImpossibleEvent, Naming, Next, Nonce, Owner, SentForm, State, after,
};
pub use written::{UnreadableClaim, read, read_event, write, write_event};

#[cfg(test)]
mod tests;
