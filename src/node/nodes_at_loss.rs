//! The gates at a loss of the store: those that came, those that did not, and what the journals of those that came lack.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::node_facts::{NodeFacts, came_with, stated_lately};
use crate::adapters::store::redis::{HeartbeatReply, LAPSE, Member, RAN_WITHIN};
use crate::ledger::{NodeId, Number, StoreTime};
use crate::stations::claim::Forgotten;

/// Why money stays closed after a rebuild, for people.
pub(super) type Reasons = Vec<String>;

/// The nodes at a loss, by whether they came.
pub(super) struct NodesAtLoss<'h> {
    pub lost: StoreTime,
    pub came: Vec<&'h Member>,
    /// Nodes that ran when the store was lost, and did not come.
    pub missing: Vec<&'h Member>,
}

impl<'h> NodesAtLoss<'h> {
    pub fn of(heard: &'h HeartbeatReply) -> NodesAtLoss<'h> {
        let lost = heard.lost.unwrap_or(heard.at);
        // One that came and runs no longer is not waited for. What a gate said of an earlier loss could be put back.
        let is_here = |member: &&Member| member.acknowledges == Some(lost) && stated_lately(heard, member).is_some();
        let (came, others): (Vec<_>, Vec<_>) = heard.members.iter().partition(is_here);
        let ran = |member: &&Member| member.beat > StoreTime::default() && lost.since(member.beat) < LAPSE;
        NodesAtLoss { lost, came, missing: others.into_iter().filter(ran).collect() }
    }

    /// Whether a node came that had the store until it was lost, or for which a rebuild has waited since; otherwise others
    /// may have come and gone meanwhile.
    pub fn ran_at_loss(&self) -> bool {
        self.facts().any(|facts| self.had_the_store(&facts))
    }

    pub fn had_the_store(&self, facts: &NodeFacts) -> bool {
        match &facts.closed_by {
            Some(closed) => !closed.by_person,
            None => facts.well_at.is_some_and(|at| self.lost.since(at) < RAN_WITHIN),
        }
    }

    pub fn facts(&self) -> impl Iterator<Item = NodeFacts> {
        self.came.iter().filter_map(|member| NodeFacts::read(&member.told))
    }

    /// The node whose journal begins earliest, and one whose journal begins later and reaches further; `None` where the
    /// first one reaches as far as any, or where the journals do not join.
    pub fn base_and_furthest(&self) -> Option<(&'h Member, &'h Member)> {
        let facts: Vec<(&Member, NodeFacts)> =
            self.came.iter().filter_map(|member| Some((*member, NodeFacts::read(&member.told)?))).collect();
        // A journal with another history cannot be joined with any.
        if facts.len() < self.came.len() || facts.iter().any(|(member, facts)| facts.knows_up_to < member.kept) {
            return None;
        }
        let (base, _) =
            facts.iter().min_by_key(|(member, facts)| (facts.journal_begins, Reverse(member.kept), &member.node))?;
        let (furthest, of_furthest) = facts.iter().max_by_key(|(member, _)| (member.kept, Reverse(&member.node)))?;
        let joins = base.kept < furthest.kept && of_furthest.journal_begins <= base.kept;
        joins.then_some((*base, *furthest))
    }

    /// The node whose journal knows most of what was done with money; of several, the one whose journal begins first, and
    /// of those one that had the store until it was lost: a gate that comes back may have another history behind the same number.
    ///
    /// A journal that begins in the middle does not lead where another one has what was before: its node tells the claims
    /// that the other one lacks, and nobody could tell those before its beginning.
    pub fn leader(&self) -> Option<&'h Member> {
        let rank = |member: &Member| {
            let facts = NodeFacts::read(&member.told);
            let knows = facts.as_ref().map_or(member.kept, |facts| facts.knows_up_to);
            let begins = facts.as_ref().map_or(u64::MAX, |facts| facts.journal_begins.as_u64());
            let had_it = facts.as_ref().is_some_and(|facts| self.had_the_store(facts));
            let is_whole = facts.is_some_and(|facts| facts.left_out.is_none());
            (knows, is_whole, Reverse(begins), had_it, member.kept, Reverse(member.node.clone()))
        };
        let all: Vec<NodeFacts> = self.facts().collect();
        let has_what_was_before =
            |begins: Number| all.iter().any(|other| other.journal_begins < begins && begins <= other.knows_up_to);
        let may_lead = |member: &&&Member| {
            NodeFacts::read(&member.told).is_none_or(|facts| !has_what_was_before(facts.journal_begins))
        };
        self.came.iter().filter(may_lead).max_by_key(|member| rank(member)).copied()
    }

    /// Adds the nodes that came and know that they had not told before this loss what their journals have: of another
    /// history, no other journal has it. What the journal of the node that leads has is in the store.
    pub fn add_untold(
        &self,
        committed: &BTreeMap<NodeId, Number>,
        leads: &NodeId,
        (orphans, reasons): (&mut Forgotten, &mut Reasons),
    ) {
        for member in self.came.iter().filter(|member| member.node != *leads) {
            let closed = NodeFacts::read(&member.told).and_then(|facts| facts.closed_by);
            let Some(from) = closed.and_then(|closed| closed.nodes.get(&member.node).copied()) else { continue };
            let has = committed.get(&member.node).copied().unwrap_or_default().as_u64();
            reasons.push(format!("`{}` had not told yet what its journal has", member.node));
            orphans.awaits_also(&Forgotten {
                nodes: [(member.node.clone(), from.max(has))].into(),
                ..Forgotten::default()
            });
        }
    }

    /// Adds the nodes that came with commits which the journal lacks that begins behind `begin`.
    pub fn add_lacking(
        &self,
        committed: &BTreeMap<NodeId, Number>,
        begin: Number,
        (orphans, reasons): (&mut Forgotten, &mut Reasons),
    ) {
        for member in &self.came {
            let known = committed.get(&member.node).copied().unwrap_or_default();
            // A commit that is on no disk was never sent; one that its own journal has may have been.
            let kept = NodeFacts::read(&member.told).map_or(member.kept, |facts| facts.kept.max(member.kept));
            if member.own > known && kept >= member.own {
                let begins = NodeFacts::read(&member.told).map_or(begin, |facts| facts.journal_begins);
                let lacked = format!("{} that the others lack", known.behind_in_words());
                if begins > begin {
                    // It takes the snapshot of this rebuild, and tells its claims alone: no holds.
                    let why = format!("a journal that begins behind number {begins}, and has commits {lacked}");
                    let why = came_with(&member.node, &why);
                    orphans.must_be_opened(&why);
                    reasons.push(why);
                } else {
                    reasons.push(format!("the journal of `{}` has commits {lacked}", member.node));
                }
                orphans.nodes.insert(member.node.clone(), known.as_u64());
            }
        }
    }
}

/// Whether the audit folder of a node was copied since a store was whole.
pub(super) fn is_copy(member: &Member) -> bool {
    NodeFacts::read(&member.told).is_some_and(|facts| facts.is_copy)
}

/// Whether the journal of a node met no store before this one was lost.
pub(super) fn is_journal_new(member: &Member) -> bool {
    NodeFacts::read(&member.told).is_some_and(|facts| facts.is_journal_new)
}

#[cfg(test)]
mod tests;
