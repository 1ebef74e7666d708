//! The facts that a gate states of itself with each heartbeat.

use serde::{Deserialize, Serialize};

use crate::adapters::store::redis::HeartbeatReply;
use crate::base::json;
use crate::ledger::{JournalId, Number, StoreTime};
use crate::stations::claim::Forgotten;
use crate::telemetry::UnlistedRefusal;

/// The format of [`NodeFacts`].
pub(super) const FACTS_FORMAT: u64 = 7;
/// The most unlisted refusals that a heartbeat states.
pub(super) const MAX_REFUSALS: usize = 16;

/// The facts that a node states with each heartbeat, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFacts {
    pub software: String,
    pub policies: String,
    pub contract: String,
    pub clock_micros: i64,
    pub journal: JournalId,
    /// The store's time at which these facts were so.
    #[serde(rename = "atMicros")]
    pub at: StoreTime,
    /// The earliest attempt that the node still sends, listens for or has to settle.
    pub open_from: Option<Number>,
    /// The number up to which its journal knows nothing.
    pub journal_begins: Number,
    /// The number up to which its journal knows what was done with money. Less than it has, while money is closed behind a
    /// rebuild.
    pub knows_up_to: Number,
    /// Whether its journal has not met a store yet: an earlier journal of this node may be lost.
    pub is_journal_new: bool,
    /// Whether its audit folder is a copy, and no store has shown since that it is not an old one.
    pub is_copy: bool,
    /// When the node found the store well, and money not closed behind a rebuild, for the last time.
    pub well_at: Option<StoreTime>,
    /// The reasons that close money behind a rebuild, as its journal has them.
    pub closed_by: Option<Forgotten>,
    /// Whether the node ends in order.
    pub leaves: bool,
    /// Refusals of upstream that the contract does not list.
    pub unlisted: Vec<UnlistedRefusal>,
    /// How the store's clock differs from what the node's monotonic clock expects, where it leapt.
    pub clock_leap_micros: Option<i64>,
    /// Whether the node has compared the store's clock with its own since its start.
    pub is_clock_settled: bool,
}

impl NodeFacts {
    /// Reads the facts of a node; `None` where another version wrote them in another format.
    pub fn read(text: &str) -> Option<NodeFacts> {
        json::from_record(text.as_bytes(), FACTS_FORMAT).ok()
    }
}

/// Returns the number behind which the earliest journal of a running gate begins.
pub fn journals_begin(heard: &HeartbeatReply) -> Number {
    let live = heard.members.iter().filter(|member| heard.is_live(member));
    live.filter_map(|member| NodeFacts::read(&member.told)).map(|facts| facts.journal_begins).min().unwrap_or_default()
}
