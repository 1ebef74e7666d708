//! A gate tells a store what it lacks and this gate's journal has, as long as the store waits for it, or was rebuilt from a
//! journal that begins later.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Node;
use super::membership::Membership;
use super::node_facts::{NodeFacts, came_with, stated_lately};
use super::recovery::{RecoveryError, brought, must_be_opened, opened_beginning, remember, told_of};
use crate::adapters::audit::{files_begin, may_have_lacking};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault};
use crate::stations::claim::Forgotten;

impl Membership {
    /// Has the store rebuilt from this node's journal, if that reaches further than the one from which it was rebuilt.
    async fn tell_a_fuller_journal(
        &self,
        node: &Node,
        environment: Environment,
        waits: &Forgotten,
    ) -> Result<(), StoreFault> {
        let Some(used) = waits.known_up_to else { return Ok(()) };
        let knows = self.knows_up_to(node, environment)?;
        let begin = self.replica.begin(environment)?.as_u64();
        let begins_earlier = begin < waits.begins_behind;
        if knows.as_u64() < used {
            // The journal from which the store was rebuilt lacks what this one has of the time before its beginning.
            let joins = begins_earlier && waits.begins_behind <= knows.as_u64();
            if joins && self.is_known_to_another(environment, used).await? {
                return self.has_it_rebuilt(environment, knows, used).await;
            }
            return Ok(());
        }
        if knows.as_u64() == used && !begins_earlier {
            return Ok(());
        }
        if begin > waits.begins_behind.max(opened_beginning(node, environment).await?) {
            // The claims that it has are told; a rebuild from it would lose all that was before.
            let why = format!(
                "a journal that begins behind number {begin} and knows more than the one from which the store was rebuilt: what it \
                 has {} of holds, and of limits for calls without a requestId, is not known",
                Number::new(used).behind_in_words()
            );
            return must_be_opened(node, environment, &came_with(&node.id, &why)).await;
        }
        self.has_it_rebuilt(environment, knows, used).await
    }

    async fn has_it_rebuilt(&self, environment: Environment, knows: Number, used: u64) -> Result<(), StoreFault> {
        tracing::warn!(
            %environment,
            up_to = knows.as_u64(),
            from = used,
            "this journal knows what the one from which the store was rebuilt does not: the store is rebuilt again"
        );
        self.store.lose(environment).await?;
        Err(StoreFault::Away("the store is rebuilt again, from a journal that knows more".to_owned()))
    }

    /// Whether another gate runs whose journal knows as much as the store.
    async fn is_known_to_another(&self, environment: Environment, used: u64) -> Result<bool, StoreFault> {
        let heard = self.store.roll(environment).await?;
        let knows = |facts: NodeFacts| facts.knows_up_to.as_u64() >= used;
        Ok(heard.members.iter().any(|member| stated_lately(&heard, member).is_some_and(knows)))
    }

    /// Tells a store what this node's journal has, and returns whether all of it was told.
    pub(super) async fn reports(
        &self,
        node: &Arc<Node>,
        environment: Environment,
        waits: &Forgotten,
        from: u64,
    ) -> bool {
        let own = || Some(self.replica.committed(environment).ok()?.get(&node.id)?.as_u64());
        let made = waits.made.get(&node.id).copied().unwrap_or_default();
        if self.is_copy.load(Ordering::Acquire) && own().unwrap_or_default() < made {
            // Of an original, the disk would never have had the rest, so that it was never sent.
            let why = format!(
                "a copy of its audit folder that ends with its commit {}, and others know of its commit {made}: the copy was cut, \
                 or is an old one",
                own().unwrap_or_default()
            );
            if let Err(fault) = must_be_opened(node, environment, &came_with(&node.id, &why)).await {
                node.told_of(&fault);
                return false;
            }
        } else if let Err(fault) = self.tell_a_fuller_journal(node, environment, waits).await {
            node.told_of(&fault);
            return false;
        }
        // The entry of the rebuild comes first: this replica may take the snapshot in that was shown with it.
        if let Err(error) = brought(node, environment).await {
            told_of(node, environment, &error);
            return false;
        }
        if let Err(error) = self.ends_without(node, environment, waits, from).await {
            told_of(node, environment, &error);
            return false;
        }
        match remember(node, environment, (from, waits), (&self.audit_folder, &self.seals)).await {
            Ok(claims) => {
                tracing::warn!(%environment, claims, from, "the store has again what this node's audit log holds");
                true
            }
            Err(error) => {
                told_of(node, environment, &error);
                false
            }
        }
    }

    /// The store goes on without commits that this node's journal has behind a number: what they did does not count any more.
    async fn ends_without(
        &self,
        node: &Arc<Node>,
        environment: Environment,
        waits: &Forgotten,
        from: u64,
    ) -> Result<(), RecoveryError> {
        let was_whole = self.replica.was_whole_since(environment, Number::new(waits.lacks_up_to))?;
        if was_whole && !waits.nodes.contains_key(&node.id) {
            return Ok(());
        }
        let (folder, id, within) = (self.audit_folder.clone(), node.id.clone(), (from, waits.lacks_up_to));
        let looking = tokio::task::spawn_blocking(move || may_have_lacking(&folder, &id, environment, within));
        let may_have = looking.await.map_err(|error| RecoveryError::Files(std::io::Error::other(error)))?;
        if may_have.map_err(RecoveryError::Files)? {
            // Votes and rejections may be among them. Holds end first: afterwards nothing shows that there were such commits.
            node.forget_holds(environment).await?;
            if !was_whole {
                self.replica.forget(environment, node.audit.highest(environment))?;
            }
        }
        Ok(())
    }

    /// Returns the number behind which this gate tells what its journal has; `None` if the store needs nothing of it.
    ///
    /// A store that was rebuilt from a journal which begins later lacks all that was before, whatever it knows of this gate's
    /// commits. The files may have it where the replica of this gate has forgotten it, or was replaced by the store's snapshot.
    pub(super) fn must_tell_from(
        &self,
        node: &Node,
        environment: Environment,
        waits: &Forgotten,
    ) -> Result<Option<u64>, StoreFault> {
        let awaited = waits.nodes.get(&node.id).copied();
        let has_told = self.told_before.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).copied();
        if waits.begins_behind == 0 || has_told == Some(waits.begins_behind) {
            return Ok(awaited);
        }
        let begin = files_begin(&self.audit_folder, &node.id, environment);
        let begin = begin.map_err(|error| StoreFault::Away(format!("the journal cannot be read: {error}")))?;
        let begin = begin.min(self.replica.begin(environment)?.as_u64());
        let lacks_what_was_before = begin < waits.begins_behind;
        Ok(if lacks_what_was_before { Some(awaited.map_or(begin, |from| from.min(begin))) } else { awaited })
    }

    pub(super) fn has_told_before(&self, environment: Environment, waits: &Forgotten) {
        let mut told = self.told_before.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(environment, waits.begins_behind);
    }
}
