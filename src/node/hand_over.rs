//! The orderly end of a gate: it hands over what its journal has, and retires.
//!
//! A gate that retired may lose its folder: other journals have all of it, so no rebuild waits for it.

use std::time::Duration;

use super::Node;
use super::journalling::{RecoverError, bring};
use super::membership::{Membership, POLL_INTERVAL};
use super::node_facts::{NodeFacts, stated_lately};
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict, LAPSE, Member};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, StoreFault};

/// How long a gate that ends waits for other journals that do not come nearer to its own.
const STANDSTILL: Duration = Duration::from_secs(5);

/// The journals that stay when a gate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StayingJournals {
    /// How many there are, of running gates that do not end themselves.
    all: usize,
    /// How many of them have every entry up to a number, and know as much of what was before as this one.
    reached: usize,
    /// The sum of the numbers up to which they have every entry. What a gate has behind that number brings it no nearer.
    progress: u64,
}

impl StayingJournals {
    /// `begin`: the number behind which this gate's own journal begins.
    fn of(heard: &HeartbeatReply, id: &NodeId, (begin, number): (Number, Number)) -> StayingJournals {
        let stays = |member: &&Member| {
            let leaves = NodeFacts::read(&member.told).is_some_and(|facts| facts.leaves);
            member.node != *id && heard.is_live(member) && !leaves
        };
        let staying: Vec<&Member> = heard.members.iter().filter(stays).collect();
        // Its own word counts: what the store says of its journal, somebody may have written there.
        let has_all = |member: &&&Member| {
            let facts = stated_lately(heard, member);
            let knows_as_early = |facts: &NodeFacts| facts.journal_begins <= begin && !facts.is_journal_new;
            member.kept >= number && facts.is_some_and(|facts| facts.kept >= number && knows_as_early(&facts))
        };
        let reached = staying.iter().filter(has_all).count();
        let nearer = staying.iter().map(|member| member.kept.min(number).as_u64());
        StayingJournals { all: staying.len(), reached, progress: nearer.fold(0, u64::saturating_add) }
    }

    /// Names the other running gates, and how far the journal of each reaches.
    fn shown(heard: &HeartbeatReply, id: &NodeId) -> String {
        let others = heard.members.iter().filter(|member| member.node != *id && heard.is_live(member));
        others.map(|member| format!("`{}` up to {}", member.node, member.kept)).collect::<Vec<_>>().join(", ")
    }

    /// Whether waiting longer brings no more copies than are asked for, or than there can be.
    fn are_enough(self, copies: usize) -> bool {
        self.reached >= copies.min(self.all)
    }
}

impl Membership {
    /// Ends in order in an environment: as many other journals as there must be copies have all that this one has, and
    /// every running gate knows that this one has left. Other journals that do not come nearer are not awaited. The caller
    /// bounds the time. Returns whether it retired.
    ///
    /// This journal takes what the store has once, with its own last commit. What other gates commit afterwards is theirs to
    /// keep: a journal that went on taking it would be ahead of every heartbeat for as long as anybody pays.
    pub async fn end_in_order(&self, node: &Node, environment: Environment) -> Result<bool, RecoverError> {
        let mut nearer: Option<(u64, Duration)> = None;
        let mut highest = bring(node, environment).await?;
        let is_retired = loop {
            // A call that was given up may have stored its outcome since.
            if self.store.highest(environment) > highest {
                highest = bring(node, environment).await?;
            }
            // The last word on what it may still know; the others do not miss it meanwhile.
            let heard = self.store.beat(environment, &self.life(node, environment, true)).await;
            let heard = heard.map_err(RecoverError::Store)?;
            if heard.verdict != HeartbeatVerdict::Well {
                // A loss is under way: the rebuild asks for this journal.
                return self.leave(node, environment, false).await.map_err(RecoverError::Store).map(|()| false);
            }
            let begin = self.replica.begin(environment).map_err(RecoverError::Store)?;
            let staying = StayingJournals::of(&heard, &node.id, (begin, highest));
            if staying.are_enough(self.copies) {
                let is_free = node.open.earliest(environment).is_none();
                break is_free && staying.reached >= self.copies;
            }
            let now = node.clock.elapsed();
            match nearer {
                Some((progress, since)) if progress >= staying.progress => {
                    if now.saturating_sub(since) >= STANDSTILL {
                        tracing::warn!(
                            %environment,
                            up_to = highest.as_u64(),
                            others = StayingJournals::shown(&heard, &node.id),
                            "the other gates do not take what this journal has; keep its folder"
                        );
                        break false;
                    }
                }
                _ => nearer = Some((staying.progress, now)),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        self.leave(node, environment, is_retired).await.map_err(RecoverError::Store)?;
        self.is_heard_to_leave(node, environment).await;
        if is_retired {
            tracing::info!(
                %environment,
                up_to = highest.as_u64(),
                "this gate retired: other journals have all that its own has"
            );
        }
        Ok(is_retired)
    }

    /// Waits until every running gate knows that this one has left: before, a loss of the store would wait for it.
    async fn is_heard_to_leave(&self, node: &Node, environment: Environment) {
        let mut left = None;
        while let Ok(heard) = self.store.roll(environment).await {
            let since = *left.get_or_insert(heard.at);
            if heard.is_heard_by_all(&node.id, since, LAPSE) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Leaves, so that no node waits for this one.
    async fn leave(&self, node: &Node, environment: Environment, is_retired: bool) -> Result<(), StoreFault> {
        self.store.leave(environment, &self.life(node, environment, true), is_retired).await
    }

    /// Leaves at once: the time to hand over is up.
    pub async fn leave_at_once(&self, node: &Node) {
        for environment in Environment::ALL {
            if let Err(fault) = self.leave(node, environment, false).await {
                node.told_of(&fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_copies_are_awaited_than_there_can_be() {
        let enough = |all, reached, copies| StayingJournals { all, reached, progress: 0 }.are_enough(copies);
        assert!(enough(0, 0, 1));
        assert!(!enough(1, 0, 1) && enough(1, 1, 1) && enough(2, 1, 1));
        assert!(!enough(2, 1, 2) && enough(2, 2, 2) && enough(1, 1, 2));
    }
}
