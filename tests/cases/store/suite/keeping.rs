//! How long records are kept.

use sluice::ledger::{ConflictCause, Content, Record, Step};

use super::super::Subject;
use super::super::asked::*;

async fn seen(subject: &Subject, name: &str) -> Option<Record> {
    subject.store.read(&claim(name)).await.unwrap().0
}

pub async fn whole_then_spent_then_gone(subject: &Subject) {
    let store = &*subject.store;
    let made = does(store, vec![create_for("a", secs(10), secs(20))]).await;
    let version = || Step::Version { key: claim("a"), version: made.number() };
    subject.clock.advance(secs(10) - micros(1));
    assert_eq!(whole(seen(subject, "a").await.unwrap()).unwrap(), "value");
    does(store, vec![version()]).await;

    subject.clock.advance(micros(1));
    let spent = Record { version: made.number(), at: made.at(), content: Content::Spent };
    assert_eq!(seen(subject, "a").await, Some(spent.clone()));
    let found = || vec![(0, ConflictCause::Record(spent.clone()))];
    for step in [version(), replace("a", made.number(), "two"), delete("a", made.number()), create("a", "two")] {
        assert_eq!(stands(store, vec![step]).await, found());
    }
    assert_eq!(stands(store, vec![Step::Absent(claim("a"))]).await, found());

    subject.clock.advance(secs(20) - micros(1));
    assert_eq!(seen(subject, "a").await, Some(spent.clone()));
    subject.clock.advance(micros(1));
    assert_eq!(seen(subject, "a").await, None);
    assert_eq!(stands(store, vec![version()]).await, [(0, ConflictCause::Nothing)]);
    does(store, vec![Step::Absent(claim("a"))]).await;
}

pub async fn sweeping_changes_nothing_that_is_seen(subject: &Subject) {
    let store = &*subject.store;
    does(store, vec![create_for("a", secs(10), secs(20)), create_for("b", secs(10), secs(0)), create("c", "one")])
        .await;
    assert_eq!(store.sweep().await.unwrap(), 0);
    subject.clock.advance(secs(10) - micros(1));
    assert_eq!(store.sweep().await.unwrap(), 0);
    subject.clock.advance(micros(1));
    let spent = seen(subject, "a").await;
    assert_eq!(seen(subject, "b").await, None);
    assert_eq!(store.sweep().await.unwrap(), 2);
    assert_eq!(seen(subject, "a").await, spent);
    assert_eq!(seen(subject, "b").await, None);
    assert_eq!(store.sweep().await.unwrap(), 0);
    subject.clock.advance(secs(20));
    assert_eq!(store.sweep().await.unwrap(), 1);
    assert_eq!(seen(subject, "a").await, None);
    assert_eq!(value(store, "c").await.unwrap(), "one");
    assert_eq!(store.sweep().await.unwrap(), 0);
}

pub async fn a_name_is_free_again_when_it_is_gone(subject: &Subject) {
    let store = &*subject.store;
    for swept in [false, true] {
        does(store, vec![create_for("a", secs(10), secs(20))]).await;
        subject.clock.advance(secs(30));
        if swept {
            assert_eq!(store.sweep().await.unwrap(), 1);
        }
        let again = does(store, vec![create("a", "new")]).await.number();
        // What the old one was to become does not happen to the new one.
        subject.clock.advance(secs(100));
        assert_eq!(store.sweep().await.unwrap(), 0);
        assert_eq!(value(store, "a").await.unwrap(), "new");
        does(store, vec![delete("a", again)]).await;
    }
    // A shorter time that became a longer one.
    let short = does(store, vec![create_for("a", secs(1), secs(1))]).await.number();
    does(store, vec![replace("a", short, "kept")]).await;
    subject.clock.advance(secs(100));
    assert_eq!(store.sweep().await.unwrap(), 0);
    assert_eq!(value(store, "a").await.unwrap(), "kept");
}

pub async fn sweeping_is_bounded(subject: &Subject) {
    let store = &*subject.store;
    for first in (0..1_200).step_by(100) {
        let steps = (first..first + 100).map(|at| create_for(&at.to_string(), secs(1), secs(0))).collect();
        does(store, steps).await;
    }
    subject.clock.advance(secs(1));
    let mut gone = 0;
    loop {
        let count = store.sweep().await.unwrap();
        assert!(count <= 500, "{count}");
        gone += count;
        if count == 0 {
            break;
        }
    }
    assert_eq!(gone, 1_200);
}
