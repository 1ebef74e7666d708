//! Holds: calls that wait for people.
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
//! A vote binds to the bytes that its voter saw, by their fingerprint, and to the causes that the voter was shown, by their
//! digest. A release decides anew, by the rules and groups
//! of that moment, on the call read again from its stored bytes. A vote comes to the same test first: where it would be in
//! vain, the hold tells today's causes instead, and everybody votes on those. Nobody approves their own request, nor does a stand-in
//! for them.

mod amounts;
mod rebuild;
mod room;
mod commits;
mod owners;
mod voting;
mod stand_ins;
mod state;
mod signature;
mod signed_vote;
mod summary;
mod stored_form;

pub use amounts::SignedAmounts;
pub use commits::{
    approve_again, decline, end_orphan, forget, hold, note, overtaken, released, remind, reopen, vote, withdraw,
};
pub use owners::{Owners, member_of};
pub use rebuild::{read_again, read_bytes};
pub use room::{HoldRoom, HoldUse, NoPlace, PlaceConflict, windows_of_environment};
pub use signature::{MAX_TOGETHER, SentSignature, SignatureError, SignedVote, VoteChallenge};
pub use signed_vote::{
    CHALLENGE_TIME, NONCE_BYTES, VotedCall, answered, ask, challenge_key, counter_key, is_nonce, list_challenge,
};
pub use stand_ins::{StandIn, StandInError, StandIns};
pub use state::{Hold, HoldEvent, HoldNote, HoldState, ImpossibleHoldEvent, Vote, after};
pub use stored_form::{UnreadableHold, decode_hold, encode_hold};
pub use summary::in_words;
pub use voting::{MAX_OWN_NOTES, NeededApprovals, SeenHold, Stuck, VoteAction, VoteContext, VoteRefusal, may_say};

#[cfg(test)]
mod tests;
