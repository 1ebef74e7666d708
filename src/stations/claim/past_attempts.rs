//! The attempts of a claim that are over or in doubt, each with its end. A proof of execution finds its attempt here,
//! however late it comes.

use serde::{Deserialize, Serialize};

use super::bookings::Booking;
use crate::base::word_enum::word_enum;
use crate::ledger::{Number, Sender, Step, StoreTime};

/// The most attempts that are kept. Attempts whose end upstream itself proved make room first; the others need two
/// people each.
const MAX_KEPT: usize = 16;

/// One attempt to send a call, from the moment when nobody waits for it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PastAttempt {
    /// The commit that made it.
    pub number: Number,
    pub sender: Sender,
    /// When it was made.
    #[serde(rename = "sinceMicros")]
    pub since: StoreTime,
    pub booked: Booking,
    pub end: AttemptEnd,
}

/// The end of an attempt, and whose word it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AttemptEnd {
    Unknown,
    Executed,
    /// Upstream refused with a status that proves it.
    NotExecuted {
        status: u16,
    },
    /// Two people said that it was not executed.
    Absent {
        said_by: Vec<String>,
    },
    /// Two people said that nobody will ever know.
    Abandoned {
        said_by: Vec<String>,
    },
}

impl AttemptEnd {
    /// Whether upstream itself proved that it was not executed.
    pub fn is_proved_not_executed(&self) -> bool {
        matches!(self, AttemptEnd::NotExecuted { .. })
    }

    /// Whether its reservations were given back.
    fn gave_back(&self) -> bool {
        matches!(self, AttemptEnd::NotExecuted { .. } | AttemptEnd::Absent { .. })
    }
}

word_enum! {
    /// How often the attempts of a claim were executed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Executions {
        AtMostOnce = "at-most-once",
        /// One was executed, and another may have been.
        PerhapsTwice = "perhaps-twice",
        Twice = "twice",
    }
}

/// Adds an attempt as the latest. The earliest one always stays: no record that is older than it is one of the call.
pub(super) fn with_latest(attempts: &[PastAttempt], latest: PastAttempt) -> Vec<PastAttempt> {
    let mut all: Vec<PastAttempt> = attempts.iter().cloned().chain([latest]).collect();
    if all.len() > MAX_KEPT
        && let Some(at) = all.iter().skip(1).position(|attempt| attempt.end.is_proved_not_executed())
        && at.saturating_add(2) < all.len()
    {
        all.remove(at.saturating_add(1));
    }
    all
}

/// Adds an attempt that a log or a proof tells of, in its place; where it is listed, its known end stands.
pub(super) fn with_told(attempts: &[PastAttempt], told: &PastAttempt) -> Vec<PastAttempt> {
    if attempts.iter().any(|past| past.is_same(told)) {
        let ended = |past: &PastAttempt| match past.is_same(told) && told.end != AttemptEnd::Unknown {
            true => PastAttempt { end: told.end.clone(), ..past.clone() },
            false => past.clone(),
        };
        return attempts.iter().map(ended).collect();
    }
    let mut all: Vec<PastAttempt> = attempts.iter().cloned().chain([told.clone()]).collect();
    all.sort_by_key(|past| past.number);
    all
}

/// Gives an attempt another end.
pub(super) fn with_end(attempts: &[PastAttempt], number: Number, end: &AttemptEnd) -> Vec<PastAttempt> {
    let ended = |attempt: &PastAttempt| match attempt.number == number {
        true => PastAttempt { end: end.clone(), ..attempt.clone() },
        false => attempt.clone(),
    };
    attempts.iter().map(ended).collect()
}

impl PastAttempt {
    /// Whether both are one attempt. Two histories of a store may give one number to two, which hold different reservations.
    pub(super) fn is_same(&self, other: &PastAttempt) -> bool {
        self.number == other.number && self.booked.may_be_of(&other.booked)
    }

    /// The steps after a proof that it was executed.
    pub(super) fn proved_executed(&self) -> Vec<Step> {
        match self.end.gave_back() {
            true => self.booked.executed_after_all(self.since),
            false => self.booked.executed(),
        }
    }

    /// The steps after a proof that it was not executed.
    pub(super) fn proved_not_executed(&self) -> Vec<Step> {
        if self.end.gave_back() { Vec::new() } else { self.booked.given_back() }
    }
}
