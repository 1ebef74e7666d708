//! Closes money at a start where store and journal together do not hold all that happened, or nobody can tell.
//!
//! A store that ends before the journal was built anew from it. Where the journal ends before the store without the store's
//! outbox holding the rest, or before what its gate noted of it, something is missing that nobody here can know. A journal
//! that is a copy may be an older one, and the store beside it may be as old. Then money stays closed until a person, who
//! finds out about the missing part, opens it.

use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::{CommitError, NodeId, Number, StoreFault};
use crate::ports::Store;
use crate::stations::claim::{self, Freeze};

/// The journal of an embedded store, as a start found it.
#[derive(Clone, Debug, Default)]
pub struct JournalAtStart {
    /// The highest number of each environment.
    pub highest: Highest,
    /// Whether the store's last commits may be in the journal alone: its gate was killed.
    pub is_needed: bool,
    /// Whether its folder was copied since a gate last started with it. A new one is no copy.
    pub is_copy: bool,
    /// Why it is not what its gate noted of it.
    pub shortfall: Option<String>,
}

impl JournalAtStart {
    /// Returns why this journal does not tell whether the store is the newest.
    fn doubt(&self) -> Option<String> {
        let is_empty = self.highest.values().all(|highest| *highest == 0);
        match &self.shortfall {
            Some(why) => Some(format!("the journal was cut, is an older copy, or is not the one of the last start: {why}")),
            None if is_empty && self.is_needed => Some(
                "the gate was killed, and the journal is gone that alone had its last calls: the store may have forgotten some"
                    .to_owned(),
            ),
            None if self.is_copy => Some(
                "the audit folder is a copy, and whether it and the store beside it are the newest is not known".to_owned(),
            ),
            None => None,
        }
    }
}

/// Checks before anything is served.
pub async fn close_if_incomplete(store: &dyn Store, journal: &JournalAtStart, node: &NodeId) -> Result<(), StoreFault> {
    for environment in Environment::ALL {
        let highest = journal.highest.get(&environment).copied().unwrap_or(0);
        let last = store.last(environment).await?.as_u64();
        let missing = match journal.doubt() {
            // Nothing was ever sent, unless both were put back to before that.
            Some(_) if last == 0 && highest == 0 && !journal.is_copy => None,
            Some(why) => Some(why),
            None => missing_in_journal(store, environment, highest, last).await?,
        };
        let Some(why) = missing else { continue };
        tracing::error!(
            %environment,
            why,
            "money is closed: find out what is missing (`sluice audit verify`, upstream's records), then open it with \
             `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
        );
        close(store, environment, Number::new(highest), &why, node).await?;
    }
    Ok(())
}

/// Whether the journal lacks entries that the store once saw on its disk.
async fn missing_in_journal(
    store: &dyn Store,
    environment: Environment,
    highest: u64,
    last: u64,
) -> Result<Option<String>, StoreFault> {
    if last <= highest {
        return Ok(None);
    }
    let first = store.outbox(environment, Number::new(highest), 1).await?.first().map(|entry| entry.number.as_u64());
    if first == Some(highest.saturating_add(1)) {
        return Ok(None);
    }
    let lost = first.map_or(last, |first| first.saturating_sub(1));
    Ok(Some(match highest {
        0 => format!(
            "the journal is new, and the store knows entries up to {lost} that were in another one: whether the store is the \
             newest is not known"
        ),
        _ => format!(
            "the journal was cut: it ends at {highest}, and the store knows entries up to {lost} that were in it"
        ),
    }))
}

/// Closes money and lifts the number above the journal in one commit.
async fn close(
    store: &dyn Store,
    environment: Environment,
    above: Number,
    why: &str,
    node: &NodeId,
) -> Result<(), StoreFault> {
    let (before, _) = store.read(&Freeze::Restored.key(environment)).await?;
    let before = before.map(|record| record.version);
    match store.commit(claim::restored(environment, before, above, ("sluice serve", why), node)).await {
        Ok(_) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault),
        Err(CommitError::Rejected { .. }) => Err(StoreFault::Away("the environment is already frozen".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::adapters::store::memory::MemoryStore;
    use crate::ledger::{Commit, Sender};

    const PRODUCTION: Environment = Environment::Production;

    async fn is_closed(store: &MemoryStore) -> bool {
        store.read(&Freeze::Restored.key(PRODUCTION)).await.unwrap().0.is_some()
    }

    fn journal(highest: u64) -> JournalAtStart {
        JournalAtStart { highest: Highest::from([(PRODUCTION, highest)]), ..JournalAtStart::default() }
    }

    async fn with_commits(count: u64) -> (MemoryStore, NodeId) {
        let (store, node) = (MemoryStore::new(Arc::new(SystemClock)), NodeId::parse("gate").unwrap());
        for _ in 0..count {
            let entry = Bytes::from_static(b"{}");
            store.commit(Commit { environment: PRODUCTION, node: node.clone(), steps: vec![], entry }).await.unwrap();
        }
        (store, node)
    }

    #[tokio::test]
    async fn a_journal_that_was_cut_closes_money_and_one_that_the_outbox_completes_does_not() {
        let (store, node) = with_commits(5).await;
        for whole in [0, 5] {
            close_if_incomplete(&store, &journal(whole), &node).await.unwrap();
            assert!(!is_closed(&store).await, "{whole}");
        }
        // Entries 4 and 5 wait in the outbox; entry 3 was on disk.
        store
            .kept(PRODUCTION, &Sender::parse(&format!("gate/{}", "0".repeat(32))).unwrap(), Number::new(3))
            .await
            .unwrap();
        close_if_incomplete(&store, &JournalAtStart { is_needed: true, ..journal(3) }, &node).await.unwrap();
        assert!(!is_closed(&store).await);
        close_if_incomplete(&store, &journal(2), &node).await.unwrap();
        assert!(is_closed(&store).await);
    }

    #[tokio::test]
    async fn a_new_journal_closes_money_if_the_store_had_another_one() {
        let (store, node) = with_commits(5).await;
        store
            .kept(PRODUCTION, &Sender::parse(&format!("gate/{}", "0".repeat(32))).unwrap(), Number::new(5))
            .await
            .unwrap();
        close_if_incomplete(&store, &journal(0), &node).await.unwrap();
        assert!(is_closed(&store).await);
    }

    #[tokio::test]
    async fn a_journal_that_may_be_older_than_the_calls_closes_money() {
        let doubted = [
            JournalAtStart { is_needed: true, ..journal(0) },
            JournalAtStart { is_copy: true, ..journal(1) },
            JournalAtStart { shortfall: Some("it ends in file 1 at line 2".to_owned()), ..journal(1) },
        ];
        for journal in doubted {
            let (store, node) = with_commits(0).await;
            let never = JournalAtStart { highest: Highest::new(), ..journal.clone() };
            close_if_incomplete(&store, &never, &node).await.unwrap();
            let is_doubted = journal.is_copy;
            assert_eq!(is_closed(&store).await, is_doubted, "nothing was sent, as far as is known: {journal:?}");
            let (store, node) = with_commits(1).await;
            close_if_incomplete(&store, &journal, &node).await.unwrap();
            assert!(is_closed(&store).await, "{journal:?}");
        }
    }
}
