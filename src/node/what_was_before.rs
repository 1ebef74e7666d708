//! What was before a journal begins, from a gate that knows it.
//!
//! A gate that comes with an empty folder to a store in use cannot get the entries that have left the outbox. Somebody could
//! remove or replace records from that time, and the gate would not see it. So it moves no money until it has a snapshot from
//! a gate that knows all of it. Where no such gate runs, people open money.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::journalling::RecoverError;
use super::membership::{BEAT, Membership, POLL_INTERVAL};
use super::node_facts::NodeFacts;
use super::rebuilt_snapshot::SnapshotOccasion;
use super::recovery::opened_beginning;
use super::retry::Retry;
use super::upkeep::recover;
use super::{Node, NotBegun};
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, StoreFault};
use crate::stations::claim::{self, Forgotten, Freeze};

/// How long a gate waits for one that knows what was before, and does not run now.
pub(super) const WAITS_FOR_GATES: Duration = Duration::from_secs(10);
/// How long after a snapshot was shown to a gate it is shown again; the pause doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// When a snapshot is shown to a gate again that did not take it.
struct ShownTries {
    next: Duration,
    pause: Duration,
}

/// The beginnings of the journals of other gates.
struct OtherBeginnings<'h> {
    /// Those of gates that run, with this one.
    live: Vec<(Number, &'h NodeId)>,
    /// Whether a gate is known that begins earlier, and whether one of them runs.
    earlier: bool,
    earlier_live: bool,
}

impl<'h> OtherBeginnings<'h> {
    fn of(heard: &'h HeartbeatReply, (id, begin): (&NodeId, Number)) -> OtherBeginnings<'h> {
        let mut found = OtherBeginnings { live: Vec::new(), earlier: false, earlier_live: false };
        for member in heard.members.iter().filter(|member| !member.is_retired) {
            let Some(facts) = NodeFacts::read(&member.told).filter(|facts| !facts.leaves) else { continue };
            // One that met no store yet knows nothing of where its journal begins.
            if facts.is_journal_new {
                continue;
            }
            let (is_live, is_earlier) = (heard.is_live(member), member.node != *id && facts.journal_begins < begin);
            found.earlier |= is_earlier;
            found.earlier_live |= is_earlier && is_live;
            if is_live {
                found.live.push((facts.journal_begins, &member.node));
            }
        }
        found
    }
}

/// Recovers what an earlier run left, and learns what was before the journal begins.
pub async fn recover_whole(
    node: &Arc<Node>,
    membership: Option<&Membership>,
    environments: &[Environment],
) -> Result<(), RecoverError> {
    recover(node, environments).await?;
    match membership {
        Some(membership) => {
            membership.learns_what_was_before(node).await.map_err(RecoverError::Store)?;
            membership.waits_for_unheard(node).await.map_err(RecoverError::Store)
        }
        None => Ok(()),
    }
}

impl Node {
    /// Returns why the journal lets no money of an environment move.
    pub(super) fn journal_stop(&self, environment: Environment) -> Option<NotBegun> {
        let is_away = !self.audit.is_well() || self.audit.lacks_witnesses();
        if is_away { Some(NotBegun::AuditAway) } else { self.entry_stop(environment) }
    }

    /// Returns why no entries of an environment's calls are made.
    pub(super) fn entry_stop(&self, environment: Environment) -> Option<NotBegun> {
        if self.is_doubted(environment) {
            return Some(NotBegun::StoreAway);
        }
        self.entries.is_kept_from(environment).then_some(NotBegun::AuditAway)
    }
}

impl Node {
    /// Whether nothing may be sent by what the journal has of an environment: it lacks what was before, or somebody changed what
    /// it got.
    pub(super) fn is_doubted(&self, environment: Environment) -> bool {
        self.watched.lacks_what_was_before(environment) || self.contradictions.are_enough(environment)
    }
}

impl Membership {
    /// Waits at the start until the journal knows what was before, as long as a gate runs that can tell it. Other starts go
    /// on, and move no money before.
    async fn learns_what_was_before(&self, node: &Arc<Node>) -> Result<(), StoreFault> {
        for environment in &self.served {
            while self.is_journal_new(node, *environment) || !self.looks_at_beginning(node, *environment).await? {
                node.watched.starts(Some("this gate learns what was before its journal begins".to_owned()));
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Gives snapshots to gates whose journals begin later, and takes one, as long as the process lives.
    pub(super) async fn exchange_snapshots(&self, node: &Arc<Node>) {
        let mut shown = BTreeMap::new();
        loop {
            for environment in Environment::ALL {
                if let Err(fault) = self.exchange(node, environment, &mut shown).await {
                    node.told_of(&fault);
                }
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    async fn exchange(
        &self,
        node: &Arc<Node>,
        environment: Environment,
        shown: &mut BTreeMap<(Environment, NodeId), ShownTries>,
    ) -> Result<(), StoreFault> {
        if self.is_journal_new(node, environment) {
            return Ok(());
        }
        if self.replica.begin(environment)?.as_u64() > 0 {
            self.take_snapshot(node, environment, None).await?;
        }
        if self.served.contains(&environment) {
            self.looks_at_beginning(node, environment).await?;
        }
        let heard = self.store.roll(environment).await?;
        if heard.verdict != HeartbeatVerdict::Well {
            return Ok(());
        }
        let (begin, last) = (self.replica.begin(environment)?, self.replica.last(environment)?);
        let others = OtherBeginnings::of(&heard, (&node.id, begin));
        // The gate that knows most tells it, and only one.
        if others.live.iter().min().is_none_or(|(_, first)| **first != node.id) {
            return Ok(());
        }
        let now = node.clock.elapsed();
        let lacking = others.live.iter().filter(|(begins, _)| begin < *begins && *begins <= last);
        let lacking: BTreeSet<NodeId> = lacking.map(|(_, other)| (*other).clone()).collect();
        shown.retain(|(place, other), _| *place != environment || lacking.contains(other));
        let mut to = BTreeSet::new();
        for other in lacking {
            let tries =
                shown.entry((environment, other.clone())).or_insert(ShownTries { next: now, pause: FIRST_PAUSE });
            if tries.next <= now {
                *tries = ShownTries {
                    next: now.saturating_add(tries.pause),
                    pause: tries.pause.saturating_mul(2).min(LONGEST_PAUSE),
                };
                to.insert(other);
            }
        }
        self.show_snapshot(node, environment, SnapshotOccasion::Joining, to).await
    }

    /// Notes whether the journal lacks what was before it begins. Where nobody can tell, money is closed for people. Returns
    /// whether it is clear what holds now.
    async fn looks_at_beginning(&self, node: &Arc<Node>, environment: Environment) -> Result<bool, StoreFault> {
        let begin = self.replica.begin(environment)?;
        let lacks = begin.as_u64() > 0 && begin.as_u64() > opened_beginning(node, environment).await?;
        let now = node.clock.elapsed();
        let since = node.watched.set_lacking(environment, lacks, now);
        if !lacks {
            return Ok(true);
        }
        let heard = self.store.roll(environment).await?;
        let others = OtherBeginnings::of(&heard, (&node.id, begin));
        let is_waiting = now.saturating_sub(since) < WAITS_FOR_GATES;
        if others.earlier_live || (others.earlier && is_waiting) {
            return Ok(!is_waiting);
        }
        self.close_for_beginning(node, environment, begin).await?;
        Ok(true)
    }

    /// Closes money until people answer for what was before the journal. Awaited journals come first: they may open money.
    async fn close_for_beginning(
        &self,
        node: &Arc<Node>,
        environment: Environment,
        begin: Number,
    ) -> Result<(), StoreFault> {
        let key = Freeze::Restored.key(environment);
        let mut retry = Retry::default();
        loop {
            let (record, _) = node.store.read(&key).await?;
            let (before, mut forgotten) = Forgotten::of_record(record);
            let is_told = forgotten.begins_behind.max(forgotten.joined_behind) >= begin.as_u64();
            if before.is_some() && (is_told || !forgotten.by_person) {
                return Ok(());
            }
            let why = format!(
                "the journal of `{}` begins behind number {begin}, and no gate runs that knows what was before: somebody could have \
                 changed what is older in the store. Start a gate with an `audit.folder` that has it, if there is one, before a \
                 person opens money",
                node.id
            );
            forgotten.joined_behind = begin.as_u64();
            let commit = claim::closed_for_gap(environment, before, forgotten, &why, &node.id);
            if node.commit(commit).await?.is_some() {
                tracing::error!(
                    %environment,
                    behind = begin.as_u64(),
                    why,
                    "money is closed until a person opens it: compare the store with upstream's records, then `sluice \
                     unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
                );
                return Ok(());
            }
            retry.conflict().await?;
        }
    }
}
