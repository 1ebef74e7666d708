//! The facts that a gate states of itself with each heartbeat.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock_leaps::ClockTestimony;
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict, LAPSE, Member};
use crate::adapters::store::replica::FollowedDigest;
use crate::base::json;
use crate::ledger::{JournalId, NodeId, Number, StoreTime};
use crate::stations::claim::Forgotten;
use crate::telemetry::UnlistedRefusal;

/// The format of [`NodeFacts`].
pub(super) const FACTS_FORMAT: u64 = 11;
/// The most unlisted refusals that a heartbeat states.
pub(super) const MAX_REFUSALS: usize = 16;
/// How far the clocks of two machines may be apart of which the process of one has just begun.
const JUST_BEGUN: Duration = Duration::from_mins(1);

/// The facts that a node states with each heartbeat, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFacts {
    pub software: String,
    pub policies: String,
    pub contract: String,
    pub clock_micros: i64,
    pub journal: JournalId,
    /// The length of its fence against a split of the Redis, if it has one.
    pub fence_micros: Option<u64>,
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
    /// The number up to which its journal has every entry.
    pub kept: Number,
    /// The highest number of its own commits.
    pub own: Number,
    /// What it followed lately, which must be the same at every gate.
    pub followed: Option<FollowedDigest>,
    /// Whether its journal was compared with this Redis, so that it has the same history.
    pub is_compared: bool,
    /// The first entry that its journal has and its replica left out.
    pub left_out: Option<Number>,
    /// The latest loss that it knows of: it sends nothing more that it committed before.
    pub acknowledges: Option<StoreTime>,
    /// Whether its journal has not met a store yet: an earlier journal of this node may be lost.
    pub is_journal_new: bool,
    /// Whether its audit folder is a copy, and no store has shown since that it is not an old one.
    pub is_copy: bool,
    /// When the node, which knew by then of all others, found the store well for the last time.
    pub well_at: Option<StoreTime>,
    /// Since when it has missed nothing of what happened in the store. `None` where it does not know, or serves nobody.
    pub had_since: Option<StoreTime>,
    /// The reasons that close money behind a rebuild, as its journal has them.
    pub closed_by: Option<Forgotten>,
    /// Whether the node ends in order.
    pub leaves: bool,
    /// Refusals of upstream that the contract does not list.
    pub unlisted: Vec<UnlistedRefusal>,
    /// What the node says of the store's clock, once it has compared it with its own.
    pub clock: Option<ClockTestimony>,
    /// What it asks the others, while it sees the store's clock leap.
    pub asks: Option<String>,
}

impl NodeFacts {
    /// Reads the facts of a node; `None` where another version wrote them in another format.
    pub fn read(text: &str) -> Option<NodeFacts> {
        json::from_record(text.as_bytes(), FACTS_FORMAT).ok()
    }
}

/// Returns the facts of a gate that it stated lately. A time of its last heartbeat alone could be anybody's word.
pub(super) fn stated_lately(heard: &HeartbeatReply, member: &Member) -> Option<NodeFacts> {
    NodeFacts::read(&member.told).filter(|facts| heard.is_live(member) && heard.at.since(facts.at) < LAPSE)
}

/// Returns the process that bears this node's name in the store, where nobody with the key stated lately that it runs: then
/// somebody wrote it there.
pub(super) fn unproven_process(heard: &HeartbeatReply, node: &NodeId, clock_micros: i64) -> Option<String> {
    let other = heard.members.iter().find(|member| heard.verdict == HeartbeatVerdict::Taken && member.node == *node)?;
    let is_proven = match NodeFacts::read(&other.told) {
        // It has just begun, and does not know the store's time.
        Some(facts) if facts.at == StoreTime::default() => {
            Duration::from_micros(facts.clock_micros.abs_diff(clock_micros)) < JUST_BEGUN
        }
        Some(facts) => heard.at.since(facts.at) < LAPSE,
        // Another version may have stated what this one cannot read.
        None => !other.told.is_empty(),
    };
    (!is_proven).then(|| other.instance.clone())
}

/// Takes of a heartbeat's reply what the gates said themselves, where somebody may have written something else beside it.
pub(super) fn take_stated(heard: &mut HeartbeatReply) {
    for member in &mut heard.members {
        let facts = NodeFacts::read(&member.told);
        let stated = facts.as_ref().and_then(|facts| facts.acknowledges);
        member.acknowledges = member.acknowledges.filter(|lost| stated == Some(*lost));
        member.own = member.own.max(facts.map(|facts| facts.own).unwrap_or_default());
    }
}

/// The reason why the journal of a gate does not open money: with what the gate came. Reasons of other gates begin otherwise.
pub fn came_with(node: &NodeId, journal: &str) -> String {
    format!("`{node}` came with {journal}")
}

/// Returns the number behind which the earliest journal of a running gate begins.
pub fn journals_begin(heard: &HeartbeatReply) -> Number {
    let live = heard.members.iter().filter(|member| heard.is_live(member));
    live.filter_map(|member| NodeFacts::read(&member.told)).map(|facts| facts.journal_begins).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NodeFacts {
        pub fn of_test(begins: u64, own: u64) -> NodeFacts {
            NodeFacts {
                fence_micros: None,
                software: String::new(),
                policies: String::new(),
                contract: String::new(),
                clock_micros: 0,
                journal: JournalId::parse(&"a1".repeat(16)).unwrap(),
                at: StoreTime::default(),
                open_from: None,
                journal_begins: Number::new(begins),
                knows_up_to: Number::new(own),
                kept: Number::default(),
                own: Number::new(own),
                followed: None,
                is_compared: true,
                left_out: None,
                acknowledges: None,
                is_journal_new: false,
                is_copy: false,
                well_at: None,
                had_since: None,
                closed_by: None,
                leaves: false,
                unlisted: Vec::new(),
                clock: None,
                asks: None,
            }
        }
    }

    fn facts(acknowledges: Option<StoreTime>, at: StoreTime) -> String {
        json::to_record(&NodeFacts { acknowledges, at, ..NodeFacts::of_test(0, 9) }, FACTS_FORMAT)
    }

    /// A heartbeat's reply with one other gate, which was heard now as the store says.
    fn heard(now: StoreTime, acknowledges: Option<StoreTime>, told: String) -> HeartbeatReply {
        let member = Member {
            node: NodeId::parse("other").unwrap(),
            instance: "other".to_owned(),
            beat: now,
            highest: Number::new(2),
            kept: Number::new(9),
            own: Number::new(2),
            run: String::new(),
            acknowledges,
            is_retired: false,
            told,
        };
        HeartbeatReply {
            verdict: HeartbeatVerdict::Well,
            at: now,
            clock: now,
            generation: String::new(),
            run: String::new(),
            last: Number::new(9),
            above: Number::default(),
            lost: None,
            members: vec![member],
        }
    }

    fn at(seconds: i64) -> StoreTime {
        StoreTime::of_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_gate_acknowledged_a_loss_only_if_it_said_so_itself() {
        for (stated, stored, wanted) in [
            (Some(Some(5)), Some(5), Some(5)),
            (Some(Some(5)), Some(6), None),
            (Some(Some(5)), None, None),
            (Some(None), Some(5), None),
            // Nobody with a key wrote its facts.
            (None, Some(5), None),
        ] {
            let told = stated.map_or_else(String::new, |lost| facts(lost.map(at), at(5)));
            let mut heard = heard(at(9), stored.map(at), told);
            take_stated(&mut heard);
            let member = &heard.members[0];
            assert_eq!(member.acknowledges, wanted.map(at), "{stated:?} {stored:?}");
            // It made more commits than the store says.
            assert_eq!(member.own, Number::new(if stated.is_some() { 9 } else { 2 }));
        }
    }

    #[test]
    fn what_a_gate_said_long_ago_is_not_said_lately_by_a_heartbeat_of_somebody_else() {
        for (said, wanted) in [(Some(100), true), (Some(96), true), (Some(95), false), (Some(0), false), (None, false)]
        {
            let heard = heard(at(100), None, said.map_or_else(String::new, |said| facts(None, at(said))));
            assert_eq!(stated_lately(&heard, &heard.members[0]).is_some(), wanted, "{said:?}");
        }
    }
}
