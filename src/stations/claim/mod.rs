//! Claims: one requestId has at most one effect.
//!
//! ```text
//!   nothing ──begin──▶ Sending ──its answer──────────────▶ Done: executed ──35 days──▶ spent
//!     ▲                  │ │ └────a proven refusal───────▶ Done: not executed ──35 days──▶ spent
//!     │                  │ │                                 ▲
//!     └─nothing was sent─┘ └─anything else, lapsed─▶ Unknown─┤ its own late answer; found upstream
//!                        ▲                           │     └─two people: nobody will know─▶ Abandoned
//!                        └──sent again── Absent ◀────┘ two people: it was not executed
//! ```
//!
//! A call that needs approval begins as Held. Its release makes it Sending, and Held again where nothing was sent; a
//! refusal makes it Declined.
//!
//! The number of its commit identifies an attempt. A claim keeps its attempts, each with its end. A proof that one was
//! executed always makes the claim Done, whatever was said of that attempt and however late it comes; any other late
//! answer changes at most the end of its own attempt.

mod status;
mod attempt;
mod bookings;
mod first_word;
mod forgotten;
mod gone;
mod reconcile;
mod freeze;
mod clock_correction;
mod commits;
mod lease;
mod opened_beginning;
mod outcomes;
mod owner;
mod past_attempts;
mod record_age;
mod resolutions;
mod state;
mod stored_form;
mod terms;
mod told_acts;
mod told_claims;

pub use attempt::{Committed, DoubtfulCommit, Proposal, Recorded, Settlement, SettlementPlace, propose};
pub use bookings::{BookedWindow, Booking, Nonce};
pub use clock_correction::ClockCorrection;
pub use commits::{
    AttemptSource, BeginConflict, FactCorrection, Proposer, decline, look_again, refuse, standing, wait,
};
pub use first_word::{FirstWord, WORD_LASTS, executed_key};
pub use forgotten::{
    MoneyAfterRebuild, RebuildClosing, closed_awaiting, closed_for_gap, never_remembered, rebuilt, remembered,
};
pub use freeze::{
    Forgotten, Freeze, Frozen, clock_doubted, freeze, freeze_again, frozen, gate_clock_doubted, only_closes, restored,
    unfreeze,
};
pub use gone::{GoneWord, gone_key, journal_lost, retired, said_gone_key, say_gone};
pub use lease::Lease;
pub use opened_beginning::OpenedBeginning;
pub use outcomes::{
    Settled, Superseded, is_settled, lapse, late, prove_unlisted, restore_executed, settle, settle_unclaimed,
};
pub use owner::Owner;
pub use past_attempts::{AttemptEnd, Executions, PastAttempt};
pub use reconcile::{LookupResult, RecordPage, is_record_of, judge, page_of};
pub use record_age::{CLOCKS_APART, RecordMismatch, is_older_than, micros};
pub use resolutions::{
    HeardGate, JointWord, ResolveRefusal, SenderNews, say_executed, say_jointly, shown_attempt, shown_attempt_of,
    without_words_of,
};
pub use state::{
    Claim, ClaimEvent, ClaimState, Decline, Declined, DoubtCause, ImpossibleClaimEvent, KeyNaming, NextState,
    SentRequest, StoredAnswer, after,
};
pub use status::{ClaimStatus, Earlier, status_for};
pub use stored_form::{StoredEvent, UnreadableClaim, decode_claim, encode_claim};
pub use terms::Terms;
pub use told_acts::LackedEntries;
pub use told_claims::{KnownClaim, Tale, ToldChange, in_the_way, remember, whole, without_held};

#[cfg(test)]
mod tests;
