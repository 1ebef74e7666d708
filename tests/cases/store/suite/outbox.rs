//! Entries that wait to be on disk.

use sluice::base::ids::Environment;
use sluice::commit::{Commit, NodeId, Number, Outstanding};

use super::super::Subject;
use super::super::asked::*;

pub async fn entries_wait_for_their_node_until_drained(subject: &Subject) {
    let store = &*subject.store;
    let other = NodeId::parse("node-2").unwrap();
    let numbers = |entries: &[Outstanding]| entries.iter().map(|entry| entry.number.as_u64()).collect::<Vec<_>>();
    for at in 1..=700_u32 {
        let node = if at.is_multiple_of(2) { node() } else { other.clone() };
        let entry = bytes(&format!("{{\"at\":{at}}}"));
        store.commit(Commit { node, entry, ..commit(vec![]) }).await.unwrap();
    }
    let all = store.outbox(ENVIRONMENT, &node(), usize::MAX).await.unwrap();
    assert_eq!(numbers(&all), (1..=350).map(|at| at * 2).collect::<Vec<u64>>());
    assert_eq!(all[0].entry, bytes("{\"at\":2}"));
    assert_eq!((all[0].environment, &all[0].node), (ENVIRONMENT, &node()));
    assert_eq!(all[0].at, store.time().await.unwrap());
    assert_eq!(store.outbox(ENVIRONMENT, &node(), 3).await.unwrap(), all[..3]);
    assert_eq!(store.outbox(Environment::Production, &node(), 3).await.unwrap(), []);

    let drained: Vec<Number> = all[..349].iter().map(|entry| entry.number).collect();
    for _ in 0..2 {
        store.drained(ENVIRONMENT, &drained).await.unwrap();
        assert_eq!(numbers(&store.outbox(ENVIRONMENT, &node(), 9).await.unwrap()), [700]);
    }
    assert_eq!(store.outbox(ENVIRONMENT, &other, usize::MAX).await.unwrap().len(), 350);
    store.drained(ENVIRONMENT, &[]).await.unwrap();
}

/// As they were committed, under the name of who did.
pub async fn what_is_left_by_nodes_that_are_gone_is_taken_over(subject: &Subject) {
    let store = &*subject.store;
    let gone = NodeId::parse("gone").unwrap();
    for node in [gone.clone(), node(), gone.clone(), gone.clone()] {
        store.commit(Commit { node, ..commit(vec![]) }).await.unwrap();
    }
    let left = store.outbox(ENVIRONMENT, &gone, usize::MAX).await.unwrap();
    assert_eq!(left.len(), 3);
    assert_eq!(store.take_over(ENVIRONMENT, &node(), 2).await.unwrap(), left[..2]);
    assert_eq!(store.take_over(Environment::Production, &node(), 9).await.unwrap(), []);
    // Until they are on disk they are there for whoever comes.
    assert_eq!(store.take_over(ENVIRONMENT, &node(), 9).await.unwrap(), left);
    let numbers: Vec<Number> = left.iter().map(|entry| entry.number).collect();
    store.drained(ENVIRONMENT, &numbers).await.unwrap();
    assert_eq!(store.take_over(ENVIRONMENT, &node(), 9).await.unwrap(), []);
    assert_eq!(store.outbox(ENVIRONMENT, &node(), 9).await.unwrap().len(), 1);
}
