//! Closes money at a start where store and journal together do not hold all that happened.
//!
//! A store that ends before the journal was built anew from it. Where the journal ends before the store without the store's
//! outbox holding the rest, something is missing that nobody here can know: money stays closed until a person, who finds
//! out about the missing part, opens it.

use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::{CommitError, NodeId, Number, StoreFault};
use crate::ports::Store;
use crate::stations::claim::{self, Freeze};

/// Checks before anything is served. `needs_journal` says that the store's last commits may be in the journal alone.
pub async fn close_if_incomplete(
    store: &dyn Store,
    journal: &Highest,
    node: &NodeId,
    needs_journal: bool,
) -> Result<(), StoreFault> {
    let is_journal_lost = needs_journal && journal.values().all(|highest| *highest == 0) && has_commits(store).await?;
    for environment in Environment::ALL {
        let highest = journal.get(&environment).copied().unwrap_or(0);
        let missing = match is_journal_lost {
            true => Some(
                "the gate was killed, and the journal is gone that alone had its last calls: the store may have forgotten some"
                    .to_owned(),
            ),
            false => missing_in_journal(store, environment, highest).await?,
        };
        let Some(why) = missing else { continue };
        tracing::error!(
            %environment,
            why,
            "money is closed: find out what is missing (`sluice audit verify`, upstream's records), then open it with \
             `sluice unfreeze --restored`"
        );
        close(store, environment, Number::new(highest), &why, node).await?;
    }
    Ok(())
}

async fn has_commits(store: &dyn Store) -> Result<bool, StoreFault> {
    for environment in Environment::ALL {
        if store.last(environment).await?.as_u64() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the journal lacks entries that the store once saw on its disk. A journal without any entry is another one:
/// its gate may pay, as the store is whole.
async fn missing_in_journal(
    store: &dyn Store,
    environment: Environment,
    highest: u64,
) -> Result<Option<String>, StoreFault> {
    let last = store.last(environment).await?.as_u64();
    if last <= highest {
        return Ok(None);
    }
    if highest == 0 {
        tracing::warn!(
            %environment,
            store = last,
            "the journal is new, but the store knows earlier calls: if the audit folder was lost, this store cannot be \
             rebuilt without it; restore the folder, or keep its last copy"
        );
        return Ok(None);
    }
    let first = store.outbox(environment, Number::new(highest), 1).await?.first().map(|entry| entry.number.as_u64());
    let is_whole = first == Some(highest.saturating_add(1));
    Ok((!is_whole).then(|| {
        let lost = first.map_or(last, |first| first.saturating_sub(1));
        format!("the journal was cut: it ends at {highest}, and the store knows entries up to {lost} that were in it")
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

    fn journal(highest: u64) -> Highest {
        Highest::from([(PRODUCTION, highest)])
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
    async fn a_journal_that_was_cut_closes_money_and_a_new_one_does_not() {
        let (store, node) = with_commits(5).await;
        for whole in [0, 5] {
            close_if_incomplete(&store, &journal(whole), &node, whole > 0).await.unwrap();
            assert!(!is_closed(&store).await, "{whole}");
        }
        // Entries 4 and 5 wait in the outbox; entry 3 was on disk.
        store
            .kept(PRODUCTION, &Sender::parse(&format!("gate/{}", "0".repeat(32))).unwrap(), Number::new(3))
            .await
            .unwrap();
        close_if_incomplete(&store, &journal(3), &node, true).await.unwrap();
        assert!(!is_closed(&store).await);
        close_if_incomplete(&store, &journal(2), &node, false).await.unwrap();
        assert!(is_closed(&store).await);
    }

    #[tokio::test]
    async fn a_lost_journal_closes_money_if_it_alone_had_the_last_calls() {
        let (store, node) = with_commits(0).await;
        close_if_incomplete(&store, &journal(0), &node, true).await.unwrap();
        assert!(!is_closed(&store).await, "nothing was ever sent");
        let (store, node) = with_commits(1).await;
        close_if_incomplete(&store, &journal(0), &node, true).await.unwrap();
        assert!(is_closed(&store).await);
    }
}
