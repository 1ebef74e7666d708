//! The records, indexes and times of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::ids::Environment;
use crate::base::json::{self, written_as_text};
use crate::base::word_enum::word_enum;

/// The store's time, in microseconds since 1970. It never runs back, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreTime(i64);

impl StoreTime {
    /// The largest integer that a double of a Redis script holds exactly; no time and no number goes beyond.
    pub const MAX_EXACT: i64 = (1 << 53) - 1;
    /// The longest duration, in microseconds, so that now plus two of them stays below the former: some 95 years.
    pub const LONGEST: i64 = StoreTime::MAX_EXACT / 3;

    pub const fn of_micros(micros: i64) -> StoreTime {
        StoreTime(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Adds a duration; one beyond [`StoreTime::LONGEST`] counts as that long, in every store alike.
    pub fn plus(self, time: Duration) -> StoreTime {
        StoreTime(self.0.saturating_add(StoreTime::micros(time)))
    }

    pub fn minus(self, time: Duration) -> StoreTime {
        StoreTime(self.0.saturating_sub(StoreTime::micros(time)))
    }

    /// Returns a duration in microseconds, at most [`StoreTime::LONGEST`].
    pub fn micros(time: Duration) -> i64 {
        i64::try_from(time.as_micros()).unwrap_or(StoreTime::LONGEST).min(StoreTime::LONGEST)
    }

    /// The time since `earlier`; zero where that is later.
    pub fn since(self, earlier: StoreTime) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The number of a commit, counted from 1 for each environment, over all nodes, without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Number(u64);

impl Number {
    pub const fn new(number: u64) -> Number {
        Number(number)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Says for people where something begins: `behind number 7`.
    pub fn behind_in_words(self) -> String {
        match self.0 {
            0 => "from its beginning".to_owned(),
            number => format!("behind number {number}"),
        }
    }

    /// Returns this number, as far as it can be believed of a store whose journal ends at another one: a rebuild leaves some
    /// numbers free, but somebody who writes a number into a store must not bring them to their end.
    pub fn believed_behind(self, journal: Number) -> Number {
        const FARTHEST: u64 = 1 << 40;
        self.min(Number(journal.0.saturating_add(FARTHEST)))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name of one gate among those that share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// 1 to 64 of `A-Za-z0-9._-`, beginning with a letter or a digit: it is part of file names.
    pub fn parse(text: &str) -> Option<NodeId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        (begins && text.len() <= 64 && text.bytes().all(allowed)).then(|| NodeId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

written_as_text!(NodeId, as_str, NodeId::parse, "the name of a node");

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of one gate's journal: its audit folder and all that stands beside it. A gate whose folder was lost has
/// another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JournalId(Arc<str>);

impl JournalId {
    /// 32 hexadecimal digits, in lower case.
    pub fn parse(text: &str) -> Option<JournalId> {
        let allowed = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 32 && text.bytes().all(allowed)).then(|| JournalId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

written_as_text!(JournalId, as_str, JournalId::parse, "the id of a journal");

/// The identity of an installation: of its store of production, and of the gates that use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstallationId(String);

impl InstallationId {
    /// 8 to 64 digits, lower-case letters and hyphens.
    pub fn parse(text: &str) -> Option<InstallationId> {
        let allowed = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-';
        ((8..=64).contains(&text.len()) && text.bytes().all(allowed)).then(|| InstallationId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

written_as_text!(InstallationId, as_str, InstallationId::parse, "the id of an installation");

/// The gate that sends, and the journal that it writes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sender {
    pub node: NodeId,
    pub journal: JournalId,
}

impl Sender {
    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<Sender> {
        let (node, journal) = text.split_once('/')?;
        Some(Sender { node: NodeId::parse(node)?, journal: JournalId::parse(journal)? })
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.journal.as_str())
    }
}

word_enum! {
    /// The kinds of records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {
        Claim = "claim",
        Freeze = "freeze",
        Hold = "hold",
        /// The people who agreed that a set of policies takes force.
        Agreement = "agreement",
        /// A set of policies began to wait: webhooks are told once.
        Waiting = "waiting",
        /// The version of the policies in force, and their contract's digest.
        InForce = "in-force",
        /// The texts of policies that were in force, by version.
        PolicySet = "policy-set",
        /// The texts of a contract that was in force, by digest.
        Contract = "contract",
        /// A notice for a webhook.
        Message = "message",
        /// The stand-ins of an environment.
        StandIns = "stand-ins",
        /// A payment after its send, as upstream's list shows it; or how far that list was read.
        Followed = "followed",
        /// A session of the console, or the list of a person's sessions.
        Session = "session",
        /// A session that ended before its time: whoever puts its record back does not open it again.
        SessionEnd = "session-end",
        /// A gate and its journal that two people declared gone, or the first of them.
        Gone = "gone",
        /// The beginning of a journal for which a person opened money.
        Opened = "opened",
        /// What is added to the clock of a store that leapt.
        ClockCorrection = "clock-correction",
        /// What a person was asked to sign, until a vote uses it up.
        Challenge = "challenge",
        /// The last counter of a passkey.
        Counter = "counter",
    }
}

impl Kind {
    /// Whether a journal keeps the content of these records, so that a store that lost them gets them back.
    pub fn is_journalled(self) -> bool {
        self != Kind::Session
    }
}

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordKey {
    pub environment: Environment,
    pub kind: Kind,
    pub name: String,
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The commit that wrote it.
    pub version: Number,
    /// The store's time when it was written.
    pub at: StoreTime,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Whole(Bytes),
    /// A tombstone: the content was removed.
    Spent,
}

/// The retention of a record, from the commit that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Keep {
    Forever,
    /// The content for a time, then a tombstone for another, then nothing.
    For {
        #[serde(rename = "wholeMicros", with = "json::written_as::micros")]
        whole: Duration,
        #[serde(rename = "spentMicros", with = "json::written_as::micros")]
        spent: Duration,
    },
}

word_enum! {
    /// The indexes, each ordered by a due time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Index {
        /// Claims that are being sent, by the end of their lease.
        Sending = "sending",
        /// Claims with an unknown outcome, by their next lookup.
        Unknown = "unknown",
        /// Freezes, by when they were made.
        Frozen = "frozen",
        /// Destinations that were paid, by the last payment.
        Paid = "paid",
        /// Destinations that were paid, by the first payment. One that people approved counts as paid long ago.
        Known = "known",
        /// Open holds, by their expiry.
        Held = "held",
        /// Approved holds, by their next attempt.
        Approved = "approved",
        /// Notices for webhooks, by when their event happened.
        Message = "message",
        /// Closed holds, by when nothing of them is kept; they leave the index by themselves then.
        Ended = "ended",
        /// Gates that two people declared gone, by when they did.
        Gone = "gone",
        /// Payments that upstream lists and no gate knows, or that differ from the call, by when they were found.
        Foreign = "foreign",
        /// Sessions of people, by when they end unless they are used.
        Session = "session",
    }
}

/// An entry in the store's outbox, until it is on disk in the file of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    pub environment: Environment,
    pub number: Number,
    pub at: StoreTime,
    pub node: NodeId,
    /// A JSON object.
    pub entry: Bytes,
}

/// The content of a record, with the version that a commit on it guards.
#[derive(Debug)]
pub struct Versioned<'a, T> {
    pub key: &'a RecordKey,
    pub version: Number,
    /// The store's time when the record was written.
    pub at: StoreTime,
    pub value: &'a T,
}

impl<T> Clone for Versioned<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Versioned<'_, T> {}
