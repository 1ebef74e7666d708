//! What gates say of their journals must agree with this one's.
//!
//! Every gate takes the entries of others out of the outbox, where somebody may have put one in the place of another, or
//! may have changed their order. So each states with its heartbeats a digest of what it followed lately.

use super::Node;
use super::membership::Membership;
use super::node_facts::{NodeFacts, stated_lately};
use crate::adapters::audit::{EntryRoom, newest_entries};
use crate::adapters::store::redis::{HeartbeatReply, Member};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault};

/// How many entries of the journal are remembered at a start.
const REMEMBERED: EntryRoom = EntryRoom { entries: 4_096, bytes: 8 << 20 };

impl Membership {
    /// Remembers the newest entries of the journal, before it takes more.
    pub(super) async fn remembers_newest(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        let highest = node.audit.highest(environment);
        let newest =
            self.read_files(node, move |folder, id| newest_entries(folder, id, (environment, highest), REMEMBERED));
        self.replica.followed_before(environment, &newest.await?);
        Ok(())
    }

    /// Compares what other gates that run followed with what this one did.
    pub(super) fn compares_journals(&self, node: &Node, environment: Environment, heard: &HeartbeatReply) {
        self.replica.follows_behind(environment, node.losses.acknowledged(environment));
        let mut lowest = node.audit.highest(environment);
        for member in heard.members.iter().filter(|member| member.node != node.id && !member.is_retired) {
            let Some(facts) = NodeFacts::read(&member.told) else { continue };
            lowest = lowest.min(facts.kept);
            if facts.is_compared
                && stated_lately(heard, member).is_some()
                && let Some(behind) = self.differs_behind(environment, member)
            {
                let why = format!(
                    "the journal of `{}` has other entries {} than this gate's: somebody changed entries on their way",
                    member.node,
                    behind.behind_in_words()
                );
                node.found_changed_entries(environment, &why);
            }
        }
        self.replica.mark(environment, node.clock.elapsed(), lowest);
    }

    /// Returns the number behind which the journal of another gate has other entries than this one, where both are known.
    pub(super) fn differs_behind(&self, environment: Environment, member: &Member) -> Option<Number> {
        let stated = NodeFacts::read(&member.told)?.followed?;
        let is_same = self.replica.followed_the_same(environment, &stated)?;
        (!is_same).then_some(stated.behind)
    }
}
