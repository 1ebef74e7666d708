//! Why an attempt did not begin.

use crate::ledger::{Record, StoreTime};
use crate::stations::check::Intent;
use crate::stations::claim::{BeginConflict, FactCorrection};
use crate::stations::hold::NoPlace;

/// An attempt that did not begin. It returns the call where the call can be decided on again.
#[derive(Debug)]
pub struct Withdrawn {
    pub why: NotBegun,
    pub intent: Option<Intent>,
}

/// The reasons why an attempt does not begin.
#[derive(Debug)]
pub enum NotBegun {
    Claimed(Record, StoreTime),
    /// The decision assumed stored facts that are otherwise: the call must be decided on again.
    StaleFacts(Vec<FactCorrection>),
    /// Another commit changed the claim, or its hold.
    Raced,
    /// Somebody has shown that an earlier attempt was executed.
    SaidExecuted,
    /// The decision is by another set than the one that the store names.
    OtherSet,
    Frozen,
    /// The clock of this gate's machine is not compared with others' dates yet, or was not theirs at the start.
    ClockDoubted,
    /// Money is closed because the store may have forgotten claims.
    Forgotten,
    StoreAway,
    AuditAway,
    /// The caller has its share of the entries about refused calls.
    NoRoomForRefusal,
    /// The room for open holds is full, or the caller has its share.
    NoPlaceForHold(NoPlace),
}

pub(super) fn not_begun(standing: BeginConflict, at: StoreTime) -> NotBegun {
    match standing {
        BeginConflict::Claimed(record) => NotBegun::Claimed(record, at),
        BeginConflict::Frozen => NotBegun::Frozen,
        BeginConflict::ClockDoubted => NotBegun::ClockDoubted,
        BeginConflict::Forgotten => NotBegun::Forgotten,
        BeginConflict::StaleFacts(learnt) => NotBegun::StaleFacts(learnt),
        BeginConflict::Raced => NotBegun::Raced,
        BeginConflict::SaidExecuted => NotBegun::SaidExecuted,
        BeginConflict::Inconsistent => {
            tracing::error!("the store rejected a commit without naming a conflict");
            NotBegun::StoreAway
        }
    }
}
