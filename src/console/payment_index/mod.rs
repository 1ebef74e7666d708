//! The newest payments in memory, as the journal of this gate tells them.
//!
//! `reading` reads the journal backwards in bounded parts, `beginning` tells where it begins, `fact` and `stage` read one entry, `book` makes each `row`,
//! `groups` sums them, and `paid_parties` finds who was paid by the letters of an address.

mod beginning;
mod book;
mod fact;
mod groups;
mod paid_parties;
mod reading;
mod row;
mod stage;
mod text_mark;

pub(super) use beginning::late_beginning;
pub(super) use book::{PaymentBook, PaymentKey};
pub(super) use fact::{DecidedCall, PaymentStatus, WAYS};
#[cfg(test)]
pub(super) use fact::{FactKind, PaymentFact};
pub(super) use groups::{MoneySum, PaymentDay, PaymentGroup, PaymentTerms};
pub(super) use reading::{PaymentIndex, ReadBook};
pub(super) use row::PaymentRow;
pub(super) use stage::{ForeignFact, PaymentStage, StageMark};
pub(super) use text_mark::TextMark;
