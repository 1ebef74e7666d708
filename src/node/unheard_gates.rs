//! Gates that are not heard when this gate starts, and that may have gone on after it ended.
//!
//! A Redis that was put back to where this gate's journal ends looks whole to it, whatever another gate paid since. So it
//! waits for each gate of which it cannot know that it ended before, or in order. Then money is closed until that one
//! comes, or people open it, as behind a rebuild without that gate's journal. Where its own journal is a copy, it may have
//! been put back together with the Redis, so that people open money.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Node;
use super::heard_before::{Continuity, HeardBeforeStart};
use super::membership::{BEAT, Membership, POLL_INTERVAL};
use super::node_facts::{NodeFacts, came_with, stated_lately};
use super::retry::Retry;
use super::what_was_before::WAITS_FOR_GATES;
use crate::adapters::audit::{LastHeard, LastStated};
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict, LAPSE, Member, RAN_WITHIN};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Sender, StoreFault, StoreTime};
use crate::stations::claim::{self, Forgotten, Freeze};

impl Membership {
    /// Whether this gate can know that the store has what all other gates did.
    pub(super) fn knows_of_all(&self, environment: Environment) -> bool {
        !self.served.contains(&environment) || self.heard_before.is_settled(environment)
    }

    /// Looks at the start at what this gate heard before.
    pub(super) fn begins_to_hear(&self, node: &Node) -> Result<(), StoreFault> {
        if self.heard_before.start.get().is_some() {
            return Ok(());
        }
        let (mut heard, mut had) = (BTreeMap::new(), BTreeMap::new());
        for environment in &self.served {
            let last = LastHeard::read(&self.audit_folder, &node.id, *environment);
            let is_alone = last.as_ref().is_none_or(|last| last.stated.is_empty());
            let last = match last {
                Some(last) => last,
                // Where it could not be kept, the last entry is what is known.
                None => {
                    let at = self.replica.time()?;
                    LastHeard { at, since: at, stated: BTreeMap::new() }
                }
            };
            had.insert(*environment, Continuity { since: last.since, until: last.at });
            if !is_alone || node.audit.highest(*environment).as_u64() > 0 {
                heard.insert(*environment, last);
            }
        }
        let start = HeardBeforeStart { began: node.clock.elapsed(), heard, had };
        drop(self.heard_before.start.set(start));
        Ok(())
    }

    /// Keeps for the next start when the store was well, and when the other gates stated their facts. Before this gate knows
    /// of all others, what it heard before its end must stay.
    pub(super) fn keeps_heard(&self, node: &Node, environment: Environment, heard: &HeartbeatReply) {
        if !self.served.contains(&environment) || !self.heard_before.is_settled(environment) {
            return;
        }
        self.heard_before.goes_on(environment, heard.at);
        let (now, mut kept) =
            (node.clock.elapsed(), self.heard_before.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let before = kept.get(&environment);
        if before.is_some_and(|(written, _)| now.saturating_sub(*written) < BEAT) {
            return;
        }
        let at_start = || self.heard_before.start.get()?.heard.get(&environment);
        let before = before.map(|(_, last)| last).or_else(at_start);
        let mut stated = before.map(|last| last.stated.clone()).unwrap_or_default();
        for member in heard.members.iter().filter(|member| member.node != node.id) {
            let facts = NodeFacts::read(&member.told).map(|NodeFacts { at, leaves, .. }| LastStated { at, leaves });
            // A process that has just begun does not know the time.
            if let Some(facts) = facts.filter(|facts| facts.at > StoreTime::default()) {
                stated.insert(member.node.clone(), facts);
            }
        }
        // One that came while this gate ran would have been heard.
        for id in self.all_nodes.iter().filter(|id| **id != node.id) {
            stated.entry(id.clone()).or_insert(LastStated { at: StoreTime::default(), leaves: false });
        }
        for member in heard.members.iter().filter(|member| member.node != node.id && !heard.is_live(member)) {
            stated.entry(member.node.clone()).or_insert(LastStated { at: member.beat, leaves: false });
        }
        let since = self.heard_before.had_since(environment).unwrap_or(heard.at);
        let last = LastHeard { at: heard.at, since, stated };
        // Without it, the next start waits for more gates than it need.
        let folder = &self.audit_folder;
        if let Err(error) = folder.check().and_then(|()| last.keep(folder, &node.id, environment)) {
            tracing::debug!(%error, "what this gate heard of others cannot be kept beside its journal");
        }
        kept.insert(environment, (now, last));
    }

    /// Waits at the start for the gates that may have gone on after this one ended; then money is closed until they come.
    pub(super) async fn waits_for_unheard(&self, node: &Arc<Node>) -> Result<(), StoreFault> {
        for environment in &self.served {
            let mut looked_for_copy = false;
            let (since, heard) = loop {
                let heard = self.store.roll(*environment).await?;
                if heard.verdict == HeartbeatVerdict::Well && heard.lost.is_none() {
                    if !looked_for_copy && self.may_be_put_back(node, *environment, &heard) {
                        close_for_copy(node, *environment).await?;
                    }
                    looked_for_copy = true;
                    let unheard = self.unheard(node, *environment, &heard).await?;
                    let began = self.heard_before.start.get().map_or(Duration::ZERO, |start| start.began);
                    if unheard.is_empty() || self.are_awaited(node, *environment, &unheard).await? {
                        break (self.has_missed_nothing_since(node, *environment, &heard), heard);
                    }
                    if node.clock.elapsed().saturating_sub(began) >= WAITS_FOR_GATES {
                        self.close_for_unheard(node, *environment, &unheard).await?;
                        break (heard.at, heard);
                    }
                    let why = format!("this gate waits for {}, which may have gone on after it ended", named(&unheard));
                    node.watched.starts(Some(why));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            };
            self.heard_before.settle(*environment, Continuity { since, until: heard.at });
            self.keeps_heard(node, *environment, &heard);
        }
        Ok(())
    }

    /// Whether the Redis may have been put back together with the audit folder: that is a copy, and no gate had the Redis
    /// since it was made. A gate that waits for this one has it since its own start alone.
    fn may_be_put_back(&self, node: &Node, environment: Environment, heard: &HeartbeatReply) -> bool {
        self.is_copy.load(Ordering::Acquire) && !self.is_vouched_for(node, environment, heard)
    }

    /// Whether another gate runs that has had the store since this one had it last: what happened meanwhile is in the store.
    fn is_vouched_for(&self, node: &Node, environment: Environment, heard: &HeartbeatReply) -> bool {
        let Some(had) = self.had_before(environment) else { return false };
        let mut others = heard.members.iter().filter(|member| member.node != node.id);
        others.any(|member| has_had_the_store(heard, member, had.until))
    }

    fn had_before(&self, environment: Environment) -> Option<Continuity> {
        self.heard_before.start.get()?.had.get(&environment).copied()
    }

    /// Returns since when this gate has missed nothing. What happened while it was away, only a gate tells that had the Redis
    /// meanwhile: of what it heard before, and of what the Redis has, nothing shows that no other gate ran since.
    fn has_missed_nothing_since(&self, node: &Node, environment: Environment, heard: &HeartbeatReply) -> StoreTime {
        let had = self.had_before(environment).filter(|_| self.is_vouched_for(node, environment, heard));
        had.map_or(heard.at, |had| had.since)
    }

    /// Returns the gates that may have done something after this one ended which this store lacks.
    async fn unheard(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<BTreeSet<NodeId>, StoreFault> {
        let start = self.heard_before.start.get();
        let Some(last) = start.and_then(|start| start.heard.get(&environment)) else { return Ok(BTreeSet::new()) };
        // One that had the store while this gate was away would miss what it did there itself, and looked at its own start.
        if self.is_vouched_for(node, environment, heard) {
            return Ok(BTreeSet::new());
        }
        let others = || heard.members.iter().filter(|member| member.node != node.id);
        let gone = node.gone(environment).await?;
        let known = others().map(|member| &member.node).chain(self.all_nodes.iter()).chain(last.stated.keys());
        let mut unheard = BTreeSet::new();
        for id in known.filter(|id| **id != node.id) {
            let member = others().find(|member| member.node == *id);
            if member.is_some_and(|member| stated_lately(heard, member).is_some()) {
                continue;
            }
            let facts = member.and_then(|member| NodeFacts::read(&member.told));
            let is_its = |sender: &Sender| facts.as_ref().is_none_or(|facts| facts.journal == sender.journal);
            let is_gone = gone.iter().any(|sender| sender.node == *id && is_its(sender));
            if !is_gone && !has_ended(facts.as_ref(), last.stated.get(id).copied(), last.at) {
                unheard.insert(id.clone());
            }
        }
        Ok(unheard)
    }

    /// Whether money is closed until these gates have come.
    async fn are_awaited(
        &self,
        node: &Node,
        environment: Environment,
        unheard: &BTreeSet<NodeId>,
    ) -> Result<bool, StoreFault> {
        let (record, _) = node.store.read(&Freeze::Restored.key(environment)).await?;
        let (before, forgotten) = Forgotten::of_record(record);
        Ok(before.is_some() && unheard.iter().all(|id| forgotten.nodes.contains_key(id)))
    }

    /// Closes money until these gates have told what their journals have, or people open it.
    async fn close_for_unheard(
        &self,
        node: &Node,
        environment: Environment,
        unheard: &BTreeSet<NodeId>,
    ) -> Result<(), StoreFault> {
        let key = Freeze::Restored.key(environment);
        let mut retry = Retry::default();
        loop {
            let (record, _) = node.store.read(&key).await?;
            let (before, mut forgotten) = Forgotten::of_record(record);
            if before.is_some() && unheard.iter().all(|id| forgotten.nodes.contains_key(id)) {
                return Ok(());
            }
            let (committed, up_to) = (self.replica.committed(environment)?, node.audit.highest(environment).as_u64());
            let from = |id: &NodeId| committed.get(id).copied().unwrap_or_default().as_u64();
            let nodes = unheard.iter().map(|id| (id.clone(), from(id))).collect();
            forgotten.awaits_also(&Forgotten { nodes, lacks_up_to: up_to, ..Forgotten::default() });
            forgotten.known_up_to.get_or_insert(up_to);
            let why = format!(
                "{} did not come yet, and may have gone on after `{}` ended: if the Redis was put back since, it lacks that",
                named(unheard),
                node.id
            );
            let commit = claim::closed_awaiting(environment, before, &forgotten, &why, &node.id);
            if node.commit(commit).await?.is_some() {
                tracing::error!(
                    %environment,
                    why,
                    "money is closed until these gates have come, each with its `audit.folder`; if one never comes, find out from \
                     upstream's records what it paid, then `sluice unfreeze --restored --environment ENVIRONMENT --reason \
                     TEXT`"
                );
                return Ok(());
            }
            retry.conflict().await?;
        }
    }
}

/// Closes money until people open it: what this gate or another one did after the copy was made may be forgotten.
async fn close_for_copy(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    let why = "a copy of its audit folder: whether it and the Redis are the newest is not known";
    let (key, why) = (Freeze::Restored.key(environment), came_with(&node.id, why));
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&key).await?;
        let (before, forgotten) = Forgotten::of_record(record);
        if before.is_some() && forgotten.by_person && forgotten.reasons.contains(&why) {
            return Ok(());
        }
        let commit = claim::closed_for_gap(environment, before, forgotten, &why, &node.id);
        if node.commit(commit).await?.is_some() {
            tracing::error!(
                %environment,
                why,
                "money is closed: find out what is missing (`sluice audit verify`, upstream's records), then open it with \
                 `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
            );
            return Ok(());
        }
        retry.conflict().await?;
    }
}

/// Whether a gate runs that has the store, and has missed nothing of what happened there since then.
fn has_had_the_store(heard: &HeartbeatReply, member: &Member, since: StoreTime) -> bool {
    let Some(NodeFacts { well_at, had_since, .. }) = stated_lately(heard, member) else { return false };
    let has_it = well_at.is_some_and(|at| heard.at.since(at) < RAN_WITHIN);
    has_it && had_since.is_some_and(|had| had <= since)
}

/// Whether a gate that is not heard ended before this one did, or in order. `facts` are the last ones that it stated; `stated`
/// are those that this gate heard last, and `until` is when that was.
fn has_ended(facts: Option<&NodeFacts>, stated: Option<LastStated>, until: StoreTime) -> bool {
    let was_silent = |since: StoreTime| until.since(since) > BEAT.saturating_add(LAPSE);
    match (facts, stated) {
        // Older facts than those that were heard were put back.
        (Some(facts), stated) => {
            let is_put_back = stated.is_some_and(|heard| facts.at < heard.at);
            !is_put_back && (facts.leaves || was_silent(facts.at))
        }
        // A rebuild does not have them any more.
        (None, Some(heard)) => heard.leaves || was_silent(heard.at),
        (None, None) => false,
    }
}

fn named(gates: &BTreeSet<NodeId>) -> String {
    gates.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_has_ended_that_left_or_was_silent_before_this_one_ended() {
        let at = |seconds| StoreTime::default().plus(Duration::from_secs(seconds));
        let facts = |seconds, leaves| NodeFacts { at: at(seconds), leaves, ..NodeFacts::of_test(0, 0) };
        let ended = |facts: Option<NodeFacts>, stated: Option<u64>, until| {
            let stated = stated.map(|seconds| LastStated { at: at(seconds), leaves: false });
            has_ended(facts.as_ref(), stated, at(until))
        };
        // It ran when this gate ended, or since.
        for (its, heard, until) in [(100, 100, 100), (100, 100, 106), (100, 90, 97), (200, 100, 150), (106, 100, 112)] {
            assert!(!ended(Some(facts(its, false)), Some(heard), until), "{its} {heard} {until}");
        }
        // This gate went on long after it.
        assert!(ended(Some(facts(100, false)), Some(100), 107));
        assert!(ended(Some(facts(100, false)), None, 107));
        // It left, since or before.
        assert!(ended(Some(facts(100, true)), Some(99), 100));
        assert!(ended(Some(facts(200, true)), Some(100), 100));
        // Somebody put back what it had stated before.
        assert!(!ended(Some(facts(100, true)), Some(101), 200));
        assert!(!ended(Some(facts(100, false)), Some(101), 200));
        // Somebody removed it, or it is listed and never came.
        assert!(ended(None, Some(100), 107));
        assert!(!ended(None, Some(100), 106));
        assert!(!ended(None, None, 500));
        assert!(has_ended(None, Some(LastStated { at: at(100), leaves: true }), at(100)));
    }
}
