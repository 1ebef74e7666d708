//! Payments after their send, as upstream's list shows them.
//!
//! A payment that was executed lives on at upstream. Its state moves only forward, in the order that the contract gives;
//! limits count it until a state of which the contract is certain that nothing left, or that all came back. A record that
//! no claim explains is foreign: somebody pays past the gate, or the gate lost its memory.
//!
//! | module | contents |
//! |---|---|
//! | `listing` | upstream's pages, which nobody trusts |
//! | `ordering` | whether their times contradict their order |
//! | `answered` | whether the answer to a call moves the money of the call |
//! | `comparison` | whether a record moves the money of its call |
//! | `payment` | what is stored of a payment, and of a record that is foreign |
//! | `advance` | the commits that move a payment forward, and correct its limits |
//! | `progress` | which gate follows, and how far it read |

mod advance;
mod answered;
mod comparison;
mod listing;
mod ordering;
mod payment;
mod progress;

pub use advance::{
    ClaimVerdict, FollowChange, Sighting, advance, begin, foreign, problem_beside, proved_by_second, second_record,
    verdict_on,
};
pub use answered::AnsweredPayment;
pub use comparison::{RecordProblem, problem_of, shown_value};
pub use listing::{ListedPage, ListedRecord, MAX_FALSE_TIMES, listed_page, listed_record};
pub use ordering::misplaced;
pub use payment::{
    FollowedPayment, ForeignRecord, UnreadableFollowed, decode_followed, decode_foreign, followed_key, foreign_key,
    foreign_name,
};
pub use progress::{Baseline, FollowProgress, decode_progress, lease_for, progress_key, take_over};

#[cfg(test)]
mod tests;
