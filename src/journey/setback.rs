//! A store that was set back or emptied, which the audit chain of this node proves: money stays closed until a person
//! who knows what became of the rest opens it.

use crate::base::ids::Environment;
use crate::chain::Highest;
use crate::commit::{CommitError, NodeId, Number, StoreFault};
use crate::ports::Store;
use crate::stations::claim::{self, Freeze};

const WHY: (&str, &str) = ("sluice serve", "the audit chain tells of more than the store knows");

/// Before anything is served. `stood`: the highest numbers in the chain.
pub async fn close_if_set_back(store: &dyn Store, stood: &Highest, node: &NodeId) -> Result<(), StoreFault> {
    for (environment, highest) in stood {
        let last = store.last(*environment).await?.as_u64();
        if *highest > last {
            close(store, *environment, Number::new(*highest), node).await?;
            tracing::error!(
                %environment,
                store = last,
                chain = highest,
                "the store was set back or emptied: the audit chain of this node tells of later calls; money is closed. Put \
                 the right store back, or find out what the store does not know (`sluice audit verify`, upstream's records) \
                 and then open money with `sluice unfreeze --restored`"
            );
        }
    }
    Ok(())
}

/// In one commit with the number that goes on behind the chain: so it is not half done.
async fn close(store: &dyn Store, environment: Environment, above: Number, node: &NodeId) -> Result<(), StoreFault> {
    let (before, _) = store.read(&Freeze::Restored.key(environment)).await?;
    let before = before.map(|record| record.version);
    match store.commit(claim::restored(environment, before, above, WHY, node)).await {
        Ok(_) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault),
        Err(CommitError::Stood { .. }) => Err(StoreFault::Away("its freeze stands in the way".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::adapters::store::memory::Memory;
    use crate::commit::Commit;

    const PRODUCTION: Environment = Environment::Production;

    async fn is_closed(store: &Memory) -> bool {
        store.read(&Freeze::Restored.key(PRODUCTION)).await.unwrap().0.is_some()
    }

    #[tokio::test]
    async fn a_store_behind_the_chain_is_closed_once_and_counts_on_behind_it() {
        let (store, node) = (Memory::new(Arc::new(SystemClock)), NodeId::parse("gate").unwrap());
        let entry = Bytes::from_static(b"{}");
        store.commit(Commit { environment: PRODUCTION, node: node.clone(), steps: vec![], entry }).await.unwrap();
        close_if_set_back(&store, &Highest::from([(PRODUCTION, 1)]), &node).await.unwrap();
        assert!(!is_closed(&store).await);
        for (chain, last) in [(7, 8), (8, 8), (20, 21)] {
            close_if_set_back(&store, &Highest::from([(PRODUCTION, chain)]), &node).await.unwrap();
            assert!(is_closed(&store).await);
            assert_eq!(store.last(PRODUCTION).await.unwrap().as_u64(), last);
        }
    }
}
