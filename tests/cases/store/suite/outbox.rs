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
