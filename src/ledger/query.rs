//! The queries that a store answers.

use super::answer::{StoreFault, WriteRefusal};
use super::record::{Index, Number, Outstanding, Record, RecordKey, StoreTime};
use super::step::{WindowKey, WindowSpan};
use crate::base::ids::Environment;

/// A part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPart {
    /// From the end of the index, the latest first.
    pub backwards: bool,
    /// Only members behind this one, in that order. The member itself may be gone.
    pub behind: Option<(StoreTime, String)>,
    pub count: usize,
}

/// A query to a store. `count` bounds the length of the answer.
#[derive(Clone, Debug)]
pub enum Query {
    Record(RecordKey),
    /// The members that are due before `until`, the earliest first; for `None`, all members.
    Due {
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    },
    Part {
        environment: Environment,
        index: Index,
        part: IndexPart,
    },
    /// The due time of one member.
    Member {
        environment: Environment,
        index: Index,
        member: String,
    },
    /// The units that each of these windows holds now.
    Used {
        environment: Environment,
        windows: Vec<WindowKey>,
        span: WindowSpan,
    },
    /// The windows, of one limit or of all, with reservations that may still count; in an order of the store's own, behind
    /// this one.
    Windows {
        environment: Environment,
        limit: Option<String>,
        behind: Option<WindowKey>,
        count: usize,
    },
    /// The entries of all nodes behind a number that not every journal has yet, in the order of their numbers.
    Outbox {
        environment: Environment,
        after: Number,
        count: usize,
        /// Whether they must be as durable as a commit.
        for_journal: bool,
    },
    /// The number of the latest commit; 0 before the first.
    Last(Environment),
    /// The same, once all that the store has is as durable as a commit.
    DurableLast(Environment),
    Time,
    /// Why the store refuses writes, if it does.
    Refusal,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub enum QueryAnswer {
    /// With the store's time.
    Record(Option<Record>, StoreTime),
    Members(Vec<(StoreTime, String)>),
    Due(Option<StoreTime>),
    Units(Vec<u64>),
    Windows(Vec<WindowKey>),
    Entries(Vec<Outstanding>),
    Number(Number),
    Time(StoreTime),
    Refusal(Option<WriteRefusal>),
}

impl QueryAnswer {
    /// The fault of a store that answers a query with the answer to another.
    pub fn unexpected(self) -> StoreFault {
        StoreFault::Broken("the store answered another query".to_owned())
    }
}
