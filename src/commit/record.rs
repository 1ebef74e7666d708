//! What a store keeps.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::base::ids::Environment;

/// When, by the store's own clock, in microseconds since 1970. Over all nodes it never runs back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(i64);

impl StoreTime {
    pub const fn of_micros(micros: i64) -> StoreTime {
        StoreTime(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub fn plus(self, time: Duration) -> StoreTime {
        StoreTime(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    pub fn minus(self, time: Duration) -> StoreTime {
        StoreTime(self.0.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Nothing where `earlier` is later.
    pub fn since(self, earlier: StoreTime) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The number of a commit, counted from 1 for each environment, over all nodes, without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

impl Number {
    pub const fn new(number: u64) -> Number {
        Number(number)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name of one gate among those that share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(String);

impl NodeId {
    /// 1 to 64 of `A-Za-z0-9._-`, beginning with a letter or a digit: it stands in the names of files.
    pub fn parse(text: &str) -> Option<NodeId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        (begins && text.len() <= 64 && text.bytes().all(allowed)).then(|| NodeId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Claim,
    Freeze,
    Hold,
    /// Who agreed that a set of policies takes force.
    Agreement,
    /// What a webhook is to be told.
    Message,
    /// Who votes in another's place.
    StandIns,
    /// What a cookie of the console stands for, and which of them are one person's.
    Session,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Claim, Kind::Freeze, Kind::Hold, Kind::Agreement, Kind::Message, Kind::StandIns, Kind::Session];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Claim => "claim",
            Kind::Freeze => "freeze",
            Kind::Hold => "hold",
            Kind::Agreement => "agreement",
            Kind::Message => "message",
            Kind::StandIns => "stand-ins",
            Kind::Session => "session",
        }
    }
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    pub environment: Environment,
    pub kind: Kind,
    pub name: String,
}

/// A record as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The commit that wrote it.
    pub version: Number,
    /// When that was.
    pub at: StoreTime,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Whole(Bytes),
    /// Its time is over; that it was there is all that is kept.
    Spent,
}

/// How long a record is kept, from the commit that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Forever,
    /// Whole for a time, then spent for another, then gone.
    For {
        whole: Duration,
        spent: Duration,
    },
}

/// The lists that are ordered by time: what is in them is due then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Index {
    /// Claims that are being sent, by the end of their lease.
    Sending,
    /// Claims whose outcome is unknown, by when they are looked at next.
    Unknown,
    /// What is frozen, by when it was.
    Frozen,
    /// Where money was sent, by when it was the last time.
    Paid,
    /// Holds that are open, by when they expire.
    Held,
    /// Holds that people approved, by when they are to be sent next.
    Approved,
    /// What webhooks are to be told, by when it happened.
    Message,
    /// Holds that are over, by when nothing of them is kept any more; then they leave it by themselves.
    Ended,
}

impl Index {
    pub const ALL: [Index; 8] = [
        Index::Sending,
        Index::Unknown,
        Index::Frozen,
        Index::Paid,
        Index::Held,
        Index::Approved,
        Index::Message,
        Index::Ended,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Index::Sending => "sending",
            Index::Unknown => "unknown",
            Index::Frozen => "frozen",
            Index::Paid => "paid",
            Index::Held => "held",
            Index::Approved => "approved",
            Index::Message => "message",
            Index::Ended => "ended",
        }
    }
}

/// An Entry that lies in the store's outbox until it is on disk in the file of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    pub environment: Environment,
    pub number: Number,
    pub at: StoreTime,
    pub node: NodeId,
    /// A JSON object.
    pub entry: Bytes,
}
