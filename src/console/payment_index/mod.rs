//! The newest payments in memory, as the journal of this gate tells them.
//!
//! `reading` reads the journal backwards in bounded parts, `fact` and `stage` read one entry, and `book` makes the rows.

mod book;
mod fact;
mod reading;
mod stage;

pub(super) use book::{PaymentKey, PaymentRow};
pub(super) use fact::{PaymentStatus, WAYS};
pub(super) use reading::{PaymentIndex, ReadBook};
pub(super) use stage::{ForeignFact, PaymentStage, StageMark};
