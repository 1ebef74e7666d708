//! A store with another history than this gate's journal: a Redis that lagged was promoted, so that it lacks what this gate
//! followed at the former one.
//!
//! Numbers alone do not show that, as the store may have given out as many since. So a gate compares its newest entry with
//! every Redis that it meets, before it does anything else there. Neither history is changed: money is closed until a person
//! opens it, this journal goes on behind the store's last number, and its claims are told.

use super::Node;
use super::membership::Membership;
use super::retry::Retry;
use crate::adapters::audit::{EntryRoom, another_history, has_own_within, newest_entries};
use crate::adapters::store::redis::{EntryMark, HeartbeatReply, HeartbeatVerdict, RedisStore};
use crate::base::ids::Environment;
use crate::ledger::{CommitError, Content, NodeId, Number, StoreFault};
use crate::ports::{AuditFault, Store as _};
use crate::stations::claim::{self, Forgotten, Freeze};

impl Membership {
    /// Returns the number up to which the journal has every entry, and what tells the entry at that number from others, where
    /// the next heartbeat must compare it.
    pub(super) async fn newest(
        &self,
        node: &Node,
        environment: Environment,
    ) -> Result<Option<(Number, Option<EntryMark>)>, StoreFault> {
        if !self.store.must_compare(environment) {
            return Ok(None);
        }
        let kept = node.audit.highest(environment);
        let room = EntryRoom { entries: 1, bytes: usize::MAX };
        let found =
            self.read_files(node, move |folder, id| newest_entries(folder, id, (environment, kept), room)).await?;
        // A journal that went on without entries has none at that number.
        let at_end = found.into_iter().find(|entry| entry.number == kept);
        Ok(Some((kept, at_end.map(|entry| EntryMark { at: entry.at, node: entry.node }))))
    }

    /// Before this gate meets a Redis, its journal goes on with the history of the store where that was rebuilt without it.
    pub(super) async fn joins_the_store_s_history(
        &self,
        node: &Node,
        environment: Environment,
    ) -> Result<(), StoreFault> {
        if !self.store.must_compare(environment) {
            return Ok(());
        }
        // As a node, this gate has not met the store yet.
        let heard = match self.store.without_node().roll(environment).await {
            // The heartbeat that follows finds the same, and has the store mended.
            Err(StoreFault::Broken(_)) => return Ok(()),
            heard => heard?,
        };
        // A lost store is rebuilt first.
        if heard.verdict != HeartbeatVerdict::Well || heard.lost.is_some() {
            return Ok(());
        }
        let Some(from) = self.is_passed_over(node, environment, &heard).await? else { return Ok(()) };
        self.closes_for_another_history(node, environment, &heard, Some(from)).await
    }

    /// Returns the number behind which the store waits for commits of this gate, where it has given the number of one of them
    /// to another commit: it was rebuilt without this journal, and went on or had gone on.
    async fn is_passed_over(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<Option<u64>, StoreFault> {
        let (_, forgotten) = self.closing(&self.store.without_node(), environment).await?;
        let awaited = forgotten.nodes.get(&node.id).copied();
        let Some((from, known)) = awaited.zip(forgotten.known_up_to) else { return Ok(None) };
        // The journal from which it was rebuilt does not tell what was before its beginning.
        let from = from.max(forgotten.begins_behind);
        let (folder, id) = (self.audit_folder.clone(), node.id.clone());
        let in_store = heard.members.iter().find(|member| member.node == node.id).map(|member| member.highest.as_u64());
        let looking = tokio::task::spawn_blocking(move || {
            // What this journal has behind another history is the store's, and what the store has of this gate.
            let from = another_history(&folder, &id, environment)?.max(from).max(in_store.unwrap_or_default());
            has_own_within(&folder, &id, environment, (from, known))
        });
        let found = looking.await.map_err(|error| StoreFault::Away(error.to_string()))?;
        let found = found.map_err(|error| StoreFault::Away(format!("the journal cannot be read: {error}")))?;
        Ok(found.then_some(from))
    }

    /// Returns what closes money, as the store has it, and the commit that did so.
    async fn closing(
        &self,
        store: &RedisStore,
        environment: Environment,
    ) -> Result<(Option<Number>, Forgotten), StoreFault> {
        let key = Freeze::Restored.key(environment);
        let (mut record, _) = store.read(&key).await?;
        if let Some(record) = &mut record
            && let Content::Whole(sealed) = &record.content
        {
            record.content = Content::Whole(self.seals.open(&key, sealed.clone())?);
        }
        Ok(Forgotten::of_record(record))
    }

    /// Closes money, and goes on behind the store's last number. `awaited_from` is the number behind which the store lacks
    /// what this journal has, where that is known.
    pub(super) async fn closes_for_another_history(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
        awaited_from: Option<u64>,
    ) -> Result<(), StoreFault> {
        self.store.waits(environment);
        node.fresh.are_lost(environment);
        let kept = node.audit.highest(environment);
        let known = heard.members.iter().find(|member| member.node == node.id).map(|member| member.kept);
        // Of a journal that told of the number itself, it is not known where the two begin to differ.
        let told = known.filter(|known| *known < kept).unwrap_or_default().as_u64();
        let from = awaited_from.unwrap_or(told);
        let is_uncompared = heard.verdict == HeartbeatVerdict::Uncompared;
        let why = histories_in_words(&node.id, is_uncompared.then_some(kept), Number::new(from));
        tracing::error!(
            %environment,
            from,
            why,
            "this Redis lacks what this journal has, or may lack it: money is closed until a person opens it; find out from \
             upstream's records what was paid meanwhile, then `sluice unfreeze --restored --environment ENVIRONMENT \
             --reason TEXT`"
        );
        let closing = self.close_awaiting(node, environment, (from, kept), &why).await?;
        // The closing is the first entry that this journal has of the store's history.
        let behind = Number::new(closing.as_u64().saturating_sub(1));
        // A store that is lost before its journal has it would be rebuilt without it.
        let first = self.store.without_node().outbox_for_journal(environment, behind, 1).await?;
        let away = |fault: AuditFault| StoreFault::Away(fault.to_string());
        node.audit.begin_again(environment, behind).await.map_err(away)?;
        node.audit.append(first).await.map(drop).map_err(away)
    }

    /// Closes money until a person opens it and this node has told its claims behind a number. Returns the number of the
    /// closing, which is behind all that this journal has.
    async fn close_awaiting(
        &self,
        node: &Node,
        environment: Environment,
        (from, kept): (u64, Number),
        why: &str,
    ) -> Result<Number, StoreFault> {
        // As a node, this gate does nothing with the store before it has the same history.
        let store = self.store.without_node();
        let mut retry = Retry::default();
        loop {
            let (before, mut forgotten) = self.closing(&store, environment).await?;
            let is_awaited = forgotten.nodes.get(&node.id).is_some_and(|known| *known <= from);
            if let Some(version) = before.filter(|version| is_awaited && forgotten.by_person && *version > kept) {
                return Ok(version);
            }
            let (nodes, lacks_up_to) = ([(node.id.clone(), from)].into(), kept.as_u64());
            forgotten.awaits_also(&Forgotten { nodes, lacks_up_to, ..Forgotten::default() });
            let commit = claim::closed_for_gap(environment, before, forgotten, why, &node.id);
            match store.commit(self.seals.sealed_commit(commit)?).await {
                Ok(receipt) => return Ok(receipt.number()),
                Err(CommitError::Fault(fault)) => return Err(fault),
                Err(CommitError::Rejected { .. }) => retry.conflict().await?,
            }
        }
    }
}

/// Says how the journal of a gate differs from the store; `uncompared` is the number with which it ends where nobody can
/// compare the two. They differ behind a number, which is 0 where it is not known.
fn histories_in_words(node: &NodeId, uncompared: Option<Number>, from: Number) -> String {
    let known = (from > Number::default()).then(|| format!("behind number {from}"));
    let why = match (uncompared, known) {
        (Some(kept), known) => {
            let part = known.map_or_else(String::new, |behind| format!(" {behind}"));
            format!(
                "`{node}` came after the entry had left the outbox with which its journal ends, number {kept}: whether the store \
                 has what this journal has{part} cannot be compared any more"
            )
        }
        (None, Some(behind)) => {
            format!("two Redis were used: the journal of `{node}` has other entries {behind} than the store")
        }
        (None, None) => format!(
            "two Redis were used: the journal of `{node}` has other entries than the store, and it is not known from which number on"
        ),
    };
    format!("{why}. Their holds, and what calls without a requestId used of limits, are not known to it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_nobody_knows_is_not_told() {
        let node = NodeId::parse("left").unwrap();
        for (uncompared, from, expected) in [
            (None, 7, "has other entries behind number 7 than the store. Their holds"),
            (None, 0, "has other entries than the store, and it is not known from which number on. Their holds"),
            (Some(9), 7, "ends, number 9: whether the store has what this journal has behind number 7 cannot"),
            (Some(9), 0, "ends, number 9: whether the store has what this journal has cannot be compared"),
        ] {
            let told = histories_in_words(&node, uncompared.map(Number::new), Number::new(from));
            assert!(told.contains(expected), "{told}");
        }
    }
}
