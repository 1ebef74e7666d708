//! Compares what the store has of a record with what this gate's journal has of it.
//!
//! The journal has every commit behind its beginning up to a number. So it knows which record each of these commits left,
//! and that none of their records is there where they removed it.

use std::fmt;

use crate::ledger::{Content, Number, Record, RecordKey, StoreFault, StoreTime};

/// The records that a journal has, their contents still sealed.
pub trait JournalledRecords: fmt::Debug + Send + Sync {
    /// Returns what is known of a record, without the parts that have expired at this time of the store.
    fn known(&self, key: &RecordKey, now: StoreTime) -> Result<KnownRecord, StoreFault>;

    /// Notes a record that a read found otherwise, for somebody to look at it again.
    fn doubted(&self, key: &RecordKey, why: &str);
}

/// What a journal knows of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRecord {
    pub record: Option<Record>,
    /// The number up to which commits are unknown; 0 where every one is known.
    pub begin: Number,
    /// The number up to which every commit behind the beginning is known.
    pub up_to: Number,
    /// By the time of another environment, records may have been swept that have not expired by this one's.
    pub is_swept_ahead: bool,
}

/// Whether the store has what the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordBelief {
    Stands,
    /// The journal has a later version, or knows that there is no record any more. It may have gone on since the store
    /// answered.
    Outdated,
    /// The journal has a record of this version, and the store has none.
    Missing {
        version: Number,
        known_up_to: Number,
    },
    /// The store has a version that the journal does not have yet, if there is such a commit.
    Unjournalled,
    /// The store has what no commit left there.
    Changed,
}

impl KnownRecord {
    /// Whether a store has something else, while no commit is under way that the journal lacks.
    pub fn is_contradicted_by(&self, found: Option<&Record>) -> bool {
        self.stands_for(found) != RecordBelief::Stands
    }

    /// Compares what the store has with what is known, both without what has expired at the same time.
    pub(super) fn stands_for(&self, found: Option<&Record>) -> RecordBelief {
        let is_known = |found: &Record| self.begin < found.version && found.version <= self.up_to;
        let is_swept = |known: &Record| self.is_swept_ahead && known.content == Content::Spent;
        match (found, &self.record) {
            (None, None) => RecordBelief::Stands,
            (None, Some(known)) => RecordBelief::Missing { version: known.version, known_up_to: self.up_to },
            (Some(found), None) if is_known(found) && !self.is_swept_ahead => RecordBelief::Outdated,
            (Some(found), Some(known)) if found.version < known.version => RecordBelief::Outdated,
            (Some(found), Some(known)) if found.version == known.version => {
                // Claims, holds and ends go by the time of their record as well.
                let is_same = found.at == known.at && (found.content == known.content || is_swept(known));
                if is_same { RecordBelief::Stands } else { RecordBelief::Changed }
            }
            // The journal must have this version.
            (Some(found), Some(_)) if found.version <= self.up_to => RecordBelief::Changed,
            (Some(found), _) if found.version > self.up_to => RecordBelief::Unjournalled,
            (Some(_), _) => RecordBelief::Stands,
        }
    }
}
