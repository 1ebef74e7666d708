//! Compares the indexes of a Redis, and its list of windows, with those that this gate's journal has.
//!
//! A member holds no content, so nothing proves it: somebody who writes the store can plant one, or remove one, and a hold or
//! a doubt would be found by nobody. A member that differs is reported like a commit that contradicts the journal; so is a
//! window that counts and is not in the list, for people would be told that nothing of its limit is used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Node;
use super::membership::{Membership, POLL_INTERVAL};
use crate::base::ids::Environment;
use crate::ledger::{Index, Number, StoreFault, WindowKey, WindowSpan};
use crate::ports::Store as _;

/// The pause between two comparisons.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
/// An index with more members is not compared, nor are more windows.
const MAX_MEMBERS: usize = 4_096;
/// How long the journal may take to have what the store has.
const CATCH_UP: Duration = Duration::from_secs(2);
/// The indexes that lead to money. Members of others leave by themselves, or every commit that asks for them is repeated by
/// the journal.
const COMPARED: [Index; 6] = [Index::Sending, Index::Unknown, Index::Frozen, Index::Held, Index::Approved, Index::Gone];

impl Membership {
    /// Compares the indexes as long as the process lives.
    pub(super) async fn watch_indexes(&self, node: &Node) {
        loop {
            tokio::time::sleep(COMPARE_INTERVAL).await;
            for environment in &self.served {
                for index in COMPARED {
                    if let Err(fault) = self.compare_index(node, *environment, index).await {
                        tracing::debug!(%environment, %fault, "an index cannot be compared with the journal");
                    }
                }
                if let Err(fault) = self.compare_windows(node, *environment).await {
                    tracing::debug!(%environment, %fault, "the windows cannot be compared with the journal");
                }
            }
        }
    }

    /// Finds a window that counts and that the store does not list. One is enough: the store is rebuilt whole.
    async fn compare_windows(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        let known = self.replica.windows(environment, MAX_MEMBERS)?;
        let listed = self.store.windows(environment, None, MAX_MEMBERS).await?;
        if listed.len() == MAX_MEMBERS {
            return Ok(());
        }
        let listed: BTreeSet<WindowKey> = listed.into_iter().collect();
        for window in known.into_iter().filter(|window| !listed.contains(window)) {
            // Since the list was read, it may have been opened; a window without reservations is in no list.
            let counts = self.store.used(environment, &window, WindowSpan::ALWAYS).await? > 0;
            let listed = self.store.windows(environment, Some(&window.limit), MAX_MEMBERS).await?;
            let is_lost = counts && listed.len() < MAX_MEMBERS && !listed.contains(&window);
            if is_lost && self.store.used(environment, &window, WindowSpan::ALWAYS).await? > 0 {
                let why = format!("a window of the limit `{}` was removed from the list of windows", window.limit);
                node.contradicted(environment, None, &why);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn compare_index(&self, node: &Node, environment: Environment, index: Index) -> Result<(), StoreFault> {
        // A journal that begins in the middle does not know what was before.
        if self.replica.begin(environment)? > Number::default() {
            return Ok(());
        }
        let found = self.store.due(environment, index, None, MAX_MEMBERS).await?;
        let known = self.replica.due(environment, index, MAX_MEMBERS)?;
        if found.len().max(known.len()) == MAX_MEMBERS {
            return Ok(());
        }
        let by_name =
            |members: Vec<_>| members.into_iter().map(|(due, name)| (name, due)).collect::<BTreeMap<String, _>>();
        let (found, known) = (by_name(found), by_name(known));
        let names: BTreeSet<&String> = found.keys().chain(known.keys()).collect();
        for name in names.into_iter().filter(|name| found.get(*name) != known.get(*name)) {
            if self.is_member_changed(node, environment, index, name).await? {
                let what = if known.contains_key(name) { "was removed or moved" } else { "was planted" };
                node.contradicted(environment, None, &format!("a member of the index `{}` {what}", index.as_str()));
            }
        }
        Ok(())
    }

    /// Whether a member is in the store otherwise than the journal has it, once the journal has all that the store had.
    async fn is_member_changed(
        &self,
        node: &Node,
        environment: Environment,
        index: Index,
        name: &str,
    ) -> Result<bool, StoreFault> {
        let found = self.store.member(environment, index, name).await?;
        let last = self.store.last(environment).await?;
        let until = node.clock.elapsed().saturating_add(CATCH_UP);
        while self.replica.last(environment)? < last {
            if node.clock.elapsed() > until {
                return Ok(false);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let known = self.replica.member(environment, index, name)?;
        // Where no commit touched it meanwhile, both are the same.
        Ok(found != known && self.store.member(environment, index, name).await? == found)
    }
}
