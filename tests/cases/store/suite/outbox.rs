//! Entries that wait to be on disk.

use sluice::audit::split_steps;
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, NodeId, Number, Outstanding};

use super::super::Subject;
use super::super::asked::*;

pub async fn entries_of_all_nodes_wait_in_order_until_they_are_kept(subject: &Subject) {
    let store = &*subject.store;
    let other = NodeId::parse("node-2").unwrap();
    let numbers = |entries: &[Outstanding]| entries.iter().map(|entry| entry.number.as_u64()).collect::<Vec<_>>();
    for at in 1..=700_u32 {
        let node = if at.is_multiple_of(2) { node() } else { other.clone() };
        let entry = bytes(&format!("{{\"at\":{at}}}"));
        store.commit(Commit { node, entry, ..commit(vec![]) }).await.unwrap();
    }
    let all = outbox(store).await;
    assert_eq!(numbers(&all), (1..=700).collect::<Vec<u64>>());
    // A store that seals puts the steps of each commit into its entry.
    assert_eq!(split_steps(&all[1].entry).unwrap().bare, b"{\"at\":2}");
    assert_eq!((all[0].environment, &all[0].node, &all[1].node), (ENVIRONMENT, &other, &node()));
    assert_eq!(all[699].at, store.time().await.unwrap());
    assert_eq!(store.outbox(ENVIRONMENT, Number::new(349), 3).await.unwrap(), all[349..352]);
    assert_eq!(store.outbox(ENVIRONMENT, Number::new(700), 3).await.unwrap(), []);
    assert_eq!(store.outbox(Environment::Production, Number::new(0), 3).await.unwrap(), []);

    for up_to in [699, 699, 5] {
        store.kept(ENVIRONMENT, &journal(), Number::new(up_to)).await.unwrap();
        assert_eq!(numbers(&outbox(store).await), [700]);
    }
    store.kept(Environment::Production, &journal(), Number::new(700)).await.unwrap();
    assert_eq!(numbers(&outbox(store).await), [700]);
}
